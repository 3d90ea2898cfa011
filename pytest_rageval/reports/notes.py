"""Notes below a score: each as the keys of the score's entry, and as a line of text from these keys.

If there is no note, an entry function returns nothing, and a text function an empty line. Keys that only some scores
have come from the definitions of these scores.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, cast

from pytest_rageval.gate.comparison import AnchorPin, Comparison
from pytest_rageval.gate.drop_types import DropTestResult
from pytest_rageval.gate.threshold_results import ThresholdResult
from pytest_rageval.plural import counted, join_first
from pytest_rageval.reports.document import ComparisonEntry, ReferenceEntry, ScoreEntry
from pytest_rageval.scores import REFERENCE_LATENCY, Outcome, Score
from pytest_rageval.stats.agreement import Tally
from pytest_rageval.stats.intervals import MEAN

if TYPE_CHECKING:
    from pytest_rageval.datatypes import Example
    from pytest_rageval.gate.baseline_update import ScoreChange

__all__ = [
    "TEXTS",
    "anomalies_entry",
    "anomalies_text",
    "beside_entry",
    "common_entry",
    "compared_entry",
    "gained",
    "losses",
    "mean_entry",
    "moved_text",
    "repeats_entry",
    "short",
    "slice_warnings",
    "slices_entry",
    "update_text",
    "votes_entry",
    "warnings_entry",
    "why_all_zero",
]

REASONS: Final = 5  # how many different reasons are shown

NOTABLE: Final = 1.2
"""From this design effect on, a test that takes questions to be independent raises more false alarms than alpha."""

BETTER: Final = 8  # how many of the questions that got better are named


def short(rho: float) -> str:
    """Two decimals without the leading zero; 1 and -1 keep it.

    >>> short(0.583), short(-0.2), short(1.0)
    ('.58', '-.20', '1.00')
    """
    text = f"{rho:.2f}"
    return text if text.endswith("1.00") else text.replace("0.", ".", 1)


def _reasons_text(key: str, entry: Mapping[str, Any]) -> str:
    """Such as "4 unscored: 4 × no gold passages"."""
    examples = entry.get("examples", ())
    reasons = Counter(" ".join(each[key].split()) for each in examples if each.get(key) is not None)
    if not reasons:
        return ""
    shown = [f"{count} × {reason}" for reason, count in reasons.most_common(REASONS)]
    shown += [f"{len(reasons) - REASONS} more reasons"] if len(reasons) > REASONS else []
    return f"{reasons.total()} {key}: {', '.join(shown)}"


def compared_entry(ruling: ThresholdResult) -> dict[str, Any]:
    """The report's keys `baseline`, `anchor` and `reference`: the comparisons with them, and the tests of these."""
    entry: dict[str, Any] = {"baseline": None}
    if ruling.comparison is not None and not ruling.stopped_early:
        entry["baseline"] = _comparison_entry(ruling.comparison, ruling.drop)
    if ruling.anchor is not None and (pin := ruling.anchor.comparison.before.pin) is not None:
        entry["anchor"] = {**pin._asdict(), **_comparison_entry(ruling.anchor.comparison, ruling.anchor)}
    if (found := ruling.ratio) is not None:
        interval = found.interval and list(found.interval)
        entry["reference"] = ReferenceEntry(
            value=found.reference, ratio=found.ratio, interval=interval, n=found.n
        )
    return entry


def _comparison_entry(comparison: Comparison, test: DropTestResult | None) -> ComparisonEntry:
    """The examples that can be compared, and the test of their drop."""
    entry: ComparisonEntry = {
        "mean": comparison.mean,
        "drop": comparison.drop,
        "n": comparison.n,
        "left_out": comparison.left_out,
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


def _baseline_text(entry: ScoreEntry) -> str:
    """Such as "baseline 0.792, drop 0.029 (p = 0.21)"."""
    baseline = cast("ComparisonEntry", entry["baseline"])
    return _comparison_text(entry, baseline, f"baseline {baseline['mean']:.3f}")


def _anchor_text(entry: ScoreEntry) -> str:
    """Such as "anchor 0.876 (pinned at 1a2b3c4, 7 updates ago), drop 0.064 (p = 0.21)"."""
    anchor = entry["anchor"]
    pin = AnchorPin(anchor["commit"], anchor["date"], anchor["updates"])
    return _comparison_text(entry, anchor, f"anchor {anchor['mean']:.3f} ({pin})")


def _comparison_text(entry: ScoreEntry, baseline: ComparisonEntry, name: str) -> str:
    """Over other examples than the score's, with how many were compared: "baseline 0.792 over 55 of 60, …"."""
    n = baseline["n"]
    failed = len(baseline.get("failed", ()))
    examples = entry["n"] + failed
    over = f" over {n} of {examples}" if n != examples else ""
    over += f", {failed} without a score counted as lost" if failed else ""
    over += f", {baseline['left_out']} not the same" if baseline["left_out"] else ""
    parts = [f"p = {baseline['p_value']:.2g}"] if "p_value" in baseline else []
    parts += [f"{len(baseline['worse'])} of {n} worse"] if baseline["worse"] else []
    changes = [", ".join(parts)] if parts else []
    if better := baseline["better"]:
        changes.append(f"{len(better)} better: {join_first(better, BETTER)}")
    text = f"{name}{over}, {_drop_text(baseline)}" + (f" ({'; '.join(changes)})" if changes else "")
    effect = baseline.get("design_effect", 1.0)
    is_shared = effect >= NOTABLE and "clusters" not in baseline
    return f"{text}; design effect of shared gold {effect:.1f}" if is_shared else text


def _reference_text(entry: ScoreEntry) -> str:
    """Such as "3.021 times the reference's 0.2 s [2.850, 3.204]"."""
    reference = entry["reference"]
    interval = reference["interval"]
    spread = "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
    return f"{reference['ratio']:.3f} times the reference's {reference['value']:.3g} s{spread}"


def _early_stop_text(entry: ScoreEntry) -> str:
    """Such as "stopped early: 63 of 600 changed questions asked (1,400 unchanged), drop about 0.051"."""
    early = entry["early_stop"]
    asked = f"{early['changed']:,} changed questions asked ({early['unchanged']:,} unchanged)"
    if early["verdict"] is None:
        return f"all {asked}"
    drop = "" if early["drop"] is None else f", drop about {early['drop']:.3f}"
    return f"stopped early: {early['asked']:,} of {asked}{drop}"


def _canary_text(entry: ScoreEntry) -> str:
    canary = entry["canary"]
    return (
        f"canary: {counted(canary['questions'], 'question')} with the same passages, "
        f"{canary['before']:.3f} in the baseline, {canary['now']:.3f} with new replies (p = {canary['p_value']:.2g})"
    )


def _drop_text(baseline: ComparisonEntry) -> str:
    """The drop with its interval: "drop 0.029 [0.005, 0.056]"."""
    drop = baseline["drop"]
    moved = f"drop {drop:.3f}" if drop > 0 else f"gain {-drop:.3f}" if drop < 0 else "no change"
    if not drop or "interval" not in baseline:
        return moved
    low, high = sorted(bound if drop > 0 else -bound for bound in baseline["interval"])
    return f"{moved} [{low:.3f}, {high:.3f}]"


def moved_text(entry: ScoreEntry) -> str:
    """Return the change of a score from its baseline: "−0.029 (p = 0.21)", or "±0"."""
    baseline = entry.get("baseline")
    if baseline is None:
        return ""
    drop = baseline["drop"]
    if not drop:
        return "±0"
    p_value = f" (p = {baseline['p_value']:.2g})" if "p_value" in baseline else ""
    return f"{'−' if drop > 0 else '+'}{abs(drop):.3f}{p_value}"


def gained(entry: ScoreEntry) -> float | None:
    """Return the gain of a score over its baseline if it is significant, else None."""
    baseline = entry.get("baseline") or {}
    is_gain = baseline.get("interval", (0, 0))[1] < 0 and entry["verdict"] == "pass"
    return -baseline["drop"] if is_gain else None


def update_text(moved: "ScoreChange") -> str:
    """The changes of an updated baseline: "test_a.py::test recall@3: 0.940 → 0.593, 32 of 91 worse, 0 better"."""
    parts = []
    if moved.n:
        parts.append(f"{moved.before:.3f} → {moved.after:.3f}")
        parts.append(f"{moved.worse} of {moved.n} worse, {moved.better} better")
    if moved.lost:
        parts.append(
            f"{moved.lost} {'question' if moved.lost == 1 else 'questions'} had a score before and none now"
        )
    return f"{moved.nodeid} {moved.name}: {', '.join(parts)}"


def slices_entry(ruling: ThresholdResult) -> dict[str, Any]:
    """All values of the tag that a threshold is on, worst first."""
    tag = ruling.threshold.by
    return {"by": {"tag": tag, "slices": [_slice(each, tag) for each in ruling.slices]}} if tag else {}


def _slice(ruling: ThresholdResult, tag: str) -> dict[str, Any]:
    return {
        "value": ruling.threshold.where[tag],
        **mean_entry(ruling.score),
        **compared_entry(ruling),
        "verdict": ruling.verdict.status,
        "reason": ruling.verdict.reason,
        **warnings_entry(ruling.verdict.warnings),
    }


def mean_entry(score: Score | None) -> dict[str, Any]:
    """The mean with its interval and the numbers of examples; None is a score that could not be computed."""
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
    """Return the entry of a test's warnings, which are shown even if the test passes."""
    return {"warnings": list(warnings)} if warnings else {}


def _slices_text(entry: ScoreEntry) -> str:
    """Such as "the worst of 3 by topic; then shipping 0.700 fail, account 0.900 pass"."""
    others = [
        f"{each['value']} {'-' if each['mean'] is None else format(each['mean'], '.3f')} {each['verdict']}"
        for each in entry["by"]["slices"][1:]
    ]
    worst = f"the worst of {len(others) + 1} by {entry['by']['tag']}"
    return f"{worst}; then {', '.join(others)}" if others else worst


def slice_warnings(entry: ScoreEntry) -> Iterator[tuple[Mapping[str, Any], str]]:
    """The warnings of all slices but the worst, whose warnings are the entry's, each with its slice."""
    for each in entry["by"]["slices"][1:] if "by" in entry else ():
        for warning in each.get("warnings", ()):
            yield {**entry["where"], entry["by"]["tag"]: each["value"]}, warning


def repeats_entry(score: Score) -> dict[str, Any]:
    """The run-to-run spread, the number of runs, and how many examples have no score in some of them."""
    if score.spread is None:
        return {}
    partly = {"partly_scored": score.partly_scored} if score.partly_scored else {}
    return {"spread": score.spread, "runs": len(score.repeats) + 1, **partly}


def _repeats_text(entry: ScoreEntry) -> str:
    some = entry.get("partly_scored", 0)
    partly = f"; {some} {'has' if some == 1 else 'have'} no score in some of them" if some else ""
    return f"run-to-run spread {entry['spread']:.3f} over {entry['runs']} runs{partly}"


def beside_entry(score: Score) -> dict[str, Any]:
    """The means of the companion scores, over the examples that have them; the reference has an entry of its own."""
    rows = [outcome.evidence.beside for outcome in score.outcomes]
    names = [name for name in dict.fromkeys(chain.from_iterable(rows)) if name != REFERENCE_LATENCY]
    means = {name: fmean(row[name] for row in rows if name in row) for name in names}
    return {"beside": means} if means else {}


def _beside_text(entry: ScoreEntry) -> str:
    return f"beside it {', '.join(f'{name} {mean:.3f}' for name, mean in entry['beside'].items())}"


def _pooled_text(entry: ScoreEntry) -> str:
    """Such as "pooled: coverage 4/8 × recall over Rel' 3/4 = recall over Rel 3/8 (0.375)"."""
    pooled = entry["pooled"]
    if not pooled["shown"]:
        return ""
    relevant, shown, found = (pooled[name] for name in ("relevant", "shown", "found"))
    beyond = f" + beyond Rel' {pooled['beyond']}/{relevant}" if pooled.get("beyond") else ""
    questions = entry["n"] + entry["unscored"] + entry["undefined"]
    over = f" over {pooled['questions']} of {questions}" if pooled["questions"] < questions else ""
    return (
        f"pooled{over}: coverage {shown}/{relevant} × recall over Rel' {found}/{shown}{beyond} "
        f"= recall over Rel {found + pooled.get('beyond', 0)}/{relevant} ({pooled['recall_over_rel']:.3f})"
    )


def common_entry(entry: Mapping[str, Any], name: str, other: Mapping[str, Any]) -> dict[str, Any]:
    """The means of two scores over the questions that have both; nothing where these are all that have either."""
    of_other = {each["id"]: each["score"] for each in other["examples"] if each["score"] is not None}
    pairs = [
        (each["score"], of_other[each["id"]])
        for each in entry["examples"]
        if each["score"] is not None and each["id"] in of_other
    ]
    if not pairs or len(pairs) == entry["n"] == other["n"]:
        return {}
    own, others = zip(*pairs, strict=True)
    return {"common": {"with": name, "n": len(pairs), "mean": fmean(own), "other": fmean(others)}}


def _common_text(entry: ScoreEntry) -> str:
    """Such as "over the 41 questions in common with rel.citation@5: 0.671, and there 0.203"."""
    common = entry["common"]
    shared = f"over the {counted(common['n'], 'question')} in common with {common['with']}"
    return f"{shared}: {common['mean']:.3f}, and there {common['other']:.3f}"


def _ignored_text(entry: ScoreEntry) -> str:
    words = ", ".join(f"{word}={text!r}" for word, text in entry["ignored"].items())
    return f"{words} changes nothing here: the score has no answer from several passages"


def _triage_text(entry: ScoreEntry) -> str:
    """Such as "cases A 2, C 5; Spearman with recall .58, refined .87"."""
    cases = ", ".join(f"{case} {count}" for case, count in entry["cases"].items())
    rhos = ", ".join(
        f"{name} {short(rho)}"
        for key, name in (("all", "with recall"), ("refined", "refined"))
        if (rho := entry["spearman"][key]) is not None
    )
    return "; ".join(f"{name} {text}" for name, text in (("cases", cases), ("Spearman", rhos)) if text)


def losses(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Return the number of lost questions by cause, largest first; empty if no cause is known."""
    return dict(Counter(each.lost_by for each in outcomes if each.lost_by is not None).most_common())


def votes_entry(score: Score) -> dict[str, Any]:
    """The tally of the judge's votes, with the rates."""
    tally = score.votes
    rates = {"flip_rate": tally.flip_rate, "minority_rate": tally.minority_rate}
    return {"judge_votes": asdict(tally) | rates} if tally.verdicts else {}


def _votes_text(entry: ScoreEntry) -> str:
    """Such as "flip rate 25.0% (1 of 4 verdicts), minority 9.1% (1 of 11 votes)"."""
    tally = Tally(**{name: entry["judge_votes"][name] for name in asdict(Tally())})
    unread = f", {counted(tally.unread, 'vote')} not read" if tally.unread else ""
    return (
        f"flip rate {tally.flip_rate:.1%} ({tally.split} of {counted(tally.verdicts, 'verdict')}), "
        f"minority {tally.minority_rate:.1%} ({tally.minority} of {tally.votes} votes){unread}"
    )


def _arena_text(entry: ScoreEntry) -> str:
    """Such as "no answer 5.0% (1 of 20); the first place won 60.0% of 15 decided verdicts (…)"."""
    arena = entry["arena"]
    declined = f"no answer {arena['no_answer_ratio']:.1%} ({entry['counts']['no_answer']} of {entry['n']})"
    return f"{declined}; {_bias_text(arena['position_bias'])}"


def _bias_text(bias: Mapping[str, Any] | None) -> str:
    if bias is None:
        return "the judge preferred no answer, so its position bias is not known"
    if bias["orders"] == 1:
        low, high = bias["first_place_ci95"]
        return (
            f"the first place won {bias['first_place']:.1%} of {bias['verdicts']} decided verdicts "
            f"(95% interval {low:.1%} to {high:.1%})"
        )
    flipped = f"{bias['flip_rate']:.1%} of {bias['verdicts']} verdicts changed with the order"
    if bias["first_place"] is None:
        return flipped
    return f"{flipped}, {bias['first_place']:.1%} of these for the first place (p = {bias['p_value']:.2g})"


def _corrected_text(entry: ScoreEntry) -> str:
    """The mean corrected by human labels, with the assumption behind it."""
    corrected = entry["corrected"]
    incomplete, labels = corrected.get("incomplete"), corrected["labels"]
    more = f"; {counted(incomplete, 'more question')} with unlabelled passages" if incomplete else ""
    if corrected["mean"] is None:
        return f"not corrected for the judge's errors: {counted(labels, 'question')} with labels of all passages{more}"
    low, high = corrected["ci95"]
    sample = "labels are a random sample of such answers"
    if incomplete is not None:
        sample = f"labelled questions are a random sample of the set's{more}"
    mean = f"{corrected['mean']:.3f} [{low:.3f}, {high:.3f}]"
    return f"corrected for the judge's errors: {mean}, if the {labels} {sample}"


def _strata_text(entry: ScoreEntry) -> str:
    """Such as "answer.correct@5 by context: sufficient 10 of 12 correct, 1 wrong, 1 abstained; insufficient …"."""
    return "; ".join(f"{each['score']} by context: {_stratum_texts(each)}" for each in entry["strata"])


def _stratum_texts(strata: Mapping[str, Any]) -> str:
    texts = []
    for name, found in strata.items():
        if not isinstance(found, Mapping):
            continue
        others = ", ".join(f"{found[result]} {result}" for result in ("wrong", "abstained"))
        n = sum(found.values())
        texts.append(f"{name} {found['correct']} of {n} correct, {others}" if n else f"{name} 0")
    left_out = strata["left_out"]
    return "; ".join(texts) + (f"; {left_out} without one of the verdicts" if left_out else "")


TEXTS: Final[Mapping[str, Callable[[ScoreEntry], str]]] = {
    "ignored": _ignored_text,
    "unscored": partial(_reasons_text, "unscored"),
    "undefined": partial(_reasons_text, "undefined"),
    "early_stop": _early_stop_text,
    "baseline": _baseline_text,
    "anchor": _anchor_text,
    "reference": _reference_text,
    "canary": _canary_text,
    "by": _slices_text,
    "spread": _repeats_text,
    "beside": _beside_text,
    "pooled": _pooled_text,
    "common": _common_text,
    "cases": _triage_text,
    "judge_votes": _votes_text,
    "arena": _arena_text,
    "corrected": _corrected_text,
    "strata": _strata_text,
}
"""The notes below the row of a score, in this order: each of an entry that has the key, and a value there."""

ANOMALIES: Final[Mapping[str, str]] = {
    "duplicates": "{n} duplicated document{s} counted once",
    "without_text": "{n} document{s} without text",
    "short": "{n} ranking{s} of fewer than k documents",
    "cut": "{n} ranking{s} of more than k documents, cut",
    "own_k_kept": "{n} ranking{s} cut at @k: the retriever's own k is larger, and was kept",
    "own_k_raised": "{n} ranking{s} asked for @k: the retriever's own k is smaller, and was replaced",
    "without_history": "{n} question{s} asked without the conversation before: the retriever does not take history",
    "failed": "{n} question{s} at which the retriever failed",
    "failed_otherwise": "{n} question{s} at which the generator, the judge or an added part failed",
    "ids_as_texts": "{n} ranking{s} of texts that are ids of gold passages: a string is a text; return "
    'documents such as {{"id": "doc-4", "text": "..."}}',
    "foreign_ids": "no id in {n} ranking{s} is that of any gold passage: are they ids of the same kind?",
}
"""The texts of the counts, in this order."""

FEWEST: Final = 10  # from this number of rankings on, a lack of gold ids is unlikely to be chance


def anomalies_entry(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """The counts above 0, by name: of documents, of rankings, and of questions without a ranking."""
    failed = [outcome.failed.part for outcome in outcomes if outcome.failed is not None]
    of_retriever = failed.count("rageval_retriever")
    found = [each for outcome in outcomes if (each := outcome.evidence.ranking) is not None]
    own_k = [each.own_k - each.k for each in found if each.own_k is not None]
    counts = {
        "duplicates": sum([each.duplicates for each in found]),
        "without_text": sum([each.textless for each in found]),
        "short": sum([each.missing > 0 for each in found]),
        "cut": sum([each.surplus > 0 and (each.own_k or 0) <= each.k for each in found]),
        "own_k_kept": sum(beyond > 0 for beyond in own_k),
        "own_k_raised": sum(beyond < 0 for beyond in own_k),
        "without_history": sum([each.without_history for each in found]),
        "failed": of_retriever,
        "failed_otherwise": len(failed) - of_retriever,
        "ids_as_texts": _ids_as_texts(outcomes),
        "foreign_ids": _foreign(outcomes),
    }
    return {name: counts[name] for name in ANOMALIES if counts[name]}


def _foreign(outcomes: Sequence[Outcome]) -> int:
    """Return the number of rankings with ids if none of the ids is that of a gold passage, else 0.

    This happens if a framework creates new ids in every run: every score is 0 then. Gold passages that are found by
    their span need no id.
    """
    for outcome in outcomes:
        ranking = outcome.evidence.ranking
        if ranking is not None and not _gold_ids(outcome.example).isdisjoint(ranking.ids):
            # Mostly the first one: the rankings of 100,000 questions need not be read, nor all their gold passages.
            return 0
    gold = {name for outcome in outcomes for name in _gold_ids(outcome.example)}
    rankings = [each for outcome in outcomes if (each := outcome.evidence.ranking) is not None]
    with_ids = 0
    for ranking in rankings if gold else ():
        ids = {*ranking.ids} - {None}
        if not gold.isdisjoint(ids):
            return 0
        with_ids += bool(ids)
    return with_ids if with_ids >= FEWEST else 0


def _gold_ids(example: "Example") -> set[str]:
    """The ids of the gold passages that are found by their id."""
    return {gold.id for gold in example.relevant if gold.id is not None and gold.span is None}


def _ids_as_texts(outcomes: Sequence[Outcome]) -> int:
    """Return the number of rankings without ids that have the id of a gold passage as a text.

    Such a retriever returns ids as strings.
    """
    found = 0
    gold: set[str | None] = set()
    for ranking in [each for outcome in outcomes if (each := outcome.evidence.ranking) is not None]:
        if any(name is not None for name in ranking.ids):
            # Mostly the first one, as in `_foreign`.
            return 0
        gold = gold or {gold.id for outcome in outcomes for gold in outcome.example.relevant}
        found += any(document.text in gold for document in ranking)
    return found


def why_all_zero(counts: Mapping[str, int]) -> str:
    """Return an explanation, from these counts, of why every question scores 0; empty if there is none."""
    return anomalies_text({name: counts[name] for name in ("ids_as_texts", "foreign_ids") if name in counts})


def anomalies_text(counts: Mapping[str, int]) -> str:
    """The counts in a line.

    >>> anomalies_text({"duplicates": 3, "cut": 1})
    '3 duplicated documents counted once, 1 ranking of more than k documents, cut'
    """
    return ", ".join(ANOMALIES[name].format(n=n, s="" if n == 1 else "s") for name, n in counts.items())
