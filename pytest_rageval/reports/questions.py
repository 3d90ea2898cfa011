"""The questions that explain a verdict, as plain data: what was asked, found and said, now and in the baseline."""

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_rageval.gate.baseline import LONGEST
from pytest_rageval.gate.comparison import Change, Comparison
from pytest_rageval.gate.ruling import Ruling
from pytest_rageval.reports.triage import losses
from pytest_rageval.scores import Outcome, Score

__all__ = [
    "expected_text",
    "lost_by_text",
    "lost_entry",
    "questions_entry",
    "questions_text",
    "worse_entry",
]


def questions_entry(ruling: Ruling) -> dict[str, Any]:
    """Those that got worse than in the baseline, of a verdict of any kind; else those beyond a bound that was passed.

    The latter also where what got worse is not why: the baseline was below `min` too, and the drop is
    allowed; or the score is above `max`. Nothing where there are none, so that it can be joined to a
    threshold's entry.
    """
    comparison, beyond = ruling.comparison, _beyond(ruling)
    if comparison is not None and comparison.worse and (beyond is None or _is_why(ruling, comparison)):
        return {"questions": worse_entry(comparison)}
    return {} if beyond is None else {"questions": beyond}


def _beyond(ruling: Ruling) -> dict[str, Any] | None:
    """The questions beyond the bound that the score has passed; None where it has passed none."""
    score, threshold = ruling.score, ruling.threshold
    if score is None or ruling.verdict.status != "fail":
        return None
    if threshold.min is not None and score < threshold.min:
        return lost_entry(score, threshold.min, below=True)
    if threshold.max is not None and score > threshold.max:
        return lost_entry(score, threshold.max, below=False)
    return None


def _is_why(ruling: Ruling, comparison: Comparison) -> bool:
    """Whether what got worse is why a bound was passed."""
    least, allowed = ruling.threshold.min, ruling.threshold.max_drop
    if least is None or allowed is None or ruling.score is None or ruling.score >= least:
        return False
    return comparison.mean >= least or comparison.drop > allowed


def worse_entry(comparison: Comparison) -> dict[str, Any]:
    """The examples that lost against the baseline, worst first, then and now.

    Returns:
        `why` is "worse"; they are among `of`, of which `better` got better; `lost_by` counts who lost them,
        and each of `listed` has under `before` its score, ranking and answer in the baseline.
    """
    worse = comparison.worse
    return {
        "why": "worse",
        "of": len(comparison.changes),
        "better": len(comparison.better),
        "lost_by": losses(change.outcome for change in worse),
        "listed": [_question(change.outcome, _before(change)) for change in worse],
    }


def lost_entry(score: Score, bound: float, *, below: bool) -> dict[str, Any]:
    """The examples on the wrong side of a bound, worst first.

    Args:
        score: that is out of its bound.
        bound: of the mean; an example is on the wrong side where its own score is.
        below: whether too low is wrong, or too high.

    Returns:
        `why` is "below" or "above" the `bound`; they are among `of`; `lost_by` counts who lost them, and
        what they are is `listed`.
    """
    wrong = [
        outcome
        for outcome in score.outcomes
        if outcome.value is not None and (outcome.value < bound if below else outcome.value > bound)
    ]
    wrong.sort(key=lambda outcome: outcome.value or 0.0, reverse=not below)
    return {
        "why": "below" if below else "above",
        "bound": bound,
        "of": score.n,
        "lost_by": losses(wrong),
        "listed": [_question(outcome, {}) for outcome in wrong],
    }


def questions_text(entry: Mapping[str, Any]) -> str:
    """How many they are: "32 of 91 questions got worse, 0 better", or "38 of 91 questions are below 0.85"."""
    some = f"{len(entry['listed'])} of {entry['of']} questions"
    if entry["why"] == "worse":
        return f"{some} got worse, {entry['better']} better"
    return f"{some} are {entry['why']} {entry['bound']:g}"


def lost_by_text(entry: Mapping[str, Any]) -> str:
    """Who lost how many: "retriever 16, distraction 3"."""
    return ", ".join(f"{who} {count}" for who, count in entry["lost_by"].items())


def expected_text(expected: Mapping[str, Any]) -> str:
    """What an answer was compared with: "five days | a week", or "Tulsa + Dallas" where all are wanted."""
    texts: list[str] = expected["texts"]
    return (" + " if expected["as"] == "wanted" else " | ").join(texts)


def _question(outcome: Outcome, before: Mapping[str, Any]) -> dict[str, Any]:
    """One of them; keys of which nothing is known are left out, as an answer of a ranking measure."""
    example, evidence = outcome.example, outcome.evidence
    ranking = evidence.ranking
    known = {
        "gold": [gold.label for gold in example.relevant],
        "passages": _passages(outcome),
        "expected": {"as": evidence.expected_as, "texts": list(evidence.expected)}
        if evidence.expected
        else {},
        "judge": evidence.explanation,
        "unscored": outcome.unscored,
        "lost_by": outcome.lost_by,
        "case": outcome.case,
        "before": dict(before),
    }
    return {
        "id": example.id,
        "question": example.question,
        "score": outcome.value,
        **({} if ranking is None else {"retrieved": [document.label for document in ranking]}),
        **({} if evidence.answer is None else {"answer": evidence.answer}),
        **{name: value for name, value in known.items() if value},
    }


def _passages(outcome: Outcome) -> list[dict[str, Any]]:
    """Those that were labelled: the label of each, and what was answered from it alone."""
    evidence = outcome.evidence
    alone: Sequence[str] = evidence.answers_alone or [""] * len(evidence.labels)
    return [
        {"document": document.label, "label": label, **({"answer": answer} if answer else {})}
        # Without labels there is nothing to tell of the ranking here.
        for label, document, answer in zip(evidence.labels, evidence.ranking or (), alone, strict=False)
    ]


def _before(change: Change) -> dict[str, Any]:
    now = change.outcome
    then = _answer_then(change.answer, now.evidence.answer)
    return {
        "score": (now.value or 0.0) + change.drop,
        **({} if change.ranking is None else {"retrieved": list(change.ranking)}),
        **({} if then is None else {"answer": then}),
    }


def _answer_then(kept: str | None, now: str | None) -> str | None:
    """The answer then, of which the baseline has the beginning; all of it where that is now's."""
    if now is not None and kept == " ".join(now.split())[:LONGEST]:
        return now
    return f"{kept}…" if kept is not None and len(kept) == LONGEST else kept
