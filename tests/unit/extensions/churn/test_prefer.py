"""`rageval prefer`, with a judge on a local HTTP server."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.llm_server import LLMServer
from tests.unit.cli.folders import Done

pytestmark = pytest.mark.slow

Prefer = Callable[..., Done]


def report(passages: Sequence[Sequence[str]], nodeid: str = "test_a.py::test_a") -> dict[str, Any]:
    found = [[{"document": each, "text": each} for each in some] for some in passages]
    questions = [
        {"id": f"q{n}", "question": f"Question {n}?", "retrieved": some} for n, some in enumerate(found)
    ]
    test = {"nodeid": nodeid, "outcome": "passed", "evalset": None, "scores": [], "questions": questions}
    llm = dict.fromkeys(("requests", "cached", "live", "failed", "tokens_in", "tokens_out"), 0)
    llm["cost_usd"] = 0.0
    return {"schema": 1, "package": "0", "started": "2026-03-01T00:00:00+00:00", "duration_s": 1.0, "stopped": False,
            "settings": {}, "llm": llm, "tests": [test], "matrix": [], "ratings": []}  # fmt: skip


def good_is_better(prompt: str) -> str:
    lists = prompt.partition("List 1:")[2].partition("Give your reasons")[0].split("List 2:")
    first, second = (part.count("good") for part in lists)
    return f"Counted. <rating>{1 if first > second else 2 if second > first else 0}</rating>"


@pytest.fixture
def prefer(llm: LLMServer, command: Callable[..., Done]) -> Prefer:
    llm.model = good_is_better

    def run(before: dict[str, Any], after: dict[str, Any], *arguments: str) -> Done:
        Path("before.json").write_text(json.dumps(before))
        Path("after.json").write_text(json.dumps(after))
        words = ("before.json", "after.json", "--judge-model", "j", "--base-url", llm.url)
        return command("prefer", *words, *arguments)

    return run


def test_worse_passages_fail_and_better_ones_do_not(prefer: Prefer, llm: LLMServer) -> None:
    """Five lost of five are significant, four are not; questions with the same passages are not asked."""
    good, bad, other = ["good", "x"], ["bad", "x"], ["x", "good"]
    before, after = [good] * 5 + [good, good], [bad] * 5 + [good, other]
    done = prefer(report(before), report(after))
    assert (done.status, len(llm.prompts)) == (1, 12), done
    assert done.out.splitlines() == [
        "12 replies: 0 cached, 12 live",
        "6 of 7 questions have other passages: those of after are better for 0, those of before for 5, neither for 1",
        "better before:",
        *(line for n in range(5) for line in (f"  Question {n}?", "    Counted.")),
        "worse: p = 0.031, sign test",
    ]
    back = prefer(report(after), report(before))
    assert (back.status, back.out.splitlines()[0]) == (0, "12 replies: 12 cached, 0 live")
    assert back.out.splitlines()[-1] == "not shown to be worse: p = 1, sign test"
    fewer = prefer(report(before[1:]), report(after[1:]))
    assert fewer.out.endswith("not shown to be worse: p = 0.062, sign test\n")


def test_only_the_first_k_of_one_test_are_compared(prefer: Prefer, llm: LLMServer) -> None:
    before, after = report([["a", "b"], ["a", "good"]]), report([["a", "c"], ["good", "a"]])
    assert "1 of 2 questions have other passages" in prefer(before, after, "--k", "1", "--test", "test_a").out
    assert len(llm.prompts) == 2
    assert "no question of the same test in common" in prefer(before, after, "--test", "test_b").err


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        (
            "<rating>1</rating>",
            "neither for 1\nof the last, 1 where the judge changed its mind with the order\n",
        ),
        ("Hm.", "those of before for 0, neither for 0\n1 without a verdict:\n  1 × "),
    ],
)
def test_a_changed_mind_is_a_tie_and_a_missing_verdict_is_counted(prefer, llm, reply, shown):
    llm.model = lambda _: reply
    assert shown in prefer(report([["a"]]), report([["b"]])).out


def test_what_cannot_be_used_is_said(prefer: Prefer, llm: LLMServer) -> None:
    done = prefer(report([["a"]]), report([["b"]], "test_b.py::test_b"))
    assert (done.status, llm.prompts) == (2, [])
    assert "before.json and after.json have no question of the same test in common." in done.err
    done = prefer(report([["a"]]), report([[""]]))
    assert (done.status, llm.prompts) == (2, [])
    assert "1 of 1 question whose passages changed have some without text." in done.err
