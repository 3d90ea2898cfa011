"""The judge's grades, from 1 to 5, of the answers and of the retrieved passages."""

import pytest

from pytest_rageval.answers.judge import Verdict
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.run.registry import resolve

SPECS = ("judged.correctness@2", "judged.faithfulness@2", "judged.context_quality@2")


def test_what_is_rated_and_what_it_is_held_against(world, example) -> None:
    world.rankings = {"one": ["Reno", "Elko", "Ely"]}
    world.answers = {"Reno|Elko": "It is Reno."}
    world.ratings = {
        ("correctness", ("It is Reno.",), ("Reno", "Reno, Nevada")): Verdict(5.0, "The same."),
        ("faithfulness", ("It is Reno.",), ("Reno", "Elko")): Verdict(4.0, "Said by the first."),
        ("context_quality", ("Reno", "Elko"), ("gold",)): Verdict(2.0, "Another subject."),
    }
    case = example("one", "gold", answers=("Reno", "Reno, Nevada"))
    outcomes = [world.evaluate(spec, case)[0] for spec in SPECS]
    assert [outcome.value for outcome in outcomes] == [5.0, 4.0, 2.0]
    explained = [outcome.evidence.explanation for outcome in outcomes]
    assert explained == ["The same.", "Said by the first.", "Another subject."]
    assert [outcome.evidence.answer for outcome in outcomes] == ["It is Reno.", "It is Reno.", None]
    assert outcomes[0].evidence.expected == ("Reno", "Reno, Nevada")
    assert world.call_count("rate") == 3
    assert world.call_count("generate") == 1


@pytest.mark.parametrize(("spec", "value"), list(zip(SPECS, (1.0, 5.0, 1.0), strict=True)))
def test_where_nothing_was_retrieved_the_generator_declines_and_no_judge_is_asked(
    world, example, spec: str, value: float
) -> None:
    (outcome,) = world.evaluate(spec, example("one", "gold", answers=("Reno",)))
    assert outcome.value == value
    assert outcome.evidence.explanation
    assert not world.call_count("rate")


def test_an_answer_from_no_passages_is_not_faithful(world, example) -> None:
    """It comes from the model's memory: its faithfulness is 1, without a judge call."""
    world.answers = {"": "Reno"}
    (outcome,) = world.evaluate("judged.faithfulness@2", example("one"))
    assert outcome.value == 1.0
    assert not world.call_count("rate")


def test_of_an_answer_set_all_answers_are_the_reference(world, example) -> None:
    world.rankings = {"one": ["Reno"]}
    world.ratings = {("correctness", ("Reno",), ("Reno; Ely",)): Verdict(3.0, "Half.")}
    (outcome,) = world.evaluate(
        "judged.correctness@2", example("one", answer_set=(("Reno", "RNO"), ("Ely",)))
    )
    assert outcome.value == 3.0


@pytest.mark.parametrize(
    ("spec", "scale"),
    [*((spec, (1.0, 5.0)) for spec in SPECS), ("recall@5", (0.0, 1.0)), ("answer.nuggets@5", (0.0, 1.0))],
)
def test_the_scale_is_declared(spec: str, scale: tuple[float, float]) -> None:
    assert resolve(ScoreRequest(spec))[1].scale == scale
