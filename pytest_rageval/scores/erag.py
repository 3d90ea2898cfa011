"""Which retrieved passages help this generator?

Each retrieved passage gets a label: is the generator's answer from this passage alone correct? The ranking is then
scored by these labels. Only retrieved passages have labels, so `recall`, `map` and `ndcg` are normalised by the useful
passages *among the retrieved ones*, and the score cannot see a passage that was missed. `label="f1>=0.5"` sets how an
answer is compared; `label="f1"` uses the value itself as the label. For labels between 0 and 1 only `p`, `hit` and
`ndcg` are defined.
"""

from collections.abc import Sequence
from typing import Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.ranking import Document
from pytest_rageval.scores.definition import REFERENCES, Family, ScoreDef, WorkedExample
from pytest_rageval.scores.passage_labels import (
    BINARY_ONLY_MEASURES,
    GRADED_LABELS_REMEDY,
    Label,
    label_each_passage,
    label_scores,
    score_by_labels,
)
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore, has_references


async def _label(pipeline: Pipeline, example: Example, resolved: ResolvedScore, passage: Document) -> Label:
    """Label a passage by the answer that the generator gives from it alone; an abstention is 0."""
    answer = await pipeline.answer_from(example.full_question, [passage])
    comparator = resolved.label or resolved.comparator
    return Label(await pipeline.partial_correctness(example, answer, comparator), answer)


_score: Final = score_by_labels(label_each_passage(_label, has_references))


async def evaluate_erag(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Unscored: an example without reference answers; an example with a passage that has no answer or no label."""
    # Checked before the first request.
    comparison = pipeline.comparison(resolved.label or resolved.comparator)
    if comparison.graded and resolved.part in BINARY_ONLY_MEASURES:
        raise InputError(
            f"eRAG's {resolved.part} is defined for labels of 0 and 1 only, and these are graded.\n"
            f"{GRADED_LABELS_REMEDY}"
        )
    return await _score(pipeline, examples, resolved)


FAMILY: Final = Family(
    "eRAG",
    __doc__,
    requests="1 answer and 1 verdict for each retrieved passage; kept by question and passage",
    source="Salemi and Zamani (2024), sections 2 and 3.",
    example=WorkedExample(
        text="The retriever returns `x`, `y`, `z`. From `x` alone the generator does not know the answer, from `y` and "
        "from `z` it does: the labels are 0, 1, 1.",
        k=3,
        record={"question": "Where is the company based?", "answers": ["Tulsa"]},
        retrieved=("x", "y", "z"),
        says={"x": "no answer in the documents", "y": "Tulsa", "z": "Tulsa"},
    ),
)

SCORES: Final = label_scores(
    ScoreDef(
        "erag",
        evaluate_erag,
        {"generate", "compare", "label"},
        comparisons=lambda _pipeline, resolved: {"comparator": resolved.label or resolved.comparator},
        needs=(REFERENCES,),
        one_passage=True,
    ),
    {
        "p": "The mean label of the first k.",
        "recall": "The share of the useful retrieved passages that are among the first k.",
        "map": "Average precision by the labels.",
        "mrr": "One divided by the rank of the first useful passage.",
        "ndcg": "nDCG with the labels as gains.",
        "hit": "The highest label among the first k.",
    },
)
