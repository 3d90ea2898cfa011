"""Evaluates all thresholds of a test: slices, comparison with the baseline, joint test of the drops, verdicts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.core.errors import InputError, RagevalError
from pytest_rageval.core.outcome import Score
from pytest_rageval.gate.threshold import Threshold, level_shares
from pytest_rageval.gate.verdict import (
    WORST_FIRST,
    Measured,
    Slice,
    ThresholdInput,
    ThresholdResult,
    Verdict,
    bounds_at_risk,
    format_against,
    inconclusive,
    is_violated,
    mean_bounds,
    worst_of,
)
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import counted

if TYPE_CHECKING:
    from pytest_rageval.gate.drop_tests import DropTestInput, DropTestResult
    from pytest_rageval.gate.slices import ChangedQuestions

# Imported late: many thresholds compare with nothing.
run_drop_tests: Final = Lazy("gate.drop_tests", "run_drop_tests")
run_ratio_test: Final = Lazy("gate.comparison_verdicts", "run_ratio_test")
new_changed_questions: Final = Lazy("gate.slices", "ChangedQuestions")
fill_in_comparisons: Final = Lazy("gate.slices", "fill_in_comparisons")
emptied_slices: Final = Lazy("gate.slices", "emptied_slices")
anchor_warnings: Final = Lazy("gate.slices", "anchor_warnings")
baseline_verdict: Final = Lazy("gate.comparison_verdicts", "baseline_verdict")
blind_text: Final = Lazy("gate.comparison_verdicts", "blind_text")
comparison_warnings: Final = Lazy("gate.comparison_verdicts", "comparison_warnings")
coin_toss_text: Final = Lazy("gate.sentences", "coin_toss_text")
names_minimum: Final = Lazy("gate.comparison_verdicts", "names_minimum")
ratio_verdict: Final = Lazy("gate.comparison_verdicts", "ratio_verdict")

BASELINE_BOUNDS: Final = ("max_drop", "max_lost")


def evaluate_thresholds(
    inputs: Sequence[ThresholdInput | RagevalError], *, family_size: int = 1, extra_alpha_shares: int = 0
) -> list[ThresholdResult | RagevalError]:
    """Evaluate the thresholds of one test, whose scores are of one eval set; an error is returned unchanged.

    Drops from the baseline are tested jointly, and so are drops from the anchor. A slice without any question in the
    baseline has no baseline yet.

    Args:
        inputs: the thresholds, or errors.
        family_size: number of gated tests that share the level of `max_drop` and `max_total_drop`. With several, the
            test of the whole suite has half of the level of `max_drop`.
        extra_alpha_shares: number of further shares of the level in this test, for thresholds that are evaluated apart.

    Returns:
        For each input its result; or an `InputError`, if no example has the tag of `where` or `by`, or a
        `TooManyUnscoredError`, if the slice of `where` has no score.
    """
    given = [item for item in inputs if not isinstance(item, RagevalError)]
    changed = new_changed_questions() if any(item.threshold.uses_baseline for item in given) else None
    sliced = [
        threshold_input if isinstance(threshold_input, RagevalError) else _slices(threshold_input, changed)
        for threshold_input in inputs
    ]
    slices = [part for parts in sliced if not isinstance(parts, RagevalError) for part in parts]
    try:
        drops = iter(
            _run_drop_tests(
                [test_input for part in slices if (test_input := part.drop_test_input)],
                family_size=level_shares(family_size),
                extra_alpha_shares=extra_alpha_shares,
            )
        )
        total_drops = iter(
            _run_drop_tests(
                [test_input for part in slices if (test_input := part.anchor_input)], family_size=family_size
            )
        )
    except InputError as error:
        return [error] * len(inputs)
    for part in slices:
        part.drop = next(drops) if part.drop_test_input else None
        part.anchor = next(total_drops) if part.anchor_input else None
    return [parts if isinstance(parts, RagevalError) else _worst_result(parts) for parts in sliced]


def _run_drop_tests(
    inputs: "Sequence[DropTestInput]", *, family_size: int, extra_alpha_shares: int = 0
) -> "list[DropTestResult]":
    if not inputs:
        return []
    results: list[DropTestResult] = run_drop_tests(
        inputs, family_size=family_size, extra_alpha_shares=extra_alpha_shares
    )
    return results


def _slices(
    threshold_input: ThresholdInput, changed: "ChangedQuestions | None"
) -> list[Slice] | RagevalError:
    """Return the slices of a threshold: a single one, or with `by` one for each value of the tag."""
    score, threshold, baseline, early = threshold_input
    try:
        whole = score.where(**threshold.where) if threshold.where else score
        if threshold.by is None:
            part = Slice(threshold, baseline, whole, early=early)
            _fill_in(part, score, changed)
            return [part]
        values = _tag_values(whole, threshold.by)
    except RagevalError as error:
        return error
    outside = sum(outcome.example.tags.get(threshold.by) in (None, []) for outcome in whole.outcomes)
    slices = []
    for value in values:
        where = {**threshold.where, threshold.by: value}
        part = Slice(replace(threshold, where=where), baseline, outside=outside)
        try:
            part.score = whole.where(**part.threshold.where)
        except RagevalError as error:
            part.error = error
        _fill_in(part, score, changed)
        slices.append(part)
    if baseline.before is not None:
        slices += emptied_slices(values, score, threshold, baseline, slices[0])
    return slices


def _fill_in(part: Slice, whole: Score, changed: "ChangedQuestions | None") -> None:
    score = part.score
    if score is not None and part.threshold.max_ratio is not None:
        part.ratio = run_ratio_test(score)
    if score is not None and changed is not None and part.threshold.uses_baseline:
        fill_in_comparisons(part, score, whole, changed)


def _worst_result(slices: Sequence[Slice]) -> ThresholdResult:
    """Return the worst result of the slices; with `by`, it contains the results of all slices."""
    blind = {id(part): _blind_text(part) for part in slices if _is_compared(part)}
    # A slice with few questions only warns, if the threshold can fail in another slice.
    is_blind = bool(blind) and all(blind.values())
    results = sorted(
        (_slice_result(part, blind.get(id(part), "") if is_blind else "") for part in slices),
        key=_worst_first,
    )
    return replace(results[0], slices=tuple(results)) if results[0].threshold.by is not None else results[0]


def _is_compared(part: Slice) -> bool:
    errors = part.error or part.anchor_error
    return part.comparison_input is not None and errors is None and not part.stopped_early


def _blind_text(part: Slice) -> str:
    if part.score is None or part.comparison_input is None:
        return ""
    anchor = None if part.baseline.updating else part.anchor
    comparison, deterministic = part.comparison_input.comparison, part.baseline.deterministic
    measured = Measured(part.score, comparison, part.drop, anchor, deterministic=deterministic)
    text: str = blind_text(measured, part.threshold)
    return text


def _slice_result(part: Slice, blind: str) -> ThresholdResult:
    """Return the result of a slice; `blind` says why the threshold could not fail, and is empty if it could."""
    verdict = Verdict("error", str(part.error)) if part.score is None else _slice_verdict(part, part.score)
    updating = part.baseline.updating
    if blind and updating:
        verdict = replace(verdict, warnings=(*verdict.warnings, f"the next run will be an error: {blind}"))
    elif blind and part.score is not None and verdict.status != "fail":
        verdict = Verdict("error", f"{part.score.name}: {blind}.")
    return ThresholdResult(
        part.threshold,
        part.score,
        replace(verdict, warnings=(*part.warnings, *verdict.warnings)),
        part.comparison,
        None if updating else part.drop,
        part.anchor if part.error is None else None,
        early=part.early,
        ratio=part.ratio,
        changes=part.changes,
        is_new=part.error is part.anchor_error is None
        and part.score is not None
        and part.threshold.uses_baseline
        and part.comparison is None,
        deterministic=part.baseline.deterministic,
        outside=part.outside,
    )


def _slice_verdict(part: Slice, score: Score) -> Verdict:
    threshold, baseline = part.threshold, part.baseline
    measured = Measured(
        score, part.comparison, part.drop, part.anchor, part.ratio, deterministic=baseline.deterministic
    )
    if baseline.updating and threshold.uses_baseline and not baseline.missing:
        verdict = verdict_on(Measured(score), threshold.without(*BASELINE_BOUNDS))
        if verdict.status == "pass":
            verdict = replace(verdict, reason=f"{score:.3f} is the new baseline")
        return replace(verdict, warnings=(*verdict.warnings, *anchor_warnings(score, part)))
    error = part.error or part.anchor_error
    if error is not None:
        # A violated `min` or `max` fails, even if the comparison is impossible. If there is one, with the baseline,
        # `max_drop` and `max_lost` can fail too.
        is_compared = part.comparison is not None and not part.stopped_early
        bounds = threshold.without_total_drop() if is_compared else threshold.without(*BASELINE_BOUNDS)
        verdict = verdict_on(measured._replace(anchor=None), bounds)
        if verdict.status == "fail":
            text = str(error).removeprefix(f"{score.name}: ")
            return replace(verdict, warnings=(*verdict.warnings, text))
        return Verdict("error", str(error))
    if part.early is not None and part.early.stopped and part.comparison is not None:
        return part.early.verdict_on(score, threshold, part.comparison)
    verdict = verdict_on(measured, threshold)
    is_missing = (threshold.uses_baseline and part.comparison is None) or (
        threshold.max_total_drop is not None and part.anchor is None
    )
    if part.comparison is None and baseline.new and verdict.status == "pass":
        text = f"{score:.3f} has no baseline yet: {' '.join(baseline.new.splitlines())}"
        verdict = replace(verdict, reason=text, warnings=(text, *verdict.warnings[1:]))
    if is_missing and baseline.required and verdict.status != "fail":
        return Verdict(
            "error",
            f"{score.name}: {verdict.reason} (--rageval require_baseline=true, the default under CI=true)",
        )
    return verdict


def verdict_on(measured: Measured, threshold: Threshold) -> Verdict:
    """Compare a score with the bounds of its threshold, in full precision; a mean on a bound passes.

    For `min` and `max`, examples on which the retriever failed count with the worst possible score: otherwise a
    retriever would improve by failing on the questions that it loses. Examples without a score for another reason are
    left out; but if the threshold would fail with the worst score for them, it does not pass. Warnings report bounds
    within the spread of repeated runs, and drops that `max_drop` could not detect among examples that cannot be
    compared.

    Returns:
        `fail` if a bound is violated. `max_drop` and `max_total_drop` are violated by a drop that is larger and
        significant, or, with the burden "exclude", by a drop that is not excluded; `max_ratio` by a ratio that is
        larger and significant. `inconclusive`, or `fail` if the policy says so, if a drop or ratio is larger than
        allowed and not significant, or if a bound would be violated with the worst score for examples without one.
    """
    verdict = _verdict_without_test_warnings(measured, threshold)
    others = measured.comparison, measured.drop, measured.anchor
    if measured.score.repeats or any(other is not None for other in others):
        return replace(
            verdict, warnings=(*verdict.warnings, *comparison_warnings(measured, threshold, verdict))
        )
    return verdict


def _verdict_without_test_warnings(measured: Measured, threshold: Threshold) -> Verdict:
    score, violated, unclear = measured.score, {}, []
    for keyword, bound, how, sign in mean_bounds(threshold):
        if not is_violated(float(score), keyword, bound):
            continue
        mean_text = format_against(score, bound)
        text, brief = f"{mean_text} is {how} {bound:g}", f"{mean_text} {sign} {bound:g}"
        ends = score.ci95 if threshold.policy.bounds == "interval" else None
        if ends is not None and not is_violated(ends[keyword == "min"], keyword, bound):
            text = (
                f"{text}, but {counted(score.n, 'question')} are too few to tell: add some. Others could give "
                f"{ends[0]:.3f} to {ends[1]:.3f} (95% interval)"
            )
            unclear.append(inconclusive(threshold, text, brief))
        else:
            # Of the same retriever, a score without models is the same in each run.
            toss = "" if measured.deterministic else coin_toss_text(score, bound)
            violated[keyword] = f"{text}{toss}", brief
    for keyword, text in bounds_at_risk(score, threshold, "retriever"):
        violated.setdefault(keyword, (text, f"{keyword} is violated where the retriever failed"))
    at_risk = [text for _, text in bounds_at_risk(score, threshold, "retriever", "run")]
    compared = _comparison_verdict(measured, threshold)
    if not violated:
        unclear += [inconclusive(threshold, text, "a bound is at risk") for text in at_risk]
        return worst_of([*unclear, compared])
    if compared.status == "fail":
        violated["compared"] = compared.reason, compared.brief
    reasons, briefs = zip(*violated.values(), strict=True)
    named = names_minimum(score, threshold, measured.drop) and f"minimum {threshold.min:g}" in compared.reason
    if compared.status == "fail" and named:
        reasons = tuple(reason for keyword, (reason, _) in violated.items() if keyword != "min")
    return Verdict("fail", "; ".join(reasons), compared.warnings_beside("fail"), "; ".join(briefs))


def _comparison_verdict(measured: Measured, threshold: Threshold) -> Verdict:
    score, comparison, ratio = measured.score, measured.comparison, measured.ratio
    if ratio is not None and threshold.max_ratio is not None:
        verdict: Verdict = ratio_verdict(score, threshold, threshold.max_ratio, ratio)
        return verdict
    if not threshold.uses_baseline:
        return Verdict("pass", f"{score:.3f} is within bounds")
    if comparison is None:
        text = f"{score:.3f} has no baseline yet to compare with; --rageval-update-baseline writes one"
        if threshold.max_total_drop is not None:
            text += ", and with --rageval-pin-baseline pins it as the anchor of max_total_drop"
        return Verdict("pass", text, (text,))
    compared: Verdict = baseline_verdict(measured, threshold, comparison)
    return compared


def violated_bounds(result: ThresholdResult) -> set[str]:
    """Return which bounds of a failed threshold are violated.

    "bounds" stands for `min` and `max`, "baseline" for `max_drop` and `max_lost`.
    """
    if result.score is None:
        return set()
    if result.early is not None:
        return {"baseline"}
    parts = {
        "bounds": result.threshold.without(*BASELINE_BOUNDS),
        "baseline": result.threshold.without("min", "max").without_total_drop(),
    }
    measured = Measured(result.score, result.comparison, result.drop, deterministic=result.deterministic)
    return {name for name, threshold in parts.items() if verdict_on(measured, threshold).status == "fail"}


def _tag_values(score: Score, tag: str) -> Sequence[Any]:
    """Return the values of a tag, in the same order in every process.

    Raises:
        InputError: no example has the tag.
    """
    by_text: dict[str, object] = {}
    for outcome in score.outcomes:
        value = outcome.example.tags.get(tag)
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                by_text.setdefault(f"{type(item).__name__} {item}", item)
    if not by_text:
        known = sorted({name for outcome in score.outcomes for name in outcome.example.tags})
        existing = f"They have: {', '.join(known)}." if known else "They have no tags."
        raise InputError(f"{score.spec}: no example has the tag by={tag!r}. {existing}")
    return [by_text[text] for text in sorted(by_text)]


def _worst_first(result: ThresholdResult) -> tuple[int, float, str]:
    """Sort key: the verdict, then how close the mean is to a bound."""
    threshold, score = result.threshold, result.score
    margin = 0.0
    if score is not None:
        anchor_comparison = None if result.anchor is None else result.anchor.comparison
        drops = (
            (threshold.max_drop, result.comparison),
            (threshold.max_total_drop, anchor_comparison),
        )
        margins = [
            bound - comparison.drop
            for bound, comparison in drops
            if bound is not None and comparison is not None
        ]
        margins += [] if threshold.min is None else [score - threshold.min]
        margins += [] if threshold.max is None else [threshold.max - score]
        allowed, ratio = threshold.max_ratio, result.ratio
        margins += [] if allowed is None or ratio is None else [allowed - ratio.ratio]
        margin = min(margins, default=float(score))
    return WORST_FIRST.index(result.verdict.status), margin, str(result.threshold.where)
