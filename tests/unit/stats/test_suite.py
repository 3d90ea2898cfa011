"""The test of all questions of a suite."""

import numpy as np
import pytest

from pytest_rageval.stats.mcnemar import mcnemar_p_value
from pytest_rageval.stats.suite import SuiteScore, SuiteTestResult, suite_drop_test


def _score(test: str, lost: int, gained: int = 0, n: int = 30, **words: object) -> SuiteScore:
    values = [1.0] * lost + [-1.0] * gained + [0.0] * (n - lost - gained)
    return SuiteScore(test, "hit@5", {f"{test} {i}": value for i, value in enumerate(values)}, **words)


def _tested(*scores: SuiteScore, gated: int = 0, alpha: float = 0.05) -> SuiteTestResult:
    result = suite_drop_test(scores, gated=gated or len({score.test for score in scores}), alpha=alpha)
    assert result is not None
    return result


def test_questions_of_different_tests_are_pooled() -> None:
    """Three of 30 lost in each of 20 tests are 60 of 600 lost; the effects are the tests' parts of the drop."""
    result = _tested(*[_score(f"t{n}", 3) for n in range(20)])
    assert (result.n, result.worse, result.better) == (600, 60, 0)
    assert result.p_value == pytest.approx(mcnemar_p_value(60, 0, 600))
    assert result.level == 0.025
    assert result.fails
    assert len(set(map(str, result.effects.values()))) == 1


def test_the_tests_are_named_by_effect() -> None:
    result = _tested(_score("a", 1), _score("b", 6), _score("c", 0, 2))
    assert [*result.effects] == ["b", "a", "c"]
    assert result.effects["c"] < 0


def test_a_question_that_tests_share_counts_once() -> None:
    """Five tests of the same 30 questions are no more evidence than one of them."""
    drops = _score("a", 4).drops
    result = _tested(*[SuiteScore(f"t{n}", "hit@5", drops) for n in range(5)])
    assert (result.n, result.worse) == (30, 4)
    assert result.p_value == pytest.approx(mcnemar_p_value(4, 0, 30))


def test_questions_of_one_cluster_count_once() -> None:
    """Six lost questions of two documents are two losses."""
    clusters = {f"a {i}": f"document {i // 3}" for i in range(30)}
    result = _tested(_score("a", 6, clusters=clusters), _score("b", 0))
    alone = _tested(_score("a", 6), _score("b", 0))
    assert result.p_value > 0.1 > alone.p_value


def test_scores_have_units() -> None:
    """Similarities, which differ by hundredths, have the same weight as verdicts."""
    rng = np.random.default_rng(1)
    small = dict(enumerate(rng.normal(0.005, 0.01, 60).tolist()))
    similar = SuiteScore("a", "answer.cosine", {f"a {i}": drop for i, drop in small.items()})
    large = SuiteScore("a", "answer.cosine", {f"a {i}": 50 * drop for i, drop in small.items()})
    results = [_tested(score, _score("b", 3, 3)) for score in (similar, large)]
    assert results[0].p_value == pytest.approx(results[1].p_value, abs=0.005)
    assert results[0].fails


def test_what_the_tests_allow_is_no_failure() -> None:
    """A significant drop that is no larger than the tests allow on average does not fail."""
    for allowed, fails in ((0.02, True), (0.1, False), (0.2, False)):
        result = _tested(_score("a", 3, allowed=allowed), _score("b", 3, allowed=allowed))
        assert result.fails == fails
    beyond = _tested(*[_score(name, 3, allowed=0.05, beyond=0.05) for name in "ab"])
    assert beyond.p_value > _tested(_score("a", 3), _score("b", 3)).p_value


def test_one_test_is_no_suite() -> None:
    assert suite_drop_test([_score("a", 9)], gated=1, alpha=0.05) is None
    assert suite_drop_test([_score("a", 9)], gated=7, alpha=0.05) is None


def test_parts_of_a_suite_share_the_level() -> None:
    """Runs of two and of three of five tests have together half of alpha."""
    parts = [[_score(name, 1) for name in names] for names in ("ab", "cde")]
    levels = [_tested(*part, gated=5).level for part in parts]
    assert levels == pytest.approx([0.01, 0.015])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tests", "kind"), [(2, "verdicts"), (20, "verdicts"), pytest.param(20, "graded", marks=pytest.mark.long)]
)
def test_the_error_rate_of_the_line(tests: int, kind: str) -> None:
    """Of 1,000 suites without a drop, at most 2.5% are red, up to the simulation error of 0.5 points."""
    rng = np.random.default_rng([tests, len(kind)])
    red = 0
    for _ in range(1000):
        drawn = rng.choice([-1.0, 0.0, 1.0], (tests, 30), p=[0.06, 0.88, 0.06])
        if kind == "graded":
            drawn *= rng.uniform(0.1, 1, drawn.shape)
        if drawn.sum() <= np.sqrt((drawn**2).sum()):
            continue  # no p-value is near the level
        scores = [
            SuiteScore(f"t{n}", "s", {f"{n} {i}": drop for i, drop in enumerate(row.tolist())})
            for n, row in enumerate(drawn)
        ]
        red += _tested(*scores).fails
    assert red <= 1000 * 0.025 + 3 * 5
