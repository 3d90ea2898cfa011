"""The verdict on a score: whether it is within the bounds of its threshold, and the reason in words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import TYPE_CHECKING, Final, Literal

from pytest_rageval.errors import Cause
from pytest_rageval.gate.comparison import Comparison
from pytest_rageval.gate.drops import DropTest
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.plural import counted, join_first
from pytest_rageval.scores import Outcome, Score

if TYPE_CHECKING:
    from pytest_rageval.gate.ratio import RatioTest

__all__ = [
    "FEW_CLUSTERS",
    "ROUNDING",
    "WORST_FIRST",
    "Verdict",
    "drop_text",
    "p_value_text",
    "uncounted",
    "unseen_drop",
    "verdict_on",
]

Status = Literal["pass", "inconclusive", "fail", "error"]

WORST_FIRST: Final[tuple[Status, ...]] = ("error", "fail", "inconclusive", "pass")

ROUNDING: Final = 1e-12
"""The mean of n equal numbers can differ from them in the last bit; that is not a regression."""

IDS: Final = 10  # number of examples without a score whose ids are listed

FEW_CLUSTERS: Final = 20
"""With fewer clusters the test of a drop has little power, and its level is only approximate."""

REASONS: Final = 3  # number of different reasons for a missing score that are listed


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a threshold.

    Attributes:
        status: `inconclusive` passes.
        reason: why, in a sentence.
        warnings: shown also where the test passes.
        brief: of a failure, the violated bounds, such as "0.593 < 0.85; drop 0.346 > 0.02".
    """

    status: Status
    reason: str
    warnings: tuple[str, ...] = ()
    brief: str = ""


def verdict_on(  # noqa: PLR0913, PLR0917 - all that a bound can be compared with
    score: Score,
    threshold: Threshold,
    comparison: Comparison | None = None,
    drop: DropTest | None = None,
    anchor: DropTest | None = None,
    ratio: "RatioTest | None" = None,
) -> Verdict:
    """Compare the mean with the bounds, in full precision; a mean on a bound passes.

    Examples on which the retriever failed count for `min` and `max` with the worst possible score: otherwise failing
        on the questions that it loses would help a retriever. Warnings name bounds that examples
    without a score could violate, bounds within the spread of repeated runs, and drops that `max_drop`
    could not see among examples that cannot be compared.

    Args:
        score: of the threshold's slice.
        threshold: its bounds.
        comparison: with the baseline; None where there is none, which passes with a warning.
        drop: the test of `max_drop`; None without it.
        anchor: the test of `max_total_drop`; None without it, or without an anchor, which passes with a warning.
        ratio: the comparison of `max_ratio` with the reference; None without it.

    Returns:
        `fail` where a bound is violated: `max_drop` or `max_total_drop` by a drop that is larger and significant,
        or with `strict` by one that is not excluded. A larger drop that is not significant is `inconclusive`, or
        `fail` with `inconclusive="fail"`. So it is with `max_ratio`.
    """
    verdict = _verdict(score, threshold, comparison, drop, anchor, ratio)
    warnings = list(verdict.warnings)
    if verdict.status != "fail":
        warnings += (text for _, text in _beyond(score, threshold, "retriever", "run"))
    compared = [(threshold, comparison, drop, verdict.status)]
    if anchor is not None:
        total = threshold.since_anchor(0)
        compared.append((total, anchor.comparison, anchor, _on_drop(score, total, anchor).status))
    for bounds, against, test, status in compared:
        if verdict.status != "fail":
            warnings += unseen_drop(score, bounds, against)
        if test is not None:
            warnings += _doubts(test, status)
        warnings += _within_spread(score, bounds, against)
        warnings += _uneven(score, against)
    return replace(verdict, warnings=tuple(warnings))


def _verdict(  # noqa: PLR0913, PLR0917 - as verdict_on
    score: Score,
    threshold: Threshold,
    comparison: Comparison | None,
    drop: DropTest | None,
    anchor: DropTest | None,
    ratio: "RatioTest | None",
) -> Verdict:
    violated = {}
    for keyword, bound, how, sign in _sides(threshold):
        if _is_beyond(float(score), keyword, bound):
            shown = _digits(score, bound)
            violated[keyword] = f"{shown} is {how} {bound:g}", f"{shown} {sign} {bound:g}"
    for keyword, text in _beyond(score, threshold, "retriever"):
        violated.setdefault(keyword, (text, f"{keyword} is violated where the retriever failed"))
    if ratio is not None and threshold.max_ratio is not None:
        compared = _on_ratio(score, threshold, threshold.max_ratio, ratio)
    else:
        compared = _on_baseline(score, threshold, comparison, drop, anchor)
    if not violated:
        return compared
    if compared.status == "fail":
        violated["compared"] = compared.reason, compared.brief
    reasons, briefs = zip(*violated.values(), strict=True)
    return Verdict("fail", "; ".join(reasons), compared.warnings, "; ".join(briefs))


def _sides(threshold: Threshold) -> Iterator[tuple[str, float, str, str]]:
    """The bounds that are set: name and value, and how a mean beyond it is described."""
    if threshold.min is not None:
        yield "min", threshold.min, "below the minimum", "<"
    if threshold.max is not None:
        yield "max", threshold.max, "above the maximum", ">"


def _is_beyond(mean: float, keyword: str, bound: float) -> bool:
    return mean < bound - ROUNDING if keyword == "min" else mean > bound + ROUNDING


def uncounted(score: Score) -> Iterator[str]:
    """A warning for a score without bounds: its mean excludes the examples on which the retriever failed."""
    lost = score.lacking("retriever")
    if lost:
        mean = score.counting(score.reach[0], "retriever")
        yield f"{_excluded(score, lost)}; with {score.reach[0]:g} for each of them it would be {mean:.3f}"


def _beyond(score: Score, threshold: Threshold, *causes: Cause) -> Iterator[tuple[str, str]]:
    """The bounds that examples unscored for these causes could violate: each bound's name, and how."""
    lacking = score.lacking(*causes)
    if not lacking:
        return
    for keyword, bound, how, _ in _sides(threshold):
        worst = score.reach[keyword == "max"]
        mean = score.counting(worst, *causes)
        if _is_beyond(mean, keyword, bound):
            text = f"{_excluded(score, lacking)}; with {worst:g} for each of them it would be {_digits(mean, bound)}"
            yield keyword, f"{score:.3f} is {text}, {how} {bound:g}"


def _excluded(score: Score, lacking: Sequence[Outcome]) -> str:
    """Say how many examples the mean leaves out, and why."""
    some = "1 example that has" if len(lacking) == 1 else f"{len(lacking)} examples that have"
    return f"the {score.statistic.name} without {some} no score: {_reasons(lacking)}"


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
    return join_first(names, IDS)


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


def _on_ratio(score: Score, threshold: Threshold, allowed: float, test: "RatioTest") -> Verdict:
    found = _digits(test.ratio, allowed)
    spread = "" if test.interval is None else " [{:.3f}, {:.3f}]".format(*test.interval)
    text = (
        f"{score:.3g} s is {found} times the reference's {test.reference:.3g} s{spread}, allowed {allowed:g}"
    )
    if test.ratio <= allowed + ROUNDING:
        return Verdict("pass", text)
    brief = f"{found} times the reference > {allowed:g}"
    if test.interval is not None and test.interval[0] > allowed:
        return Verdict("fail", f"{text}: significantly more, as the whole 95% interval is above", brief=brief)
    why = (
        "the 95% interval is not wholly above"
        if test.interval is not None
        else f"{counted(test.n, 'example')} are too few to show it, at least {test.least} are needed"
    )
    text += f": not significantly more, as {why}"
    if threshold.inconclusive == "fail":
        return Verdict("fail", f"{text}; inconclusive is set to fail", brief=brief)
    return Verdict("inconclusive", text, (text,))


def _on_lost(score: Score, threshold: Threshold, comparison: Comparison) -> Verdict:
    least = threshold.tolerance + ROUNDING
    lost = [change.outcome.example.id for change in comparison.worse if change.drop > least]
    by = f" by more than {threshold.tolerance:g}" if threshold.tolerance else ""
    text = (
        f"{score:.3f}: {len(lost)} of {counted(comparison.n, 'example')} score less than in the "
        f"baseline{by}, allowed {threshold.max_lost}"
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
    text = f"{drop_text(score, drop, max_drop)}, allowed {max_drop:g}"
    larger = f"a drop of more than {max_drop:g}"
    if threshold.strict:
        excluded = "excluded" if drop.significant else "not excluded"
        text += f": a drop of {max_drop:g} is {excluded} ({p_value_text(drop)})"
        if drop.significant:
            return Verdict("pass", text)
        return Verdict("fail", f"{text}{_power(score, drop)}", brief=f"drop of {max_drop:g} not excluded")
    if drop.comparison.drop <= max_drop + ROUNDING:
        return Verdict("pass", text)
    brief = f"drop {_digits(drop.comparison.drop, max_drop)} > {max_drop:g}"
    # Above 0 the interval, which agrees with the test, says more than that something dropped.
    if drop.significant and (drop.beyond or drop.interval[0] >= max_drop):
        text += f": {larger} is significant ({p_value_text(drop)})"
    elif drop.significant:
        text += f": a drop is significant ({p_value_text(drop)}), one of more than {max_drop:g} is not"
    if drop.significant:
        return Verdict("fail", text, brief=brief)
    found = larger if drop.beyond else "a drop"
    text += f": {found} is not significant ({p_value_text(drop)}){_power(score, drop)}"
    if threshold.inconclusive == "fail":
        return Verdict("fail", f"{text}; inconclusive is set to fail", brief=brief)
    return Verdict("inconclusive", text, (text,))


def _within_spread(score: Score, threshold: Threshold, comparison: Comparison | None) -> Iterator[str]:
    """Warnings about bounds that are closer to the mean over repeated runs than its standard error."""
    runs = len(score.repeats) + 1
    spread = (score.spread or 0.0) / sqrt(runs)
    bounds = [(f"{keyword} {bound:g}", bound, float(score)) for keyword, bound, _, _ in _sides(threshold)]
    if threshold.max_drop is not None and comparison is not None:
        keyword = "max_drop" if comparison.before.pin is None else "max_total_drop"
        bound = comparison.mean - threshold.max_drop
        bounds.append((f"{keyword} ({bound:.3f})", bound, comparison.mean - comparison.drop))
    for name, bound, mean in bounds:
        if abs(mean - bound) < spread:
            yield (
                f"{name} is {abs(mean - bound):.3f} from {mean:.3f}, and means of {runs} runs differ by "
                f"{spread:.3f}: the next one may be on the other side"
            )


def _uneven(score: Score, comparison: Comparison | None) -> Iterator[str]:
    """A warning where the scores before are means over another number of runs."""
    if comparison is None or (now := len(score.repeats) + 1) == (then := comparison.before.runs):
        return
    kind = comparison.before.kind
    pair = (
        f"the {kind}'s scores are of {then} run{'s' * (then != 1)} and these of {now} run{'s' * (now != 1)}"
    )
    if then < now:
        yield (
            f"{pair}: the {kind} is the noisier side; write it on the commit to compare with: "
            f"{comparison.before.options} --rageval-repeat {now}"
        )
    else:
        yield f"{pair}: this run is the noisier side; run with --rageval-repeat {then}"


def unseen_drop(
    score: Score, threshold: Threshold, comparison: Comparison | None, *, unasked: int = 0
) -> Iterator[str]:
    """A warning where examples that cannot be compared may hide a larger drop than is allowed, or more losses."""
    if comparison is None:
        return
    new, lost = comparison.new, [outcome.example.id for outcome in comparison.lost]
    lowest, highest = score.reach
    unseen = new + len(lost)
    whole = comparison.n + unasked + unseen
    drop_is_seen = (
        threshold.max_drop is None or unseen * (highest - lowest) <= threshold.max_drop * whole + ROUNDING
    )
    if drop_is_seen and (threshold.max_lost is None or len(lost) <= threshold.max_lost):
        return
    kind = comparison.before.kind
    since = "" if comparison.before.pin is None else f" since the {kind}"
    text = f"a drop{since} among {unseen} of {counted(whole, 'example')} would not be seen"
    if lost:
        text += f"; {len(lost)} had a score in the {kind} and have none now: {_ids(lost)}"
    if new:
        text += (
            f"; {new} have no score in the {kind}, in their present form: write it again on the commit to compare "
            f"with, {comparison.before.options}"
        )
    yield text


def _doubts(drop: DropTest, status: Status) -> Iterator[str]:
    """Warnings about the test of a drop."""
    n = drop.comparison.n
    units, what = (n, "examples") if drop.clusters is None else (drop.clusters, "clusters of examples")
    if status == "pass" and drop.least is not None and units < drop.least:
        p_value = 0.5 ** (units + 1)
        since = "" if drop.comparison.before.pin is None else " since the anchor"
        yield (
            f"{units} {what} cannot show a drop, even if all of them get worse{since} "
            f"(p = {p_value:.2g} > {drop.alpha:.2g}); at least {drop.least} are needed"
        )
    elif drop.clusters is not None and drop.clusters < FEW_CLUSTERS:
        have = counted(drop.clusters, "cluster")
        yield f"the {counted(n, 'example')} lie in {have}; a drop is shown reliably with {FEW_CLUSTERS} or more"
    if drop.skewed and status == "fail":
        yield (
            "the losses are many and small, or the gains few and large: with such differences this test raises more "
            "false alarms than alpha, with 60 examples or more it does not"
        )
    if not drop.settled and status == "inconclusive":
        yield "the p-value is too close to alpha for 1,000,000 random draws, and counts as not significant"


def drop_text(score: Score, drop: DropTest, max_drop: float) -> str:
    """The drop with its interval, and over which examples where these are not all.

    Such as "0.593: drop 0.346 [0.252, 0.437] from the anchor's 0.940 (pinned at 1a2b3c4, 7 updates ago)".
    """
    comparison = drop.comparison
    before, lost = comparison.mean, comparison.drop
    now = before - lost
    over = "without those" if comparison.failed else "over all"
    whole = "" if abs(now - score) <= ROUNDING else f" ({score:.3f} {over})"
    by = _digits(lost, max_drop) if lost > max_drop + ROUNDING else f"{_plain(lost):.3f}"
    low, high = (f"{_plain(bound):.3f}" for bound in drop.interval)
    pin = comparison.before.pin
    then = f"the {comparison.before.kind}'s {before:.3f}{'' if pin is None else f' ({pin})'}"
    return f"{now:.3f}{whole}: drop {by} [{low}, {high}] from {then}{_over(comparison)}"


def _plain(number: float) -> float:
    """The number without the sign of a rounded zero."""
    return round(number, 3) + 0.0


def _over(comparison: Comparison) -> str:
    """Say which examples the comparison leaves out or counts with the worst value; empty if it has all."""
    parts = []
    if failed := comparison.failed:
        lowest = failed[0].value
        parts.append(
            f"{len(failed)} have no score, since the retriever failed, and count as {lowest:g}: {_reasons(failed)}"
        )
    if comparison.left_out:
        parts.append(f"{comparison.left_out} new, edited or removed since the {comparison.before.kind}")
    if comparison.unscored:
        parts.append(f"{comparison.unscored} unscored now or before")
    n = comparison.n
    return f" over {counted(n, 'example')} ({', '.join(parts)})" if parts else ""


def _power(score: Score, drop: DropTest) -> str:
    """Say which drop this many examples can detect, and how many are needed; empty if unknown."""
    n = drop.comparison.n
    parts = []
    if drop.detectable is not None and drop.detectable <= drop.comparison.mean - score.reach[0]:
        parts.append(
            f"{n} {'example shows' if n == 1 else 'examples show'} a drop of {drop.detectable:.3f} at 80% power"
        )
    elif drop.detectable is not None:
        parts.append(
            f"{n} {'example is' if n == 1 else 'examples are'} too few to show any drop at 80% power"
        )
    if drop.needed is not None and drop.needed > n:
        parts.append(f"about {drop.needed:,} are needed")
    return "".join(f"; {part}" for part in parts)


def p_value_text(drop: DropTest) -> str:
    """The p-value and the level, in as many digits as distinguish them."""
    sign = "≤" if drop.significant else ">"
    both = ((f"{drop.p_value:.{digits}g}", f"{drop.alpha:.{digits}g}") for digits in range(2, 9))
    p_value, alpha = next((each for each in both if each[0] != each[1]), (drop.p_value, drop.alpha))
    return f"p = {p_value} {sign} {alpha}"


def _digits(score: float, bound: float) -> str:
    """The score in three digits, or in as many as show on which side of the bound it is."""
    shown = (f"{score:.{digits}f}" for digits in range(3, 12))
    return next((text for text in shown if (score - bound) * (float(text) - bound) > 0), f"{score:.12f}")
