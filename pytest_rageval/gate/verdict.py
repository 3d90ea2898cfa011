"""The ruling on a threshold: the verdict on a score, on each of its slices, and on its drop below the baseline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2
from typing import Any, Final, Literal

from pytest_rageval.errors import Cause, InputError, RagevalError, StaleBaselineError
from pytest_rageval.gate.comparison import BaselineScore, Comparison, DropTest, compared, drop_test
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.scores import Outcome, Score

__all__ = ["BaselineLookup", "Ruling", "Verdict", "rule", "uncounted", "verdict_on"]

Status = Literal["pass", "inconclusive", "fail", "error"]

WORST_FIRST: Final[tuple[Status, ...]] = ("error", "fail", "inconclusive", "pass")

ROUNDING: Final = 1e-12
"""The mean of n equal numbers can differ from them in the last bit, which is no regression."""

IDS: Final = 10
"""Number of examples without a score whose ids are listed."""

REASONS: Final = 3
"""Number of different reasons for a missing score that are listed."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a threshold.

    Attributes:
        status: `inconclusive` passes.
        reason: why, in a sentence.
        warnings: shown also where the test passes.
    """

    status: Status
    reason: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BaselineLookup:
    """A score's baseline, or why there is none.

    Attributes:
        fingerprint: of everything besides the retriever that the score depends on now.
        before: the score in the baseline; None where it is missing.
        updating: whether this run writes the baseline, so that nothing is compared.
        required: whether a missing baseline is an error.
        missing: why the score is missing in the file, which is an error; empty where there is no file.
    """

    fingerprint: Mapping[str, Any]
    before: BaselineScore | None
    updating: bool = False
    required: bool = False
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Ruling:
    """A threshold, its score and the verdict.

    Attributes:
        threshold: with the slice that it is on.
        score: of that slice; None where it cannot be computed.
        verdict: on the score.
        drop: the comparison with the baseline, or None.
        slices: with `by`, one ruling for each value of the tag, the worst first; this one is the first of them.
    """

    threshold: Threshold
    score: Score | None
    verdict: Verdict
    drop: DropTest | None = None
    slices: tuple["Ruling", ...] = ()

    @property
    def comparison(self) -> Comparison | None:
        """The examples of the baseline and of now."""
        return None if self.drop is None else self.drop.comparison


def rule(score: Score, threshold: Threshold, baseline: BaselineLookup, *, alpha: float) -> Ruling:
    """Rule on a threshold; a slice of which the baseline has no question has no baseline yet.

    Args:
        score: of the whole eval set.
        threshold: with its slice.
        baseline: of the score.
        alpha: the level of this threshold; with `by` it is divided among the values of the tag.

    Raises:
        InputError: no example has the tag of `where` or `by`.
        TooManyUnscoredError: the slice of `where` has no score.
    """
    whole = score.where(**threshold.where) if threshold.where else score
    if threshold.by is None:
        return _ruled(whole, threshold, baseline, alpha)
    values = _values(whole, threshold.by)
    rulings = []
    for value in values:
        sliced = replace(threshold, where={**threshold.where, threshold.by: value})
        try:
            rulings.append(_ruled(whole.where(**sliced.where), sliced, baseline, alpha / len(values)))
        except RagevalError as error:
            rulings.append(Ruling(sliced, None, Verdict("error", str(error))))
    rulings.sort(key=_worst_first)
    return replace(rulings[0], slices=tuple(rulings))


def _ruled(score: Score, threshold: Threshold, baseline: BaselineLookup, alpha: float) -> Ruling:
    if threshold.max_drop is None:
        return Ruling(threshold, score, verdict_on(score, threshold))
    if baseline.updating:
        bounded = verdict_on(score, replace(threshold, max_drop=None))
        if bounded.status == "pass":
            bounded = replace(bounded, reason=f"{score:.3f} is the new baseline")
        return Ruling(threshold, score, bounded)
    before = None if _is_new(score, baseline.before) else baseline.before
    drop = None
    try:
        if baseline.missing:
            raise StaleBaselineError(f"{score.name}: {baseline.missing}")
        if before is not None:
            drop = drop_test(
                compared(score, baseline.fingerprint, before),
                max_drop=threshold.max_drop,
                strict=threshold.strict,
                alpha=alpha,
                largest=score.scale[1] - score.scale[0],
                seed=score.seed,
            )
    except RagevalError as error:
        # A violated bound fails, whatever the baseline.
        bounded = verdict_on(score, replace(threshold, max_drop=None))
        if bounded.status == "fail":
            return Ruling(threshold, score, replace(bounded, warnings=(*bounded.warnings, str(error))))
        return Ruling(threshold, score, Verdict("error", str(error)))
    verdict = verdict_on(score, threshold, drop)
    if before is None and baseline.required and verdict.status == "pass":
        verdict = Verdict(
            "error", f"{score.name}: {verdict.reason} (--rageval-require-baseline, the default under CI=true)"
        )
    return Ruling(threshold, score, verdict, drop)


def _is_new(score: Score, before: BaselineScore | None) -> bool:
    """Whether the score is of a slice of which the baseline has no question.

    A whole set is never new: a changed set would not be compared at all.
    """
    return bool(score.slice) and not any(
        before is not None and outcome.example.id in before.questions for outcome in score.outcomes
    )


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
        if threshold.max_drop is not None and ruling.drop is not None:
            margins.append(threshold.max_drop - ruling.drop.comparison.drop)
        margin = min(margins, default=float(ruling.score))
    return WORST_FIRST.index(ruling.verdict.status), margin, str(ruling.threshold.where)


def verdict_on(score: Score, threshold: Threshold, drop: DropTest | None = None) -> Verdict:
    """Compare the mean with the bounds, in full precision; a mean on a bound passes.

    Examples at which the retriever failed count for `min` and `max` with the worst possible score: else
    failing at the questions that it loses would help a retriever. Warnings name bounds that examples
    without a score could violate, bounds within the spread of repeated runs, and drops that `max_drop`
    could not see among examples that cannot be compared.

    Args:
        score: of the threshold's slice.
        threshold: its bounds.
        drop: the comparison with the baseline; None where there is none, which passes with a warning.

    Returns:
        `fail` where a bound is violated: `max_drop` by a drop that is larger and significant, or with
        `strict` by one that is not excluded. `inconclusive` where a larger drop is not significant.
    """
    verdict = _verdict(score, threshold, drop)
    warnings = list(verdict.warnings)
    if verdict.status != "fail":
        warnings += (text for _, text in _beyond(score, threshold, "retriever", "run"))
        warnings += _unseen_drop(score, threshold, drop)
    if verdict.status == "pass" and not threshold.strict:
        warnings += _powerless(drop)
    warnings += _within_spread(score, threshold, drop)
    return replace(verdict, warnings=tuple(warnings))


def _verdict(score: Score, threshold: Threshold, drop: DropTest | None) -> Verdict:
    below = threshold.min is not None and score < threshold.min - ROUNDING
    above = threshold.max is not None and score > threshold.max + ROUNDING
    violated = []
    if threshold.min is not None and below:
        violated.append(f"{_digits(score, threshold.min)} is below the minimum {threshold.min:g}")
    if threshold.max is not None and above:
        violated.append(f"{_digits(score, threshold.max)} is above the maximum {threshold.max:g}")
    listed = {"min": below, "max": above}
    violated += (text for word, text in _beyond(score, threshold, "retriever") if not listed[word])
    dropped = _on_drop(score, threshold, drop)
    if not violated:
        return dropped
    if dropped.status == "fail":
        violated.append(dropped.reason)
    return Verdict("fail", "; ".join(violated), dropped.warnings)


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


def _on_drop(score: Score, threshold: Threshold, drop: DropTest | None) -> Verdict:
    if threshold.max_drop is None:
        return Verdict("pass", f"{score:.3f} is within bounds")
    if drop is None:
        text = f"{score:.3f} has no baseline yet to compare with; --rageval-update-baseline writes one"
        return Verdict("pass", text, (text,))
    max_drop = threshold.max_drop
    distance = f"{_distance(score, drop, max_drop)}{_over(drop)}"
    if threshold.strict:
        excluded = "excluded" if drop.significant else "not excluded"
        text = f"{distance}; a drop of {max_drop:g} is {excluded} ({_p_value(drop)})"
        return Verdict("pass", text) if drop.significant else Verdict("fail", f"{text}{_power(score, drop)}")
    if drop.comparison.drop <= max_drop + ROUNDING:
        return Verdict("pass", f"{distance}, within the allowed drop of {max_drop:g}")
    beyond = f"{distance}, more than the allowed {max_drop:g}"
    if drop.significant:
        return Verdict("fail", f"{beyond}, and significant ({_p_value(drop)})")
    text = f"{beyond}, but not significant ({_p_value(drop)}){_power(score, drop)}"
    return Verdict("inconclusive", text, (text,))


def _within_spread(score: Score, threshold: Threshold, drop: DropTest | None) -> Iterator[str]:
    """Warnings about bounds that are closer to the mean than the spread of repeated runs."""
    spread = score.spread or 0.0
    now = float(score)
    bounds = [("min", threshold.min, now), ("max", threshold.max, now)]
    if threshold.max_drop is not None and drop is not None:
        before, lost = drop.comparison.mean, drop.comparison.drop
        bounds.append(("max_drop", before - threshold.max_drop, before - lost))
    for word, bound, mean in bounds:
        if bound is not None and abs(mean - bound) < spread:
            at = f" ({bound:.3f})" if word == "max_drop" else f" {bound:g}"
            yield (
                f"{word}{at} is {abs(mean - bound):.3f} from {mean:.3f}, and runs differ by {spread:.3f}: "
                "another run may end on the other side"
            )


def _unseen_drop(score: Score, threshold: Threshold, drop: DropTest | None) -> Iterator[str]:
    """A warning where examples that cannot be compared may hide a larger drop than is allowed."""
    if threshold.max_drop is None or drop is None:
        return
    new, lost = drop.comparison.new, [outcome.example.id for outcome in drop.comparison.lost]
    lowest, highest = score.reach
    unseen = new + len(lost)
    whole = len(drop.comparison.changes) + unseen
    if unseen * (highest - lowest) <= threshold.max_drop * whole + ROUNDING:
        return
    text = f"a drop among {unseen} of {whole} examples would not be seen"
    if lost:
        text += f"; {len(lost)} had a score in the baseline and have none now: {_ids(lost)}"
    if new:
        text += (
            f"; {new} have no score in the baseline, as they are now: write it anew on the commit to compare "
            "with, --rageval-update-baseline"
        )
    yield text


def _powerless(drop: DropTest | None) -> Iterator[str]:
    """A warning where no drop could fail: the smallest p-value, with all signs equal, is 2^-n."""
    n = 0 if drop is None else len(drop.comparison.changes)
    if drop is not None and 0.5**n > drop.alpha:
        needed = ceil(log2(1 / drop.alpha))
        yield (
            f"{n} examples can show no drop, should all of them get worse (p = {0.5**n:.2g} > {drop.alpha:.2g}); "
            f"{needed} are the least"
        )


def _distance(score: Score, drop: DropTest, max_drop: float) -> str:
    before, lost = drop.comparison.mean, drop.comparison.drop
    now = before - lost
    if abs(lost) <= ROUNDING:
        return f"{now:.3f} is the baseline's"
    how = "below" if lost > 0 else "above"
    over = "without those" if drop.comparison.failed else "over all"
    whole = "" if abs(now - score) <= ROUNDING else f" ({score:.3f} {over})"
    by = _digits(lost, max_drop) if lost > max_drop + ROUNDING else f"{abs(lost):.3f}"
    return f"{now:.3f}{whole} is {by} {how} the baseline's {before:.3f}"


def _over(drop: DropTest) -> str:
    """Which examples are compared; empty for all."""
    parts = []
    if failed := drop.comparison.failed:
        lowest = failed[0].value
        parts.append(
            f"{len(failed)} have no score, since the retriever failed, and count as {lowest:g}: {_reasons(failed)}"
        )
    if drop.comparison.left_out:
        parts.append(f"{drop.comparison.left_out} are not the same in the baseline")
    if drop.comparison.unscored:
        parts.append(f"{drop.comparison.unscored} have no score now or then")
    return f" over {len(drop.comparison.changes)} examples ({', '.join(parts)})" if parts else ""


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
    return f": {'; '.join(parts)}" if parts else ""


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
