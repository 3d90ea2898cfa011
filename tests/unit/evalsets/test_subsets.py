"""Parts of an eval set: samples and shards."""

import pytest

from pytest_rageval.datatypes import EvalSet, Example, ExampleSubset
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.subsets import select_subset
from pytest_rageval.evaluations.arena import answer_first_ids


def _evalset(n: int) -> EvalSet:
    return EvalSet("evals.jsonl", tuple(Example(f"q{i}", f"question {i}") for i in range(n)))


def test_the_whole_set_is_as_it_is() -> None:
    """With its digest."""
    evalset = _evalset(4)
    assert select_subset(evalset) is evalset
    assert select_subset(evalset, shard=(1, 1)).examples == evalset.examples


def test_the_parts_are_the_same_in_every_run_and_version() -> None:
    """Pinned: another hash would compare other questions, and move them to shards whose caches lack them."""
    assert [example.id for example in select_subset(_evalset(12), sample=0.3)] == ["q0", "q1", "q3"]
    shards = [
        [example.id for example in select_subset(_evalset(12), shard=(index, 3))] for index in (1, 2, 3)
    ]
    assert shards == [["q1", "q2", "q5", "q6", "q7", "q8", "q11"], ["q3", "q9"], ["q0", "q4", "q10"]]


def test_a_sample_and_its_shards_are_independent() -> None:
    """The shards of a sample have about as many examples each as those of the set."""
    evalset = _evalset(4000)
    sizes = [len(select_subset(evalset, sample=0.2, shard=(index, 8))) for index in range(1, 9)]
    assert sum(sizes) == len(select_subset(evalset, sample=0.2))
    assert all(70 <= size <= 130 for size in sizes)


def test_an_example_that_is_added_moves_no_other() -> None:
    """So that a shard's cache goes on to have what it needs."""
    few, more = select_subset(_evalset(50), shard=(2, 4)), select_subset(_evalset(60), shard=(2, 4))
    assert [each.id for each in more][: len(few)] == [each.id for each in few]


def test_a_sample_without_examples_is_an_error() -> None:
    """A shard without any is none."""
    with pytest.raises(
        InputError, match=r"--rageval-sample 0.001 leaves none of the 2 examples of evals.jsonl"
    ):
        select_subset(_evalset(2), sample=0.001)
    assert {len(select_subset(_evalset(1), shard=(index, 4))) for index in range(1, 5)} == {0, 1}


def test_a_part_names_its_sample_its_shard_and_the_size_of_the_whole() -> None:
    """For reports."""
    part = select_subset(_evalset(100), sample=0.5, shard=(2, 4))
    assert part.part is not None
    assert (part.part.total, str(part.part)) == (100, "sample 0.5, shard 2/4")
    assert str(select_subset(_evalset(100), shard=(1, 2)).part) == "shard 1/2"


def test_a_part_has_the_ids_of_the_whole_set() -> None:
    """By which the arena decides whose answer the judge reads first, as in the whole set."""
    evalset = _evalset(20)
    examples = select_subset(evalset, shard=(1, 3)).examples
    assert isinstance(examples, ExampleSubset)
    assert answer_first_ids(examples.ids, 0) == answer_first_ids([each.id for each in evalset], 0)
