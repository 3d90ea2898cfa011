"""Which retrieved passages does a judge call relevant?

The same measures as for eRAG; the label is 1 if the judge says that the passage helps to answer the question. A grade
counts as relevant from 0.5 on. People's labels of about 100 questions [correct the
mean](../how-to/judge-calibration.md#label-passages) for the judge's errors, with an interval.
"""

from typing import Final

from pytest_rageval.answers.judge import JudgeTask
from pytest_rageval.answers.judge.replies import parse_yes_no
from pytest_rageval.answers.judge.tasks import majority, read_share
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import YES_THRESHOLD
from pytest_rageval.core.ranking import Document
from pytest_rageval.scores.definition import REFERENCES, Family, ScoreDef, WorkedExample
from pytest_rageval.scores.passage_labels import (
    NO_ANSWERS,
    Label,
    label_each_passage,
    label_scores,
    score_by_labels,
)
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore, has_references

RELEVANT: Final = JudgeTask(
    name="relevant",
    template="relevance",
    texts=("question", "passage"),
    parse=parse_yes_no,
    vote=majority,
    read=read_share,
    call='relevant(question, passage), which the scores relevance.* and udcg need, and the keyword relevant="judge"',
    returns="True or False",
    decides="Whether a passage is relevant",
    instead='leave out the scores relevance.* and udcg, and the keyword relevant="judge"',
    is_yes_no=True,
    by_majority=True,
)
"""1 if the passage helps to answer the question, else 0."""


async def _label(pipeline: Pipeline, example: Example, _resolved: ResolvedScore, passage: Document) -> Label:
    return Label(float(await judge_finds_relevant(pipeline, example, passage)))


evaluate_relevance: Final = score_by_labels(label_each_passage(_label, has_references, lambda _: NO_ANSWERS))


async def judge_finds_relevant(pipeline: Pipeline, example: Example, passage: Document) -> bool:
    """Whether the judge calls a passage relevant to the question: with a verdict of at least 0.5."""
    return await pipeline.ask(RELEVANT, example.full_question, passage.text) >= YES_THRESHOLD


FAMILY: Final = Family(
    "Passages that a judge calls relevant",
    __doc__,
    requests="1 verdict for each retrieved passage; kept by question and passage",
    source='The annotator "relevance by LLM" of Salemi and Zamani (2024), section 3.',
    example=WorkedExample(
        text="The retriever returns `x`, `y`, `z`. The judge calls `y` and `z` relevant: the labels are 0, 1, 1.",
        k=3,
        record={"question": "Where is the company based?", "answers": ["Tulsa"]},
        retrieved=("x", "y", "z"),
        judge={"relevant": ["Passage y.", "Passage z."]},
    ),
)

SCORES: Final = label_scores(
    ScoreDef("relevance", evaluate_relevance, {RELEVANT}, corrected_by="passages", needs=(REFERENCES,)),
    {
        "p": "The share of the first k that are relevant.",
        "recall": "The share of the relevant retrieved passages that are among the first k.",
        "map": "Average precision by the labels.",
        "mrr": "One divided by the rank of the first relevant passage.",
        "ndcg": "nDCG by the labels.",
        "hit": "1 if any of the first k is relevant, else 0.",
    },
)
