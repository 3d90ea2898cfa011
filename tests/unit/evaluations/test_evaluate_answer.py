"""The generated answer against the reference answers."""

import pytest

from pytest_rageval.datatypes import Example
from pytest_rageval.errors import Unscored


def test_a_worked_example(world, example) -> None:
    """Right, half right, wrong and declined, by three measures."""
    world.rankings = {"one": ["Reno"], "two": ["lake Tahoe"], "three": ["Elko"], "four": []}
    examples = [
        example("one", answers=("Tulsa", "Reno")),
        example("two", answers=("Tahoe",)),
        example("three", answers=("Ely",)),
        example("four", answers=("Ely",)),
    ]
    scores = {
        spec: [outcome.value for outcome in world.evaluate(spec, *examples)]
        for spec in ("answer.correct@5", "answer.em@5", "answer.f1@5")
    }
    assert scores == {
        "answer.correct@5": [1.0, 0.0, 0.0, 0.0],
        "answer.em@5": [1.0, 0.0, 0.0, 0.0],
        "answer.f1@5": pytest.approx([1.0, 2 / 3, 0.0, 0.0]),
    }


def test_the_reference_replaces_missing_answers(world, example) -> None:
    """The long form is compared where there are no short ones, and only there."""
    world.rankings = {"one": ["Reno"], "two": ["Reno"]}
    outcomes = world.evaluate(
        "answer.em@1",
        example("one", reference="Reno"),
        example("two", answers=("Tulsa",), reference="Reno"),
    )
    assert [outcome.value for outcome in outcomes] == [1.0, 0.0]


@pytest.mark.parametrize("spec", ["answer.correct@5", "answer.em@5", "answer.f1@5"])
def test_without_references_an_example_is_unscored_and_costs_nothing(world, example, spec: str) -> None:
    """Neither retriever nor generator is asked."""
    (outcome,) = world.evaluate(spec, example("one", "gold"))
    assert (outcome.value, outcome.unscored) == (None, "no reference answers")
    assert not world.asked


@pytest.mark.parametrize(("said", "score"), [("Reno and Tulsa", 1.0), ("Reno", 0.0)])
def test_of_an_answer_set_all_are_wanted(world, said: str, score: float) -> None:
    """Each by one of its aliases."""

    async def contains(_question: str, references: list[str], prediction: str) -> float:
        return float(any(reference in prediction for reference in references))

    world.compare = contains
    world.rankings = {"one": [said]}
    wanted = Example("one", "one", answer_set=(("Tulsa", "Tulsa, Oklahoma"), ("Reno, Nevada", "Reno")))
    assert [outcome.value for outcome in world.evaluate("answer.correct@5", wanted)] == [score]


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("answer.correct@1", 0.0),
        ("erag.p@1", 1.0),
        ("contains.p@1", 1.0),
        ("rel.answer@1", 0.5),
        ("answer.em@1", None),
    ],
)
def test_an_answer_set_rules_over_answers_and_reference(world, spec: str, value: float | None) -> None:
    """In every score: to say one of two wanted answers is half, or all of one passage, however the rest is written."""
    world.rankings = {"one": ["Reno"]}
    world.cited = {"Reno": "Reno [1]"}
    mixed = Example("one", "one", answers=("Reno",), answer_set=(("Tulsa",), ("Reno",)), reference="Reno")
    assert [outcome.value for outcome in world.evaluate(spec, mixed)] == [value]


@pytest.mark.parametrize("spec", ["answer.em@5", "answer.f1@5"])
def test_measures_of_one_answer_do_not_score_several(world, spec: str) -> None:
    """An answer set alone is unscored by them."""
    world.rankings = {"one": ["Reno"]}
    (outcome,) = world.evaluate(spec, Example("one", "one", answer_set=(("Reno",),)))
    assert outcome.value is None
    assert "several answers are wanted" in str(outcome.unscored)


def test_an_abstention_is_wrong_without_asking_the_judge(world, example) -> None:
    """It scores 0, and a judge that would accept it is not asked."""
    world.verdicts = {"no answer in the documents": 1.0}
    (outcome,) = world.evaluate("answer.correct@5", example("one", answers=("Reno",)))
    assert outcome.value == 0.0
    assert world.call_count("compare") == 0


@pytest.mark.parametrize("measure", ["em", "f1", "containment"])
def test_an_abstention_earns_nothing_by_any_measure(world, example, measure: str) -> None:
    """Though it has a reference's words; `answer.abstained` alone is 1."""
    one = example("one", answers=("no", "no answer in the documents"))
    assert [outcome.value for outcome in world.evaluate(f"answer.{measure}@5", one)] == [0.0]
    assert [outcome.value for outcome in world.evaluate("answer.abstained@5", one)] == [1.0]


@pytest.mark.parametrize("part", ["answers", "verdicts"])
def test_what_has_no_answer_or_verdict_is_unscored(world, example, part: str) -> None:
    """The reason is the model's."""
    world.rankings = {"one": ["Reno"]}
    getattr(world, part)["Reno"] = Unscored("the server answered 500")
    (outcome,) = world.evaluate("answer.correct@5", example("one", answers=("Tulsa",)))
    assert (outcome.value, outcome.unscored) == (None, "the server answered 500")


def test_the_evidence_shows_answer_ranking_and_references(world, example) -> None:
    """What a person needs to believe the score."""
    world.rankings = {"one": ["Reno"]}
    (outcome,) = world.evaluate("answer.em@5", example("one", answers=("Tulsa", "Ely")))
    evidence = outcome.evidence
    assert (evidence.answer, evidence.expected, evidence.expected_as) == (
        "Reno",
        ("Tulsa", "Ely"),
        "reference",
    )
    assert [document.text for document in evidence.ranking] == ["Reno"]
