"""`read_traces`: the questions, retrieved passages, answers and feedback of exported traces."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_rageval.core.data import Step
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


@dataclass(slots=True)
class Traces:
    """The questions of exported traces and data sets."""

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


def read_traces(paths: Iterable[Path]) -> Traces:
    """Read traces and items of data sets from files; the spans of a trace may be in several files.

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
    return Traces(_keep_latest(questions, notes), len(spans), items, +notes)


def question_key(question: str, history: Iterable[Mapping[str, str]] = ()) -> str:
    return digest([question.strip(), [[message.get("role"), message.get("content")] for message in history]])


def _keep_latest(recorded: Iterable[RecordedQuestion], notes: Counter[str]) -> list[RecordedQuestion]:
    """Return the distinct questions, in the order of their first occurrence; count what is left out or missing."""
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


def _feedback_tags(feedback: Iterable[Feedback]) -> dict[str, Any]:
    """Return the values of feedback by name; a name with several different values has a list of them."""
    values: dict[str, list[Any]] = defaultdict(list)
    for item in feedback:
        if item.value not in values[item.name]:
            values[item.name].append(item.value)
    return {name: distinct[0] if len(distinct) == 1 else distinct for name, distinct in values.items()}
