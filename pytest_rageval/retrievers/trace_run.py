"""Replays the recorded retrievals of an application in production as a retriever."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_rageval.conversation import Message
from pytest_rageval.datatypes import Retrieval
from pytest_rageval.errors import InputError, Unscored
from pytest_rageval.evalsets.traces import question_key, read_traces

__all__ = ["TraceRun"]


class TraceRun:
    """What was retrieved for each question when it was asked, by question and the messages before it.

    If a question was asked several times, its last retrieval counts. If a trace has several searches, the last one
    counts, after reranking, and all of them are the steps. A question that was not recorded is unscored, which is not
    the same as a retrieval without results.

    Args:
        path: of the traces: spans of Phoenix, OTLP JSON, an export of Langfuse or LangSmith, or the eval set that
            `rageval evalset from-traces` made of them.
        more: further files.

    Raises:
        InputError: a file cannot be read, or none of the files has a retrieval.
    """

    replays: Final = True
    """The time of a call says nothing about the system that was recorded."""

    def __init__(self, path: Path | str, *more: Path | str) -> None:
        paths = [Path(each) for each in (path, *more)]
        traces = read_traces(paths)
        self._files = ", ".join(each.name for each in paths)
        self._recorded = {
            question_key(each.question.text or "", each.question.history): each for each in traces.questions
        }
        if all(each.retrieved is None for each in traces.questions):
            raise InputError(
                f"{self._files}: no retrieval was recorded, in {traces.counts_text}.{traces.notes_text()}\n"
                "A trace needs a span of the retriever, with the ids or the texts of the passages."
            )

    def __call__(self, query: str, k: int, *, history: Sequence[Message] = ()) -> Retrieval:
        """Return the first k documents that were retrieved, and the searches; Unscored if that was not recorded."""
        recorded = self._recorded.get(question_key(query, history))
        if recorded is None or recorded.retrieved is None:
            found = (
                "no trace has this question"
                if recorded is None
                else f"its trace came {recorded.missing_reason}"
            )
            raise Unscored(f"not recorded for {query!r:.80}: {found}, in {self._files}")
        return Retrieval(recorded.retrieved[:k], recorded.steps if len(recorded.steps) > 1 else None)
