"""Notes below a score: why examples are unscored, repeats, votes, triage, ranking anomalies, slices."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import fsum
from typing import Any, Final

from pytest_rageval.gate.verdict import Ruling
from pytest_rageval.measures.rel_prime import Recall
from pytest_rageval.reports.baseline import baseline_entry
from pytest_rageval.scores import Outcome, Places, Score
from pytest_rageval.stats.agreement import Tally, spearman_rho
from pytest_rageval.stats.intervals import Estimate
from pytest_rageval.stats.position_bias import first_place_share, position_bias

__all__ = [
    "anomalies_entry",
    "anomalies_text",
    "arena_entry",
    "arena_text",
    "beside_entry",
    "beside_text",
    "case_entry",
    "example_beside",
    "example_places",
    "example_votes",
    "factors_entry",
    "factors_text",
    "is_arena",
    "is_triaged",
    "losses",
    "repeats_entry",
    "repeats_text",
    "short",
    "slice_warnings",
    "slices_entry",
    "slices_text",
    "triage_entry",
    "triage_text",
    "undefined_text",
    "unscored_text",
    "votes_entry",
    "votes_text",
]


def short(rho: float) -> str:
    """Two decimals without the leading zero; the ends of the range keep theirs.

    >>> short(0.583), short(-0.2), short(1.0)
    ('.58', '-.20', '1.00')
    """
    text = f"{rho:.2f}"
    return text if text.endswith("1.00") else text.replace("0.", ".", 1)


SHOWN: Final = 5
"""How many different reasons are told."""


def undefined_text(entry: Mapping[str, Any]) -> str:
    """A score's entry in a line: "3 undefined: 3 × nothing was cited"; empty where it is defined for all."""
    return _told(entry, "undefined")


def unscored_text(entry: Mapping[str, Any]) -> str:
    """Likewise of those that should have a score: "4 unscored: 4 × no gold passages"."""
    return _told(entry, "unscored")


def _told(entry: Mapping[str, Any], what: str) -> str:
    reasons = Counter(
        " ".join(example[what].split())
        for example in entry.get("examples", ())
        if example.get(what) is not None
    )
    told = [f"{count} × {reason}" for reason, count in reasons.most_common(SHOWN)]
    more = [f"{len(reasons) - SHOWN} more reasons"] if len(reasons) > SHOWN else []
    return f"{reasons.total()} {what}: {', '.join([*told, *more])}" if told else ""


def repeats_entry(score: Score) -> dict[str, Any]:
    """The spread and the number of runs; nothing where they were asked once."""
    if score.spread is None:
        return {}
    return {"spread": score.spread, "runs": len(score.repeats) + 1}


def repeats_text(entry: Mapping[str, Any]) -> str:
    """An entry in a line: "run-to-run spread 0.012 over 3 runs"; empty where there was one."""
    if "spread" not in entry:
        return ""
    return f"run-to-run spread {entry['spread']:.3f} over {entry['runs']} runs"


def beside_entry(score: Score) -> dict[str, dict[str, float]]:
    """Their means over the examples that have them; nothing where there are none."""
    values: dict[str, list[float]] = {}
    for outcome in score.outcomes:
        for name, value in outcome.evidence.beside.items():
            values.setdefault(name, []).append(value)
    means = {name: fsum(each) / len(each) for name, each in values.items()}
    return {"beside": means} if means else {}


def example_beside(outcome: Outcome) -> dict[str, dict[str, float]]:
    """Those of one example."""
    return {"beside": dict(outcome.evidence.beside)} if outcome.evidence.beside else {}


def beside_text(entry: Mapping[str, Any]) -> str:
    """An entry in a line: "beside it recall@5 0.800, f1@5 0.267"; empty where there are none."""
    told = ", ".join(f"{name} {mean:.3f}" for name, mean in entry.get("beside", {}).items())
    return f"beside it {told}" if told else ""


def factors_entry(score: Score) -> dict[str, Any]:
    """The sizes of the sets, summed, and the shares, None where undefined; nothing where there are none."""
    sizes: Counter[str] = Counter()
    for outcome in score.outcomes:
        sizes.update(outcome.evidence.sizes)
    if not sizes:
        return {}
    recall = Recall(sizes["relevant"], sizes["shown"], sizes["found"], sizes["found"])
    shares = {
        "coverage": recall.coverage,
        "recall_over_rel_prime": recall.over_rel_prime,
        "recall_over_rel": recall.over_rel,
    }
    return {"pooled": {**sizes, **shares}}


def factors_text(entry: Mapping[str, Any]) -> str:
    """An entry in a line: "pooled: coverage 4/8 × recall over Rel' 3/4 = recall over Rel 3/8"; or empty."""
    pooled = entry.get("pooled")
    if pooled is None or not pooled["shown"]:
        return ""
    relevant, shown, found = (pooled[name] for name in ("relevant", "shown", "found"))
    return (
        f"pooled: coverage {shown}/{relevant} × recall over Rel' {found}/{shown} "
        f"= recall over Rel {found}/{relevant} ({pooled['recall_over_rel']:.3f})"
    )


WORDS: Final[Mapping[str, str]] = {
    "duplicates": "{n} duplicated document{s} counted once",
    "without_text": "{n} document{s} without text",
    "short": "{n} ranking{s} of fewer than k documents",
    "cut": "{n} ranking{s} of more than k documents, cut",
    "failed": "{n} question{s} at which the retriever failed",
    "failed_otherwise": "{n} question{s} at which the generator, the judge or an added part failed",
    "foreign_ids": "no id in {n} ranking{s} is that of any gold passage: are they ids of the same kind?",
}
"""How each is told, in this order."""

FEWEST: Final = 10
"""So many rankings without an id of the gold passages are no bad luck; of a slice of five they may be."""


def anomalies_entry(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """The counts above 0, by name: of documents, of rankings, and of questions without a ranking."""
    outcomes = list(outcomes)
    counts: Counter[str] = Counter(foreign_ids=_foreign(outcomes))
    for outcome in outcomes:
        if outcome.failed is not None:
            counts["failed" if outcome.failed.part == "rageval_retriever" else "failed_otherwise"] += 1
        ranking = outcome.evidence.ranking
        if ranking is not None:
            counts["duplicates"] += ranking.duplicates
            counts["without_text"] += ranking.textless
            counts["short"] += ranking.missing > 0
            counts["cut"] += ranking.surplus > 0
    return {name: counts[name] for name in WORDS if counts[name]}


def _foreign(outcomes: Sequence[Outcome]) -> int:
    """How many rankings have ids, where these and the gold passages' have none in common.

    So they do where a framework makes up new ids in every run, and the gold names files, say: every
    score is 0, and stays it. Gold passages that are found by their span need no id.
    """
    gold = {gold.id for outcome in outcomes for gold in outcome.example.relevant if gold.span is None}
    rankings = [outcome.evidence.ranking or () for outcome in outcomes]
    ids = [{document.id for document in ranking} - {None} for ranking in rankings]
    with_ids = sum(map(bool, ids))
    return with_ids if with_ids >= FEWEST and gold - {None} and gold.isdisjoint(set().union(*ids)) else 0


def anomalies_text(counts: Mapping[str, int]) -> str:
    """The counts in a line; empty where there are none.

    >>> oddities_text({"duplicates": 3, "cut": 1})
    '3 duplicated documents counted once, 1 ranking of more than k documents, cut'
    """
    return ", ".join(WORDS[name].format(n=n, s="" if n == 1 else "s") for name, n in counts.items())


RECALL_ERRED: Final = {"A", "B", "C"}
"""The cases that "refined" leaves out (Alinejad et al. 2024, section 4.3)."""


def is_triaged(spec: str) -> bool:
    """Whether a score has cases."""
    return spec.partition("@")[0] == "llm_reteval"


def triage_entry(score: Score) -> dict[str, Any]:
    """The counts of the cases, and Spearman's rho of the verdicts with Recall@k; of other scores nothing.

    "refined" leaves out the questions where recall erred: those of case A, B and C.
    """
    if not is_triaged(score.spec):
        return {}
    cases = Counter(outcome.case for outcome in score.outcomes if outcome.case is not None)
    refined = [outcome for outcome in score.outcomes if outcome.case not in RECALL_ERRED]
    return {
        "cases": dict(sorted(cases.items())),
        "spearman": {"all": _spearman(score.outcomes), "refined": _spearman(refined)},
    }


def case_entry(spec: str, outcome: Outcome) -> dict[str, str | None]:
    """The case of one example, and who lost it; of other scores nothing."""
    return {"case": outcome.case, "lost_by": outcome.lost_by} if is_triaged(spec) else {}


def triage_text(entry: Mapping[str, Any]) -> str:
    """A score's entry in a line: "cases A 2, C 5; Spearman with recall .58, refined .87"; what there is of it."""
    cases = ", ".join(f"{case} {count}" for case, count in entry.get("cases", {}).items())
    spearman = entry.get("spearman", {})
    both = [
        f"{name} {short(spearman[key])}"
        for key, name in (("all", "with recall"), ("refined", "refined"))
        if spearman.get(key) is not None
    ]
    parts = [f"cases {cases}" if cases else "", f"Spearman {', '.join(both)}" if both else ""]
    return "; ".join(part for part in parts if part)


def losses(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Who lost how many of these questions, most first; empty where nobody is known to have."""
    by = Counter(outcome.lost_by for outcome in outcomes if outcome.lost_by is not None)
    return dict(by.most_common())


def _spearman(outcomes: Sequence[Outcome]) -> float | None:
    pairs = [
        (outcome.value, outcome.evidence.recall)
        for outcome in outcomes
        if outcome.value is not None and outcome.evidence.recall is not None
    ]
    return spearman_rho([value for value, _ in pairs], [recall for _, recall in pairs])


def votes_entry(score: Score) -> dict[str, Any]:
    """The tally of a score's verdicts, with the rates; nothing where no verdict was voted on."""
    tally = score.votes
    rates = {"flip_rate": tally.flip_rate, "minority_rate": tally.minority_rate}
    return {"judge_votes": asdict(tally) | rates} if tally.verdicts else {}


def example_votes(outcome: Outcome) -> dict[str, Any]:
    """The tally of one example; nothing where no verdict was voted on."""
    tally = outcome.evidence.votes
    return {"judge_votes": asdict(tally)} if tally.verdicts else {}


def votes_text(entry: Mapping[str, Any]) -> str:
    """A score's entry in a line: "flip rate 25.0% (1 of 4 verdicts), …"; empty without votes."""
    counted = entry.get("judge_votes")
    if counted is None:
        return ""
    tally = Tally(**{name: counted[name] for name in asdict(Tally())})
    parts = [
        f"flip rate {tally.flip_rate:.1%} ({tally.split} of {tally.verdicts} verdicts)",
        f"minority {tally.minority_rate:.1%} ({tally.minority} of {tally.votes} votes)",
    ]
    return ", ".join(parts + ([f"{tally.unread} votes not read"] if tally.unread else []))


def is_arena(spec: str) -> bool:
    """Whether a score is of battles."""
    return spec.partition("@")[0] in {"arena.win", "arena.win_tie"}


def arena_entry(score: Score) -> dict[str, Any]:
    """The no-answer ratio and the measured position bias; of other scores nothing.

    `position_bias` is None where nothing tells of it. With `orders` 1, each pair was judged in one order,
    `verdicts` counts those that were no ties, and `first_place` is the share of them for the answer
    shown first. With 2, `verdicts` counts pairs, `flip_rate` is the share whose verdict changed with the
    order, and `first_place` the share of these in which an answer did better in the first place.
    """
    if not is_arena(score.spec):
        return {}
    places = [outcome.evidence.places for outcome in score.outcomes]
    ratio = {"no_answer_ratio": score.counts["no_answer"] / score.n}
    return {"arena": {**ratio, "position_bias": _in_both_orders(places) or _in_one_order(places)}}


def example_places(outcome: Outcome) -> dict[str, Any]:
    """What the judge said of one example, by the place of its answer; nothing where it was not asked."""
    places = outcome.evidence.places
    return {} if places == Places() else {"places": places._asdict()}


def arena_text(entry: Mapping[str, Any]) -> str:
    """A score's entry in a line: "no answer 5.0% (1 of 20); the first place won 60.0% of 15 …"; empty for others."""
    told = entry.get("arena")
    if told is None:
        return ""
    declined = f"no answer {told['no_answer_ratio']:.1%} ({entry['counts']['no_answer']} of {entry['n']})"
    return f"{declined}; {_bias_text(told['position_bias'])}"


def _in_both_orders(places: list[Places]) -> dict[str, Any] | None:
    pairs = [(first, second) for first, second in places if first is not None and second is not None]
    bias = position_bias(pairs)
    if bias is None:
        return None
    return {
        "orders": 2,
        "verdicts": len(pairs),
        **_estimate("flip_rate", bias.flips),
        **_estimate("first_place", bias.first),
        "p_value": bias.p_value,
    }


def _in_one_order(places: list[Places]) -> dict[str, Any] | None:
    verdicts = [place.first for place in places] + [
        1 - place.second for place in places if place.second is not None
    ]
    wins, losses = verdicts.count(1), verdicts.count(0)
    share = first_place_share(wins, losses)
    if share is None:
        return None
    return {"orders": 1, "verdicts": wins + losses, **_estimate("first_place", share)}


def _estimate(name: str, estimate: Estimate | None) -> dict[str, Any]:
    if estimate is None:
        return {name: None, f"{name}_ci95": None}
    return {name: estimate.value, f"{name}_ci95": [estimate.low, estimate.high]}


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


def slices_entry(ruling: Ruling) -> dict[str, Any]:
    """All values, worst first; nothing where the threshold is on no tag."""
    tag = ruling.threshold.by
    if tag is None:
        return {}
    return {"by": {"tag": tag, "slices": [_slice(each, tag) for each in ruling.slices]}}


def slices_text(entry: Mapping[str, Any]) -> str:
    """An entry in a line: "the worst of 3 by topic; then shipping 0.700 fail, account 0.900 pass"."""
    if "by" not in entry:
        return ""
    others = [
        f"{each['value']} {'-' if each['mean'] is None else format(each['mean'], '.3f')} {each['verdict']}"
        for each in entry["by"]["slices"][1:]
    ]
    told = f"the worst of {len(others) + 1} by {entry['by']['tag']}"
    return f"{told}; then {', '.join(others)}" if others else told


def slice_warnings(entry: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """What is to be known of the values behind the worst, whose warnings are the entry's: each with its slice."""
    for each in entry.get("by", {"slices": []})["slices"][1:]:
        for warning in each.get("warnings", ()):
            yield {**entry["where"], entry["by"]["tag"]: each["value"]}, warning


def _slice(ruling: Ruling, tag: str) -> dict[str, Any]:
    """One value of a tag, in short."""
    score = ruling.score
    interval = None if score is None else score.ci95
    warnings = {"warnings": list(ruling.verdict.warnings)} if ruling.verdict.warnings else {}
    return {
        "value": ruling.threshold.where[tag],
        "mean": None if score is None else float(score),
        "ci95": None if interval is None else list(interval),
        "n": 0 if score is None else score.n,
        "unscored": 0 if score is None else score.unscored,
        "undefined": 0 if score is None else score.undefined,
        "baseline": baseline_entry(ruling.drop),
        "verdict": ruling.verdict.status,
        "reason": ruling.verdict.reason,
        **warnings,
    }
