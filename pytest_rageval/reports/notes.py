"""Builds the notes below a score: as keys of the score's entry in the report, and as text from these keys.

- An entry function (`…_entry`) returns keys of the entry as a dict. The dict is empty if there is no note.
- A text function (`…_text`) returns a note as a line of text from an entry that has the keys. The line is empty if
  there is no note. `NOTE_TEXTS` has the text functions of the notes below the rows of the table of scores.

Notes without an entry function have keys that the definitions of some scores add (`ScoreDef.notes`); the texts of keys
that one method of scoring adds are in its module.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, cast

from pytest_rageval.core.extensions import declared
from pytest_rageval.core.outcome import REFERENCE_LATENCY, Outcome, Score, Tally
from pytest_rageval.core.policy import NOTABLE_DESIGN_EFFECT
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import counted, join_counted, join_first
from pytest_rageval.stats.intervals import MEAN

if TYPE_CHECKING:
    from pytest_rageval.gate.comparison import Comparison
    from pytest_rageval.gate.drop_tests import DropTestResult
    from pytest_rageval.gate.verdict import ThresholdResult
    from pytest_rageval.reports.document import ComparisonEntry, ExampleEntry, ScoreEntry

# Few scores are compared.
AnchorPin: Final = Lazy("baseline.entries", "AnchorPin")
drop_interval_text: Final = Lazy("gate.sentences", "drop_interval_text")

NoteText = Callable[["ScoreEntry"], str]

MAX_REASONS: Final = 5  # maximum number of different reasons in a note

MAX_BETTER_IDS: Final = 8  # maximum number of ids of questions that got better in a note


def _reasons_text(key: str, entry: Mapping[str, Any]) -> str:
    """Return the most common reasons: "4 unscored: 4 × no gold passages". `key` is "unscored" or "undefined"."""
    if not entry[key]:
        return ""
    examples = entry.get("examples", ())
    reasons = Counter(" ".join(example[key].split()) for example in examples if example.get(key) is not None)
    if not reasons:
        return ""
    texts = [f"{count} × {reason}" for reason, count in reasons.most_common()]
    return f"{reasons.total()} {key}: {join_counted(texts, MAX_REASONS, ' reasons')}"


def comparisons_entry(result: "ThresholdResult") -> dict[str, object]:
    """Return the keys `baseline`, `anchor` and `reference`: the comparison with each of them, and its test."""
    entry: dict[str, object] = {"baseline": None}
    if result.comparison is not None and not result.stopped_early:
        entry["baseline"] = _comparison_entry(result.comparison, result.drop)
    if result.anchor is not None and (pin := result.anchor.comparison.before.pin) is not None:
        entry["anchor"] = {**pin._asdict(), **_comparison_entry(result.anchor.comparison, result.anchor)}
    if (ratio_test := result.ratio) is not None:
        entry["reference"] = {
            "value": ratio_test.reference,
            "ratio": ratio_test.ratio,
            "interval": ratio_test.interval and list(ratio_test.interval),
            "n": ratio_test.n,
        }
    return entry


def _comparison_entry(comparison: "Comparison", test: "DropTestResult | None") -> "ComparisonEntry":
    entry: ComparisonEntry = {
        "mean": comparison.mean,
        "drop": comparison.drop,
        "n": comparison.n,
        "left_out": len(comparison.changes),
        "removed": len(comparison.changes.removed),
        "new": len(comparison.changes.new),
        "edited": len(comparison.changes.edited),
        "unscored": comparison.unscored,
    }
    if comparison.failed:
        entry["failed"] = [outcome.example.id for outcome in comparison.failed]
    if test is not None:
        entry |= {
            "interval": list(test.interval),
            "p_value": test.p_value,
            "alpha": test.alpha,
            "detectable_drop": test.detectable_drop,
            "examples_needed": test.examples_needed,
            "design_effect": test.design_effect,
        }
        entry |= {} if test.n_clusters is None else {"clusters": test.n_clusters}
    return entry | {
        "worse": [change.outcome.example.id for change in comparison.worse],
        "better": [change.outcome.example.id for change in comparison.better],
    }


def _baseline_text(entry: "ScoreEntry") -> str:
    """Return the comparison with the baseline: "baseline 0.792, drop 0.029 (p = 0.21)"."""
    baseline = cast("ComparisonEntry", entry["baseline"])
    return _comparison_text(entry, baseline, f"baseline {baseline['mean']:.3f}")


def _anchor_text(entry: "ScoreEntry") -> str:
    """Return the comparison with the anchor: "anchor 0.876 (pinned at 1a2b3c4, 7 updates ago), drop 0.064 (…)"."""
    anchor = entry["anchor"]
    pin = AnchorPin(anchor["commit"], anchor["date"], anchor["updates"])
    return _comparison_text(entry, anchor, f"anchor {anchor['mean']:.3f} ({pin})")


def p_of_drop(entry: "ScoreEntry", comparison: "ComparisonEntry") -> float | None:
    """Return the p-value of the test of a drop, which says nothing about a gain; a strict one excludes a drop."""
    is_told = comparison["drop"] > 0 or (entry["threshold"] or {}).get("strict")
    return comparison.get("p_value") if is_told else None


def _comparison_text(entry: "ScoreEntry", baseline: "ComparisonEntry", name: str) -> str:
    n = baseline["n"]
    failed = len(baseline.get("failed", ()))
    examples = entry["n"] + failed
    over = f" over {n} of {examples}" if n != examples else ""
    over += f", {failed} without a score counted as lost" if failed else ""
    over += "".join(f", {baseline[key]} {key}" for key in ("removed", "new", "edited") if baseline.get(key))
    drop = baseline["drop"]
    parts = []
    if drop and "interval" in baseline:
        low, high = sorted(bound if drop > 0 else -bound for bound in baseline["interval"])
        parts = [drop_interval_text(low, high, baseline["alpha"])]
    parts += [] if (p_value := p_of_drop(entry, baseline)) is None else [f"p = {p_value:.2g}"]
    parts += [f"{len(baseline['worse'])} of {n} worse"] if baseline["worse"] else []
    changes = [", ".join(parts)] if parts else []
    if better := baseline["better"]:
        changes.append(f"{len(better)} better: {join_first(better, MAX_BETTER_IDS)}")
    change = f"drop {drop:.3f}" if drop > 0 else f"gain {-drop:.3f}" if drop < 0 else "no change"
    text = f"{name}{over}, {change}" + (f" ({'; '.join(changes)})" if changes else "")
    effect = baseline.get("design_effect", 1.0)
    is_notable = effect >= NOTABLE_DESIGN_EFFECT and "clusters" not in baseline
    return f"{text}; design effect of shared gold {effect:.1f}" if is_notable else text


def _reference_text(entry: "ScoreEntry") -> str:
    """Return the ratio of latencies: "3.021 times the reference's 0.2 s [2.850, 3.204]"."""
    reference = entry["reference"]
    interval = reference["interval"]
    spread = "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
    return f"{reference['ratio']:.3f} times the reference's {reference['value']:.3g} s{spread}"


def change_text(entry: "ScoreEntry", *, p_value: bool = False) -> str:
    """Return the change of a score from its baseline: "−0.029", or "±0"; empty without a baseline."""
    baseline = entry.get("baseline")
    if baseline is None:
        return ""
    drop = baseline["drop"]
    if not drop:
        return "±0"
    p = p_of_drop(entry, baseline) if p_value else None
    chance = "" if p is None else f" (p = {p:.2g})"
    return f"{'−' if drop > 0 else '+'}{abs(drop):.3f}{chance}"


def significant_gain(entry: "ScoreEntry") -> float | None:
    baseline = entry.get("baseline") or {}
    is_gain = baseline.get("interval", (0, 0))[1] < 0 and entry["verdict"] == "pass"
    return -baseline["drop"] if is_gain else None


def slices_entry(result: "ThresholdResult") -> dict[str, object]:
    if not (tag := result.threshold.by):
        return {}
    slices = [
        {
            "value": part.threshold.where[tag],
            **mean_entry(part.score),
            **comparisons_entry(part),
            "verdict": part.verdict.status,
            "reason": part.verdict.reason,
            **warnings_entry(part.verdict.warnings),
        }
        for part in result.slices
    ]
    return {"by": {"tag": tag, "slices": slices, **({"outside": result.outside} if result.outside else {})}}


def mean_entry(score: Score | None) -> dict[str, object]:
    if score is None:
        return {"mean": None, "ci95": None, "n": 0, "unscored": 0, "undefined": 0}
    statistic = {} if score.statistic == MEAN else {"statistic": score.statistic.name}
    return {
        "mean": float(score),
        **statistic,
        "ci95": score.ci95 and list(score.ci95),
        "n": score.n,
        "unscored": score.unscored,
        "undefined": score.undefined,
    }


def warnings_entry(warnings: Sequence[str]) -> dict[str, list[str]]:
    return {"warnings": list(warnings)} if warnings else {}


def _slices_text(entry: "ScoreEntry") -> str:
    """Return the slices: "the worst of 3 by topic; then shipping 0.700 fail, account 0.900 pass"."""
    others = [
        f"{item['value']} {'-' if item['mean'] is None else format(item['mean'], '.3f')} {item['verdict']}"
        for item in entry["by"]["slices"][1:]
    ]
    tag, outside = entry["by"]["tag"], entry["by"].get("outside", 0)
    worst = f"the worst of {len(others) + 1} by {tag}"
    then = f"; then {', '.join(others)}" if others else ""
    return f"{worst}{then}{f'; {outside} without {tag} are in none of them' if outside else ''}"


def slice_warnings(entry: "ScoreEntry") -> Iterator[tuple[dict[str, object], str]]:
    """Yield each warning of the slices of a threshold with `by`, after the slice.

    The worst slice is left out: its warnings are the warnings of the entry itself.
    """
    for item in entry["by"]["slices"][1:] if "by" in entry else ():
        for warning in item.get("warnings", ()):
            yield {**entry["where"], entry["by"]["tag"]: item["value"]}, warning


def repeats_entry(score: Score) -> dict[str, object]:
    """Return the keys `spread` and `runs`, and `partly_scored` if some examples have no score in some runs."""
    if score.spread is None:
        return {}
    partly = {"partly_scored": score.partly_scored} if score.partly_scored else {}
    return {"spread": score.spread, "runs": len(score.repeats) + 1, **partly}


def _repeats_text(entry: "ScoreEntry") -> str:
    partly_scored = entry.get("partly_scored", 0)
    verb = "has" if partly_scored == 1 else "have"
    partly = f"; {partly_scored} {verb} no score in some of them" if partly_scored else ""
    return f"run-to-run spread {entry['spread']:.3f} over {entry['runs']} runs{partly}"


def companion_entry(score: Score) -> dict[str, object]:
    """Return the key `beside`: the mean of each companion score, over the examples that have the companion score.

    The score of the reference retriever is left out: it has the key `reference`.
    """
    rows = [outcome.evidence.beside for outcome in score.outcomes]
    names = [name for name in dict.fromkeys(chain.from_iterable(rows)) if name != REFERENCE_LATENCY]
    means = {name: fmean([row[name] for row in rows if name in row]) for name in names}
    return {"beside": means} if means else {}


def _companion_text(entry: "ScoreEntry") -> str:
    return f"for comparison {', '.join(f'{name} {mean:.3f}' for name, mean in entry['beside'].items())}"


def scores_by_id(examples: Iterable["ExampleEntry"]) -> dict[str, float]:
    return {example["id"]: example["score"] for example in examples if example["score"] is not None}


def common_entry(entry: Mapping[str, Any], name: str, other: Mapping[str, Any]) -> dict[str, object]:
    other_scores = scores_by_id(other["examples"])
    pairs = [
        (score, other_scores[name])
        for name, score in scores_by_id(entry["examples"]).items()
        if name in other_scores
    ]
    if not pairs or len(pairs) == entry["n"] == other["n"]:
        return {}
    own, others = zip(*pairs, strict=True)
    return {"common": {"with": name, "n": len(pairs), "mean": fmean(own), "other": fmean(others)}}


def _common_text(entry: "ScoreEntry") -> str:
    """Return both means: "over the 41 questions in common with rel.citation@5: 0.671, and there 0.203"."""
    common = entry["common"]
    shared = f"over the {counted(common['n'], 'question')} in common with {common['with']}"
    return f"{shared}: {common['mean']:.3f}, and there {common['other']:.3f}"


def _ignored_text(entry: "ScoreEntry") -> str:
    keywords = ", ".join(f"{keyword}={value!r}" for keyword, value in entry["ignored"].items())
    return f"{keywords} changes nothing here: the score has no answer from several passages"


def count_causes(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Return the number of lost questions by cause, the largest number first; empty if no cause is known."""
    causes = (outcome.lost_by for outcome in outcomes if outcome.lost_by is not None)
    return dict(Counter(causes).most_common())


def votes_entry(score: Score) -> dict[str, object]:
    tally = score.votes
    rates = {"flip_rate": tally.flip_rate, "minority_rate": tally.minority_rate}
    return {"judge_votes": asdict(tally) | rates} if tally.verdicts else {}


def _votes_text(entry: "ScoreEntry") -> str:
    """Return the rates: "flip rate 25.0% (1 of 4 verdicts), minority 9.1% (1 of 11 votes)"."""
    tally = Tally(**{name: entry["judge_votes"][name] for name in asdict(Tally())})
    unread = f", {counted(tally.unread, 'vote')} not read" if tally.unread else ""
    return (
        f"flip rate {tally.flip_rate:.1%} ({tally.split} of {counted(tally.verdicts, 'verdict')}), "
        f"minority {tally.minority_rate:.1%} ({tally.minority} of {tally.votes} votes){unread}"
    )


def calibration_lines(entry: Mapping[str, Any]) -> list[str]:
    by = f", compared by {entry['comparator']}" if "comparator" in entry else ""
    left_out = "".join(f", {entry[key]} {key}" for key in ("unscored", "undecided") if entry[key])
    unusable = entry.get("unusable", [])
    left_out += f", {len(unusable)} unusable" if unusable else ""
    bounds = entry.get("threshold") or {}
    measures = []
    for name, estimate in entry["agreement"].items():
        bound = bounds.get(f"min_{name}")
        measures.append(f"{name} {_with_interval(estimate)}{'' if bound is None else f' (≥ {bound:g})'}")
    verdict = f": {entry['verdict']}" if entry.get("verdict") else ""
    labels = f"{entry['labels']}, n = {entry['n']}{left_out}{by}"
    lines = [f"judge against people ({labels}): {', '.join(measures)}{verdict}"]
    people = entry["people"]
    if people is not None:
        measure = next(iter(entry["agreement"]))
        lines.append(
            f"people among themselves: {measure} {_number(people['among'])}, the judge with each of them "
            f"{_number(people['judge'])} ({people['annotators']} annotators, n = {people['n']})"
        )
    if unusable:
        more = f"; and {len(unusable) - 1} more" if len(unusable) > 1 else ""
        lines.append(f"left out: {unusable[0].rstrip('.')}{more}")
    return lines


def _with_interval(estimate: Mapping[str, Any] | None) -> str:
    if estimate is None:
        return "undefined"
    low, high = estimate["ci95"]
    return f"{estimate['value']:.3f} [{low:.3f}, {high:.3f}]"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def _with_declared(texts: Mapping[str, NoteText]) -> Mapping[str, NoteText]:
    """Return the texts with those that extensions declare, each after the note that it names."""
    items = [*texts.items()]
    for key, (after, text) in declared("NOTES").items():
        items.insert([name for name, _ in items].index(after) + 1, (key, text))
    return dict(items)


NOTE_TEXTS: Final = _with_declared(
    {
        "ignored": _ignored_text,
        "unscored": partial(_reasons_text, "unscored"),
        "undefined": partial(_reasons_text, "undefined"),
        "baseline": _baseline_text,
        "anchor": _anchor_text,
        "reference": _reference_text,
        "by": _slices_text,
        "spread": _repeats_text,
        "beside": _companion_text,
        "pooled": Lazy("scores.rel_recall", "pooled_text"),
        "common": _common_text,
        "ceiling": Lazy("scores.llm_reteval", "ceiling_text"),
        "judge_votes": _votes_text,
        "arena": Lazy("scores.arena", "arena_text"),
        "domains": Lazy("scores.arena", "domains_text"),
        "strata": Lazy("scores.sufficiency", "strata_text"),
    }
)
"""The text functions of the notes below the row of a score, in the order of the notes.

The key is a key of the entry. The function is called if the entry has a value for the key.
"""
