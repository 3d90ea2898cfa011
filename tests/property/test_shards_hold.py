"""A sharded run gives the results of a single run, however the questions are divided."""

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_rageval.core.evalset import EvalSet, Example, Gold, Nugget
from pytest_rageval.core.outcome import Evidence, Outcome, Places, Tally
from pytest_rageval.core.ranking import Document, Ranking, Span
from pytest_rageval.evalsets.sampling import in_sample, select_subset
from pytest_rageval.extensions.shards.plain import restore, to_plain
from pytest_rageval.lib.foreign_values import is_identifier
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.inputs import Components
from tests.unit.extensions.shards.sharded import (
    evaluate_merged,
    evaluated_in,
    outcome_of,
    shards_of,
    without_updates,
    write_baseline,
)
from tests.unit.run.marked import Judge, Mark

# White space around an id does not count, and a word such as "nan" is a missing id.
IDS = st.lists(st.text(min_size=1, max_size=6).filter(is_identifier), min_size=1, max_size=25, unique=True)

POLICIES = {
    "beyond": {"burden": "beyond"},
    "ids": {"cluster": "gold.id"},
    "sure": {"inconclusive": "fail"},
    "total": {"max_total_drop": 0.02},
}
THRESHOLDS = st.lists(
    st.sampled_from(
        [
            ("recall@2", {"max_drop": 0.02}),
            ("recall@2", {"min": 0.5, "max_drop": 0.05, "by": "topic"}),
            ("ndcg@3", {"max_drop": 0.0, "policy": "beyond"}),
            ("map@10", {"max_lost": 1, "where": {"topic": ("a", "b")}}),
            ("mrr@2", {"min": 0.9}),
            ("precision@3", {"max_drop": 0.02, "policy": "ids"}),
            ("precision@2", {"max_drop": 0.1, "policy": "release"}),
            ("answer.f1@2", {"max_drop": 0.02, "policy": "sure"}),
            ("answer.correct@2", {"min": 0.1, "max": 0.9}),
            ("llm_reteval@2", {"max_drop": 0.02}),
            ("erag.ndcg@10", {"min": 0.3, "where": {"of": "x"}}),
            ("arena.win@2", {"min": 0.1}),
            ("full_recall@3", {"max_drop": 0.02, "policy": "total"}),
        ]
    ),
    min_size=1,
    max_size=4,
    unique_by=str,
)


def retriever(lost: set[int], failing: set[int]) -> Callable[[str, int], list[dict[str, str]]]:
    """Return a retriever that ranks the gold passage second, misses some questions and fails at others."""

    def find(query: str, k: int) -> list[dict[str, str]]:
        number = int(query.split()[1])
        if number in failing:
            raise RuntimeError("the index is gone")
        ids = [f"other {number}", f"gold {number}", f"more {number}"]
        if number in lost:
            ids[1] = "another"
        return [{"id": name, "text": f"text of {name}"} for name in ids[:k]]

    return find


class Preferring(Judge):
    def prefer(self, _question: str, first: str, second: str) -> int:
        return 1 + (len(first) % 3 < len(second) % 2)


def generate(question: str, passages: list[Any]) -> str:
    return passages[-1].text if passages else question


@pytest.mark.slow
@settings(max_examples=40)
@given(data=st.data())
def test_the_merge_of_random_shards_is_the_whole_run(data: st.DataObject) -> None:
    """The merged entries, verdicts and messages equal those of a single run exactly."""
    names = data.draw(IDS, label="ids")
    numbers = st.sets(st.integers(0, len(names) - 1))
    examples = tuple(
        Example(
            name,
            f"question {n}",
            answers=(f"text of gold {n}",),
            reference="a long answer",
            gold=(
                Gold(id=f"gold {n}", text=f"text of gold {n}"),
                Gold(id=f"more {n}", text=f"text of more {n}", grade=n % 3),
            ),
            tags={"topic": "abc"[n % 3], "of": ["x", "y"][: n % 3]},
        )
        for n, name in enumerate(names)
    )
    marks = [
        Mark("rageval_evalset", (EvalSet("evals", examples),)),
        *(
            Mark("rageval_threshold", (spec,), words)
            for spec, words in data.draw(THRESHOLDS, label="thresholds")
        ),
    ]
    # At most four failures: a retriever that fails at its first five questions is not called again.
    failing = data.draw(st.sets(st.integers(1, 24), max_size=4), label="failing")
    lost = data.draw(numbers, label="lost")

    def parts() -> Components:
        return Components(retriever(lost, failing), generate, Preferring())

    with TemporaryDirectory() as folder:
        root = Path(folder)
        options = Settings(
            cache_dir=root / "cache",
            baseline=root / "rageval_baseline.json",
            max_unscored=data.draw(st.sampled_from([0.05, 0.5]), label="unscored"),
            repeat=data.draw(st.integers(1, 2), label="repeat"),
            seed=data.draw(st.integers(0, 3), label="seed"),
            policy=POLICIES,
        )
        if any(bound in mark.kwargs for mark in marks for bound in ("max_drop", "max_lost")):
            write_baseline(options, root, marks, Components(retriever(set(), set()), generate, Preferring()))
        problems, failures, whole = evaluated_in(options, root, marks, parts(), explain=True)
        number = data.draw(st.integers(1, 8), label="shards")
        merged = evaluate_merged(shards_of(options, root, marks, number, parts), options, root, explain=True)
    expected = {"nodeid": merged.entry["nodeid"], **outcome_of(problems, failures), **whole}
    assert _without_times(merged.entry) == _without_times(expected)


def _without_times(entry: dict[str, Any]) -> str:
    # Convert to plain JSON first, since some questions are in a spool file.
    plain = json.loads(json.dumps(entry))
    if "message" in plain:
        plain["message"] = without_updates(plain["message"])
    for name in ("timed", "latency_p50", "latency_p95"):
        plain.get("retrieval", {}).pop(name, None)
    for question in plain.get("questions", ()):
        question.pop("seconds", None)
    return json.dumps(plain, sort_keys=True)


@given(names=IDS, number=st.integers(1, 8), share=st.floats(0.05, 1.0))
def test_each_question_of_a_sample_is_in_one_shard(names: list[str], number: int, share: float) -> None:
    evalset = EvalSet("evals", tuple(Example(name, name) for name in names))
    sampled = [name for name in names if in_sample(name, share)]
    if not sampled:
        return
    parts = [select_subset(evalset, sample=share, shard=(index, number)) for index in range(1, number + 1)]
    of_parts = [[example.id for example in part] for part in parts]
    assert sorted(chain.from_iterable(of_parts)) == sorted(sampled)
    assert all(part == [name for name in sampled if name in part] for part in of_parts)
    assert all(part.examples.ids == tuple(names) for part in parts)


@given(name=st.text(), one=st.floats(0.01, 1.0), other=st.floats(0.01, 1.0))
def test_a_larger_sample_contains_a_smaller_one(name: str, one: float, other: float) -> None:
    """A larger sample contains each smaller one, so that its baseline can be compared."""
    smaller, larger = sorted((one, other))
    assert in_sample(name, larger) or not in_sample(name, smaller)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
DOCUMENTS = st.builds(Document, st.text(), st.none() | st.text())
RANKINGS = st.builds(
    Ranking,
    st.text(),
    st.lists(DOCUMENTS, max_size=3).map(tuple),
    cost=st.none() | st.floats(0, 1),
    seconds=st.none() | st.floats(0, 1),
)
OUTCOMES = st.builds(
    Outcome,
    st.builds(
        Example,
        st.text(),
        st.text(),
        tags=st.dictionaries(st.text(), VALUES, max_size=2),
        nuggets=st.lists(st.builds(Nugget, st.text(), st.booleans()), max_size=2).map(tuple),
    ),
    st.none() | st.floats(-1e100, 1e100),
    st.none() | st.text(),
    st.builds(
        Evidence,
        st.none() | RANKINGS,
        st.none() | st.text(),
        st.lists(st.text(), max_size=2).map(tuple),
        counts=st.dictionaries(st.text(), st.integers(), max_size=2),
        votes=st.builds(Tally, st.integers(0, 9)),
        places=st.builds(Places, st.none() | st.floats(0, 1), st.none() | st.floats(0, 1)),
    ),
)


@pytest.mark.slow
@given(
    outcomes=st.lists(OUTCOMES, max_size=3),
    value=VALUES,
    span=st.builds(Span, st.text(), st.just(0), st.just(1)),
)
def test_what_is_written_is_read(outcomes: list[Outcome], value: object, span: Span) -> None:
    """Objects as plain data, also with unusual keys and nested tuples, are read back from JSON unchanged."""
    kind, written = tuple[list[Outcome], Any, Span], (outcomes, value, span)
    text = json.dumps(to_plain(written, kind), allow_nan=False)
    read = restore(json.loads(text), kind)
    assert read == written
    assert repr(read) == repr(written)
