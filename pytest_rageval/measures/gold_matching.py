"""Finds the gold passages in a ranking, and their ranks, independently of how the corpus was chunked."""

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from pytest_rageval.datatypes import Document, Gold, Ranking, Span
from pytest_rageval.lazy import Lazy

__all__ = ["SHARE", "GoldMatch", "files_named", "found_by_id", "ideal_labels", "normal_path", "overlap"]

# Most gold is given by id.
runs: Final = Lazy("measures.near_duplicates", "runs")
words: Final = Lazy("measures.near_duplicates", "words")

SHARE: Final = 0.5  # of a gold passage that has to be retrieved for it to be found
RUN: Final = 8  # words in a row that two texts on one topic do not share by chance

ROUNDING: Final = 1e-9

Evidence = Literal["id", "same text", "span", "text"]
"""The same id, equal words, offsets in one file, words in common."""
STRENGTH: Final[tuple[Evidence, ...]] = ("id", "same text", "span", "text")  # the strongest first

Part = tuple[float, float]


class Overlap(NamedTuple):
    """The parts of a gold passage that a document covers, as disjoint intervals in [0, 1]; the kind of evidence."""

    parts: tuple[Part, ...]
    by: Evidence


WHOLE: Final[tuple[Part, ...]] = ((0.0, 1.0),)


class Found(NamedTuple):
    """One gold passage in a ranking.

    `rank` is of the document with which the share was reached, from 0, or None; `documents` are the ranks of those
    that are the passage or a part of it; `by` is the weakest evidence that was needed; `source` is how a span's file
    was identified: "ambiguous" where several paths have that end, so that it was not found.
    """

    rank: int | None
    documents: tuple[int, ...]
    by: Evidence | None
    comparable: bool
    source: Literal["path", "end", "ambiguous"] | None = None


class GoldMatch:
    """A ranking of n documents compared with the gold passages of its query; those of grade 0 are ignored.

    A gold passage is found at the rank where the documents up to there cover at least `share`, in (0, 1], of it, by
    `overlap`: one document that covers it, or several that cover parts. It is credited once, at that rank.

    A document with which several passages are found counts as that many documents, and later ones move down: a long
    chunk scores as the short ones that it contains. Recall@k is then the share of the gold passages that the first k
    documents hold.

    The source of a passage is compared with those of all documents of the ranking (`files_named`): the file with this
    path counts, otherwise the one whose path has this end. Where several paths have it, the source is ambiguous and
    the passage is not found. Both are counted, since another file of the corpus may be meant.
    """

    def __init__(self, ranking: Ranking, gold: Sequence[Gold], share: float = SHARE) -> None:
        self._ranking = ranking
        self._gold = gold
        self._share = share
        self._by_id = _labels_by_id(ranking, gold)

    @cached_property
    def labels(self) -> list[int]:
        """The grades found, in rank order, 0 for a document with none; those of one with several, highest first."""
        if self._by_id is not None:
            return self._by_id
        grades: list[list[int]] = [[] for _ in self._ranking]
        for passage, found in zip(self._gold, self._found, strict=True):
            if found.rank is not None:
                grades[found.rank].append(passage.grade)
        return [label for each in grades for label in (sorted(each, reverse=True) or [0])]

    @property
    def surplus(self) -> int:
        """The number of labels less the number of documents."""
        return len(self.labels) - len(self._ranking)

    @cached_property
    def positions(self) -> list[tuple[int, ...]]:
        """The gold passages, of those that are found, that each document is or is a part of, by position from 0."""
        return [
            tuple(position for position, found in enumerate(self._found) if rank in found.documents)
            for rank in range(len(self._ranking))
        ]

    @property
    def found(self) -> list[bool]:
        """Whether each gold passage is found, by position in `gold`; False for those of grade 0."""
        return [found.rank is not None for found in self._found]

    @property
    def ranks(self) -> list[int | None]:
        """The rank, from 1, at which each gold passage is found, by position in `gold`; None where it is not."""
        return [None if found.rank is None else found.rank + 1 for found in self._found]

    @cached_property
    def counts(self) -> dict[str, int]:
        """The number of passages found by overlapping spans, by overlapping texts, or by the end of a path.

        Passages of ambiguous source were not found, but would have been in one of the files.
        """
        if self._by_id is not None:
            return {}
        counts = {
            "matched_by_span": sum(found.by == "span" for found in self._found),
            "matched_by_text": sum(found.by == "text" for found in self._found),
            "by_end_of_path": sum(found.source == "end" for found in self._found),
            "of_ambiguous_source": sum(found.source == "ambiguous" for found in self._found),
        }
        return {name: count for name, count in counts.items() if count}

    @property
    def texts(self) -> frozenset[str]:
        """The texts of the retrieved documents."""
        return frozenset(document.text for document in self._ranking)

    @cached_property
    def incomparable(self) -> Gold | None:
        """A relevant passage that no retrieved document can be compared with; None for an empty ranking."""
        if self._by_id is not None or not len(self._ranking):
            return None
        pairs = zip(self._gold, self._found, strict=True)
        return next((passage for passage, found in pairs if passage.grade and not found.comparable), None)

    @cached_property
    def _found(self) -> list[Found]:
        return [self._look(passage) for passage in self._gold]

    @cached_property
    def _sources(self) -> frozenset[str]:
        return frozenset(each.span.source for each in self._ranking.documents if each.span is not None)

    def _look(self, passage: Gold) -> Found:
        if not passage.grade:
            return Found(None, (), None, comparable=True)
        if passage.source is None:
            return self._find(passage, ())
        files = files_named(passage.source, self._sources)
        if len(files) < 2:  # noqa: PLR2004 - several are ambiguous
            found = self._find(passage, files)
            whole = normal_path(passage.source) in files
            return found._replace(source="path" if whole else "end") if found.by == "span" else found
        found = self._find(passage, ())
        if found.rank is None and any(self._find(passage, (file,)).rank is not None for file in files):
            return found._replace(source="ambiguous")
        return found

    def _find(self, passage: Gold, files: Collection[str]) -> Found:
        rank, by, comparable = None, [], False
        held: list[Part] = []
        documents = []
        enough = self._share - ROUNDING
        for position, document in enumerate(self._ranking.documents):
            common = overlap(document, passage, files)
            comparable |= common is not None
            if common is None or not common.parts:
                continue
            more = _union([*held, *common.parts])
            needed = rank is None and _size(more) > _size(held) + ROUNDING
            if needed:
                held = more
                by.append(common.by)
                if _size(held) >= enough:
                    rank = position
            if needed or _size(common.parts) >= enough:
                documents.append(position)
        if rank is None:
            return Found(None, (), None, comparable)
        return Found(rank, tuple(documents), max(by, key=STRENGTH.index), comparable)


def overlap(document: Document, passage: Gold, files: Collection[str] | None = None) -> Overlap | None:
    """Return the part of a gold passage that a document holds, by the best evidence that both allow.

    1. Both have a span: the characters that both have, if they are in one file (`files_named`), otherwise none. Ids
       and texts do not count: an id may mean another cut of the corpus since the passage was labelled.
    2. Both have an id: the whole passage where the ids are equal, otherwise nothing.
    3. The passage has a text: its words that are in the document too, in runs of at least 8 words, or of more than
       half of a passage shorter than 16; shorter runs are phrases. Words are compared without case and punctuation
       and count by their letters. This is the weakest evidence: a text may occur in several places, and a run that is
       too short at the end of a chunk is not seen.

    `files` are those of the ranking that the passage's source names (`files_named`); None where only the document's
    file is known. Returns None where they cannot be compared, since the document lacks what the passage is given by.
    """
    span, wanted = document.span, passage.span
    if span is not None and wanted is not None:
        named = files_named(wanted.source, [span.source]) if files is None else files
        return Overlap(_by_span(span, wanted) if normal_path(span.source) in named else (), "span")
    if document.id is not None and passage.id is not None:
        return Overlap(WHOLE if document.id == passage.id else (), "id")
    if passage.text is None or not words(passage.text):
        return None
    return _by_text(document.text, passage.text)


def files_named(source: str, among: Iterable[str]) -> frozenset[str]:
    """Return the files that a source names: the one with this path; without one, all whose path has this end.

    A loader names a file by its full path, an eval set by the path within the corpus, or the other way round: where
    no path is equal, either may be the end of the other, in whole steps. Returns each by its `normal_path`.

    >>> sorted(files_named("index.md", ["index.md", "guide/index.md"]))
    ['index.md']
    >>> sorted(files_named("guide/index.md", ["/srv/corpus/guide/index.md", "/srv/corpus/index.md"]))
    ['srv/corpus/guide/index.md']
    >>> sorted(files_named("handbook.md", ["old-handbook.md"]))
    []
    """
    wanted = normal_path(source)
    files = frozenset(map(normal_path, among))
    if wanted in files:
        return frozenset({wanted})
    return frozenset(file for file in files if file.endswith(f"/{wanted}") or wanted.endswith(f"/{file}"))


@lru_cache(maxsize=4096)
def normal_path(source: str) -> str:
    """Return a path's steps joined by "/", without "." and a root; case is kept."""
    return "/".join(step for step in source.replace("\\", "/").split("/") if step not in ("", "."))


def ideal_labels(gold: Sequence[Gold]) -> list[int]:
    """Return the grades above 0, highest first: the labels of an ideal ranking."""
    return sorted((passage.grade for passage in gold if passage.grade > 0), reverse=True)


def found_by_id(ranking: Ranking, gold: Sequence[Gold]) -> tuple[tuple[int, int], ...] | None:
    """The positions of gold passages with their grades above 0; None if ids alone do not decide."""
    ids = ranking.ids
    grades = {passage.id: passage.grade for passage in gold if passage.source is None}
    if None in ids or None in grades or len(grades) < len(gold):
        return None
    return tuple([(at, grade) for at, id_ in enumerate(ids) if (grade := grades.pop(id_, 0))])


def _labels_by_id(ranking: Ranking, gold: Sequence[Gold]) -> list[int] | None:
    """As `labels`, if ids alone decide; otherwise None."""
    found = found_by_id(ranking, gold)
    if found is None:
        return None
    labels = [0] * len(ranking)
    for at, grade in found:
        labels[at] = grade
    return labels


def _union(parts: Iterable[Part]) -> list[Part]:
    """The same parts, in order and disjoint."""
    union: list[Part] = []
    for start, end in sorted(parts):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union


def _size(parts: Iterable[Part]) -> float:
    return sum(end - start for start, end in parts)


def _by_span(span: Span, wanted: Span) -> tuple[Part, ...]:
    start, end = max(span.start, wanted.start), min(span.end, wanted.end)
    if start >= end:
        return ()
    length = wanted.end - wanted.start
    return (((start - wanted.start) / length, (end - wanted.start) / length),)


@lru_cache(maxsize=2**17)  # some 300 bytes each; several scores, and the report, compare the same texts
def _by_text(document: str, passage: str) -> Overlap:
    wanted = words(passage)
    if words(document) == wanted:
        return Overlap(WHOLE, "same text")
    run = min(RUN, len(wanted) // 2 + 1)
    known = runs(document, run)
    letters = [0, *accumulate(map(len, wanted))]
    starts = [at for at in range(len(wanted) - run + 1) if wanted[at : at + run] in known]
    found = _union((letters[at] / letters[-1], letters[at + run] / letters[-1]) for at in starts)
    return Overlap(tuple(found), "text")
