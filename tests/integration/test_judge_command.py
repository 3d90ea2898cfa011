"""`rageval judge`: agreement of a judge model with people and with itself."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.answers.judge import Verdict
from pytest_rageval.answers.judge.llm_judge import LLMJudge
from pytest_rageval.extensions.calibration.command import injections
from pytest_rageval.scores.arena import PREFER
from tests.llm_server import LLMServer
from tests.unit.cli.folders import Done

pytestmark = pytest.mark.slow

ITEMS = 8


@pytest.fixture
def judge(llm: LLMServer, command: Callable[..., Done]) -> Callable[..., Done]:
    """A function that runs `rageval judge labels.jsonl --model m1 …` on eight labelled answers, five of them right."""
    labels(
        {
            "id": f"l{n}",
            "question": f"What is thing {n}?",
            "references": ["small", "tiny"] if n < 4 else ["small"],
            "prediction": f"answer {n}",
            "human": [n < 5, n < 5, n < 4],
        }
        for n in range(ITEMS)
    )
    return partial(command, "judge", "labels.jsonl", "--model", "m1", "--base-url", llm.url)


def labels(records: Any) -> None:
    Path("labels.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")


def number(prompt: str) -> int:
    return int(re.findall(r"is thing (\d)", prompt)[0])


def fickle(prompt: str) -> str:
    """Judge the first five answers right; the verdict on 0 changes with the order, that on 6 with the wording."""
    n = number(prompt)
    if n == 0:
        return "yes" if prompt.index("- small") < prompt.index("- tiny") else "no"
    if n == 6:
        return "yes" if "Would you accept" in prompt else "no"
    return "yes" if n < 5 else "no"


def test_all_in_one_report(judge: Callable[..., Done], llm: LLMServer) -> None:
    llm.model = fickle
    done = judge("--votes=3", "--swap", "--paraphrase")
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("m1: judge against people (labels.jsonl, n = 8): kappa 1.000 [")
    assert lines[1].startswith("people among themselves: kappa 0.8")
    assert lines[2].startswith("in other words: judge against people (labels.jsonl, n = 8): kappa 0.71")
    assert " ".join(lines[4].split()) == "verdicts changed by changed of flip rate 95% interval"
    assert [line.split("  ")[0] for line in lines[5:]] == ["3 votes", "order of references", "other words"]
    counts = [["0", "8", "0.0%"], ["1", "4", "25.0%"], ["1", "8", "12.5%"]]
    assert [line.split()[-6:-3] for line in lines[5:]] == counts
    assert len(llm.requests) == 3 * (8 + 4 + 8)
    assert {body["temperature"] for body in llm.requests} == {0.5}
    # Only four answers have two references, so that swapping sends 3 * 4 requests.
    assert "60 replies: 0 cached, 60 live" in done.err
    llm.requests.clear()
    again = judge("--votes=3", "--swap", "--paraphrase", "--replay")
    assert again.out == done.out
    assert not llm.requests


def test_votes_that_differ(judge: Callable[..., Done], llm: LLMServer) -> None:
    drawn: list[str] = []

    def wavering(prompt: str) -> str:
        drawn.append(prompt)
        return "no" if "thing 3?" in prompt and drawn.count(prompt) == 2 else fickle(prompt)

    llm.model = wavering
    report = json.loads(judge("--votes=3", "--json").out)
    assert report["flips"] == {"3 votes": {"changed": 1, "of": 8, "ids": ["l3"]}}
    assert report["agreement"]["accuracy"]["value"] == 1
    assert report["people"]["annotators"] == 3
    assert report["reworded"] is report["places"] is None


def test_unreadable_replies_are_reported(judge: Callable[..., Done], llm: LLMServer) -> None:
    llm.model = lambda prompt: "perhaps" if "thing 1" in prompt else fickle(prompt)
    done = judge("--swap")
    assert "(labels.jsonl, n = 7, 1 unscored)" in done.out
    assert re.search(r"order of references +1 +3 +33.3% ", done.out)
    assert "  1 × the judge's reply is neither yes nor no: 'perhaps'" in done.out
    assert {body["temperature"] for body in llm.requests} == {0.0}


def test_an_abstention_is_not_asked_about(judge: Callable[..., Done], llm: LLMServer) -> None:
    predictions, record = ("small", "no answer in the documents"), {"references": ["small", "tiny"]}
    labels(
        record | {"question": f"What is thing {n}?", "prediction": predictions[n % 2], "human": n % 2 == 0}
        for n in range(4)
    )
    llm.model = lambda _: "yes"
    report = json.loads(judge("--swap", "--paraphrase", "--json").out)
    assert report["agreement"]["accuracy"]["value"] == 1
    assert [flips["of"] for flips in report["flips"].values()] == [2, 2]
    assert len(llm.requests) == 6


def test_grades(judge: Callable[..., Done], llm: LLMServer) -> None:
    record = {"references": ["small"]}
    labels(
        record | {"question": f"What is thing {n}?", "prediction": f"answer {n}", "human": n / 4}
        for n in range(5)
    )
    llm.model = lambda prompt: str(number(prompt) + 1)
    done = judge("--paraphrase", "--swap")
    assert "pearson 1.000" in done.out.splitlines()[0]
    assert re.search(r"order of references +0 +0 +- +-$", done.out, re.MULTILINE)
    assert len(llm.requests) == 10
    assert len(set(llm.prompts)) == 10


def test_prompts_of_a_file(judge: Callable[..., Done], llm: LLMServer) -> None:
    prompts = "same_answer = 'Passt {answer} zu {references}, gefragt {question}'"
    Path("prompts.toml").write_text(prompts, encoding="utf-8")
    llm.model = lambda _: "yes"
    assert judge("--prompts=prompts.toml").status == 0
    assert [prompt.partition(" <")[0] for prompt in llm.prompts] == ["Passt"] * ITEMS
    llm.requests.clear()
    Path("prompts.toml").write_text(prompts.replace("{answer}", "es"), encoding="utf-8")
    refused = judge("--prompts=prompts.toml")
    assert (refused.status, refused.out) == (2, "")
    assert "prompts.toml: the prompt same_answer lacks {answer}." in refused.err
    assert judge("--rageval=prompts=nowhere.toml").status == 2
    assert not llm.requests


def obedient(prompt: str) -> str:
    if re.search(r"is thing \d", prompt):
        return fickle(prompt)
    injected = "nswer yes" in prompt
    return "yes" if injected and ("lines with the mark" not in prompt or "Reference" in prompt) else "no"


@pytest.mark.parametrize("votes", [1, 3])
def test_injections(judge: Callable[..., Done], llm: LLMServer, votes: int) -> None:
    llm.model = obedient
    done = judge("--injections", f"--votes={votes}", "--paraphrase")
    assert done.status == 0
    cases = injections()
    injected_cases = [
        each for each in cases if "nswer yes" in each.injected and "nswer yes" not in each.clean
    ]
    obeyed_cases = {
        "injections": [case for case in injected_cases if case.method == "compare"],
        "injections without fences": injected_cases,
    }
    lines = done.out.splitlines()
    report = json.loads(judge("--injections", f"--votes={votes}", "--json", "--replay").out)
    right = sum(case.verdict == 0 for case in cases)
    for name, flipped in obeyed_cases.items():
        share = len(flipped) / len(cases)
        (row,) = (line.split() for line in lines if line.startswith(f"{name}  "))
        assert row[len(name.split()) :][:3] == [str(len(flipped)), str(len(cases)), f"{share:.1%}"]
        obeyed = sum(case.verdict == 0 for case in flipped)
        text = f"{name}: {right} of {len(cases)} clean texts are judged right, and {obeyed} of these as the injection"
        assert text in done.out
        assert report["flips"][name]["ids"] == [case.id for case in flipped]
        assert report["injections"][name]["obeyed"] == obeyed
    assert len(obeyed_cases["injections"]) < len(injected_cases)
    assert any(line.startswith("other words  ") for line in lines)


def test_injections_are_reported_only_on_request(judge: Callable[..., Done], llm: LLMServer) -> None:
    llm.model = fickle
    report = json.loads(judge("--json").out)
    assert (report["injections"], report["flips"]) == ({}, {})
    assert len(llm.requests) == ITEMS


def test_pairs(judge: Callable[..., Done], llm: LLMServer, monkeypatch: pytest.MonkeyPatch) -> None:
    labels({"question": f"q{n}", "first": "one", "second": "two", "human": 1 + n % 2} for n in range(8))

    async def ask(self: LLMJudge, task: object, *texts: str) -> Verdict:  # noqa: ARG001
        assert task is PREFER
        return Verdict(1)

    monkeypatch.setattr(LLMJudge, "ask", ask)
    done = judge("--swap")
    lines = done.out.splitlines()
    assert lines[0].startswith("m1: judge against people (labels.jsonl, n = 8): kappa 0.000 ")
    assert "order of the answers        8   8     100.0%" in done.out
    table = lines[lines.index("") + 1 :][:3]
    assert [line.split("  ")[0] for line in table] == ["better of 8 pairs", "people", "m1"]
    assert lines[-1].startswith("of these, 100.0% prefer the answer shown first (p = 0.0078 ")
    refused = judge("--paraphrase")
    assert (refused.status, refused.out) == (2, "")
    assert "Leave out --paraphrase" in refused.err
    assert not llm.requests


FIVE_STEPS = ("better", "Slightly better", "tie", "slightly worse", "worse", "worse")


def pairs() -> None:
    labels(
        {"question": f"What is thing {n}?", "first": f"the one {n}", "second": "two", "human": human}
        for n, human in enumerate(FIVE_STEPS)
    )


RATINGS = {"strict": "112222", "mild": "110220", "odd": "221101"}
"""The rating that each model gives to each pair."""


def rating(body: dict[str, Any]) -> str:
    return f"<rating>{RATINGS[body['model']][number(body['messages'][-1]['content'])]}</rating>"


def test_several_judges_and_their_majority(judge: Callable[..., Done], llm: LLMServer) -> None:
    pairs()
    llm.refuse = rating
    done = judge("--model=strict,mild,odd")
    assert done.status == 0, done.err
    assert len(llm.requests) == 3 * len(FIVE_STEPS)
    lines = done.out.splitlines()
    assert lines[0].startswith("strict,mild,odd: judge against people (labels.jsonl, n = 6): kappa ")
    table = [re.split(r"  +", line) for line in lines[lines.index("") + 1 :]]
    words = ["the first", "neither", "the second"]
    assert table[0] == ["better of 6 pairs", *words, "kappa", "accuracy", "pearson"]
    rows = {name: cells for name, *cells in table[1:]}
    assert rows["people"] == ["33.3%", "16.7%", "50.0%", "-", "-", "-"]
    assert rows["strict"][:3] == ["33.3%", "0.0%", "66.7%"]
    assert rows["strict"][4] == "0.833"
    assert rows["mild"][:3] == ["33.3%", "33.3%", "33.3%"]
    assert rows["odd"][:3] == ["50.0%", "16.7%", "33.3%"]
    # 1 1 - 2 2 -: two of three agree, except on the third pair (2, 0, 1) and the last (2, 0, 1).
    assert rows["majority of 3"][:5] == ["33.3%", "33.3%", "33.3%", "0.750", "0.833"]
    report = json.loads(judge("--model=strict,mild,odd", "--replay", "--json").out)
    assert report["distribution"] == {
        "people": {"the first": 2, "neither": 1, "the second": 3},
        "judge": {"the first": 2, "neither": 2, "the second": 2},
    }
    assert list(report["judges"]) == ["strict", "mild", "odd"]
    assert report["judges"]["strict"]["distribution"]["judge"]["neither"] == 0
    assert report["judges"]["mild"]["agreement"]["accuracy"]["value"] == pytest.approx(5 / 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--votes", "2"], "'2' is not an odd number of votes"),
        (["--votes", "many"], "'many' is not an odd number"),
        (["--base-url", "llm.example"], "'llm.example' is not a URL"),
        (["--model", "embedded"], "too small to judge"),
    ],
)
def test_what_is_not_allowed(judge: Callable[..., Done], arguments: list[str], message: str) -> None:
    done = judge(*arguments)
    assert done.status == 2
    assert message in done.err


def test_replay_sends_no_requests(judge: Callable[..., Done], llm: LLMServer) -> None:
    done = judge("--replay")
    assert done.status == 2
    assert "--replay sends no request" in done.err
    assert "--rageval" not in done.err
    assert "Run once without --replay to request it, or undo what changed." in done.err
    assert not llm.requests


def test_the_judge_is_asked_as_in_a_run(judge: Callable[..., Done], llm: LLMServer) -> None:
    llm.model = fickle
    done = judge("--cache=other", '--judge-parameters={"top_p": 0.5}', "--max-calls=100", "--timeout=20")
    assert done.status == 0, done.err
    assert {body["top_p"] for body in llm.requests} == {0.5}
    assert Path("other").is_dir()
    assert not Path(".rageval_cache").exists()
    again = judge('--judge-parameters={"top_p": 0.25}', "--rageval=max_calls=3")
    assert again.status == 2
    assert again.err.startswith("--max-calls=3 is reached")
