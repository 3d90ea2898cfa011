"""Samples, seeded and stratified by tags, and subsets by hash: --rageval-sample and shards."""

import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pytest_rageval
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import EvalSet, Example, ExampleSubset
from pytest_rageval.evalsets import LoadOptions, load_records
from pytest_rageval.evalsets.sampling import SampleSpec, draw_sample, parse_sample, select_subset
from pytest_rageval.scores.arena import answer_first_ids


def _records(counts: dict[str, int], tag: str = "topic") -> list[tuple[str, dict[str, Any]]]:
    topics = [topic for topic, count in counts.items() for _ in range(count)]
    return [
        (f"line {i}", {"id": i, "question": "Q?", "tags": {tag: topic}}) for i, topic in enumerate(topics, 1)
    ]


def _draw(records: list[tuple[str, dict[str, Any]]], size: int, **options: Any) -> EvalSet:
    return draw_sample(lambda: iter(records), parse_sample(size, **options), name="set")


def _topics(evalset: EvalSet) -> Counter[str]:
    return Counter(example.tags["topic"] for example in evalset)


def _ids(evalset: EvalSet) -> list[str]:
    return [example.id for example in evalset]


def test_groups_have_their_share_of_the_sample() -> None:
    records = _records({"billing": 70, "returns": 20, "delivery": 10})
    for seed in range(5):
        assert _topics(_draw(records, 20, seed=seed)) == {"billing": 14, "returns": 4, "delivery": 2}


@given(
    counts=st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, 30), min_size=1),
    size=st.integers(7, 60),
    seed=st.integers(0, 9),
)
def test_no_share_is_off_by_one(counts: dict[str, int], size: int, seed: int) -> None:
    """Each group has its exact share rounded up or down, and the sample has its requested size."""
    drawn, total = _topics(_draw(_records(counts), size, seed=seed)), sum(counts.values())
    assert drawn.total() == min(size, total)
    for topic, count in counts.items():
        assert abs(drawn[topic] - min(size, total) * count / total) < 1


def test_without_stratification_chance_decides() -> None:
    records = _records({"billing": 50, "returns": 50})
    assert {_topics(_draw(records, 10, seed=seed, stratify=False))["billing"] for seed in range(9)} > {5}


@pytest.mark.slow
def test_a_sample_is_drawn_evenly() -> None:
    records = _records({"billing": 10, "returns": 10})
    seen = Counter(id_ for seed in range(1000) for id_ in _ids(_draw(records, 4, seed=seed)))
    # Each is expected 200 times with a standard deviation of 12.6; five standard deviations are 63.
    assert len(seen) == 20
    assert all(abs(count - 200) < 63 for count in seen.values())


def test_the_order_of_the_file_decides_nothing_but_the_order() -> None:
    records = _records({"billing": 70, "returns": 30})
    straight, turned = _ids(_draw(records, 10)), _ids(_draw(records[::-1], 10))
    assert straight == turned[::-1]
    assert straight == sorted(straight, key=int)


def test_another_seed_draws_others() -> None:
    records = _records({"billing": 100})
    assert _ids(_draw(records, 10)) == _ids(_draw(records, 10, seed=0)) != _ids(_draw(records, 10, seed=1))


def test_a_larger_plain_sample_contains_the_smaller() -> None:
    records = _records({"billing": 70, "returns": 30})
    small, large = (set(_ids(_draw(records, size, stratify=False))) for size in (10, 30))
    assert small < large


def test_the_sample_is_the_same_in_every_process() -> None:
    script = (
        "from pytest_rageval.evalsets import LoadOptions, load_records\n"
        "records = [{'id': str(i), 'question': 'Q?', 'tags': {'t': str(i % 3), 'u': 1}} for i in range(300)]\n"
        "print(*[e.id for e in load_records(records, LoadOptions.parse({'sample': 20}))])"
    )
    root = Path(pytest_rageval.__file__).parents[1]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_all_tags_divide_the_sample_where_they_can() -> None:
    both = [
        (f"line {i}", {"id": i, "question": "Q?", "tags": {"a": i % 2, "b": i % 4 < 2}}) for i in range(100)
    ]
    groups = Counter((example.tags["a"], example.tags["b"]) for example in _draw(both, 20))
    assert set(groups.values()) == {5}
    many_groups = _records({f"topic {i}": 1 for i in range(100)})
    assert len(_draw(many_groups, 20)) == 20


def test_a_tag_with_too_many_values_is_an_error() -> None:
    many_groups = _records({f"topic {i}": 1 for i in range(100)})
    with pytest.raises(
        InputError, match=r"the values of topic make more groups than the 20 examples to draw"
    ):
        _draw(many_groups, 20, stratify="topic")


def test_a_small_set_is_drawn_whole() -> None:
    records = _records({"billing": 3, "returns": 2})
    assert _ids(_draw(records, 5)) == _ids(_draw(records, 50)) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("size", [1, 3, 10])
@pytest.mark.parametrize("stratify", [None, False, "topic"])
def test_an_id_that_comes_twice_names_both_lines(size: int, stratify: object) -> None:
    """A repeated id is an error as in a whole set, whether or not it is in the sample."""
    records = [
        *_records({"billing": 20}),
        ("line 21", {"id": "2", "question": "Q?", "tags": {"topic": "billing"}}),
        ("line 22", {"id": 2, "question": "Q?", "tags": {"topic": "billing"}}),
    ]
    with pytest.raises(InputError, match=r'^line 21: the id "2" is already that of line 2\.'):
        _draw(records, size, stratify=stratify)


def test_ids_with_equal_hashes_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_rageval.evalsets.sampling.RANK_BYTES", 0)
    records = _records({"billing": 20})
    assert len(_draw(records, 5)) == 5
    with pytest.raises(InputError, match=r'^line 9: the id "2" is already that of line 2\.'):
        _draw([*records, ("line 9", {"id": 2, "question": "Q?"})], 5)


def test_no_records_make_no_sample() -> None:
    with pytest.raises(InputError, match=r"^set contains no examples\."):
        _draw([], 10)


def test_size_and_seed_may_be_integers_of_numpy() -> None:
    spec = parse_sample(np.int64(3), np.int64(1))
    assert (spec, type(spec.size), type(spec.seed)) == (SampleSpec(3, 1), int, int)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample": 0}, "sample=0 is not a number of examples."),
        ({"sample": "200"}, "sample='200' is not a number of examples."),
        ({"sample": True}, "sample=True is not a number of examples."),
        ({"sample": 5, "seed": "a"}, "seed='a' is not an integer."),
        ({"sample": 5, "stratify": 3}, "stratify=3 is neither the name of a tag nor a list of such names."),
        (
            {"sample": 5, "stratify": [1]},
            r"stratify=\[1\] is neither the name of a tag nor a list of such names.",
        ),
        ({"seed": 1}, "seed says how a sample is drawn, and none is."),
        ({"stratify": "topic"}, "stratify says how a sample is drawn, and none is."),
        ({"seed": 1, "stratify": "topic"}, "seed and stratify say how a sample is drawn, and none is."),
        ({"sample": 1, "stratify": "t"}, "stratify: no example of records has the tag t."),
        ({"sample": 1, "stratify": ["u", "t"]}, "stratify: no example of records has one of the tags t, u."),
        ({"format": 3}, "format=3 is not a name."),
    ],
)
def test_words_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_records([{"id": 1, "question": "Q?"}], LoadOptions.parse(options))


@pytest.mark.slow
@pytest.mark.parametrize("stratify", ["topic", False])
def test_only_the_sample_is_in_memory(stratify: object) -> None:
    """Sampling 20,000 records of 500 characters needs less than 0.75 MiB, of which 160 kB are for the ids."""

    def endless() -> Iterator[tuple[str, dict[str, Any]]]:
        for i in range(20_000):
            yield f"line {i}", {"id": i, "question": f"{i}" * 100, "tags": {"topic": i % 3}}

    assert np  # NumPy has to be imported before memory is measured.
    tracemalloc.start()
    try:
        assert len(draw_sample(endless, parse_sample(20, 0, stratify), name="set")) == 20
        assert tracemalloc.get_traced_memory()[1] < 3 * 2**18
    finally:
        tracemalloc.stop()


def _evalset(n: int) -> EvalSet:
    return EvalSet("evals.jsonl", tuple(Example(f"q{i}", f"question {i}") for i in range(n)))


def test_the_whole_set_is_as_it_is() -> None:
    evalset = _evalset(4)
    assert select_subset(evalset) is evalset
    assert select_subset(evalset, shard=(1, 1)).examples == evalset.examples


def test_the_parts_are_the_same_in_every_run_and_version() -> None:
    """Samples and shards are pinned: another hash would select other questions and miss the caches of shards."""
    assert [example.id for example in select_subset(_evalset(12), sample=0.3)] == ["q0", "q1", "q3"]
    shards = [
        [example.id for example in select_subset(_evalset(12), shard=(index, 3))] for index in (1, 2, 3)
    ]
    assert shards == [["q1", "q2", "q5", "q6", "q7", "q8", "q11"], ["q3", "q9"], ["q0", "q4", "q10"]]


def test_a_sample_and_its_shards_are_independent() -> None:
    evalset = _evalset(4000)
    sizes = [len(select_subset(evalset, sample=0.2, shard=(index, 8))) for index in range(1, 9)]
    assert sum(sizes) == len(select_subset(evalset, sample=0.2))
    assert all(70 <= size <= 130 for size in sizes)


def test_an_example_that_is_added_moves_no_other() -> None:
    """New examples do not move others to another shard, so the cache of a shard stays useful."""
    before, after = select_subset(_evalset(50), shard=(2, 4)), select_subset(_evalset(60), shard=(2, 4))
    assert [example.id for example in after][: len(before)] == [example.id for example in before]


def test_a_sample_without_examples_is_an_error() -> None:
    with pytest.raises(
        InputError, match=r"--rageval-sample 0.001 leaves none of the 2 examples of evals.jsonl"
    ):
        select_subset(_evalset(2), sample=0.001)
    assert {len(select_subset(_evalset(1), shard=(index, 4))) for index in range(1, 5)} == {0, 1}


def test_a_part_names_its_sample_its_shard_and_the_size_of_the_whole() -> None:
    part = select_subset(_evalset(100), sample=0.5, shard=(2, 4))
    assert (part.part.total, str(part.part)) == (100, "sample 0.5, shard 2/4")
    assert str(select_subset(_evalset(100), shard=(1, 2)).part) == "shard 1/2"


def test_a_part_has_the_ids_of_the_whole_set() -> None:
    evalset = _evalset(20)
    examples = select_subset(evalset, shard=(1, 3)).examples
    assert isinstance(examples, ExampleSubset)
    assert answer_first_ids(examples.ids, 0) == answer_first_ids([example.id for example in evalset], 0)
