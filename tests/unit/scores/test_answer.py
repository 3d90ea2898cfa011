"""Scores that compare the generated answer with the reference answers."""

import pytest

from pytest_rageval.core.evalset import Example


def test_a_worked_example(world, example) -> None:
    """Three measures score a right, a partly right and a wrong answer and an abstention."""
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
    world.rankings = {"one": ["Reno"], "two": ["Reno"]}
    outcomes = world.evaluate(
        "answer.em@1", example("one", reference="Reno"), example("two", answers=("Tulsa",), reference="Reno")
    )
    assert [outcome.value for outcome in outcomes] == [1.0, 0.0]


@pytest.mark.parametrize(("prediction_text", "score"), [("Reno and Tulsa", 1.0), ("Reno", 0.0)])
def test_of_an_answer_set_all_are_wanted(world, prediction_text: str, score: float) -> None:
    async def contains(_question: str, references: list[str], prediction: str) -> float:
        return float(any(reference in prediction for reference in references))

    world.compare = contains
    world.rankings = {"one": [prediction_text]}
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
    """The retrieved passage and the answer have one of the two wanted answers."""
    world.rankings = {"one": ["Reno"]}
    world.cited = {"Reno": "Reno [1]"}
    mixed = Example("one", "one", answers=("Reno",), answer_set=(("Tulsa",), ("Reno",)), reference="Reno")
    assert [outcome.value for outcome in world.evaluate(spec, mixed)] == [value]


@pytest.mark.parametrize("spec", ["answer.em@5", "answer.f1@5"])
def test_measures_of_one_answer_do_not_score_several(world, spec: str) -> None:
    world.rankings = {"one": ["Reno"]}
    (outcome,) = world.evaluate(spec, Example("one", "one", answer_set=(("Reno",),)))
    assert outcome.value is None
    assert "several answers are wanted" in str(outcome.unscored)


def test_an_abstention_is_wrong_without_asking_the_judge(world, example) -> None:
    world.verdicts = {"no answer in the documents": 1.0}
    (outcome,) = world.evaluate("answer.correct@5", example("one", answers=("Reno",)))
    assert outcome.value == 0.0
    assert world.call_count("compare") == 0


@pytest.mark.parametrize("measure", ["em", "f1", "containment"])
def test_an_abstention_earns_nothing_by_any_measure(world, example, measure: str) -> None:
    """An abstention scores 0 by each measure, even if it equals a reference, and 1 by `answer.abstained`."""
    case = example("one", answers=("no", "no answer in the documents"))
    assert [outcome.value for outcome in world.evaluate(f"answer.{measure}@5", case)] == [0.0]
    assert [outcome.value for outcome in world.evaluate("answer.abstained@5", case)] == [1.0]


def test_the_evidence_shows_answer_ranking_and_references(world, example) -> None:
    world.rankings = {"one": ["Reno"]}
    (outcome,) = world.evaluate("answer.em@5", example("one", answers=("Tulsa", "Ely")))
    evidence = outcome.evidence
    assert (evidence.answer, evidence.expected, evidence.expected_as) == (
        "Reno",
        ("Tulsa", "Ely"),
        "reference",
    )
    assert [document.text for document in evidence.ranking] == ["Reno"]


def test_the_answer_from_all_passages_still_needs_the_whole_set(world, example):
    world.rankings["q"] = ["Ada"]
    case = example("q", "gold", answer_set=(("Ada",), ("Bob",)))
    (outcome,) = world.evaluate("answer.correct@1", case)
    assert (outcome.value, outcome.evidence.expected, outcome.evidence.expected_as) == (
        0.0,
        ("Ada", "Bob"),
        "wanted",
    )
    case = example("q", "gold", answer_set=(("Ada",), ("Countess", "Ada")))
    assert world.evaluate("answer.correct@1", case)[0].value == 1.0
