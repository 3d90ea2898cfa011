"""UDCG, on numbers that a reader can check."""

import math

import pytest

from tests.unit.scores.conftest import five_passages


@pytest.mark.parametrize(
    ("k", "total"),
    [
        # The generator answers from "one", which is not relevant.
        (1, -1 / 3),
        (2, -1 / 3 + 1),
        (3, -1 / 3 + 1 + 1),
        (4, -1 / 3 + 1 + 1 - 1 / 3),
        # The generator abstains from "five".
        (5, -1 / 3 + 1 + 1 - 1 / 3 + 0),
    ],
)
def test_udcg_by_hand(world, example, k, total):
    five_passages(world, example)
    (outcome,) = world.evaluate(f"udcg@{k}", example("q"))
    assert outcome.value == pytest.approx(1 / (1 + math.exp(-total / k)), abs=1e-15)


def test_udcg_shows_what_helps_and_what_distracts(world, example):
    (outcome,) = world.evaluate("udcg@5", five_passages(world, example))
    assert outcome.evidence.labels == (0, 1, 1, 0, 0)
    assert outcome.evidence.answers_alone == ("Ada", "Bob", "Eve", "Ada", "no answer in the documents")
    assert outcome.evidence.counts == {"useful": 2, "distracting": 2}


def test_udcg_of_a_relevant_passage_that_does_not_help_is_neutral(world, example):
    world.rankings["q"] = ["mute"]
    world.answers["mute"] = "no answer in the documents"
    for relevant in (0.0, 1.0):
        world.relevance["mute"] = relevant
        world.run = world.make_pipeline()
        assert world.evaluate("udcg@1", example("q"))[0].value == 0.5
    assert world.evaluate("udcg@1", example("nothing"))[0].value == 0.0


def test_udcg_falls_when_a_distracting_passage_replaces_a_mute_one(world, example):
    world.rankings["q"] = ["good", "mute"]
    world.answers |= {"good": "Ada", "mute": "no answer in the documents"}
    world.relevance["good"] = 1.0
    case = example("q", answers=("Ada",))
    before = [world.evaluate(spec, case)[0].value for spec in ("udcg@2", "relevance.p@2", "erag.p@2")]
    world.rankings["q"], world.answers["loud"] = ["good", "loud"], "Bob"
    world.run = world.make_pipeline()
    after = [world.evaluate(spec, case)[0].value for spec in ("udcg@2", "relevance.p@2", "erag.p@2")]
    assert before[1:] == after[1:]
    assert before[0] > after[0]


def test_udcg_shares_its_answers_with_erag_and_its_labels_with_relevance(world, example):
    case = five_passages(world, example)
    world.evaluate("erag.p@5", case)
    world.evaluate("relevance.p@5", case)
    calls = world.call_count("generate"), world.call_count("relevant")
    world.evaluate("udcg@5", case)
    assert calls == (world.call_count("generate"), world.call_count("relevant")) == (5, 5)
