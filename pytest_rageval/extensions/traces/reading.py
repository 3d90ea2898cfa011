"""`read_traces`: the questions, retrieved passages, answers and feedback of exported traces.

`TraceRun` replays what was retrieved, and `rageval evalset from-traces` writes an eval set with the questions.
"""

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_rageval.cli.console import echo, format_count
from pytest_rageval.core.errors import InputError, Unscored
from pytest_rageval.core.evalset import Message
from pytest_rageval.core.ranking import Retrieval, Step
from pytest_rageval.evalsets.loading import write_jsonl
from pytest_rageval.evalsets.records import from_records
from pytest_rageval.extensions.evalset_tools.reading import refuse_existing
from pytest_rageval.extensions.traces.exports import read_export
from pytest_rageval.extensions.traces.records import (
    NO_QUESTION,
    Feedback,
    RecordedQuestion,
    Span,
    SpanKind,
)
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.text import plural

STORED_AS: Final = "pytest_rageval.retrievers.trace_run"  # see calls.STORED_AS


@dataclass(slots=True)
class Traces:
    questions: list[RecordedQuestion]  # distinct; of a repeated one, the last with a retrieval
    number: int  # of traces
    items: int  # of data sets
    notes: Counter[str]  # what was left out or is missing

    @property
    def counts_text(self) -> str:
        """The counts for messages: "97 traces and 3 data set items"."""
        parts = ((self.number, "trace"), (self.items, "data set item"))
        return " and ".join(f"{n:,} {plural(n, noun)}" for n, noun in parts if n) or "no trace"

    def notes_text(self) -> str:
        """Return one line for each note with its count, the most frequent first; each begins with a line feed."""
        return "".join(f"\n  {number:,} × {note}" for note, number in self.notes.most_common())


def read_traces(
    paths: Iterable[Path], selected: Callable[[RecordedQuestion], bool] = lambda _question: True
) -> Traces:
    """Read traces and items of data sets from files; the spans of a trace may be in several files.

    Questions that are not `selected` are as if they were in no file.

    Failed traces and traces without a question are left out. If several traces or items have the same question after
    the same messages, the last one with a retrieval is kept or, if none has a retrieval, the last one.

    Raises:
        InputError: a file cannot be read, or a record is of no known kind.
    """
    notes: Counter[str] = Counter()
    spans: dict[str, dict[str, Span]] = defaultdict(dict)
    feedback: list[Feedback] = []
    questions: list[RecordedQuestion] = []
    trace_of_span: dict[str, str] = {}
    for path in paths:
        for record in read_export(path):
            if isinstance(record, Feedback):
                feedback.append(record)
            elif isinstance(record, RecordedQuestion):
                questions.append(record)
            else:
                trace = record.trace or f"without id, {record.place}"
                trace_of_span[record.id] = trace
                notes["the same span again"] += record.id in spans[trace]
                spans[trace][record.id] = record
    feedback_by_trace: dict[str, list[Feedback]] = defaultdict(list)
    for item in feedback:
        trace = item.about if item.about in spans else trace_of_span.get(item.about, "")
        notes["feedback on a trace that is in no file"] += not trace
        feedback_by_trace[trace].append(item)
    items = len(questions)
    for trace, spans_by_id in spans.items():
        question = _question_from_spans(list(spans_by_id.values()), notes)
        if question is not None:
            question.tags = _feedback_tags(feedback_by_trace[trace])
            questions.append(question)
    return Traces(_keep_latest(filter(selected, questions), notes), len(spans), items, +notes)


def question_key(question: str, history: Iterable[Mapping[str, str]] = ()) -> str:
    return digest([question.strip(), [[message.get("role"), message.get("content")] for message in history]])


def _keep_latest(recorded: Iterable[RecordedQuestion], notes: Counter[str]) -> list[RecordedQuestion]:
    kept: dict[str, RecordedQuestion] = {}
    for new in recorded:
        if new.question.text is None:
            notes["without a question: left out"] += 1
            continue
        key = question_key(new.question.text, new.question.history)
        known = kept.setdefault(key, new)
        if known is not new:
            notes["the same question again: the last one with a retrieval is kept"] += 1
            if (new.retrieved is not None, new.time) >= (known.retrieved is not None, known.time):
                kept[key] = new
    for key, question in kept.items():
        if not question.id:
            question.id = f"q-{key[:12]}"
            notes["without an id: named after the question"] += 1
        if question.retrieved is None and not question.of_evalset:
            notes[f"{question.missing_reason}: kept as a question"] += 1
        notes["retrieved passages without an id: known by their text"] += sum(
            document.id is None for document in question.retrieved or ()
        )
        notes["with several searches: the last one is `retrieved`, all are `steps`"] += (
            len(question.steps) > 1
        )
    return list(kept.values())


def _question_from_spans(spans: list[Span], notes: Counter[str]) -> RecordedQuestion | None:
    """Return the question of one trace; None, with a note, if the trace failed or has several questions."""
    spans.sort(key=lambda span: span.start)
    by_id = {span.id: span for span in spans}
    roots = [span for span in spans if span.parent not in by_id or span.parent == span.id] or spans[:1]
    # A retriever may call other retrievers: the documents of the outermost one were used.
    outer = [
        span for span in spans if SpanKind.SEARCH not in {above.kind for above in _ancestors(span, by_id)}
    ]
    attempts = [span for span in outer if span.kind is SpanKind.SEARCH]
    searches = [span for span in attempts if not span.failed]
    if any(span.failed for span in roots if span.kind is not SpanKind.SEARCH) or (attempts and not searches):
        notes["the trace failed: left out"] += 1
        return None
    outermost = [span for span in roots if span.kind is SpanKind.OTHER and not span.parent]
    if len({span.question.text for span in outermost} - {None}) > 1:
        # It is unknown which search belongs to which question.
        notes["several questions in one trace: left out"] += 1
        return None
    notes["a search failed, another did not: the failed one is left out"] += len(attempts) - len(searches)
    reranked = [span for span in outer if span.kind is SpanKind.RERANKING and not span.failed]
    results = sorted([*searches, *reranked], key=lambda span: span.end or span.start)
    others = [span for span in spans if span.kind is SpanKind.OTHER]
    question = next((span.question for span in [*others, *searches] if span.question.text), NO_QUESTION)
    models = sorted((span for span in spans if span.kind is SpanKind.MODEL), key=lambda span: span.end)
    answers = [span.answer for span in roots if span.kind in (SpanKind.OTHER, SpanKind.MODEL)]
    answers += [span.answer for span in reversed(models)]
    return RecordedQuestion(
        roots[0].place,
        roots[0].trace,
        question,
        roots[0].start,
        results[-1].documents if results else None,
        "with a retrieval of unknown form" if searches else "without a retrieval",
        [
            Step(span.question.text or question.text or "", span.documents)
            for span in searches
            if span.documents is not None
        ],
        next((answer for answer in answers if answer), None),
    )


def _ancestors(span: Span, by_id: Mapping[str, Span]) -> Iterator[Span]:
    """Yield the parent of a span, its parent, and so on; a cycle ends the iteration."""
    seen = {span.id}
    while span.parent in by_id and span.parent not in seen:
        span = by_id[span.parent]
        seen.add(span.id)
        yield span


def _feedback_tags(feedback: Iterable[Feedback]) -> dict[str, object]:
    values: dict[str, list[Any]] = defaultdict(list)
    for item in feedback:
        if item.value not in values[item.name]:
            values[item.name].append(item.value)
    return {name: distinct[0] if len(distinct) == 1 else distinct for name, distinct in values.items()}


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


def from_traces_command(options: argparse.Namespace) -> int:
    output: Path = options.output
    refuse_existing([output], read=options.files, force=options.force)
    traces = read_traces(options.files)
    example = next((question for question in traces.questions if question.of_evalset), None)
    if example is not None:
        raise InputError(
            f"{example.place} is an example of an eval set already.\nGive exports of traces, spans or data sets."
        )
    if not traces.questions:
        raise InputError(
            f"No question was found in {traces.counts_text}, nothing was written.{traces.notes_text()}\n"
            "A question is the input of the outermost span, or the query of a retriever's."
        )
    records = (
        (question.place, question.record(answer_is_reference=options.answers_are_references))
        for question in traces.questions
    )
    evalset = from_records(records, name=output.name)
    write_jsonl(evalset, output)
    echo(f"{output}: {format_count(len(evalset), 'question')} of {traces.counts_text}{traces.notes_text()}")
    answered = sum(question.answer is not None for question in traces.questions)
    expected = sum(question.reference is not None for question in traces.questions)
    given = answered if options.answers_are_references else 0
    if expected or given:
        parts = f"expected by data sets: {expected:,}, given by the application: {given:,}"
        echo(f"{format_count(expected + given, 'reference')} ({parts})")
    if answered and not given:
        echo(
            f"{format_count(answered, 'answer')} written as answer_given, not as a reference answer "
            "(--answers-are-references changes this)"
        )
    without = sum(not question.gold for question in traces.questions)
    if without:
        who = "None has" if without == len(evalset) else f"{without:,} of {len(evalset):,} have no"
        echo(f"{who} gold passages yet: add them, and check with `rageval evalset check`.")
    return 0
