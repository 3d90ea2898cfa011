"""A recorded TREC run as a retriever: the rankings of another system, scored like live ones."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_rageval.conversation import Message
from pytest_rageval.datatypes import Document, Example, SpooledDocuments
from pytest_rageval.digests import digest
from pytest_rageval.errors import InputError
from pytest_rageval.retrievers.run_file import RunFile, read_run

__all__ = ["TrecRun"]

EMPTY: Final[Mapping[str, Any]] = {}


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
        self._run = run = read_run(Path(path))
        self._texts = texts or {}
        self._places: dict[tuple[str, str], tuple[int, int]] = {}
        topics: dict[tuple[str, str], str] = {}
        for example in examples:
            key = _key(example.question, example.history, example.filters)
            other = topics.setdefault(key, example.id)
            if other != example.id and run.ranking(other) != run.ranking(example.id):
                raise InputError(
                    f"{Path(path).name}: {other!r} and {example.id!r} are one question with two rankings.\n"
                    "A retriever is asked by question: take one of them out of the eval set."
                )
            self._places[key] = run.topics.get(example.id, (0, 0))
        if not any(first < end for first, end in self._places.values()):
            named = ", ".join(list(run.topics)[:5]) or "none"
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
        return list(self._first(query, k, history, filters or {}))

    def retrieve_many(self, queries: Iterable[str], k: int) -> list[Sequence[Document]]:
        """Return the first k documents for each of these questions, without a context; raises as one does."""
        return [self._first(query, k) for query in queries]

    def _first(
        self, query: str, k: int, history: Iterable[Message] = (), filters: Mapping[str, Any] = EMPTY
    ) -> "RunDocuments":
        key = _key(query, history, filters)
        if key not in self._places:
            raise InputError(
                f"The run was not recorded for {query!r}.\nOnly questions of its eval set can be looked up."
            )
        first, end = self._places[key]
        return RunDocuments(self._run, self._texts, first, min(end, first + k))


class RunDocuments(SpooledDocuments):
    """Documents of a run, made when they are read."""

    __slots__ = ("_first", "_run", "_texts")

    def __init__(self, run: RunFile, texts: Mapping[str, str], first: int, end: int) -> None:
        self._run, self._texts = run, texts
        self._first, self._length = first, end - first
        self.textless = self._length
        if texts:
            self.textless = sum(not texts.get(name, "").strip() for name in self.ids)

    @property
    def ids(self) -> tuple[str, ...]:
        """The documents' ids."""
        return tuple(self._run.ids(self._first, self._first + self._length))

    def _all(self) -> tuple[Document, ...]:
        scores = self._run.scores[self._first : self._first + self._length]
        ranking = zip(self.ids, scores, strict=True)
        return tuple(Document(self._texts.get(name, ""), id=name, score=score) for name, score in ranking)


def _key(question: str, history: Iterable[Message], filters: Mapping[str, Any]) -> tuple[str, str]:
    return question, digest([list(map(dict, history)), dict(filters)]) if history or filters else ""
