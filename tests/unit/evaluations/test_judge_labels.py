"""The judge's verdicts on labelled answers and pairs."""

import asyncio

import pytest

from pytest_rageval.datatypes import Example
from pytest_rageval.errors import CallableError, InputError, Unscored
from pytest_rageval.evalsets.human_labels import HumanLabels, LabelledAnswer, LabelledPair
from pytest_rageval.evaluations.calibration import judge_items, judge_preference, pipeline_verdict
from tests.unit.evaluations.conftest import World


class Reader:
    """Prefers the longer answer; neither where they are alike, no verdict where one is empty."""

    async def prefer(self, question: str, first: str, second: str) -> int:
        """1, 2 or 0."""
        assert question == "Why?"
        if not first or not second:
            raise Unscored("one is missing")
        return 0 if len(first) == len(second) else 1 if len(first) > len(second) else 2


def pair(first: str, second: str) -> LabelledPair:
    """Two answers that people found alike."""
    return LabelledPair(Example(f"{first}/{second}", "Why?"), first, second, (0.0,))


def answers(*predictions: str) -> HumanLabels:
    """Answers that people found right."""
    return HumanLabels(
        "labels.jsonl",
        "yes/no",
        tuple(
            LabelledAnswer(Example(said, "Where?"), ("Tulsa", "Rome"), said, (1.0,)) for said in predictions
        ),
    )


def test_answers_are_judged_as_scores_judge_them(world: World) -> None:
    """By the comparator; an abstention is wrong without being asked about; who has no verdict is unscored."""
    world.verdicts["Oslo"] = Unscored("unsure")
    labels = answers("Tulsa", "Paris", "no answer in the documents", "Oslo")
    outcomes = world.loop.run(judge_items(labels, pipeline_verdict(world.run, None)))
    assert [outcome.value for outcome in outcomes] == [1.0, 0.0, 0.0, None]
    assert outcomes[3].unscored == "unsure"
    assert outcomes[0].evidence.expected == ("Tulsa", "Rome")
    assert world.call_count("compare") == 3


def test_the_comparator_is_the_markers(world: World) -> None:
    """And one that there is not is refused before anything is asked."""
    verdict = pipeline_verdict(world.run, "em")
    assert [one.value for one in world.loop.run(judge_items(answers("rome", "Oslo"), verdict))] == [1.0, 0.0]
    with pytest.raises(InputError, match="there is no 'oracle'"):
        pipeline_verdict(world.run, "oracle")


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [("longer", "short", 1.0), ("short", "longer", -1.0), ("same", "size", 0.0)],
)
def test_pairs_are_judged_by_preference(first: str, second: str, verdict: float) -> None:
    """The verdict is on the pair as it is, whichever answer was shown first."""
    for swapped in (False, True):
        assert asyncio.run(judge_preference(Reader(), pair(first, second), swapped=swapped)) == verdict


def test_labelled_pairs_go_to_the_judge_of_the_run(world: World) -> None:
    """One without a verdict is unscored."""
    world.run.judge = Reader()  # type: ignore[assignment]
    labels = HumanLabels("labels.jsonl", "pairwise", pairs=(pair("longer", "short"), pair("", "short")))
    outcomes = world.loop.run(judge_items(labels, pipeline_verdict(world.run, None)))
    assert [(outcome.value, outcome.unscored) for outcome in outcomes] == [
        (1.0, None),
        (None, "one is missing"),
    ]


def test_a_judge_without_prefer_is_an_error() -> None:
    """The method is named, and what it returns."""

    class Liker:
        async def prefer(self, *_: str) -> str:
            return "the first"

    with pytest.raises(CallableError, match=r"lacks the method prefer\(question, first, second\)"):
        asyncio.run(judge_preference(object(), pair("a", "b")))
    with pytest.raises(CallableError, match="prefer returned 'the first'"):
        asyncio.run(judge_preference(Liker(), pair("a", "b")))
