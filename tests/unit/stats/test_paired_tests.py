"""The joint test of drops: p-values, intervals, and allowed drops."""

import math

import numpy as np
import pytest

from pytest_rageval.stats.mcnemar import mcnemar_p_value, tango_interval
from pytest_rageval.stats.noninferiority import inferiority_p_value
from pytest_rageval.stats.paired_tests import PairedDrops, PairedTestResult, drop_interval, joint_drop_test
from pytest_rageval.stats.sign_flips import sign_flip_test

NAN = math.nan


def _one(values: list[float], alpha: float = 0.05, **words: float) -> PairedTestResult:
    return joint_drop_test([PairedDrops(values, **words)], alpha=alpha).scores[0]


def _graded(seed: int, n: int, drop: float = 0.0) -> list[float]:
    """Graded differences: a third of the questions change by up to 0.4, shifted so that the mean drop is `drop`."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 1 / 3, rng.uniform(-0.4, 0.4, n) + 3 * drop, 0.0).tolist()


def test_a_score_of_verdicts_is_tested_by_mcnemar() -> None:
    result = _one([1.0] * 7 + [-1.0] + [0.0] * 20 + [NAN] * 5)
    assert result.p_value == mcnemar_p_value(7, 1, 28)
    assert (result.low, result.high) == tango_interval(7, 1, 28, alpha=0.05)
    assert result.drop == pytest.approx(6 / 28)
    assert not result.needs_symmetry


def test_differences_of_any_one_size_are_verdicts() -> None:
    assert _one([0.25] * 7 + [-0.25]).p_value == mcnemar_p_value(7, 1, 8)
    assert _one([0.03] * 60).p_value < 1e-15


def test_rounding_is_no_difference() -> None:
    assert _one([1e-7] * 60, tolerance=1e-6) == _one([0.0] * 60)
    assert _one([1e-7] * 60).p_value < 0.05
    assert _one([1e-15, -1e-15, 1e-15]).p_value == 1.0


def test_several_scores_are_tested_jointly() -> None:
    one, other = _graded(1, 12, 0.1), _graded(2, 12, 0.05)
    other[3] = NAN
    columns = np.column_stack([one, other])
    expected = sign_flip_test(columns, alpha=0.05).p_values
    tests = joint_drop_test([PairedDrops(one), PairedDrops(other)], alpha=0.05)
    assert [score.p_value for score in tests.scores] == pytest.approx(expected, abs=1e-12)
    assert tests.scores[1].drop == pytest.approx(np.nanmean(other))


def test_the_same_score_twice_is_tested_as_once() -> None:
    """Testing a copy of a score too (recall@5 and hit@5 with one gold passage) does not change the p-value."""
    values = [1.0] * 9 + [-1.0] * 2 + [0.0] * 30
    twice = joint_drop_test([PairedDrops(values), PairedDrops(values)], alpha=0.05)
    once = _one(values)
    assert [score.p_value for score in twice.scores] == pytest.approx([once.p_value] * 2, abs=0.005)
    assert twice.level == pytest.approx(0.05, rel=0.03)


def test_slices_have_their_own_questions() -> None:
    """Two slices without common questions are tested as separately, each at half the level."""
    values = [1.0] * 7 + [0.0] * 5
    missing = [NAN] * 12
    tests = joint_drop_test([PairedDrops(values + missing), PairedDrops(missing + values)], alpha=0.05)
    alone = mcnemar_p_value(7, 0, 12)
    assert tests.scores[0].p_value == pytest.approx(2 * alone - alone**2, abs=0.003)
    assert 0.025 <= tests.level <= 0.027


def test_a_question_that_a_score_lacks_is_missing() -> None:
    """Three of three questions, beside a score of four, have a p-value of 1/8 and not that of three of four."""
    tests = joint_drop_test(
        [PairedDrops([1.0, 1.0, 1.0, NAN]), PairedDrops([0.0, 0.0, 0.0, -1.0])], alpha=0.05
    )
    assert tests.scores[0].p_value >= 1 / 8 - 0.01


def test_the_signs_of_a_cluster_are_flipped_together() -> None:
    """Eight lost questions of four documents count as four independent losses."""
    values, clusters = [1.0] * 8, [0, 0, 1, 1, 2, 2, 3, 3]
    tests = joint_drop_test([PairedDrops(values)], alpha=0.05, clusters=clusters)
    assert tests.scores[0].p_value == pytest.approx(1 / 16, abs=0.01)
    assert _one(values).p_value == pytest.approx(1 / 256)
    one_each = joint_drop_test([PairedDrops(_graded(3, 12, 0.1))], alpha=0.05, clusters=range(12))
    assert one_each.scores[0].p_value == _one(_graded(3, 12, 0.1)).p_value


def test_a_drop_beyond_what_is_allowed_is_another_claim() -> None:
    values = [*_graded(4, 14, 0.2), 0.9, 0.5]
    shifted = np.array(values)[:, None] - 0.05
    result = _one(values, beyond=0.05)
    assert result.p_value == sign_flip_test(shifted, alpha=0.05).p_values[0]
    assert result.p_value > _one(values).p_value
    assert _one([0.0] * 200 + [1.0] * 3, beyond=0.02).p_value > 0.05


def test_asymmetric_differences_need_a_second_test() -> None:
    """Many small losses without a gain get the larger p-value of a second test, which allows for rare unseen gains."""
    values = [0.02, 0.03] * 10 + [0.0] * 40
    alone = sign_flip_test(np.array(values)[:, None], alpha=0.05).p_values[0]
    second = inferiority_p_value(values, largest=0.12)
    assert alone < 1e-4
    assert second > 0.005
    assert _one(values).p_value == max(alone, second)


def test_below_sixty_questions_a_note_is_all() -> None:
    """`needs_symmetry` is not set if the reweighted test agrees."""
    lopsided = [0.02, 0.03] * 8 + [0.0] * 20
    assert _one(lopsided).needs_symmetry
    assert _one(lopsided).p_value < 0.001
    clear = [0.5, 0.7] * 8 + [0.0] * 20 + [-0.3] * 3
    assert not _one(clear).needs_symmetry
    assert _one(clear).p_value < 0.01
    assert _one([0.02, 0.03] * 20 + [0.0] * 40, alpha=0.01).needs_symmetry
    assert not _one([0.02, 0.03, -0.04]).needs_symmetry


def test_similarities_need_no_gain_of_the_whole_scale() -> None:
    """A shift of many standard errors is significant even if the scale is much wider than the shift."""
    rng = np.random.default_rng(5)
    assert _one(rng.uniform(0.02, 0.04, 60).tolist()).p_value <= 0.05
    assert _one(rng.normal(0.02, 0.05, 100).tolist()).p_value <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("beyond", [0.0, 0.05])
@pytest.mark.parametrize("n", [8, 40, 150])
def test_interval_and_p_value_say_the_same(n: int, beyond: float) -> None:
    """The lower bound is at or above the allowed drop exactly if p is at most alpha."""
    for seed in range(8):
        scores = [
            PairedDrops(_graded(seed, n, seed % 5 / 30), beyond),
            PairedDrops(_graded(seed + 99, n, 0.05), beyond),
        ]
        for score in joint_drop_test(scores, alpha=0.05).scores:
            assert score.low >= beyond if score.p_value <= 0.05 else score.low <= beyond
            assert -1 <= score.low <= score.drop <= score.high <= 1


def test_without_pairs_there_is_no_comparison() -> None:
    for values in ([NAN, NAN], []):
        assert _one(values) == PairedTestResult(None, 1.0, -1.0, 1.0, needs_symmetry=False)
    tests = joint_drop_test([PairedDrops([NAN] * 9), PairedDrops([1.0] * 9)], alpha=0.05)
    assert tests.scores[0].p_value == 1.0
    assert tests.scores[1].p_value == pytest.approx(2**-9, abs=0.002)


def test_questions_without_any_difference_are_not_resampled() -> None:
    """Questions that no score has change nothing, neither alone nor in clusters of their own."""
    one, other = _graded(1, 30, 0.1), _graded(2, 30, 0.05)
    without = joint_drop_test([PairedDrops(one), PairedDrops(other)], alpha=0.05)
    missing = [NAN] * 60
    padded = [PairedDrops(one + missing), PairedDrops(other + missing)]
    assert joint_drop_test(padded, alpha=0.05) == without
    clusters = [i // 2 for i in range(90)]
    by_cluster = joint_drop_test([PairedDrops(one)], alpha=0.05, clusters=clusters[:30])
    assert joint_drop_test(padded[:1], alpha=0.05, clusters=clusters) == by_cluster


@pytest.mark.parametrize(
    ("scores", "clusters", "message"),
    [
        ([], None, "at least one score"),
        ([PairedDrops([1.0]), PairedDrops([1.0, 0.0])], None, r"\[1, 2\]"),
        ([PairedDrops([1.0])], [1, 2], r"\[1, 2\]"),
        ([PairedDrops([1.0, 0.0], beyond=-0.1)], None, "found -0.1"),
        ([PairedDrops([1.0, 0.0], beyond=1.0)], None, "found 1.0"),
        ([PairedDrops([1.5])], None, "from -1.0 to 1.0"),
        ([PairedDrops([math.inf])], None, "from -1.0 to 1.0"),
    ],
)
def test_what_cannot_be_is_refused(scores, clusters, message):
    with pytest.raises(ValueError, match=message):
        joint_drop_test(scores, alpha=0.05, clusters=clusters)


def test_wider_scales() -> None:
    """Differences of grades from 1 to 5 get the p-value of shares, and an interval four times as wide."""
    values = _graded(6, 50, 0.03)
    shares, grades = _one(values), _one([4 * value for value in values], largest=4.0)
    assert grades.p_value == pytest.approx(shares.p_value, abs=1e-9)
    assert (grades.low, grades.high) == pytest.approx((4 * shares.low, 4 * shares.high), abs=1e-3)


RUNS, FEW = 1500, 400
"""Four standard errors above 5%."""


def _verdicts(rng: np.random.Generator, n: int, losses: float, gains: float) -> np.ndarray:
    u = rng.random((RUNS, n))
    return np.where(u < losses, 1.0, 0.0) - np.where(u > 1 - gains, 1.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "power"), [(30, 0.344), (60, 0.568), (100, 0.788)])
def test_alarms_and_power_of_verdicts(n: int, power: float) -> None:
    """False alarms stay at 5%, and the power for a drop of 10 points is that of an enumeration of all tables."""
    rng = np.random.default_rng(n)
    rates = [
        np.mean([_one(run.tolist()).p_value <= 0.05 for run in _verdicts(rng, n, 0.04 + drop, 0.04)])
        for drop in (0.0, 0.1)
    ]
    assert rates[0] <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / RUNS)
    assert rates[1] == pytest.approx(power, abs=0.03)


@pytest.mark.slow
@pytest.mark.long
def test_alarms_of_a_family() -> None:
    """With four scores of 40 questions, false alarms stay at 5%, and the test is less strict than Bonferroni's."""
    rng = np.random.default_rng(7)
    joint = alone = 0
    for _ in range(FEW):
        base = rng.choice([-1.0, 0.0, 1.0], 40, p=[0.15, 0.7, 0.15])
        others = [base * rng.uniform(0.5, 1, 40), np.where(rng.random(40) < 0.8, base, rng.permutation(base))]
        scores = [base, *others, np.where(rng.random(40) < 0.5, base, 0.0)]
        if max(np.sum(scores, axis=1) - np.linalg.norm(scores, axis=1)) <= 0:
            continue  # the statistic is at most 1, and its p-value is far above 0.05
        joint += min(sign_flip_test(np.column_stack(scores), alpha=0.05).p_values) <= 0.05
        alone += any(
            sign_flip_test(score[:, None], alpha=0.05 / 4).p_values[0] <= 0.05 / 4 for score in scores
        )
    assert alone < joint <= FEW * (0.05 + 4 * math.sqrt(0.05 * 0.95 / FEW))


@pytest.mark.slow
@pytest.mark.long
def test_the_interval_of_graded_differences_covers() -> None:
    """Each bound is wrong in at most 7.2% of 400 samples of a skewed population; the standard error is 1.1 points."""
    rng = np.random.default_rng(8)
    population = np.r_[np.zeros(70), rng.uniform(0.1, 1, 20), rng.uniform(-0.6, 0, 10)]
    below = above = 0
    for _ in range(400):
        low, high = drop_interval(rng.choice(population, 80).tolist(), alpha=0.05)
        below += low > population.mean()
        above += high < population.mean()
    assert max(below, above) <= 400 * (0.05 + 2 * 0.011)


def test_the_interval_by_clusters_is_wider_and_covers() -> None:
    """The interval by clusters covers the true drop of 30 documents with ten questions; the one without does not."""
    rng = np.random.default_rng(9)
    clusters = np.repeat(np.arange(30), 10).tolist()
    below = above = narrow = 0
    for _ in range(400):
        moved = (rng.random(300) < 0.3) * np.repeat(rng.choice([1.0, -1.0], 30, p=[0.6, 0.4]), 10)
        low, high = drop_interval(moved.tolist(), alpha=0.05, clusters=clusters)
        below, above = below + (low > 0.06), above + (high < 0.06)
        alone = drop_interval(moved.tolist(), alpha=0.05)
        narrow += alone[0] > 0.06 or alone[1] < 0.06
    assert max(below, above) <= 400 * (0.05 + 3 * 0.011)
    assert narrow > 400 * 0.2


def test_few_clusters_bound_nothing() -> None:
    """With two equal clusters the interval is the whole scale; 20 clusters count as 20 examples."""
    assert drop_interval([1.0, 0.0, 0.0, 1.0], alpha=0.05, clusters="aabb") == (-1.0, 1.0)
    low, high = drop_interval([0.0] * 40, alpha=0.05, clusters=[i % 20 for i in range(40)])
    assert low == pytest.approx(-high)
    assert high == pytest.approx(1.6448536**2 / (20 + 1.6448536**2), abs=1e-6)
