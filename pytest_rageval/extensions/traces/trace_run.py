"""`TraceRun`: replays recorded retrievals of an application in production as a retriever."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_rageval.core.data import Message, Retrieval
from pytest_rageval.core.errors import InputError, Unscored
from pytest_rageval.extensions.traces.reading import question_key, read_traces

STORED_AS: Final = "pytest_rageval.retrievers.trace_run"  # see core.user_code


class TraceRun:
    """A retriever that returns what an application retrieved for a question and the messages before it.

    If a question was asked several times, its last retrieval counts. If a trace has several searches, the last search
    counts, after reranking, and all of them are the steps. A question without a record is unscored, unlike a question
    for which nothing was found.

    Args:
        path: the file of the traces: spans of Phoenix, OTLP JSON, an export of Langfuse or LangSmith, or an eval set
            that `rageval evalset from-traces` wrote.
        more: paths of further files.

    Raises:
        InputError: a file cannot be read, or none of the files has a retrieval.
    """

    replays: Final = True
    """The duration of a call is not that of a retrieval of the recorded system."""

    def __init__(self, path: Path | str, *more: Path | str) -> None:
        paths = [Path(file) for file in (path, *more)]
        traces = read_traces(paths)
        self._files = ", ".join(file.name for file in paths)
        self._recorded = {
            question_key(record.question.text or "", record.question.history): record
            for record in traces.questions
        }
        if all(record.retrieved is None for record in traces.questions):
            raise InputError(
                f"{self._files}: no retrieval was recorded, in {traces.counts_text}.{traces.notes_text()}\n"
                "A trace needs a span of the retriever, with the ids or the texts of the passages."
            )

    def __call__(self, query: str, k: int, *, history: Sequence[Message] = ()) -> Retrieval:
        """Return the first k documents that were retrieved, and the searches; Unscored without a record."""
        recorded = self._recorded.get(question_key(query, history))
        if recorded is None or recorded.retrieved is None:
            found = (
                "no trace has this question"
                if recorded is None
                else f"its trace came {recorded.missing_reason}"
            )
            raise Unscored(f"not recorded for {query!r:.80}: {found}, in {self._files}")
        return Retrieval(recorded.retrieved[:k], recorded.steps if len(recorded.steps) > 1 else None)
