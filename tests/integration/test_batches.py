"""Runs with `--rageval-batch`: the scores equal those of a live run, and no request is sent live."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_rageval.cli import main
from tests.batch_server import BatchServer
from tests.docs.test_report_schema import check
from tests.foreign_plugins import WITHOUT
from tests.integration.conftest import Project
from tests.integration.test_shards import merge
from tests.llm_server import clerk

GATE = """
@pytest.mark.rageval_threshold("llm_reteval@1", min=0.5)
@pytest.mark.rageval_threshold("answer.correct@2", min=0.5)
def test_gate(): pass
"""
PRICES = "[m1]\ninput = 4\noutput = 8\nbatch_input = 2\nbatch_output = 4\n"


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer() as running:
        yield running


@pytest.fixture
def suite(project: Project, server: BatchServer) -> Project:
    """A project with a generator and a judge at the server; the passage of the second question is not found."""
    project.use(server)  # type: ignore[arg-type]
    project.lose(2)
    project.test(GATE)
    return project


def _stages(project: Project, server: BatchServer, count: int) -> list[int]:
    stages = []
    for _ in range(count):
        before = len(server.uploads)
        project.run("--rageval-batch=submit")
        stages.append(sum(map(len, server.uploads[before:])))
        project.run("--rageval-batch=collect")
    return stages


BY_NAME = """
@pytest.fixture
def answer(request):
    return request.getfixturevalue("rageval").answer("What is the code of item-3?", 1)

@pytest.fixture(scope="module")
def model(request):
    return request.getfixturevalue("rageval_llm").complete("item-4 has the code c4x. What is the code of item-4?").text

def test_answer(answer): assert answer == "c3x"
def test_score(request): assert request.getfixturevalue("rageval").score("answer.em@2") > 0.5
def test_model(model): assert model
def test_model_again(model): assert model
"""


@pytest.mark.slow
def test_tests_that_get_the_fixture_by_name_are_batched(suite: Project, server: BatchServer) -> None:
    suite.test(BY_NAME)
    assert _stages(suite, server, 2) == [6, 0]
    run = suite.run(passed=4)
    assert not server.live
    run.stdout.no_fnmatch_line("*does nothing*")


def _scores(project: Project, *arguments: str) -> tuple[pytest.RunResult, Any]:
    run = project.run("--rageval-report=report.json", *arguments)
    report = project.read()
    return run, [test["scores"] for test in report["tests"]]


@pytest.mark.slow
def test_one_command_has_the_scores_of_a_live_run(suite: Project, server: BatchServer) -> None:
    live, expected = _scores(suite, "--rageval=cache_dir=live")
    live_requests = len(server.live)
    server.live.clear()
    server.polls = 1
    run, scores = _scores(suite, "--rageval-batch")
    assert scores == expected
    assert run.ret == live.ret == 0
    assert not server.live
    assert len(server.asked) == live_requests
    assert len(server.batches) >= 2
    run.stdout.fnmatch_lines(
        [
            "rageval: stage 1: submitted batch-1 at http://127.0.0.1:*/v1, m1: * 0 of 17 requests answered, 0 failed",
            "rageval: waiting for batch-1 at *, m1: *, * of 17 requests answered, 0 failed",
            "rageval: collected batch-1 at *, m1: completed, 17 of 17 replies kept, price not known",
            "rageval: stage 2: submitted batch-2 *",
            "rageval: stage *: no reply is missing",
            "20 replies: 20 cached, 0 live",
            "20 replies came in 2 batches, 200 tokens in, 40 out, price not known",
        ]
    )
    _, scores = _scores(suite)
    assert scores == expected
    assert not server.live


@pytest.mark.slow
def test_each_step_is_a_command(suite, server, monkeypatch, capfd):
    def rageval(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        return main(["batch", *arguments]), *capfd.readouterr()

    monkeypatch.chdir(suite.path)
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(WITHOUT))
    server.polls = 1
    assert rageval("status")[1] == "There are no batches.\n"
    _, out, err = rageval("submit", "-q", "test_it.py")
    assert out.startswith("submitted batch-1 at ")
    assert "17 replies missing" in err
    status, out, _ = rageval("status")
    assert (status, "in_progress" in out) == (1, True)
    status, out, _ = rageval("collect")
    assert (status, "17 of 17 replies kept" in out) == (0, True)
    suite.run("--rageval-batch=submit", shows="submitted batch-2 *")
    assert rageval("collect")[0] == 1
    suite.run("--rageval-batch=collect")
    suite.run("--rageval-batch=submit", shows="no reply is missing")
    suite.run(passed=1)
    assert not server.live
    status, _, err = rageval("submit", "--no-such-option")
    assert (status, "unrecognized arguments: --no-such-option" in err) == (2, True)


@pytest.mark.slow
@pytest.mark.long
def test_the_reports_say_what_batches_cost(suite: Project, server: BatchServer) -> None:
    (suite.path / "prices.toml").write_text(PRICES, encoding="utf-8")
    names = ["shard1.json", "shard2.json"]
    for index, name in enumerate(names, 1):
        options = ("--rageval=prices=prices.toml", f"--rageval-shard={index}/2")
        suite.run_process("--rageval-batch", *options, f"--rageval-report={name}")
    assert merge(suite, *names, "--report=merged.json", "--report=merged.md") == 0
    reports = [suite.read(name) for name in (*names, "merged.json")]
    first, second, merged = (report["llm"] for report in reports)
    check(suite.path / "merged.json")
    assert merged["batches"].pop("cost_usd") == pytest.approx(len(server.asked) * (10 * 2 + 2 * 4) / 1e6)
    assert merged["batches"] == {
        "batches": len(server.batches),
        "replies": len(server.asked),
        "tokens_in": 10 * len(server.asked),
        "tokens_out": 2 * len(server.asked),
    }
    assert first["batches"]["replies"] + second["batches"]["replies"] == len(server.asked)
    assert (merged["live"], merged["cost_usd"]) == (0, 0.0)
    text = (suite.path / "merged.md").read_text(encoding="utf-8")
    assert f"came in {len(server.batches)} batches, " in text
    suite.run("--rageval-report=later.json")
    assert "batches" not in suite.read("later.json")["llm"]


@pytest.mark.slow
def test_the_steps_of_a_shard(suite: Project, server: BatchServer) -> None:
    labels = [
        {"question": f"What is thing {n}?", "references": ["a"], "prediction": f"b{n}", "human": True}
        for n in range(6)
    ]
    (suite.path / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)), encoding="utf-8")
    suite.test("@pytest.mark.rageval_calibration('labels.jsonl', min_accuracy=0.0)" + GATE)

    def planned(*options: str) -> int:
        match = re.search(r"\nin total\n +(?:≤ )?(\d+) ", str(suite.run("--rageval-plan", *options).stdout))
        assert match is not None
        return int(match[1])

    labelled, plans = [], []
    for shard in ("1/2", "2/2"):
        here = (f"--rageval-shard={shard}", f"--rageval=cache_dir=cache-{shard[0]}")
        plans.append(planned(*here))
        requests_before = len(server.asked)
        for step in ("submit", "status", "collect", "submit", "collect", "submit"):
            assert suite.run(f"--rageval-batch={step}", *here).ret == 0
        labelled.append(sum("What is thing" in str(body) for body in server.asked[requests_before:]))
        suite.run(*here, f"--rageval-report={shard[0]}.json", passed=1)
    assert labelled == [6, 0]
    assert sum(plans) == planned()
    assert not server.live


OWN = """
def test_in_own_words(rageval, rageval_llm):
    assert rageval.score("answer.correct@2") >= 0.5
    assert rageval.score("answer.em@1") >= 0.5
    assert rageval.answer("What is the code of item-3?", k=1) == "c3x"
    assert rageval_llm.complete("Which is the code of item-4? item-4 has the code c4x").text == "c4x"
"""


@pytest.mark.slow
def test_a_test_in_own_words_runs_as_far_as_there_are_replies(suite: Project, server: BatchServer) -> None:
    suite.test(OWN)
    stages = _stages(suite, server, 6)
    # The answers at two cut-offs; the verdicts and the requests of the other statements follow in later stages.
    assert stages[0] == 8
    assert stages[-1] == 0
    suite.run(passed=1)
    assert not server.live


@pytest.mark.slow
def test_generator_and_judge_at_two_servers_have_batches_of_their_own(suite: Project) -> None:
    with BatchServer() as judges, BatchServer() as generators:
        suite.use(generators)  # type: ignore[arg-type]
        judge = (f"--rageval=judge_base_url={judges.url}", "--rageval-judge-model=m2")
        for _ in range(4):
            suite.run("--rageval-batch=submit", *judge)
            suite.run("--rageval-batch=collect", *judge)
        suite.run(*judge, passed=1)
        assert {body["model"] for body in generators.asked} == {"m1"}
        assert {body["model"] for body in judges.asked} == {"m2"}
        assert not generators.live
        assert not judges.live


@pytest.mark.slow
def test_a_rating_that_cannot_be_read_is_repaired_in_the_next_stage(suite, server):
    def model(prompt: str) -> str:
        if prompt.startswith("Your reply cannot be read"):
            return '{"explanation": "It is.", "grade": 4}'
        return "well, well" if "Rate how correct" in prompt else clerk(prompt)

    server.model = model
    suite.gate("judged.correctness@1 min=1")
    suite.evalset(2, reference="c1x")
    # The passage of the second question is not found: its answer is an abstention, which is not rated.
    assert _stages(suite, server, 4) == [2, 1, 1, 0]
    suite.run()
    assert not server.live


@pytest.mark.slow
@pytest.mark.parametrize("errors", ["live", "unscored"])
def test_a_request_that_fails_in_a_batch_is_sent_live_or_left_unscored(suite, server, errors):

    def refuse(body: Any) -> Any:
        is_asked = "code of item-3" in str(body) and "Answer to check" not in str(body)
        return (500, {"message": "broken"}) if is_asked and body not in server.live else None

    server.refuse = refuse
    option = f"--rageval=batch_errors={errors}"
    suite.gate("answer.correct@1 min=0.5")
    for _ in range(4):
        suite.run("--rageval-batch=submit", option)
        suite.run("--rageval-batch=collect", option)
    live_requests = len(server.live)
    run = suite.run("--rageval-batch", option, "--rageval=max_unscored=0.5", passed=1)
    assert len(server.live) == live_requests == (1 if errors == "live" else 0)
    if errors == "unscored":
        run.stdout.fnmatch_lines(["  pass * answer.correct@1 * 3 of 4*"])


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", ["", "nightly"])
def test_all_stages_have_one_budget(suite, server, monkeypatch, name):
    monkeypatch.setenv("RAGEVAL_RUN_ID", name)
    run = suite.run_process("--rageval-batch", "--rageval=max_calls=19")
    run.stderr.fnmatch_lines(
        ["*--rageval max_calls=19 would be passed: 17 calls were made, and the batches have 3 *"]
    )
    assert len(server.batches) == 1
    suite.run_process("--rageval-batch", "--rageval=max_calls=20", passed=1)


@pytest.mark.parametrize("step", ["submit", "collect"])
def test_a_file_that_cannot_be_used_is_the_error_of_the_step(suite, server, step):
    run = suite.run(f"--rageval-batch={step}", "--rageval=prices=none.toml")
    assert run.ret == pytest.ExitCode.TESTS_FAILED
    assert "INTERNALERROR" not in str(run.stdout)
    run.stdout.fnmatch_lines(["*none.toml*"])
    assert not server.files


@pytest.mark.parametrize("option", ["--rageval-refresh", "--rageval-replay", "--rageval=canary=2"])
def test_what_contradicts_batches_is_refused(suite: Project, option: str) -> None:
    run = suite.run("--rageval-batch", option)
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["ERROR: --rageval-batch takes several runs, and --rageval*: leave one out."])


def test_a_plan_has_the_cost_in_batches(suite: Project, server: BatchServer) -> None:
    (suite.path / "prices.toml").write_text(PRICES, encoding="utf-8")
    options = ("--rageval=prices=prices.toml", "--rageval=max_tokens=20", "--rageval-batch")
    plan = suite.run("--rageval-plan", *options)
    plan.stdout.re_match_lines([r" *requests .* USD +USD batch$"])
    assert not server.events


@pytest.mark.slow
def test_what_a_server_without_batches_says(suite: Project, server: BatchServer) -> None:
    server.without = {"POST /files"}
    run = suite.run_process("--rageval-batch")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["ERROR: The server at * has no batches: *", "Run without --rageval-batch*"])
    assert not server.live


@pytest.mark.long
@pytest.mark.slow
def test_a_batch_that_failed_ends_the_command(suite: Project, server: BatchServer) -> None:
    server.ends[1] = "failed"
    run = suite.run_process("--rageval-batch")
    assert run.ret == pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["ERROR: The batch batch-1 *: failed (Enqueued token limit reached)*"])
    assert not server.live
    suite.run_process("--rageval-batch", passed=1)
    assert not server.live


@pytest.mark.long
@pytest.mark.slow
def test_workers_start_when_the_batches_have_ended(suite: Project, server: BatchServer) -> None:
    suite.test(GATE, "test_other")
    suite.run_process("--rageval-batch", "-n2", passed=2)
    assert not server.live
    assert len(server.asked) == len({json.dumps(body) for body in server.asked}) + 8


KILLED_AT = ("upload", "create", "retrieve", "content", "create", "content")
"""The operations of the server at which the run is killed, in this order, over both stages."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_run_killed_anywhere_can_be_continued(suite: Project, server: BatchServer) -> None:
    _, expected = _scores(suite, "--rageval=cache_dir=live")
    server.live.clear()
    options = ("--rageval-batch", "--rageval-report=report.json")
    command = [sys.executable, "-m", "pytest", *suite.arguments, *options]
    remaining, kills = list(KILLED_AT), 0

    def kill(operation: str) -> None:
        if remaining and operation == remaining[0]:
            remaining.pop(0)
            os.killpg(process.pid, signal.SIGKILL)

    server.happens = kill
    while remaining:
        before = len(remaining)
        with (suite.path / "output.txt").open("wb") as output:
            process = subprocess.Popen(
                command, cwd=suite.path, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            process.wait(timeout=300)
        kills += process.returncode == -signal.SIGKILL
        if len(remaining) == before:
            break
    text = (suite.path / "output.txt").read_text(encoding="utf-8")
    assert kills == len(KILLED_AT) - len(remaining) >= 5, text
    _, scores = _scores(suite, "--rageval-batch")
    assert scores == expected
    lines = [line["custom_id"] for batch in server.batches.values() for line in server.lines(batch)]
    assert len(lines) == len(set(lines)) == 20
    assert not server.live


@pytest.mark.slow
def test_a_step_leaves_the_last_failures_as_they_are(suite: Project, server: BatchServer) -> None:
    suite.arguments = [argument for argument in suite.arguments if "cacheprovider" not in argument]
    suite.run("--rageval=max_calls=0", errors=1)
    suite.run("--rageval-batch=submit", "--lf", skipped=1)
    suite.test("def test_other(): pass\n", "test_other")
    assert "test_other" not in str(suite.run("--lf", "--collect-only", "-q").stdout)
    assert not server.live


REWRITING = """
@pytest.fixture(scope="session")
def rageval_retriever(rageval_llm):
    def rewritten(query, k):
        try:
            text = rageval_llm.complete("Repeat: " + query).text
        except Exception:
            text = "the request failed"
        return search(text, k)
    return rewritten
"""

JUDGE = """
@pytest.fixture(scope="session")
def rageval_judge():
    class Judge:
        def compare(self, question, references, prediction):
            return float(prediction in references)
    return Judge()
"""


@pytest.mark.slow
def test_what_the_retriever_asks_is_one_stage(suite: Project, server: BatchServer) -> None:
    """Sync code of the user does not take a missing reply for a failure."""
    suite.add(REWRITING)
    server.model = lambda prompt: prompt.removeprefix("Repeat: ") if "Repeat" in prompt else clerk(prompt)
    suite.gate("answer.em@1 min=0.5")
    assert _stages(suite, server, 3) == [4, 4, 0]
    suite.run(passed=1)
    assert not server.live


@pytest.mark.slow
def test_with_a_judge_of_the_users_all_answers_are_one_stage(suite: Project, server: BatchServer) -> None:
    suite.add(JUDGE)
    suite.evalset(9)
    suite.gate("answer.correct@1 min=0.5")
    assert _stages(suite, server, 2) == [9, 0]


@pytest.mark.slow
def test_tests_share_a_stage(project: Project, server: BatchServer) -> None:
    """A test that waits for replies does not prevent the next test from adding its requests to the same stage."""
    project.use(server)  # type: ignore[arg-type]
    project.evalset(2, "a.jsonl")
    project.evalset(4, "b.jsonl")
    project.pytester.makepyfile(
        test_several="""
        import pytest

        @pytest.mark.rageval_evalset("a.jsonl")
        @pytest.mark.rageval_threshold("answer.f1@1", min=0)
        def test_a(): pass

        @pytest.mark.rageval_evalset("b.jsonl")
        @pytest.mark.rageval_threshold("answer.f1@2", min=0)
        def test_b(): pass

        @pytest.mark.rageval_evalset("b.jsonl")
        @pytest.mark.rageval_threshold("answer.f1@3", min=0)
        def test_c(): pass
        """
    )
    assert _stages(project, server, 2) == [10, 0]
    project.run(passed=3)
    assert [len(server.lines(batch)) for batch in server.batches.values()] == [10]
    assert not server.live
