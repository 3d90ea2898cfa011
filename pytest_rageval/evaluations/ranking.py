"""Ranking measures against the gold passages, such as `recall@5` and `ndcg@5`."""

from collections.abc import Mapping, Sequence
from typing import Final

from pytest_rageval.datatypes import Example, Ranking
from pytest_rageval.errors import NoGroundTruth, UnusableRanking
from pytest_rageval.evaluations.pipeline import NO_GOLD, GoldMatches, Pipeline, ResolvedScore
from pytest_rageval.evaluations.scoring import GOLD, ScoreDef, each_example, score_each
from pytest_rageval.measures.gold_matching import GoldMatch, found_by_id, ideal_labels
from pytest_rageval.measures.gold_measures import GoldRanks, values
from pytest_rageval.scores import NOTHING, Evidence, Outcome

__all__ = ["SCORES", "comparable", "match_gold", "not_comparable", "row_of"]


async def match_gold(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[Ranking, GoldMatch]:
    """The ranking, compared with the gold passages.

    Raises:
        NoGroundTruth: there are no relevant gold passages.
        UnusableRanking: no retrieved document can be compared with one of them.
    """
    if not example.relevant:
        raise NoGroundTruth(NO_GOLD)
    ranking = await pipeline.ranking(example, resolved.k)
    return ranking, comparable(ranking, example, pipeline.match_share)


def comparable(ranking: Ranking, example: Example, share: float) -> GoldMatch:
    """A ranking compared with the gold passages; UnusableRanking where that cannot be."""
    match = GoldMatch(ranking, example.gold, share)
    reason = not_comparable(match)
    if reason is not None:
        raise UnusableRanking(reason)
    return match


@each_example
async def evaluate_full_recall(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score 1 where each group of gold passages has one among the first k; unscored as for the ranking measures."""
    ranking, match = await match_gold(pipeline, example, resolved)
    found: dict[object, bool] = {}
    for position, (gold, is_found) in enumerate(zip(example.gold, match.found, strict=True)):
        if gold.grade:
            group = position if gold.group is None else gold.group
            found[group] = found.get(group, False) or is_found
    return float(all(found.values())), Evidence(ranking, counts=match.counts)


async def evaluate_ranking(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Score what the retriever returns for k against the gold passages, all examples at once.

    A document that contains n gold passages counts as n documents, one after the other, and moves the cut-off by
    n - 1 ranks (`GoldMatch`).

    Unscored: an example without relevant gold passages; one with a gold passage that no retrieved document can be
    compared with; one at whose question the retriever failed.
    """
    matched = pipeline.matched
    if matched is None or matched.examples is not examples or matched.k != resolved.k:
        matched = GoldMatches(examples, resolved.k, *await _match(pipeline, examples, resolved.k))
    found = iter(values(resolved.spec.name, matched.rows))
    outcomes = [
        each if each.value is None else Outcome(each.example, next(found), None, each.evidence)
        for each in matched.outcomes
    ]
    # Where the retriever failed it may work in a later test.
    pipeline.matched = None if any(each.failed for each in outcomes) else matched._replace(outcomes=outcomes)
    return outcomes


async def _match(
    pipeline: Pipeline, examples: Sequence[Example], k: int
) -> tuple[list[Outcome], list[GoldRanks]]:
    rows: dict[str, GoldRanks] = {}
    equal: dict[GoldRanks, GoldRanks] = {}

    async def matched(example: Example) -> Outcome:
        if not example.relevant:
            raise NoGroundTruth(NO_GOLD)
        ranking = await pipeline.ranking(example, k)
        counts: Mapping[str, int] = NOTHING
        if (found := found_by_id(ranking, example.gold)) is not None:
            row = GoldRanks(found, tuple(ideal_labels(example.gold)), k)
        else:
            match = GoldMatch(ranking, example.gold, pipeline.match_share)
            if (reason := not_comparable(match)) is not None:
                return Outcome(example, None, reason, Evidence(ranking), cause="retriever")
            row, counts = row_of(example, match, k), match.counts or NOTHING
        rows[example.id] = equal.setdefault(row, row)
        return Outcome(example, 0.0, None, Evidence(ranking, counts=counts))

    with pipeline.expecting((each for each in examples if each.relevant), k):
        outcomes = await score_each(examples, matched, max_concurrency=pipeline.retriever.max_concurrency)
    return outcomes, [rows[each.example.id] for each in outcomes if each.value is not None]


def row_of(example: Example, match: GoldMatch, k: int) -> GoldRanks:
    """What measures at a cut-off need of a match, of an example that has relevant gold passages."""
    found = tuple((at, label) for at, label in enumerate(match.labels) if label)
    return GoldRanks(found, tuple(ideal_labels(example.gold)), k + match.surplus)


def not_comparable(match: GoldMatch) -> str | None:
    """Why a ranking cannot be compared with the gold passages; None where it can."""
    passage = match.incomparable
    if passage is None:
        return None
    keys = (("a span", passage.span), ("an id", passage.id), ("words", passage.text))
    wanted = [word for word, key in keys if key is not None]
    reason = f"no retrieved document has {' or '.join(wanted)} to find the gold passage by"
    # A text as an id says so here, as no score is there whose note could.
    hint = '; a string is a text: return documents such as {"id": "doc-4"}'
    return reason + (hint if passage.id in match.texts else "")


DEFINITIONS: Final = {
    "recall": "The share of the gold passages that are among the first k.",
    "precision": "The share of the first k documents that are gold passages.",
    "f1": "The harmonic mean of `precision@k` and `recall@k`.",
    "map": "Average precision: the precision at the rank of each gold passage, summed and divided by the "
    "number of gold passages.",
    "mrr": "One divided by the rank of the first gold passage; 0 where the first k have none.",
    "ndcg": "Discounted cumulative gain, Σ grade / log₂(rank + 1) over the first k, divided by that of the "
    "best possible ranking.",
    "hit": "1 where any of the first k is a gold passage, else 0.",
}

FAMILY: Final = "Ranking measures"

SCORES: Final = (
    *(
        ScoreDef(
            name,
            evaluate_ranking,
            asks=frozenset(),
            family=FAMILY,
            definition=definition,
            needs=(GOLD,),
        )
        for name, definition in DEFINITIONS.items()
    ),
    ScoreDef(
        "full_recall",
        evaluate_full_recall,
        asks=frozenset(),
        family=FAMILY,
        definition="1 where each group of gold passages has one among the first k, else 0. A passage without a group "
        "is one of its own.",
        needs=(GOLD,),
    ),
)
