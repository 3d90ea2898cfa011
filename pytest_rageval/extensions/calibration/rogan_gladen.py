"""The share of right answers behind the verdicts of a judge that errs, from its error rates on labelled answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

from pytest_rageval.stats.intervals import Z95, Estimate


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
