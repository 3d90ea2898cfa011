"""The labels of passages by eRAG, containment, relevance and provenance, side by side."""

import math

import pytest

from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.ranking import Document, Span
from tests.unit.scores.conftest import five_passages

DCG = 1 / math.log2(2) + 1 / math.log2(5)
"""The DCG of the labels 1, 0, 0, 1, 0."""


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("erag.p@5", 2 / 5),
        ("erag.p@1", 1.0),
        ("erag.p@10", 2 / 10),
        ("erag.recall@5", 1.0),
        # At a cut-off of 3 the fourth passage is not retrieved, and so not labelled.
        ("erag.recall@3", 1.0),
        ("erag.map@5", (1 / 1 + 2 / 4) / 2),
        ("erag.mrr@5", 1.0),
        ("erag.hit@5", 1.0),
        ("erag.ndcg@5", DCG / (1 / math.log2(2) + 1 / math.log2(3))),
        ("contains.p@5", 1 / 5),
        ("contains.mrr@5", 1 / 2),
        ("relevance.p@5", 2 / 5),
        ("relevance.map@5", (1 / 2 + 2 / 3) / 2),
    ],
)
def test_a_worked_example(world, example, spec, value):
    (outcome,) = world.evaluate(spec, five_passages(world, example))
    assert outcome.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("annotator", "labels", "alone"),
    [
        ("erag", (1, 0, 0, 1, 0), ("Ada", "Bob", "Eve", "Ada", "no answer in the documents")),
        ("contains", (0, 1, 0, 0, 0), ()),
        ("relevance", (0, 1, 1, 0, 0), ()),
        ("provenance", (0, 0, 0, 0, 0), ()),
    ],
)
def test_the_evidence_shows_the_labels(world, example, annotator, labels, alone):
    (outcome,) = world.evaluate(f"{annotator}.p@5", five_passages(world, example))
    evidence = outcome.evidence
    assert (evidence.labels, evidence.answers_alone) == (labels, alone)
    expected = ("Ada",) if annotator in {"erag", "contains"} else ()
    assert (evidence.expected, evidence.expected_as) == (expected, "reference")


@pytest.mark.parametrize("annotator", ["erag", "contains"])
def test_any_answer_of_a_set_makes_a_passage_useful(world, example, annotator):
    world.rankings["q"] = ["Ada", "Eve", "Bob"]
    case = example("q", "gold", answer_set=(("Ada",), ("Bob", "Robert")))
    assert world.evaluate(f"{annotator}.p@3", case)[0].value == pytest.approx(2 / 3)
    assert world.evaluate(f"{annotator}.map@3", case)[0].value == pytest.approx((1 + 2 / 3) / 2)


@pytest.mark.parametrize("part", ["p", "recall", "map", "mrr", "ndcg", "hit"])
def test_a_grade_of_relevance_counts_from_half_on(world, example, part):
    world.rankings["q"], world.relevance = ["a", "b"], {"a": 0.5, "b": 0.4}
    (outcome,) = world.evaluate(f"relevance.{part}@2", example("q", answers=("x",)))
    assert outcome.value == (0.5 if part == "p" else 1.0)


def test_no_passage_is_searched_for_a_long_form_reference(world, example):
    world.rankings["q"] = ["Ada was the first to program."]
    case = example("q", "gold", reference="Ada was the first to program.")
    (outcome,) = world.evaluate("contains.p@1", case)
    assert (outcome.value, outcome.unscored) == (None, "no reference answers")
    assert world.evaluate("erag.p@1", case)[0].value == 1.0


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
