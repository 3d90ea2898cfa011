"""The rulings on the thresholds of a test: verdicts on scores, on their slices, and on drops below the baseline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pytest_rageval.errors import Cause, InputError, RagevalError, StaleBaselineError
from pytest_rageval.gate.comparison import BaselineScore, Comparison, compare
from pytest_rageval.gate.drop_tests import Compared, DropTest, drop_tests
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.scores import Outcome, Score

if TYPE_CHECKING:
    from pytest_rageval.gate.early_stop import EarlyStopped

__all__ = ["BaselineLookup", "Case", "Ruling", "Verdict", "broken_parts", "rule", "uncounted", "verdict_on"]

Status = Literal["pass", "inconclusive", "fail", "error"]

WORST_FIRST: Final[tuple[Status, ...]] = ("error", "fail", "inconclusive", "pass")

ROUNDING: Final = 1e-12
"""The mean of n equal numbers can differ from them in the last bit, which is no regression."""

IDS: Final = 10
"""Number of examples without a score whose ids are listed."""

FEW_CLUSTERS: Final = 20
"""With fewer clusters the test of a drop has little power, and its level is only approximate."""

REASONS: Final = 3
"""Number of different reasons for a missing score that are listed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a threshold.

    Attributes:
        status: `inconclusive` passes.
        reason: why, in a sentence.
        warnings: shown also where the test passes.
        brief: of a failure, the broken bounds, such as "0.593 < 0.85; drop 0.346 > 0.02".
    """

    status: Status
    reason: str
    warnings: tuple[str, ...] = ()
    brief: str = ""


@dataclass(frozen=True, slots=True)
class BaselineLookup:
    """A score's baseline, or why there is none.

    Attributes:
        fingerprint: of everything besides the retriever that the score depends on now.
        before: the score in the baseline; None where it is missing.
        updating: whether this run writes the baseline, so that nothing is compared.
        required: whether a missing baseline is an error.
        missing: why there is nothing to compare with, which is an error: the score is missing in the file, or generator
            or judge changed. Empty where there is no file.
        tolerance: differences of a question's scores up to this are rounding.
        anchor: the score in the anchor; None where it is missing, or not compared with.
        pinning: whether this run pins a new anchor.
    """

    fingerprint: Mapping[str, Any]
    before: BaselineScore | None
    updating: bool = False
    required: bool = False
    missing: str = ""
    tolerance: float = ROUNDING
    anchor: BaselineScore | None = None
    pinning: bool = False


@dataclass(frozen=True, slots=True)
class Ruling:
    """A threshold, its score and the verdict.

    Attributes:
        threshold: with the slice that it is on.
        score: of that slice; None where it cannot be computed.
        verdict: on the score.
        comparison: of the examples of the baseline and of now, or None.
        drop: the test of `max_drop`, or None.
        anchor: the test of `max_total_drop`, or in an update of the new baseline, against the anchor; or None.
        slices: with `by`, one ruling for each value of the tag, the worst first; this one is the first of them.
        early: where its questions were asked until the verdict was clear. If it was clear before all were asked,
            `score` and `comparison` are those of the examples that are known, and their means say nothing.
    """

    threshold: Threshold
    score: Score | None
    verdict: Verdict
    comparison: Comparison | None = None
    drop: DropTest | None = None
    anchor: DropTest | None = None
    slices: tuple["Ruling", ...] = ()
    early: "EarlyStopped | None" = None

    @property
    def stopped_early(self) -> bool:
        """Whether the verdict was clear before all questions were asked."""
        return self.early is not None and self.early.clear


class Case(NamedTuple):
    """A threshold to rule on: its score of the whole eval set, and the score's baseline.

    `early` is for a threshold whose questions were asked until its verdict was clear; the score is then that of the
    examples that are known.
    """

    score: Score
    threshold: Threshold
    baseline: BaselineLookup
    early: "EarlyStopped | None" = None


def rule(
    cases: Sequence[Case | RagevalError], *, tests: int = 1, apart: int = 0
) -> list[Ruling | RagevalError]:
    """Rule on the thresholds of one test; their drops are tested together, those below the anchor apart.

    A slice of which the baseline has no question has no baseline yet.

    Args:
        cases: with scores of one eval set; an error in place of a case is returned in its place.
        tests: number of the run's tests that share the level of `max_drop` and `max_total_drop`.
        apart: number of the thresholds that need a share of the level of their own; see `drop_tests`.

    Returns:
        For each case the ruling; or an `InputError`, where no example has the tag of `where` or `by`, or a
        `TooManyUnscoredError`, where the slice of `where` has no score.
    """
    sliced = [case if isinstance(case, RagevalError) else _slices(case) for case in cases]
    slices = [each for found in sliced if not isinstance(found, RagevalError) for each in found]
    tested = [
        (each, each.compared)
        for each in slices
        if each.compared is not None
        and each.threshold.max_drop is not None
        and not (each.early and each.early.clear)
    ]
    anchored = [(each, each.anchored) for each in slices if each.anchored is not None]
    try:
        drops = drop_tests([compared for _, compared in tested], tests=tests, apart=apart)
        totals = drop_tests([compared for _, compared in anchored], tests=tests)
    except InputError as error:
        return [error] * len(cases)
    for (each, _), result in zip(tested, drops, strict=True):
        each.drop = result
    for (each, _), result in zip(anchored, totals, strict=True):
        each.anchor = result
    return [found if isinstance(found, RagevalError) else _ruling(found) for found in sliced]


@dataclass(slots=True)
class _Slice:
    """A case limited to the slice of its threshold, compared with the baseline, and tested."""

    threshold: Threshold
    baseline: BaselineLookup
    score: Score | None = None
    error: RagevalError | None = None
    compared: Compared | None = None
    drop: DropTest | None = None
    anchored: Compared | None = None
    anchor: DropTest | None = None
    anchor_error: RagevalError | None = None
    early: "EarlyStopped | None" = None

    @property
    def comparison(self) -> Comparison | None:
        return None if self.compared is None else self.compared.comparison


def _slices(case: Case) -> list[_Slice] | RagevalError:
    """The slices of a case: one, or with `by` one for each value of the tag."""
    score, threshold, baseline, early = case
    try:
        whole = score.where(**threshold.where) if threshold.where else score
        if threshold.by is None:
            return [_compared(_Slice(threshold, baseline, whole, early=early))]
        values = _values(whole, threshold.by)
    except RagevalError as error:
        return error
    slices = []
    for value in values:
        each = _Slice(replace(threshold, where={**threshold.where, threshold.by: value}), baseline)
        try:
            each.score = whole.where(**each.threshold.where)
        except RagevalError as error:
            each.error = error
        slices.append(_compared(each))
    return slices


def _compared(each: _Slice) -> _Slice:
    """Compare a slice with the baseline and the anchor, where its threshold does; an update with the anchor alone."""
    score, baseline = each.score, each.baseline
    if score is None or not each.threshold.compares:
        return each
    try:
        each.anchored = _anchored(score, each.threshold, baseline)
    except RagevalError as error:
        each.anchor_error = error
    if baseline.updating:
        return each
    try:
        if baseline.missing:
            raise StaleBaselineError(f"{score.name}: {baseline.missing}")
        if baseline.before is not None and not _is_new(score, baseline.before):
            comparison = compare(score, baseline.fingerprint, baseline.before, tolerance=baseline.tolerance)
            level = None if each.early is None else each.early.level
            each.compared = Compared(each.threshold, comparison, score.scale, score.seed, level)
    except RagevalError as error:
        each.error = error
    return each


def _anchored(score: Score, threshold: Threshold, baseline: BaselineLookup) -> Compared | None:
    anchor = baseline.anchor
    if anchor is None or anchor.pin is None or _is_new(score, anchor):
        return None
    comparison = compare(score, baseline.fingerprint, anchor, tolerance=baseline.tolerance)
    return Compared(threshold.since_anchor(anchor.pin.updates), comparison, score.scale, score.seed)


def _ruling(slices: Sequence[_Slice]) -> Ruling:
    rulings = sorted(map(_ruled, slices), key=_worst_first)
    return replace(rulings[0], slices=tuple(rulings)) if rulings[0].threshold.by is not None else rulings[0]


def _ruled(each: _Slice) -> Ruling:
    score, threshold = each.score, each.threshold
    if score is None:
        return Ruling(threshold, None, Verdict("error", str(each.error)))
    if each.baseline.updating and threshold.compares:
        bounded = verdict_on(score, _without_baseline(threshold))
        if bounded.status == "pass":
            bounded = replace(bounded, reason=f"{score:.3f} is the new baseline")
        bounded = replace(bounded, warnings=(*bounded.warnings, *_below_anchor(score, each)))
        return Ruling(threshold, score, bounded, anchor=each.anchor)
    error = each.error or each.anchor_error
    if error is not None:
        # A violated bound fails, whatever the baseline or the anchor.
        whole = each.error is None
        bounds = replace(threshold, max_total_drop=None) if whole else _without_baseline(threshold)
        bounded = verdict_on(score, bounds, each.comparison, each.drop)
        if bounded.status == "fail":
            bounded = replace(bounded, warnings=(*bounded.warnings, str(error)))
        else:
            bounded = Verdict("error", str(error))
        return Ruling(threshold, score, bounded, each.comparison, each.drop, early=each.early)
    if each.early is not None and each.early.clear and each.comparison is not None:
        verdict = _stopped_early(score, threshold, each.comparison, each.early)
        return Ruling(threshold, score, verdict, each.comparison, early=each.early)
    verdict = verdict_on(score, threshold, each.comparison, each.drop, each.anchor)
    missing = (threshold.compares and each.comparison is None) or (
        threshold.max_total_drop is not None and each.anchor is None
    )
    if missing and each.baseline.required and verdict.status != "fail":
        verdict = Verdict(
            "error", f"{score.name}: {verdict.reason} (--rageval-require-baseline, the default under CI=true)"
        )
    return Ruling(threshold, score, verdict, each.comparison, each.drop, each.anchor, early=each.early)


def _stopped_early(
    score: Score, threshold: Threshold, comparison: Comparison, early: "EarlyStopped"
) -> Verdict:
    verdict = Verdict(early.verdict or "pass", early.reason(threshold))
    if early.verdict == "fail":
        return verdict
    # Those that were not asked had a score in the baseline, or they are new.
    unasked = early.changed - early.asked
    comparison = replace(comparison, new=early.new)
    return replace(verdict, warnings=tuple(_unseen_drop(score, threshold, comparison, unasked=unasked)))


def broken_parts(ruling: Ruling) -> set[str]:
    """What a failed threshold breaks: "bounds" (`min`, `max`), "baseline" (`max_drop`, `max_lost`)."""
    if ruling.score is None:
        return set()
    if ruling.early is not None:
        return {"baseline"}
    threshold = ruling.threshold
    parts = {
        "bounds": _without_baseline(threshold),
        "baseline": replace(threshold, min=None, max=None, max_total_drop=None),
    }
    verdicts = {
        name: verdict_on(ruling.score, part, ruling.comparison, ruling.drop) for name, part in parts.items()
    }
    return {name for name, verdict in verdicts.items() if verdict.status == "fail"}


def _without_baseline(threshold: Threshold) -> Threshold:
    return replace(threshold, max_drop=None, max_total_drop=None, max_lost=None)


def _below_anchor(score: Score, each: _Slice) -> Iterator[str]:
    """A warning where an update writes a baseline that is below the anchor, or cannot be compared with it."""
    pinning, allowed = each.baseline.pinning, each.threshold.max_total_drop
    if each.anchor_error is not None and not pinning:
        yield f"the anchor is kept, and cannot be compared with: {each.anchor_error}"
    if (drop := each.anchor) is None:
        return
    lost = drop.comparison.drop
    if lost > ROUNDING and (drop.significant or (allowed is not None and lost > allowed + ROUNDING)):
        bound = "" if allowed is None else f", allowed {allowed:g}"
        significant = "significant" if drop.significant else "not significant"
        anchor = "it is replaced" if pinning else "it is kept, and --rageval-pin-baseline would replace it"
        yield (
            f"the new baseline is below the anchor: {_distance(score, drop, allowed or 0.0)}{_over(drop.comparison)}"
            f"{bound}: {'a larger drop' if drop.beyond else 'a drop'} is {significant} ({_p_value(drop)}); {anchor}"
        )


def _is_new(score: Score, before: BaselineScore) -> bool:
    """Whether the score is of a slice of which the baseline has no question.

    A whole set is never new: a changed set would not be compared at all.
    """
    return bool(score.slice) and not any(outcome.example.id in before.questions for outcome in score.outcomes)


def _values(score: Score, tag: str) -> Sequence[Any]:
    """The values of a tag, in the same order in every process."""
    found: dict[str, Any] = {}
    for outcome in score.outcomes:
        value = outcome.example.tags.get(tag)
        for item in value if isinstance(value, list) else [value]:
            if item is not None:
                found.setdefault(f"{type(item).__name__} {item}", item)
    if not found:
        known = sorted({name for outcome in score.outcomes for name in outcome.example.tags})
        listed = f"They have: {', '.join(known)}." if known else "They have no tags."
        message = f"{score.spec}: no example has the tag by={tag!r}. {listed}"
        raise InputError(message)
    return [found[key] for key in sorted(found)]


def _worst_first(ruling: Ruling) -> tuple[int, float, str]:
    """Sort key: the verdict, then how close the mean is to a bound."""
    margin = 0.0
    if ruling.score is not None:
        threshold = ruling.threshold
        margins = []
        if threshold.min is not None:
            margins.append(ruling.score - threshold.min)
        if threshold.max is not None:
            margins.append(threshold.max - ruling.score)
        if threshold.max_drop is not None and ruling.comparison is not None:
            margins.append(threshold.max_drop - ruling.comparison.drop)
        if threshold.max_total_drop is not None and ruling.anchor is not None:
            margins.append(threshold.max_total_drop - ruling.anchor.comparison.drop)
        margin = min(margins, default=float(ruling.score))
    return WORST_FIRST.index(ruling.verdict.status), margin, str(ruling.threshold.where)


def verdict_on(
    score: Score,
    threshold: Threshold,
    comparison: Comparison | None = None,
    drop: DropTest | None = None,
    anchor: DropTest | None = None,
) -> Verdict:
    """Compare the mean with the bounds, in full precision; a mean on a bound passes.

    Examples at which the retriever failed count for `min` and `max` with the worst possible score: else
    failing at the questions that it loses would help a retriever. Warnings name bounds that examples
    without a score could violate, bounds within the spread of repeated runs, and drops that `max_drop`
    could not see among examples that cannot be compared.

    Args:
        score: of the threshold's slice.
        threshold: its bounds.
        comparison: with the baseline; None where there is none, which passes with a warning.
        drop: the test of `max_drop`; None without it.
        anchor: the test of `max_total_drop`; None without it, or without an anchor, which passes with a warning.

    Returns:
        `fail` where a bound is violated: `max_drop` or `max_total_drop` by a drop that is larger and significant,
        or with `strict` by one that is not excluded. `inconclusive` where a larger drop is not significant, which
        is `fail` with `inconclusive="fail"`.
    """
    verdict = _verdict(score, threshold, comparison, drop, anchor)
    warnings = list(verdict.warnings)
    if verdict.status != "fail":
        warnings += (text for _, text in _beyond(score, threshold, "retriever", "run"))
        warnings += _unseen_drop(score, threshold, comparison)
    if drop is not None:
        warnings += _doubts(drop, verdict.status)
    warnings += _within_spread(score, threshold, comparison)
    warnings += _uneven(score, comparison)
    if anchor is not None:
        total = threshold.since_anchor(0)
        if verdict.status != "fail":
            warnings += _unseen_drop(score, total, anchor.comparison)
        warnings += _doubts(anchor, _on_drop(score, total, anchor).status)
        warnings += _within_spread(score, total, anchor.comparison)
        warnings += _uneven(score, anchor.comparison)
    return replace(verdict, warnings=tuple(warnings))


def _verdict(
    score: Score,
    threshold: Threshold,
    comparison: Comparison | None,
    drop: DropTest | None,
    anchor: DropTest | None,
) -> Verdict:
    below = threshold.min is not None and score < threshold.min - ROUNDING
    above = threshold.max is not None and score > threshold.max + ROUNDING
    violated, brief = [], []
    if threshold.min is not None and below:
        violated.append(f"{_digits(score, threshold.min)} is below the minimum {threshold.min:g}")
        brief.append(f"{_digits(score, threshold.min)} < {threshold.min:g}")
    if threshold.max is not None and above:
        violated.append(f"{_digits(score, threshold.max)} is above the maximum {threshold.max:g}")
        brief.append(f"{_digits(score, threshold.max)} > {threshold.max:g}")
    listed = {"min": below, "max": above}
    for word, text in _beyond(score, threshold, "retriever"):
        if not listed[word]:
            violated.append(text)
            brief.append(f"{word} is broken where the retriever failed")
    dropped = _on_baseline(score, threshold, comparison, drop, anchor)
    if not violated:
        return dropped
    if dropped.status == "fail":
        violated.append(dropped.reason)
        brief.append(dropped.brief)
    return Verdict("fail", "; ".join(violated), dropped.warnings, "; ".join(brief))


def uncounted(score: Score) -> Iterator[str]:
    """A warning for a score without bounds: the examples at which the retriever failed are not in its mean."""
    lost = score.lacking("retriever")
    if lost:
        mean = score.counting(score.reach[0], "retriever")
        yield f"{_excluded(lost)}; were each of them {score.reach[0]:g}, it would be {mean:.3f}"


def _beyond(score: Score, threshold: Threshold, *causes: Cause) -> Iterator[tuple[str, str]]:
    """The bounds that examples unscored for these causes could violate: each bound's name, and how."""
    lacking = score.lacking(*causes)
    if not lacking:
        return
    bounds = (("min", "below the minimum", threshold.min), ("max", "above the maximum", threshold.max))
    for (word, how, bound), worst in zip(bounds, score.reach, strict=True):
        if bound is None:
            continue
        mean = score.counting(worst, *causes)
        if (mean < bound - ROUNDING) if word == "min" else (mean > bound + ROUNDING):
            text = f"{_excluded(lacking)}; were each of them {worst:g}, it would be {_digits(mean, bound)}"
            yield word, f"{score:.3f} is {text}, {how} {bound:g}"


def _excluded(lacking: Sequence[Outcome]) -> str:
    """Which examples are not in the mean, and why."""
    some = "1 example that has" if len(lacking) == 1 else f"{len(lacking)} examples that have"
    return f"the mean without {some} no score: {_reasons(lacking)}"


def _reasons(lacking: Sequence[Outcome]) -> str:
    """Why examples have no score, the most frequent reasons first, each with its examples."""
    reasons: dict[str, list[str]] = {}
    for outcome in lacking:
        reasons.setdefault(str(outcome.unscored), []).append(outcome.example.id)
    most = sorted(reasons.items(), key=lambda each: -len(each[1]))
    first = [f"{reason} ({_ids(names)})" for reason, names in most[:REASONS]]
    more = [f"{len(most) - REASONS} more reasons"] if len(most) > REASONS else []
    return ", ".join(first + more)


def _ids(names: Sequence[str]) -> str:
    return ", ".join(names[:IDS]) + (", …" if len(names) > IDS else "")


def _on_baseline(
    score: Score,
    threshold: Threshold,
    comparison: Comparison | None,
    drop: DropTest | None,
    anchor: DropTest | None,
) -> Verdict:
    if not threshold.compares:
        return Verdict("pass", f"{score:.3f} is within bounds")
    if comparison is None:
        text = f"{score:.3f} has no baseline yet to compare with; --rageval-update-baseline writes one"
        if threshold.max_total_drop is not None:
            text += ", and with --rageval-pin-baseline pins it as the anchor of max_total_drop"
        return Verdict("pass", text, (text,))
    parts = [_on_drop(score, threshold, drop)] if drop is not None else []
    parts += [_on_lost(score, threshold, comparison)] if threshold.max_lost is not None else []
    parts += [_on_total_drop(score, threshold, anchor)] if threshold.max_total_drop is not None else []
    parts.sort(key=lambda part: WORST_FIRST.index(part.status))
    kept = () if parts[0].status == "pass" else ("pass",)
    reason = "; ".join(part.reason for part in parts if part.status not in kept)
    brief = "; ".join(part.brief for part in parts if part.brief)
    return Verdict(parts[0].status, reason, tuple(text for part in parts for text in part.warnings), brief)


def _on_lost(score: Score, threshold: Threshold, comparison: Comparison) -> Verdict:
    lost = [
        change.outcome.example.id
        for change in comparison.worse
        if change.drop > threshold.tolerance + ROUNDING
    ]
    by = f" by more than {threshold.tolerance:g}" if threshold.tolerance else ""
    text = (
        f"{score:.3f}: {len(lost)} of {len(comparison.changes)} examples score less than in the baseline{by}, "
        f"allowed {threshold.max_lost}"
    )
    if len(lost) <= (threshold.max_lost or 0):
        return Verdict("pass", text)
    return Verdict("fail", f"{text}: {_ids(lost)}", brief=f"lost {len(lost)} > {threshold.max_lost}")


def _on_total_drop(score: Score, threshold: Threshold, anchor: DropTest | None) -> Verdict:
    if anchor is None:
        text = (
            f"{score:.3f} has no anchor yet for max_total_drop to compare with; on the commit to compare with, "
            "--rageval-update-baseline --rageval-pin-baseline pins one"
        )
        return Verdict("pass", text, (text,))
    verdict = _on_drop(score, threshold.since_anchor(0), anchor)
    if verdict.status == "pass":
        return verdict
    remedy = (
        "; the git log of the baseline shows which updates lowered it: win back what they lost, or accept it as the "
        "new anchor by --rageval-update-baseline --rageval-pin-baseline"
    )
    return replace(
        verdict,
        reason=verdict.reason + remedy,
        warnings=tuple(text + remedy for text in verdict.warnings),
        brief=verdict.brief and f"since the anchor {verdict.brief}",
    )


def _on_drop(score: Score, threshold: Threshold, drop: DropTest) -> Verdict:
    max_drop = threshold.max_drop or 0.0
    text = f"{_distance(score, drop, max_drop)}{_over(drop.comparison)}, allowed {max_drop:g}"
    larger = f"a drop of more than {max_drop:g}"
    if threshold.strict:
        excluded = "excluded" if drop.significant else "not excluded"
        text += f": a drop of {max_drop:g} is {excluded} ({_p_value(drop)})"
        if drop.significant:
            return Verdict("pass", text)
        return Verdict("fail", f"{text}{_power(score, drop)}", brief=f"drop of {max_drop:g} not excluded")
    if drop.comparison.drop <= max_drop + ROUNDING:
        return Verdict("pass", text)
    brief = f"drop {_digits(drop.comparison.drop, max_drop)} > {max_drop:g}"
    # Above 0 the interval, which agrees with the test, says more than that something dropped.
    if drop.significant and (drop.beyond or drop.interval[0] >= max_drop):
        text += f": {larger} is significant ({_p_value(drop)})"
    elif drop.significant:
        text += f": a drop is significant ({_p_value(drop)}), one of more than {max_drop:g} is not"
    if drop.significant:
        return Verdict("fail", text, brief=brief)
    found = larger if drop.beyond else "a drop"
    text += f": {found} is not significant ({_p_value(drop)}){_power(score, drop)}"
    if threshold.inconclusive == "fail":
        return Verdict("fail", f"{text}; inconclusive is set to fail", brief=brief)
    return Verdict("inconclusive", text, (text,))


def _within_spread(score: Score, threshold: Threshold, comparison: Comparison | None) -> Iterator[str]:
    """Warnings about bounds that are closer to the mean over repeated runs than its standard error."""
    runs = len(score.repeats) + 1
    spread = (score.spread or 0.0) / sqrt(runs)
    now = float(score)
    bounds = [("min", threshold.min, now), ("max", threshold.max, now)]
    if threshold.max_drop is not None and comparison is not None:
        before, lost = comparison.mean, comparison.drop
        word = "max_drop" if comparison.before.pin is None else "max_total_drop"
        bounds.append((word, before - threshold.max_drop, before - lost))
    for word, bound, mean in bounds:
        if bound is not None and abs(mean - bound) < spread:
            at = f" {bound:g}" if word in ("min", "max") else f" ({bound:.3f})"
            yield (
                f"{word}{at} is {abs(mean - bound):.3f} from {mean:.3f}, and means of {runs} runs differ by "
                f"{spread:.3f}: the next one may be on the other side"
            )


def _uneven(score: Score, comparison: Comparison | None) -> Iterator[str]:
    """A warning where the scores before are means over another number of runs."""
    if comparison is None or (now := len(score.repeats) + 1) == (then := comparison.before.runs):
        return
    kind = comparison.before.kind
    pair = f"the {kind}'s scores are of {_runs(then)} and these of {_runs(now)}"
    if then < now:
        yield (
            f"{pair}: the {kind} is the noisier side; write it on the commit to compare with: "
            f"{comparison.before.options} --rageval-repeat {now}"
        )
    else:
        yield f"{pair}: this run is the noisier side; run with --rageval-repeat {then}"


def _runs(number: int) -> str:
    return f"{number} run{'' if number == 1 else 's'}"


def _unseen_drop(
    score: Score, threshold: Threshold, comparison: Comparison | None, *, unasked: int = 0
) -> Iterator[str]:
    """A warning where examples that cannot be compared may hide a larger drop than is allowed, or more losses."""
    if comparison is None:
        return
    new, lost = comparison.new, [outcome.example.id for outcome in comparison.lost]
    lowest, highest = score.reach
    unseen = new + len(lost)
    whole = len(comparison.changes) + unasked + unseen
    drop_is_seen = (
        threshold.max_drop is None or unseen * (highest - lowest) <= threshold.max_drop * whole + ROUNDING
    )
    if drop_is_seen and (threshold.max_lost is None or len(lost) <= threshold.max_lost):
        return
    kind = comparison.before.kind
    since = "" if comparison.before.pin is None else f" since the {kind}"
    text = f"a drop{since} among {unseen} of {whole} examples would not be seen"
    if lost:
        text += f"; {len(lost)} had a score in the {kind} and have none now: {_ids(lost)}"
    if new:
        text += (
            f"; {new} have no score in the {kind}, as they are now: write it anew on the commit to compare "
            f"with, {comparison.before.options}"
        )
    yield text


def _doubts(drop: DropTest, status: Status) -> Iterator[str]:
    """Warnings about the test of a drop."""
    n = len(drop.comparison.changes)
    units, what = (n, "examples") if drop.clusters is None else (drop.clusters, "clusters of examples")
    if status == "pass" and drop.least is not None and units < drop.least:
        p_value = 0.5 ** (units + 1)
        since = "" if drop.comparison.before.pin is None else " since the anchor"
        yield (
            f"{units} {what} can show no drop, should all of them get worse{since} "
            f"(p = {p_value:.2g} > {drop.alpha:.2g}); {drop.least} are the least"
        )
    elif drop.clusters is not None and drop.clusters < FEW_CLUSTERS:
        yield f"{n} examples are in {drop.clusters} clusters; a drop is shown reliably with {FEW_CLUSTERS} or more"
    if drop.skewed and status == "fail":
        yield (
            "the losses are many and small, or the gains few and large: with such differences this test raises more "
            "false alarms than alpha, with 60 examples or more it does not"
        )
    if not drop.settled and status == "inconclusive":
        yield "the p-value is too close to alpha for 1,000,000 random draws, and counts as not significant"


def _distance(score: Score, drop: DropTest, max_drop: float) -> str:
    """Such as "0.593: drop 0.346 [0.252, 0.437] from the anchor's 0.940 (pinned at 1a2b3c4, 7 updates ago)"."""
    comparison = drop.comparison
    before, lost = comparison.mean, comparison.drop
    now = before - lost
    over = "without those" if comparison.failed else "over all"
    whole = "" if abs(now - score) <= ROUNDING else f" ({score:.3f} {over})"
    by = _digits(lost, max_drop) if lost > max_drop + ROUNDING else f"{_plain(lost):.3f}"
    low, high = (f"{_plain(bound):.3f}" for bound in drop.interval)
    pin = comparison.before.pin
    then = f"the {comparison.before.kind}'s {before:.3f}{'' if pin is None else f' ({pin})'}"
    return f"{now:.3f}{whole}: drop {by} [{low}, {high}] from {then}"


def _plain(number: float) -> float:
    """The number without the sign of a rounded zero."""
    return round(number, 3) + 0.0


def _over(comparison: Comparison) -> str:
    """Which examples are compared; empty for all."""
    parts = []
    if failed := comparison.failed:
        lowest = failed[0].value
        parts.append(
            f"{len(failed)} have no score, since the retriever failed, and count as {lowest:g}: {_reasons(failed)}"
        )
    if comparison.left_out:
        parts.append(f"{comparison.left_out} are not the same in the {comparison.before.kind}")
    if comparison.unscored:
        parts.append(f"{comparison.unscored} have no score now or then")
    return f" over {len(comparison.changes)} examples ({', '.join(parts)})" if parts else ""


def _power(score: Score, drop: DropTest) -> str:
    """What this many examples can show, and how many are needed; empty where nothing is known."""
    n = len(drop.comparison.changes)
    parts = []
    if drop.detectable is not None and drop.detectable <= drop.comparison.mean - score.reach[0]:
        parts.append(f"{n} examples show a drop of {drop.detectable:.3f} at 80% power")
    elif drop.detectable is not None:
        parts.append(f"{n} examples are too few to show any drop at 80% power")
    if drop.needed is not None and drop.needed > n:
        parts.append(f"about {drop.needed:,} would settle this one")
    return "".join(f"; {part}" for part in parts)


def _p_value(drop: DropTest) -> str:
    """The p-value and the level, in as many digits as distinguish them."""
    sign = "≤" if drop.significant else ">"
    both = ((f"{drop.p_value:.{digits}g}", f"{drop.alpha:.{digits}g}") for digits in range(2, 9))
    p_value, alpha = next((each for each in both if each[0] != each[1]), (drop.p_value, drop.alpha))
    return f"p = {p_value} {sign} {alpha}"


def _digits(score: float, bound: float) -> str:
    """The score in three digits, or in as many as distinguish it from the bound."""
    shown = (f"{score:.{digits}f}" for digits in range(3, 12))
    return next((text for text in shown if float(text) != bound), f"{score:.12f}")
