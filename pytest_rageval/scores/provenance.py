"""At which ranks of the retrieved passages are the gold ones? Missed ones do not count.

The same measures as for eRAG; the label is 1 if the passage is a gold passage, or a part of one that is found. These
scores are for the comparison of annotators in `rageval.agreement()`, which label retrieved passages only. So
`provenance.recall` is 1 if any gold passage is retrieved. To measure a retriever use `recall@k`, which counts missed
passages.
"""

from typing import Final

from pytest_rageval.core.evalset import Example
from pytest_rageval.scores.definition import GOLD, Family, ScoreDef, WorkedExample
from pytest_rageval.scores.passage_labels import (
    NO_ANSWERS,
    Label,
    LabelledRanking,
    label_scores,
    score_by_labels,
)
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore
from pytest_rageval.scores.ranking import retrieve_and_match


async def _label_ranking(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> LabelledRanking:
    ranking, match = await retrieve_and_match(pipeline, example, resolved)
    return ranking, [Label(float(bool(positions))) for positions in match.positions], NO_ANSWERS


FAMILY: Final = Family(
    "Retrieved passages that are gold",
    __doc__,
    requests="none",
    source='The annotator "KILT provenance" of Salemi and Zamani (2024), section 3.',
    example=WorkedExample(
        text="The gold passages are `y`, `z` and `w`. The retriever returns `x`, `y`, `z`: the labels are 0, 1, 1.",
        k=3,
        record={"question": "Where is the company based?", "gold": [{"id": "y"}, {"id": "z"}, {"id": "w"}]},
        retrieved=("x", "y", "z"),
    ),
)

SCORES: Final = label_scores(
    ScoreDef("provenance", score_by_labels(_label_ranking), needs=(GOLD,)),
    {
        "p": "The share of the first k that are gold passages, or parts of one.",
        "recall": "The share of the retrieved gold passages that are among the first k.",
        "map": "Average precision by the labels.",
        "mrr": "One divided by the rank of the first gold passage.",
        "ndcg": "nDCG by the labels.",
        "hit": "1 if any of the first k is a gold passage, or a part of one, else 0.",
    },
)
