"""`TrecRun`: a recorded TREC run as a retriever. The rankings of another system are scored like live ones.

The rankings of a run file are read to arrays (`RunFile`), from large files with numpy.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.core.data import Document, Example, Message, SpooledDocuments
from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.files import open_file, read_lines
from pytest_rageval.evalsets.formats import Shape, is_json_by_topic
from pytest_rageval.evalsets.formats.trec import read_numbers_by_topic, split_cells
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.foreign_values import id_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

EMPTY: Final[Mapping[str, Any]] = {}

COLUMNS: Final = 6
SCORE_LIMIT: Final = (2 - 2**-24) * 2.0**127  # a score of this size rounds to infinity in single precision

MIN_NUMPY_BYTES: Final = 2**22
"""Larger files are parsed with numpy, whose import takes as long as parsing 100,000 lines without it."""

BLOCK_BYTES: Final = 2**21  # bytes that are parsed in one step
MAX_CELL_BYTES: Final = 64  # the longest cell in an array of cells
MAX_DIGITS: Final = 15  # any integer with this many digits is exact as a float
HASH_MULTIPLIER: Final = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio: an odd factor that mixes bits."""


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
        filters: Mapping[str, Any] | None = None,
    ) -> list[Document]:
        """Return the first k documents of the run for a question and its context; InputError if no example has them."""
        return list(self._first(query, k, history, filters or {}))

    def retrieve_many(self, queries: Iterable[str], k: int) -> list[Sequence[Document]]:
        """Return the first k documents for each question, without a context; raise the errors of a single call."""
        return [self._first(query, k) for query in queries]

    def _first(
        self, query: str, k: int, history: Iterable[Message] = (), filters: Mapping[str, Any] = EMPTY
    ) -> "RunDocuments":
        key = _key(query, history, filters)
        if key not in self._bounds:
            raise InputError(
                f"The run was not recorded for {query!r}.\nOnly questions of its eval set can be looked up."
            )
        first, end = self._bounds[key]
        return RunDocuments(self._run, self._texts, first, min(end, first + k))


class RunDocuments(SpooledDocuments):
    """Documents of a run, which are created when they are used."""

    __slots__ = ("_first", "_run", "_texts")

    def __init__(self, run: "RunFile", texts: Mapping[str, str], first: int, end: int) -> None:
        self._run, self._texts = run, texts
        self._first, self._length = first, end - first
        self.textless: int = self._length
        self.has_chunk_ids: bool = False
        if texts:
            self.textless = sum(not texts.get(name, "").strip() for name in self.ids)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._run.ids(self._first, self._first + self._length))

    def _all(self) -> tuple[Document, ...]:
        scores = self._run.scores[self._first : self._first + self._length]
        ranking = zip(self.ids, scores, strict=True)
        return tuple(Document(self._texts.get(name, ""), id=name, score=score) for name, score in ranking)


def _key(question: str, history: Iterable[Message], filters: Mapping[str, Any]) -> tuple[str, str]:
    return question, digest([list(map(dict, history)), dict(filters)]) if history or filters else ""


@dataclass(frozen=True, slots=True)
class RunFile:
    """The rankings of all topics, concatenated."""

    # For the `id_key` of each topic, the index of its first document and the index after its last one.
    topics: Mapping[str, tuple[int, int]]
    scores: Sequence[float]  # the scores of all documents, in single precision
    document_ids: "list[str] | NDArray[Any]"  # the ids of all documents, as texts, or as UTF-8 in an array

    def ids(self, first: int, end: int) -> list[str]:
        if isinstance(self.document_ids, list):
            return self.document_ids[first:end]
        return [cell.decode() for cell in self.document_ids[first:end].tolist()]

    def ranking(self, topic: str) -> tuple[list[str], list[float]]:
        """Return the ids of a topic's documents and their scores; empty lists for a topic that the file lacks."""
        first, end = self.topics.get(id_key(topic), (0, 0))
        return self.ids(first, end), list(self.scores[first:end])


def read_run(path: Path) -> RunFile:
    """Read a run file; see `TrecRun` for its forms, its order and the errors."""
    is_json = is_json_by_topic(Shape(path).head)
    if not is_json and path.stat().st_size >= MIN_NUMPY_BYTES and (run := _read_columns(path)) is not None:
        return run
    topics, scores = dict[str, tuple[int, int]](), array("f")
    ids: list[str] = []
    for topic, documents in (_scores_of_json(path) if is_json else _scores_of_lines(path)).items():
        # Texts are compared by code point, which is the order of their UTF-8.
        ranking = sorted(zip(array("f", documents.values()), documents, strict=True), reverse=True)
        topics[topic] = len(ids), len(ids) + len(ranking)
        scores.extend(score for score, _ in ranking)
        ids += [document for _, document in ranking]
    return RunFile(topics, scores, ids)


def _scores_of_json(path: Path) -> dict[str, dict[str, float]]:
    scores = {}
    for place, topic, documents in read_numbers_by_topic(path):
        scores[id_key(topic)] = documents
        if not all(-SCORE_LIMIT < score < SCORE_LIMIT for score in documents.values()):
            raise InputError(f"{place} has a score that is beyond single precision.")
    return scores


def _scores_of_lines(path: Path) -> dict[str, dict[str, float]]:
    scores: dict[str, dict[str, float]] = {}
    for number, line in read_lines(path):
        if not line.strip():
            continue
        cells = split_cells(line)
        score = _parse_score(cells[4]) if len(cells) == COLUMNS and cells[0] and cells[2] else nan
        if not -SCORE_LIMIT < score < SCORE_LIMIT:
            raise InputError(
                f"{path.name} line {number} is not a line of a run: {line.strip()[:60]!r}.\n"
                "Write topic, Q0, document, rank, score, tag: six cells between spaces, or between tabs, which an id "
                "or a tag with a space needs."
            )
        documents = scores.setdefault(id_key(cells[0]), {})
        if cells[2] in documents:
            raise InputError(
                f"{path.name} line {number}: document {cells[2][:80]} is listed twice for topic {cells[0][:80]}."
            )
        documents[cells[2]] = score
    return scores


def _parse_score(cell: str) -> float:
    """Return the number in a cell; NaN if it is not a number."""
    try:
        return float(cell)
    except ValueError:
        return nan


def _read_columns(path: Path) -> RunFile | None:
    """Return the rankings of an ASCII file of six columns, sorted by topic and without mistakes.

    Return None for any other file. It takes a third of the time of `_scores_of_lines`, since a cell becomes a string
    only when it is used.
    """
    import numpy as np  # noqa: PLC0415 - see MIN_NUMPY_BYTES

    blocks = []
    for text in _blocks(path):
        columns = _parse_block(text)
        if columns is None:
            return None
        blocks.append(columns)
    topic, ids, scores = map(np.concatenate, zip(*blocks, strict=True))
    starts = np.concatenate(([0], np.flatnonzero(topic[1:] != topic[:-1]) + 1))
    names = [id_key(name.decode()) for name in topic[starts].tolist()]
    bounds = [*starts.tolist(), len(ids)]
    topic_number = np.zeros(len(ids), np.uint64)
    topic_number[starts] = 1
    if len({*names}) < len(names) or _may_have_duplicates(topic_number.cumsum(), ids):
        return None
    is_lower = scores[1:] < scores[:-1]
    is_lower[starts[1:] - 1] = True
    # Topics whose scores do not decrease strictly are sorted.
    for first, end in {
        (bounds[index - 1], bounds[index])
        for index in np.searchsorted(bounds, np.flatnonzero(~is_lower), "right").tolist()
    }:
        of_topic = zip(scores[first:end].tolist(), ids[first:end].tolist(), range(first, end), strict=True)
        order = [index for _, _, index in sorted(of_topic, reverse=True)]
        scores[first:end], ids[first:end] = scores[order], ids[order]
    return RunFile(dict(zip(names, pairwise(bounds), strict=True)), array("f", scores.tobytes()), ids)


def _blocks(path: Path) -> Iterator[bytes]:
    with open_file(path) as reading:
        while text := reading.stream.read(BLOCK_BYTES):
            yield text + reading.stream.readline()


def _parse_block(text: bytes) -> "tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None":
    """Return the topics, ids and scores of a block of lines; None if a line has another form."""
    import numpy as np  # noqa: PLC0415 - see MIN_NUMPY_BYTES

    text = text if text.endswith(b"\n") else text + b"\n"
    codes = np.frombuffer(text + bytes(MAX_CELL_BYTES), np.uint8)
    of_text = codes[: len(text)]
    breaks, returns, tabs, blanks = (np.count_nonzero(of_text == ord(white)) for white in "\n\r\t ")
    # Other control characters may be white space. Between tabs, a cell may contain a space, or be empty.
    is_simple = text.isascii() and np.count_nonzero(of_text < ord(" ")) == breaks + returns + tabs
    if not is_simple or (tabs and (blanks or tabs != (COLUMNS - 1) * breaks)):
        return None
    spaces = np.concatenate(([-1], np.flatnonzero(of_text <= ord(" "))))
    starts, widths = spaces[:-1] + 1, np.diff(spaces) - 1
    if not widths.all():
        # Remove the empty cells between adjacent spaces.
        starts, widths = starts[widths > 0], widths[widths > 0]
    lines = np.concatenate(([0], np.flatnonzero(of_text == ord("\n")) + 1))[:-1]
    if len(starts) != COLUMNS * len(lines) or (starts[::COLUMNS] != lines).any():
        return None
    if int(widths.max()) > MAX_CELL_BYTES:
        return None
    topic, ids, scores = (
        _cell_array(codes, starts[column::COLUMNS], widths[column::COLUMNS]) for column in (0, 2, 4)
    )
    numbers = _parse_decimals(scores)
    if numbers is None:
        try:
            numbers = np.fromiter(map(float, scores.tolist()), float, len(scores))
        except ValueError:
            return None
    if not (abs(numbers) < SCORE_LIMIT).all():
        return None
    return topic, ids, numbers.astype(np.float32)


def _parse_decimals(cells: "NDArray[Any]") -> "NDArray[Any] | None":
    """Return the numbers of cells if all are plain decimals of at most 15 digits, such as -12.345; else None.

    The numbers equal those of `float`, since the digits and the power of ten by which they are divided are exact.
    """
    import numpy as np  # noqa: PLC0415 - see MIN_NUMPY_BYTES

    width = cells.dtype.itemsize
    if width > MAX_DIGITS:
        return None
    digits, decimals = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
    has_digit = has_point = np.zeros(len(cells), bool)
    columns = cells.view(np.uint8).reshape(-1, width).T
    is_negative = columns[0] == ord("-")
    for position, column in enumerate(columns):
        value = column - np.uint8(ord("0"))
        is_digit, is_point = value <= 9, column == ord(".")  # noqa: PLR2004 - the highest digit
        others = ~(is_digit | is_point | (column == 0))
        if (others & ~is_negative if position == 0 else others).any() or (is_point & has_point).any():
            return None
        digits = np.where(is_digit, digits * 10 + value, digits)
        decimals += is_digit & has_point
        has_digit, has_point = has_digit | is_digit, has_point | is_point
    if not has_digit.all():
        return None
    numbers: NDArray[Any] = np.where(is_negative, -1.0, 1.0) * digits / 10.0**decimals
    return numbers


def _cell_array(codes: "NDArray[Any]", starts: "NDArray[Any]", widths: "NDArray[Any]") -> "NDArray[Any]":
    """Return cells of a text as an array of byte strings of equal length, padded with zeros."""
    import numpy as np  # noqa: PLC0415 - see MIN_NUMPY_BYTES

    widest = int(widths.max())
    cells = np.lib.stride_tricks.sliding_window_view(codes, widest)[starts]
    # The bytes after a cell become 0.
    cells *= np.arange(widest, dtype=np.uint8) < widths.astype(np.uint8)[:, None]
    array: NDArray[Any] = cells.view(f"S{widest}").ravel()
    return array


def _may_have_duplicates(topic: "NDArray[Any]", ids: "NDArray[Any]") -> bool:
    """Whether a topic may have an id twice: False if the hashes of all pairs of topic and id are different."""
    import numpy as np  # noqa: PLC0415 - see MIN_NUMPY_BYTES

    width = -(-ids.dtype.itemsize // 8)
    hashes = topic * np.uint64(HASH_MULTIPLIER)
    for word in ids.astype(f"S{8 * width}").view(np.uint64).reshape(-1, width).T:
        hashes ^= word
        hashes *= np.uint64(HASH_MULTIPLIER)
        hashes ^= hashes >> np.uint64(29)
    hashes.sort()
    return bool((hashes[1:] == hashes[:-1]).any())
