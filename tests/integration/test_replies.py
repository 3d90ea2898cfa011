"""Replies: the cache, the cassette, retries and unusable replies."""

import json

import pytest

from tests.llm_server import Fault, clerk

pytestmark = pytest.mark.slow

GATE = '@pytest.mark.rageval_threshold("llm_reteval@1", min=0.9)\ndef test_gate(): pass\n'


def test_every_reply_is_paid_once(project, llm):
    project.use(llm)
    project.test(GATE)
    project.run(passed=1)
    requests_before = len(llm.requests)
    # Four questions: three samples with gold, the first of which is also the answer from the
    # retrieved passages, and one verdict.
    assert requests_before == 4 * (3 + 1)
    project.run(passed=1, shows="16 replies: 16 cached, 0 live")
    assert len(llm.requests) == requests_before
    project.run("--rageval-model=m2")
    assert len(llm.requests) == 2 * requests_before


def test_a_changed_retriever_asks_only_about_what_it_changed(project, llm):
    project.use(llm)
    project.test(GATE)
    project.run()
    requests_before = len(llm.requests)
    project.lose(2)
    result = project.run(failed=1)
    # The only new request is the answer from another passage, an abstention, which is not judged.
    assert len(llm.requests) == requests_before + 1
    result.stdout.fnmatch_lines(
        [
            "  q2  0              What is the code of item-2?",
            "      gold      doc-2",
            "      now       doc-1",
            "      answer    no answer in the documents",
            "      with gold c2x",
        ]
    )


def test_a_cassette_replaces_the_server(project, llm):
    project.use(llm)
    project.test(GATE)
    tape = project.path / "tape.jsonl"
    project.run(
        "--rageval-cassette=tape.jsonl",
        "--rageval-record",
        shows="cassette: *tape.jsonl (16 replies used, 16 of them new; 0 kept unused)",
    )
    keys = [json.loads(line)["key"] for line in tape.read_text(encoding="utf-8").splitlines()]
    assert keys == sorted(keys)
    assert "sk-secret" not in tape.read_text(encoding="utf-8")
    requests_before = len(llm.requests)
    project.run("--rageval-cassette=tape.jsonl", "--rageval=cache_dir=empty", passed=1)
    assert len(llm.requests) == requests_before


@pytest.mark.parametrize("gate", [GATE, GATE.replace("llm_reteval", "recall")])
def test_a_cassette_that_is_missing_or_broken_is_an_error(project, llm, gate):
    project.use(llm)
    project.test(gate)
    project.run("--rageval-cassette=tape.jsonl", errors=1, shows="The cassette *tape.jsonl does not exist.")
    (project.path / "tape.jsonl").write_text("<<<<<<< HEAD\n", encoding="utf-8")
    for arguments in ((), ("--rageval-record",)):
        project.run(
            "--rageval-cassette=tape.jsonl",
            *arguments,
            errors=1,
            shows="*tape.jsonl line 1 is not a recorded reply: *",
        )
    assert not llm.requests


def test_a_plan_needs_no_cassette(project, llm):
    """A plan pays nothing: before the cassette is recorded, it says what the recording needs."""
    project.use(llm)
    project.test(GATE)
    plan = project.run("--rageval-plan", "--rageval-cassette=tape.jsonl")
    assert plan.ret == 0
    plan.stdout.fnmatch_lines(["*tape.jsonl does not exist: planned as if nothing were recorded."])
    plan.stdout.no_fnmatch_line("*rageval_cassette=*")
    (project.path / "tape.jsonl").write_text("<<<<<<< HEAD\n", encoding="utf-8")
    assert project.run("--rageval-plan", "--rageval-cassette=tape.jsonl").ret == 1
    assert not llm.requests


def test_a_request_that_keeps_failing_is_unscored_with_its_reason(project, llm):
    llm.model = lambda prompt: (
        Fault(500, message="boom") if "item-7 " in prompt.split("Passages:")[-1] else clerk(prompt)
    )
    project.use(llm)
    project.evalset(20)
    project.test(GATE)
    result = project.run("--rageval=retries=0", passed=1)
    result.stdout.re_match_lines([r"  pass +llm_reteval@1 +1\.000 .*≥ 0\.9 +19 of 20"])


def test_reasoning_before_answers_and_verdicts_is_kept_and_not_read(project, llm):
    project.use(llm)
    project.test(GATE)
    project.run("--rageval=cache_dir=plain", passed=1)
    plain = sorted(json.dumps(body) for body in llm.requests)
    llm.requests.clear()
    llm.model = lambda prompt: f"<think>\nno, or yes?\n</think>\n\n{clerk(prompt)}"
    project.run(passed=1)
    assert sorted(json.dumps(body) for body in llm.requests) == plain
    project.run("--rageval-cassette=tape.jsonl", "--rageval-record", shows="16 replies: 16 cached, 0 live")
    lines = (project.path / "tape.jsonl").read_text(encoding="utf-8").splitlines()
    assert all(json.loads(line)["text"].startswith("<think>") for line in lines)


def test_too_many_unscored_are_an_error(project, llm):
    llm.model = lambda prompt: "perhaps" if "Answer to check" in prompt else clerk(prompt)
    project.use(llm)
    project.test(GATE)
    project.run(
        errors=1,
        shows=[
            "llm_reteval@1: none of 4 examples has a score:",
            "  4 × the judge's reply is neither yes nor no: 'perhaps' (q1, q2, q3, …)",
        ],
    )


@pytest.mark.parametrize("processes", [0, 2])
def test_results_are_the_same_under_xdist(project, llm, processes):
    project.use(llm)
    project.evalset(8)
    project.test(GATE + GATE.replace("test_gate", "test_again").replace("llm_reteval@1", "answer.em@2"))
    run = project.run_process if processes else project.run
    result = run(
        "-n", str(processes), "--rageval-report=out.json", "--rageval-cassette=tape.jsonl", "--rageval-record"
    )
    result.assert_outcomes(passed=2)
    report = project.read("out.json")
    assert {score["spec"]: score["mean"] for test in report["tests"] for score in test["scores"]} == {
        "llm_reteval@1": 1.0,
        "answer.em@2": 1.0,
    }
    assert report["llm"]["requests"] == 8 * 4 + 8
    assert len((project.path / "tape.jsonl").read_text(encoding="utf-8").splitlines()) == 8 * 4 + 8
    result.stdout.fnmatch_lines(
        [
            "  pass * answer.em@2 * 1.000 *",
            "  pass * llm_reteval@1 * 1.000 *",
            "40 replies: 0 cached, 40 live*",
        ]
    )
