"""Nuggets that the retrieved passages and the answer support."""

from math import log2

import pytest

from pytest_rageval.datatypes import Nugget
from pytest_rageval.errors import Planned, Unscored
from pytest_rageval.evaluations.pipeline import ScoreRequest
from pytest_rageval.evaluations.registry import resolve

NUGGETS = (Nugget("one"), Nugget("two"), Nugget("three", vital=False), Nugget("four", vital=False))
OF_PASSAGES = ("nuggets.coverage@3", "nuggets.vital@3", "nuggets.ndcg@3")
SPECS = (*OF_PASSAGES, "answer.nuggets@3")


@pytest.fixture
def found(world):
    """A world in which the first passage says a nugget, the second says it again, and the third says another."""
    world.rankings = {"q": ["p1", "p2", "p3"]}
    world.nuggets = {
        "p1": (1.0, 0.0, 0.0, 0.5),
        "p2": (1.0, 0.5, 0.0, 0.0),
        "p3": (0.0, 0.5, 1.0, 0.0),
    }
    return world


def test_the_share_that_one_of_the_passages_supports(found, example) -> None:
    """Two parts make no whole; labels and remark are of the nuggets that count, vital ones first."""
    coverage, vital, _ = (found.evaluate(spec, example("q", nuggets=NUGGETS))[0] for spec in OF_PASSAGES)
    assert (coverage.value, vital.value) == (0.5, 0.5)
    assert coverage.evidence.labels == (0.25, 0.25, 0.25)
    assert vital.evidence.labels == (0.5, 0.5, 0.0)
    assert coverage.evidence.remark == '2 nuggets not supported: "two" (in part), "four" (in part)'
    assert vital.evidence.remark == '1 nugget not supported: "two" (in part)'
    assert coverage.evidence.answer is None
    assert found.call_count("support") == 3
    assert not found.call_count("explain")


def test_alpha_ndcg_of_the_passages(found, example) -> None:
    """1 + ½ / log2 3 + 1 / 2 of 1 + 1 / log2 3 + ½ / 2."""
    (outcome,) = found.evaluate("nuggets.ndcg@3", example("q", nuggets=NUGGETS))
    expected = (1 + 0.5 / log2(3) + 1 / 2) / (1 + 1 / log2(3) + 0.5 / 2)
    assert outcome.value == pytest.approx(expected)
    assert found.call_count("support") == 3


def test_a_gold_passage_that_was_not_retrieved_is_of_the_ideal_ranking(found, example) -> None:
    """It is labelled as well; one that was retrieved is not labelled again."""
    found.nuggets["gold"] = (1.0, 1.0, 1.0, 1.0)
    (outcome,) = found.evaluate("nuggets.ndcg@1", example("q", "gold", "p1", nuggets=NUGGETS))
    assert outcome.value == pytest.approx(1 / 4)
    assert found.asked["support", "q", "one", "two", "three", "four", "gold"] == 1
    assert found.call_count("support") == 2
    assert outcome.evidence.labels == (0.25,)


def test_a_plan_counts_the_labels_of_a_missed_gold_passage(found, example) -> None:
    """No label of a retrieved passage has to be there for that."""
    found.nuggets = dict.fromkeys(("p1", "p2", "p3", "gold"), Planned("not asked in a plan"))
    (outcome,) = found.evaluate("nuggets.ndcg@3", example("q", "gold", nuggets=NUGGETS))
    assert outcome.value is None
    assert found.call_count("support") == 4


def test_labels_are_asked_for_once(found, example) -> None:
    """Whatever the score, k and rank."""
    one = example("q", nuggets=NUGGETS)
    for spec in (*OF_PASSAGES, "nuggets.coverage@2"):
        found.evaluate(spec, one)
    found.rankings = {"q": ["p3", "p1"]}
    found.evaluate("nuggets.coverage@5", one)
    assert found.call_count("support") == 3


def test_the_vital_nuggets_of_the_long_answer(found, example) -> None:
    """Vital strict; beside it are the other scores of AutoNuggetizer, of which two count a part as half."""
    found.explained = {"p1|p2|p3": "A long answer."}
    found.nuggets["A long answer."] = (1.0, 0.5, 0.5, 0.0)
    (outcome,) = found.evaluate("answer.nuggets@3", example("q", nuggets=NUGGETS))
    assert outcome.value == 0.5
    assert outcome.evidence.beside == {"all_strict": 0.25, "vital": 0.75, "all": 0.5}
    assert outcome.evidence.answer == "A long answer."
    assert outcome.evidence.remark == '1 nugget not supported: "two" (in part)'
    assert (found.call_count("support"), found.call_count("explain")) == (1, 1)


def test_an_abstention_supports_nothing_and_no_judge_is_asked(found, example) -> None:
    """It scores 0."""
    (outcome,) = found.evaluate("answer.nuggets@3", example("q", nuggets=NUGGETS))
    assert (outcome.value, found.call_count("support")) == (0.0, 0)


@pytest.mark.parametrize("spec", OF_PASSAGES)
def test_where_nothing_was_retrieved_no_nugget_is_supported(world, example, spec: str) -> None:
    """The score is 0."""
    (outcome,) = world.evaluate(spec, example("q", nuggets=NUGGETS))
    assert (outcome.value, world.call_count("support")) == (0.0, 0)


@pytest.mark.parametrize("spec", SPECS)
def test_without_nuggets_an_example_costs_nothing(world, example, spec: str) -> None:
    """It is unscored, and nothing is asked."""
    (outcome,) = world.evaluate(spec, example("q"))
    assert (outcome.value, outcome.unscored) == (None, "no nuggets")
    assert not world.asked


@pytest.mark.parametrize("spec", ["nuggets.vital@3", "answer.nuggets@3"])
def test_without_a_vital_nugget_the_share_of_these_is_undefined(world, example, spec: str) -> None:
    """Which is no error, and costs nothing."""
    (outcome,) = world.evaluate(spec, example("q", nuggets=(Nugget("one", vital=False),)))
    assert (outcome.value, outcome.undefined) == (None, "none of its nuggets is vital")
    assert not world.asked


@pytest.mark.parametrize("spec", SPECS)
def test_without_labels_an_example_is_unscored(found, example, spec: str) -> None:
    """With the judge's reason; the other example has its score."""
    found.rankings["r"] = ["p1"]
    found.explained = {"p1|p2|p3": "A long answer.", "p1": "Another."}
    found.nuggets["p3"] = found.nuggets["A long answer."] = Unscored("unreadable")
    lost, kept = found.evaluate(spec, example("q", nuggets=NUGGETS), example("r", nuggets=NUGGETS))
    assert (lost.value, lost.unscored) == (None, "unreadable")
    assert kept.value is not None


def test_a_remark_names_five_nuggets(world, example) -> None:
    """And counts the others."""
    nuggets = tuple(Nugget(f"n{n}", vital=n > 3) for n in range(7))
    (outcome,) = world.evaluate("nuggets.coverage@1", example("q", nuggets=nuggets))
    assert outcome.evidence.remark == '7 nuggets not supported: "n4", "n5", "n6", "n0", "n1", 2 more'


@pytest.mark.parametrize("spec", SPECS)
def test_the_scale_is_declared(spec: str) -> None:
    """From 0 to 1."""
    assert resolve(ScoreRequest(spec))[1].scale == (0.0, 1.0)
