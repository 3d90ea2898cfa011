"""The baseline as a way past the gate: lowered without notice, missing, renamed, or with invalid values."""

import json
from math import fsum

import pytest

from pytest_rageval.baseline import Baseline

pytestmark = pytest.mark.slow

UPDATE = "--rageval-update-baseline"
GATE = '@pytest.mark.rageval_threshold("recall@1", {bounds})\ndef test_gate(): pass\n'
BOUND = GATE.format(bounds="max_drop=0.02")


def _tests(project):
    return Baseline.read(project.path / "rageval_baseline.json").tests


def _mean(project, nodeid="test_it.py::test_gate", name="recall@1"):
    examples = _tests(project)[nodeid]["scores"][name]["examples"]
    return fsum(example["score"] for example in examples.values()) / len(examples)


def _run(project, *arguments):
    """Run in a separate process for workers or for plugins of the folder, else in this one, which saves a second."""
    needs_process = "-n2" in arguments or "-p" in arguments
    return (project.run_process if needs_process else project.run)(*arguments)


@pytest.fixture
def worse(project):
    """A project of 12 questions with a baseline of 1.0; the retriever now finds the documents of only 3 questions."""
    project.evalset(12)
    project.test(BOUND)
    project.run(UPDATE, passed=1)
    project.lose(*range(4, 13))
    return project


# Updates that lower the baseline of later runs.


@pytest.mark.parametrize(
    "quiet", [(), ("-q",), ("-qq",), ("--no-summary",), ("-q", "--no-summary"), ("-n2", "-q")]
)
def test_an_update_always_says_what_it_lowers(worse, quiet):
    """Attack: `-q --rageval-update-baseline` in addopts wrote recall 1.0 → 0.25 and printed "1 passed"."""
    result = _run(worse, UPDATE, *quiet)
    assert _mean(worse) == 0.25
    line = "  test_it.py::test_gate recall@1: 1.000 → 0.250, 9 of 12 worse, 0 better"
    assert result.outlines.count(line) == 1


def test_an_update_that_lowers_nothing_prints_nothing_with_q(project):
    project.evalset(6)
    project.test(BOUND)
    for _ in range(2):
        project.run(UPDATE, "-q").stdout.no_fnmatch_line("*baseline*")


@pytest.mark.parametrize("where", ["command", "addopts"])
@pytest.mark.parametrize("ci", ["true", "1", "True", "woodpecker"])
def test_an_update_is_refused_on_a_build_server(worse, monkeypatch, ci, where):
    """Attack: the option is in `addopts`, so that every CI build passes without a comparison."""
    monkeypatch.setenv("CI", ci)
    if where == "addopts":
        worse.ini(addopts=f"-q {UPDATE}")
    result = worse.run(*([UPDATE] if where == "command" else []))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {UPDATE} is refused under CI=true*{UPDATE}=force."])
    assert _mean(worse) == 1.0


@pytest.mark.parametrize("ci", ["", "false", "0"])
def test_ci_set_to_false_is_not_a_build_server(worse, monkeypatch, ci):
    monkeypatch.setenv("CI", ci)
    worse.run(UPDATE, passed=1)


@pytest.mark.parametrize("arguments", [(f"{UPDATE}=force",), ("-n2", f"{UPDATE}=force")])
def test_an_update_that_is_meant_passes_on_a_build_server(worse, monkeypatch, arguments):
    monkeypatch.setenv("CI", "true")
    result = _run(worse, *arguments, "-q")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["  test_it.py::test_gate recall@1: 1.000 → 0.250, *"])
    assert _mean(worse) == 0.25


@pytest.mark.parametrize(
    "arguments",
    [(UPDATE, "test_it.py"), ("test_it.py", UPDATE), (UPDATE, "--", "test_it.py"), (UPDATE, "force/")],
)
def test_a_path_behind_the_option_is_a_path(worse, arguments):
    (worse.path / "force").mkdir()
    (worse.path / "force" / "test_it.py").write_bytes((worse.path / "test_it.py").read_bytes())
    worse.test(BOUND, name="test_other")
    worse.run(*arguments, passed=1)


def test_another_value_after_the_option_is_refused(worse):
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
    """Attack: a minimum fails once, but the lowered baseline would hide every later drop. The old baseline is kept."""
    project.evalset(12)
    project.test(body)
    project.run(UPDATE, passed=1)
    project.lose(*range(4, 13))
    result = project.run(UPDATE, "-q", failed=1)
    assert _mean(project) == 1.0
    result.stdout.fnmatch_lines(
        ["  test_it.py::test_gate: its old entry is kept, as recall@1 would be lower, and out of bounds"]
    )
    result.stdout.no_fnmatch_line("*1.000 → 0.250*")


def test_an_update_says_that_a_new_score_is_out_of_its_bounds(project):
    """Attack: with `-q`, the first baseline of a broken retriever would be written silently."""
    project.evalset(12)
    project.test(GATE.format(bounds="min=0.9, max_drop=0.02"))
    project.lose(*range(4, 13))
    result = project.run(UPDATE, "-q", failed=1)
    assert _mean(project) == 0.25
    line = "  test_it.py::test_gate recall@1: new in the baseline, and out of its bounds"
    result.stdout.fnmatch_lines([line])
    project.run(UPDATE, "-q").stdout.no_fnmatch_line(line)


def test_an_update_says_which_questions_lost_their_score(project):
    """Attack: a retriever that raises leaves questions without a score, which are never compared."""
    project.evalset(30)
    project.test(BOUND)
    project.run(UPDATE)
    project.change("ranked =", "1 / (int(wanted) - 3)\n    ranked =")
    project.run(
        UPDATE, "-q", shows="  test_it.py::test_gate recall@1: *, 1 question had a score before and none now"
    )


def test_an_update_says_what_it_drops(project):
    project.test(
        BOUND + '@pytest.mark.rageval_threshold("hit@1", max_drop=0.02)\n' + BOUND.replace("gate", "more")
    )
    project.run(UPDATE)
    project.test(BOUND.replace("gate", "more"))
    project.run(
        UPDATE,
        "-q",
        shows=[
            "  test_it.py::test_gate: removed, as the test is gone",
            "  test_it.py::test_more hit@1: dropped, no threshold with max_drop bounds it",
        ],
    )


# A baseline that is missing, or that has no entry for a test.


@pytest.fixture
def good(project):
    """A project with two gates and their baseline; the retriever has become worse since."""
    project.evalset(20)
    project.test(BOUND + BOUND.replace("gate", "more").replace("recall", "hit"))
    project.run(UPDATE, passed=2)
    project.lose(*range(9, 21))
    return project


@pytest.mark.parametrize("how", ["option", "ini"])
def test_a_baseline_that_was_named_has_to_be_there(good, how):
    """Attack: a mistyped file name, with which no score would be compared."""
    if how == "ini":
        good.ini(rageval_baseline="evals/mian.json")
    good.run(
        *(["--rageval-baseline=evals/mian.json"] if how == "option" else []),
        errors=2,
        shows=[
            "The baseline *evals/mian.json cannot be read: there is no such file.",
            "Check rageval_baseline and --rageval-baseline; or write it *: pytest --rageval-update-baseline",
        ],
    )
    good.run(UPDATE, "--rageval-baseline=evals/mian.json", passed=2)
    good.run("--rageval-baseline=evals/mian.json", passed=2)


def test_a_baseline_that_was_named_has_to_be_there_for_bounds_too(good):
    """With `min` alone no score is compared, but a baseline that is found also has the list of gated tests."""
    good.test(GATE.format(bounds="min=0.1"))
    result = good.run(
        "--rageval-baseline=evals/mian.json", passed=1, shows="*cannot be read: there is no such file."
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_link_that_leads_nowhere_is_no_first_run(good):
    path = good.path / "rageval_baseline.json"
    path.unlink()
    path.symlink_to(good.path / "gone.json")
    good.run(
        errors=2, shows="The baseline *rageval_baseline.json cannot be read: it is a link to *gone.json, *"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        # The function was renamed.
        (
            BOUND.replace("test_gate", "test_gates"),
            "has no entry for test_it.py::test_gates; renamed from test_it.py::test_gate?",
        ),
        # The test was moved into a class.
        (
            "class TestAll:\n    " + BOUND.replace("\n", "\n    ").replace("()", "(self)").rstrip() + "\n",
            "has no entry for test_it.py::TestAll::test_gate; renamed from test_it.py::test_gate?",
        ),
        # The test got a parameter.
        (
            '@pytest.mark.parametrize("k", [1])\n' + BOUND.replace("()", "(k)"),
            "has no entry for test_it.py::test_gate[[]1]; renamed from test_it.py::test_gate?",
        ),
        # The test was replaced by an unrelated test.
        (
            BOUND.replace("test_gate", "test_quite_different_things"),
            "has no entry for *::test_quite_different_things.",
        ),
        # The threshold has another score.
        (
            BOUND.replace("recall@1", "recall@2"),
            "has no recall@2 of test_it.py::test_gate; it has recall@1. Did you mean recall@1?",
        ),
        (
            BOUND.replace("max_drop", "comparator=None, order=None, max_drop").replace("recall", "mrr"),
            "has no mrr@1 of *",
        ),
    ],
)
def test_a_test_missing_in_the_baseline_is_an_error(good, body, message):
    good.test(body + BOUND.replace("gate", "more").replace("recall", "hit"))
    for arguments in (("--rageval=require_baseline=true",), ()):
        result = good.run(*arguments)
        is_error = arguments or "renamed" in message
        result.assert_outcomes(failed=1, **{"errors" if is_error else "passed": 1})
        lines = [line for line in result.outlines if "rageval_baseline.json has n" in line]
        pytest.LineMatcher(lines).fnmatch_lines([f"*: *rageval_baseline.json {message}*"])
        assert "un pytest --rageval-update-baseline " in " ".join(result.outlines)


@pytest.mark.parametrize("named", ["no file", "new test", "new score"])
def test_what_has_no_baseline_yet_is_a_warning_and_under_ci_an_error(project, named):
    project.evalset(12)
    project.test(BOUND)
    if named != "no file":
        project.run(UPDATE, passed=1)
    if named == "new test":
        project.test(BOUND + BOUND.replace("test_gate", "test_quite_different_things"))
    if named == "new score":
        project.test(BOUND.replace("def", '@pytest.mark.rageval_threshold("mrr@1", max_drop=0.02)\ndef'))
    result = project.run("-q")
    assert result.ret == pytest.ExitCode.OK
    assert (
        sum(line.startswith("warning: ") and "has no baseline yet" in line for line in result.outlines) == 1
    )
    result = project.run("-q", "--rageval=require_baseline=true", "--rageval=history=history.jsonl")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "has no baseline yet" in " ".join(result.outlines)
    [line] = (project.path / "history.jsonl").read_text(encoding="utf-8").splitlines()
    verdicts = [
        score["verdict"] for test in json.loads(line)["tests"].values() for score in test["scores"].values()
    ]
    assert sorted(verdicts) == ["new"] + ["pass"] * (named != "no file")


def test_a_violated_minimum_is_reported_together_with_a_missing_entry(good):
    good.test(BOUND.replace("gate", "new").replace("max_drop", "min=0.9, max_drop"))
    result = good.run(failed=1)
    assert "0.400 is below the minimum 0.9" in " ".join(result.outlines)


def test_another_root_directory_is_no_first_run(good):
    """Attack: `--rootdir`, or an ini file in a parent folder, changes every node id.

    Promise: every test is an error that suggests the old node id.
    """
    inner = good.path / "inner"
    inner.mkdir()
    for name in ("test_it.py", "conftest.py", "evals.jsonl"):
        (good.path / name).rename(inner / name)
    good.run(
        "--rootdir=.",
        "inner",
        errors=2,
        shows=[
            "*has no entry for inner/test_it.py::test_gate; renamed from test_it.py::test_gate?",
            "If so, rename it *root directory*",
        ],
    )


def test_a_root_directory_without_the_baseline_is_no_first_run(good):
    inner = good.path / "inner"
    inner.mkdir()
    for name in ("test_it.py", "conftest.py", "evals.jsonl"):
        (good.path / name).rename(inner / name)
    good.run(
        "--rootdir=inner",
        "inner",
        errors=2,
        shows="There is no baseline in *inner, the root directory, and there is one in *",
    )
    good.run("--rootdir=inner", "inner", UPDATE, passed=2)
    good.run("--rootdir=inner", "inner", passed=2)


def test_the_first_run_on_a_build_server_needs_a_baseline(project, monkeypatch):
    project.test(BOUND)
    result = _run(project)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["warning: *recall@1: 1.000 has no baseline yet *--rageval-update-baseline writes one"]
    )
    monkeypatch.setenv("CI", "true")
    result = _run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*has no baseline yet *(--rageval require_baseline=true, the default under CI=true)"]
    )
    _run(project, "--rageval=require_baseline=false").assert_outcomes(passed=1)
    project.ini(rageval_require_baseline="false")
    _run(project).assert_outcomes(passed=1)
    _run(project, "--rageval=require_baseline=true").assert_outcomes(errors=1)


# Gates that were removed.

GONE = "? of ? gated test* not compared with the baseline*"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def test_gate(): pass\n", "  test_it.py::test_gate: not collected: *"),
        ("", "  test_it.py::test_gate: not collected: *"),
        ("def test_gate(rageval): pass\n", "  test_it.py::test_gate: no threshold compared recall@1"),
        (BOUND.replace("max_drop", "min"), "  test_it.py::test_gate: no threshold compared recall@1"),
    ],
)
@pytest.mark.parametrize("arguments", [(), ("-q",)])
def test_a_threshold_that_was_removed_is_listed(project, monkeypatch, body, message, arguments):
    """Attack: the test, its mark or its max_drop is removed.

    A full run lists the entry; under CI=true it is an error.
    """
    more = BOUND.replace("gate", "more")
    project.evalset(8)
    project.test(BOUND + more)
    project.run(UPDATE, passed=2)
    project.test(body + more)
    result = _run(project, *arguments)
    assert result.ret == 0
    result.stdout.fnmatch_lines([GONE, message])
    result.stdout.no_fnmatch_line("  test_it.py::test_more*")
    monkeypatch.setenv("CI", "true")
    result = _run(project, *arguments)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([GONE, message])


def test_workers_tell_which_gates_there_were(project, monkeypatch):
    """With xdist, removed gates are listed: workers report their gates to the controller, which collects no tests."""
    project.test(BOUND + BOUND.replace("gate", "more"))
    project.run(UPDATE)
    project.test(BOUND)
    monkeypatch.setenv("CI", "true")
    result = _run(project, "-n2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([GONE, "  test_it.py::test_more: *"])
    result.stdout.no_fnmatch_line("  test_it.py::test_gate*")


def test_a_test_that_fails_before_it_compares_keeps_its_entry(project):
    project.test("def test_own(rageval):\n    rageval.score('recall@1', max_drop=0.02)\n")
    project.run(UPDATE)
    project.test("def test_own(rageval):\n    assert False\n    rageval.score('recall@1', max_drop=0.02)\n")
    project.run().stdout.no_fnmatch_line(GONE)


# Baselines with invalid values.

NONSENSE = {
    "1e300": "1e+300",
    "-1e300": "-1e+300",
    "1e400": "inf",
    "-1e400": "-inf",
    "NaN": "nan",
    "Infinity": "inf",
    "-Infinity": "-inf",
    "9" * 400: "inf",
    "-" + "9" * 5000: "*",
    "true": "True",
    "false": "False",
    '"1.0"': "'1.0'",
    "[1.0]": "[[]1.0]",
    '{"score": 1.0}': "{'score': 1.0}",
}


@pytest.fixture
def spoiled(project):
    project.evalset(12)
    project.test(BOUND)
    project.run(UPDATE)
    path = project.path / "rageval_baseline.json"
    text = path.read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if '"q7": {' in line)

    def spoil(value):
        path.write_text(
            text.replace(line, line.replace('"recall@1": 1.0', f'"recall@1": {value}')), encoding="utf-8"
        )
        return project

    return spoil


@pytest.mark.parametrize(("value", "shown"), NONSENSE.items(), ids=lambda text: text[:12])
def test_a_score_that_is_none_is_refused_with_its_place(spoiled, value, shown):
    """Attack: 1e300 and 400 digits ended in a traceback; -1e300 made every later score a gain, and passed.

    Promise: every invalid score is an error that names the question, the score and the test.
    """
    project = spoiled(value)
    project.lose(*range(2, 13))
    result = project.run(
        errors=1,
        shows=(
            "The baseline *rageval_baseline.json is not a baseline of this package: question q7 in recall@1 of "
            f"test_it.py::test_gate has the score {shown}*; that is a number, or null where there is none."
        ),
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*pytest_rageval/*")
    # An update fails in the same way, and nothing is overwritten.
    result = project.run(UPDATE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["The baseline *question q7 in recall@1 of test_it.py::test_gate has the score*"]
    )


@pytest.mark.parametrize("value", ["-5", "-0.01", "1.5", "-1e99"])
def test_a_score_that_is_not_on_its_scale_is_refused(spoiled, value):
    project = spoiled(value)
    project.lose(*range(1, 13))
    project.run(
        errors=1,
        shows="The baseline *: question q7 in recall@1 of test_it.py::test_gate has the score *, and * from 0 to 1.",
    )


@pytest.mark.parametrize("depth", [60, 300, 900, 2000, 100_000])
@pytest.mark.parametrize("form", ["[]", "{}"])
@pytest.mark.parametrize("where", ["fingerprint", "beside", "questions", "document"])
def test_what_nests_deeply_ends_in_no_traceback(spoiled, depth, form, where):
    deep = "[" * depth + "]" * depth if form == "[]" else '{"a":' * depth + "1" + "}" * depth
    project = spoiled("1.0")
    path = project.path / "rageval_baseline.json"
    text = path.read_text(encoding="utf-8")
    places = {
        "fingerprint": ('"match_share": 0.5', f'"match_share": {deep}'),
        "beside": ('"q7": {', f'"q7": {{"other": {deep}, '),
        "questions": ('"questions": {', f'"questions": {{"q99": {deep},'),
        "document": ('"schema": 2', f'"schema": 2, "other": {deep}'),
    }
    assert places[where][0] in text
    path.write_text(text.replace(*places[where]), encoding="utf-8")
    project.test("def test_other(rageval): rageval.score('recall@1', max_drop=0.02)\n", name="test_other")
    for arguments in (("test_it.py",), (UPDATE, "test_other.py")):
        result = project.run(*arguments)
        for line in ("*RecursionError*", "*INTERNALERROR*", "*pytest_rageval/*"):
            result.stdout.no_fnmatch_line(line)
            result.stderr.no_fnmatch_line(line)
        assert result.ret in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}


@pytest.mark.parametrize("depth", [60, 300, 900, 2000, 100_000])
@pytest.mark.parametrize("form", ["[]", "{}"])
@pytest.mark.parametrize("name", ["evals.jsonl", "labels.jsonl"])
def test_eval_sets_and_labels_that_nest_deeply_are_refused(project, depth, form, name):
    deep = "[" * depth + "]" * depth if form == "[]" else '{"a":' * depth + "1" + "}" * depth
    if name == "evals.jsonl":
        path = project.path / name
        path.write_text(
            path.read_text(encoding="utf-8").replace('"topic": "odd"', f'"topic": {deep}'), encoding="utf-8"
        )
        project.test(BOUND)
    else:
        record = f'{{"question": "Why?", "references": ["a"], "answer": "b", "label": {deep}}}\n'
        (project.path / name).write_text(record, encoding="utf-8")
        project.test(
            '@pytest.mark.rageval_calibration("labels.jsonl", min_kappa=0.1)\ndef test_gate(): pass\n'
        )
    result = project.run()
    if depth > 60 or name == "labels.jsonl":
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines([f"{name} line 1*"])
    result.stdout.no_fnmatch_line("*RecursionError*")
    result.stdout.no_fnmatch_line("*pytest_rageval/*")
