"""The verdicts of a judge on answers, passages and pairs of answers that people labelled."""

from collections.abc import Awaitable, Callable

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge.protocol import Judge, Preference
from pytest_rageval.core.data import Document, Example
from pytest_rageval.core.errors import CallableError
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.extensions.calibration.human_labels import (
    PREFERENCES,
    HumanLabels,
    LabelledAnswer,
    LabelledItem,
    LabelledPair,
    LabelledPassage,
    Scale,
)
from pytest_rageval.scores.definition import score_each
from pytest_rageval.scores.pipeline import Pipeline

__all__ = ["judge_items", "judge_preference", "judge_verdict", "pipeline_verdict"]


async def judge_items(
    labels: HumanLabels, verdict: Callable[[LabelledItem], Awaitable[float]]
) -> list[Outcome]:
    """Return one outcome per labelled item, in the order of the file, with the verdict as its value.

    An item without a verdict is unscored.
    """
    items = {item.example.id: item for item in labels.items}

    async def score(example: Example) -> tuple[float, Evidence]:
        item, evidence = items[example.id], Evidence()
        if isinstance(item, LabelledAnswer):
            evidence = Evidence(answer=item.prediction, expected=item.references)
        return await verdict(item), evidence

    return await score_each([item.example for item in labels.items], score)


def pipeline_verdict(
    pipeline: Pipeline, comparator: str | None
) -> Callable[[LabelledItem], Awaitable[float]]:
    """Return a function that judges a labelled item as the scores of this run do: an abstention is wrong.

    Raises:
        InputError: the comparator is unknown.
    """
    # Raises the error for an unknown comparator.
    pipeline.comparison(comparator)

    async def verdict(item: LabelledItem) -> float:
        if isinstance(item, LabelledPair):
            return await judge_preference(pipeline.judge, item)
        if isinstance(item, LabelledPassage):
            return await pipeline.relevant(item.example.full_question, Document(item.passage))
        if abstains(item.prediction):
            return 0.0
        return await pipeline.compare(
            item.example.full_question, item.references, item.prediction, comparator
        )

    return verdict


def judge_verdict(
    judge: Judge, scale: Scale, *, swapped: bool = False
) -> Callable[[LabelledItem], Awaitable[float]]:
    """Return a function that returns a judge's verdict on a labelled item: yes or no, a grade, or a preference.

    Args:
        judge: the judge.
        scale: the scale of the labels.
        swapped: whether the judge reads the references from the last to the first, and the second answer of a pair
            before the first.
    """
    compare = judge.grade if scale == "graded" else judge.compare

    async def verdict(item: LabelledItem) -> float:
        if isinstance(item, LabelledPair):
            return await judge_preference(judge, item, swapped=swapped)
        if isinstance(item, LabelledPassage):
            return await judge.relevant(item.example.full_question, item.passage)
        if abstains(item.prediction):
            return 0.0
        references = item.references[::-1] if swapped else item.references
        return await compare(item.example.full_question, references, item.prediction)

    return verdict


async def judge_preference(judge: object, pair: LabelledPair, *, swapped: bool = False) -> float:
    """Return 1.0 if a judge prefers the first answer of a pair, -1.0 for the second answer, 0.0 for neither.

    With `swapped`, the judge reads the second answer first. The result is for the pair in its original order.

    Raises:
        CallableError: the judge has no method `prefer`, or the method returned a value other than 1, 2 and 0.
        Unscored: there is no verdict.
    """
    prefer = getattr(judge, "prefer", None)
    if prefer is None:
        raise CallableError(
            "rageval_judge lacks the method prefer(question, first, second), which labelled pairs need.\n"
            "Add it (sync or async; 1 where the first answer is better, 2 where the second is, 0 where "
            "neither), or leave the fixture out and name a model with --rageval-judge-model."
        )
    answers = (pair.second, pair.first) if swapped else (pair.first, pair.second)
    returned = await prefer(pair.example.full_question, *answers)
    better = returned.better if isinstance(returned, Preference) else returned
    if better not in PREFERENCES:
        raise CallableError(
            f"The judge's prefer returned {better!r}.\nIt must return 1, 2 or 0, or raise Unscored."
        )
    return -PREFERENCES[better] if swapped else PREFERENCES[better]
