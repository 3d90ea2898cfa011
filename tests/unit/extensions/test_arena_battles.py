"""Battles between the systems whose answers a process has."""

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_rageval.answers.judge import Verdict
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Places
from pytest_rageval.extensions.arena_battles.battles import (
    Battles,
    arena_cutoffs,
    battles_per_pair,
    draw_questions,
    run_battles,
)
from pytest_rageval.scores.arena import PREFER
from tests.unit.scores.conftest import World


@pytest.fixture
def world(loop: BackgroundEventLoop) -> World:
    return World(loop)


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


def _battles(n: int) -> Battles:
    settings = SimpleNamespace(value_of={"arena_pairs": n}.get)
    return Battles(SimpleNamespace(settings=settings, loop=SimpleNamespace(run=asyncio.run)))


def _siblings(*names: str, specs: tuple[str, ...] = ("arena.win@5",)) -> dict[str, Any]:
    return {NODE(name): [SimpleNamespace(args=(spec,), kwargs={}) for spec in specs] for name in names}


def _fought(battles: Battles, run: Run, name: str, siblings: Any, cutoffs: tuple[int, ...] = (5,)) -> Any:
    found = battles.run_for_test(NODE(name), run, ("digest", EXAMPLES), cutoffs, siblings)
    return {
        (result["system"], result["opponent"]): [example["score"] for example in result["examples"]]
        for result in found
    }


def test_each_system_battles_those_before_it() -> None:
    requests, results = [], []
    for order in ("abc", "cab"):
        battles, siblings = _battles(12), _siblings(*"abc")
        runs = {name: Run(name) for name in order}
        fought = [_fought(battles, runs[name], name, siblings) for name in order]
        assert [len(result) for result in fought] == [0, 1, 2]
        results.append({pair: scores for result in fought for pair, scores in result.items()})
        requests.append(sorted(request for run in runs.values() for request in run.asked))
    pairs = (("a@5", "b@5"), ("a@5", "c@5"), ("b@5", "c@5"))
    assert results[0] == results[1] == dict.fromkeys(pairs, [0.0] * 4)
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
    battles, run = _battles(1000), Run("a")
    siblings = _siblings("a", specs=("arena.win@5", "arena.win_tie@5", "arena.win@10", "recall@3"))
    scores = _fought(battles, run, "a", siblings, (5, 10))
    assert scores == {("a@10", "a@5"): [0.0] * 8}
    assert _fought(battles, run, "a", siblings, (5, 10)) == scores


def test_more_battles_than_questions_are_named() -> None:
    siblings = _siblings("a", "b")
    for n, wanted in ((9, 9), (8, None)):
        battles = _battles(n)
        battles.run_for_test(NODE("a"), Run("a"), ("digest", EXAMPLES), (5,), siblings)
        (pair,) = battles.run_for_test(NODE("b"), Run("b"), ("digest", EXAMPLES), (5,), siblings)
        assert (len(pair["examples"]), pair.get("wanted")) == (8, wanted)


def test_an_answer_that_is_not_there_leaves_its_battle_unscored() -> None:
    battles, siblings = _battles(8), _siblings("a", "b")
    _fought(battles, Run("a", unanswered=("q3",)), "a", siblings)
    (pair,) = battles.run_for_test(NODE("b"), Run("b"), ("digest", EXAMPLES), (5,), siblings)
    unscored = [(each["id"], each["unscored"]) for each in pair["examples"] if each["score"] is None]
    assert unscored == [("q3", "one of the two systems has no answer")]
    assert len(pair["examples"]) == 8
    assert pair["position_bias"]["verdicts"] == 7


def test_other_eval_sets_and_functions_are_no_rivals() -> None:
    battles, siblings = _battles(8), _siblings("a", "b")
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


@pytest.mark.parametrize(("n", "counts"), [(55, {1}), (56, {1, 2}), (3, {0, 1}), (7700, {140})])
def test_battles_are_spread_evenly_over_pairs(n: int, counts: set[int]) -> None:
    systems = [f"s{number:02}" for number in range(11)]
    shares = battles_per_pair(systems, n, 0)
    assert (len(shares), sum(shares.values()), set(shares.values())) == (55, n, counts)
    assert shares == battles_per_pair(systems[::-1] + systems, n, 0)
    more = battles_per_pair(systems, n + 1, 0)
    assert all(more[pair] >= count for pair, count in shares.items())


def test_any_beginning_of_a_draw_has_the_domains_equally() -> None:
    """±1, until a domain is exhausted. The position of the answer alternates within a domain."""
    examples = [Example(f"{domain}{n}", "?", tags={"domain": domain}) for domain in "abc" for n in range(6)]
    examples = [example for example in examples if example.id not in {"c2", "c3", "c4", "c5"}]
    order = draw_questions(examples, 0)
    assert order == draw_questions(examples[::-1], 0) != draw_questions(examples, 1)
    for n in range(1, 7):
        seen = Counter(example.id[0] for example, _ in order[:n])
        assert max(seen.values()) - min(seen[domain] for domain in "abc") <= 1
    assert [example.id[0] for example, _ in order[:8]] == list("abcabcab")
    for domain in "abc":
        leading = [first for example, first in order if example.id[0] == domain]
        assert abs(2 * sum(leading) - len(leading)) <= 1
    assert abs(2 * sum(first for _, first in order) - len(order)) <= 1
    assert len(draw_questions([Example("a", "?"), Example("b", "?", tags={"topic": "x"})], 0)) == 2


def test_two_systems_fight_by_the_rules_against_the_reference(world) -> None:
    fought = {
        "q1": ("right", "wrong", "right", 1.0),
        "q2": ("wrong", "right", "right", 0.0),
        "q3": ("one", "other", 0, 0.5),
        "q4": ("same", "same", "never asked", 0.5),
        "q5": ("I couldn't find an answer.", "right", "never asked", 0.0),
        "q6": ("right", "I couldn't find an answer.", "never asked", 1.0),
        "q7": ("I couldn't find an answer.", "No answer in the documents.", "never asked", 0.5),
        "q8": ("right", None, "never asked", None),
    }
    world.better.update({name: better for name, (_, _, better, _) in fought.items()})
    questions = [(Example(name, name), number % 2 == 0) for number, name in enumerate(fought)]
    one, other = ((lambda example, n=n: fought[example.id][n]) for n in (0, 1))
    outcomes = world.loop.run(run_battles(world.run, questions, one, other))
    assert [outcome.value for outcome in outcomes] == [result for *_, result in fought.values()]
    assert outcomes[-1].unscored == "one of the two systems has no answer"
    judged = [(question, first) for what, question, first, *_ in world.asked if what == "prefer"]
    assert sorted(judged) == [("q1", "right"), ("q2", "right"), ("q3", "one")]
    places = [Places(first=1.0), Places(second=0.0), Places(first=0.5), Places()]
    assert [outcome.evidence.places for outcome in outcomes[:4]] == places
