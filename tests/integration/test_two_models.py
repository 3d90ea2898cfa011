"""Generator and judge on two servers, set by options, tables of `pyproject.toml` and the environment."""

import json
import sys

import pytest

from tests.llm_server import LLMServer

GATE = '@pytest.mark.rageval_threshold("llm_reteval@1", min=0.9)\ndef test_gate(): pass\n'
EM = '@pytest.mark.rageval_threshold("answer.em@1", min=0.9)\ndef test_em(): pass\n'
GENERATOR, JUDGE = "[tool.rageval.models.generator]\n", "[tool.rageval.models.judge]\n"


@pytest.fixture
def judge():
    with LLMServer() as server:
        yield server


def _judged(server: LLMServer) -> set[bool]:
    return {"Answer to check:" in prompt for prompt in server.prompts}


def _table(project, text: str) -> None:
    project.path.joinpath("pyproject.toml").write_text(text, encoding="utf-8")


def test_the_judge_may_be_at_another_server(project, llm, judge, monkeypatch):
    project.use(llm)
    monkeypatch.setenv("RAGEVAL_JUDGE_API_KEY", "sk-judge")
    project.test(GATE)
    options = (
        "--rageval-judge-model=j1",
        f"--rageval=judge_base_url={judge.url}",
        "--rageval-report=report.json",
    )
    result = project.run(*options, passed=1)
    assert (_judged(llm), _judged(judge)) == ({False}, {True})
    assert (llm.keys, judge.keys) == ({"Bearer sk-secret"}, {"Bearer sk-judge"})
    result.stdout.fnmatch_lines(
        [f"generator m1 at {llm.url} (temperature 0.5), answers judged by j1 at {judge.url}*"]
    )
    report = project.read()
    assert report["settings"]["judge"] == f"j1 at {judge.url}"
    live = {name: usage["live"] for name, usage in report["llm"]["servers"].items()}
    assert live == {llm.url: len(llm.requests), f"{judge.url} (judge)": len(judge.requests)}
    result.stdout.fnmatch_lines([f"*{judge.url} (judge): {len(judge.requests)} live, *"])
    project.run(*options, passed=1)
    assert "servers" not in project.read()["llm"]


def test_the_generators_key_is_not_sent_to_the_judges_server(project, llm, judge, monkeypatch):
    project.use(llm)
    monkeypatch.setenv("RAGEVAL_JUDGE_BASE_URL", judge.url)
    project.test(GATE)
    project.run(passed=1)
    assert (llm.keys, judge.keys) == ({"Bearer sk-secret"}, {"Bearer none"})


def test_tables_name_both_models(project, llm, judge, monkeypatch):
    project.test(GATE)
    monkeypatch.setenv("THEIRS", "sk-theirs")
    _table(
        project,
        f"""
{GENERATOR}model = "writer"
base_url = "{llm.url}"
api_key_command = {json.dumps([sys.executable, "-c", "print('sk-printed')"])}
parameters = {{ seed = 7, chat_template_kwargs = {{ enable_thinking = false }}, temperature = 0.9 }}

{JUDGE}model = "judge"
base_url = "{judge.url}"
api_key_env = "THEIRS"
parameters = {{ reasoning_effort = "low" }}
""",
    )
    project.run("--rageval-judge-model=typed", passed=1)
    assert (llm.keys, judge.keys) == ({"Bearer sk-printed"}, {"Bearer sk-theirs"})
    assert {body["model"] for body in llm.requests} == {"writer"}
    assert {body["model"] for body in judge.requests} == {"typed"}
    sent = [(body["seed"], body["chat_template_kwargs"], body["temperature"]) for body in llm.requests]
    assert sent == [(7, {"enable_thinking": False}, 0.9)] * len(sent)
    assert {body["reasoning_effort"] for body in judge.requests} == {"low"}
    assert not any("seed" in body for body in judge.requests)


def test_a_table_that_cannot_be_used_ends_the_run_at_once(project):
    _table(project, f"{JUDGE}api_key = 'sk-planted'\n")
    project.test(GATE)
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: pyproject.toml: [[]tool.rageval.models.judge] has an api_key, *"])
    result.stderr.no_fnmatch_line("*planted*")


def test_parameters_are_part_of_the_request_and_of_the_baseline(project, llm):
    project.use(llm)
    project.evalset(6)
    project.test(EM.replace("min=0.9", "max_drop=0.1"))
    project.run("--rageval-update-baseline", passed=1)
    first = len(llm.requests)
    project.run(passed=1)
    assert len(llm.requests) == first
    result = project.run('--rageval=parameters={"reasoning_effort": "low", "max_completion_tokens": 9}')
    assert len(llm.requests) == 2 * first
    assert {body["reasoning_effort"] for body in llm.requests[first:]} == {"low"}
    result.stdout.fnmatch_lines(["*generator reasoning_effort: nothing in the baseline, low now*"])


def test_without_parameters_nothing_of_them_is_written(project, llm):
    """Without parameters the fingerprint in the baseline has no entries for them, so old baselines stay valid."""
    project.use(llm)
    project.test(GATE.replace("min=0.9", "max_drop=0.1"))
    project.run("--rageval-update-baseline", "--rageval-cassette=tape.jsonl", "--rageval-record")
    baseline = project.read("rageval_baseline.json")
    (score,) = baseline["tests"]["test_it.py::test_gate"]["scores"].values()
    names = {name for name in score["fingerprint"] if name.startswith(("generator", "judge"))}
    assert names == {
        "generator",
        "generator temperature",
        "generator prompt to generate",
        "judge",
        "judge votes",
        "judge max_tokens",
        "judge prompt to compare",
    }


def test_the_embedded_model_takes_no_parameters(project):
    """Parameters for the embedded model are an error, since the model would ignore them."""
    project.test(EM)
    project.run(
        '--rageval=parameters={"seed": 1}',
        shows="*Parameters are set (seed), and the embedded model takes none.*",
    )


def test_a_missing_key_is_named_at_once(project, monkeypatch):
    project.test(GATE)
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    result = project.run(
        "--rageval-model=m1",
        errors=1,
        shows=[
            "*No key is set for the server at https://api.openai.com/v1: OPENAI_API_KEY is empty.",
            "*Set it, or name a server that needs no key with --rageval-base-url or OPENAI_BASE_URL. *",
        ],
    )
    result.stdout.no_fnmatch_line("*tried*")


@pytest.mark.slow
def test_a_missing_key_of_the_judge_is_named_too(project, llm, monkeypatch):
    project.use(llm)
    project.test(GATE)
    _table(project, f'{JUDGE}api_key_env = "THEIRS"\n')
    project.run(errors=1, shows=f"*No key is set for the server at {llm.url}: THEIRS is empty.")
    assert _judged(llm) == {False}
    monkeypatch.setenv("THEIRS", "sk-theirs")
    project.run(passed=1)
    monkeypatch.delenv("THEIRS")
    monkeypatch.delenv("OPENAI_API_KEY")
    project.run(passed=1)
    project.run("--rageval-replay", passed=1)
    project.run("--rageval-plan", "--rageval-refresh", skipped=1)


def test_a_judges_server_without_a_model_is_an_error(project, judge):
    """A judge's server without a model is an error, since canonical comparison would not use the server."""
    project.test(GATE)
    # A generator in the conftest, so that the embedded model is not needed.
    generator = "def rageval_generator(): return lambda question, passages: passages[0].text"
    project.add(f"@pytest.fixture(scope='session')\n{generator}")
    project.run(
        f"--rageval=judge_base_url={judge.url}",
        shows="*The judge has a server, a key or parameters of its own, but no model is named*",
    )


def test_one_model_at_two_servers_is_served_under_two_names(project, llm, judge):
    llm.served, judge.served = "m1-left", "m1-right"
    project.use(llm)
    project.test(GATE)
    project.run(f"--rageval=judge_base_url={judge.url}", "--rageval-report=report.json", passed=1)
    (test,) = project.read()["tests"]
    assert test["served"] == {f"m1 at {llm.url}": ["m1-left"], f"m1 at {judge.url}": ["m1-right"]}


def test_a_plan_says_what_each_server_is_asked(project, llm, judge):
    project.use(llm)
    project.test(GATE)
    result = project.run(
        "--rageval-plan",
        "--rageval-judge-model=j",
        f"--rageval=judge_base_url={judge.url}",
        shows=f"{llm.url}: 12 live, *",
    )
    result.stdout.fnmatch_lines([f"{judge.url} (judge): ≤ 16 live, *"])
    assert not llm.requests
    assert not judge.requests


@pytest.mark.slow
def test_workers_have_the_same_two_servers(project, llm, judge, monkeypatch):
    project.use(llm)
    project.evalset(20)
    monkeypatch.setenv("THEIRS", "sk-theirs")
    project.test("".join(GATE.replace("test_gate", f"test_{n}").replace("@1", f"@{n}") for n in (1, 2, 3)))
    _table(
        project,
        f"{GENERATOR}api_key_command = {json.dumps([sys.executable, '-c', 'print(1)'])}\n"
        f'{JUDGE}model = "j"\nbase_url = "{judge.url}"\napi_key_env = "THEIRS"\nmax_calls = 500\n',
    )
    project.run_process("-n", "2", "--rageval-report=report.json", passed=3)
    assert (llm.keys, judge.keys) == ({"Bearer 1"}, {"Bearer sk-theirs"})
    assert (_judged(llm), _judged(judge)) == ({False}, {True})
    servers = project.read()["llm"]["servers"]
    assert {name: usage["live"] for name, usage in servers.items()} == {
        llm.url: len(llm.requests),
        f"{judge.url} (judge)": len(judge.requests),
    }


@pytest.mark.slow
def test_the_judge_command_asks_the_judges_server(project, llm, judge, monkeypatch):
    from pytest_rageval.cli import main

    monkeypatch.chdir(project.path)
    project.use(llm)
    record = {"id": "l1", "question": "Q?", "references": ["a"], "prediction": "b", "human": [True]}
    (project.path / "labels.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    _table(project, f'{JUDGE}model = "other"\nbase_url = "{judge.url}"\n')
    main(["judge", "labels.jsonl", "--model", "typed"])
    assert {body["model"] for body in judge.requests} == {"typed"}
    assert not llm.requests
    main(["judge", "labels.jsonl", "--model", "typed", "--base-url", llm.url])
    assert {body["model"] for body in llm.requests} == {"typed"}
    assert llm.keys == {"Bearer sk-secret"}
