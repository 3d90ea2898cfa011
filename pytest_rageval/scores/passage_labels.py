"""Scores of rankings by labels of their passages, for `erag`, `contains`, `relevance` and `provenance`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import InputError, NoGroundTruth
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.scores.definition import Scored, ScoreDef, each_example
from pytest_rageval.scores.measures import usefulness
from pytest_rageval.scores.pipeline import NO_REFERENCES, Evaluation, Pipeline, ResolvedScore, expected_of

WORKED: Final = {
    "p": (2 / 3, "2 / 3"),
    "recall": (1.0, "2 of 2"),
    "map": (0.5833, "(½ + ⅔) / 2"),
    "mrr": (0.5, "1 / 2"),
    "ndcg": (0.6934, "(0.631 + 0.5) / (1 + 0.631)"),
    "hit": (1.0, "the label of `y`"),
}
"""For each measure, its value in the worked examples, in which the labels of `x`, `y` and `z` are 0, 1 and 1."""

BINARY_ONLY_MEASURES: Final = frozenset({"recall", "map", "mrr"})
"""The measures that are defined for labels of 0 and 1 only."""

GRADED_LABELS_REMEDY: Final = (
    'Say from where on a label counts as 1, as in label="judge>=0.5" or "f1>=0.5", or use p, hit or ndcg.'
)

ExpectedAnswers = tuple[tuple[str, ...], str]  # fields `expected` and `expected_as` of `Evidence`

NO_ANSWERS: Final[ExpectedAnswers] = (), "reference"


class Label(NamedTuple):
    """How useful a passage is, in [0, 1], and the generator's answer from it alone, if there is one."""

    value: float
    answer: str | None = None


Annotator = Callable[[Pipeline, Example, ResolvedScore, Document], Awaitable[Label]]  # labels one passage

LabelledRanking = tuple[Ranking, Sequence[Label], ExpectedAnswers]
"""A ranking with the label of each passage, and the answers that the labels are based on."""

LabelRanking = Callable[[Pipeline, Example, ResolvedScore], Awaitable[LabelledRanking]]
"""Retrieves the ranking of an example and labels all its passages."""


def label_scores(common: ScoreDef, definitions: Mapping[str, str]) -> tuple[ScoreDef, ...]:
    return tuple(
        replace(common, name=f"{common.name}.{part}", definition=definition, worked=WORKED[part])
        for part, definition in definitions.items()
    )


def label_each_passage(
    annotate: Annotator,
    can_label: Callable[[Example], bool],
    expected: Callable[[Example], ExpectedAnswers] = expected_of,
) -> LabelRanking:
    async def label_ranking(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> LabelledRanking:
        if not can_label(example):
            raise NoGroundTruth(NO_REFERENCES)
        ranking = await pipeline.ranking_with_texts(example, resolved.k)
        labels = await gather_all(annotate(pipeline, example, resolved, passage) for passage in ranking)
        return ranking, labels, expected(example)

    return label_ranking


def score_by_labels(label_ranking: LabelRanking) -> Evaluation:
    @each_example
    async def score_labels(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
        ranking, labels, expected = await label_ranking(pipeline, example, resolved)
        values = tuple(label.value for label in labels)
        for rank, (passage, value) in enumerate(zip(ranking, values, strict=True), 1):
            if resolved.part in BINARY_ONLY_MEASURES and 0 < value < 1:
                name = f"{rank}. {passage.label}"
                raise InputError(
                    f"query {example.id!r}: the label of passage {name!r} is {value!r}, and labels are expected to be "
                    f"0 or 1.\n{GRADED_LABELS_REMEDY}"
                )
        score = usefulness(resolved.part, values, resolved.k)
        alone = tuple(label.answer for label in labels if label.answer is not None)
        return score, Evidence(ranking, None, *expected, labels=values, answers_alone=alone)

    return score_labels
