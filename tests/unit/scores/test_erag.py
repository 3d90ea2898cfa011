"""eRAG, on numbers that a reader can check."""

import math

import pytest

from pytest_rageval.core.errors import InputError
from tests.unit.scores.conftest import five_passages


def test_a_graded_label_is_taken_as_it_is(world, example):
    case = five_passages(world, example)
    world.answers["one"] = "Ada Lovelace"
    labels = [2 / 3, 0, 0, 1, 0]
    assert world.evaluate("erag.p@5", case, label="f1")[0].value == pytest.approx(sum(labels) / 5)
    assert world.evaluate("erag.hit@5", case, label="f1")[0].value == 1.0
    gain = labels[0] / math.log2(2) + labels[3] / math.log2(5)
    ideal = 1 / math.log2(2) + labels[0] / math.log2(3)
    assert world.evaluate("erag.ndcg@5", case, label="f1")[0].value == pytest.approx(gain / ideal)
    assert world.evaluate("erag.map@5", case, label="f1>=0.6")[0].value == pytest.approx(0.75)


@pytest.mark.parametrize("part", ["recall", "map", "mrr"])
def test_a_measure_for_yes_and_no_refuses_grades_before_anything_is_asked(world, example, part):
    with pytest.raises(InputError, match="defined for labels of 0 and 1 only"):
        world.evaluate(f"erag.{part}@5", five_passages(world, example), label="f1")
    assert not world.call_count("generate")


def test_an_empty_ranking_is_0_and_stays_in_the_mean(world, example):
    case = five_passages(world, example)
    outcomes = world.evaluate("erag.map@5", case, example("nothing", "gold", answers=("x",)))
    assert [outcome.value for outcome in outcomes] == [0.75, 0.0]


def test_a_changed_ranking_asks_only_about_passages_never_seen(world, example):
    """Labels are cached by question and passage: another k or measure sends no new request."""
    case = five_passages(world, example)
    world.evaluate("erag.p@5", case)
    assert world.call_count("generate") == 5
    world.evaluate("erag.p@3", case)
    world.evaluate("erag.ndcg@5", case)
    assert world.call_count("generate") == 5


@pytest.mark.parametrize(("part", "value"), [("p", (0.7 + 0.2) / 2), ("hit", 0.7), ("ndcg", 1.0)])
def test_a_judge_that_grades_labels_as_it_grades(world, example, part, value):
    world.rankings["q"], world.verdicts = ["a", "b"], {"a": 0.7, "b": 0.2}
    assert world.evaluate(f"erag.{part}@2", example("q", answers=("x",)))[0].value == pytest.approx(value)


@pytest.mark.parametrize("part", ["recall", "map", "mrr"])
def test_where_grades_have_no_meaning_the_message_names_what_has(world, example, part):
    world.rankings["q"], world.verdicts = ["a", "b"], {"a": 0.7, "b": 0.2}
    case = example("q", answers=("x",))
    with pytest.raises(InputError) as caught:
        world.evaluate(f"erag.{part}@2", case)
    assert "query 'q': the label of passage '1. \"a\"' is 0.7, and labels are expected" in str(caught.value)
    assert 'label="judge>=0.5"' in str(caught.value)
    assert "p, hit or ndcg" in str(caught.value)
    assert world.evaluate(f"erag.{part}@2", case, label="judge>=0.5")[0].value == 1.0
