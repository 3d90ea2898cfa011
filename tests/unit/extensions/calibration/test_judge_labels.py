"""The judge's verdicts on answers and pairs that people labelled."""

import asyncio

import pytest

from pytest_rageval.answers.judge import Verdict
from pytest_rageval.core.errors import InputError, Unscored
from pytest_rageval.core.evalset import Example
from pytest_rageval.extensions.calibration.calibration import judge_items, judge_preference, pipeline_verdict
from pytest_rageval.extensions.calibration.human_labels import HumanLabels, LabelledAnswer, LabelledPair
from pytest_rageval.scores.arena import PREFER
from tests.unit.scores.conftest import World


class Reader:
    """A judge that prefers the longer answer, if the lengths differ; no verdict if one answer is empty."""

    async def ask(self, task: object, question: str, first: str, second: str) -> Verdict:
        assert (task, question) == (PREFER, "Why?")
        if not first or not second:
            raise Unscored("one is missing")
        return Verdict(0 if len(first) == len(second) else 1 if len(first) > len(second) else 2)


def pair(first: str, second: str) -> LabelledPair:
    return LabelledPair(Example(f"{first}/{second}", "Why?"), first, second, (0.0,))


def answers(*predictions: str) -> HumanLabels:
    labelled = tuple(
        LabelledAnswer(Example(prediction, "Where?"), ("Tulsa", "Rome"), prediction, (1.0,))
        for prediction in predictions
    )
    return HumanLabels("labels.jsonl", "yes/no", labelled)


def test_answers_are_judged_as_scores_judge_them(world: World) -> None:
    world.verdicts["Oslo"] = Unscored("unsure")
    labels = answers("Tulsa", "Paris", "no answer in the documents", "Oslo")
    outcomes = world.loop.run(judge_items(labels, pipeline_verdict(world.run, None)))
    assert [outcome.value for outcome in outcomes] == [1.0, 0.0, 0.0, None]
    assert outcomes[3].unscored == "unsure"
    assert outcomes[0].evidence.expected == ("Tulsa", "Rome")
    assert world.call_count("compare") == 3


def test_the_comparator_is_the_markers(world: World) -> None:
    """The marker's comparator is used; an unknown comparator raises InputError before any request is sent."""
    verdict = pipeline_verdict(world.run, "em")
    outcomes = world.loop.run(judge_items(answers("rome", "Oslo"), verdict))
    assert [outcome.value for outcome in outcomes] == [1.0, 0.0]
    with pytest.raises(InputError, match="there is no 'oracle'"):
        pipeline_verdict(world.run, "oracle")


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [("longer", "short", 1.0), ("short", "longer", -1.0), ("same", "size", 0.0)],
)
def test_pairs_are_judged_by_preference(first: str, second: str, verdict: float) -> None:
    """The verdict is about the pair in its own order, whichever answer the judge sees first."""
    for swapped in (False, True):
        assert asyncio.run(judge_preference(Reader(), pair(first, second), swapped=swapped)) == verdict


def test_labelled_pairs_go_to_the_judge_of_the_run(world: World) -> None:
    world.run.judge = Reader()  # type: ignore[assignment]
    labels = HumanLabels("labels.jsonl", "pairwise", pairs=(pair("longer", "short"), pair("", "short")))
    outcomes = world.loop.run(judge_items(labels, pipeline_verdict(world.run, None)))
    found = [(outcome.value, outcome.unscored) for outcome in outcomes]
    assert found == [(1.0, None), (None, "one is missing")]
