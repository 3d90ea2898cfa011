"""`rageval evalset anchor`: replaces gold passages given by id or quotation by spans of a file."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from pytest_rageval.cli.console import echo, format_count, reason_lines
from pytest_rageval.cli.evalset_reading import read_evalset, refuse_existing
from pytest_rageval.cli.quotes import QuoteIndex, SearchableText
from pytest_rageval.datatypes import Document, EvalSet, Example, Gold, Span, excerpt
from pytest_rageval.evalsets.corpus import read_corpus
from pytest_rageval.evalsets.records import write_jsonl

__all__ = ["anchor", "anchor_command"]

MAX_PLACES: Final = 8  # places of one text that are kept: more would be no less ambiguous
REASONS_KEY: Final = "unanchored"  # the key of a left-over example's reasons


def anchor_command(options: argparse.Namespace) -> int:
    """Write the anchored examples, and the others to a second file; 1 if there are others."""
    out, rest = options.out, options.unanchored
    refuse_existing(
        [out, *([rest] if rest else [])], read=[options.file, options.corpus], force=options.force
    )
    evalset, _ = read_evalset(options)
    results = list(anchor(evalset, read_corpus(options.corpus)))
    anchored = [_with_reasons(result) for result in results if not result.doubts]
    left = [result for result in results if result.doubts]
    _write(out, anchored)
    if rest is not None:
        _write(rest, [_with_reasons(result) for result in left])
    bare = sum(not example.gold for example in anchored)
    echo(
        f"{out}: {format_count(len(anchored) - bare, 'example')} anchored"
        + (f", and {bare:,} without gold passages and answers" if bare else "")
        + ("" if anchored else ", nothing written")
        + (f"; {len(left):,} left over{f', in {rest}' if rest else ''}:" if left else "")
    )
    for line in reason_lines(doubt.why for result in left for doubt in result.doubts):
        echo(line)
    return int(bool(left))


class Doubt(NamedTuple):
    """The reason that a gold passage or an answer has no place, and at most eight places where it may be."""

    what: str
    why: str
    places: Sequence[Span] = ()


class Anchored(NamedTuple):
    """An example with a span in each gold passage; or unchanged, with doubts."""

    example: Example
    doubts: tuple[Doubt, ...]


def anchor(evalset: EvalSet, corpus: Iterable[Document]) -> Iterator[Anchored]:
    """Yield each example with the places of its gold passages.

    A gold passage with a span stays as it is. One with an id is at the passage of that id, or where its text
    occurs in it; one by text alone, or with an id that the corpus lacks, where its text occurs in the corpus.
    An example without gold passages gets one at each of its answers: each of `wanted` must have a single
    place, where a place within another one does not count. An example with neither stays as it is.

    Texts are found word for word (see `SearchableText`). A passage found nowhere or at several places gets none; nothing is
    guessed. In a corpus of passages, a text that spans two is not found.
    """
    places = _Places(evalset)
    for document in corpus:
        places.add(document)
    for example in evalset:
        golds, doubts = places.of_gold(example) if example.gold else places.of_answers(example)
        # Gold passages at one place would be the same passage twice, which no eval set may have.
        spans = [gold.span for gold in golds]
        for n, gold in enumerate(golds):
            if not doubts and gold.span in spans[:n]:
                doubts.append(Doubt(gold.label, "it is at the place of another of this example"))
        yield Anchored(example if doubts else replace(example, gold=tuple(golds)), tuple(doubts))


class _NoPlaceError(Exception):
    """Something has no single place; the arguments are the reason, and its possible places."""


Where = set[
    Span | None
]  # the places of a text in the corpus, at most eight known ones; None is an unknown one


def _known(places: Iterable[Span | None]) -> list[Span]:
    return sorted(place for place in places if place is not None)


def _only(places: Where) -> Span:
    known = _known(places)
    if len(known) > 1:
        files = {place.source for place in known}
        times = "in several files" if len(files) > 1 else "several times in one file"
        raise _NoPlaceError(f"its text occurs {times}", known)
    if None in places:
        raise _NoPlaceError("it is in a passage whose place in a file is not known", known)
    if not known:
        raise _NoPlaceError("its text is nowhere in the corpus")
    return known[0]


class _Places:
    def __init__(self, evalset: EvalSet) -> None:
        unanchored = [gold for example in evalset for gold in example.gold if gold.span is None]
        quotes = {gold.text for gold in unanchored if gold.text is not None}
        for example in evalset:
            if not example.gold:
                quotes.update(*example.wanted)
        # By id, the texts of passages by place.
        self._passages: dict[str, dict[Span | None, str]]
        self._passages = {gold.id: {} for gold in unanchored if gold.id is not None}
        self._quotes: dict[str, Where] = {quote: set() for quote in quotes}
        self._index = QuoteIndex(quotes)

    def add(self, document: Document) -> None:
        if document.id in self._passages:
            passage = self._passages[document.id]
            # Two texts at one place: without a source, the id is all that says where.
            if passage.setdefault(document.span, document.text) != document.text:
                passage[None] = document.text
        for quote, found in self._index.find_in(document.text):
            places = self._quotes[quote]
            for start, end in found:
                place = _place(document, start, end)
                if place is None or len(places - {None}) < MAX_PLACES:
                    places.add(place)

    def of_gold(self, example: Example) -> tuple[list[Gold], list[Doubt]]:
        golds, doubts = [], []
        for gold in example.gold:
            try:
                golds.append(gold if gold.span else self._anchored(gold))
            except _NoPlaceError as doubt:
                doubts.append(Doubt(gold.label, *doubt.args))
        return golds, doubts

    def of_answers(self, example: Example) -> tuple[list[Gold], list[Doubt]]:
        spans: dict[Span, None] = {}
        doubts = []
        for aliases in example.wanted:
            try:
                spans[_only(_merged([self._quotes[alias] for alias in aliases]))] = None
            except _NoPlaceError as doubt:
                doubts.append(Doubt(excerpt(aliases[0]), *doubt.args))
        return [_at(Gold(), span) for span in spans], doubts

    def _anchored(self, gold: Gold) -> Gold:
        passage = None if gold.id is None else self._passages[gold.id]
        if passage:
            return _anchored_by_id(gold, passage)
        if gold.text is None:
            raise _NoPlaceError("no passage has this id")
        return _at(gold, _only(self._quotes[gold.text]))


def _anchored_by_id(gold: Gold, passage: Mapping[Span | None, str]) -> Gold:
    known = _known(passage)
    if None in passage:
        raise _NoPlaceError("its place in a file is not known", known)
    if len(known) > 1:
        raise _NoPlaceError("several passages have this id", known)
    span, text = known[0], passage[known[0]]
    if gold.text is None:
        return _at(replace(gold, text=text), span)
    if gold.text.split() == text.split():
        return _at(gold, span)
    document = Document(text, span=span)
    places = {
        _place(document, start, end) for start, end in SearchableText(text).find(gold.text)[:MAX_PLACES]
    }
    if not places:
        raise _NoPlaceError("the passage of this id has another text")
    return _at(gold, _only(places))


def _merged(aliases: Sequence[Where]) -> Where:
    places = set().union(*aliases)
    # An alias with more places than are kept may be elsewhere too.
    if any(len(alias - {None}) >= MAX_PLACES for alias in aliases):
        return places
    known = _known(places)
    return places - {place for place in known for other in known if other != place and _within(place, other)}


def _within(inner: Span, outer: Span) -> bool:
    return inner.source == outer.source and outer.start <= inner.start and inner.end <= outer.end


def _place(document: Document, start: int, end: int) -> Span | None:
    span, text = document.span, document.text
    if span is None:
        return None
    if span.end - span.start == len(text):
        return Span(span.source, span.start + start, span.start + end)
    # White space was changed when the passage was cut: offsets within it mean nothing.
    return span if text[start:end] == text.strip() else None


def _at(gold: Gold, span: Span) -> Gold:
    return replace(gold, source=span.source, start=span.start, end=span.end)


def _write(path: Path, examples: Sequence[Example]) -> None:
    """Write the examples; if there are none, delete the file, which would be an earlier result."""
    if examples:
        write_jsonl(EvalSet(path.name, tuple(examples)), path)
    else:
        path.unlink(missing_ok=True)


def _with_reasons(result: Anchored) -> Example:
    """The example with the reasons of this run in place of those of an earlier one."""
    extra = {key: value for key, value in result.example.extra.items() if key != REASONS_KEY}
    if result.doubts:
        extra[REASONS_KEY] = [
            {"what": doubt.what, "why": doubt.why}
            | ({"places": [place._asdict() for place in doubt.places]} if doubt.places else {})
            for doubt in result.doubts
        ]
    return replace(result.example, extra=extra)
