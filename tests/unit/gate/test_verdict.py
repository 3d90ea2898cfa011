"""The verdict of a threshold on a score."""

from dataclasses import replace

import pytest

from pytest_rageval.core.errors import Cause
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.gate.verdict import RatioTestResult, Verdict
from tests.unit.gate.scored import numbered, score_of, threshold_of, verdict_on


def _score(*values: float) -> Score:
    return Score("recall@5", [Outcome(Example(str(n), "q"), value) for n, value in enumerate(values)])


@pytest.mark.parametrize(
    ("low", "high", "status", "reason"),
    [
        (0.5, None, "pass", "0.500 is within bounds"),
        (None, 0.5, "pass", "0.500 is within bounds"),
        (0.5, 0.5, "pass", "0.500 is within bounds"),
        (0.4, 0.6, "pass", "0.500 is within bounds"),
        (0.75, None, "fail", "0.500 is below the minimum 0.75"),
        (None, 0.25, "fail", "0.500 is above the maximum 0.25"),
        (0.6, 0.9, "fail", "0.500 is below the minimum 0.6"),
        (0, 0.1, "fail", "0.500 is above the maximum 0.1"),
    ],
)
def test_a_mean_on_a_bound_passes(low: float | None, high: float | None, status: str, reason: str) -> None:
    verdict = verdict_on(_score(1.0, 0.0), threshold_of("recall@5", low, high))
    assert (verdict.status, verdict.reason) == (status, reason)


@pytest.mark.parametrize(
    ("off", "status"), [(1e-15, "pass"), (-1e-15, "pass"), (1e-9, "fail"), (-1e-9, "fail")]
)
def test_only_rounding_is_no_difference_from_a_bound(off: float, status: str) -> None:
    """Means are compared in full precision, not rounded to the digits that are shown."""
    assert verdict_on(_score(0.7 + off), threshold_of("recall@5", 0.7, 0.7)).status == status


def test_equal_scores_are_no_matter_of_chance() -> None:
    verdict = verdict_on(_score(*[0.5] * 12), threshold_of("recall@5", 0.6))
    assert verdict.reason == "0.500 is below the minimum 0.6"


def test_the_first_three_reasons_are_listed() -> None:
    lacking = [
        Outcome(Example(f"q{n}", "q"), None, f"reason {min(n, 4)}", cause="retriever") for n in range(1, 6)
    ]
    score = Score("recall@5", [*_score(1.0).outcomes, *lacking])
    reason = verdict_on(score, threshold_of("recall@5", 0.9)).reason
    assert ": reason 4 (q4, q5), reason 1 (q1), reason 2 (q2), 1 more reasons; with 0 for each" in reason


def test_the_reason_shows_the_side_of_the_bound() -> None:
    verdict = verdict_on(
        Score("retrieval.cost", _score(0.0002).outcomes), threshold_of("retrieval.cost", max=0.0001)
    )
    assert verdict.reason == "0.0002 is above the maximum 0.0001"


def _lacking(cause: Cause, n: int = 5) -> Score:
    return score_of(numbered(89, 6) | {f"q{95 + number}": None for number in range(n)}, cause=cause)


@pytest.mark.parametrize(("low", "status"), [(0.89, "pass"), (0.891, "fail"), (0.93, "fail"), (0.94, "fail")])
def test_a_minimum_holds_where_the_retriever_failed(low: float, status: str) -> None:
    """Examples at which the retriever failed count as 0: the mean is 0.89 over 100, not 0.937 over 95."""
    verdict = verdict_on(_lacking("retriever"), threshold_of("recall@5", low))
    assert verdict.status == status
    assert not verdict.warnings


def test_the_reason_says_which_questions_and_why() -> None:
    verdict = verdict_on(_lacking("retriever"), threshold_of("recall@5", 0.93))
    assert verdict.reason == (
        "0.937 is the mean without 5 examples that have no score: the retriever failed (q95, q96, q97, q98, q99); "
        "with 0 for each of them it would be 0.890, below the minimum 0.93"
    )


def test_a_maximum_fails_as_a_minimum_does() -> None:
    """For a maximum, examples at which the retriever failed count as the highest value of the scale."""
    score = score_of(numbered(5, 90) | {f"q{95 + n}": None for n in range(5)}, cause="retriever")
    verdict = verdict_on(score, threshold_of("recall@5", max=0.08))
    assert verdict.status == "fail"
    assert verdict.reason.endswith("with 1 for each of them it would be 0.100, above the maximum 0.08")
    assert verdict_on(score, threshold_of("recall@5", max=0.1)).status == "pass"


@pytest.mark.parametrize("inconclusive", [None, "warn", "fail"])
def test_what_another_part_failed_at_may_break_a_bound(inconclusive: str | None) -> None:
    """The verdict is no pass, and fails if that is set. What cannot be scored breaks no bound."""
    threshold = threshold_of("recall@5", 0.93, inconclusive=inconclusive)
    assert verdict_on(_lacking("example"), threshold).status == "pass"
    verdict = verdict_on(_lacking("run"), threshold)
    assert verdict.status == ("fail" if inconclusive == "fail" else "inconclusive")
    assert verdict.warnings == (() if inconclusive == "fail" else (verdict.reason,))
    assert verdict.reason.removeprefix("UNSURE: ").startswith(
        "0.937 is the mean without 5 examples that have no score: the run failed (q95, "
    )
    assert verdict.reason.startswith("UNSURE: ") == (verdict.status == "inconclusive")
    assert verdict_on(_lacking("run"), replace(threshold, min=0.89)) == Verdict(
        "pass", "0.937 is within bounds"
    )


def test_both_kinds_together_may_break_a_bound() -> None:
    """If only both causes together could bring the mean below the minimum, the verdict is inconclusive."""
    retriever, run = _lacking("retriever", 2), _lacking("run", 3)
    score = Score("recall@5", [*retriever.outcomes, *run.outcomes[95:]])
    verdict = verdict_on(score, threshold_of("recall@5", 0.9))
    assert (verdict.status, len(verdict.warnings)) == ("inconclusive", 1)
    assert "the run failed (q95, q96, q97), the retriever failed (q95, q96)" in verdict.warnings[0]


def test_the_lowest_is_that_of_the_scale() -> None:
    values: dict[str, float | None] = {"a": 5.0, "b": 5.0, "c": None}
    grades = score_of(values, cause="retriever", scale=(1.0, 5.0))
    assert verdict_on(grades, threshold_of("judged.correctness@5", 11 / 3)).status == "pass"
    assert verdict_on(grades, threshold_of("judged.correctness@5", 3.7)).status == "fail"
    below = score_of(values | {"b": -5.0}, cause="retriever", scale=(1.0, 5.0))
    assert "with -5 for each of them it would be -1.667" in verdict_on(below, threshold_of("x@5", -1)).reason


@pytest.mark.parametrize(
    ("ratio", "interval", "status", "end"),
    [
        (1.2, (1.1, 1.3), "pass", "[1.100, 1.300], allowed 1.2"),
        # The last bit is no violation.
        (1.2 + 1e-13, (1.201, 1.3), "pass", "allowed 1.2"),
        (1.25, (1.201, 1.3), "fail", "significantly more, as the whole 95% interval is above"),
        (1.25, (1.2, 1.3), "inconclusive", "not significantly more, as the 95% interval is not wholly above"),
        (1.25, None, "inconclusive", "as 4 examples are too few to show it, at least 6 are needed"),
    ],
)
def test_a_ratio_fails_where_its_whole_interval_is_above(ratio, interval, status, end):
    test = RatioTestResult(1.0, ratio, interval, 4, 6)
    score = Score("latency.p50", _score(ratio).outcomes)
    verdict = verdict_on(score, threshold_of("latency.p50", max_ratio=1.2), ratio=test)
    assert verdict.status == status
    assert verdict.reason.endswith(end)
