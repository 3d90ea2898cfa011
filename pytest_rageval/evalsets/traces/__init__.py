"""Traces of an application in production: questions, retrieved passages, answers and feedback.

- `read_traces` is the entry point.
- `exports`: recognises which tool a record is from. `opentelemetry`, `langfuse` and `langsmith` read it.
- `records`: what all of them are read into: spans, items of data sets, feedback.
- `extraction`: finds questions and answers in recorded inputs and outputs.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_rageval.datatypes import Document, Step
from pytest_rageval.digests import digest
from pytest_rageval.evalsets.traces.exports import read_export
from pytest_rageval.evalsets.traces.extraction import ExtractedQuestion
from pytest_rageval.evalsets.traces.records import NOT_ASKED, Feedback, Item, Kind, Span
from pytest_rageval.plural import plural

__all__ = ["Recorded", "Traces", "question_key", "read_traces"]


@dataclass(slots=True)
class Recorded:
    """A question as it was asked.

    Attributes:
        place: in a file, for messages.
        id: of its trace, or of its item in a data set.
        asked: the question, with the messages before it.
        time: in seconds since 1970; 0 if unknown.
        retrieved: the documents from which it was answered: of the last search, or reranked; None if unknown.
        lacks: why they are unknown: "without a retrieval".
        steps: the searches, in their order.
        answer: that the application gave.
        reference: the answer that a data set expects.
        tags: labels and scores of people and judges.
        metadata: of an item in a data set.
        of_evalset: whether it is of an eval set that was made of traces.
    """

    place: str
    id: str
    asked: ExtractedQuestion
    time: float
    retrieved: tuple[Document, ...] | None = None
    lacks: str = "without a retrieval"
    steps: Sequence[Step] = ()
    answer: str | None = None
    reference: str | None = None
    tags: dict[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    of_evalset: bool = False

    def record(self, *, answer_is_reference: bool = False) -> dict[str, Any]:
        """Return the question as a record of an eval set. Retrieved passages are not gold passages."""
        reference = self.reference or (self.answer if answer_is_reference else None)
        steps = [{"query": each.query, "documents": _plain(each.documents)} for each in self.steps]
        fields = {
            "id": self.id,
            "question": self.asked.question,
            "reference": reference,
            "tags": self.tags,
            "history": list(self.asked.history),
            "metadata": self.metadata,
            "answer_given": self.answer,
        }
        record = {name: value for name, value in fields.items() if value not in (None, [], {})}
        if self.retrieved is not None:
            record["retrieved"] = _plain(self.retrieved)
        return {**record, "steps": steps} if len(steps) > 1 else record


@dataclass(slots=True)
class Traces:
    """What was read.

    Attributes:
        questions: each once, as it was asked last.
        number: of traces.
        items: their number in data sets.
        notes: what was left out or is missing, with the number of times.
    """

    questions: list[Recorded]
    number: int
    items: int
    notes: Counter[str]

    @property
    def found(self) -> str:
        """What was found: "97 traces and 3 data set items"."""
        parts = ((self.number, "trace"), (self.items, "data set item"))
        return " and ".join(f"{n:,} {plural(n, noun)}" for n, noun in parts if n) or "no trace"

    def listed(self) -> str:
        """The notes as the ends of a text: each on a line, the most frequent first."""
        return "".join(f"\n  {number:,} × {note}" for note, number in self.notes.most_common())


def read_traces(paths: Iterable[Path]) -> Traces:
    """Read traces and items of data sets from files; a trace may be spread over several.

    A trace that failed and one without a question are left out. Of several with the same question, after the same
    conversation, the last one that has a retrieval is kept, or the last one.

    Raises:
        InputError: a file cannot be read, or a record is of no known kind.
    """
    notes: Counter[str] = Counter()
    spans: dict[str, dict[str, Span]] = defaultdict(dict)
    feedback: list[Feedback] = []
    found: list[Recorded] = []
    trace_of: dict[str, str] = {}
    for path in paths:
        for part in read_export(path):
            if isinstance(part, Feedback):
                feedback.append(part)
            elif isinstance(part, Item):
                found.append(_of_item(part))
            else:
                trace = part.trace or f"without id, {part.place}"
                trace_of[part.id] = trace
                notes["the same span again"] += part.id in spans[trace]
                spans[trace][part.id] = part
    said: dict[str, list[Feedback]] = defaultdict(list)
    for each in feedback:
        trace = each.about if each.about in spans else trace_of.get(each.about, "")
        notes["feedback on a trace that is in no file"] += not trace
        said[trace].append(each)
    items = len(found)
    for trace, named in spans.items():
        question = _of_spans(list(named.values()), notes)
        if question is not None:
            question.tags = _tags(said[trace])
            found.append(question)
    return Traces(_latest(found, notes), len(spans), items, +notes)


def question_key(question: str, history: Iterable[Mapping[str, str]] = ()) -> str:
    """Identify a question in its conversation."""
    return digest([question.strip(), [[each.get("role"), each.get("content")] for each in history]])


def _latest(found: Iterable[Recorded], notes: Counter[str]) -> list[Recorded]:
    """Each question once, in the order of the first time that it was asked; counts what is left out or missing."""
    kept: dict[str, Recorded] = {}
    for each in found:
        if each.asked.question is None:
            notes["without a question: left out"] += 1
            continue
        key = question_key(each.asked.question, each.asked.history)
        other = kept.setdefault(key, each)
        if other is not each:
            notes["the same question again: the last one with a retrieval is kept"] += 1
            kept[key] = max(other, each, key=lambda one: (one.retrieved is not None, one.time, one is each))
    for key, each in kept.items():
        if not each.id:
            each.id = f"q-{key[:12]}"
            notes["without an id: named after the question"] += 1
        if each.retrieved is None and not each.of_evalset:
            notes[f"{each.lacks}: kept as a question"] += 1
        notes["retrieved passages without an id: known by their text"] += sum(
            document.id is None for document in each.retrieved or ()
        )
        notes["with several searches: the last one is `retrieved`, all are `steps`"] += len(each.steps) > 1
    return list(kept.values())


def _of_item(item: Item) -> Recorded:
    return Recorded(
        item.place,
        item.id,
        item.asked,
        item.time,
        item.documents,
        steps=item.steps,
        reference=item.reference,
        metadata=item.metadata,
        of_evalset=item.of_evalset,
    )


def _of_spans(spans: list[Span], notes: Counter[str]) -> Recorded | None:
    """The question of one trace; None if it failed, or has several."""
    spans.sort(key=lambda span: span.start)
    by_id = {span.id: span for span in spans}
    roots = [span for span in spans if span.parent not in by_id or span.parent == span.id] or spans[:1]
    # A retriever may consist of others: the outermost is the one whose documents were used.
    outer = [span for span in spans if Kind.SEARCH not in {above.kind for above in _above(span, by_id)}]
    tried = [span for span in outer if span.kind is Kind.SEARCH]
    searches = [span for span in tried if not span.failed]
    if any(span.failed for span in roots if span.kind is not Kind.SEARCH) or (tried and not searches):
        notes["the trace failed: left out"] += 1
        return None
    outermost = [span for span in roots if span.kind is Kind.OTHER and not span.parent]
    if len({span.asked.question for span in outermost} - {None}) > 1:
        # Which search was for which question is not known.
        notes["several questions in one trace: left out"] += 1
        return None
    notes["a search failed, another did not: the failed one is left out"] += len(tried) - len(searches)
    reranked = [span for span in outer if span.kind is Kind.RERANKING and not span.failed]
    results = sorted([*searches, *reranked], key=lambda span: span.end or span.start)
    others = [span for span in spans if span.kind is Kind.OTHER]
    asked = next((span.asked for span in [*others, *searches] if span.asked.question), NOT_ASKED)
    models = sorted((span for span in spans if span.kind is Kind.MODEL), key=lambda span: span.end)
    answers = [span.answer for span in roots if span.kind in (Kind.OTHER, Kind.MODEL)]
    answers += [span.answer for span in reversed(models)]
    return Recorded(
        roots[0].place,
        roots[0].trace,
        asked,
        roots[0].start,
        results[-1].documents if results else None,
        "with a retrieval of unknown form" if searches else "without a retrieval",
        [
            Step(span.asked.question or asked.question or "", span.documents)
            for span in searches
            if span.documents is not None
        ],
        next((answer for answer in answers if answer), None),
    )


def _above(span: Span, by_id: Mapping[str, Span]) -> Iterator[Span]:
    """The spans that a span is a part of."""
    seen = {span.id}
    while span.parent in by_id and span.parent not in seen:
        span = by_id[span.parent]
        seen.add(span.id)
        yield span


def _tags(feedback: Iterable[Feedback]) -> dict[str, Any]:
    """The values by name; a list where there are several."""
    values: dict[str, list[Any]] = defaultdict(list)
    for each in feedback:
        if each.value not in values[each.name]:
            values[each.name].append(each.value)
    return {name: known[0] if len(known) == 1 else known for name, known in values.items()}


def _plain(documents: Iterable[Document]) -> list[dict[str, Any]]:
    return [
        {
            name: value
            for name, value in (("id", each.id), ("text", each.text), ("score", each.score))
            if value not in (None, "")
        }
        for each in documents
    ]
