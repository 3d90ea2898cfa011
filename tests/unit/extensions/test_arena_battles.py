"""Battles between the systems whose answers a process has."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_rageval.answers.judge import Verdict
from pytest_rageval.core.evalset import Example
from pytest_rageval.extensions.arena_battles.battles import Battles, arena_cutoffs
from pytest_rageval.scores.arena import PREFER

NODE = "t.py::test_it[{}]".format
EXAMPLES = [Example(f"q{n}", f"q{n}", reference="long", tags={"domain": n % 2}) for n in range(8)]
EXAMPLES.append(Example("short", "short"))
"""The last example has no reference, so no system answered its question."""


class Run:
    seed = 0
    both_orders = False

    def __init__(self, name: str, unanswered: tuple[str, ...] = ()) -> None:
        self._name = name
        self._unanswered = unanswered
        self.asked: list[tuple[str, str, str]] = []

    def known_long_answer(self, example: Example, k: int) -> str | None:
        return None if example.id in self._unanswered else f"{self._name} from {k}"

    async def ask(self, task: object, question: str, first: str, second: str) -> Verdict:
        assert task is PREFER
        self.asked.append((question, first, second))
        return Verdict(1 if first > second else 2)


def _siblings(*names: str, specs: tuple[str, ...] = ("arena.win@5",)) -> dict[str, Any]:
    return {NODE(name): [SimpleNamespace(args=(spec,), kwargs={}) for spec in specs] for name in names}


def _fought(battles: Battles, run: Run, name: str, siblings: Any, cutoffs: tuple[int, ...] = (5,)) -> Any:
    found = battles.run_for_test(NODE(name), run, ("digest", EXAMPLES), cutoffs, siblings)
    return {
        (result["system"], result["opponent"]): [example["score"] for example in result["examples"]]
        for result in found
    }


def test_each_system_battles_those_before_it() -> None:
    """Each system battles the systems before it; pairs, questions and answer order do not depend on test order."""
    requests, results = [], []
    for order in ("abc", "cab"):
        battles, siblings = Battles(12, asyncio.run), _siblings(*"abc")
        runs = {name: Run(name) for name in order}
        fought = [_fought(battles, runs[name], name, siblings) for name in order]
        assert [len(result) for result in fought] == [0, 1, 2]
        results.append({pair: scores for result in fought for pair, scores in result.items()})
        requests.append(sorted(request for run in runs.values() for request in run.asked))
    assert (
        results[0]
        == results[1]
        == {
            (f"{first_system}@5", f"{second_system}@5"): [0.0] * 4
            for first_system, second_system in (("a", "b"), ("a", "c"), ("b", "c"))
        }
    )
    assert requests[0] == requests[1]
    # In each pair, each system comes first in half of the battles, and in half of the battles of each domain.
    for pair in ("ab", "ac", "bc"):
        firsts = [
            (int(question[1:]) % 2, first[0])
            for question, first, second in requests[0]
            if {first[0], second[0]} == {*pair}
        ]
        assert sorted(firsts) == [(domain, name) for domain in (0, 1) for name in pair]


def test_a_test_may_be_several_systems() -> None:
    """Each cut-off of a test is a system, and these battle each other; a second call returns the same result."""
    battles, run = Battles(1000, asyncio.run), Run("a")
    siblings = _siblings("a", specs=("arena.win@5", "arena.win_tie@5", "arena.win@10", "recall@3"))
    scores = _fought(battles, run, "a", siblings, (5, 10))
    assert scores == {("a@10", "a@5"): [0.0] * 8}
    assert _fought(battles, run, "a", siblings, (5, 10)) == scores


def test_more_battles_than_questions_are_named() -> None:
    siblings = _siblings("a", "b")
    for n, wanted in ((9, 9), (8, None)):
        battles = Battles(n, asyncio.run)
        battles.run_for_test(NODE("a"), Run("a"), ("digest", EXAMPLES), (5,), siblings)
        (pair,) = battles.run_for_test(NODE("b"), Run("b"), ("digest", EXAMPLES), (5,), siblings)
        assert (len(pair["examples"]), pair.get("wanted")) == (8, wanted)


def test_without_markers_all_have_the_cutoff_of_the_call() -> None:
    battles, siblings = Battles(4, asyncio.run), _siblings("a", "b", specs=("recall@5",))
    assert _fought(battles, Run("a"), "a", siblings) == {}
    assert _fought(battles, Run("b"), "b", siblings) == {("a@5", "b@5"): [0.0] * 4}


def test_an_answer_that_is_not_there_leaves_its_battle_unscored() -> None:
    battles, siblings = Battles(8, asyncio.run), _siblings("a", "b")
    _fought(battles, Run("a", unanswered=("q3",)), "a", siblings)
    (pair,) = battles.run_for_test(NODE("b"), Run("b"), ("digest", EXAMPLES), (5,), siblings)
    unscored = {
        example["id"]: example["unscored"] for example in pair["examples"] if example["score"] is None
    }
    assert unscored == {"q3": "one of the two systems has no answer"}
    assert len(pair["examples"]) == 8
    assert pair["position_bias"]["verdicts"] == 7


def test_other_eval_sets_and_functions_are_no_rivals() -> None:
    battles, siblings = Battles(8, asyncio.run), _siblings("a", "b")
    _fought(battles, Run("a"), "a", siblings)
    assert battles.run_for_test(NODE("b"), Run("b"), ("another", EXAMPLES), (5,), siblings) == []
    assert battles.run_for_test("t.py::test_other[b]", Run("b"), ("digest", EXAMPLES), (5,), siblings) == []


@pytest.mark.parametrize(
    ("specs", "cutoffs"),
    [
        (["arena.win@5", "recall@3", "arena.win_tie@10", "arena.win@5"], [5, 10]),
        (["recall@3", "arena.win", "no score!", 3], []),
    ],
)
def test_cutoffs_are_those_of_the_arena(specs: list[object], cutoffs: list[int]) -> None:
    assert arena_cutoffs(specs) == cutoffs
