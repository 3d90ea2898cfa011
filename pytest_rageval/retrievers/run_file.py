"""The rankings of a run file as arrays: of each topic, the ids of its documents and their scores, best first."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.concurrency.garbage_collection import fewer_collections
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import open_file, read_lines
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.trec import is_json_by_topic, read_numbers_by_topic

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RunFile", "read_run"]

COLUMNS: Final = 6
TOO_HIGH: Final = (2 - 2**-24) * 2.0**127  # rounds to infinity in single precision

LARGE: Final = 2**22
"""From so many bytes on the columns are found by numpy, whose import takes as long as 100,000 lines do without it."""

AT_ONCE: Final = 2**21  # bytes whose columns are found at once
WIDEST: Final = 64  # bytes of a cell in an array of cells
MOST_DIGITS: Final = 15  # any integer of so many digits is exact as a float
GOLDEN: Final = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: an odd factor that mixes bits


@dataclass(frozen=True, slots=True)
class RunFile:
    """The rankings of all topics, concatenated.

    Attributes:
        topics: by topic, the index of its first document, and the index after its last one.
        scores: of all documents, in single precision.
        cells: their ids, as text or in UTF-8.
    """

    topics: Mapping[str, tuple[int, int]]
    scores: Sequence[float]
    cells: "list[str] | NDArray[Any]"

    def ids(self, first: int, end: int) -> list[str]:
        """The ids of the documents at these places."""
        if isinstance(self.cells, list):
            return self.cells[first:end]
        return [cell.decode() for cell in self.cells[first:end].tolist()]

    def ranking(self, topic: str) -> tuple[list[str], list[float]]:
        """The ids of a topic's documents and their scores; empty for a topic that the file lacks."""
        first, end = self.topics.get(topic, (0, 0))
        return self.ids(first, end), list(self.scores[first:end])


@fewer_collections()
def read_run(path: Path) -> RunFile:
    """Read lines of `topic Q0 document rank score tag`, or JSON `{topic: {document: score}}`.

    As in trec_eval, documents are ordered by score in single precision, of equal scores the greater id first (compared
    as UTF-8); the column `rank` is not read. The file may be compressed.

    Raises:
        InputError: it cannot be read, a line has another form, or a document comes twice for a topic.
    """
    is_json = is_json_by_topic(Shape(path).head)
    if not is_json and path.stat().st_size >= LARGE and (found := _of_columns(path)) is not None:
        return found
    topics, scores = dict[str, tuple[int, int]](), array("f")
    ids: list[str] = []
    for topic, documents in (_scores_of_json(path) if is_json else _scores_of_lines(path)).items():
        # Code points have the order of their UTF-8.
        ranking = sorted(zip(array("f", documents.values()), documents, strict=True), reverse=True)
        topics[topic] = len(ids), len(ids) + len(ranking)
        scores.extend(score for score, _ in ranking)
        ids += [document for _, document in ranking]
    return RunFile(topics, scores, ids)


def _scores_of_json(path: Path) -> dict[str, dict[str, float]]:
    scores = {}
    for place, topic, documents in read_numbers_by_topic(path):
        scores[topic] = documents
        if not all(-TOO_HIGH < score < TOO_HIGH for score in documents.values()):
            raise InputError(f"{place} has a score that is beyond single precision.")
    return scores


def _scores_of_lines(path: Path) -> dict[str, dict[str, float]]:
    scores: dict[str, dict[str, float]] = {}
    for number, line in read_lines(path):
        cells = line.split()
        if not cells:
            continue
        score = _number(cells[4]) if len(cells) >= COLUMNS else nan
        if not -TOO_HIGH < score < TOO_HIGH:
            raise InputError(
                f"{path.name} line {number} is not of a run: {line.strip()[:60]!r}.\n"
                "Write topic, Q0, document, rank, score, tag."
            )
        documents = scores.setdefault(cells[0], {})
        if cells[2] in documents:
            raise InputError(
                f"{path.name} line {number}: {cells[2][:80]} comes twice for topic {cells[0][:80]}."
            )
        documents[cells[2]] = score
    return scores


def _number(cell: str) -> float:
    """The number; NaN where it is none."""
    try:
        return float(cell)
    except ValueError:
        return nan


def _of_columns(path: Path) -> RunFile | None:
    """The same from a file in ASCII of six columns, sorted by topic; None of another one, or one with a mistake.

    It takes a third of the time of `_scores_of_lines`, since only requested cells become strings.
    """
    import numpy as np  # noqa: PLC0415 - see LARGE

    found = []
    for text in _blocks(path):
        columns = _columns(text)
        if columns is None:
            return None
        found.append(columns)
    topic, ids, scores = map(np.concatenate, zip(*found, strict=True))
    starts = np.concatenate(([0], np.flatnonzero(topic[1:] != topic[:-1]) + 1))
    names = [name.decode() for name in topic[starts].tolist()]
    places = [*starts.tolist(), len(ids)]
    number = np.zeros(len(ids), np.uint64)
    number[starts] = 1
    if len({*names}) < len(names) or _any_twice(number.cumsum(), ids):
        return None
    falls = scores[1:] < scores[:-1]
    falls[starts[1:] - 1] = True
    for first, end in {
        (places[at - 1], places[at])
        for at in np.searchsorted(places, np.flatnonzero(~falls), "right").tolist()
    }:
        of_topic = zip(scores[first:end].tolist(), ids[first:end].tolist(), range(first, end), strict=True)
        order = [place for _, _, place in sorted(of_topic, reverse=True)]
        scores[first:end], ids[first:end] = scores[order], ids[order]
    return RunFile(dict(zip(names, pairwise(places), strict=True)), array("f", scores.tobytes()), ids)


def _blocks(path: Path) -> Iterator[bytes]:
    """The file in whole lines, some at once."""
    with open_file(path) as reading:
        while text := reading.stream.read(AT_ONCE):
            yield text + reading.stream.readline()


def _columns(text: bytes) -> "tuple[NDArray[Any], NDArray[Any], NDArray[Any]] | None":
    """The topics, the ids and the scores of whole lines; None where one of them has another form."""
    import numpy as np  # noqa: PLC0415 - see LARGE

    text = text if text.endswith(b"\n") else text + b"\n"
    codes = np.frombuffer(text + bytes(WIDEST), np.uint8)
    of_text = codes[: len(text)]
    known = sum(np.count_nonzero(of_text == ord(white)) for white in "\n\r\t")
    if not text.isascii() or np.count_nonzero(of_text < ord(" ")) != known:
        # It may have other white space.
        return None
    spaces = np.concatenate(([-1], np.flatnonzero(of_text <= ord(" "))))
    starts, widths = spaces[:-1] + 1, np.diff(spaces) - 1
    if not widths.all():
        # Spaces side by side.
        starts, widths = starts[widths > 0], widths[widths > 0]
    lines = np.concatenate(([0], np.flatnonzero(of_text == ord("\n")) + 1))[:-1]
    if len(starts) != COLUMNS * len(lines) or (starts[::COLUMNS] != lines).any():
        return None
    if int(widths.max()) > WIDEST:
        return None
    topic, ids, scores = (_cells(codes, starts[at::COLUMNS], widths[at::COLUMNS]) for at in (0, 2, 4))
    numbers = _decimals(scores)
    if numbers is None:
        try:
            numbers = np.fromiter(map(float, scores.tolist()), float, len(scores))
        except ValueError:
            return None
    if not (abs(numbers) < TOO_HIGH).all():
        return None
    return topic, ids, numbers.astype(np.float32)


def _decimals(cells: "NDArray[Any]") -> "NDArray[Any] | None":
    """The numbers of cells, where these are plain decimals such as -12.345 of at most 15 digits; otherwise None.

    They are those of `float`: the digits, and the power of ten by which they are divided, are exact.
    """
    import numpy as np  # noqa: PLC0415 - see LARGE

    width = cells.dtype.itemsize
    if width > MOST_DIGITS:
        return None
    digits, decimals = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
    has_digit = has_point = np.zeros(len(cells), bool)
    columns = cells.view(np.uint8).reshape(-1, width).T
    is_negative = columns[0] == ord("-")
    for at, column in enumerate(columns):
        value = column - np.uint8(ord("0"))
        is_digit, is_point = value <= 9, column == ord(".")  # noqa: PLR2004 - the highest digit
        others = ~(is_digit | is_point | (column == 0))
        if (others & ~is_negative if at == 0 else others).any() or (is_point & has_point).any():
            return None
        digits = np.where(is_digit, digits * 10 + value, digits)
        decimals += is_digit & has_point
        has_digit, has_point = has_digit | is_digit, has_point | is_point
    if not has_digit.all():
        return None
    numbers: NDArray[Any] = np.where(is_negative, -1.0, 1.0) * digits / 10.0**decimals
    return numbers


def _cells(codes: "NDArray[Any]", starts: "NDArray[Any]", widths: "NDArray[Any]") -> "NDArray[Any]":
    """Cells of a text as an array of bytes."""
    import numpy as np  # noqa: PLC0415 - see LARGE

    widest = int(widths.max())
    cells = np.lib.stride_tricks.sliding_window_view(codes, widest)[starts]
    # What follows a cell becomes 0.
    cells *= np.arange(widest, dtype=np.uint8) < widths.astype(np.uint8)[:, None]
    found: NDArray[Any] = cells.view(f"S{widest}").ravel()
    return found


def _any_twice(topic: "NDArray[Any]", ids: "NDArray[Any]") -> bool:
    """Whether an id may come twice for a topic: certainly not where no two have the same hash."""
    import numpy as np  # noqa: PLC0415 - see LARGE

    width = -(-ids.dtype.itemsize // 8)
    hashes = topic * np.uint64(GOLDEN)
    for word in ids.astype(f"S{8 * width}").view(np.uint64).reshape(-1, width).T:
        hashes ^= word
        hashes *= np.uint64(GOLDEN)
        hashes ^= hashes >> np.uint64(29)
    hashes.sort()
    return bool((hashes[1:] == hashes[:-1]).any())
