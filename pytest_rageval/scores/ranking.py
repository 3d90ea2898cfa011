"""Are the gold passages among the first k, and how far up?

These need no model. A passage counts as found by its span, its id or its text, in this order; see [](eval-sets.md). If
a passage has a `grade`, `ndcg` and `dcg` use it as the gain, and the other measures count every grade above 0 as
relevant; with `relevant="gold_grade>=2"` every grade from 2 on. `precision@5` divides by 5 even if only three documents
were retrieved; `set.precision@5` divides by three then.

A gold passage of grade 0 was judged and is not relevant. If people judged only some passages, a document without a
judgement may be relevant too: `judged@5` says how many were judged, and the `condensed` scores leave out the others
before they measure (Sakai 2007).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from math import inf
from typing import TYPE_CHECKING, Final

from pytest_rageval.core.errors import NoGroundTruth, UnusableRanking
from pytest_rageval.core.evalset import EMPTY_MAPPING, Example
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.scores.definition import (
    GOLD,
    Family,
    Scored,
    ScoreDef,
    WorkedExample,
    each_example,
    score_each,
)
from pytest_rageval.scores.measures import (
    GoldMatches,
    GoldRules,
    Labelled,
    compute_measure,
    ideal_labels,
    match_by_id,
)
from pytest_rageval.scores.pipeline import NO_GOLD, Evaluation, Pipeline, ResolvedScore
from pytest_rageval.stats.intervals import UNIT

if TYPE_CHECKING:
    from pytest_rageval.scores.gold_matching import GoldMatch

match_gold: Final = Lazy("scores.gold_matching", "GoldMatch")  # of most gold passages the ids decide


async def retrieve_and_match(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> "tuple[Ranking, GoldMatch]":
    example = example.with_lowest_grade(resolved.relevance.grade)
    if not example.relevant:
        raise NoGroundTruth(NO_GOLD)
    ranking = await pipeline.ranking(example, resolved.k)
    return ranking, match_ranking(ranking, example, pipeline.match_share)


def match_ranking(ranking: Ranking, example: Example, share: float) -> "GoldMatch":
    """Compare a ranking with the gold passages of its example; raise UnusableRanking if they cannot be compared."""
    match: GoldMatch = match_gold(ranking, example.gold, share)
    reason = incomparable_reason(match)
    if reason is not None:
        raise UnusableRanking(reason)
    return match


@each_example
async def evaluate_full_recall(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    ranking, match = await retrieve_and_match(pipeline, example, resolved)
    found_by_group: dict[object, bool] = {}
    for position, (gold, is_found) in enumerate(zip(example.gold, match.found, strict=True)):
        if gold.grade >= resolved.relevance.grade:
            group = position if gold.group is None else gold.group
            found_by_group[group] = found_by_group.get(group, False) or is_found
    return float(all(found_by_group.values())), Evidence(ranking, counts=match.counts)


async def evaluate_ranking(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Score the first k retrieved documents by a measure against the gold passages, for all examples at once.

    A document that contains n gold passages counts as n documents, one after the other, and moves the cut-off by n - 1
    ranks (`GoldMatch`). Unscored: an example without relevant gold passages; an example with a gold passage that no
    retrieved document can be compared with; an example on whose question the retriever failed.
    """
    rules = GoldRules(resolved.k, resolved.relevance.grade, resolved.spec.name == CONDENSED)
    matches = pipeline.last_gold_matches
    if matches is None or matches.examples is not examples or matches.rules != rules:
        matches = GoldMatches(examples, rules, *await _match(pipeline, examples, rules))
    measure = resolved.part if rules.judged_only else resolved.spec.measure
    values = iter(compute_measure(measure, matches.gold_ranks))
    outcomes = [
        outcome if outcome.value is None else Outcome(outcome.example, next(values), None, outcome.evidence)
        for outcome in matches.outcomes
    ]
    # If the retriever failed, the matches are not reused: the retriever may work in a later test.
    failed = [outcome for outcome in outcomes if outcome.failed]
    pipeline.last_gold_matches = None if failed else matches._replace(outcomes=outcomes)
    return outcomes


async def _match(
    pipeline: Pipeline, examples: Sequence[Example], rules: GoldRules
) -> tuple[list[Outcome], list[Labelled]]:
    k, grade, judged_only = rules
    ranks_by_id: dict[str, Labelled] = {}
    # Equal objects, which are frequent in a large set, are stored once.
    shared: dict[Labelled, Labelled] = {}

    async def match_example(example: Example) -> Outcome:
        judged = example.with_lowest_grade(grade)
        if not judged.relevant:
            raise NoGroundTruth(NO_GOLD)
        ranking = counted_ranking = await pipeline.ranking(example, k)
        if judged_only:
            labels = judged_documents(ranking, example, pipeline.match_share)
            counted_ranking = replace(ranking, documents=tuple(compress(ranking.documents, labels)))
        counts: Mapping[str, int] = EMPTY_MAPPING
        if (found := match_by_id(counted_ranking, judged.gold)) is not None:
            ranks = Labelled(found, tuple(ideal_labels(judged.gold)), k, len(counted_ranking))
        else:
            match: GoldMatch = match_gold(counted_ranking, judged.gold, pipeline.match_share)
            if (reason := incomparable_reason(match)) is not None:
                return Outcome(example, None, reason, Evidence(ranking), cause="retriever")
            ranks, counts = gold_ranks(judged, match, k), match.counts or EMPTY_MAPPING
        ranks_by_id[example.id] = shared.setdefault(ranks, ranks)
        return Outcome(example, 0.0, None, Evidence(ranking, counts=counts))

    with pipeline.rankings.expect((example for example in examples if example.relevant), k):
        outcomes = await score_each(
            examples, match_example, max_concurrency=pipeline.retriever.max_concurrency
        )
    return outcomes, [ranks_by_id[outcome.example.id] for outcome in outcomes if outcome.value is not None]


def gold_ranks(example: Example, match: "GoldMatch", k: int) -> Labelled:
    return Labelled.of(match.labels, ideal_labels(example.gold), k + match.surplus)


def judged_documents(ranking: Ranking, example: Example, share: float) -> list[bool]:
    """Return for each document whether people judged it: it is, or is a part of, a gold passage of any grade."""
    judged = replace(example, gold=tuple([replace(each, grade=1) for each in example.gold]))
    return [bool(positions) for positions in match_ranking(ranking, judged, share).positions]


@each_example
async def evaluate_judged(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Unscored: an example without gold passages of any grade; otherwise as for `evaluate_ranking`."""
    if not example.gold:
        raise NoGroundTruth(NO_GOLD)
    ranking = await pipeline.ranking(example, resolved.k)
    judged = judged_documents(ranking, example, pipeline.match_share)
    return sum(judged) / max(len(judged), 1), Evidence(ranking)


def incomparable_reason(match: "GoldMatch") -> str | None:
    passage = match.incomparable
    if passage is None:
        return None
    keys = (("a span", passage.span), ("an id", passage.id), ("words", passage.text))
    wanted = [word for word, key in keys if key is not None]
    reason = f"no retrieved document has {' or '.join(wanted)} to find the gold passage by"
    # A text that equals the gold id suggests that the retriever returns ids as strings, which are read as texts.
    hint = '; a string is a text: return documents such as {"id": "doc-4"}'
    return reason + (hint if passage.id in match.texts else "")


FAMILY: Final = Family(
    "Ranking measures",
    __doc__,
    requests="none",
    source="trec_eval 9.0.8 (NIST), whose values they equal. nDCG: Järvelin and Kekäläinen (2002); with exponential "
    "gain: Burges et al. (2005).",
    example=WorkedExample(
        text="Two gold passages, `a` and `b`. The retriever returns `c`, `a`, `d`.",
        k=3,
        record={"question": "Where is the company based?", "gold": [{"id": "a"}, {"id": "b"}]},
        retrieved=("c", "a", "d"),
    ),
)

CONDENSED: Final = "condensed"  # family of scores of judged documents alone


def _measure(  # noqa: PLR0913 - attributes of a score
    name: str,
    ir_measures: str,
    definition: str,
    worked: tuple[float, str],
    evaluate: Evaluation = evaluate_ranking,
    *,
    graded: bool = False,
    scale: tuple[float, float] = UNIT,
) -> ScoreDef:
    """With `graded` its gain is the grade, so that no grade is the lowest."""
    return ScoreDef(
        name,
        evaluate,
        scale=scale,
        definition=definition,
        worked=worked,
        needs=(GOLD,),
        takes_relevant=frozenset() if graded else {"gold"},
        ir_measures=ir_measures,
    )


_MEASURES: Final = (
    _measure(
        "recall",
        "R@k",
        "The share of the gold passages that are among the first k.",
        (0.5, "1 of 2 gold passages"),
    ),
    _measure(
        "precision",
        "P@k",
        "The share of the first k documents that are gold passages.",
        (1 / 3, "1 of 3 documents"),
    ),
    _measure("f1", "", "The harmonic mean of `precision@k` and `recall@k`.", (0.4, "2 · ⅓ · ½ / (⅓ + ½)")),
    _measure(
        "map",
        "AP@k",
        "Average precision: the precision at the rank of each gold passage, summed and divided by the number of gold "
        "passages.",
        (0.25, "`a` is at rank 2, where precision is ½; `b` adds 0: ½ / 2"),
    ),
    _measure(
        "mrr",
        "RR@k",
        "One divided by the rank of the first gold passage; 0 if none of the first k is one.",
        (0.5, "1 / 2"),
    ),
    _measure(
        "ndcg",
        "nDCG@k",
        "Discounted cumulative gain, Σ grade / log₂(rank + 1) over the first k, divided by that of the best possible "
        "ranking.",
        (0.3869, "(1 / log₂ 3) / (1 / log₂ 2 + 1 / log₂ 3) = 0.631 / 1.631"),
        graded=True,
    ),
    _measure("hit", "Success@k", "1 if any of the first k is a gold passage, else 0.", (1.0, "`a` is there")),
)

SCORES: Final = (
    *_MEASURES,
    _measure(
        "full_recall",
        "",
        "1 if every group of gold passages has a passage among the first k, else 0. A passage without a group is a "
        "group of its own.",
        (0.0, "`b` is missing"),
        evaluate_full_recall,
    ),
    _measure(
        "ndcg.exp",
        "nDCG(dcg='exp-log2')@k",
        "nDCG with the gain 2^grade - 1, which rewards high grades more.",
        (0.3869, "grades of 1 have the gain 1"),
        graded=True,
    ),
    _measure(
        "dcg",
        "DCG@k",
        "Discounted cumulative gain, Σ grade / log₂(rank + 1) over the first k.",
        (0.6309, "1 / log₂ 3"),
        graded=True,
        scale=(0.0, inf),
    ),
    _measure(
        "r_precision",
        "Rprec",
        "The precision of the first R documents, where R is the number of gold passages. Only k are retrieved, so k "
        "should be at least R.",
        (0.5, "1 of the first 2"),
    ),
    _measure(
        "set.precision",
        "SetP",
        "The share of the retrieved documents, at most k, that are gold passages; 0 if nothing was retrieved.",
        (1 / 3, "1 of 3 retrieved documents"),
    ),
    _measure(
        "set.f1",
        "SetF",
        "The harmonic mean of `set.precision@k` and `recall@k`.",
        (0.4, "2 · ⅓ · ½ / (⅓ + ½)"),
    ),
    _measure(
        "judged",
        "Judged@k",
        "The share of the first k documents that people judged: gold passages of any grade, also 0.",
        (1 / 3, "`a`, of 3 documents"),
        evaluate_judged,
        graded=True,
    ),
    *(
        replace(
            score,
            name=f"{CONDENSED}.{score.name}",
            definition=f"`{score.name}@k` of the documents among the first k that people judged.",
            worked=worked,
            ir_measures=score.ir_measures and f"{score.ir_measures.removesuffix('@k')}(judged_only=True)@k",
        )
        for score, worked in zip(
            _MEASURES,
            (
                (0.5, "1 of 2 gold passages"),
                (1 / 3, "only `a` was judged; k is 3"),
                (0.4, "2 · ⅓ · ½ / (⅓ + ½)"),
                (0.5, "`a` is at rank 1: 1 / 2"),
                (1.0, "`a` is at rank 1"),
                (0.6131, "1 / 1.631"),
                (1.0, "`a` is there"),
            ),
            strict=True,
        )
    ),
)
