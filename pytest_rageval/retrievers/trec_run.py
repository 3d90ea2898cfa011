"""`TrecRun`: a recorded TREC run as a retriever. The rankings of another system are scored like live ones."""

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
            self._bounds[key] = run.topics.get(example.id, (0, 0))
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

    def __init__(self, run: RunFile, texts: Mapping[str, str], first: int, end: int) -> None:
        self._run, self._texts = run, texts
        self._first, self._length = first, end - first
        self.textless = self._length
        if texts:
            self.textless = sum(not texts.get(name, "").strip() for name in self.ids)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the documents."""
        return tuple(self._run.ids(self._first, self._first + self._length))

    def _all(self) -> tuple[Document, ...]:
        scores = self._run.scores[self._first : self._first + self._length]
        ranking = zip(self.ids, scores, strict=True)
        return tuple(Document(self._texts.get(name, ""), id=name, score=score) for name, score in ranking)


def _key(question: str, history: Iterable[Message], filters: Mapping[str, Any]) -> tuple[str, str]:
    return question, digest([list(map(dict, history)), dict(filters)]) if history or filters else ""
