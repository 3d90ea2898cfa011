"""Provenance scores, on numbers that a reader can check."""

import math

import pytest

from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.ranking import Document, Span
from tests.unit.scores.conftest import five_passages


@pytest.mark.parametrize(
    ("part", "value", "of_all_gold"),
    [
        ("p", 2 / 5, 2 / 5),
        ("recall", 1.0, 2 / 3),
        ("map", (1 / 3 + 2 / 4) / 2, (1 / 3 + 2 / 4) / 3),
        ("mrr", 1 / 3, 1 / 3),
        ("ndcg", (1 / 2 + 1 / math.log2(5)) / (1 + 1 / math.log2(3)), None),
        ("hit", 1.0, 1.0),
    ],
)
def test_provenance_is_normalised_within_the_retrieved(world, example, part, value, of_all_gold):
    """One gold passage was not retrieved, and is ignored: the labels are 0 0 1 1 0."""
    five_passages(world, example)
    case = example("q", "three", "four", "missed")
    assert world.evaluate(f"provenance.{part}@5", case)[0].value == pytest.approx(value)
    if of_all_gold is not None:
        measure = "precision" if part == "p" else part
        assert world.evaluate(f"{measure}@5", case)[0].value == pytest.approx(of_all_gold)
    assert world.evaluate(f"provenance.{part}@5", example("q", "missed"))[0].value == 0.0
    (outcome,) = world.evaluate(f"provenance.{part}@5", example("q", answers=("Ada",)))
    assert (outcome.value, outcome.unscored) == (None, "no gold passages")


def test_a_part_of_a_gold_passage_that_is_found_is_positive(world):
    """Two chunks together cover a gold span. A chunk whose gold span is not covered is negative."""
    spans = {"one": (0, 40), "two": (40, 100), "three": (200, 210)}
    world.rankings["q"] = [Document(name, span=Span("a.md", *span)) for name, span in spans.items()]
    gold = tuple(Gold(source="a.md", start=start, end=end) for start, end in [(0, 100), (200, 300)])
    (outcome,) = world.evaluate("provenance.p@3", Example("q", "q", gold=gold))
    assert outcome.evidence.labels == (1, 1, 0)
