"""The sequential drop test that stops early, and the significance level spent over comparisons with an anchor."""

import itertools
import math
import random

import pytest

from pytest_rageval.stats.mcnemar import mcnemar_p_value
from pytest_rageval.stats.sequential import STAKES, SequentialDropTest, anchor_alpha

N, CHANGED = 400, 120


def _stop(**words: float) -> SequentialDropTest:
    given = {"questions": N, "changed": CHANGED, "max_drop": 0.02, "alpha": 0.05} | words
    return SequentialDropTest(**given)


def _fed(drops: list[float], **words: float) -> SequentialDropTest:
    stop = _stop(**words)
    for drop in drops:
        if stop.verdict is None:
            stop.add(drop)
    return stop


def test_all_lost_fails_soon() -> None:
    """If every question is lost, the test fails as soon as the capital, the mean of (1 + stake)^n, reaches 2/alpha."""
    stop = _fed([1.0] * CHANGED)
    wealth = [math.fsum((1 + stake) ** k for stake in STAKES) / len(STAKES) for k in range(20)]
    assert stop.verdict == "fail"
    assert stop.evaluated == next(k for k in range(20) if wealth[k] >= 40)


def test_nothing_lost_passes_before_all_have_come() -> None:
    """If no question is lost, the test passes before half are evaluated: a drop of max_drop has become unlikely."""
    stop = _fed([0.0] * CHANGED)
    assert stop.verdict == "pass"
    assert stop.evaluated < CHANGED / 2


def test_what_cannot_be_reached_costs_nothing() -> None:
    """If too few questions changed to exceed max_drop, the test passes without evaluating any."""
    assert _stop(changed=8).verdict == "pass"
    assert _stop(changed=9).verdict is None
    assert _stop(changed=0, max_drop=0.0).verdict == "pass"
    assert _stop(changed=16, largest=0.5).verdict == "pass"


def test_a_shared_level_makes_red_rarer_and_leaves_green() -> None:
    """With ten tests, each fails at a tenth of the level and passes as early as it would alone."""
    alone, shared = _fed([1.0] * CHANGED), _fed([1.0] * CHANGED, alpha_shares=10)
    wealth = [math.fsum((1 + stake) ** k for stake in STAKES) / len(STAKES) for k in range(30)]
    assert alone.evaluated < shared.evaluated == next(k for k in range(30) if wealth[k] >= 400)
    assert _fed([0.0] * CHANGED, alpha_shares=10).evaluated == _fed([0.0] * CHANGED).evaluated


def test_the_drop_of_the_full_set_is_estimated() -> None:
    """The estimate extends the mean so far to all changed questions and counts unchanged ones as 0."""
    stop = _stop(questions=100, changed=40, max_drop=0.3)
    assert stop.estimated_drop == 0
    for drop in (1.0, 0.0, 0.5, 0.5):
        stop.add(drop)
    assert stop.estimated_drop == pytest.approx(0.5 * 40 / 100)
    stop.skip()
    assert stop.estimated_drop == pytest.approx(0.5 * 39 / 99)


def test_a_pass_is_certain_or_likely() -> None:
    """A pass is certain if all remaining losses could not exceed max_drop; otherwise it is only likely."""
    assert _stop(changed=8).is_certain
    likely = _fed([0.0] * CHANGED)
    assert (likely.verdict, likely.is_certain) == ("pass", False)


def test_the_bound_on_the_rest_is_exact() -> None:
    """With max_drop 0.02 of 400, nine losses are too many: the test passes exactly when eight questions remain."""
    stop = _stop(changed=20, alpha=1e-9)
    for _ in range(11):
        assert stop.verdict is None
        stop.add(0.0)
    stop.add(0.0)
    assert stop.verdict == "pass"


def test_a_verdict_is_final() -> None:
    """Later gains do not change a verdict."""
    stop = _fed([1.0] * CHANGED)
    for _ in range(30):
        stop.add(-1.0)
    assert stop.verdict == "fail"


def test_a_small_drop_within_what_is_allowed_is_no_failure() -> None:
    """A significant drop below max_drop passes: 30 of 2,000 questions are lost, and the bound of 0.3 allows 600."""
    stop = _fed([1.0] * 30 + [0.0] * 570, questions=2000, changed=600, max_drop=0.3)
    assert stop.verdict == "pass"


def test_questions_without_a_score_leave_the_set() -> None:
    """A skipped question is removed from the remaining questions and from the size of the set."""
    stop = _stop(questions=100, changed=3, max_drop=0.02, alpha=0.01)
    assert stop.verdict is None
    stop.skip()
    assert stop.verdict is None  # 2 of 99 are more than 1.98
    stop.skip()
    assert stop.verdict == "pass"
    assert stop.evaluated == 0


def test_at_the_end_the_usual_test_decides() -> None:
    """If all questions are evaluated without a clear result, the verdict is None.

    One more question raises ValueError.
    """
    drops = [1.0, -1.0, 1.0] * 6 + [1.0]
    stop = _fed(drops, questions=40, changed=len(drops))
    assert stop.evaluated == len(drops)
    assert stop.verdict is None
    with pytest.raises(ValueError, match="more questions"):
        stop.add(0.0)
    with pytest.raises(ValueError, match="more questions"):
        stop.skip()


def test_a_drop_beyond_needs_more() -> None:
    """Showing a drop beyond an allowed one takes more losses, and unchanged questions count against it."""
    assert _fed([1.0] * 120, beyond=0.02).evaluated >= _fed([1.0] * 120).evaluated
    lost = [1.0, 0.0] * 30
    plain, diluted = _stop(beyond=0.1, max_drop=0.1), _stop(beyond=0.1, max_drop=0.1)
    for drop in lost:
        for _ in range(4):
            diluted.add_unchanged()
        for stop in (plain, diluted):
            stop.add(drop)
    assert plain.verdict == "fail"
    assert diluted.verdict is None


@pytest.mark.parametrize(
    "words",
    [
        {"changed": 500},
        {"changed": -1},
        {"alpha": 0.0},
        {"alpha": 0.6},
        {"max_drop": -0.1},
        {"beyond": 1.0},
        {"beyond": -0.1},
    ],
)
def test_what_cannot_be_is_refused(words: dict[str, float]) -> None:
    """Settings that contradict each other raise ValueError."""
    with pytest.raises(ValueError, match=r"cannot be evaluated|no test has"):
        _stop(**words)


@pytest.mark.parametrize("drop", [1.5, -1.5, math.nan])
def test_a_difference_beyond_the_scale_is_refused(drop: float) -> None:
    """A difference outside -1 to 1 raises ValueError, since the bet could lose more than the capital."""
    with pytest.raises(ValueError, match=r"from -1\.0 to 1\.0"):
        _stop().add(drop)


def _runs(runs: int, drop: float, *, noise: float = 0.3, seed: int = 0) -> dict[str, float]:
    """Rates of failing and passing stops, of all failures and of missed drops, and the mean share evaluated."""
    rng = random.Random(seed)
    rates = dict.fromkeys(("fail", "pass", "red", "asked", "missed"), 0.0)
    share = max(noise, drop * N / CHANGED)
    losses = (share + drop * N / CHANGED) / 2
    for _ in range(runs):
        u = [rng.random() for _ in range(CHANGED)]
        drops = [1.0 if x < losses else -1.0 if x < share else 0.0 for x in u]
        stop = _fed(drops)
        lost, gained = drops.count(1.0), drops.count(-1.0)
        above = lost - gained > 0.02 * N + 1e-9
        rates["asked"] += stop.evaluated / N / runs
        if stop.verdict is not None:
            rates[stop.verdict] += 1 / runs
        rates["red"] += (
            stop.verdict == "fail"
            or (stop.verdict is None and above and mcnemar_p_value(lost, gained, N) <= 0.025)
        ) / runs
        rates["missed"] += (stop.verdict == "pass" and above) / runs
    return rates


@pytest.mark.slow
def test_the_type_one_error_rate_is_at_most_alpha() -> None:
    """In 2,000 runs without a drop, at most alpha fail in all, and at most alpha/2 by stopping early."""
    rates = _runs(2000, 0.0)
    assert rates["red"] <= 0.05
    assert rates["fail"] <= 0.025
    assert rates["missed"] <= 0.05


@pytest.mark.slow
def test_a_bet_against_what_is_true_wins_no_more_than_promised() -> None:
    """Without a drop, the capital reaches 2/alpha in at most alpha/2 of 800 runs, up to the simulation error."""
    rng = random.Random(1)
    reached = 0
    for _ in range(800):
        stop = SequentialDropTest(questions=300, changed=300, max_drop=0.0, alpha=0.1)
        for _ in range(300):
            stop.add(rng.choice((-1.0, -0.2, 0.2, 1.0)))
            if stop.verdict is not None:
                break
        reached += stop.verdict == "fail"
    assert reached <= 800 * (0.05 + 3 * 0.0077)


@pytest.mark.slow
def test_a_full_set_above_what_is_allowed_is_seldom_let_pass() -> None:
    """At a true drop of max_drop, at most alpha of runs pass although the full set drops by more than max_drop."""
    rates = _runs(1000, 0.02, seed=2)
    assert rates["missed"] <= 0.05
    assert rates["pass"] > 0.2


def test_large_drops_are_seen_early() -> None:
    """Drops of 10 and 20 points fail after evaluating less than 9% and 4% of the questions."""
    ten, twenty = _runs(200, 0.1, seed=3), _runs(200, 0.2, seed=4)
    assert ten["fail"] > 0.95
    assert ten["asked"] < 0.09
    assert twenty["asked"] < 0.04


def test_the_share_that_is_asked_of_a_large_set() -> None:
    """Of 2,000 questions, 600 changed, shares of .14, .05 and .014 are evaluated for drops of 0, 5 and 10 points."""
    rng = random.Random(5)
    for drop, expected in ((0.0, 0.14), (0.05, 0.05), (0.1, 0.014)):
        share = max(0.3, drop / 0.3)
        losses = (share + drop / 0.3) / 2
        evaluated = 0
        for _ in range(60):
            u = [rng.random() for _ in range(600)]
            drops = [1.0 if x < losses else -1.0 if x < share else 0.0 for x in u]
            evaluated += _fed(drops, questions=2000, changed=600).evaluated
        assert evaluated / 60 / 2000 == pytest.approx(expected, rel=0.25)


def test_an_anchor_never_spends_the_whole_level() -> None:
    """Ten updates spend half of alpha, and the rest is never used up: after update k, 5·alpha/k is left."""
    spent = 0.0
    for update in range(1, 3001):
        spent += anchor_alpha(0.05, update)
        if update >= 10:
            assert spent == pytest.approx(0.05 - 0.25 / update, abs=1e-12)
    assert spent < 0.05


def test_the_level_of_an_anchor_never_rises() -> None:
    """The level never rises from one update to the next, and does not jump after the constant part."""
    levels = [anchor_alpha(0.05, update) for update in range(1, 200)]
    assert all(later <= earlier for earlier, later in itertools.pairwise(levels))
    assert levels[10] > 0.9 * levels[9]


@pytest.mark.parametrize("update", [0, -3])
def test_updates_are_counted_from_one(update: int) -> None:
    """An update number below 1 raises ValueError: the run that pins the anchor compares with nothing."""
    with pytest.raises(ValueError, match=f"found {update}"):
        anchor_alpha(0.05, update)


def test_the_level_of_an_anchor_is_in_proportion_to_alpha() -> None:
    """In the first ten updates the level is alpha / 20."""
    assert anchor_alpha(0.2, 3) == math.fsum([0.2]) / 20
