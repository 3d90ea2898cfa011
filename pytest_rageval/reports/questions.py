"""Selects the questions that explain a verdict, builds their entries for the report, and writes them as text.

The entry and the text of a question have its passages and answers, now and in the baseline.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple, cast

from pytest_rageval.baseline import MAX_ANSWER_LENGTH
from pytest_rageval.core.evalset import Example, conversation_text
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.gate.comparison import Comparison, ExamplePair
from pytest_rageval.gate.verdict import ThresholdResult
from pytest_rageval.lib.spool import Spool, spooled_map
from pytest_rageval.lib.text import counted
from pytest_rageval.reports.document import (
    BeforeEntry,
    ExpectedEntry,
    LabelledPassageEntry,
    QuestionEntry,
    QuestionsEntry,
    StepEntry,
)
from pytest_rageval.reports.layout import field_lines, wrap_text
from pytest_rageval.reports.notes import count_causes

NOTHING: Final = "(nothing)"


class Explanation(NamedTuple):
    why: Literal["worse", "below", "above"]  # than in the baseline; or the bound
    of: int  # compared questions, or those with a score
    losses: Sequence[tuple[Outcome, ExamplePair | None]]  # the worst first
    comparison: Comparison | None = None  # None for a bound
    bound: float | None = None

    def __str__(self) -> str:
        """A count such as "3 of 91 questions are below 0.85"."""
        return questions_text(self.entry(Spool()))

    def entry(self, spool: Spool) -> QuestionsEntry:
        entry: QuestionsEntry = {"why": self.why}
        if self.bound is not None:
            entry["bound"] = self.bound
        elif self.comparison is not None and self.comparison.before.pin is not None:
            entry["since"] = self.comparison.before.kind
        entry["of"] = self.of
        if self.comparison is not None:
            entry["better"] = len(self.comparison.better)
        entry["lost_by"] = count_causes(outcome for outcome, _ in self.losses)
        entry["listed"] = spooled_map(lambda loss: question_entry(*loss), self.losses, spool)
        return entry


def explain(result: ThresholdResult) -> Explanation | None:
    """Return the questions that explain the verdict on a threshold; None if there are none.

    In general these are the questions that got worse than in the baseline. If the score violates `min` or `max`, they
    are the questions beyond that bound in the following cases:

    - No question got worse, or the threshold does not compare with the baseline.
    - The score is above `max`.
    - The score is below `min`, the baseline was below `min` too, and the drop is allowed.
    """
    comparison, beyond = _explaining_comparison(result), _beyond_bound(result)
    if (
        comparison is None
        or not comparison.worse
        or (beyond is not None and not _explains(comparison, result))
    ):
        return beyond
    # With early stop the comparison also has the unchanged questions, which were not evaluated.
    of = result.early.asked if result.early is not None and result.stopped_early else comparison.n
    return Explanation("worse", of, [(pair.outcome, pair) for pair in comparison.worse], comparison)


def _explaining_comparison(result: ThresholdResult) -> Comparison | None:
    """Return the comparison that explains the verdict.

    It is the comparison with the anchor if the total drop is too large, and the drop from the baseline is not.
    """
    threshold, comparison, anchor = result.threshold, result.comparison, result.anchor
    if anchor is None or anchor.comparison.drop <= (threshold.max_total_drop or 0.0):
        return comparison
    max_drop = threshold.max_drop
    dropped = comparison is not None and max_drop is not None and comparison.drop > max_drop
    return comparison if dropped else anchor.comparison


def _beyond_bound(result: ThresholdResult) -> Explanation | None:
    score, threshold = result.score, result.threshold
    if score is None or result.verdict.status != "fail":
        return None
    if threshold.min is not None and score < threshold.min:
        return beyond_bound(score, threshold.min, below=True)
    if threshold.max is not None and score > threshold.max:
        return beyond_bound(score, threshold.max, below=False)
    return None


def _explains(comparison: Comparison, result: ThresholdResult) -> bool:
    minimum, max_drop = result.threshold.min, result.threshold.max_drop
    if (
        minimum is None
        or not result.threshold.uses_baseline
        or result.score is None
        or result.score >= minimum
    ):
        return False
    return comparison.mean >= minimum or max_drop is None or comparison.drop > max_drop


def beyond_bound(score: Score, bound: float, *, below: bool) -> Explanation:
    wrong = [
        outcome
        for outcome in score.outcomes
        if outcome.value is not None and (outcome.value < bound if below else outcome.value > bound)
    ]
    wrong.sort(key=lambda outcome: outcome.value or 0.0, reverse=not below)
    losses = [(outcome, None) for outcome in wrong]
    return Explanation("below" if below else "above", score.n, losses, bound=bound)


def question_entry(outcome: Outcome, pair: ExamplePair | None) -> QuestionEntry:
    """Return the entry of a question without the keys that have no value, such as the answer in a ranking measure."""
    example, evidence = outcome.example, outcome.evidence
    ranking = evidence.ranking
    optional = {
        **context_entry(example),
        "steps": steps_entry(ranking),
        "gold": [gold.label for gold in example.relevant],
        "passages": _passage_entries(outcome),
        "expected": expected_entry(evidence),
        "judge": evidence.explanation,
        "remark": evidence.remark,
        "unscored": outcome.unscored,
        "lost_by": outcome.lost_by,
        "case": outcome.case,
        "before": None if pair is None else _before_entry(pair),
    }
    question = {
        "id": example.id,
        "question": example.question,
        "score": outcome.value,
        **({} if ranking is None else {"retrieved": ranking.labels}),
        **({} if evidence.answer is None else {"answer": evidence.answer}),
        **{name: value for name, value in optional.items() if value},
    }
    return cast("QuestionEntry", question)


def context_entry(example: Example) -> dict[str, object]:
    return {
        "history": conversation_text(example.history).splitlines(),
        "filters": dict(example.filters),
    }


def steps_entry(ranking: Ranking | None) -> list[StepEntry]:
    steps = () if ranking is None else ranking.steps or ()
    return [{"query": step.query, "retrieved": step.labels} for step in steps]


def expected_entry(evidence: Evidence) -> ExpectedEntry | None:
    return {"as": evidence.expected_as, "texts": list(evidence.expected)} if evidence.expected else None


def _passage_entries(outcome: Outcome) -> list[LabelledPassageEntry]:
    """Return an entry for each labelled passage: its label, and the answer from this passage alone if there is one."""
    evidence = outcome.evidence
    entries: list[LabelledPassageEntry] = [
        {"document": document.label, "label": label}
        # Not strict: most rankings have no labels, and so no entries.
        for label, document in zip(evidence.labels, evidence.ranking or (), strict=False)
    ]
    for entry, answer in zip(entries, evidence.answers_alone, strict=False):
        if answer:
            entry["answer"] = answer
    return entries


def _before_entry(change: ExamplePair) -> BeforeEntry:
    now = change.outcome
    before: BeforeEntry = {"score": (now.value or 0.0) + change.drop}
    if change.old_ranking is not None:
        before["retrieved"] = list(change.old_ranking)
    if (answer := restore_answer(change.old_answer, now.evidence.answer)) is not None:
        before["answer"] = answer
    return before


def restore_answer(stored: str | None, now: str | None) -> str | None:
    """Return the answer in the baseline from its stored beginning, with an ellipsis if it may have been cut.

    If the present answer has this beginning, the present answer is returned.
    """
    if now is not None and stored == " ".join(now.split())[:MAX_ANSWER_LENGTH]:
        return now
    return f"{stored}…" if stored is not None and len(stored) == MAX_ANSWER_LENGTH else stored


def questions_text(entry: QuestionsEntry) -> str:
    """Return a count of questions, such as "32 of 91 questions got worse, 0 better" or "3 of 91 … are below 0.85"."""
    some = f"{len(entry['listed'])} of {counted(entry['of'], 'question')}"
    if entry["why"] == "worse":
        since = f" since the {entry['since']}" if "since" in entry else ""
        return f"{some} got worse{since}, {entry['better']} better"
    verb = "is" if len(entry["listed"]) == 1 else "are"
    return f"{some} {verb} {entry['why']} {entry['bound']:g}"


def expected_text(expected: ExpectedEntry) -> str:
    """Join the texts that an answer was compared with: "five days | a week"; "Tulsa + Dallas" if all are wanted."""
    return (" + " if expected["as"] == "wanted" else " | ").join(expected["texts"])


def score_text(value: float | None) -> str:
    """Format the score of a question with two decimals; below 0.1, such as a time or a cost, with two digits."""
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) >= 0.1 or not value else f"{value:.2g}"  # noqa: PLR2004 - two decimals suffice


def change_of_score_text(then: float | None, now: float | None) -> str:
    """Return a score before and now, "1 → 0"; only the present one if it is the same, or was unknown."""
    values = [now] if then in {None, now} else [then, now]
    return " → ".join(score_text(value).removesuffix(".00") for value in values)


def single_question_lines(question: QuestionEntry) -> Iterator[str]:
    before = question.get("before", {})
    then = f"{score_text(before['score'])} → " if before else ""
    yield from wrap_text(
        f"  {question['id']}  {then}{score_text(question['score'])}  {question['question']}",
        6,
    )
    yield from detail_lines(question)


def detail_lines(question: QuestionEntry) -> Iterator[str]:
    for label, text in _detail_fields(question):
        if text is not None:
            yield from field_lines(label, [text] if isinstance(text, str) else text)


def _detail_fields(question: QuestionEntry) -> Iterator[tuple[str, str | Sequence[str] | None]]:
    """Yield the label of each field with its text, or its texts; None if the question has no such field."""
    before, filters = question.get("before", {}), question.get("filters")
    yield "after", " / ".join(question["history"]) if "history" in question else None
    yield "filters", json.dumps(filters, ensure_ascii=False) if filters else None
    yield "gold", question.get("gold")
    # The field of labelled passages, below, shows the present ranking, but not the ranking of the baseline.
    if "retrieved" in question and (before or "passages" not in question):
        ranking_before = ", ".join(before["retrieved"]) or NOTHING if "retrieved" in before else None
        yield from _then_and_now("retrieved", ranking_before, ", ".join(question["retrieved"]) or NOTHING)
    for number, step in enumerate(question.get("steps", ()), 1):
        yield f"step {number}", f"{step['query']}: {', '.join(step['retrieved']) or NOTHING}"
    yield "unscored", question.get("unscored")
    if "answer" in question:
        yield from _then_and_now("answer", before.get("answer"), question["answer"])
    for rank, passage in enumerate(question.get("passages", ())):
        answer = f": {passage['answer']}" if "answer" in passage else ""
        yield "" if rank else "labels", f"{passage['label']:.2g} {passage['document']}{answer}"
    if "expected" in question:
        yield question["expected"]["as"], expected_text(question["expected"])
    yield "judge", question.get("judge")
    yield "why", question.get("remark")
    lost_by, case = question.get("lost_by"), question.get("case")
    if lost_by is not None:
        yield "lost by", f"{lost_by} (case {case})" if case else lost_by
    else:
        yield "case", case


def _then_and_now(label: str, then: str | None, now: str) -> Iterator[tuple[str, str]]:
    """Yield a field with the present text, after a field with the text of the baseline if the two differ."""
    if then is not None and then != now:
        yield label, then
        label = "→"
    yield label, now
