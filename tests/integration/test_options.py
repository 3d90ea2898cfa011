"""Options: the command line overrides the ini file, which overrides the environment, which overrides the default."""

import json
import re
from dataclasses import MISSING, fields

import pytest

from pytest_rageval.cli import main
from pytest_rageval.options import all_options
from tests.llm_server import LLMServer

GATE = '@pytest.mark.rageval_threshold("llm_reteval@1", min=0.1)\ndef test_gate(): pass\n'


def test_the_command_line_rules_over_the_ini_file(project, llm):
    project.use(llm, model="from-ini")
    project.test(GATE)
    project.run()
    assert {body["model"] for body in llm.requests} == {"from-ini"}
    llm.requests.clear()
    project.run("--rageval-model=typed")
    assert {body["model"] for body in llm.requests} == {"typed"}


def test_the_ini_file_rules_over_the_environment(project, llm):
    with LLMServer() as other:
        project.use(llm)
        project.ini(rageval_model="m1", rageval_base_url=other.url)
        project.test(GATE)
        project.run(passed=1)
        assert other.requests
        assert not llm.requests


def test_a_judge_model_of_its_own_judges(project, llm):
    project.use(llm, model="writer")
    project.test(GATE)
    project.run("--rageval-judge-model=judge")
    assert {
        body["model"] for body in llm.requests if "Answer to check" in body["messages"][0]["content"]
    } == {"judge"}
    assert {body["model"] for body in llm.requests} == {"writer", "judge"}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--rageval=concurrency=0", "--rageval concurrency is '0': expected a whole number, at least 1."),
        ("--rageval-repeat=0", "--rageval-repeat is '0': expected a whole number, at least 1."),
        (
            "--rageval=judge_votes=2",
            "--rageval judge_votes is '2': expected an odd whole number, at least 1: an even number *",
        ),
        ("--rageval=max_unscored=7", "--rageval max_unscored is '7': expected a share between 0 and 1."),
        (
            "--rageval-report=out.txt",
            "--rageval-report is 'out.txt': expected a file name or an address of one of these kinds: *",
        ),
        ("--rageval-record", "--rageval-record writes a cassette, but none is named: *"),
    ],
)
def test_a_value_that_is_not_allowed_ends_the_run_at_once(project, option, message):
    result = project.run(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}".replace("[", "[[]")])


def test_help_lists_the_flags_and_the_ini_keys(project):
    text = project.run("--help").stdout.str()
    flags = re.findall(r"(?m)^  (--rageval\S*)", text)
    assert len(flags) <= 20
    assert {flag.partition("=")[0] for flag in flags} == {
        "--rageval",
        *(option.typed for option in all_options() if option.is_flag),
    }
    assert re.search(r"\(default:\s+rageval_baseline.json\)", text)
    assert "rageval_model (string)" in text


def test_any_option_is_set_for_one_run_by_name(project, llm):
    """`--rageval NAME=VALUE` overrides files as a flag does, and the last one counts; a repeatable option is a list."""
    project.use(llm, model="from-ini")
    project.test(GATE)
    project.run(
        "--rageval=model=first",
        "--rageval",
        "model=typed",
        "--rageval=report=a.json",
        "--rageval=report=b.md",
    )
    assert {body["model"] for body in llm.requests} == {"typed"}
    assert all((project.pytester.path / name).exists() for name in ("a.json", "b.md"))


def test_the_table_of_pyproject_is_below_the_ini_file(project, llm):
    project.use(llm)
    project.ini()
    project.test(GATE)
    (project.pytester.path / "pyproject.toml").write_text(
        '[tool.rageval]\nmodel = "from-pyproject"\nmax_tokens = 7\nparameters = {seed = 3}\nreport = ["a.json"]\n'
    )
    project.run("--rageval=llm_reteval_draws=1", passed=1)
    assert {(body["model"], body.get("seed")) for body in llm.requests} >= {("from-pyproject", 3)}
    assert (project.pytester.path / "a.json").exists()
    project.ini(rageval_model="from-ini")
    llm.requests.clear()
    project.run(passed=1)
    assert {body["model"] for body in llm.requests} == {"from-ini"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--rageval-canary", "20"],
            "--rageval-canary is no flag, but a setting. Write --rageval canary=20.",
        ),
        (["--rageval-canary=20"], "--rageval-canary is no flag, but a setting. Write --rageval canary=20."),
        (["--rageval-flex"], "--rageval-flex is no flag, but a setting. Write --rageval flex=true."),
        (['--rageval-parameters={"key": 1}'], "*no flag, but a setting. Write --rageval parameters=JSON."),
        (["--rageval-mdel=m"], "There is no flag --rageval-mdel. Did you mean --rageval-model NAME?"),
        (["--rageval-canry=1"], "There is no flag --rageval-canry. Did you mean --rageval canary=N?"),
        (
            ["--rageval=inconclusive=fail"],
            "*there is no option 'inconclusive'. It is set by a policy: [[]tool.rageval.policy.pr] in *",
        ),
        (["--rageval=canry=1"], "*there is no option 'canry'. Did you mean --rageval canary=N?"),
        (["--rageval=max-cost=1"], "*there is no option 'max-cost'. Did you mean --rageval-max-cost USD?"),
        (["--rageval=flex"], "*'flex' has no value: write --rageval flex=true."),
    ],
)
def test_a_flag_or_a_name_that_does_not_exist_is_an_error_with_the_spelling_that_works(
    project, arguments, message
):
    result = project.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message if message[0] == "*" else f"ERROR: {message}"])


def test_a_flag_of_another_plugin_may_begin_with_our_name(project):
    project.pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--rageval-corpus')")
    project.test("def test_it(): pass")
    project.run("--rageval-corpus=x", passed=1)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            "inconclusive = 'fail'",
            "*[[]tool.rageval] has the key 'inconclusive', which is no option. It is set by a policy: *",
        ),
        ("canry = 1", "*[[]tool.rageval] has the key 'canry', which is no option. Did you mean canary[?]"),
        ("draws = true", "*draws in [[]tool.rageval] is 'true': expected a whole number, at least 1."),
        (
            "sample = 0.5",
            "*has the key 'sample', an option of the command line alone: --rageval-sample SHARE.",
        ),
    ],
)
def test_what_the_table_must_not_have_is_an_error(project, table, message):
    (project.pytester.path / "pyproject.toml").write_text(f"[tool.rageval]\n{table}\n")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_the_settings_say_where_they_come_from(project, monkeypatch, capsys):
    project.ini(rageval_seed="3", rageval_preset="salemi2024", rageval_model="m")
    (project.pytester.path / "pyproject.toml").write_text(
        "[tool.rageval]\nseed = 2\ncutoffs = [1, 5]\nflex = true\n"
    )
    monkeypatch.setenv("CI", "true")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://me:planted@h/v1")
    assert main(["settings", "--json", "--rageval", "canary=2"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows.keys() == {option.name for option in all_options()}
    assert {
        name: (row["value"], row["source"]) for name, row in rows.items() if row["source"] != "default"
    } == {
        "canary": ("2", "command line"),
        "seed": ("3", "ini"),
        "preset": ("salemi2024", "ini"),
        "model": ("m", "ini"),
        "cutoffs": ("1,5", "pyproject"),
        "flex": ("true", "pyproject"),
        "timeout": ("900.0", "default with flex"),
        "patience": ("3600.0", "default with flex"),
        "base_url": ("http://h/v1", "environment (OPENAI_BASE_URL)"),
        "require_baseline": ("true", "environment (CI)"),
        "temperature": ("0.0", "preset salemi2024"),
        "comparator": ("em", "preset salemi2024"),
    }
    assert main(["settings", "-v"]) == 0
    printed = capsys.readouterr().out
    assert "planted" not in printed
    assert re.search(r"(?m)^seed +3 +ini \(default: 0\)\n    --rageval seed=N: seed of bootstrap", printed)
    assert main(["settings", "--rageval", "sed=1"]) == 2


@pytest.mark.slow
def test_requests_in_flight_are_limited(project, llm):
    llm.latency_s, llm.together = 0.05, 3
    project.use(llm)
    project.evalset(20)
    project.test(GATE)
    project.run("--rageval=concurrency=3", passed=1)
    assert llm.most_in_flight == 3


@pytest.mark.parametrize(
    ("score", "line", "reply"),
    [
        ("answer.em", "generator m1 at * (temperature 0.5)", None),
        ("sufficient", "judged by m1", "yes"),
        ("judged.correctness", "generator m1 at * (temperature 0.5), judged by m1", "Rating: 5"),
        ("llm_reteval", "generator m1 at * (temperature 0.5), answers judged by m1", None),
    ],
)
def test_a_model_that_no_test_needs_is_not_named(project, llm, score, line, reply):
    llm.model = (lambda _prompt: reply) if reply else llm.model
    project.use(llm)
    project.evalset(4, answers=["c1x"])
    project.test(GATE.replace("llm_reteval", "recall"))
    project.run("--rageval-model=m1", "--rageval-report=r.md").stdout.no_fnmatch_line("*m1*")
    assert "m1" not in (project.path / "r.md").read_text()
    project.test(
        GATE.replace("llm_reteval", score).replace("min=0.1", "max=5.0" if "judged" in score else "max=1.0")
    )
    project.run("--rageval-model=m1", shows=["*= rageval =*", line, "* replies: *"])
    project.test(GATE)
    project.run(
        "--rageval-model=m1",
        shows=["*= rageval =*", "generator m1 at * (temperature 0.5), answers judged by m1", "* replies: *"],
    )


def test_markers_are_listed_with_every_word_that_they_take(project):
    """The written-out signatures of the markers match their dataclasses, whose import would slow down every run."""
    from pytest_rageval.extensions.calibration.calibration import Bounds
    from pytest_rageval.gate.threshold import Threshold

    bounds = [field.name for field in fields(Bounds)]
    project.run(
        "--markers",
        shows=[
            f"@pytest.mark.rageval_threshold({_signature(Threshold, ('spec', *Threshold.keywords()))}): *",
            f"@pytest.mark.rageval_calibration({_signature(Bounds, bounds)}): *",
        ],
    )


def _signature(marker, names):
    defaults = {field.name: None if field.default is MISSING else field.default for field in fields(marker)}
    # A policy is written by its name.
    defaults = {name: getattr(default, "name", default) for name, default in defaults.items()}
    first, *keywords = names
    return f"{first}, *, {', '.join(f'{keyword}={defaults[keyword]!r}' for keyword in keywords)}"


@pytest.mark.slow
def test_a_switch_of_the_ini_file_can_be_taken_back(project, llm):
    project.use(llm)
    project.ini(rageval_model="m1", rageval_plan="true")
    project.test(GATE)
    for option in ((), ("--rageval-plan",), ("--rageval-plan=true",)):
        project.run(*option, skipped=1)
    project.run("--rageval-plan=false", passed=1)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("rageval_modle", "there is no such option. Did you mean rageval_model?"),
        ("rageval_nothing_like_it", "there is no such option."),
        ("rageval_update_baseline", "it is an option of the command line alone: --rageval-update-baseline."),
    ],
)
def test_an_unknown_key_of_the_ini_file_is_refused(project, key, message):
    """It would have no effect, also in a run without marked tests. Such a key may be that of a missing extension."""
    project.pytester.makepyfile("def test_plain(): pass\n")
    for result in (project.run("-o", f"{key}=1"), (project.ini(**{key: "1"}), project.run())[1]):
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"*{key} in pytest's configuration: {message}"])


def test_an_ini_key_of_a_conftest_is_known(project):
    project.ini(rageval_trees="1")
    project.pytester.makeconftest("def pytest_addoption(parser): parser.addini('rageval_trees', 'trees')")
    project.pytester.makepyfile("def test_plain(): pass\n")
    project.run(passed=1)
