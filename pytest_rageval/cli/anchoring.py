"""From gold passages by id or by text to places in files, where the corpus leaves no choice."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from pytest_rageval.cli.quotes import Quotable, Quotes
from pytest_rageval.model import Document, EvalSet, Example, Gold, Span, excerpt

__all__ = ["Anchored", "Doubt", "anchor"]

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
