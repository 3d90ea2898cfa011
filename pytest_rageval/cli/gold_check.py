"""Whether the gold passages of an eval set are in the corpus, and hold the answers."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from pytest_rageval.answers.text import containment
from pytest_rageval.cli.findings import Finding, Kind
from pytest_rageval.cli.quotes import Quotable, Quotes
from pytest_rageval.measures.overlap import files_named, normal_path
from pytest_rageval.model import Document, EvalSet, Example, Gold, Span, excerpt

__all__ = ["Seen", "of_the_gold"]


NO_FILE: Final = "the corpus has no such file"


class Seen(NamedTuple):
    """What of a corpus concerns the gold passages of an eval set.

    Attributes:
        missing: the reason, by example and position of the gold passage, why it is not in the corpus.
        texts: likewise the text that the corpus has for it.
    """

    missing: dict[tuple[str, int], str]
    texts: dict[tuple[str, int], str]


def of_the_gold(evalset: EvalSet, corpus: Iterable[Document] | None, *, of_files: bool = False) -> list[Kind]:
    """What is wrong with the gold passages; without a corpus, as far as it shows from their texts.

    A gold passage is in the corpus if the file of its span reaches to its end, which is the one file that
    its source names (`files_named`); without a span, if a passage has its id; without an id, if its text
    stands somewhere word for word. Where it has a text besides, that stands at this place, with other
    white space at most (see `Quotable`).

    Args:
        evalset: whose gold passages are looked up.
        corpus: gone through once; None: it is not known.
        of_files: whether its ids are paths of files. Where the gold passages have none of these, theirs are
            of passages, which the corpus does not know: those with a text are looked up by that.
    """
    seen = Seen({}, {}) if corpus is None else _look(evalset, corpus, of_files=of_files)
    absent = [
        Finding((example.id,), f"{gold.label}: {seen.missing[example.id, n]}")
        for example in evalset
        for n, gold in enumerate(example.gold)
        if (example.id, n) in seen.missing
    ]
    return [
        Kind("gold_not_in_corpus", "a gold passage is not in the corpus", absent, error=True),
        Kind("answer_not_in_gold", "no gold passage holds the answer", list(_lost(evalset, seen))),
    ]


def _lost(evalset: EvalSet, seen: Seen) -> Iterator[Finding]:
    """Examples of which a wanted answer, under all of its names, is in no text of the gold passages."""
    for example in evalset:
        texts = _gold_texts(example, seen)
        if not texts:
            continue
        for aliases in example.wanted:
            if not any(containment(text, aliases) for text in texts):
                yield Finding((example.id,), excerpt(aliases[0]))
                break


def _gold_texts(example: Example, seen: Seen) -> list[str]:
    """The texts of the relevant passages; none unless all are known, since the answer may be in the other."""
    texts = [
        gold.text or seen.texts.get((example.id, n)) for n, gold in enumerate(example.gold) if gold.grade > 0
    ]
    known = [text for text in texts if text is not None]
    return known if len(known) == len(texts) else []


@dataclass(slots=True)
class _Sought:
    """A gold passage, and what was seen of it so far.

    Attributes:
        gold: the passage.
        why: it is not in the corpus, as long as nothing else is known.
        text: that the corpus has for it, where it is the right one.
        there: it is in the corpus, as far as can be told.
        differs: the corpus has another text in its place; why this counts as missing.
    """

    gold: Gold
    why: str
    text: str | None = None
    there: bool = False
    differs: str | None = None

    def meet(self, text: str) -> None:
        """The corpus has this text in its place."""
        if self.gold.text is None or Quotable(text).holds(self.gold.text):
            self.there, self.differs = True, None
            self.text = self.text or text
        elif not self.there:
            self.differs = f"the corpus has another text there, {excerpt(text)}"

    def meet_cut(self, span: Span, document: Document) -> None:
        """The corpus has this passage of the file of the gold passage, which is at the span."""
        here = document.span
        if here is None:
            return
        exact = here.end - here.start == len(document.text)
        if exact and here.start <= span.start and span.end <= here.end:
            self.meet(document.text[span.start - here.start : span.end - here.start])
        elif span.end <= here.end:
            # The file is long enough; its text there is cut in two, or has lost its offsets.
            self.there = self.there or self.differs is None
        elif not self.there:
            self.why = f"it ends at {span.end}, beyond all that the corpus has of {here.source}"


class _InFiles:
    """A gold passage by span, in each file of the corpus that its source may name.

    Once the file of just its path was met, others do not matter; of those whose path ends so, two
    are one too many, and the second is kept for its name alone.
    """

    def __init__(self, gold: Gold, span: Span) -> None:
        self._gold = gold
        self._span = span
        self._files: dict[str, _Sought] = {}

    def meet(self, document: Document) -> None:
        """The corpus has this passage of a file whose name ends as that of the span."""
        if document.span is None:
            return
        met = normal_path(document.span.source)
        named = files_named(self._span.source, [*self._files, met])
        if met not in named or (met not in self._files and len(self._files) > 1 and len(named) > 1):
            return
        self._files = {file: sought for file, sought in self._files.items() if file in named}
        sought = self._files.setdefault(met, _Sought(self._gold, NO_FILE))
        sought.meet_cut(self._span, document)

    def told(self) -> _Sought:
        """What was seen of the passage in its file."""
        if len(self._files) > 1:
            return _Sought(
                self._gold, f"several files of the corpus may be its source: {', '.join(self._files)}"
            )
        return next(iter(self._files.values()), _Sought(self._gold, NO_FILE))


class _Gold:
    """The gold passages of an eval set, each under what it is looked up by."""

    def __init__(self, evalset: EvalSet, *, of_files: bool) -> None:
        self._every: dict[tuple[str, int], _Sought | _InFiles] = {}
        self._by_id: dict[str, list[_Sought]] = defaultdict(list)
        self._by_file: dict[str, list[_InFiles]] = defaultdict(list)
        self._by_text: dict[str, list[_Sought]] = defaultdict(list)
        self._instead: dict[tuple[str, int], _Sought] = {}
        self._an_id: str | None = None
        for example in evalset:
            for n, gold in enumerate(example.gold):
                self._every[example.id, n] = self._sought(gold)
                if of_files and gold.span is None and gold.id is not None and gold.text is not None:
                    self._instead[example.id, n] = self._sought_by_text(gold)
        self._quotes = Quotes(self._by_text)

    def told(self) -> dict[tuple[str, int], _Sought]:
        """What was seen of each, by example and position."""
        by_id = [sought for each in self._by_id.values() for sought in each]
        if self._an_id is not None and not any(sought.there or sought.differs for sought in by_id):
            # Not a slip here and there: gold and corpus have ids of two kinds.
            self._every |= self._instead
            for sought in by_id:
                sought.why = (
                    f"no passage has this id, or any of the gold's; the corpus has {self._an_id!r}, say"
                )
        return {key: each.told() if isinstance(each, _InFiles) else each for key, each in self._every.items()}

    def _sought(self, gold: Gold) -> _Sought | _InFiles:
        if gold.span is not None:
            in_files = _InFiles(gold, gold.span)
            self._by_file[_name(gold.span.source)].append(in_files)
            return in_files
        if gold.id is not None:
            sought = _Sought(gold, "no passage has this id")
            self._by_id[gold.id].append(sought)
        else:
            sought = self._sought_by_text(gold)
        return sought

    def _sought_by_text(self, gold: Gold) -> _Sought:
        sought = _Sought(gold, "its text is nowhere in the corpus")
        self._by_text[gold.text or ""].append(sought)
        return sought

    def meet(self, document: Document) -> None:
        """The corpus has this passage."""
        self._an_id = self._an_id or document.id
        for sought in self._by_id.get(document.id or "", ()):
            sought.meet(document.text)
        if self._by_text:
            for quote, _ in self._quotes.within(document.text):
                for sought in self._by_text[quote]:
                    sought.meet(quote)
        if document.span is not None:
            for in_files in self._by_file.get(_name(document.span.source), ()):
                in_files.meet(document)


def _look(evalset: EvalSet, corpus: Iterable[Document], *, of_files: bool) -> Seen:
    """Go through the corpus once."""
    gold = _Gold(evalset, of_files=of_files)
    for document in corpus:
        gold.meet(document)
    told = gold.told()
    missing = {
        key: sought.differs or sought.why
        for key, sought in told.items()
        if sought.differs or not sought.there
    }
    return Seen(missing, {key: sought.text for key, sought in told.items() if sought.text is not None})


def _name(source: str) -> str:
    """The last step of a path: all that `files_named` may give for a source have it in common."""
    return normal_path(source).rpartition("/")[2]
