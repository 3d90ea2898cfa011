"""Finds the stage that lost a gold passage."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from pytest_rageval.core.data import Example, Ranking
from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.user_code import is_async
from pytest_rageval.gate.verdict import ThresholdInput
from pytest_rageval.lib.foreign_values import as_identifier, id_key
from pytest_rageval.run.judged import JudgedTest
from pytest_rageval.run.test import TestRun
from pytest_rageval.scores.gold_matching import GoldMatch

CORPUS: Final = "rageval_corpus"

IsIndexed = Callable[[str], bool]
"""Tells whether a passage with an id is in the index."""


def explained(test: JudgedTest, threshold_input: ThresholdInput) -> ThresholdInput | None:
    """Return the input with a remark on each outcome below 1 that has none; None if a model takes part in the score."""
    score, share = threshold_input.score, test.session.settings.match_share
    if score.repeats or test.definition(threshold_input.threshold).asks:
        return None
    is_indexed = _index_of(test)
    outcomes = [_explained(outcome, share, is_indexed) for outcome in score.outcomes]
    return threshold_input._replace(score=test.session.score_of(threshold_input.threshold.request, outcomes))


def _explained(outcome: Outcome, share: float, is_indexed: IsIndexed | None) -> Outcome:
    ranking, evidence, example = outcome.evidence.ranking, outcome.evidence, outcome.example
    if ranking is None or not ranking.stages or outcome.value is None or outcome.value >= 1:
        return outcome
    # `stages.recall` has the remark of its evaluation, which does not know the index.
    if evidence.remark and evidence.remark != "; ".join(losses(ranking, example, share)):
        return outcome
    remark = "; ".join(losses(ranking, example, share, is_indexed))
    return replace(outcome, evidence=replace(evidence, remark=remark))


def _index_of(test: JudgedTest) -> IsIndexed | None:
    """Return what the fixture `rageval_corpus` says of ids; None without it, and in a merge.

    Raises:
        InputError: it is neither a collection of ids nor a sync function.
    """
    corpus = test.components.added.get(CORPUS) if isinstance(test, TestRun) else None
    if corpus is None:
        return None
    if callable(corpus) and not is_async(corpus):
        return lambda identifier: _is_indexed(corpus, identifier)
    if not isinstance(corpus, Collection) or isinstance(corpus, str | bytes):
        kind = "an async function" if callable(corpus) else type(corpus).__name__
        raise InputError(
            f"{CORPUS} is {kind}.\nReturn the ids of the passages in the index, as a set or a list, or a function "
            "(id) -> bool that is not async."
        )
    if CORPUS not in test.state:
        try:
            names = map(as_identifier, corpus)
            test.state[CORPUS] = frozenset(id_key(name) for name in names if name is not None)
        except TypeError as error:
            raise InputError(f"{CORPUS} contains {error}.\nReturn ids alone, not passages.") from None
    ids: frozenset[str] = test.state[CORPUS]
    return lambda identifier: id_key(identifier) in ids


def _is_indexed(function: Callable[[str], object], identifier: str) -> bool:
    try:
        return bool(function(identifier))
    except Exception as error:
        raise CallableError.from_exception(f"{CORPUS} raised for {identifier!r}", error) from error


def losses(
    ranking: Ranking, example: Example, share: float, is_indexed: IsIndexed | None = None
) -> list[str]:
    """Return where a ranking with stages lost each gold passage that it lacks, such as "a: lost by rerank"."""
    stages = ranking.stages or ()
    ranks = [GoldMatch(stage, example.gold, share).ranks for stage in stages]
    final = GoldMatch(ranking, example.gold, share).ranks
    texts = []
    for position, gold in enumerate(example.gold):
        if gold.grade > 0 and final[position] is None:
            found = [each[position] for each in ranks]
            how = _loss(stages, found, ranking.k)
            if not any(found) and is_indexed and gold.id is not None and not is_indexed(gold.id):
                how = "not in the index"
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
