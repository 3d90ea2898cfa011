"""Are the gold passages among the candidates of any stage?

A retriever may search, fuse and rerank. It reports its stages by returning `Retrieval(documents, stages=[Stage("bm25",
found), …])`; see [Which stage loses it](../how-to/stages.md). `stages.recall` is the most that the last stages can
reach: what no search found, no reranker can bring back. Below the score is the recall of each stage, over all documents
that it returned, and `final`, of the first k at the end. A lost question says which stage lost its passages, also in
other scores of rankings.
"""

from collections.abc import Mapping
from typing import Any, Final

from pytest_rageval.core.data import Example
from pytest_rageval.core.errors import NoGroundTruth, UnusableRanking
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.extensions.stages.losses import losses
from pytest_rageval.reports.build import sliced_name
from pytest_rageval.reports.layout import html_entities
from pytest_rageval.scores.definition import GOLD, Family, ScoreDef, WorkedExample, each_example
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore
from pytest_rageval.scores.ranking import match_ranking


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


def recall_rows(document: Mapping[str, Any]) -> list[str]:
    """Return the recall of each stage as a table, in lines of Markdown; empty for a report without `stages.recall`."""
    recalls = [
        (test["nodeid"], sliced_name(entry), stage, recall)
        for test in document["tests"]
        for entry in test["scores"]
        if entry["spec"].partition("@")[0] == SCORES[0].name
        for stage, recall in entry.get("beside", {}).items()
    ]
    rows = [
        [*(f"<code>{html_entities(name)}</code>" for name in names), f"{recall:.3f}"]
        for *names, recall in recalls
    ]
    head = [["test", "score", "stage", "recall"], ["---"] * 4] if rows else []
    return [f"| {' | '.join(cells)} |" for cells in (*head, *rows)]


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
