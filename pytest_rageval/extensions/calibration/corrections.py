"""The share of right answers behind the verdicts of a judge that errs, from human labels of some answers.

Prediction-powered inference needs labels of a random sample. Rogan and Gladen correct by the judge's error rates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean
from typing import Final

import numpy as np
import numpy.typing as npt

from pytest_rageval.stats.intervals import Z95, Estimate

Array = npt.NDArray[np.float64]

FLOAT_TOL: Final = 1e-9  # scores that differ by less are equal up to floating-point rounding


def prediction_powered_mean(
    human: Sequence[float], judge: Sequence[float], unlabelled: Sequence[float]
) -> Estimate | None:
    """Mean human score of a population, by prediction-powered inference with power tuning (PPI++).

    `mean(human) + λ (mean(unlabelled) - mean(judge))`: the mean of the human labels, corrected by the difference
    between the judge's mean on unlabelled items and on labelled items. A systematic error of the judge cancels in this
    difference. `λ = s N / (n + N)`, where s is the least-squares slope of human on judge over the labelled items,
    clipped to [0, 1]; this λ minimises the variance `var(human - λ judge) / n + λ² var(unlabelled) / N`. With a judge
    that is unrelated to the human labels λ is 0, and the result is the mean of the labels. With a judge without errors
    the result is the mean of the judge's scores of all items. If the judge gives all labelled items the same score, s
    is 1 if the human labels are all equal too, else 0.

    Args:
        human: human scores of n labelled items, in [0, 1].
        judge: the judge's scores of the labelled items, in the same order.
        unlabelled: the judge's scores of N other items from the same population. No item may be both labelled and
            unlabelled.

    Returns:
        The mean with its 95% interval, both in [0, 1]. None without labelled items, or with fewer than two
        unlabelled items.

        For the interval, not for the mean, items are added, as in Agresti and Coull's interval of a proportion; the
        interval is extended to include the mean. Without them the interval has zero width if few labels happen to agree
        with the judge, and is too narrow if scores are near 0 or 1. It is conservative for few items.

        - If all scores are 0 or 1: four labelled items, one for each combination of these.
        - Otherwise two, 0 and 1, with the judge's mean score of the labelled items; and the interval is Student's with
          n degrees of freedom.

        In simulations of graded scores with 20 to 200 labels it contains the true mean in at least 95% of runs
        (`tests/unit/extensions/calibration/test_prediction_powered.py`).

    Raises:
        ValueError: human and judge differ in length, or a score is outside 0 … 1.

    Source: Angelopoulos, Bates, Fannjiang, Jordan and Zrnic (2023), "Prediction-powered inference"; the tuning of λ:
    Angelopoulos, Duchi and Zrnic (2023), "PPI++", with the judge's variance from the labelled items; the added
    items: Agresti and Coull (1998), "Approximate is better than 'exact' …".

    >>> human, judge = [1, 0, 1, 0, 0, 1, 0, 1] * 5, [1, 1, 1, 0, 0, 1, 0, 1] * 5
    >>> corrected = prediction_powered_mean(human, judge, [1] * 700 + [0] * 300)
    >>> [round(number, 3) for number in (corrected.value, corrected.low, corrected.high)]
    [0.558, 0.451, 0.668]
    """
    y, f, rest = (np.asarray(scores, dtype=float) for scores in (human, judge, unlabelled))
    if len(y) != len(f):
        raise ValueError(f"human and judge must score the same items, not {len(y)} and {len(f)}")
    if not all(((scores >= 0) & (scores <= 1)).all() for scores in (y, f, rest)):
        raise ValueError("a score is outside the scale 0 … 1")
    if not len(y) or len(rest) < 2:  # noqa: PLR2004 - a variance needs two items
        return None
    value, _ = _corrected_mean(y, f, rest)
    if np.isin([y, f], (0, 1)).all():
        centre, margin = _corrected_mean(np.append(y, [0, 0, 1, 1]), np.append(f, [0, 1] * 2), rest)
    else:
        # scipy.special imports less than scipy.stats.
        from scipy.special import stdtrit  # noqa: PLC0415

        n = len(y)
        centre, margin = _corrected_mean(np.append(y, [0, 1]), np.append(f, [f.mean()] * 2), rest)
        margin *= float(stdtrit(n, 0.975)) / Z95 * sqrt((n + 1) / n)
    bounds = min(value, centre - margin), max(value, centre + margin)
    return Estimate(*(float(np.clip(x, 0, 1)) for x in (value, *bounds)))


def difference_p_value(some: Sequence[float], others: Sequence[float]) -> float:
    """Two-sided p-value that two samples have the same mean, by the normal approximation with a common variance."""
    x, y = np.asarray(some, dtype=float), np.asarray(others, dtype=float)
    spread = float(np.concatenate([x, y]).std()) * sqrt(1 / len(x) + 1 / len(y))
    return 2 * NormalDist().cdf(-abs(float(x.mean() - y.mean())) / spread) if spread else 1.0


def _corrected_mean(y: Array, f: Array, rest: Array) -> tuple[float, float]:
    lambda_ = _slope(y, f) * len(rest) / (len(y) + len(rest))
    value = y.mean() + lambda_ * (rest.mean() - f.mean())
    # A single labelled item has no variance; for the interval, items are added to it.
    parts = [part for part in (y - lambda_ * f, lambda_ * rest) if len(part) > 1]
    return float(value), Z95 * sqrt(sum(part.var(ddof=1) / len(part) for part in parts))


def _slope(y: Array, f: Array) -> float:
    """Least-squares slope of y on f, clipped to [0, 1]; for a constant f, 1 if y is constant too, else 0."""
    if np.ptp(f) < FLOAT_TOL:
        return float(np.ptp(y) < FLOAT_TOL)
    centred = f - f.mean()
    return float(np.clip(centred @ (y - y.mean()) / (centred @ centred), 0, 1))


@dataclass(frozen=True, slots=True)
class RoganGladen:
    """The estimate, and the error rates of the judge that it corrects.

    Attributes:
        estimate: the share of right answers with its 95% interval, in [0, 1].
        raw: the share before it was clipped to [0, 1].
        sensitivity: the judge's mean verdict on answers that people call right.
        specificity: 1 minus its mean verdict on answers that they call wrong.
        right: the number of labelled answers that people call right.
        wrong: the number that they call wrong.
    """

    estimate: Estimate
    raw: float
    sensitivity: float
    specificity: float
    right: int
    wrong: int


def rogan_gladen(human: Sequence[float], judge: Sequence[float], scored: Sequence[float]) -> RoganGladen:
    """Correct the mean of a judge's verdicts for its sensitivity and specificity on labelled answers.

    `(mean(scored) + specificity - 1) / (sensitivity + specificity - 1)`, clipped to [0, 1]. It assumes that the judge
    errs on labelled answers as often as on scored ones, given what people say; the share of right answers may differ
    (label shift). `prediction_powered_mean` needs a random sample instead. Labels that were chosen by the judge's
    verdicts fit neither.

    Args:
        human: labels of n answers, 1 for right and 0 for wrong; both must occur.
        judge: the judge's verdicts on them in the same order, in [0, 1]; a mean of several verdicts may be fractional.
        scored: its verdicts on the answers of the score, in [0, 1]. Labelled answers may be among them: the interval is
            then too wide rather than too narrow.

    Returns:
        The estimate. Its interval is that of Lang and Reiczigel, extended to include the estimate: it adds z²
        verdicts to the scored ones, and a right and a wrong one to either kind of labelled answers, and shifts the
        centre. In simulations with 100 labels it contains the true share in at least 94% of runs
        (`tests/unit/extensions/calibration/test_rogan_gladen.py`).

    Raises:
        ValueError: one of the kinds of labels is missing, nothing is scored, a number is not allowed, the judge is no
            better than chance (sensitivity + specificity ≤ 1), or the interval lies beyond 0 or 1: then no share of
            right answers fits the error rates.

    Source: Rogan and Gladen (1978), "Estimating prevalence from the results of a screening test"; the interval: Lang
    and Reiczigel (2014), "Confidence limits for prevalence of disease adjusted for estimated sensitivity and
    specificity". For fractional verdicts p(1 - p) is an upper bound of their variance.

    >>> human, judge = [1] * 50 + [0] * 50, [1] * 45 + [0] * 5 + [1] * 10 + [0] * 40
    >>> corrected = rogan_gladen(human, judge, [1] * 60 + [0] * 40).estimate
    >>> [round(number, 3) for number in (corrected.value, corrected.low, corrected.high)]
    [0.571, 0.396, 0.743]
    """
    if len(human) != len(judge) or not {0, 1}.issuperset(human):
        raise ValueError("human must be 0 or 1, and have one label for each verdict of judge")
    if not all(0 <= verdict <= 1 for verdict in (*judge, *scored)):
        raise ValueError("a verdict is outside 0 … 1")
    on_right, on_wrong = (
        [verdict for label, verdict in zip(human, judge, strict=True) if label == kind] for kind in (1, 0)
    )
    if not (on_right and on_wrong and scored):
        raise ValueError(
            f"{len(on_right)} labelled answers are right and {len(on_wrong)} wrong, and both are needed"
            if scored
            else "no answer is scored"
        )
    p, sensitivity, specificity = fmean(scored), fmean(on_right), 1 - fmean(on_wrong)
    youden = sensitivity + specificity - 1
    if youden <= 0:
        raise ValueError(
            f"the judge is no better than chance: on the labelled answers its sensitivity is {sensitivity:.3f} and its "
            f"specificity {specificity:.3f}, which must be more than 1 together"
        )
    raw = (p + specificity - 1) / youden
    low, high = _interval(len(scored), p, len(on_right), sensitivity, len(on_wrong), specificity)
    if high <= 0 or low >= 1:
        raise ValueError(
            f"the judge errs differently on the scored answers: their mean verdict of {p:.3f} fits no share of right "
            f"ones with the sensitivity {sensitivity:.3f} and the specificity {specificity:.3f} of the labels"
        )
    value = min(1.0, max(0.0, raw))
    estimate = Estimate(value, min(value, max(0.0, low)), max(value, min(1.0, high)))
    return RoganGladen(estimate, raw, sensitivity, specificity, len(on_right), len(on_wrong))


def _interval(  # noqa: PLR0913, PLR0917 - three samples
    n: int, p: float, right: int, sensitivity: float, wrong: int, specificity: float
) -> tuple[float, float]:
    z2 = Z95**2
    p = (n * p + z2 / 2) / (n + z2)
    sensitivity = (right * sensitivity + 1) / (right + 2)
    specificity = (wrong * specificity + 1) / (wrong + 2)
    youden = sensitivity + specificity - 1
    if youden <= 0:
        # So few labels are right, or wrong, that they do not show that the judge is better than chance.
        return 0.0, 1.0
    centre = (p + specificity - 1) / youden
    of_sensitivity = sensitivity * (1 - sensitivity) / (right + 2)
    of_specificity = specificity * (1 - specificity) / (wrong + 2)
    variance = p * (1 - p) / (n + z2) + of_sensitivity * centre**2 + of_specificity * (1 - centre) ** 2
    shifted = centre + 2 * z2 * (of_sensitivity * centre - of_specificity * (1 - centre))
    margin = Z95 * sqrt(variance) / youden
    return shifted - margin, shifted + margin
