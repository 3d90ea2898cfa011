"""The verdicts on bounds that compare a score with another one: with the baseline, its anchor, or the reference."""

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt
from statistics import NormalDist
from typing import Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.outcome import REFERENCE_LATENCY, Score
from pytest_rageval.core.policy import SMALL_SET
from pytest_rageval.gate.comparison import Comparison
from pytest_rageval.gate.drop_tests import MIN_CLUSTERS, DropTestResult
from pytest_rageval.gate.sentences import (
    chance_text,
    change_text,
    format_number,
    ids_text,
    lost_text,
    odds,
    power_text,
)
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import (
    Measured,
    RatioTestResult,
    Status,
    Verdict,
    format_against,
    inconclusive,
    is_violated,
    mean_bounds,
    worst_of,
)
from pytest_rageval.lib.text import counted
from pytest_rageval.stats.intervals import SCORE_TOLERANCE, Quantile

MIN_REPEATS: Final = 3  # with fewer, on either side, no single question is significant


def baseline_verdict(measured: Measured, threshold: Threshold, comparison: Comparison) -> Verdict:
    score, drop = measured.score, measured.drop
    verdicts = [_drop_verdict(measured, threshold, drop)] if drop is not None else []
    verdicts += [_lost_verdict(score, threshold, comparison)] if threshold.max_lost is not None else []
    verdicts += [*_repeats_verdicts(score, threshold, drop)] if drop is not None else []
    if threshold.max_total_drop is not None:
        verdicts.append(_total_drop_verdict(measured, threshold, measured.anchor))
    return worst_of(verdicts)


def comparison_warnings(measured: Measured, threshold: Threshold, verdict: Verdict) -> Iterator[str]:
    """Yield warnings about the comparisons, and about bounds within the spread of repeated runs."""
    score, _, drop, anchor, _, _ = measured
    compared = [(threshold, measured.comparison, drop, verdict.status)]
    if anchor is not None:
        total = threshold.total_drop_threshold(0)
        compared.append((total, anchor.comparison, anchor, _drop_verdict(measured, total, anchor).status))
    for bounds, against, test, status in compared:
        if verdict.status != "fail" and against is not None:
            # What an inconclusive verdict says of lost examples is not repeated.
            seen = replace(against, lost=()) if status == "inconclusive" else against
            yield from unseen_drop_warnings(score, bounds, seen)
        if test is not None:
            is_small_set = _small_set_drop(measured, threshold, test) is not None
            yield from _test_warnings(test, status, is_small_set=is_small_set)
        yield from _spread_warnings(score, bounds, against)
        yield from _repeat_warnings(score, against)


def _lost_verdict(score: Score, threshold: Threshold, comparison: Comparison) -> Verdict:
    lost, allowed = _losses(threshold, comparison), threshold.max_lost or 0
    by = f" by more than {threshold.policy.tolerance:g}" if threshold.policy.tolerance else ""
    text = (
        f"{score:.3f}: {len(lost)} of {counted(comparison.n, 'question')} worse than in the baseline{by} "
        f"(allowed {allowed})"
    )
    if len(lost) > allowed:
        return Verdict("fail", f"{text}: {ids_text(lost)}", brief=f"lost {len(lost)} > {allowed}")
    if (most := len(_losses(threshold, comparison.with_lost))) > allowed:
        text = f"{text}; {lost_text(comparison)} it would be {most}"
        return inconclusive(threshold, text, f"lost {most} > {allowed} with those that have no score")
    return Verdict("pass", text)


def _losses(threshold: Threshold, comparison: Comparison) -> list[str]:
    """Return the ids of the examples that count for `max_lost`."""
    tolerance = threshold.policy.tolerance + SCORE_TOLERANCE
    return [pair.outcome.example.id for pair in comparison.worse if pair.drop > tolerance]


def _repeats_verdicts(score: Score, threshold: Threshold, drop: DropTestResult) -> Iterator[Verdict]:
    """Yield a failure if single questions got surely worse, from their repeats in both runs; whatever the mean is.

    Only scores of 0 and 1 have counts of repeats that were right.
    """
    runs, before = len(score.repeats) + 1, drop.comparison.before
    if runs < MIN_REPEATS or threshold.policy.strict or before.pin is not None:
        return
    if any(outcome.value not in {0.0, 1.0, None} for run in score.repeats for outcome in run):
        return
    from pytest_rageval.stats.mcnemar import Counts, surely_worse  # noqa: PLC0415 - few runs have repeats

    counts: dict[str, Counts] = {}
    for pair in drop.comparison.pairs:
        # Repeats alone: runs over which an update averages may have shared a cached reply.
        now, then = pair.outcome.value or 0.0, before.runs
        right = [(now + pair.drop) * then, now * runs]
        whole = [round(number) for number in right]
        # A mean over other numbers of repeats, as where some have no score, is no count.
        if all(abs(number - nearest) < SCORE_TOLERANCE for number, nearest in zip(right, whole, strict=True)):
            counts[pair.outcome.example.id] = Counts(whole[0], then, whole[1], runs)
    worse = surely_worse(counts, drop.alpha)
    if worse:
        named = [f"{name} went from {count}" for name, count in worse.items()]
        questions = counted(drop.comparison.n, "question")
        text = f"{', '.join(named)} repeats right; chance alone rarely does that to any of {questions}"
        yield Verdict("fail", text, brief=f"{counted(len(worse), 'question')} surely worse")


def blind_text(measured: Measured, threshold: Threshold) -> str:
    """Return why the threshold could not fail, even if all examples had the lowest score; empty if it could.

    With the burden "exclude", the text says why the threshold could not pass.
    """
    comparison = measured.comparison
    if comparison is None:
        return ""
    if measured.drop is not None and (text := _hopeless_text(threshold, measured.drop)):
        return text
    reasons = [*_blind_reasons(measured, comparison, threshold)]
    if not (reasons and all(reasons)):
        return ""
    return (
        f"it could not fail, even if all of {counted(comparison.n, 'example')} had the score {comparison.lowest:g} "
        f"({'; '.join(reasons)}). Add questions, and write the baseline again; or give min, max_lost=0 or "
        'policy="snapshot"'
    )


def _blind_reasons(measured: Measured, comparison: Comparison, threshold: Threshold) -> Iterator[str]:
    """Yield for each bound why it could not fail; empty if it could."""
    if threshold.min is not None and is_violated(comparison.lowest, "min", threshold.min):
        yield ""
    if threshold.max_lost is not None:
        losable = len(_losses(threshold, comparison.all_wrong))
        could_fail = losable > threshold.max_lost
        yield "" if could_fail else f"max_lost={threshold.max_lost}: only {losable} could score less"
    tests = [("max_drop", threshold, measured.drop)]
    if measured.anchor is not None:
        tests.append(("max_total_drop", threshold.total_drop_threshold(0), measured.anchor))
    for keyword, bounds, test in tests:
        if test is not None:
            text = _blind_drop_text(measured, bounds, test)
            yield text and f"{keyword}={bounds.max_drop:g}: {text}"


def _hopeless_text(threshold: Threshold, drop: DropTestResult) -> str:
    """Return why the policy could not pass even if nothing changed; empty if it could."""
    n, needed = drop.comparison.n, drop.min_examples or 0
    if not threshold.policy.strict or n >= needed or drop.significant:
        return ""
    return (
        f"the policy {threshold.policy.name!r} could not pass: {counted(n, 'question')} cannot show that the drop is "
        f"below {threshold.max_drop:g}, even if nothing changes; at least {needed} are needed, or a larger max_drop"
    )


def _blind_drop_text(measured: Measured, threshold: Threshold, drop: DropTestResult) -> str:
    max_drop, all_wrong = threshold.max_drop or 0.0, drop.all_wrong
    largest = drop.comparison.mean - drop.comparison.lowest
    if largest <= max_drop + SCORE_TOLERANCE:
        return f"the drop from the {drop.comparison.before.kind} would be {format_number(largest)}"
    if all_wrong is None or _known_drop_verdict(measured, threshold, all_wrong).status == "fail":
        return ""
    units, what = _units(all_wrong)
    needed = all_wrong.min_examples or 0
    least = f"; at least {needed} {what}s are needed" if units < needed else ""
    often, limit = odds(all_wrong)
    return (
        f"with {counted(units, what)} chance alone does that in 1 of {often} comparisons, and red needs 1 in {limit}"
        f"{least}"
    )


def _units(drop: DropTestResult) -> tuple[int, str]:
    """Return the number of independent units of a test, and what they are: examples, or clusters of examples."""
    return (drop.comparison.n, "example") if drop.n_clusters is None else (drop.n_clusters, "cluster")


def _total_drop_verdict(measured: Measured, threshold: Threshold, anchor: DropTestResult | None) -> Verdict:
    if anchor is None:
        text = (
            f"{measured.score:.3f} has no anchor yet for max_total_drop to compare with; on the commit to compare "
            "with, `rageval baseline pin` pins one"
        )
        return Verdict("pass", text, (text,))
    verdict = _drop_verdict(measured, threshold.total_drop_threshold(0), anchor)
    if verdict.status == "pass":
        return verdict
    remedy = (
        ". Several updates of the baseline lowered it: `git log -p` of its file shows which. Fix that, or accept it: "
        "`rageval baseline pin`"
    )
    return replace(
        verdict,
        reason=verdict.reason + remedy,
        warnings=tuple(text + remedy for text in verdict.warnings),
        brief=verdict.brief and f"since the anchor {verdict.brief}",
    )


def _drop_verdict(measured: Measured, threshold: Threshold, drop: DropTestResult) -> Verdict:
    """Return the verdict on a drop, which does not pass if it would fail in the worst case of what is unscored now."""
    verdict = _known_drop_verdict(measured, threshold, drop)
    if verdict.status in {"fail", "error"} or drop.with_lost is None:
        return verdict
    worst = _known_drop_verdict(measured, threshold, drop.with_lost)
    if worst.status != "fail":
        return verdict
    lost_drop, max_drop = format_number(drop.with_lost.comparison.drop), threshold.max_drop or 0.0
    text = f"{verdict.reason}; {lost_text(drop.comparison)} the drop would be {lost_drop}"
    text += "" if threshold.policy.strict else f". {chance_text(drop.with_lost, threshold.policy.alpha)}"
    brief = f"drop {lost_drop} > {max_drop:g} with those that have no score"
    if threshold.policy.strict:
        return Verdict("fail", text, brief=brief)
    return inconclusive(threshold, text, brief)


def _known_drop_verdict(measured: Measured, threshold: Threshold, drop: DropTestResult) -> Verdict:
    score, max_drop = measured.score, threshold.max_drop or 0.0
    minimum = threshold.min if names_minimum(score, threshold, drop) else None
    text = change_text(score, drop, max_drop, minimum=minimum)
    if threshold.policy.strict:
        return _exclusion_verdict(score, threshold, drop, text)
    if drop.comparison.drop <= max_drop + SCORE_TOLERANCE:
        return Verdict("pass", text)
    brief = f"drop {format_against(drop.comparison.drop, max_drop)} > {max_drop:g}"
    if drop.significant:
        return Verdict("fail", f"{text}. {chance_text(drop, threshold.policy.alpha)}", brief=brief)
    least = _small_set_drop(measured, threshold, drop)
    if least is not None and drop.comparison.drop >= least - SCORE_TOLERANCE:
        why = f"A drop of {least:g} or more is red with fewer than {SMALL_SET} questions and no model in the score"
        return Verdict("fail", f"{text}. {why}", brief=brief)
    # A violated minimum has a reason of its own.
    text = change_text(score, drop, max_drop, name_worse=True)
    chance = chance_text(drop, threshold.policy.alpha)
    return inconclusive(threshold, f"{text}. {chance}{power_text(score, drop)}", brief)


def _exclusion_verdict(score: Score, threshold: Threshold, drop: DropTestResult, text: str) -> Verdict:
    if drop.significant:
        return Verdict("pass", f"{text}. So the true drop is below {threshold.max_drop:g}")
    hopeless = _hopeless_text(threshold, drop)
    if hopeless and drop.comparison.drop <= (threshold.max_drop or 0.0) + SCORE_TOLERANCE:
        return Verdict("error", f"{score.name}: {hopeless}.")
    reason = (
        f"{text}. The policy {threshold.policy.name!r} asks for proof that the true drop is below "
        f"{threshold.max_drop:g}; {counted(drop.comparison.n, 'question')} do not give it"
    )
    return Verdict(
        "fail",
        f"{reason}{power_text(score, drop, strict=True)}",
        brief=f"drop not shown to be below {threshold.max_drop:g}",
    )


def _small_set_drop(measured: Measured, threshold: Threshold, drop: DropTestResult) -> float | None:
    """Return the drop from which on a small set is red, though unsure; None if it is not small or has a model."""
    share = threshold.policy.small_set_drop
    is_small = measured.deterministic and drop.comparison.n < SMALL_SET and threshold.policy.burden == "drop"
    return share * (measured.score.reach[1] - measured.score.reach[0]) if is_small and share else None


def names_minimum(score: Score, threshold: Threshold, drop: DropTestResult | None) -> bool:
    """Whether the sentence on a drop also says that the mean is below `min`."""
    return (
        drop is not None
        and threshold.min is not None
        and drop.comparison.before.pin is None
        and is_violated(float(score), "min", threshold.min)
    )


def _spread_warnings(score: Score, threshold: Threshold, comparison: Comparison | None) -> Iterator[str]:
    """Yield warnings about bounds that are closer to the mean over repeated runs than its standard error."""
    runs = len(score.repeats) + 1
    standard_error = (score.spread or 0.0) / sqrt(runs)
    bounds = [
        (f"{keyword} {bound:g}", bound, float(score)) for keyword, bound, _, _ in mean_bounds(threshold)
    ]
    if threshold.max_drop is not None and comparison is not None:
        keyword = "max_drop" if comparison.before.pin is None else "max_total_drop"
        bound = comparison.mean - threshold.max_drop
        bounds.append((f"{keyword} ({bound:.3f})", bound, comparison.mean - comparison.drop))
    for name, bound, mean in bounds:
        if abs(mean - bound) < standard_error:
            others = round(1 / NormalDist().cdf(-abs(mean - bound) / standard_error))
            yield (
                f"{name} is a coin toss: it is so close to {mean:.3f}, the mean of {runs} runs, that about 1 in "
                f"{others} reruns would be on its other side; with a larger --rageval-repeat, fewer"
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


def unseen_drop_warnings(
    score: Score, threshold: Threshold, comparison: Comparison, *, not_evaluated: int = 0
) -> Iterator[str]:
    """Yield a warning if examples that cannot be compared may hide a larger drop, or more losses, than is allowed."""
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
        text += f"; {len(lost)} had a score in the {kind} and have none now: {ids_text(lost)}"
    if new:
        text += (
            f"; {new} {'has' if new == 1 else 'have'} no score in the {kind} (new, edited, or unscored then): write "
            f"the {kind} again on the commit to compare with, {comparison.before.options}"
        )
    yield text


def _test_warnings(drop: DropTestResult, status: Status, *, is_small_set: bool) -> Iterator[str]:
    """Yield warnings about the power and the assumptions of the test of a drop.

    On a small set the size of a drop decides too, so that a drop can be red although no test shows it.
    """
    units, what = _units(drop)
    if (
        not is_small_set
        and status == "pass"
        and drop.all_wrong is not None
        and not drop.all_wrong.significant
    ):
        since = "" if drop.comparison.before.pin is None else " since the anchor"
        needed = drop.min_examples or 0
        often, limit = odds(drop.all_wrong)
        yield (
            f"{counted(units, what)}{' of examples' if what == 'cluster' else ''} cannot show a drop, even if "
            f"{'it gets' if units == 1 else 'all of them get'} the lowest score{since} "
            f"(chance alone: 1 in {often}; red needs 1 in {limit} or rarer)"
            f"{f'; at least {needed} are needed' if units < needed else ''}"
        )
    elif drop.n_clusters is not None and drop.n_clusters < MIN_CLUSTERS:
        clusters = counted(drop.n_clusters, "cluster")
        yield (
            f"the {counted(drop.comparison.n, 'example')} lie in {clusters}; a drop is shown reliably with "
            f"{MIN_CLUSTERS} or more"
        )
    if drop.needs_symmetry and status == "fail":
        yield (
            "the losses are many and small, or the gains few and large: with such differences this test raises more "
            "false alarms than alpha, with 60 examples or more it does not"
        )
    if not drop.settled and status == "inconclusive":
        yield "the p-value is too close to alpha for 1,000,000 random draws, and counts as not significant"


MIN_TIME_S: Final = 1e-9
"""A measured time of 0 counts as the resolution of a clock, a nanosecond, since times are divided by it."""

MIN_EXAMPLES: Final = 6  # with fewer examples the interval of a ratio of medians is too narrow


def run_ratio_test(score: Score) -> RatioTestResult:
    """Compare a score that is a time with that of the reference retriever in the same run.

    Raises:
        InputError: the score is not a quantile of times, or no example has a time of the reference.
    """
    pairs = [
        (outcome.value, max(outcome.evidence.beside[REFERENCE_LATENCY], MIN_TIME_S))
        for outcome in score.outcomes
        if outcome.value is not None and REFERENCE_LATENCY in outcome.evidence.beside
    ]
    statistic = score.statistic
    if not (pairs and isinstance(statistic, Quantile)):
        raise InputError(f"{score.name}: there are no times of a reference retriever to compare with.")
    own, other = zip(*pairs, strict=True)
    # With fewer examples the quantile is the largest value, whose interval the bootstrap cannot estimate.
    min_examples = max(MIN_EXAMPLES, round(1 / (1 - statistic.level)))
    interval = None
    if len(pairs) >= min_examples:
        from pytest_rageval.stats.bootstrap import ratio_of_quantiles  # noqa: PLC0415 - imports numpy

        interval = ratio_of_quantiles(own, other, index=statistic.index(len(pairs)), seed=score.seed)
    reference = statistic.compute(other)
    return RatioTestResult(reference, statistic.compute(own) / reference, interval, len(pairs), min_examples)


def ratio_verdict(score: Score, threshold: Threshold, allowed: float, test: RatioTestResult) -> Verdict:
    ratio = format_against(test.ratio, allowed)
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
    return inconclusive(threshold, f"{text}: not significantly more, as {why}", brief)
