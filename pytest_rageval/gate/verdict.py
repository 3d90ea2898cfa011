"""`Verdict`: whether a score is within the bounds of its threshold, with the reason as text."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, Final, Literal

from pytest_rageval.core.errors import Cause
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.gate.comparison import BaselineScore, Comparison, QuestionChanges
from pytest_rageval.gate.drop_types import DropTestResult
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.lib.plural import counted, join_first
from pytest_rageval.stats.intervals import SCORE_TOLERANCE

if TYPE_CHECKING:
    from pytest_rageval.gate.ratio import RatioTestResult

Status = Literal["pass", "inconclusive", "fail", "error"]

WORST_FIRST: Final[tuple[Status, ...]] = ("error", "fail", "inconclusive", "pass")

MAX_LISTED_IDS: Final = 10  # number of examples whose ids a text lists

MIN_CLUSTERS: Final = 20
"""With fewer clusters the test of a drop has little power, and its level is only approximate."""

LIKELY: Final = 0.2
"""A larger p-value is no evidence of a drop; its frequency is not printed."""

RARE: Final = 0.001
"""A smaller p-value is not printed more precisely."""

MIN_CHANGED: Final = 5  # with fewer changed questions the number of needed questions is a guess

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
    retriever would improve by failing on the questions that it loses. Examples without a score for another reason are
    left out; but if the threshold would fail with the worst score for them, it does not pass. Warnings report bounds
    within the spread of repeated runs, and drops that `max_drop` could not detect among examples that cannot be
    compared.

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
        significant. `inconclusive`, or `fail` with `inconclusive="fail"`, if a drop or ratio is larger than allowed
        and not significant, or if a bound would be violated with the worst score for examples without one.
    """
    verdict = _verdict_without_test_warnings(score, threshold, comparison, drop, anchor, ratio)
    warnings = list(verdict.warnings)
    compared = [(threshold, comparison, drop, verdict.status)]
    if anchor is not None:
        total = threshold.total_drop_threshold(0)
        compared.append((total, anchor.comparison, anchor, _drop_verdict(score, total, anchor).status))
    for bounds, against, test, status in compared:
        if verdict.status != "fail" and against is not None:
            # What an inconclusive verdict says of lost examples is not repeated.
            seen = replace(against, lost=()) if status == "inconclusive" else against
            warnings += _unseen_drop_warnings(score, bounds, seen)
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
    at_risk = [text for _, text in _bounds_at_risk(score, threshold, "retriever", "run")]
    if ratio is not None and threshold.max_ratio is not None:
        compared = _ratio_verdict(score, threshold, threshold.max_ratio, ratio)
    else:
        compared = _baseline_verdict(score, threshold, comparison, drop, anchor)
    if not violated:
        unclear = [_inconclusive(threshold, text, "a bound is at risk") for text in at_risk]
        return _worst_of([*unclear, compared])
    if compared.status == "fail":
        violated["compared"] = compared.reason, compared.brief
    reasons, briefs = zip(*violated.values(), strict=True)
    if compared.status == "fail" and _names_minimum(score, threshold, drop):
        reasons = tuple(reason for keyword, (reason, _) in violated.items() if keyword != "min")
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
        reasons.setdefault(str(outcome.unscored or outcome.undefined), []).append(outcome.example.id)
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
    return _worst_of(verdicts)


def _worst_of(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on several bounds: the worst one, with the reasons of all bounds that do not pass."""
    ordered = sorted(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.status))
    worst = ordered[0].status
    # The reasons of bounds that pass are of interest only if all bounds pass.
    explaining = [verdict for verdict in ordered if worst == "pass" or verdict.status != "pass"]
    return Verdict(
        worst,
        "; ".join(verdict.reason for verdict in explaining),
        tuple(warning for verdict in ordered for warning in verdict.warnings),
        "; ".join(verdict.brief for verdict in ordered if verdict.brief),
    )


def _inconclusive(threshold: Threshold, text: str, brief: str) -> Verdict:
    """Return the verdict on a bound that the data cannot decide."""
    if threshold.inconclusive == "fail":
        return Verdict("fail", f"{text}; inconclusive is set to fail", brief=brief)
    return Verdict("inconclusive", text, (text,))


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
    return _inconclusive(threshold, f"{text}: not significantly more, as {why}", brief)


def _lost_verdict(score: Score, threshold: Threshold, comparison: Comparison) -> Verdict:
    lost, allowed = _losses(threshold, comparison), threshold.max_lost or 0
    by = f" by more than {threshold.tolerance:g}" if threshold.tolerance else ""
    text = (
        f"{score:.3f}: {len(lost)} of {counted(comparison.n, 'example')} score less than in the "
        f"baseline{by}, allowed {allowed}"
    )
    if len(lost) > allowed:
        return Verdict("fail", f"{text}: {_ids_text(lost)}", brief=f"lost {len(lost)} > {allowed}")
    if (most := len(_losses(threshold, comparison.with_lost))) > allowed:
        text = f"{text}; {_lost_text(comparison)} it would be {most}"
        return _inconclusive(threshold, text, f"lost {most} > {allowed} with those that have no score")
    return Verdict("pass", text)


def _losses(threshold: Threshold, comparison: Comparison) -> list[str]:
    """Return the ids of the examples that count for `max_lost`."""
    tolerance = threshold.tolerance + SCORE_TOLERANCE
    return [pair.outcome.example.id for pair in comparison.worse if pair.drop > tolerance]


def blind_text(
    score: Score,
    threshold: Threshold,
    comparison: Comparison,
    drop: DropTestResult | None = None,
    anchor: DropTestResult | None = None,
) -> str:
    """Return why the threshold could not fail, even if all examples had the lowest score; empty if it could.

    Then there are too few examples, or too few with more than the lowest score in the baseline. A threshold with a
    `min` above the lowest score can fail.

    Args:
        score: the score of the threshold's slice.
        threshold: the threshold, which has a bound that compares with the baseline.
        comparison: the comparison with the baseline.
        drop: the test of `max_drop`; None if it is not tested.
        anchor: the test of `max_total_drop`; None if it is not tested.
    """
    if threshold.min is not None and _is_violated(comparison.lowest, "min", threshold.min):
        return ""
    texts = []
    if threshold.max_lost is not None:
        losable = len(_losses(threshold, comparison.all_wrong))
        if losable > threshold.max_lost:
            return ""
        texts.append(f"max_lost={threshold.max_lost}: only {losable} could score less")
    tests = [
        ("max_drop", threshold, drop),
        ("max_total_drop", threshold.total_drop_threshold(0), anchor),
    ]
    for keyword, bounds, test in tests:
        if test is not None:
            if not (text := _blind_drop_text(score, bounds, test)):
                return ""
            texts.append(f"{keyword}={bounds.max_drop:g}: {text}")
    if not texts:
        return ""
    return (
        f"it could not fail, even if all of {counted(comparison.n, 'example')} had the score {comparison.lowest:g} "
        f"({'; '.join(texts)}). Add questions, and write the baseline again; or give a bound that needs no test of "
        'significance: min, max_lost=0, or inconclusive="fail"'
    )


def _blind_drop_text(score: Score, threshold: Threshold, drop: DropTestResult) -> str:
    """Return why a drop could not fail; empty if it could."""
    max_drop, all_wrong = threshold.max_drop or 0.0, drop.all_wrong
    largest = drop.comparison.mean - drop.comparison.lowest
    if largest <= max_drop + SCORE_TOLERANCE:
        return f"the drop from the {drop.comparison.before.kind} would be {_format(largest)}"
    if all_wrong is None or _known_drop_verdict(score, threshold, all_wrong).status == "fail":
        return ""
    units, what = _units(all_wrong)
    needed = all_wrong.min_examples or 0
    least = f", at least {needed} {what}s are needed" if units < needed else ""
    return f"{counted(units, what)} would not be significant, {p_value_text(all_wrong)}{least}"


def _units(drop: DropTestResult) -> tuple[int, str]:
    """Return the number of independent units of a test, and what they are: examples, or clusters of examples."""
    return (drop.comparison.n, "example") if drop.n_clusters is None else (drop.n_clusters, "cluster")


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
    """Return the verdict on a drop, which does not pass if it would fail in the worst case of what is unscored now."""
    verdict = _known_drop_verdict(score, threshold, drop)
    if verdict.status == "fail" or drop.with_lost is None:
        return verdict
    worst = _known_drop_verdict(score, threshold, drop.with_lost)
    if worst.status != "fail":
        return verdict
    lost_drop, max_drop = _format(drop.with_lost.comparison.drop), threshold.max_drop or 0.0
    with_lost = f"the drop would be {lost_drop} ({p_value_text(drop.with_lost)})"
    text = f"{verdict.reason}; {_lost_text(drop.comparison)} {with_lost}"
    brief = f"drop {lost_drop} > {max_drop:g} with those that have no score"
    return Verdict("fail", text, brief=brief) if threshold.strict else _inconclusive(threshold, text, brief)


def _lost_text(comparison: Comparison) -> str:
    lost = comparison.lost
    return (
        f"{counted(len(lost), 'example')} had a score in the {comparison.before.kind} and "
        f"{'has' if len(lost) == 1 else 'have'} none now: {_reasons_text(lost)}; with {comparison.lowest:g} for each"
    )


def _known_drop_verdict(score: Score, threshold: Threshold, drop: DropTestResult) -> Verdict:
    max_drop = threshold.max_drop or 0.0
    minimum = threshold.min if _names_minimum(score, threshold, drop) else None
    text = change_text(score, drop, max_drop, minimum=minimum)
    if threshold.strict:
        if drop.significant:
            return Verdict("pass", f"{text}. A drop of {max_drop:g} is excluded")
        reason = f"{text}. A drop of {max_drop:g} is not excluded{_power_text(score, drop, strict=True)}"
        return Verdict("fail", reason, brief=f"drop of {max_drop:g} not excluded")
    if drop.comparison.drop <= max_drop + SCORE_TOLERANCE:
        return Verdict("pass", text)
    brief = f"drop {_format_against(drop.comparison.drop, max_drop)} > {max_drop:g}"
    if drop.significant:
        return Verdict("fail", f"{text}. {chance_text(drop)}", brief=brief)
    worse = _ids_text([pair.outcome.example.id for pair in drop.comparison.worse])
    text = change_text(score, drop, max_drop, minimum=minimum, worse=worse)
    reason = f"unsure: {text}. {chance_text(drop)}{_power_text(score, drop)}"
    return _inconclusive(threshold, reason, brief)


def _names_minimum(score: Score, threshold: Threshold, drop: DropTestResult | None) -> bool:
    """Whether the sentence on a drop also says that the mean is below `min`."""
    return (
        drop is not None
        and threshold.min is not None
        and drop.comparison.before.pin is None
        and _is_violated(float(score), "min", threshold.min)
    )


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
    """Yield a warning if the baseline's scores are means over fewer runs than the score's; more are no problem."""
    runs = len(score.repeats) + 1
    if comparison is None or runs <= comparison.before.runs or runs <= comparison.before.fewest_runs:
        return
    kind, old_runs = comparison.before.kind, comparison.before.fewest_runs
    yield (
        f"the {kind}'s scores are of {counted(old_runs, 'run')} and these of {counted(runs, 'run')}: the {kind} is "
        f"the noisier side; write it on the commit to compare with: {comparison.before.options} --rageval-repeat {runs}"
    )


def early_pass(
    score: Score, threshold: Threshold, comparison: Comparison, reason: str, *, not_evaluated: int
) -> Verdict:
    """Return the verdict of an evaluation that stopped early and passes.

    Args:
        score: the score of the examples that are known.
        threshold: the threshold, whose only bound is `max_drop`.
        comparison: the comparison of these examples with the baseline.
        reason: why the evaluation stopped.
        not_evaluated: number of examples that can be compared and were not evaluated.
    """
    lowest, highest = score.reach
    lost_drop = (
        len(comparison.lost) * (highest - lowest) / (comparison.n + not_evaluated + len(comparison.lost))
    )
    if lost_drop > (threshold.max_drop or 0.0) + SCORE_TOLERANCE:
        text = f"{reason}; {_lost_text(comparison)} the drop could be larger by {lost_drop:.3f}"
        return _inconclusive(threshold, text, "drop unknown with those that have no score")
    warnings = _unseen_drop_warnings(score, threshold, comparison, not_evaluated=not_evaluated)
    return Verdict("pass", reason, tuple(warnings))


def _unseen_drop_warnings(
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
    new, lost = comparison.unmatched, [outcome.example.id for outcome in comparison.lost]
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


def removal_text(before: BaselineScore, changes: QuestionChanges, max_removed: float) -> str:
    """Return that more of the baseline's questions are gone than is allowed, with the remedy; empty if they are not.

    Args:
        before: the score in the baseline or its anchor.
        changes: the questions of the whole eval set that are not compared.
        max_removed: the largest allowed share of removed and edited questions.
    """
    gone = len(changes.gone)
    if gone <= max_removed * changes.before + SCORE_TOLERANCE:
        return ""
    listed = [
        f"{len(names)} {what} ({_ids_text(names)})"
        for what, names in (("removed", changes.removed), ("edited", changes.edited))
        if names
    ]
    return (
        f"{gone} of {counted(changes.before, 'question')} of the {before.kind} cannot be compared, more than the share "
        f"of {max_removed:.4g} that rageval_max_removed allows: {', '.join(listed)}. Restore them; or, if the eval set "
        f"is meant to change, write the {before.kind} of the new one with the retriever of the commit to compare with: "
        f"{before.options}"
    )


def _test_warnings(drop: DropTestResult, status: Status) -> Iterator[str]:
    """Yield warnings about the power and the assumptions of the test of a drop."""
    n = drop.comparison.n
    units, what = _units(drop)
    if status == "pass" and drop.all_wrong is not None and not drop.all_wrong.significant:
        since = "" if drop.comparison.before.pin is None else " since the anchor"
        needed = drop.min_examples or 0
        yield (
            f"{counted(units, what)}{' of examples' if what == 'cluster' else ''} cannot show a drop, even if "
            f"{'it gets' if units == 1 else 'all of them get'} the lowest score{since} "
            f"({p_value_text(drop.all_wrong)}){f'; at least {needed} are needed' if units < needed else ''}"
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


def change_text(
    score: Score,
    drop: DropTestResult,
    max_drop: float | None = None,
    *,
    minimum: float | None = None,
    worse: str = "",
) -> str:
    """Return a change as text: "fell from 0.940 to 0.593 (allowed 0.02): 32 of 91 questions worse, 0 better".

    If the comparison excludes examples, or counts some with the worst value, their numbers follow.

    Args:
        score: the score.
        drop: the test of its change.
        max_drop: the allowed drop; None if nothing is allowed or forbidden.
        minimum: the minimum that the score violates; None if it violates none.
        worse: the ids of the questions that got worse; empty to leave them out.
    """
    comparison = drop.comparison
    old, change = comparison.mean, comparison.drop
    bound = max_drop if max_drop is not None and change > max_drop + SCORE_TOLERANCE else 0.0
    # As many digits as are needed to show the change, and that it is larger than allowed.
    for digits in range(3, 12):
        then, now = f"{old:.{digits}f}", f"{old - change:.{digits}f}"
        if not change or abs(round(float(then) - float(now), digits)) > bound:
            break
    pin = comparison.before.pin
    then = then if pin is None else f"the anchor's {then} ({pin})"
    text = f"{'fell' if change > 0 else 'rose'} from {then} to {now}" if change else f"is {now} as before"
    if change == 0 and pin is not None:
        text = f"is {then}, as {comparison.before.kind}ed"
    if abs(old - change - score) > SCORE_TOLERANCE:
        text += f", {score:.3f} {'without those' if comparison.failed else 'over all'}"
    limits = [] if max_drop is None else [f"allowed {max_drop:g}"]
    limits += [] if minimum is None else [f"minimum {minimum:g}"]
    text += f" ({'; '.join(limits)})" if limits else ""
    n_worse, n_better = len(comparison.worse), len(comparison.better)
    counts = f"{n_worse} of {counted(comparison.n, 'question')} worse, {n_better} better"
    return f"{text}: {counts}{worse and f': {worse}'}{_examples_text(comparison)}"


def chance_text(drop: DropTestResult) -> str:
    """Return how often chance alone gives such a drop: "Chance alone: about 1 in 60 comparisons".

    A drop beyond `max_drop` is compared with chance at a true drop of `max_drop`. If the drop is not significant, the
    text also says how rare it would have to be.
    """
    given = f"With a true drop of {drop.beyond:g}, chance alone" if drop.beyond else "Chance alone"
    if drop.p_value > LIKELY:
        return f"{given} often does that"
    if drop.significant and drop.p_value < RARE:
        return f"{given}: fewer than 1 in {round(1 / RARE):,} comparisons"
    # As many digits as are needed to distinguish the p-value from the level.
    for digits in range(2, 9):
        often, limit = (_round_digits(1 / p, digits) for p in (drop.p_value, drop.alpha))
        if often != limit:
            break
    fails = "" if drop.significant else f"; from 1 in {limit:,} on it would be a failure"
    return f"{given}: about 1 in {often:,} comparisons{fails}"


def _round_digits(number: float, digits: int) -> float:
    """Round to significant digits; a whole number is an int.

    >>> _round_digits(16.2, 2), _round_digits(1420, 2), _round_digits(1.25, 2)
    (16, 1400, 1.2)
    """
    rounded = float(f"{number:.{digits}g}")
    return int(rounded) if rounded.is_integer() else rounded


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
    if comparison.changes:
        parts.append(f"{comparison.changes} since the {comparison.before.kind}")
    if comparison.unscored:
        parts.append(f"{comparison.unscored} unscored now or before")
    return f" ({'; '.join(parts)})" if parts else ""


def _power_text(score: Score, drop: DropTestResult, *, strict: bool = False) -> str:
    """Return which drop this number of questions can show, and how many are needed, as text; empty if unknown."""
    comparison, detectable, needed = drop.comparison, drop.detectable_drop, drop.examples_needed
    parts = []
    if detectable is not None and detectable <= comparison.mean - score.reach[0]:
        questions = counted(comparison.n, "question")
        parts.append(f"With {questions} only drops above about {detectable:.2g} are found reliably")
    elif detectable is not None:
        parts.append(f"{counted(comparison.n, 'question')} cannot show any drop reliably")
    changed = sum(1 for _ in comparison.changed_pairs)
    # From a few changed questions their number would be a false precision.
    if needed is not None and needed > comparison.n and (strict or changed >= MIN_CHANGED):
        what = "exclude it" if strict else "show a drop of this size"
        parts.append(f"About {_round_digits(needed, 1):,} questions would {what}")
    return "".join(f". {part}" for part in parts)


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
