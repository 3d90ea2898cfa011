"""The drop test that stops early, and the level of comparisons with an anchor."""

import itertools
import math
import random
from functools import cache

import numpy as np
import pytest

from pytest_rageval.stats.mcnemar import mcnemar_p_value
from pytest_rageval.stats.paired_tests import PairedDrops, drop_p_values
from pytest_rageval.stats.sequential import CurtailedDropTest, anchor_alpha

N, CHANGED = 400, 120


def _stop(**words: float) -> CurtailedDropTest:
    given = {"questions": N, "changed": CHANGED, "max_drop": 0.02, "alpha": 0.05} | words
    return CurtailedDropTest(**given)


def _fed(drops: list[float], **words: float) -> CurtailedDropTest:
    stop = _stop(**words)
    for drop in drops:
        if stop.verdict is None:
            stop.add(drop)
    return stop


def test_all_lost_fails_soon() -> None:
    """If every question is lost, a tenth of the changed questions is enough."""
    stop = _fed([1.0] * CHANGED)
    assert stop.verdict == "fail"
    assert stop.evaluated <= CHANGED / 10


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


def test_a_smaller_level_needs_more_to_fail() -> None:
    assert _fed([1.0] * CHANGED).evaluated < _fed([1.0] * CHANGED, alpha=0.005).evaluated


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
    """With max_drop 0.02 of 400, nine losses are too many: a pass is certain exactly when eight questions remain."""
    stop = _stop(changed=20)
    for remaining in range(19, 8, -1):
        stop.add(0.0)
        assert not stop.is_certain, remaining
    stop.add(0.0)
    assert stop.is_certain


def test_a_verdict_is_final() -> None:
    stop = _fed([1.0] * CHANGED)
    for _ in range(30):
        stop.add(-1.0)
    assert stop.verdict == "fail"


def test_a_small_drop_within_what_is_allowed_is_no_failure() -> None:
    """A significant drop below max_drop passes: 30 of 2,000 questions are lost, and the bound of 0.3 allows 600."""
    stop = _fed([1.0] * 30 + [0.0] * 570, questions=2000, changed=600, max_drop=0.3)
    assert stop.verdict == "pass"


def test_questions_without_a_score_leave_the_set() -> None:
    stop = _stop(questions=100, changed=3)
    assert stop.verdict is None
    stop.skip()
    assert stop.verdict is None  # 2 of 99 are more than 1.98
    stop.skip()
    assert stop.verdict == "pass"
    assert stop.evaluated == 0


def test_at_the_end_the_usual_test_decides() -> None:
    drops = [1.0, 1.0, -1.0, 1.0] * 3
    stop = _fed(drops, questions=40, changed=len(drops))
    assert stop.evaluated == len(drops)
    assert stop.verdict is None
    with pytest.raises(ValueError, match="more questions"):
        stop.add(0.0)
    with pytest.raises(ValueError, match="more questions"):
        stop.skip()


def test_a_drop_beyond_needs_more() -> None:
    lost = [1.0, 0.0, 0.0, 0.0] * 30
    plain, beyond = _fed(lost, max_drop=0.05), _fed(lost, max_drop=0.05, beyond=0.05)
    assert plain.verdict == "fail"
    assert beyond.evaluated > plain.evaluated


def test_small_losses_with_unseen_gains_do_not_fail_early() -> None:
    """Losses of several sizes without a gain fail early only if the test of all questions would be significant."""
    given = {"questions": 60, "changed": 60, "max_drop": 0.0}
    few = [*[0.0] * 7, 0.02, *[0.0] * 6, 0.05] * 4
    assert drop_p_values([PairedDrops(few)], alpha=0.05).p_values[0] > 0.05
    assert _fed(few, **given).verdict is None
    assert _fed([0.02, 0.05] * 30, **given).verdict == "fail"


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
    with pytest.raises(ValueError, match=r"cannot be evaluated|no test has"):
        _stop(**words)


@pytest.mark.parametrize("drop", [1.5, -1.5, math.nan])
def test_a_difference_beyond_the_scale_is_refused(drop: float) -> None:
    with pytest.raises(ValueError, match=r"from -1\.0 to 1\.0"):
        _stop().add(drop)


@cache
def _p_value(lost: int, gained: int, n: int) -> float:
    return mcnemar_p_value(lost, gained, n)


def _runs(runs: int, drop: float, *, n: int = N, max_drop: float = 0.02, seed: int = 0) -> dict[str, float]:
    """The rates of verdicts of 0/1 scores, of which 30% changed: early, in all, and of the test of all questions."""
    rng = random.Random(seed)
    rates = dict.fromkeys(("fail", "pass", "red", "red of full", "differ", "asked"), 0.0)
    changed = 3 * n // 10
    share = max(0.3, drop / 0.3)
    losses = (share + drop / 0.3) / 2
    for _ in range(runs):
        u = [rng.random() for _ in range(changed)]
        drops = [1.0 if x < losses else -1.0 if x < share else 0.0 for x in u]
        stop = _fed(drops, questions=n, changed=changed, max_drop=max_drop)
        lost, gained = drops.count(1.0), drops.count(-1.0)
        full = lost - gained > max_drop * n + 1e-9 and _p_value(lost, gained, n) <= 0.05
        red = stop.verdict == "fail" or (stop.verdict is None and full)
        if stop.verdict is not None:
            rates[stop.verdict] += 1 / runs
        rates["asked"] += stop.evaluated / changed / runs
        rates["red"] += red / runs
        rates["red of full"] += full / runs
        rates["differ"] += (red != full) / runs
    return rates


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "drop", "asked"), [(200, 0.05, 0.8), (300, 0.05, 0.7), (200, 0.0, 0.62), (2000, 0.05, 0.25)]
)
def test_it_has_the_power_of_the_test_of_all_questions(n: int, drop: float, asked: float) -> None:
    rates = _runs(400 if n < 1000 else 100, drop, n=n)
    assert rates["red"] == pytest.approx(rates["red of full"], abs=0.02)
    assert rates["differ"] <= 0.03
    assert rates["asked"] <= asked


@pytest.mark.slow
@pytest.mark.parametrize("max_drop", [0.0, 0.02])
def test_the_rate_of_false_alarms_is_hardly_more_than_alpha(max_drop: float) -> None:
    """In 1,500 runs without a drop, at most 6% fail, three standard errors above that of all questions allowed."""
    rates = _runs(1500, 0.0, n=200, max_drop=max_drop, seed=1)
    assert rates["red"] <= 0.053 + 0.01 + 3 * math.sqrt(0.05 * 0.95 / 1500)
    assert rates["red"] <= rates["red of full"] + 0.012


def test_large_drops_are_seen_early() -> None:
    """Drops of 10 and 20 points of 400 questions fail after 30% and 15% of the changed questions."""
    ten, twenty = _runs(100, 0.1, seed=3), _runs(100, 0.2, seed=4)
    assert ten["fail"] > 0.95
    assert ten["asked"] < 0.3
    assert twenty["asked"] < 0.15


@pytest.mark.slow
def test_the_level_of_an_anchor_lies_between_what_is_blind_and_what_cries_wolf() -> None:
    """20 updates that lose half a point each are seen in two thirds of runs; without a drop at most 8% alarm."""
    n, runs, noise = 100, 600, 0.02
    for drop, churn, low, high in ((0.005, 0.0, 0.63, 0.75), (0.0, 0.0, 0.0, 0.08), (0.0, 0.03, 0.0, 0.08)):
        rng = np.random.default_rng([8, int(1000 * drop), int(100 * churn)])
        right = rng.random((runs, n)) < 0.85
        anchor = right ^ (rng.random((runs, n)) < noise)
        called = np.zeros(runs, dtype=bool)
        for update in range(1, 21):
            right &= rng.random((runs, n)) >= drop / 0.85
            right = np.where(rng.random((runs, n)) < churn, rng.random((runs, n)) < 0.85, right)
            new = right ^ (rng.random((runs, n)) < noise)
            counts = zip((anchor & ~new).sum(axis=1), (new & ~anchor).sum(axis=1), strict=True)
            p_values = [_p_value(int(lost), int(gained), n) for lost, gained in counts]
            called |= np.array(p_values) <= anchor_alpha(0.05, update)
        assert low <= called.mean() <= high


def test_the_level_of_an_anchor_never_rises() -> None:
    """The level never rises from one update to the next, and does not jump after the constant part."""
    levels = [anchor_alpha(0.05, update) for update in range(1, 200)]
    assert levels[:20] == [0.05 / 8] * 20
    assert all(later <= earlier for earlier, later in itertools.pairwise(levels))
    assert levels[20] > 0.9 * levels[19]


@pytest.mark.parametrize("update", [0, -3])
def test_updates_are_counted_from_one(update: int) -> None:
    """An update number below 1 raises ValueError: the run that pins the anchor compares with nothing."""
    with pytest.raises(ValueError, match=f"found {update}"):
        anchor_alpha(0.05, update)
