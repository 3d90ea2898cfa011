"""`Verdict`: whether a score is within the bounds of its threshold, with the reason as text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, Final, Literal

from pytest_rageval.errors import Cause
from pytest_rageval.gate.comparison import Comparison
from pytest_rageval.gate.drop_types import DropTestResult
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.plural import counted, join_first
from pytest_rageval.scores import Outcome, Score
from pytest_rageval.stats.intervals import SCORE_TOLERANCE

if TYPE_CHECKING:
    from pytest_rageval.gate.ratio import RatioTestResult

__all__ = [
    "MIN_CLUSTERS",
    "WORST_FIRST",
    "Verdict",
    "drop_interval_text",
    "drop_text",
    "excluded_failures_warnings",
    "p_value_text",
    "unseen_drop_warnings",
    "verdict_on",
]

Status = Literal["pass", "inconclusive", "fail", "error"]

WORST_FIRST: Final[tuple[Status, ...]] = ("error", "fail", "inconclusive", "pass")

MAX_LISTED_IDS: Final = 10  # number of examples whose ids a text lists

MIN_CLUSTERS: Final = 20
"""With fewer clusters the test of a drop has little power, and its level is only approximate."""

MAX_LISTED_REASONS: Final = 3  # number of different reasons for a missing score that a text lists


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a threshold.

    Attributes:
        status: the status; with `inconclusive` the test passes.
        reason: the reason, in a sentence.
        warnings: warnings, which are shown even if the test passes.
        brief: the violated bounds of a failure, such as "0.593 < 0.85; drop 0.346 > 0.02"; else empty.
    """

    status: Status
    reason: str
    warnings: tuple[str, ...] = ()
    brief: str = ""


def verdict_on(  # noqa: PLR0913, PLR0917 - everything that a bound can be compared with
    score: Score,
    threshold: Threshold,
    comparison: Comparison | None = None,
    drop: DropTestResult | None = None,
    anchor: DropTestResult | None = None,
    ratio: "RatioTestResult | None" = None,
) -> Verdict:
    """Compare a score with the bounds of its threshold, in full precision; a mean on a bound passes.

    For `min` and `max`, examples on which the retriever failed count with the worst possible score: otherwise a
    retriever would improve by failing on the questions that it loses. Warnings report bounds that examples without a
    score could violate, bounds within the spread of repeated runs, and drops that `max_drop` could not detect among
    examples that cannot be compared.

    Args:
        score: the score of the threshold's slice.
        threshold: the threshold.
        comparison: the comparison with the baseline; None without a baseline, which passes with a warning.
        drop: the test of `max_drop`; None if it is not tested.
        anchor: the test of `max_total_drop`; None if it is not tested, or without an anchor, which passes with a
            warning.
        ratio: the comparison of `max_ratio` with the reference; None without it.

    Returns:
        `fail` if a bound is violated. `max_drop` and `max_total_drop` are violated by a drop that is larger and
        significant, or, with `strict`, by a drop that is not excluded; `max_ratio` by a ratio that is larger and
        significant. A drop or ratio that is larger than allowed and not significant is `inconclusive`, or `fail` with
        `inconclusive="fail"`.
    """
    verdict = _verdict_without_test_warnings(score, threshold, comparison, drop, anchor, ratio)
    warnings = list(verdict.warnings)
    if verdict.status != "fail":
        warnings += (text for _, text in _bounds_at_risk(score, threshold, "retriever", "run"))
    compared = [(threshold, comparison, drop, verdict.status)]
    if anchor is not None:
        total = threshold.total_drop_threshold(0)
        compared.append((total, anchor.comparison, anchor, _drop_verdict(score, total, anchor).status))
    for bounds, against, test, status in compared:
        if verdict.status != "fail":
            warnings += unseen_drop_warnings(score, bounds, against)
        if test is not None:
            warnings += _test_warnings(test, status)
        warnings += _spread_warnings(score, bounds, against)
        warnings += _repeat_warnings(score, against)
    return replace(verdict, warnings=tuple(warnings))


def _verdict_without_test_warnings(  # noqa: PLR0913, PLR0917 - as verdict_on
    score: Score,
    threshold: Threshold,
    comparison: Comparison | None,
    drop: DropTestResult | None,
    anchor: DropTestResult | None,
    ratio: "RatioTestResult | None",
) -> Verdict:
    violated = {}
    for keyword, bound, how, sign in _mean_bounds(threshold):
        if _is_violated(float(score), keyword, bound):
            mean_text = _format_against(score, bound)
            violated[keyword] = f"{mean_text} is {how} {bound:g}", f"{mean_text} {sign} {bound:g}"
    for keyword, text in _bounds_at_risk(score, threshold, "retriever"):
        violated.setdefault(keyword, (text, f"{keyword} is violated where the retriever failed"))
    if ratio is not None and threshold.max_ratio is not None:
        compared = _ratio_verdict(score, threshold, threshold.max_ratio, ratio)
    else:
        compared = _baseline_verdict(score, threshold, comparison, drop, anchor)
    if not violated:
        return compared
    if compared.status == "fail":
        violated["compared"] = compared.reason, compared.brief
    reasons, briefs = zip(*violated.values(), strict=True)
    return Verdict("fail", "; ".join(reasons), compared.warnings, "; ".join(briefs))


def _mean_bounds(threshold: Threshold) -> Iterator[tuple[str, float, str, str]]:
    """Yield `min` and `max` if they are set: the keyword, its value, and a description and sign of its violation."""
    if threshold.min is not None:
        yield "min", threshold.min, "below the minimum", "<"
    if threshold.max is not None:
        yield "max", threshold.max, "above the maximum", ">"


def _is_violated(mean: float, keyword: str, bound: float) -> bool:
    # The mean of n equal numbers can differ from them in the last bit; that is not a violation.
    return mean < bound - SCORE_TOLERANCE if keyword == "min" else mean > bound + SCORE_TOLERANCE


def excluded_failures_warnings(score: Score) -> Iterator[str]:
    """Yield a warning that the mean of a score without bounds excludes examples on which the retriever failed."""
    failed = score.lacking("retriever")
    if failed:
        mean = score.counting(score.reach[0], "retriever")
        yield f"{_excluded_text(score, failed)}; with {score.reach[0]:g} for each of them it would be {mean:.3f}"


def _bounds_at_risk(score: Score, threshold: Threshold, *causes: Cause) -> Iterator[tuple[str, str]]:
    """Yield the bounds that are violated if examples unscored for these causes count with the worst score.

    Each is a pair of the keyword and a description.
    """
    unscored = score.lacking(*causes)
    if not unscored:
        return
    for keyword, bound, how, _ in _mean_bounds(threshold):
        worst = score.reach[keyword == "max"]
        mean = score.counting(worst, *causes)
        if _is_violated(mean, keyword, bound):
            mean_text = _format_against(mean, bound)
            text = (
                f"{_excluded_text(score, unscored)}; with {worst:g} for each of them it would be {mean_text}"
            )
            yield keyword, f"{score:.3f} is {text}, {how} {bound:g}"


def _excluded_text(score: Score, unscored: Sequence[Outcome]) -> str:
    """Return a text that names the number of examples that the mean excludes, and the reasons."""
    some = "1 example that has" if len(unscored) == 1 else f"{len(unscored)} examples that have"
    return f"the {score.statistic.name} without {some} no score: {_reasons_text(unscored)}"


def _reasons_text(unscored: Sequence[Outcome]) -> str:
    """Return the reasons why examples have no score, the most frequent first, each with the ids of its examples."""
    reasons: dict[str, list[str]] = {}
    for outcome in unscored:
        reasons.setdefault(str(outcome.unscored), []).append(outcome.example.id)
    by_frequency = sorted(reasons.items(), key=lambda reason_and_ids: -len(reason_and_ids[1]))
    listed = [f"{reason} ({_ids_text(ids)})" for reason, ids in by_frequency[:MAX_LISTED_REASONS]]
    if len(by_frequency) > MAX_LISTED_REASONS:
        listed.append(f"{len(by_frequency) - MAX_LISTED_REASONS} more reasons")
    return ", ".join(listed)


def _ids_text(names: Sequence[str]) -> str:
    return join_first(names, MAX_LISTED_IDS)


def _baseline_verdict(
    score: Score,
    threshold: Threshold,
    comparison: Comparison | None,
    drop: DropTestResult | None,
    anchor: DropTestResult | None,
) -> Verdict:
    if not threshold.uses_baseline:
        return Verdict("pass", f"{score:.3f} is within bounds")
    if comparison is None:
        text = f"{score:.3f} has no baseline yet to compare with; --rageval-update-baseline writes one"
        if threshold.max_total_drop is not None:
            text += ", and with --rageval-pin-baseline pins it as the anchor of max_total_drop"
        return Verdict("pass", text, (text,))
    verdicts = [_drop_verdict(score, threshold, drop)] if drop is not None else []
    verdicts += [_lost_verdict(score, threshold, comparison)] if threshold.max_lost is not None else []
    verdicts += (
        [_total_drop_verdict(score, threshold, anchor)] if threshold.max_total_drop is not None else []
    )
    verdicts.sort(key=lambda verdict: WORST_FIRST.index(verdict.status))
    worst = verdicts[0].status
    # The reasons of bounds that pass are of interest only if all bounds pass.
    explaining = [verdict for verdict in verdicts if worst == "pass" or verdict.status != "pass"]
    return Verdict(
        worst,
        "; ".join(verdict.reason for verdict in explaining),
        tuple(warning for verdict in verdicts for warning in verdict.warnings),
        "; ".join(verdict.brief for verdict in verdicts if verdict.brief),
    )


def _ratio_verdict(score: Score, threshold: Threshold, allowed: float, test: "RatioTestResult") -> Verdict:
    ratio = _format_against(test.ratio, allowed)
    interval = "" if test.interval is None else " [{:.3f}, {:.3f}]".format(*test.interval)
    text = f"{score:.3g} s is {ratio} times the reference's {test.reference:.3g} s{interval}, allowed {allowed:g}"
    if test.ratio <= allowed + SCORE_TOLERANCE:
        return Verdict("pass", text)
    brief = f"{ratio} times the reference > {allowed:g}"
    if test.interval is not None and test.interval[0] > allowed:
        return Verdict("fail", f"{text}: significantly more, as the whole 95% interval is above", brief=brief)
    why = (
        "the 95% interval is not wholly above"
        if test.interval is not None
        else f"{counted(test.n, 'example')} are too few to show it, at least {test.min_examples} are needed"
    )
    text += f": not significantly more, as {why}"
    if threshold.inconclusive == "fail":
        return Verdict("fail", f"{text}; inconclusive is set to fail", brief=brief)
    return Verdict("inconclusive", text, (text,))


def _lost_verdict(score: Score, threshold: Threshold, comparison: Comparison) -> Verdict:
    tolerance = threshold.tolerance + SCORE_TOLERANCE
    lost = [pair.outcome.example.id for pair in comparison.worse if pair.drop > tolerance]
    by = f" by more than {threshold.tolerance:g}" if threshold.tolerance else ""
    text = (
        f"{score:.3f}: {len(lost)} of {counted(comparison.n, 'example')} score less than in the "
        f"baseline{by}, allowed {threshold.max_lost}"
    )
    if len(lost) <= (threshold.max_lost or 0):
        return Verdict("pass", text)
    return Verdict("fail", f"{text}: {_ids_text(lost)}", brief=f"lost {len(lost)} > {threshold.max_lost}")


def _total_drop_verdict(score: Score, threshold: Threshold, anchor: DropTestResult | None) -> Verdict:
    if anchor is None:
        text = (
            f"{score:.3f} has no anchor yet for max_total_drop to compare with; on the commit to compare with, "
            "--rageval-update-baseline --rageval-pin-baseline pins one"
        )
        return Verdict("pass", text, (text,))
    verdict = _drop_verdict(score, threshold.total_drop_threshold(0), anchor)
    if verdict.status == "pass":
        return verdict
    remedy = (
        "; the git log of the baseline shows which updates lowered it: fix what they broke, or accept it as the "
        "new anchor by --rageval-update-baseline --rageval-pin-baseline"
    )
    return replace(
        verdict,
        reason=verdict.reason + remedy,
        warnings=tuple(text + remedy for text in verdict.warnings),
        brief=verdict.brief and f"since the anchor {verdict.brief}",
    )


def _drop_verdict(score: Score, threshold: Threshold, drop: DropTestResult) -> Verdict:
    max_drop = threshold.max_drop or 0.0
    text = f"{drop_text(score, drop, max_drop)}, allowed {max_drop:g}"
    larger = f"a drop of more than {max_drop:g}"
    if threshold.strict:
        excluded = "excluded" if drop.significant else "not excluded"
        text += f": a drop of {max_drop:g} is {excluded} ({p_value_text(drop)})"
        if drop.significant:
            return Verdict("pass", text)
        return Verdict(
            "fail", f"{text}{_power_text(score, drop)}", brief=f"drop of {max_drop:g} not excluded"
        )
    if drop.comparison.drop <= max_drop + SCORE_TOLERANCE:
        return Verdict("pass", text)
    brief = f"drop {_format_against(drop.comparison.drop, max_drop)} > {max_drop:g}"
    # If the whole interval, which agrees with the test, is above `max_drop`, a drop of more than that is significant.
    if drop.significant and (drop.beyond or drop.interval[0] >= max_drop):
        text += f": {larger} is significant ({p_value_text(drop)})"
    elif drop.significant:
        text += f": a drop is significant ({p_value_text(drop)}), one of more than {max_drop:g} is not"
    if drop.significant:
        return Verdict("fail", text, brief=brief)
    tested = larger if drop.beyond else "a drop"
    text += f": {tested} is not significant ({p_value_text(drop)}){_power_text(score, drop)}"
    if threshold.inconclusive == "fail":
        return Verdict("fail", f"{text}; inconclusive is set to fail", brief=brief)
    return Verdict("inconclusive", text, (text,))


def _spread_warnings(score: Score, threshold: Threshold, comparison: Comparison | None) -> Iterator[str]:
    """Yield warnings about bounds that are closer to the mean over repeated runs than its standard error."""
    runs = len(score.repeats) + 1
    standard_error = (score.spread or 0.0) / sqrt(runs)
    bounds = [
        (f"{keyword} {bound:g}", bound, float(score)) for keyword, bound, _, _ in _mean_bounds(threshold)
    ]
    if threshold.max_drop is not None and comparison is not None:
        keyword = "max_drop" if comparison.before.pin is None else "max_total_drop"
        bound = comparison.mean - threshold.max_drop
        bounds.append((f"{keyword} ({bound:.3f})", bound, comparison.mean - comparison.drop))
    for name, bound, mean in bounds:
        if abs(mean - bound) < standard_error:
            yield (
                f"{name} is {abs(mean - bound):.3f} from {mean:.3f}, and means of {runs} runs differ by "
                f"{standard_error:.3f}: the next one may be on the other side"
            )


def _repeat_warnings(score: Score, comparison: Comparison | None) -> Iterator[str]:
    """Yield a warning if the baseline's scores are means over another number of runs than the score's."""
    if comparison is None or (runs := len(score.repeats) + 1) == (old_runs := comparison.before.runs):
        return
    kind = comparison.before.kind
    text = (
        f"the {kind}'s scores are of {old_runs} run{'s' * (old_runs != 1)} and these of {runs} "
        f"run{'s' * (runs != 1)}"
    )
    if old_runs < runs:
        yield (
            f"{text}: the {kind} is the noisier side; write it on the commit to compare with: "
            f"{comparison.before.options} --rageval-repeat {runs}"
        )
    else:
        yield f"{text}: this run is the noisier side; run with --rageval-repeat {old_runs}"


def unseen_drop_warnings(
    score: Score, threshold: Threshold, comparison: Comparison | None, *, not_evaluated: int = 0
) -> Iterator[str]:
    """Yield a warning if examples that cannot be compared may hide a larger drop, or more losses, than is allowed.

    Args:
        score: the score.
        threshold: the threshold.
        comparison: the comparison with the baseline or anchor; None yields nothing.
        not_evaluated: number of examples that early stop did not evaluate.
    """
    if comparison is None:
        return
    new, lost = comparison.new, [outcome.example.id for outcome in comparison.lost]
    lowest, highest = score.reach
    unseen = new + len(lost)
    total = comparison.n + not_evaluated + unseen
    drop_is_seen = (
        threshold.max_drop is None
        or unseen * (highest - lowest) <= threshold.max_drop * total + SCORE_TOLERANCE
    )
    if drop_is_seen and (threshold.max_lost is None or len(lost) <= threshold.max_lost):
        return
    kind = comparison.before.kind
    since = "" if comparison.before.pin is None else f" since the {kind}"
    text = f"a drop{since} among {unseen} of {counted(total, 'example')} would not be seen"
    if lost:
        text += f"; {len(lost)} had a score in the {kind} and have none now: {_ids_text(lost)}"
    if new:
        text += (
            f"; {new} {'has' if new == 1 else 'have'} no score in the {kind} (new, edited, or unscored then): write "
            f"the {kind} again on the commit to compare with, {comparison.before.options}"
        )
    yield text


def _test_warnings(drop: DropTestResult, status: Status) -> Iterator[str]:
    """Yield warnings about the power and the assumptions of the test of a drop."""
    n = drop.comparison.n
    units, what = (n, "example") if drop.n_clusters is None else (drop.n_clusters, "cluster")
    if status == "pass" and drop.min_examples is not None and units < drop.min_examples:
        p_value = 0.5 ** (units + 1)
        since = "" if drop.comparison.before.pin is None else " since the anchor"
        yield (
            f"{counted(units, what)}{' of examples' if what == 'cluster' else ''} cannot show a drop, even if "
            f"{'it gets' if units == 1 else 'all of them get'} worse{since} "
            f"(p = {p_value:.2g} > {drop.alpha:.2g}); at least {drop.min_examples} are needed"
        )
    elif drop.n_clusters is not None and drop.n_clusters < MIN_CLUSTERS:
        clusters = counted(drop.n_clusters, "cluster")
        yield f"the {counted(n, 'example')} lie in {clusters}; a drop is shown reliably with {MIN_CLUSTERS} or more"
    if drop.needs_symmetry and status == "fail":
        yield (
            "the losses are many and small, or the gains few and large: with such differences this test raises more "
            "false alarms than alpha, with 60 examples or more it does not"
        )
    if not drop.settled and status == "inconclusive":
        yield "the p-value is too close to alpha for 1,000,000 random draws, and counts as not significant"


def drop_text(score: Score, drop: DropTestResult, max_drop: float) -> str:
    """Return the drop with its interval and the baseline's mean, as text.

    It is such as "0.593: drop 0.346 (95% interval 0.252 to 0.437) from the anchor's 0.940 (pinned at 1a2b3c4, 7 updates
    ago)". If the comparison excludes examples, or counts some with the worst value, their numbers follow.
    """
    comparison = drop.comparison
    old_mean, mean_drop = comparison.mean, comparison.drop
    mean = old_mean - mean_drop
    over = "without those" if comparison.failed else "over all"
    whole = "" if abs(mean - score) <= SCORE_TOLERANCE else f" ({score:.3f} {over})"
    is_larger = mean_drop > max_drop + SCORE_TOLERANCE
    by = _format_against(mean_drop, max_drop) if is_larger else _format(mean_drop)
    pin = comparison.before.pin
    old = f"the {comparison.before.kind}'s {old_mean:.3f}{'' if pin is None else f' ({pin})'}"
    interval = drop_interval_text(*drop.interval, drop.alpha)
    return f"{mean:.3f}{whole}: drop {by} ({interval}) from {old}{_examples_text(comparison)}"


def drop_interval_text(low: float, high: float, alpha: float) -> str:
    """Return an interval with its level, such as "95% interval 0.252 to 0.437".

    Each bound is that of a one-sided test at the level `alpha`, so the interval's level is 1 - 2·alpha.
    """
    return f"{100 * (1 - 2 * alpha):.4g}% interval {_format(low)} to {_format(high)}"


def _format(number: float) -> str:
    """Format a number with three decimals, and a rounded zero without its sign."""
    return f"{round(number, 3) + 0.0:.3f}"


def _examples_text(comparison: Comparison) -> str:
    """Return the numbers of examples that are excluded or count with the worst value; empty if there are none."""
    parts = []
    if failed := comparison.failed:
        lowest = failed[0].value
        parts.append(
            f"{len(failed)} have no score, since the retriever failed, and count as {lowest:g}: {_reasons_text(failed)}"
        )
    if comparison.left_out:
        parts.append(f"{comparison.left_out} new, edited or removed since the {comparison.before.kind}")
    if comparison.unscored:
        parts.append(f"{comparison.unscored} unscored now or before")
    n = comparison.n
    return f" over {counted(n, 'example')} ({', '.join(parts)})" if parts else ""


def _power_text(score: Score, drop: DropTestResult) -> str:
    """Return which drop this number of examples can detect, and how many are needed, as text; empty if unknown."""
    n, detectable, needed = drop.comparison.n, drop.detectable_drop, drop.examples_needed
    parts = []
    if detectable is not None and detectable <= drop.comparison.mean - score.reach[0]:
        parts.append(
            f"{n} {'example shows' if n == 1 else 'examples show'} a drop of {detectable:.3f} at 80% power"
        )
    elif detectable is not None:
        parts.append(
            f"{n} {'example is' if n == 1 else 'examples are'} too few to show any drop at 80% power"
        )
    if needed is not None and needed > n:
        parts.append(f"about {needed:,} are needed")
    return "".join(f"; {part}" for part in parts)


def p_value_text(drop: DropTestResult) -> str:
    """Return the p-value and the level as text, with as many digits as are needed to distinguish them."""
    sign = "≤" if drop.significant else ">"
    texts = ((f"{drop.p_value:.{digits}g}", f"{drop.alpha:.{digits}g}") for digits in range(2, 9))
    different = (pair for pair in texts if pair[0] != pair[1])
    p_value, alpha = next(different, (drop.p_value, drop.alpha))
    return f"p = {p_value} {sign} {alpha}"


def _format_against(number: float, bound: float) -> str:
    """Format a number with three decimals, or as many as are needed to show on which side of the bound it is."""
    texts = (f"{number:.{digits}f}" for digits in range(3, 12))
    return next((text for text in texts if (number - bound) * (float(text) - bound) > 0), f"{number:.12f}")
