"""Finds the gold passages of an eval set in a corpus.

`rageval evalset anchor` replaces gold passages given by id or by text with character spans of files; `GoldIndex`
says which are not there.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from pytest_rageval.cli.console import echo, format_count, reason_lines
from pytest_rageval.core.evalset import EvalSet, Example, Gold
from pytest_rageval.core.ranking import Document, Span, excerpt
from pytest_rageval.evalsets.corpus import read_corpus
from pytest_rageval.evalsets.loading import write_jsonl
from pytest_rageval.extensions.evalset_tools.quotes import QuoteIndex, SearchableText
from pytest_rageval.extensions.evalset_tools.reading import read_evalset, refuse_existing
from pytest_rageval.lib.foreign_values import id_key
from pytest_rageval.scores.gold_matching import matching_files, normalize_path

MAX_SPANS: Final = 8  # spans of one text that are stored: further ones would not make it less ambiguous
REASONS_KEY: Final = "unanchored"  # the key under `extra` for the reasons that an example is left over


def anchor_command(options: argparse.Namespace) -> int:
    out, rest = options.out, options.unanchored
    refuse_existing(
        [out, *([rest] if rest else [])], read=[options.file, options.corpus], force=options.force
    )
    evalset, _ = read_evalset(options)
    results = list(anchor(evalset, read_corpus(options.corpus)))
    anchored = [result for result in results if not result.failures]
    left_over = [result for result in results if result.failures]
    _write(out, anchored)
    if rest is not None:
        _write(rest, left_over)
    without_gold = sum(not result.example.gold for result in anchored)
    echo(
        f"{out}: {format_count(len(anchored) - without_gold, 'example')} anchored"
        + (f", and {without_gold:,} without gold passages and answers" if without_gold else "")
        + ("" if anchored else ", nothing written")
        + (f"; {len(left_over):,} left over{f', in {rest}' if rest else ''}:" if left_over else "")
    )
    echo(*reason_lines(failure.why for result in left_over for failure in result.failures))
    return int(bool(left_over))


class AnchorFailure(NamedTuple):
    """A gold passage or an answer that has no single span in the corpus."""

    what: str
    why: str
    places: Sequence[Span] = ()  # that are possible, at most eight


class AnchorResult(NamedTuple):
    example: Example
    failures: tuple[AnchorFailure, ...]


def anchor(evalset: EvalSet, corpus: Iterable[Document]) -> Iterator[AnchorResult]:
    """Yield each example with the spans of its gold passages.

    - A gold passage with a span is unchanged.
    - A gold passage with an id gets the span of the passage with this id or, if its text is only a part of that
      passage, the span of the text in it.
    - A gold passage with only a text, or with an id that the corpus lacks, gets the span of its text in the corpus.
    - An example without gold passages gets a gold passage at the span of each of its answers (`wanted`). Each answer
      must have a single span; a span within another one is not counted.
    - An example without gold passages and answers is unchanged.

    Texts are searched word for word (see `SearchableText`). If a text is found nowhere or at several spans, the example
    has a failure; nothing is guessed. If the corpus consists of passages, a text that extends over two of them is not
    found.
    """
    index = _SpanIndex(evalset)
    for document in corpus:
        index.add(document)
    for example in evalset:
        golds, failures = index.anchor_gold(example) if example.gold else index.anchor_answers(example)
        # Gold passages with equal spans are the same passage twice, which an eval set may not have.
        spans = [gold.span for gold in golds]
        for n, gold in enumerate(golds):
            if not failures and gold.span in spans[:n]:
                failures.append(AnchorFailure(gold.label, "it is at the place of another of this example"))
        anchored = example if failures else replace(example, gold=tuple(golds))
        yield AnchorResult(anchored, tuple(failures))


class _NoSingleSpanError(Exception):
    """A text or passage has no span or several; the arguments are the reason and the possible spans."""


Spans = set[Span | None]
"""The spans of a text in the corpus, at most `MAX_SPANS`; None stands for a passage without a span."""


def _known_spans(spans: Iterable[Span | None]) -> list[Span]:
    return sorted(span for span in spans if span is not None)


def _single_span(spans: Spans) -> Span:
    known = _known_spans(spans)
    if len(known) > 1:
        files = {span.source for span in known}
        times = "in several files" if len(files) > 1 else "several times in one file"
        raise _NoSingleSpanError(f"its text occurs {times}", known)
    if None in spans:
        raise _NoSingleSpanError("it is in a passage whose place in a file is not known", known)
    if not known:
        raise _NoSingleSpanError("its text is nowhere in the corpus")
    return known[0]


class _SpanIndex:
    def __init__(self, evalset: EvalSet) -> None:
        unanchored = [gold for example in evalset for gold in example.gold if gold.span is None]
        quotes = {gold.text for gold in unanchored if gold.text is not None}
        for example in evalset:
            if not example.gold:
                quotes.update(*example.wanted)
        # For each id, the text of each passage with this id, by its span.
        self._passages: dict[str, dict[Span | None, str]]
        self._passages = {id_key(gold.id): {} for gold in unanchored if gold.id is not None}
        self._quotes: dict[str, Spans] = {quote: set() for quote in quotes}
        self._quote_index = QuoteIndex(quotes)

    def add(self, document: Document) -> None:
        key = None if document.id is None else id_key(document.id)
        if key in self._passages:
            passage = self._passages[key]
            # If two texts have the same id and span, it is unknown which of them the id names.
            if passage.setdefault(document.span, document.text) != document.text:
                passage[None] = document.text
        for quote, matches in self._quote_index.find_in(document.text):
            spans = self._quotes[quote]
            for start, end in matches:
                span = _span_in_file(document, start, end)
                if span is None or len(spans - {None}) < MAX_SPANS:
                    spans.add(span)

    def anchor_gold(self, example: Example) -> tuple[list[Gold], list[AnchorFailure]]:
        golds, failures = [], []
        for gold in example.gold:
            try:
                golds.append(gold if gold.span else self._anchor_passage(gold))
            except _NoSingleSpanError as error:
                failures.append(AnchorFailure(gold.label, *error.args))
        return golds, failures

    def anchor_answers(self, example: Example) -> tuple[list[Gold], list[AnchorFailure]]:
        spans: dict[Span, None] = {}
        failures = []
        for aliases in example.wanted:
            try:
                spans[_single_span(_merge_aliases([self._quotes[alias] for alias in aliases]))] = None
            except _NoSingleSpanError as error:
                failures.append(AnchorFailure(excerpt(aliases[0]), *error.args))
        return [_with_span(Gold(), span) for span in spans], failures

    def _anchor_passage(self, gold: Gold) -> Gold:
        passage = None if gold.id is None else self._passages[id_key(gold.id)]
        if passage:
            return _anchor_by_id(gold, passage)
        if gold.text is None:
            raise _NoSingleSpanError("no passage has this id")
        return _with_span(gold, _single_span(self._quotes[gold.text]))


def _anchor_by_id(gold: Gold, passage: Mapping[Span | None, str]) -> Gold:
    """Return the gold passage with its span in the passage of its id; `passage` has the texts with this id by span."""
    known = _known_spans(passage)
    if None in passage:
        raise _NoSingleSpanError("its place in a file is not known", known)
    if len(known) > 1:
        raise _NoSingleSpanError("several passages have this id", known)
    span, text = known[0], passage[known[0]]
    if gold.text is None:
        return _with_span(replace(gold, text=text), span)
    if gold.text.split() == text.split():
        return _with_span(gold, span)
    document = Document(text, span=span)
    matches = SearchableText(text).find(gold.text)[:MAX_SPANS]
    spans = {_span_in_file(document, start, end) for start, end in matches}
    if not spans:
        raise _NoSingleSpanError("the passage of this id has another text")
    return _with_span(gold, _single_span(spans))


def _merge_aliases(aliases: Sequence[Spans]) -> Spans:
    """Return the spans of an answer from those of its aliases, without spans that are within another one."""
    spans = set().union(*aliases)
    # An alias with the maximum number of stored spans may have further ones: remove none.
    if any(len(alias - {None}) >= MAX_SPANS for alias in aliases):
        return spans
    known = _known_spans(spans)
    return spans - {inner for inner in known for outer in known if outer != inner and _contains(outer, inner)}


def _contains(outer: Span, inner: Span) -> bool:
    return inner.source == outer.source and outer.start <= inner.start and inner.end <= outer.end


def _span_in_file(document: Document, start: int, end: int) -> Span | None:
    span, text = document.span, document.text
    if span is None:
        return None
    if span.end - span.start == len(text):
        return Span(span.source, span.start + start, span.start + end)
    # White space was changed when the passage was cut from the file, so offsets within the text are unknown.
    return span if text[start:end] == text.strip() else None


def _with_span(gold: Gold, span: Span) -> Gold:
    return replace(gold, source=span.source, start=span.start, end=span.end)


def _write(path: Path, results: Sequence[AnchorResult]) -> None:
    """Write the examples; if there are none, delete the file, which would be the result of an earlier run."""
    if results:
        write_jsonl(EvalSet(path.name, tuple(map(_with_reasons, results))), path)
    else:
        path.unlink(missing_ok=True)


def _with_reasons(result: AnchorResult) -> Example:
    extra = {key: value for key, value in result.example.extra.items() if key != REASONS_KEY}
    if result.failures:
        extra[REASONS_KEY] = [
            {"what": failure.what, "why": failure.why}
            | ({"places": [span._asdict() for span in failure.places]} if failure.places else {})
            for failure in result.failures
        ]
    return replace(result.example, extra=extra)


GoldKey = tuple[str, int]  # the id of an example, and the index of one of its gold passages


@dataclass(slots=True)
class GoldLookup:
    """The search for a gold passage in the corpus, which is compared with one passage after another."""

    gold: Gold
    why: str  # it is missing, unless it is present or its text differs
    text: str | None = None  # of the corpus
    present: bool = False
    difference: str | None = None  # of the corpus's text from that of the gold passage
    ids: set[str] = field(default_factory=set)  # of the corpus that are equal to its own

    def compare(self, text: str) -> None:
        if self.gold.text is None or SearchableText(text).contains(self.gold.text):
            self.present, self.difference = True, None
            self.text = self.text or text
        elif not self.present:
            self.difference = f"the corpus has another text there, {excerpt(text)}"

    def compare_span(self, span: Span, document: Document, place: Span) -> None:
        """Compare the gold passage at a span with a passage of the same file, whose span is `place`."""
        has_offsets = place.end - place.start == len(document.text)
        if has_offsets and place.start <= span.start and span.end <= place.end:
            self.compare(document.text[span.start - place.start : span.end - place.start])
        elif span.end <= place.end:
            # The file is long enough, but no single passage has the text of the span, or its offsets are unknown.
            self.present = self.present or self.difference is None
        elif not self.present:
            self.why = f"it ends at {span.end}, beyond all that the corpus has of {place.source}"


class _SpanLookup:
    """The search for a gold passage by span, in each file of the corpus that its source may name.

    A file with exactly the path of the source excludes all other files. Two files whose paths end with that path are
    ambiguous.
    """

    def __init__(self, gold: Gold, span: Span) -> None:
        self._gold = gold
        self._span = span
        self._files: dict[str, GoldLookup] = {}

    def compare(self, document: Document, place: Span) -> None:
        file = normalize_path(place.source)
        named = matching_files(self._span.source, [*self._files, file])
        if file not in named or (file not in self._files and len(self._files) > 1 and len(named) > 1):
            return
        self._files = {name: lookup for name, lookup in self._files.items() if name in named}
        lookup = self._files.setdefault(file, GoldLookup(self._gold, ""))
        lookup.compare_span(self._span, document, place)

    def result(self) -> GoldLookup:
        if len(self._files) > 1:
            files = ", ".join(self._files)
            return GoldLookup(self._gold, f"several files of the corpus may be its source: {files}")
        return next(iter(self._files.values()), GoldLookup(self._gold, "the corpus has no such file"))


class GoldIndex:
    """The searches for all gold passages of an eval set, by id, file and text.

    Each passage of the corpus is compared only with gold passages that it may contain.
    """

    def __init__(self, evalset: EvalSet, *, of_files: bool) -> None:
        self._lookups: dict[GoldKey, GoldLookup | _SpanLookup] = {}
        self._by_id: dict[str, list[GoldLookup]] = defaultdict(list)
        self._by_file: dict[str, list[_SpanLookup]] = defaultdict(list)
        self._by_text: dict[str, list[GoldLookup]] = defaultdict(list)
        self._fallback_by_text: dict[GoldKey, GoldLookup] = {}
        self._first_corpus_id: str | None = None
        for example in evalset:
            for n, gold in enumerate(example.gold):
                self._register((example.id, n), gold, of_files=of_files)
        self._quotes = QuoteIndex(self._by_text)

    def _register(self, key: GoldKey, gold: Gold, *, of_files: bool) -> None:
        if gold.span is not None:
            span_lookup = _SpanLookup(gold, gold.span)
            self._lookups[key] = span_lookup
            self._by_file[_file_name(gold.span.source)].append(span_lookup)
            return
        if gold.id is not None:
            lookup = self._lookups[key] = GoldLookup(gold, "no passage has this id")
            self._by_id[id_key(gold.id)].append(lookup)
        if gold.id is None or (of_files and gold.text is not None):
            lookup = GoldLookup(gold, "its text is nowhere in the corpus")
            (self._lookups if gold.id is None else self._fallback_by_text)[key] = lookup
            self._by_text[gold.text or ""].append(lookup)

    def compare(self, document: Document) -> None:
        self._first_corpus_id = self._first_corpus_id or document.id
        identifier = document.id or ""
        for lookup in self._by_id.get(id_key(identifier), ()):
            lookup.compare(document.text)
            lookup.ids.add(identifier)
        for quote, _ in self._quotes.find_in(document.text):
            for lookup in self._by_text[quote]:
                lookup.compare(quote)
        if document.span is not None:
            for span_lookup in self._by_file.get(_file_name(document.span.source), ()):
                span_lookup.compare(document, document.span)

    def results(self) -> dict[GoldKey, GoldLookup]:
        by_id = [lookup for lookups in self._by_id.values() for lookup in lookups]
        if self._first_corpus_id is not None and not any(
            lookup.present or lookup.difference for lookup in by_id
        ):
            # No id of a gold passage was found: gold passages and corpus use different kinds of ids.
            self._lookups |= self._fallback_by_text
            for lookup in by_id:
                lookup.why = (
                    "no passage has this id, or that of another gold passage; "
                    f"the corpus has {self._first_corpus_id!r}, for example"
                )
        return {
            key: lookup.result() if isinstance(lookup, _SpanLookup) else lookup
            for key, lookup in self._lookups.items()
        }


def _file_name(source: str) -> str:
    """Return the file name in a path; all files that `files_named` returns for a source have the same file name."""
    return normalize_path(source).rpartition("/")[2]
