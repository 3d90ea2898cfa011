"""Nuggets by a model on a local HTTP server: scores, plan and cost, and `rageval evalset nuggets`."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.cli import main
from pytest_rageval.core.evalset import Nugget
from pytest_rageval.evalsets import load
from tests.llm_server import Fault, LLMServer, Said, clerk
from tests.unit.cli.folders import Done

NUGGETS = [{"text": "It has a code", "vital": True}, {"text": "It is one of all things", "vital": False}]

GATE = "\n".join(
    f"@pytest.mark.rageval_threshold({spec!r}, min=0)"
    for spec in ("nuggets.coverage@2", "nuggets.vital@2", "nuggets.ndcg@2", "answer.nuggets@2")
)
GATE = f"{GATE}\ndef test_gate(): pass\n"


def _labeller(prompt: str) -> Said:
    """Label the second nugget as supported by each passage, and the first only by the question's own passage."""
    if prompt.startswith("Label each nugget"):
        number = re.search(r"Question: .*item-(\d+)", prompt)[1]
        return json.dumps(["support" if f"item-{number} has" in prompt else "not_support", "support"])
    return f"It is {clerk(prompt)}."


def _labels(llm: LLMServer) -> list[str]:
    return [prompt for prompt in llm.prompts if prompt.startswith("Label")]


def test_passages_are_labelled_once(project, llm):
    llm.model = _labeller
    project.use(llm)
    project.evalset(4, nuggets=NUGGETS)
    project.test(GATE)
    plan = project.run("--rageval-plan")
    # Four questions with two passages each: a label request per passage, a long answer and a label request for it.
    assert re.search(r"\nin total\n +≤ 16 +0 +≤ 16 ", f"{plan.stdout}")
    assert not llm.requests
    result = project.run(
        "--rageval-report=r.json", "--rageval-report=r.html", "--rageval-report=r.md", passed=1
    )
    assert (len(llm.requests), len(_labels(llm))) == (16, 12)
    (test,) = project.read("r.json")["tests"]
    coverage, vital, ndcg, answer = test["scores"]
    assert [score["mean"] for score in (coverage, vital, ndcg)] == [1.0, 1.0, 1.0]
    # The answers state the code alone.
    assert answer["mean"] == 0.0
    assert answer["beside"] == {"all_strict": 0.5, "vital": 0.0, "all": 0.5}
    assert coverage["examples"][0]["labels"] == [1.0, 0.5]
    assert answer["examples"][0]["remark"] == '1 nugget not supported: "It has a code"'
    result.stdout.fnmatch_lines(
        [
            "  pass * nuggets.coverage@2 * 1.000 *",
            "*answer.nuggets@2: for comparison all_strict 0.500, vital 0.000, all 0.500*",
        ]
    )
    assert "It has a code" in (project.path / "r.html").read_text(encoding="utf-8")
    assert "nuggets.coverage@2" in (project.path / "r.md").read_text(encoding="utf-8")
    project.test(
        "def test_it(rageval):\n    for k in (1, 2): assert rageval.score(f'nuggets.vital@{k}') == 1\n"
    )
    project.change("in ranked[:k]]", "in reversed(ranked[:k])]")
    project.run(passed=1)
    assert len(_labels(llm)) == 12


def test_labels_that_cannot_be_read_leave_a_question_unscored(project, llm):
    llm.model = lambda prompt: "I cannot." if "item-2?" in prompt else '["support", "partial_support"]'
    project.use(llm)
    project.evalset(4, nuggets=NUGGETS)
    project.gate("nuggets.coverage@1 min=0.5")
    project.run(
        "--rageval=max_unscored=0.3",
        passed=1,
        shows=[
            "  inconclusive * nuggets.coverage@1 * 0.500 *3 of 4*",
            "*the judge's reply is not one list of labels: 'I cannot.'*",
        ],
    )


Propose = Callable[..., Done]

RECORDS = [
    {"id": "q1", "question": "Where is it?", "reference": "In Tulsa, since 1990.", "note": 7},
    {"id": "q2", "question": "How far?", "answers": ["5 km"], "gold": [{"text": "It is 5 km by bus."}]},
    {"id": "q3", "question": "Why?", "nuggets": ["because"]},
]


def _author(prompt: str) -> Said:
    assert prompt.startswith("List the facts")
    place = "Tulsa" if "Tulsa, since" in prompt else "5 km"
    return json.dumps([{"text": place, "vital": True}, {"text": f"{place}, says one", "vital": False}])


@pytest.fixture
def propose(
    llm: LLMServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Propose:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    llm.model = _author

    def run(records: list[dict[str, object]], *arguments: str) -> Done:
        (tmp_path / "set.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
        words = ["evalset", "nuggets", "set.jsonl", "--out", "out.jsonl", "--judge-model", "j"]
        return Done(main([*words, "--base-url", llm.url, *arguments]), *capsys.readouterr())

    return run


def test_proposed_nuggets_are_for_review(propose, llm, tmp_path, capsys):
    done = propose(RECORDS)
    assert (done.status, done.err) == (0, "")
    assert done.out == (
        "out.jsonl: 4 nuggets for review, 2 of them vital, of 2 examples; 1 example had nuggets already\n"
        "2 replies: 0 cached, 2 live\n"
    )
    first, second, third = load(tmp_path / "out.jsonl")
    assert first.nuggets == (Nugget("Tulsa"), Nugget("Tulsa, says one", vital=False))
    assert first.extra == {"note": 7, "nuggets_by": "j", "nuggets_reviewed": False}
    assert second.nuggets[0] == Nugget("5 km")
    assert (third.nuggets, third.extra) == ((Nugget("because"),), {})
    assert [example.id for example in load(tmp_path / "set.jsonl") if example.nuggets] == ["q3"]
    assert {body["model"] for body in llm.requests} == {"j"}
    (prompt,) = [prompt for prompt in llm.prompts if "How far?" in prompt]
    assert "\n[1] 5 km\n[2] It is 5 km by bus.\n" in prompt
    assert main(["evalset", "check", "out.jsonl"]) == 0
    assert 'take "nuggets_reviewed" out: 2\n' in capsys.readouterr().out


def test_several_judges_do_not_propose(propose: Propose, llm: LLMServer, tmp_path: Path) -> None:
    done = propose(RECORDS[:1], "--judge-model", "a,b,c")
    assert done.status == 2
    assert "Nuggets are proposed by one model, and several judge: a, b, c." in done.err
    assert "--judge-model NAME" in done.err
    assert not llm.requests
    assert not (tmp_path / "out.jsonl").exists()


def test_paid_replies_are_not_requested_again_and_no_file_is_lost(propose, llm, tmp_path):
    """The input file is never overwritten, and an existing output file only with --force."""
    propose(RECORDS)
    first = (tmp_path / "out.jsonl").read_bytes()
    refused = propose(RECORDS)
    assert refused.status == 2
    assert "out.jsonl exists already" in refused.err
    assert propose(RECORDS, "--out", "set.jsonl", "--force").status == 2
    again = propose(RECORDS, "--force", "--replay")
    assert (again.status, (tmp_path / "out.jsonl").read_bytes()) == (0, first)
    assert len(llm.requests) == 2


def test_an_example_without_nuggets_is_counted(propose: Propose, llm: LLMServer, tmp_path: Path) -> None:
    llm.model = lambda prompt: "Sorry." if "How far?" in prompt else _author(prompt)
    done = propose([*RECORDS, {"id": "q4", "question": "What?"}])
    assert done.status == 1
    assert "2 examples without nuggets:\n" in done.out
    assert "  1 × neither reference answers nor gold passages with text\n" in done.out
    assert "  1 × the judge's reply is not a list of nuggets: 'Sorry.'\n" in done.out
    assert [bool(example.nuggets) for example in load(tmp_path / "out.jsonl")] == [True, False, True, False]


def test_replies_paid_before_the_budget_ended_are_cached(propose: Propose, tmp_path: Path) -> None:
    done = propose(RECORDS, "--max-calls", "1")
    assert done.status == 1
    assert "1 example without nuggets:\n  1 × --max-calls=1 is reached: 1 call was made." in done.out
    assert sum(bool(example.nuggets) for example in load(tmp_path / "out.jsonl")) == 2


def test_without_any_nugget_no_file_is_written(propose: Propose, llm: LLMServer, tmp_path: Path) -> None:
    done = propose(RECORDS[2:])
    assert (done.status, not llm.requests) == (0, True)
    assert done.out.startswith("No nuggets were proposed, out.jsonl was not written; 1 example had nuggets")
    llm.model = lambda _: Fault(400)
    assert propose(RECORDS[:1]).status == 1
    assert not (tmp_path / "out.jsonl").exists()


def test_without_a_model_that_judges_nothing_is_proposed(propose: Propose, tmp_path: Path) -> None:
    done = propose(RECORDS, "--model", "embedded", "--judge-model", "")
    assert done.status == 2
    assert "Name one with --judge-model, or" in done.err
    assert not (tmp_path / "out.jsonl").exists()
