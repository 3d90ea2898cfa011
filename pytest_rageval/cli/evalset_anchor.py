"""`rageval evalset anchor`: gold by id or quotation becomes gold by place in a file."""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_rageval.cli.evalset_reading import read_evalset
from pytest_rageval.cli.output import count, say
from pytest_rageval.cli.quotes import Quotable, Quotes
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.corpus import read_corpus
from pytest_rageval.evalsets.records import write_jsonl
from pytest_rageval.model import Document, EvalSet, Example, Gold, Span, excerpt

__all__ = ["Anchored", "Doubt", "anchor", "anchor_", "refuse_existing"]

ENOUGH: Final = 8
"""Places of one text that are kept: more are no less ambiguous."""


class Doubt(NamedTuple):
    """Why something has no place.

    Attributes:
        what: the gold passage or the answer.
        why: the reason, in words that are the same for all of its kind.
        places: where it may be, at most eight.
    """

    what: str
    why: str
    places: tuple[Span, ...] = ()


class Anchored(NamedTuple):
    """An example with the places of its gold passages, or what keeps it from having them.

    Attributes:
        example: with a span in each gold passage, if it has any; where there are doubts, as it was.
        doubts: none where each has its place.
    """

    example: Example
    doubts: tuple[Doubt, ...]


class _NoPlaceError(Exception):
    """Where something is cannot be said; the doubt."""

    def __init__(self, why: str, places: Iterable[Span] = ()) -> None:
        super().__init__(why)
        self.why = why
        self.places = tuple(sorted(places))


@dataclass(slots=True)
class _Passage:
    """What the corpus has under an id.

    Attributes:
        texts: by place; places that are not known are left out.
        lost: a passage has this id, and its place in a file is not known.
    """

    texts: dict[Span, str] = field(default_factory=dict)
    lost: bool = False


@dataclass(slots=True)
class _Quote:
    """Where a text stands in the corpus: at most eight places; and whether somewhere without a known place."""

    places: set[Span] = field(default_factory=set)
    lost: bool = False

    def add(self, place: Span | None) -> None:
        if place is None:
            self.lost = True
        elif len(self.places) < ENOUGH:
            self.places.add(place)

    def only(self) -> Span:
        """The one place.

        Raises:
            _NoPlaceError: there is none, or several.
        """
        if len(self.places) > 1:
            files = {place.source for place in self.places}
            times = "in several files" if len(files) > 1 else "several times in one file"
            raise _NoPlaceError(f"its text stands {times}", self.places)
        if self.lost:
            raise _NoPlaceError("it is in a passage whose place in a file is not known", self.places)
        if not self.places:
            raise _NoPlaceError("its text is nowhere in the corpus")
        return next(iter(self.places))


def anchor(evalset: EvalSet, corpus: Iterable[Document]) -> Iterator[Anchored]:
    """Each example, with places where they can be told.

    A gold passage with a span stays as it is. One by id is where the passage of that id is; with a
    text besides, where this text stands in that passage. One by text, or whose id the corpus lacks,
    is where its text stands in the corpus. An example without gold passages has them where its answers
    stand: where those of `answers`, and of each list of `answer_set`, have one place in all, one
    within another aside. One without answers, too, such as a question that nothing answers, stays as
    it is.

    Texts are found word for word, whatever the white space (see `Quotable`). What is at no place or
    at several has none; nothing is chosen among them. In a corpus of passages, only what stands
    within a passage is seen.

    Args:
        evalset: whose examples are anchored.
        corpus: gone through once.
    """
    found = _look(evalset, corpus)
    for example in evalset:
        golds, doubts = found.golds(example) if example.gold else found.of_answers(example)
        # The same place twice would be the same passage twice, which no eval set may have.
        spans = [gold.span for gold in golds]
        for n, gold in enumerate(golds):
            if not doubts and gold.span in spans[:n]:
                doubts.append(Doubt(gold.label, "it is at the place of another of this example"))
        yield Anchored(example if doubts else replace(example, gold=tuple(golds)), tuple(doubts))


class _Found:
    """What of a corpus concerns an eval set."""

    def __init__(self, ids: Iterable[str], quotes: Iterable[str]) -> None:
        self._passages = {identifier: _Passage() for identifier in ids}
        self._quotes = {quote: _Quote() for quote in quotes}
        self._index = Quotes(self._quotes)

    def meet(self, document: Document) -> None:
        """The corpus has this passage."""
        passage = None if document.id is None else self._passages.get(document.id)
        if passage is not None:
            if document.span is None:
                passage.lost = True
            elif passage.texts.setdefault(document.span, document.text) != document.text:
                # Two passages at one place: without a source, the id is all that says where.
                passage.lost = True
        if self._quotes:
            for quote, places in self._index.within(document.text):
                for start, end in places:
                    self._quotes[quote].add(_place(document, start, end))

    def golds(self, example: Example) -> tuple[list[Gold], list[Doubt]]:
        """The gold passages with their places, and the doubts about those that have none."""
        golds, doubts = [], []
        for gold in example.gold:
            try:
                golds.append(gold if gold.span else self._gold(gold))
            except _NoPlaceError as doubt:
                doubts.append(Doubt(gold.label, doubt.why, doubt.places))
        return golds, doubts

    def of_answers(self, example: Example) -> tuple[list[Gold], list[Doubt]]:
        """Gold passages at the places of the answers."""
        spans: dict[Span, None] = {}
        doubts = []
        for aliases in example.wanted:
            try:
                spans[_together([self._quotes[alias] for alias in aliases]).only()] = None
            except _NoPlaceError as doubt:
                doubts.append(Doubt(excerpt(aliases[0]), doubt.why, doubt.places))
        return [_at(Gold(), span) for span in spans], doubts

    def _gold(self, gold: Gold) -> Gold:
        passage = None if gold.id is None else self._passages[gold.id]
        if passage is not None and (passage.texts or passage.lost):
            return self._by_id(gold, passage)
        if gold.text is None:
            raise _NoPlaceError("no passage has this id")
        return _at(gold, self._quotes[gold.text].only())

    @staticmethod
    def _by_id(gold: Gold, passage: _Passage) -> Gold:
        if passage.lost:
            raise _NoPlaceError("its place in a file is not known", passage.texts)
        if len(passage.texts) > 1:
            raise _NoPlaceError("several passages have this id", passage.texts)
        (span, text) = next(iter(passage.texts.items()))
        if gold.text is None:
            return _at(replace(gold, text=text), span)
        if gold.text.split() == text.split():
            return _at(gold, span)
        quote = _Quote()
        for start, end in Quotable(text).find(gold.text):
            quote.add(_place(Document(text, span=span), start, end))
        if not quote.places and not quote.lost:
            raise _NoPlaceError("the passage of this id has another text")
        return _at(gold, quote.only())


def _together(aliases: Sequence[_Quote]) -> _Quote:
    """The places of all of them; one within another is the same."""
    every = {place for alias in aliases for place in alias.places}
    # Of a text that may have more places than are kept, nothing is known to be within others.
    if all(len(alias.places) < ENOUGH for alias in aliases):
        every = {place for place in every if not any(_within(place, other) for other in every)}
    return _Quote(every, any(alias.lost for alias in aliases))


def _look(evalset: EvalSet, corpus: Iterable[Document]) -> _Found:
    """Go through the corpus once."""
    unanchored = [gold for example in evalset for gold in example.gold if gold.span is None]
    quotes = {gold.text for gold in unanchored if gold.text is not None}
    for example in evalset:
        if not example.gold:
            quotes.update(*example.wanted)
    found = _Found({gold.id for gold in unanchored if gold.id is not None}, quotes)
    for document in corpus:
        found.meet(document)
    return found


def _place(document: Document, start: int, end: int) -> Span | None:
    """Where in its file a part of a passage is; None where that cannot be told."""
    span, text = document.span, document.text
    if span is None:
        return None
    if span.end - span.start == len(text):
        return Span(span.source, span.start + start, span.start + end)
    # Its white space was changed when it was cut, so that offsets within it mean nothing.
    return span if text[start:end] == text.strip() else None


def _within(inner: Span, outer: Span) -> bool:
    return (
        inner != outer
        and inner.source == outer.source
        and outer.start <= inner.start
        and inner.end <= outer.end
    )


def _at(gold: Gold, span: Span) -> Gold:
    values: dict[str, Any] = span._asdict()
    return replace(gold, **values)


LEFT: Final = "unanchored"
"""The key under which an example that is left over says why."""


def anchor_(options: argparse.Namespace) -> int:
    """Anchor what the corpus leaves no choice about; the rest goes to a file of its own.

    Returns:
        0; 1 where an example is left over.

    Raises:
        InputError: the eval set or the corpus cannot be used, or a file exists already.
    """
    out, rest = options.out, options.unanchored
    refuse_existing(
        [out, *([rest] if rest else [])], read=[options.file, options.corpus], force=options.force
    )
    evalset, _ = read_evalset(options.file, options.format, options.field, options.option)
    results = list(anchor(evalset, read_corpus(options.corpus)))
    anchored = [_settled(each.example) for each in results if not each.doubts]
    left = [each for each in results if each.doubts]
    _write(out, anchored)
    if rest is not None:
        _write(rest, map(_left_over, left))
    bare = sum(not example.gold for example in anchored)
    say(
        f"{out}: {count(len(anchored) - bare, 'example')} anchored"
        + (f", and {bare:,} without gold passages and answers" if bare else "")
        + ("" if anchored else ", nothing written")
        + (f"; {len(left):,} left over{f', in {rest}' if rest else ''}:" if left else "")
    )
    reasons = Counter(doubt.why for each in left for doubt in each.doubts)
    for why, often in reasons.most_common():
        say(f"  {often:,} × {why}")
    return int(bool(left))


def refuse_existing(files: Sequence[Path], *, read: Sequence[Path], force: bool) -> None:
    """Let no file be overwritten unasked, none be written twice, and none be in a folder that there is not.

    The last would be found when all is done, and paid for.

    Args:
        files: to be written.
        read: what they are made from, which nothing replaces: it holds what none of them may have.
        force: let others be overwritten.

    Raises:
        InputError: one is there or is read, has no folder, or two are one.
    """
    if len({file.resolve() for file in files}) < len(files):
        raise InputError(f"{files[0]} is to be written twice, nothing was written.\nName two files.")
    for file in files:
        if file.resolve() in {source.resolve() for source in read}:
            raise InputError(f"{file} is read and would be lost, nothing was written.\nName another file.")
        if not file.parent.is_dir():
            raise InputError(
                f"{file} cannot be written: there is no folder {file.parent}.\nMake it, or name another file."
            )
        if file.exists() and not force:
            raise InputError(
                f"{file} exists already, nothing was written.\nName another file, or add --force."
            )


def _write(path: Path, examples: "Sequence[Example] | map[Example]") -> None:
    """Write them; where there are none, what was there before is no result of this."""
    evalset = EvalSet(path.name, tuple(examples))
    if evalset.examples:
        write_jsonl(evalset, path)
    else:
        path.unlink(missing_ok=True)


def _settled(example: Example) -> Example:
    return replace(example, extra={key: value for key, value in example.extra.items() if key != LEFT})


def _left_over(each: Anchored) -> Example:
    doubts = [
        {"what": doubt.what, "why": doubt.why}
        | ({"places": [place._asdict() for place in doubt.places]} if doubt.places else {})
        for doubt in each.doubts
    ]
    return replace(each.example, extra={**each.example.extra, LEFT: doubts})
