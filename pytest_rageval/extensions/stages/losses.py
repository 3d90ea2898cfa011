"""Finds the stage that lost a gold passage."""

from collections.abc import Sequence
from dataclasses import replace

from pytest_rageval.core.data import Example, Ranking
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.gate.verdict import ThresholdInput
from pytest_rageval.run.judged import JudgedTest
from pytest_rageval.scores.gold_matching import GoldMatch


def explained(test: JudgedTest, threshold_input: ThresholdInput) -> ThresholdInput | None:
    """Return the input with a remark on each outcome below 1 that has none; None if a model takes part in the score."""
    score, share = threshold_input.score, test.session.settings.match_share
    if score.repeats or test.definition(threshold_input.threshold).asks:
        return None
    outcomes = [_explained(outcome, share) for outcome in score.outcomes]
    return threshold_input._replace(score=test.session.score_of(threshold_input.threshold.request, outcomes))


def _explained(outcome: Outcome, share: float) -> Outcome:
    ranking, evidence = outcome.evidence.ranking, outcome.evidence
    if (
        ranking is None
        or not ranking.stages
        or outcome.value is None
        or outcome.value >= 1
        or evidence.remark
    ):
        return outcome
    return replace(
        outcome, evidence=replace(evidence, remark="; ".join(losses(ranking, outcome.example, share)))
    )


def losses(ranking: Ranking, example: Example, share: float) -> list[str]:
    """Return where a ranking with stages lost each gold passage that it lacks, such as "a: lost by rerank"."""
    stages = ranking.stages or ()
    ranks = [GoldMatch(stage, example.gold, share).ranks for stage in stages]
    final = GoldMatch(ranking, example.gold, share).ranks
    texts = []
    for position, gold in enumerate(example.gold):
        if gold.grade > 0 and final[position] is None:
            how = _loss(stages, [each[position] for each in ranks], ranking.k)
            texts.append(f"{gold.label}: {how}")
    return texts


def _loss(stages: Sequence[Ranking], ranks: Sequence[int | None], k: int) -> str:
    """Return how a passage was lost that has these ranks in the stages, and none in the first k at the end."""
    having = [number for number, rank in enumerate(ranks) if rank is not None]
    if not having:
        return "never among the candidates"

    def where(number: int) -> str:
        return f"rank {ranks[number]} of {len(stages[number])} after {stages[number].query}"

    last = having[-1]
    loser = next((number for number in range(last + 1, len(stages)) if _selects(stages, number)), None)
    if loser is not None:
        return f"lost by {stages[loser].query} ({where(last)})"
    rank = ranks[last] or 0
    if rank <= k:
        return f"lost after {stages[last].query} ({where(last)})"
    if len(having) > 1 and (ranks[having[-2]] or 0) <= k and _selects(stages, last):
        return f"lost by {stages[last].query}: {where(having[-2])}, then rank {rank}"
    return f"{where(last)}, beyond the first {k}"


def _selects(stages: Sequence[Ranking], number: int) -> bool:
    """Return True if a stage works on what stages before it found, as fusion and rerankers do; searches find more."""
    before = {document.identity for stage in stages[:number] for document in stage}
    return all(document.identity in before for document in stages[number])
