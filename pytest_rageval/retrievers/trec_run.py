"""A recorded TREC run as a retriever: the rankings of another system, scored like live ones."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any, Final

from pytest_rageval.conversation import Message
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import lines
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.trec import is_by_topic, numbers_by_topic
from pytest_rageval.fingerprint import digest
from pytest_rageval.model import Document, Example

__all__ = ["TrecRun"]

COLUMNS: Final = 6
TOO_HIGH: Final = (2 - 2**-24) * 2.0**127  # rounds to infinity in single precision


class TrecRun:
    """The rankings of a run file: lines of `topic Q0 document rank score tag`, or JSON `{topic: {document: score}}`.

    As in trec_eval, documents are ordered by score in single precision, of equal scores the greater id first (compared
    as UTF-8); the column `rank` is not read. A question that the run lacks retrieves nothing.

    Args:
        path: of the run; may be compressed.
        examples: the eval set, whose ids are the run's topics; questions are looked up by it, with history and filters.
        texts: of the documents by id, for a generator; other documents have an empty text.

    Raises:
        InputError: the run cannot be read, a line has another form, a document comes twice for a topic, no topic is
            an example's, or one question is asked by examples in the same context with other rankings.

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
    """The time of a call says nothing about the system that was recorded."""

    def __init__(
        self, path: Path | str, examples: Iterable[Example], *, texts: Mapping[str, str] | None = None
    ) -> None:
        rankings = _rankings(Path(path))
        self._texts = texts or {}
        self._found: dict[tuple[str, str], list[tuple[float, str]]] = {}
        topics: dict[tuple[str, str], str] = {}
        for example in examples:
            key = _key(example.question, example.history, example.filters)
            other = topics.setdefault(key, example.id)
            if rankings.get(other) != rankings.get(example.id):
                raise InputError(
                    f"{Path(path).name}: {other!r} and {example.id!r} are one question with two rankings.\n"
                    "A retriever is asked by question: take one of them out of the eval set."
                )
            self._found[key] = rankings.get(example.id, [])
        if not any(self._found.values()):
            named = ", ".join(list(rankings)[:5]) or "none"
            raise InputError(
                f"{Path(path).name}: none of its topics ({named}, …) is the id of an example.\n"
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
        """Return the first k documents of the run for a question in its context; InputError if no example asks it."""
        key = _key(query, history, filters or {})
        if key not in self._found:
            raise InputError(
                f"The run was not recorded for {query!r}.\nOnly questions of its eval set can be looked up."
            )
        return [
            Document(self._texts.get(document, ""), id=document, score=score)
            for score, document in self._found[key][:k]
        ]


def _key(question: str, history: Iterable[Message], filters: Mapping[str, Any]) -> tuple[str, str]:
    return question, digest([list(map(dict, history)), dict(filters)])


def _rankings(path: Path) -> dict[str, list[tuple[float, str]]]:
    scores = _scores_of_json(path) if is_by_topic(Shape(path).head) else _scores_of_lines(path)
    return {
        # Code points have the order of their UTF-8.
        topic: sorted(zip(array("f", documents.values()), documents, strict=True), reverse=True)
        for topic, documents in scores.items()
    }


def _scores_of_json(path: Path) -> dict[str, dict[str, float]]:
    scores = {}
    for place, topic, documents in numbers_by_topic(path):
        scores[topic] = documents
        if not all(-TOO_HIGH < score < TOO_HIGH for score in documents.values()):
            raise InputError(f"{place} has a score that is beyond single precision.")
    return scores


def _scores_of_lines(path: Path) -> dict[str, dict[str, float]]:
    scores: dict[str, dict[str, float]] = {}
    for number, line in lines(path):
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
