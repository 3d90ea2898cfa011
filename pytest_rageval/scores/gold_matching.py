"""Finds the gold passages in a ranking, and their ranks, independently of how the corpus was chunked."""

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from pytest_rageval.core.evalset import Gold
from pytest_rageval.core.ranking import Document, Ranking, Span
from pytest_rageval.lib.foreign_values import id_key
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.options import DEFAULT_MATCH_SHARE
from pytest_rageval.scores.measures import deciding_keys

# Loaded at first use: most gold passages are given by id and need no comparison of words.
shingles: Final = Lazy("scores.near_duplicates", "shingles")
words: Final = Lazy("scores.near_duplicates", "words")

SHINGLE_LENGTH: Final = 8
"""The number of consecutive words that two texts on one topic do not have in common by chance."""

COVERAGE_TOLERANCE: Final = 1e-9  # rounding error that a sum of covered shares can have

MatchKind = Literal["id", "same text", "span", "text"]
"""How a document was matched with a gold passage: equal ids, equal words, overlapping offsets, common shingles."""

KINDS_BY_STRENGTH: Final[tuple[MatchKind, ...]] = ("id", "same text", "span", "text")
"""The kinds of match, the most reliable first."""

Interval = tuple[float, float]


class Overlap(NamedTuple):
    """The parts of a gold passage that a document covers: disjoint intervals in [0, 1], as shares of the passage."""

    parts: tuple[Interval, ...]
    kind: MatchKind


WHOLE: Final[tuple[Interval, ...]] = ((0.0, 1.0),)


class GoldHit(NamedTuple):
    """The result of looking for one gold passage in a ranking."""

    rank: int | None  # from 0, of the document at which the required share is reached; None: not found
    documents: tuple[int, ...]  # the ranks of those that are the passage or a part of it
    kind: MatchKind | None  # the least reliable kind of match that the share needed
    comparable: bool  # whether at least one document can be compared with the passage
    # How the file of a span was identified. If several paths have that end, it is ambiguous, and not found.
    source: Literal["path", "end", "ambiguous"] | None = None


class GoldMatch:
    """A ranking of n documents compared with the gold passages of its query; passages of grade 0 are ignored.

    A gold passage is found at the first rank at which the documents so far cover at least `share` of it, a number in
    (0, 1]. `overlap` computes what a document covers. One document may cover enough, or several together. The passage
    is credited once, at that rank.

    A document at which n > 1 passages are found counts as n documents, and later documents move down. So a long chunk
    scores as the short chunks that it contains, and Recall@k is the share of the gold passages that the first k
    documents hold.

    The source of a passage is compared with the sources of all documents of the ranking (`matching_files`): the file
    with the same path counts; if there is none, the file whose path has this end. If several paths have this end, the
    source is ambiguous and the passage is not found. `counts` reports how many passages were found by the end of a path
    and how many are ambiguous, because another file of the corpus may be meant.
    """

    def __init__(self, ranking: Ranking, gold: Sequence[Gold], share: float = DEFAULT_MATCH_SHARE) -> None:
        self._ranking = ranking
        self._gold = gold
        self._share = share
        self._hits: list[GoldHit] = self._find_all()

    @cached_property
    def labels(self) -> list[int]:
        """The grades of the passages found at each document, in rank order, the highest first; 0 if none is."""
        grades: list[list[int]] = [[] for _ in range(len(self._ranking))]
        for passage, hit in zip(self._gold, self._hits, strict=True):
            if hit.rank is not None:
                grades[hit.rank].append(passage.grade)
        return [label for at_rank in grades for label in (sorted(at_rank, reverse=True) if at_rank else [0])]

    @property
    def surplus(self) -> int:
        return len(self.labels) - len(self._ranking)

    @cached_property
    def positions(self) -> list[tuple[int, ...]]:
        """For each document, the positions in `gold` of the found passages that it is or is a part of."""
        return [
            tuple([position for position, hit in enumerate(self._hits) if rank in hit.documents])
            for rank in range(len(self._ranking))
        ]

    @property
    def found(self) -> list[bool]:
        return [hit.rank is not None for hit in self._hits]

    @property
    def ranks(self) -> list[int | None]:
        """The rank, from 1, at which each gold passage is found, by position in `gold`; None if it is not found."""
        return [None if hit.rank is None else hit.rank + 1 for hit in self._hits]

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of passages whose match is uncertain, by name; counts of 0 are left out.

        "matched_by_span": found by overlapping spans. "matched_by_text": found by common words. "by_end_of_path": found
        in a file that was identified by the end of its path. "of_ambiguous_source": not found because the source is
        ambiguous, although one of the files has the passage.
        """
        kinds, sources = [hit.kind for hit in self._hits], [hit.source for hit in self._hits]
        counts = {
            "matched_by_span": kinds.count("span"),
            "matched_by_text": kinds.count("text"),
            "by_end_of_path": sources.count("end"),
            "of_ambiguous_source": sources.count("ambiguous"),
        }
        return {name: count for name, count in counts.items() if count}

    @property
    def texts(self) -> frozenset[str]:
        return frozenset(document.text for document in self._ranking)

    @cached_property
    def incomparable(self) -> Gold | None:
        """The first relevant passage that no document of a ranking, which is not empty, can be compared with."""
        if not len(self._ranking):
            return None
        pairs = zip(self._gold, self._hits, strict=True)
        return next((passage for passage, hit in pairs if passage.grade and not hit.comparable), None)

    def _find_all(self) -> list[GoldHit]:
        keys = deciding_keys(self._ranking, self._gold)
        if keys is None:
            return [self._find(passage) for passage in self._gold]
        hits = []
        for passage, wanted in zip(self._gold, keys.of_gold, strict=True):
            at = [rank for rank, key in enumerate(keys.of_ranking) if key == wanted] if passage.grade else []
            hits.append(GoldHit(at[0] if at else None, tuple(at), "id" if at else None, comparable=True))
        return hits

    @cached_property
    def _sources(self) -> frozenset[str]:
        return frozenset(
            document.span.source for document in self._ranking.documents if document.span is not None
        )

    def _find(self, passage: Gold) -> GoldHit:
        if not passage.grade:
            return GoldHit(None, (), None, comparable=True)
        if passage.source is None:
            return self._find_in_files(passage, ())
        files = matching_files(passage.source, self._sources)
        if len(files) < 2:  # noqa: PLR2004 - several are ambiguous
            hit = self._find_in_files(passage, files)
            is_path = normalize_path(passage.source) in files
            return hit._replace(source="path" if is_path else "end") if hit.kind == "span" else hit
        hit = self._find_in_files(passage, ())
        if hit.rank is None and any(self._find_in_files(passage, (file,)).rank is not None for file in files):
            return hit._replace(source="ambiguous")
        return hit

    def _find_in_files(self, passage: Gold, files: Collection[str]) -> GoldHit:
        rank, kinds, comparable = None, [], False
        covered: list[Interval] = []
        documents = []
        required = self._share - COVERAGE_TOLERANCE
        for position, document in enumerate(self._ranking.documents):
            common = overlap(document, passage, files)
            comparable |= common is not None
            if common is None or not common.parts:
                continue
            extended = _union([*covered, *common.parts])
            adds = rank is None and _size(extended) > _size(covered) + COVERAGE_TOLERANCE
            if adds:
                covered = extended
                kinds.append(common.kind)
                if _size(covered) >= required:
                    rank = position
            if adds or _size(common.parts) >= required:
                documents.append(position)
        if rank is None:
            return GoldHit(None, (), None, comparable)
        return GoldHit(rank, tuple(documents), max(kinds, key=KINDS_BY_STRENGTH.index), comparable)


def overlap(document: Document, passage: Gold, files: Collection[str] | None = None) -> Overlap | None:
    """Return the parts of a gold passage that a document holds, by the first of these rules that applies.

    1. Both have a span: the common characters, if both spans are in one file (`matching_files`); otherwise nothing.
       Ids and texts do not count, because an id may mean another cut of the corpus since the passage was labelled.
    2. Both have an id: the whole passage if the ids are equal (`id_key`), or if its id is that of the document's chunk;
       otherwise nothing.
    3. The passage has a text: its words that are also in the document, in runs of at least 8 consecutive words, or of
       more than half of the words of a passage with fewer than 16. Shorter runs are common phrases. Words are compared
       without case and punctuation, and a word counts by its number of letters. This rule is the least reliable: a text
       may occur in several places, and a run that is cut short at the end of a chunk is not recognised.

    `files` are the files of the ranking that the passage's source matches; None: only the document's own file is known.
    The result is None if the two cannot be compared because the document lacks the data that identify the passage.
    """
    span, wanted = document.span, passage.span
    if span is not None and wanted is not None:
        matches = matching_files(wanted.source, [span.source]) if files is None else files
        return Overlap(_common_span(span, wanted) if normalize_path(span.source) in matches else (), "span")
    if document.id is not None and passage.id is not None:
        own_ids = map(id_key, filter(None, (document.id, document.chunk_id)))
        return Overlap(WHOLE if id_key(passage.id) in own_ids else (), "id")
    if passage.text is None or not words(passage.text):
        return None
    return _common_text(document.text, passage.text)


def matching_files(source: str, among: Iterable[str]) -> frozenset[str]:
    """Return the files that a source can mean: the file with the same path; if there is none, all with the same end.

    A loader may name a file by its full path and an eval set by the path within the corpus, or the other way round. So
    if no path is equal, either path may be the end of the other, in whole path components. The files are returned as
    their `normalize_path`.

    >>> sorted(matching_files("index.md", ["index.md", "guide/index.md"]))
    ['index.md']
    >>> sorted(matching_files("guide/index.md", ["/srv/corpus/guide/index.md", "/srv/corpus/index.md"]))
    ['srv/corpus/guide/index.md']
    >>> sorted(matching_files("handbook.md", ["old-handbook.md"]))
    []
    """
    wanted = normalize_path(source)
    files = frozenset(map(normalize_path, among))
    if wanted in files:
        return frozenset({wanted})
    return frozenset(file for file in files if file.endswith(f"/{wanted}") or wanted.endswith(f"/{file}"))


@lru_cache(maxsize=4096)
def normalize_path(source: str) -> str:
    """Return the components of a path joined by "/", without "." and without a root; case is kept."""
    return "/".join(step for step in source.replace("\\", "/").split("/") if step not in ("", "."))


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    union: list[Interval] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(end, union[-1][1]))
        else:
            union.append((start, end))
    return union


def _size(intervals: Iterable[Interval]) -> float:
    return sum(end - start for start, end in intervals)


def _common_span(span: Span, wanted: Span) -> tuple[Interval, ...]:
    start, end = max(span.start, wanted.start), min(span.end, wanted.end)
    if start >= end:
        return ()
    length = wanted.end - wanted.start
    return (((start - wanted.start) / length, (end - wanted.start) / length),)


@lru_cache(maxsize=2**17)  # some 300 bytes each; several scores, and the report, compare the same texts
def _common_text(document: str, passage: str) -> Overlap:
    wanted = words(passage)
    if words(document) == wanted:
        return Overlap(WHOLE, "same text")
    length = min(SHINGLE_LENGTH, len(wanted) // 2 + 1)
    in_document = shingles(document, length)
    letters = [0, *accumulate(map(len, wanted))]
    starts = [
        start for start in range(len(wanted) - length + 1) if wanted[start : start + length] in in_document
    ]
    common = _union((letters[start] / letters[-1], letters[start + length] / letters[-1]) for start in starts)
    return Overlap(tuple(common), "text")
