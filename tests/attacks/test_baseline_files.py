"""The baseline as a way past the gate: lowered by an update that nobody sees, missing, renamed, or full of nonsense."""

import json
from math import fsum

import pytest

UPDATE = "--rageval-update-baseline"
GATE = '@pytest.mark.rageval_threshold("recall@1", {bounds})\ndef test_gate(): pass\n'
BOUND = GATE.format(bounds="max_drop=0.02")


def _tests(project):
    return json.loads((project.path / "rageval_baseline.json").read_text(encoding="utf-8"))["tests"]


def _mean(project, nodeid="test_it.py::test_gate", name="recall@1"):
    examples = _tests(project)[nodeid]["scores"][name]["examples"]
    return fsum(each["score"] for each in examples.values()) / len(examples)


@pytest.fixture
def worse(project):
    """A project of twelve questions with a baseline of 1.0, whose retriever finds three of them now."""
    project.evalset(12)
    project.test(BOUND)
    project.run(UPDATE).assert_outcomes(passed=1)
    project.lose(*range(4, 13))
    return project


# An update that lowers what later runs are compared with.


@pytest.mark.parametrize(
    "quiet", [(), ("-q",), ("-qq",), ("--no-summary",), ("-q", "--no-summary"), ("-n2", "-q")]
)
def test_an_update_always_says_what_it_lowers(worse, quiet):
    """Attack: `-q --rageval-update-baseline` in addopts wrote recall 1.0 → 0.25 and printed "1 passed"."""
    result = worse.run_process(UPDATE, *quiet)
    assert _mean(worse) == 0.25
    result.stdout.fnmatch_lines(
        ["  test_it.py::test_gate recall@1: 1.000 → 0.250, 9 of 12 worse, 0 better"],
    )


def test_an_update_that_lowers_nothing_is_quiet_with_q(project):
    """Nobody has to read on."""
    project.test(BOUND)
    for _ in range(2):
        project.run(UPDATE, "-q").stdout.no_fnmatch_line("*baseline*")


@pytest.mark.parametrize("where", ["command", "addopts"])
@pytest.mark.parametrize("ci", ["true", "1", "True", "woodpecker"])
def test_an_update_is_refused_on_a_build_server(worse, monkeypatch, ci, where):
    """Attack: the option in `addopts`, so that every build compares with nothing and is green."""
    monkeypatch.setenv("CI", ci)
    if where == "addopts":
        worse.ini(addopts=f"-q {UPDATE}")
    result = worse.run(*([UPDATE] if where == "command" else []))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {UPDATE} makes the scores of this run*{UPDATE}=force."])
    assert _mean(worse) == 1.0


@pytest.mark.parametrize("ci", ["", "false", "0"])
def test_what_says_that_it_is_no_build_server_is_none(worse, monkeypatch, ci):
    """Some shells set CI=false."""
    monkeypatch.setenv("CI", ci)
    worse.run(UPDATE).assert_outcomes(passed=1)


@pytest.mark.parametrize("arguments", [(f"{UPDATE}=force",), ("-n2", f"{UPDATE}=force")])
def test_an_update_that_is_meant_passes_on_a_build_server(worse, monkeypatch, arguments):
    """And says what it lowers, as everywhere."""
    monkeypatch.setenv("CI", "true")
    result = worse.run_process(*arguments, "-q")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["  test_it.py::test_gate recall@1: 1.000 → 0.250, *"])
    assert _mean(worse) == 0.25


@pytest.mark.parametrize(
    "arguments",
    [(UPDATE, "test_it.py"), ("test_it.py", UPDATE), (UPDATE, "--", "test_it.py"), (UPDATE, "force/")],
)
def test_a_path_behind_the_option_is_a_path(worse, arguments):
    """An option whose value may be left out would take it for one, and run everything."""
    (worse.path / "force").mkdir()
    (worse.path / "force" / "test_it.py").write_bytes((worse.path / "test_it.py").read_bytes())
    worse.test(BOUND, name="test_other")
    worse.run(*arguments).assert_outcomes(passed=1)


def test_another_word_behind_the_option_is_refused(worse):
    """A slip, such as `=fource`, updates nothing."""
    result = worse.run(f"{UPDATE}=fource")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert _mean(worse) == 1.0


@pytest.mark.parametrize(
    "body",
    [
        GATE.format(bounds="min=0.9, max_drop=0.02"),
        '@pytest.mark.rageval_threshold("recall@1", min=0.9, where={"topic": "odd"})\n' + BOUND,
        GATE.format(bounds='min=0.9, max_drop=0.02, by="topic"'),
        "def test_gate(rageval): rageval.score('recall@1', min=0.9, max_drop=0.02)\n",
    ],
)
def test_an_update_never_lowers_a_score_that_is_out_of_its_bounds(project, body):
    """Attack: the failing minimum is red once; the lowered baseline would hide every drop from then on."""
    project.evalset(12)
    project.test(body)
    project.run(UPDATE).assert_outcomes(passed=1)
    project.lose(*range(4, 13))
    result = project.run(UPDATE, "-q")
    result.assert_outcomes(failed=1)
    assert _mean(project) == 1.0
    result.stdout.fnmatch_lines(
        ["  test_it.py::test_gate recall@1: out of its bounds and lower, the old baseline is kept"]
    )
    result.stdout.no_fnmatch_line("*1.000 → 0.250*")


def test_an_update_says_which_questions_lost_their_score(project):
    """Attack: a retriever that raises leaves no score behind, and what has none is compared with nothing."""
    project.evalset(30)
    project.test(BOUND)
    project.run(UPDATE)
    conftest = (project.path / "conftest.py").read_text(encoding="utf-8")
    project.pytester.makeconftest(conftest.replace("ranked =", "1 / (int(wanted) - 3)\n    ranked ="))
    result = project.run(UPDATE, "-q")
    result.stdout.fnmatch_lines(
        ["  test_it.py::test_gate recall@1: *, 1 questions had a score and have none now"]
    )


def test_an_update_says_what_it_drops(project):
    """Attack: a test that is deleted, or loses its max_drop, takes its baseline along."""
    project.test(
        BOUND + '@pytest.mark.rageval_threshold("hit@1", max_drop=0.02)\n' + BOUND.replace("gate", "more")
    )
    project.run(UPDATE)
    project.test(BOUND.replace("gate", "more"))
    result = project.run(UPDATE, "-q")
    result.stdout.fnmatch_lines(
        [
            "  test_it.py::test_gate: dropped, it is gone",
            "  test_it.py::test_more hit@1: dropped, no threshold with max_drop bounds it",
        ]
    )
