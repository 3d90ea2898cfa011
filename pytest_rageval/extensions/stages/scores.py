"""Are the gold passages among the candidates of any stage?

A retriever may search, fuse and rerank. It reports its stages by returning `Retrieval(documents, stages=[Stage("bm25",
found), …])`; see [Which stage loses it](../how-to/stages.md). `stages.recall` is the most that the last stages can
reach: what no search found, no reranker can bring back. Below the score is the recall of each stage, over all documents
that it returned, and `final`, of the first k at the end. A lost question says which stage lost its passages, also in
other scores of rankings.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from pytest_rageval.core.errors import CallableError, InputError, NoGroundTruth, UnusableRanking
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.gate.verdict import ThresholdInput
from pytest_rageval.lib.foreign_values import JsonObject, as_identifier, id_key, is_async
from pytest_rageval.reports.build import sliced_name
from pytest_rageval.run.judged import JudgedTest
from pytest_rageval.run.test import TestRun
from pytest_rageval.scores.definition import GOLD, Family, ScoreDef, WorkedExample, each_example
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore
from pytest_rageval.scores.ranking import match_ranking

CORPUS: Final = "rageval_corpus"

IsIndexed = Callable[[str], bool]  # tells whether a passage with an id is in the index


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
    """Return what the fixture `rageval_corpus` says of ids; None without it, and in a merge."""
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


@each_example
async def evaluate_recall(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the share of the gold passages that are in the documents of any stage, or among the first k."""
    if not example.relevant:
        raise NoGroundTruth("no gold passages")
    ranking = await pipeline.ranking(example, resolved.k)
    if ranking.stages is None:
        raise UnusableRanking(
            'the retriever reports no stages: return Retrieval(documents, stages=[Stage("…", …)])'
        )
    by_stage = {stage.query: stage for stage in ranking.stages} | {"final": ranking}
    found = {
        name: {
            position
            for position, rank in enumerate(match_ranking(stage, example, pipeline.match_share).ranks)
            if rank is not None
        }
        for name, stage in by_stage.items()
    }
    of = len(example.relevant)
    recalls = {name: len(positions) / of for name, positions in found.items()}
    remark = "; ".join(losses(ranking, example, pipeline.match_share))
    return len(set[int]().union(*found.values())) / of, Evidence(ranking, beside=recalls, remark=remark)


def recall_rows(tests: Sequence[JsonObject]) -> list[tuple[str, ...]]:
    rows = [
        (test["nodeid"], sliced_name(entry), stage, f"{recall:.3f}")
        for test in tests
        for entry in test["scores"]
        if entry["spec"].partition("@")[0] == SCORES[0].name
        for stage, recall in entry.get("beside", {}).items()
    ]
    return [("test", "score", "stage", "recall"), *rows] if rows else []


SCORES: Final = (
    ScoreDef(
        "stages.recall",
        evaluate_recall,
        family=Family(
            "Stages of a retriever",
            __doc__,
            requests="none",
            source="our own.",
            example=WorkedExample(
                text="Three gold passages, `a`, `b` and `c`. The search returns `a`, `b`, `d`, `e`; the reranker puts "
                "`d` first, and the first two are returned: `d`, `a`.",
                k=2,
                record={
                    "question": "Where is the company based?",
                    "gold": [{"id": "a"}, {"id": "b"}, {"id": "c"}],
                },
                retrieved=("d", "a"),
                stages={"search": ("a", "b", "d", "e"), "rerank": ("d", "a", "e", "b")},
            ),
        ),
        definition="The share of the gold passages that are in the documents of any stage.",
        worked=(2 / 3, "`c` is in none; `final` is ⅓, and `b` was lost by the reranker"),
        needs=(GOLD,),
    ),
)
