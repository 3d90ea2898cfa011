"""Which retrieved passages contain a reference answer?

The same measures as for eRAG; the label is 1 if the words of a reference answer occur in the passage. This costs
nothing, but a passage may contain the answer by chance. A long-form `reference` occurs in no passage, so `answers` or
`answer_set` is needed.
"""

from typing import Final

from pytest_rageval.answers.overlap import containment
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.ranking import Document
from pytest_rageval.scores.definition import REFERENCES, Family, ScoreDef, WorkedExample
from pytest_rageval.scores.passage_labels import Label, label_each_passage, label_scores, score_by_labels
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore


async def _label(_pipeline: Pipeline, example: Example, _resolved: ResolvedScore, passage: Document) -> Label:
    return Label(float(contains_answer(example, passage)))


# A long-form `reference` occurs in no passage.
evaluate_contains: Final = score_by_labels(label_each_passage(_label, lambda example: bool(example.wanted)))


def contains_answer(example: Example, passage: Document) -> bool:
    return any(containment(passage.text, aliases) for aliases in example.wanted)


FAMILY: Final = Family(
    "Passages that contain an answer",
    __doc__,
    requests="none",
    source='The annotator "containing the answer" of Salemi and Zamani (2024), section 3.',
    example=WorkedExample(
        text='The answer is "Tulsa". The retriever returns `x`, `y`, `z`; the word occurs in `y` and in `z`: the '
        "labels are 0, 1, 1.",
        k=3,
        record={"question": "Where is the company based?", "answers": ["Tulsa"]},
        retrieved=("x", "y", "z"),
        texts={"x": "We sell tablets.", "y": "Our seat is Tulsa.", "z": "Tulsa is in Oklahoma."},
    ),
)

SCORES: Final = label_scores(
    ScoreDef("contains", evaluate_contains, needs=(REFERENCES,)),
    {
        "p": "The share of the first k that contain an answer.",
        "recall": "The share of the retrieved passages with an answer that are among the first k.",
        "map": "Average precision by the labels.",
        "mrr": "One divided by the rank of the first passage with an answer.",
        "ndcg": "nDCG by the labels.",
        "hit": "1 if any of the first k contains an answer, else 0.",
    },
)
