"""Recall over what the generator could see."""

import pytest

from pytest_rageval.measures.rel_prime import Recall, rel_prime


def test_a_worked_example() -> None:
    """Six relevant passages, two of them in a prompt of four; eight right answers, four of them there.

    The output cites positions 1, 2 and 4, of which 1 and 4 are relevant, and 9, which does not exist. It
    lists three answers that were shown, one that was not, and a wrong one.
    """
    found = rel_prime(
        relevant={"r1", "r2", "r3", "r4", "r5", "r6"},
        prompt=["r1", "x", "y", "r2"],
        cited=[1, 2, 4, 9],
        wanted=range(8),
        available={0, 1, 2, 3},
        listed={0, 1, 2, 7, "wrong"},
    )
    assert found.citations == Recall(relevant=6, available=2, found=2, found_available=2)
    assert (found.citations.over_rel, found.citations.over_rel_prime) == (2 / 6, 2 / 2)
    assert found.citations.coverage == 2 / 6
    assert found.citation_precision == 2 / 4
    assert found.answers == Recall(relevant=8, available=4, found=4, found_available=3)
    assert (found.answers.over_rel, found.answers.over_rel_prime) == (4 / 8, 3 / 4)
    assert (found.answers.coverage, found.answers.beyond) == (4 / 8, 1 / 8)
    # Coverage times recall over Rel', and what came from elsewhere: 1/2 · 3/4 + 1/8 = 1/2.
    assert found.answers.over_rel == 1 / 2 * 3 / 4 + 1 / 8
    assert (found.parametric, found.hallucinated) == (1, 1)


def test_retriever_and_generator_are_distinguished() -> None:
    """The same recall over Rel: one was shown everything and used half, one was shown half and used it."""
    wanted = {"a", "b", "c", "d"}
    sets = {"relevant": set(), "prompt": [], "cited": [], "wanted": wanted, "listed": {"a", "b"}}
    generator = rel_prime(**sets, available=wanted).answers
    retriever = rel_prime(**sets, available={"a", "b"}).answers
    assert generator.over_rel == retriever.over_rel == 0.5
    assert (generator.coverage, generator.over_rel_prime) == (1.0, 0.5)
    assert (retriever.coverage, retriever.over_rel_prime) == (0.5, 1.0)


def test_an_answer_in_another_passage_of_the_prompt_is_not_the_models_memory() -> None:
    """It is beyond Rel', but was seen."""
    found = rel_prime(
        relevant={"r"},
        prompt=["r", "x"],
        cited=[],
        wanted={1, 2, 3},
        available={1},
        in_prompt={1, 2},
        listed={1, 2, 3},
    )
    assert found.answers.found - found.answers.found_available == 2
    assert found.parametric == 1


def test_nothing_relevant_in_the_prompt_has_no_recall_over_rel_prime() -> None:
    """It is undefined, not 0; over Rel the retriever's loss shows."""
    found = rel_prime(relevant={"r"}, prompt=["x"], cited=[1], wanted={1, 2}, available=set(), listed={1})
    for recall in (found.answers, found.citations):
        assert recall.over_rel_prime is None
        assert recall.coverage == 0.0
    assert (found.answers.over_rel, found.answers.beyond, found.parametric) == (0.5, 0.5, 1)
    assert (found.citations.over_rel, found.citation_precision) == (0.0, 0.0)


def test_without_labels_there_are_no_shares() -> None:
    """No relevant passage or answer is known: nothing to divide by."""
    found = rel_prime(relevant=[], prompt=["x"], cited=[1, 2], wanted=[], available=[], listed=["y"])
    for recall in (found.answers, found.citations):
        assert (recall.over_rel, recall.over_rel_prime, recall.coverage, recall.beyond) == (None,) * 4
    # Of the two that are cited none is relevant.
    assert found.citation_precision == 0.0
    assert (found.parametric, found.hallucinated) == (0, 1)


def test_without_citations_precision_is_undefined_and_recall_is_0() -> None:
    """Nothing cited is nothing wrong, and nothing found."""
    found = rel_prime(relevant={"r"}, prompt=["r"], cited=[], wanted={1}, available={1}, listed=[])
    assert found.citation_precision is None
    assert (found.citations.over_rel, found.citations.over_rel_prime) == (0.0, 0.0)


@pytest.mark.parametrize("position", [0, -1, 3])
def test_a_position_outside_the_prompt_is_hallucinated(position: int) -> None:
    """0 and -1 are not the last passage; precision counts it as wrong."""
    found = rel_prime(
        relevant={"r"}, prompt=["x", "r"], cited=[position, 2, position], wanted=[], available=[], listed=[]
    )
    assert (found.hallucinated, found.citation_precision, found.citations.over_rel) == (1, 0.5, 1.0)


def test_a_passage_at_two_positions_is_one() -> None:
    """Citing both is one citation of it."""
    found = rel_prime(
        relevant={"r", "s"}, prompt=["r", "x", "r"], cited=[1, 3], wanted=[], available=[], listed=[]
    )
    assert found.citations == Recall(relevant=2, available=1, found=1, found_available=1)
    assert found.citation_precision == 1.0
