"""The verdicts of a judge on answers and passages that people labelled."""

from collections.abc import Awaitable, Callable

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge_protocol import Judge, Preference
from pytest_rageval.datatypes import Document, Example
from pytest_rageval.errors import CallableError
from pytest_rageval.evalsets.human_labels import (
    PREFERENCES,
    HumanLabels,
    LabelledAnswer,
    LabelledItem,
    LabelledPair,
    LabelledPassage,
    Scale,
)
from pytest_rageval.evaluations.pipeline import Pipeline
from pytest_rageval.evaluations.scoring import score_each
from pytest_rageval.scores import Evidence, Outcome

__all__ = ["judge_labels", "preference", "verdict_as_scored", "verdict_of"]


async def judge_labels(
    labels: HumanLabels, verdict: Callable[[LabelledItem], Awaitable[float]]
) -> list[Outcome]:
    """The verdicts of a judge on the labelled items, in the file's order; an item without one is unscored."""
    items = {item.example.id: item for item in labels.items}

    async def score(example: Example) -> tuple[float, Evidence]:
        item, evidence = items[example.id], Evidence()
        if isinstance(item, LabelledAnswer):
            evidence = Evidence(answer=item.prediction, expected=item.references)
        return await verdict(item), evidence

    return await score_each([item.example for item in labels.items], score)


def verdict_as_scored(
    pipeline: Pipeline, comparator: str | None
) -> Callable[[LabelledItem], Awaitable[float]]:
    """A verdict as this run's scores count it: an abstention is wrong; InputError for an unknown comparator."""
    pipeline.comparison(comparator)

    async def verdict(item: LabelledItem) -> float:
        if isinstance(item, LabelledPair):
            return await preference(pipeline.judge, item)
        if isinstance(item, LabelledPassage):
            return await pipeline.relevant(item.example.full_question, Document(item.passage))
        if abstains(item.prediction):
            return 0.0
        return await pipeline.same(item.example.full_question, item.references, item.prediction, comparator)

    return verdict


def verdict_of(
    judge: Judge, scale: Scale, *, swapped: bool = False
) -> Callable[[LabelledItem], Awaitable[float]]:
    """A judge's own verdict, on the scale of the labels: yes or no, a grade, or a preference.

    With `swapped`, the references are shown from the last to the first, and the second answer before the first.
    """
    ask = judge.grade if scale == "graded" else judge.compare

    async def verdict(item: LabelledItem) -> float:
        if isinstance(item, LabelledPair):
            return await preference(judge, item, swapped=swapped)
        if isinstance(item, LabelledPassage):
            return await judge.relevant(item.example.full_question, item.passage)
        if abstains(item.prediction):
            return 0.0
        references = item.references[::-1] if swapped else item.references
        return await ask(item.example.full_question, references, item.prediction)

    return verdict


async def preference(judge: object, pair: LabelledPair, *, swapped: bool = False) -> float:
    """1.0 where a judge prefers the first answer of a pair, -1.0 the second, 0.0 neither.

    With `swapped`, the second answer is shown first; the verdict is on the pair as it is.

    Raises:
        CallableError: the judge has no `prefer`, or that returned something other than 1, 2 and 0.
        Unscored: there is no verdict.
    """
    prefer = getattr(judge, "prefer", None)
    if prefer is None:
        raise CallableError(
            "rageval_judge lacks the method prefer(question, first, second), which labelled pairs need.\n"
            "Add it (sync or async; 1 where the first answer is better, 2 where the second is, 0 where "
            "neither), or leave the fixture out and name a model with --rageval-judge-model."
        )
    shown = (pair.second, pair.first) if swapped else (pair.first, pair.second)
    found = await prefer(pair.example.full_question, *shown)
    said = found.better if isinstance(found, Preference) else found
    if said not in PREFERENCES:
        raise CallableError(f"The judge's prefer returned {said!r}.\nIt says 1, 2 or 0, or raises Unscored.")
    return -PREFERENCES[said] if swapped else PREFERENCES[said]
