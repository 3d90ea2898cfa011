"""Scores of rankings by labels of their passages, for `erag`, `contains`, `relevance` and `provenance`."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import InputError, NoGroundTruth
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.scores.definition import Scored, ScoreDef, score_with_progress
from pytest_rageval.scores.measures import usefulness
from pytest_rageval.scores.pipeline import NO_REFERENCES, Pipeline, ResolvedScore, expected_of

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


Annotator = Callable[[Example, Document], Awaitable[Label]]  # labels one passage of an example

LabelledRanking = tuple[Ranking, Sequence[Label], ExpectedAnswers]
"""A ranking with the label of each passage, and the answers that the labels are based on."""

LabelRanking = Callable[[Example], Awaitable[LabelledRanking]]
"""Retrieves the ranking of an example and labels all its passages."""


def label_scores(common: ScoreDef, definitions: Mapping[str, str]) -> tuple[ScoreDef, ...]:
    """Return the scores of all measures by the labels of one annotator, whose name `common` has."""
    return tuple(
        replace(common, name=f"{common.name}.{part}", definition=definition, worked=WORKED[part])
        for part, definition in definitions.items()
    )


def label_each_passage(
    pipeline: Pipeline,
    resolved: ResolvedScore,
    annotate: Annotator,
    can_label: Callable[[Example], bool],
    expected: Callable[[Example], ExpectedAnswers] = expected_of,
) -> LabelRanking:
    async def label_ranking(example: Example) -> LabelledRanking:
        if not can_label(example):
            raise NoGroundTruth(NO_REFERENCES)
        ranking = await pipeline.ranking_with_texts(example, resolved.k)
        labels = await gather_all(annotate(example, passage) for passage in ranking)
        return ranking, labels, expected(example)

    return label_ranking


async def score_by_labels(
    pipeline: Pipeline,
    examples: Sequence[Example],
    resolved: ResolvedScore,
    label_ranking: LabelRanking,
    *,
    graded: bool = False,
) -> list[Outcome]:
    """With `graded`, labels may lie between 0 and 1; InputError before the first request if the measure has none."""
    binary_only = resolved.part in BINARY_ONLY_MEASURES
    if graded and binary_only:
        raise InputError(
            f"eRAG's {resolved.part} is defined for labels of 0 and 1 only, and these are graded.\n"
            f"{GRADED_LABELS_REMEDY}"
        )

    async def score_labels(example: Example) -> Scored:
        ranking, labels, expected = await label_ranking(example)
        values = tuple(label.value for label in labels)
        for rank, (passage, value) in enumerate(zip(ranking, values, strict=True), 1):
            if binary_only and 0 < value < 1:
                name = f"{rank}. {passage.label}"
                raise InputError(
                    f"query {example.id!r}: the label of passage {name!r} is {value!r}, and labels are expected to be "
                    f"0 or 1.\n{GRADED_LABELS_REMEDY}"
                )
        score = usefulness(resolved.part, values, resolved.k)
        alone = tuple(label.answer for label in labels if label.answer is not None)
        return score, Evidence(ranking, None, *expected, labels=values, answers_alone=alone)

    return await score_with_progress(pipeline, examples, score_labels)
