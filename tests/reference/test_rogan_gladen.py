"""The correction for the judge's error rates equals independent computations of it."""

from fractions import Fraction

import numpy as np
import pytest

from pytest_rageval.extensions.calibration.corrections import rogan_gladen

Z = Fraction("1.959963984540054")

CASES = [  # right labels, those accepted; wrong labels, those refused; scored answers, those accepted
    (50, 45, 50, 40, 100, 60),
    (30, 30, 70, 50, 400, 290),
    (80, 60, 20, 15, 1000, 640),
    (12, 10, 40, 33, 57, 20),
]


def _verdicts(accepted: int, n: int) -> list[float]:
    return [1.0] * accepted + [0.0] * (n - accepted)


def _found(case):
    right, accepted, wrong, refused, n, positive = case
    human = [1.0] * right + [0.0] * wrong
    judge = [*_verdicts(accepted, right), *_verdicts(wrong - refused, wrong)]
    return rogan_gladen(human, judge, _verdicts(positive, n))


def _lang_reiczigel(case) -> tuple[float, float]:
    """The limits of the paper from counts, in exact arithmetic up to the root: the squared width is expanded."""
    right, accepted, wrong, refused, n, positive = case
    (a, r), (b, w), (x, m) = (
        (Fraction(count) + plus / 2, Fraction(size) + plus)
        for count, size, plus in ((accepted, right, 2), (refused, wrong, 2), (positive, n, Z * Z))
    )
    # The estimate (x/m + b/w - 1) / (a/r + b/w - 1), times r·w·m above and below.
    above, below = r * (x * w + b * m - m * w), m * (a * w + b * r - r * w)
    share = above / below
    parts = (share**2 * a * (r - a) / r**3, (1 - share) ** 2 * b * (w - b) / w**3, x * (m - x) / m**3)
    half = float(Z) * float(sum(parts)) ** 0.5 * float(m * r * w / below)
    middle = float(share + 2 * Z * Z * (share * a * (r - a) / r**3 - (1 - share) * b * (w - b) / w**3))
    return middle - half, middle + half


@pytest.mark.parametrize("case", CASES)
def test_the_estimate_solves_the_equations_of_a_confusion_matrix(case):
    right, accepted, wrong, refused, n, positive = case
    matrix = [[accepted / right, 1 - refused / wrong], [1 - accepted / right, refused / wrong]]
    share, _ = np.linalg.solve(matrix, [positive / n, 1 - positive / n])
    assert _found(case).raw == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_the_interval_is_that_of_the_paper(case):
    estimate = _found(case).estimate
    assert (estimate.low, estimate.high) == pytest.approx(_lang_reiczigel(case), abs=1e-12)


@pytest.mark.parametrize("case", [tuple(20 * number for number in case) for case in CASES])
def test_the_interval_of_many_labels_is_that_of_a_bootstrap_over_both_samples(case):
    right, accepted, wrong, refused, n, positive = case
    rng = np.random.default_rng(0)
    se, sp, p = (
        rng.binomial(size, count / size, 20_000) / size
        for count, size in ((accepted, right), (refused, wrong), (positive, n))
    )
    low, high = np.quantile((p + sp - 1) / (se + sp - 1), [0.025, 0.975])
    estimate = _found(case).estimate
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=0.04 * (high - low))
