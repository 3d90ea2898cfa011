"""`TrecRun`: a recorded TREC run as a retriever. The rankings of another system are scored like live ones."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite, nan
from operator import gt
from pathlib import Path
from typing import Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example, Message
from pytest_rageval.core.ranking import CreatedDocuments, Document
from pytest_rageval.evalsets.files import MAX_LINE_BYTES, open_file, read_lines
from pytest_rageval.evalsets.formats import Shape, is_json_by_topic
from pytest_rageval.evalsets.formats.trec import read_numbers_by_topic, split_cells
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.foreign_values import id_key

EMPTY: Final[Mapping[str, object]] = {}

COLUMNS: Final = 6
NO_CELLS: Final = ("",) * COLUMNS
BLOCK_BYTES: Final = 2**15  # read at once; the cells of a larger block do not fit into a processor's cache
LINE_END: Final = "\0"  # the cell that marks the end of a line among the cells of a block
SCORE_LIMIT: Final = (2 - 2**-24) * 2.0**127  # a score of this size rounds to infinity in single precision


class TrecRun:
    """The rankings of a run file: lines of `topic Q0 document rank score tag`, or JSON `{topic: {document: score}}`.

    As in trec_eval, documents are ordered by score in single precision, documents with equal scores by id in descending
    order (compared as UTF-8). The column `rank` is not read. For a question that the run lacks nothing is retrieved.

    Args:
        path: the file of the run, which may be compressed.
        examples: the eval set. Its ids are the run's topics. A query is looked up by question, history and filters.
        texts: the texts of documents by id, for a generator. Other documents have an empty text.

    Raises:
        InputError: the run cannot be read, a line has another form, a topic has a document twice, no topic is the id of
            an example, or two examples have equal question, history and filters and different rankings.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     run = Path(folder) / "a.run"
    ...     _ = run.write_text("301 Q0 d1 1 0.5 mine" + chr(10) + "301 Q0 d2 2 0.9 mine")
    ...     search = TrecRun(run, [Example("301", "organised crime?")])
    >>> [document.id for document in search("organised crime?", 5)]
    ['d2', 'd1']
    """

    replays: Final = True
    """The duration of a call is not that of a retrieval of the recorded system."""

    def __init__(
        self, path: Path | str, examples: Iterable[Example], *, texts: Mapping[str, str] | None = None
    ) -> None:
        self._run = run = read_run(Path(path))
        self._texts = texts or {}
        self._bounds: dict[tuple[str, str], tuple[int, int]] = {}
        topics: dict[tuple[str, str], str] = {}
        for example in examples:
            key = _key(example.question, example.history, example.filters)
            other = topics.setdefault(key, example.id)
            if other != example.id and run.ranking(other) != run.ranking(example.id):
                raise InputError(
                    f"{Path(path).name}: {other!r} and {example.id!r} are one question with two rankings.\n"
                    "A retriever is called by question: remove one of them from the eval set."
                )
            self._bounds[key] = run.topics.get(id_key(example.id), (0, 0))
        if not any(first < end for first, end in self._bounds.values()):
            topic_names = ", ".join(list(run.topics)[:5]) or "none"
            raise InputError(
                f"{Path(path).name}: none of its topics ({topic_names}, …) is the id of an example.\n"
                "Is it a run of this eval set?"
            )

    def __call__(
        self,
        query: str,
        k: int,
        *,
        history: Sequence[Message] = (),
        filters: Mapping[str, object] | None = None,
    ) -> list[Document]:
        """Return the first k documents of the run for a question and its context; InputError if no example has them."""
        return list(self._first(query, k, history, filters or {}))

    def retrieve_many(self, queries: Iterable[str], k: int) -> list[Sequence[Document]]:
        """Return the first k documents for each question, without a context; raise the errors of a single call."""
        return [self._first(query, k) for query in queries]

    def _first(
        self, query: str, k: int, history: Iterable[Message] = (), filters: Mapping[str, object] = EMPTY
    ) -> "RunDocuments":
        key = _key(query, history, filters)
        if key not in self._bounds:
            raise InputError(
                f"The run was not recorded for {query!r}.\nOnly questions of its eval set can be looked up."
            )
        first, end = self._bounds[key]
        return RunDocuments(self._run, self._texts, first, min(end, first + k))


class RunDocuments(CreatedDocuments):
    """Documents of a run, which are created when they are used."""

    __slots__ = ("_first", "_run", "_texts")

    def __init__(self, run: "RunFile", texts: Mapping[str, str], first: int, end: int) -> None:
        self._run, self._texts = run, texts
        self._first = first
        super().__init__(end - first, textless=end - first, has_chunk_ids=False)
        if texts:
            self.textless = sum(not texts.get(name, "").strip() for name in self.ids)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._run.ids[self._first : self._first + self._length])

    def create(self) -> tuple[Document, ...]:
        scores = self._run.scores[self._first : self._first + self._length]
        ranking = zip(self.ids, scores, strict=True)
        return tuple(Document(self._texts.get(name, ""), id=name, score=score) for name, score in ranking)


def _key(question: str, history: Iterable[Message], filters: Mapping[str, object]) -> tuple[str, str]:
    return question, digest([list(map(dict, history)), dict(filters)]) if history or filters else ""


@dataclass(frozen=True, slots=True)
class RunFile:
    """The rankings of all topics, concatenated."""

    # For the `id_key` of each topic, the index of its first document and the index after its last one.
    topics: Mapping[str, tuple[int, int]]
    scores: Sequence[float]  # the scores of all documents, in single precision
    ids: list[str]

    def ranking(self, topic: str) -> tuple[list[str], list[float]]:
        first, end = self.topics.get(id_key(topic), (0, 0))
        return self.ids[first:end], list(self.scores[first:end])


def read_run(path: Path) -> RunFile:
    """Read a run file; see `TrecRun` for its forms, its order and the errors."""
    if is_json_by_topic(Shape(path).head):
        by_topic = _scores_of_json(path)
    else:
        by_topic = _scores_of_blocks(path) or _scores_of_lines(path)
    topics, scores = dict[str, tuple[int, int]](), array("f")
    ids: list[str] = []
    for topic, documents in by_topic.items():
        first, singles = len(ids), array("f", documents.values())
        if all(map(gt, singles, singles[1:])):  # already in order, as most are
            scores.extend(singles)
            ids.extend(documents)
        else:
            # Texts are compared by code point, which is the order of their UTF-8.
            ranking = sorted(zip(singles, documents, strict=True), reverse=True)
            scores.extend(score for score, _ in ranking)
            ids.extend(document for _, document in ranking)
        topics[topic] = first, len(ids)
    return RunFile(topics, scores, ids)


def _scores_of_json(path: Path) -> dict[str, dict[str, float]]:
    scores = {}
    for place, topic, documents in read_numbers_by_topic(path):
        scores[id_key(topic)] = documents
        if not all(-SCORE_LIMIT < score < SCORE_LIMIT for score in documents.values()):
            raise InputError(f"{place} has a score that is beyond single precision.")
    return scores


def _scores_of_blocks(path: Path) -> dict[str, dict[str, float]] | None:
    """Return what `_scores_of_lines` returns, in two thirds of its time; None if that one has a mistake to name.

    None is also returned for some files without a mistake, such as one with a blank line.
    """
    scores: dict[str, dict[str, float]] = {}
    encoding = "utf-8-sig"
    try:
        with open_file(path) as file:
            while raw := file.stream.read(BLOCK_BYTES):
                raw += file.stream.readline(MAX_LINE_BYTES + 1)
                if len(raw) > MAX_LINE_BYTES or not _add_block(raw.decode(encoding), scores):
                    return None
                encoding = "utf-8"
    except (InputError, ValueError):
        return None
    return scores


def _add_block(text: str, scores: dict[str, dict[str, float]]) -> bool:
    """Add the scores of many lines, whose cells are split at once; return False if this is not possible."""
    text = text.removesuffix("\n") + "\n"
    space, count = "\t" if "\t" in text else " ", text.count("\n")
    cells = split_cells(text.replace("\n", f"{space}{LINE_END}{space}"))
    names, documents, numbers, ends = (cells[column :: COLUMNS + 1] for column in (0, 2, 4, COLUMNS))
    is_regular = len(cells) == (COLUMNS + 1) * count and ends.count(LINE_END) == count
    # A file has no empty cells unless it has tabs.
    if not is_regular or LINE_END in text or (space == "\t" and "" in cells):
        return False
    values = [*map(float, numbers)]
    # The sum is NaN if a score is; the minimum and the maximum may be numbers nevertheless.
    if not (isfinite(sum(values)) and -SCORE_LIMIT < min(values) <= max(values) < SCORE_LIMIT):
        return False
    start = 0
    for name, equal_names in groupby(names):
        end = start + len([*equal_names])
        of_topic = scores.setdefault(id_key(name), {})
        expected = len(of_topic) + end - start
        of_topic.update(zip(documents[start:end], values[start:end], strict=True))
        if len(of_topic) < expected:
            return False  # a document is listed twice
        start = end
    return True


def _scores_of_lines(path: Path) -> dict[str, dict[str, float]]:
    scores: dict[str, dict[str, float]] = {}
    topic, documents = None, dict[str, float]()
    for number, line in read_lines(path):
        cells = split_cells(line)
        name, _, document, _, text, _ = cells if len(cells) == COLUMNS else NO_CELLS
        try:
            score = float(text) if name and document else nan
        except ValueError:
            score = nan
        if not -SCORE_LIMIT < score < SCORE_LIMIT:
            if not line.strip():
                continue
            raise InputError(
                f"{path.name} line {number} is not a line of a run: {line.strip()[:60]!r}.\n"
                "Write topic, Q0, document, rank, score, tag: six cells between spaces, or between tabs, which an id "
                "or a tag with a space needs."
            )
        if name != topic:  # the lines of a topic follow each other, nearly always
            topic = name
            documents = scores.setdefault(id_key(topic), {})
        if document in documents:
            raise InputError(
                f"{path.name} line {number}: document {document[:80]} is listed twice for topic {topic[:80]}."
            )
        documents[document] = score
    return scores
