"""The verdict on a drop: whether it is significant, and its message."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from pytest_rageval.core.outcome import Score
from pytest_rageval.gate.comparison import compare
from pytest_rageval.gate.drop_tests import DropTestInput, DropTestResult, run_drop_tests
from pytest_rageval.gate.verdict import Verdict, worst_of
from tests.unit.gate.scored import (
    Values,
    before_of,
    comparison_of,
    drop_test,
    drop_verdict,
    numbered,
    score_of,
    threshold_of,
    verdict_on,
)


def _test(
    before: Values, now: Values, *, max_drop: float, strict: bool = False, alpha: float = 0.05
) -> DropTestResult:
    return drop_test(comparison_of(before, now), max_drop=max_drop, strict=strict, alpha=alpha)


def _verdict(
    before: Values, now: Values, *, max_drop: float, strict: bool = False, alpha: float = 0.05
) -> Verdict:
    result = _test(before, now, max_drop=max_drop, strict=strict, alpha=alpha)
    return drop_verdict(score_of(now), threshold_of("recall@5", max_drop=max_drop, strict=strict), result)


ALL = numbered(20, 0)


@pytest.mark.parametrize(
    ("now", "alpha", "status", "reason"),
    [
        (ALL, 0.05, "pass", "is 1.000 as before: 0 of 20 questions worse, 0 better"),
        (
            numbered(19, 1),
            0.05,
            "inconclusive",
            (
                "UNSURE: fell from 1.000 to 0.950 (allowed 0.02): 1 of 20 questions worse, 0 better; look at q19 "
                "before you merge. Chance alone often does that. 20 questions show drops above about 0.2; "
                "smaller ones need more"
            ),
        ),
        (
            numbered(14, 6),
            0.05,
            "fail",
            (
                "fell from 1.000 to 0.700 (allowed 0.02): 6 of 20 questions worse, 0 better. Chance alone: about 1 in "
                "190 comparisons"
            ),
        ),
        # The same drop in a family of ten, tested at a tenth of the level.
        (
            numbered(14, 6),
            0.005,
            "inconclusive",
            (
                "UNSURE: fell from 1.000 to 0.700 (allowed 0.02): 6 of 20 questions worse, 0 better; look at q14, q15, "
                "q16, q17, q18, … before you merge. Chance alone: about 1 in 190 comparisons (red among so "
                "many scores: 1 in 200 or rarer). 20 questions show drops above about 0.42; this one needs "
                "about 40"
            ),
        ),
    ],
)
def test_a_drop_fails_only_where_it_is_shown(now: Values, alpha: float, status: str, reason: str) -> None:
    verdict = _verdict(ALL, now, max_drop=0.02, alpha=alpha)
    assert (verdict.status, verdict.reason) == (status, reason)
    assert verdict.warnings == ((reason,) if status == "inconclusive" else ())


def test_a_gain_passes_and_an_allowed_drop_even_if_it_is_significant() -> None:
    reason = "rose from 0.500 to 0.750: 0 of 20 questions worse, 5 better"
    assert _verdict(numbered(10, 10), numbered(15, 5), max_drop=0.0) == Verdict("pass", reason)
    reason = "fell from 1.000 to 0.700 (allowed 0.3): 6 of 20 questions worse, 0 better"
    assert _verdict(ALL, numbered(14, 6), max_drop=0.3) == Verdict("pass", reason)


def test_a_drop_larger_than_allowed_has_enough_digits_to_show_it() -> None:
    now = dict.fromkeys(ALL, 1.0 - 0.0204)
    verdict = _verdict(ALL, now, max_drop=0.02)
    assert verdict.status == "fail"
    assert verdict.reason.startswith(
        "fell from 1.0000 to 0.9796 (allowed 0.02): 20 of 20 questions worse, 0 better"
    )


def test_what_chance_does_has_enough_digits_to_differ_from_the_level() -> None:
    p_value = _test(ALL, numbered(14, 6), max_drop=0.02).p_value
    reason = _verdict(ALL, numbered(14, 6), max_drop=0.02, alpha=p_value * 0.999).reason
    often, limit = re.search(
        r"about 1 in ([\d.]+) comparisons \(red among so many scores: 1 in ([\d.]+) or rarer", reason
    ).groups()
    assert float(often) < float(limit)


@pytest.mark.parametrize("lost", range(1, 20))
@pytest.mark.parametrize("max_drop", [0.02, 0.1])
def test_no_p_value_of_a_drop_is_printed_for_a_larger_drop(lost: int, max_drop: float) -> None:
    """What is tested is any drop. So "a drop of more than 0.02" is never called significant, or not significant."""
    verdict = _verdict(ALL, numbered(20 - lost, lost), max_drop=max_drop)
    assert "more than" not in verdict.reason
    assert "significant" not in verdict.reason
    assert (verdict.status == "inconclusive") == verdict.reason.startswith("UNSURE: fell from 1.000")


def test_a_drop_beyond_the_allowed_one_is_compared_with_chance_at_that_drop() -> None:
    comparison = comparison_of(numbered(100, 0), numbered(50, 50))
    threshold = threshold_of("recall@5", max_drop=0.1, burden="beyond")
    (result,) = run_drop_tests([DropTestInput(threshold, comparison)])
    reason = drop_verdict(score_of(numbered(50, 50)), threshold, result).reason
    assert reason.endswith("With a true drop of 0.1, chance alone: fewer than 1 in 1,000 comparisons")


def test_too_few_examples_are_called_too_few() -> None:
    """If the detectable drop exceeds the largest possible one, the reason names the examples that are needed."""
    verdict = _verdict(numbered(4, 0), numbered(3, 1), max_drop=0.02)
    assert verdict.status == "inconclusive"
    assert verdict.reason.endswith(". 4 questions are too few for any drop")


@pytest.mark.parametrize(
    ("now", "status", "reason"),
    [
        (
            100,
            "pass",
            "is 1.000 as before: 0 of 100 questions worse, 0 better. So the true drop is below 0.05",
        ),
        (
            98,
            "fail",
            (
                "fell from 1.000 to 0.980 (allowed 0.05): 2 of 100 questions worse, 0 better. The policy 'pr' asks "
                "for proof that the true drop is below 0.05; 100 questions do not give it. About 200 questions would "
                "show it"
            ),
        ),
        (
            90,
            "fail",
            (
                "fell from 1.000 to 0.900 (allowed 0.05): 10 of 100 questions worse, 0 better. The policy 'pr' asks "
                "for proof that the true drop is below 0.05; 100 questions do not give it"
            ),
        ),
    ],
)
def test_a_strict_threshold_passes_only_where_a_drop_is_excluded(now: int, status: str, reason: str) -> None:
    verdict = _verdict(numbered(100, 0), numbered(now, 100 - now), max_drop=0.05, strict=True)
    assert (verdict.status, verdict.reason, verdict.warnings) == (status, reason, ())


@pytest.mark.parametrize(
    ("n", "status", "needed"),
    [(149, "pass", 149), (148, "error", 296), (10, "error", 160), (2, "error", None)],
)
def test_a_strict_threshold_needs_examples_though_nothing_changed(n, status, needed):
    """149 examples exclude a drop of 2 points at 5%, since 0.98^149 < 0.05."""
    assert 0.98**149 < 0.05 < 0.98**148
    result = _test(numbered(n, 0), numbered(n, 0), max_drop=0.02, strict=True)
    assert (result.significant, result.examples_needed, result.detectable_drop) == (
        status == "pass",
        needed,
        None,
    )
    verdict = _verdict(numbered(n, 0), numbered(n, 0), max_drop=0.02, strict=True)
    assert verdict.status == status
    if status == "error":
        assert verdict.reason == (
            f"recall@5: the policy 'pr' could not pass: {n} questions cannot show that the drop is below 0.02, "
            "even if nothing changes; at least 149 are needed, or a larger max_drop."
        )
    # A retriever that is surely worse fails, however few questions there are.
    assert _verdict(numbered(n, 0), numbered(0, n), max_drop=0.02, strict=True).status == "fail"


def test_real_scores_on_another_scale_have_a_strict_test_too() -> None:
    """Grades from 1 to 5, which may drop by more than 1, can be tested strictly."""
    before = {f"q{n}": 5.0 for n in range(60)}
    result = _test(before, before | {"q1": 2.0}, max_drop=0.5, strict=True)
    assert 0 < result.p_value <= 1


def test_a_small_level_is_reached_by_drawn_signs() -> None:
    """In a family of 2,000 tests, the p-value of drawn signs can be below 1 in 40,000."""
    before: Values = {f"q{n}": 0.5 + n * 0.00317 + n * n * 1e-5 for n in range(60)}
    now: Values = {name: 0.1 * (value or 0.0) for name, value in before.items()}
    assert _test(before, now, max_drop=0.02, alpha=0.05 / 2000).significant


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("before", "now", "examples_text"),
    [
        ({}, {}, ""),
        ({"q0": 1.0}, {"new": 0.0}, " (0 removed, 1 new, 0 edited since the baseline)"),
        ({"gone": 1.0}, {"new": 0.0}, " (1 removed, 1 new, 0 edited since the baseline)"),
        ({"q0": None}, {}, " (1 unscored now or before)"),
        (
            {"q0": None},
            {"new": 0.0},
            " (0 removed, 1 new, 0 edited since the baseline; 1 unscored now or before)",
        ),
    ],
)
def test_the_reason_says_over_which_examples(before, now, examples_text, *, strict):
    """If not all examples are compared, the reason says how many, and adds the mean of all if it differs."""
    reason = _verdict(ALL | before, ALL | now, max_drop=0.3, strict=strict).reason
    assert f" worse, 0 better{examples_text}" in reason
    shown = _verdict(ALL | before, ALL | now | {"q1": 0.0}, max_drop=0.3, strict=strict).reason
    assert ("over all" in shown) == bool(examples_text)


def test_a_violated_bound_is_reported_before_a_drop() -> None:
    drop = _test(ALL, numbered(5, 15), max_drop=0.02)
    verdict = drop_verdict(score_of(numbered(5, 15)), threshold_of("recall@5", min=0.5, max_drop=0.02), drop)
    assert verdict.status == "fail"
    assert verdict.reason.startswith(
        "fell from 1.000 to 0.250 (allowed 0.02; minimum 0.5): 15 of 20 questions worse"
    )
    assert verdict.brief == "0.250 < 0.5; drop 0.750 > 0.02"
    doubted = _test(ALL, numbered(19, 1), max_drop=0.02)
    verdict = drop_verdict(
        score_of(numbered(19, 1)), threshold_of("recall@5", min=0.99, max_drop=0.02), doubted
    )
    assert (verdict.status, verdict.reason) == (
        "fail",
        (
            "0.950 is below the minimum 0.99. Improve the retriever, or add questions: 20 are too few to tell, as "
            "about 1 in 5 other samples of that size would pass"
        ),
    )
    assert not verdict.warnings


def _repeated(*means: float, n: int = 20) -> Score:
    first, *others = (
        list(score_of(numbered(round(mean * n), n - round(mean * n))).outcomes) for mean in means
    )
    return Score("answer.em@5", first, repeats=others)


@pytest.mark.parametrize(
    ("bounds", "warnings"),
    [
        ({"min": 0.76}, ["min 0.76"]),
        ({"min": 0.74}, []),
        ({"max": 0.84}, ["max 0.84"]),
        ({"max": 0.86}, []),
        ({"min": 0.76, "max_drop": 0.24}, ["min 0.76", "max_drop (0.760)"]),
        ({"max_drop": 0.05}, []),
    ],
)
def test_a_bound_within_the_noise_of_runs_is_pointed_out(bounds, warnings):
    """A bound closer to the mean of two runs than its standard error (0.0707 / √2) gives a warning."""
    score = _repeated(0.75, 0.85)
    assert score.spread == pytest.approx(0.1 / 2**0.5)
    drop = None
    if "max_drop" in bounds:
        drop = drop_test(comparison_of(ALL, numbered(16, 4)), max_drop=bounds["max_drop"], alpha=0.001)
    verdict = drop_verdict(score, threshold_of("answer.em@5", **bounds), drop)
    shown = [warning for warning in verdict.warnings if "coin toss" in warning]
    # P(Z > 0.04 / 0.05) = 0.21
    assert shown == [
        f"{name} is a coin toss: it is so close to 0.800, the mean of 2 runs, that about 1 in 5 reruns would be on "
        "its other side; with a larger --rageval-repeat, fewer"
        for name in warnings
    ]


def test_the_distance_to_an_allowed_drop_is_that_of_the_common_examples() -> None:
    now = numbered(16, 4) | {f"new{n}": 0.0 for n in range(10)}
    again = score_of(now | {"q0": 0.0}).outcomes
    score = Score("answer.em@5", score_of(now).outcomes, repeats=[again])
    drop = drop_test(comparison_of(ALL, now), max_drop=0.21, alpha=0.05)
    _, warning, _ = drop_verdict(score, threshold_of("answer.em@5", max_drop=0.21), drop).warnings
    assert warning.startswith("max_drop (0.790) is a coin toss: it is so close to 0.800, the mean of 2 runs")


@pytest.mark.parametrize(
    ("runs", "before", "warning"),
    [
        (1, 1, None),
        (3, 3, None),
        (
            3,
            1,
            (
                "the baseline's scores are of 1 run and these of 3 runs: the baseline is the noisier side; write it on "
                "the commit to compare with: --rageval-update-baseline --rageval-repeat 3"
            ),
        ),
        (1, 3, None),
    ],
)
def test_a_baseline_of_fewer_runs_is_the_noisier_side(runs: int, before: int, warning: str | None) -> None:
    score = _repeated(*[0.9] * runs)
    comparison = compare(score, {}, replace(before_of(ALL), runs=before))
    verdict = drop_verdict(score, threshold_of("recall@5", max_drop=0.2), drop_test(comparison, max_drop=0.2))
    assert verdict.status == "pass"
    assert list(verdict.warnings) == ([] if warning is None else [warning])


NEW = (
    "; {} no score in the baseline (new, edited, or unscored then): write the baseline again on the commit to compare "
    "with, --rageval-update-baseline"
)
LOST = "; 2 had a score in the baseline and have none now: q0, q1"


def test_no_drop_below_the_scale_is_promised_to_be_seen() -> None:
    """On a scale from 1 to 5, a mean of 3 can drop by at most 2, so a larger detectable drop means too few examples."""
    before = {f"q{n}": 3.0 for n in range(4)}
    now = before | {"q0": 1.0}
    drop = drop_test(comparison_of(before, now), max_drop=0.1, alpha=0.05, scale=(1.0, 5.0))
    assert drop.detectable_drop is not None
    assert drop.detectable_drop > 2
    verdict = drop_verdict(
        score_of(now, scale=(1.0, 5.0)), threshold_of("judged.correctness@5", max_drop=0.1), drop
    )
    assert "4 questions are too few for any drop" in verdict.reason


def test_a_negative_score_of_unknown_scale_can_drop_further() -> None:
    """For a plugin's score without a scale, such as a log-likelihood, the observed range is used."""
    before = {f"q{n}": -3.0 - n % 7 for n in range(50)}
    now = before | {f"q{n}": before[f"q{n}"] - 1 for n in range(2)}
    verdict = _verdict(before, now, max_drop=0.01)
    assert verdict.status == "inconclusive"
    assert "50 questions show drops above about 0." in verdict.reason


@pytest.mark.parametrize(
    ("before", "now", "max_drop", "warning"),
    [
        # Six questions are the same; the others have new names.
        (
            numbered(20, 0),
            numbered(6, 0) | {f"renamed{n}": 0.0 for n in range(14)},
            0.02,
            f"a drop among 14 of 20 examples would not be seen{NEW.format('14 have')}",
        ),
        # Two questions have no score now, which is within max_unscored.
        (
            numbered(40, 0),
            numbered(40, 0) | {"q0": None, "q1": None},
            0.02,
            f"a drop among 2 of 40 examples would not be seen{LOST}",
        ),
        (
            numbered(40, 0),
            numbered(40, 0) | {"q0": None, "q1": None, "new": 1.0},
            0.02,
            f"a drop among 3 of 41 examples would not be seen{LOST}{NEW.format('1 has')}",
        ),
        # Even if both were lost, the drop would be within max_drop.
        (numbered(40, 0), numbered(40, 0) | {"q0": None, "q1": None}, 0.05, None),
        # A question unscored in the baseline is not compared until the baseline is written again.
        (
            numbered(40, 0) | {"a": None, "b": None},
            numbered(40, 0) | {"a": 1.0, "b": None},
            0.02,
            f"a drop among 1 of 41 examples would not be seen{NEW.format('1 has')}",
        ),
        # A question unscored in both is not counted here.
        (numbered(40, 0) | {"a": None}, numbered(40, 0) | {"a": None, "new": None}, 0.0, None),
        # Removed questions cannot hide a drop.
        (numbered(40, 0), numbered(20, 0), 0.0, None),
    ],
)
def test_a_drop_that_would_not_be_seen_is_pointed_out(before, now, max_drop, warning):
    verdict = _verdict(before, now, max_drop=max_drop)
    assert verdict.status == "pass"
    assert verdict.warnings == (() if warning is None else (warning,))


ALL_WORSE = "examples cannot show a drop, even if all of them get the lowest score"


@pytest.mark.parametrize(
    ("n", "alpha", "warning"),
    [
        (
            1,
            0.05,
            (
                "1 example cannot show a drop, even if it gets the lowest score (chance alone: 1 in 2; red needs "
                "1 in 20 or rarer); at least 5 are needed"
            ),
        ),
        (
            4,
            0.05,
            f"4 {ALL_WORSE} (chance alone: 1 in 16; red needs 1 in 20 or rarer); at least 5 are needed",
        ),
        (5, 0.05, None),
        (
            7,
            0.005,
            f"7 {ALL_WORSE} (chance alone: 1 in 130; red needs 1 in 200 or rarer); at least 8 are needed",
        ),
        (8, 0.005, None),
    ],
)
def test_a_threshold_that_no_drop_could_fail_is_pointed_out(n, alpha, warning):
    """If even a loss of all examples would not be significant, a warning says so, unless the threshold is strict."""
    verdict = _verdict(numbered(n, 0), numbered(n, 0), max_drop=0.1, alpha=alpha)
    assert (verdict.status, verdict.warnings) == ("pass", () if warning is None else (warning,))
    assert _test(numbered(n, 0), numbered(0, n), max_drop=0.1, alpha=alpha).significant == (warning is None)
    assert _verdict(numbered(n, 0), numbered(n, 0), max_drop=0.1, strict=True).warnings == ()


def test_many_examples_without_a_score_are_named_by_the_first() -> None:
    now = numbered(40, 0) | {f"q{n}": None for n in range(12)}
    (warning,) = _verdict(numbered(40, 0), now, max_drop=0.02).warnings
    names = ", ".join(f"q{n}" for n in range(10))
    assert f"12 examples had a score in the baseline and have none now: no gold ({names}, …)" in warning


@pytest.mark.parametrize("inconclusive", [None, "warn", "fail"])
@pytest.mark.parametrize("bounds", [{"max_drop": 0.02}, {"max_lost": 4}, {"max_drop": 0.02, "max_lost": 9}])
def test_a_drop_is_judged_in_the_worst_case_of_what_is_unscored(bounds, inconclusive):
    """Attack: 10 of 100 questions are lost, and a server error leaves them unscored, so the drop is 0."""
    for n in (10, 1):
        now = score_of(numbered(100, 0) | {f"q{i}": None for i in range(n)}, cause="run")
        comparison = compare(now, {}, before_of(numbered(100, 0)))
        threshold = threshold_of("recall@5", inconclusive=inconclusive, **bounds)
        test = drop_test(comparison, max_drop=bounds["max_drop"]) if "max_drop" in bounds else None
        verdict = verdict_on(now, threshold, comparison, test)
        if n == 1:
            assert (verdict.status, verdict.warnings) == ("pass", ())
            continue
        # Ten losses are as many as are allowed.
        allowed = threshold_of("recall@5", max_lost=10)
        assert verdict_on(now, allowed, comparison).status == "pass"
        assert verdict.status == ("fail" if inconclusive == "fail" else "inconclusive")
        assert "; ".join(verdict.warnings) == ("" if inconclusive == "fail" else verdict.reason)
        names = ", ".join(f"q{i}" for i in range(10))
        lost = f"10 examples had a score in the baseline and have none now: the run failed ({names}); with 0 for each "
        assert lost in verdict.reason
        if "max_drop" in bounds:
            assert (
                f"{lost}the drop would be 0.100. Chance alone: fewer than 1 in 1,000 comparisons"
                in verdict.reason
            )
        if "max_lost" in bounds:
            assert f"{lost}it would be 10" in verdict.reason


def test_a_strict_threshold_excludes_the_drop_of_what_is_unscored() -> None:
    for n, status in ((10, "fail"), (0, "pass")):
        now = score_of(numbered(200, 0) | {f"q{i}": None for i in range(n)}, cause="run")
        test = drop_test(compare(now, {}, before_of(numbered(200, 0))), max_drop=0.05, strict=True)
        threshold = threshold_of("recall@5", max_drop=0.05, strict=True)
        assert drop_verdict(now, threshold, test).status == status


def test_an_allowed_drop_is_a_share_of_the_scale() -> None:
    """On a scale from 1 to 5, two unscored examples of 40 can hide a drop of 0.2."""
    before = {f"q{n}": 5.0 for n in range(40)}
    now = before | {"q0": None, "q1": None}
    score = score_of(now, scale=(1.0, 5.0))
    for max_drop, warned in ((0.1, True), (0.2, False)):
        drop = drop_test(comparison_of(before, now), max_drop=max_drop, alpha=0.05)
        verdict = drop_verdict(score, threshold_of("judged.correctness@5", max_drop=max_drop), drop)
        assert bool(verdict.warnings) == warned


def test_the_scale_is_at_least_as_wide_as_the_scores() -> None:
    before = {f"q{n}": 100.0 * (n % 2) for n in range(40)}
    (warning,) = _verdict(before, before | {"q0": None, "q1": None}, max_drop=2.0).warnings
    assert warning.startswith("a drop among 2 of 40 examples would not be seen")


def test_a_failure_is_reported_only_once() -> None:
    now = numbered(14, 6) | {"new": 1.0}
    verdict = _verdict(ALL, now, max_drop=0.02)
    assert (verdict.status, verdict.warnings) == ("fail", ())


def test_what_the_retriever_failed_at_is_a_drop() -> None:
    before, now = numbered(100, 0), numbered(94, 0) | {f"q{94 + n}": None for n in range(6)}
    score = score_of(now, cause="retriever")
    drop = drop_test(compare(score, {}, before_of(before)), max_drop=0.02, alpha=0.05)
    verdict = drop_verdict(score, threshold_of("recall@5", max_drop=0.02), drop)
    assert verdict == Verdict(
        "fail",
        "fell from 1.000 to 0.940, 1.000 without those (allowed 0.02): 6 of 100 questions worse, 0 better (6 have no "
        "score, since the retriever failed, and count as 0: the retriever failed (q94, q95, q96, q97, q98, q99)). "
        "Chance alone: about 1 in 200 comparisons",
        brief="drop 0.060 > 0.02",
    )


def _repeats(values: Values, flips: Mapping[int, Values], *, runs: int = 5, before_runs: int = 5) -> Verdict:
    outcomes = [score_of({**values, **flips.get(run, {})}).outcomes for run in range(runs)]
    score = Score("recall@5", outcomes[0], repeats=outcomes[1:])
    before = replace(before_of(numbered(60, 0)), runs=before_runs)
    comparison = compare(score, {}, before)
    threshold = threshold_of("recall@5", max_drop=0.02)
    [drop] = run_drop_tests([DropTestInput(threshold, comparison)])
    return verdict_on(score, threshold, comparison, drop)


def test_a_question_that_all_repeats_lose_is_red_alone() -> None:
    """One of 60 questions is a drop within max_drop, and no noise if five of five repeats got it right before."""
    lost: Values = numbered(60, 0) | {"q17": 0.0}
    verdict = _repeats(lost, {})
    assert verdict.status == "fail"
    assert (
        verdict.reason
        == "q17 went from 5 of 5 to 0 of 5 repeats right; chance alone rarely does that to any of 60 questions"
    )
    assert verdict.brief == "1 question surely worse"
    # 1 of 5, p = 6 / 252
    assert _repeats(lost, {3: {"q17": 1.0}}).reason.startswith("q17 went from 5 of 5 to 1 of 5 repeats")
    assert _repeats(lost, {3: {"q17": 1.0}, 4: {"q17": 1.0}}).status == "pass"
    assert _repeats(lost, {}, runs=3, before_runs=3).status == "fail"
    assert _repeats(lost, {}, runs=2, before_runs=9).status == "pass"
    assert _repeats(lost, {}, runs=9, before_runs=2).status == "pass"


def test_graded_repeats_are_no_counts() -> None:
    assert _repeats(numbered(60, 0) | {"q17": 0.0}, {1: {"q3": 0.4}, 2: {"q3": 0.6}}).status == "pass"


def test_a_failure_does_not_say_that_it_is_unsure() -> None:
    """Beside a bound that fails, what is unsure is said nowhere; with none, the run passes, and it is a warning."""
    unsure = Verdict("inconclusive", "UNSURE: fell", ("UNSURE: fell", "too few"))
    assert worst_of([unsure, Verdict("fail", "1 lost")]) == Verdict("fail", "1 lost", ("too few",))
    assert worst_of([unsure, Verdict("pass", "0 lost")]).warnings == unsure.warnings


def test_a_minimum_is_violated_for_sure_beside_a_drop_that_is_unsure() -> None:
    """The sentence on the drop names the minimum only where the drop fails too; else the minimum has its own."""
    values = numbered(19, 1)
    verdict = verdict_on(
        score_of(values),
        threshold_of("recall@5", min=0.96, max_drop=0.02, max_lost=0),
        comparison_of(numbered(20, 0), values),
        drop_test(comparison_of(numbered(20, 0), values), max_drop=0.02),
    )
    assert verdict.status == "fail"
    assert verdict.reason.startswith("0.950 is below the minimum 0.96. Improve the retriever, ")
    assert "minimum" not in verdict.reason.partition("UNSURE")[2]
