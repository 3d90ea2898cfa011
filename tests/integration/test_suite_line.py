"""The gate of the suite: drops that are not significant in any test, and are in all of them together."""

import os
from pathlib import Path

import pytest

from pytest_rageval.cli import main

pytestmark = pytest.mark.slow

UPDATE = "--rageval-update-baseline"
TESTS = 4
SIZE = 20
LOST = [test * SIZE + 1 + i for test in range(TESTS) for i in range(2)]


@pytest.fixture
def suite(project):
    """Four tests of 20 questions each, with a baseline; the retriever then loses two questions of each test."""
    conftest = project.path / "conftest.py"
    source = conftest.read_text(encoding="utf-8").replace("range(1, 21)", f"range(1, {TESTS * SIZE + 1})")
    conftest.write_text(source, encoding="utf-8")
    lines = project.evalset(TESTS * SIZE).read_text(encoding="utf-8").splitlines(keepends=True)
    for test in range(TESTS):
        part = "".join(lines[test * SIZE : (test + 1) * SIZE])
        (project.path / f"part{test}.jsonl").write_text(part, encoding="utf-8")
    # Otherwise a drop of 0.1 of a ranking is red in each of these small tests.
    project.policies(sure="small_set_drop = false")
    _write(project)
    project.run(UPDATE, passed=TESTS)
    project.lose(*LOST)
    return project


def _write(project, marks: str = ""):
    body = "".join(
        f'{marks}@pytest.mark.rageval_evalset("part{test}.jsonl")\n'
        f'@pytest.mark.rageval_threshold("recall@1", max_drop=0.02, policy="sure")\ndef test_{test}(): pass\n'
        for test in range(TESTS)
    )
    project.test(body)


def _suite(project, run, *arguments):
    result = run("--rageval-report=report.json", *arguments)
    document = project.read()
    return result, document.get("suite")


LINE = (
    "fail: the suite got worse: 8 of 80 questions of its 4 gated tests are worse, 0 better (chance alone: *). Most of "
    "the drop is in: test_it.py::test_0 25%, test_it.py::test_1 25%, *"
)


REMEDY = "accept these drops and all other changes: "


def test_a_drop_of_the_whole_suite_is_red(suite):
    """Two of 20 lost are significant in no test, and eight of 80 in the suite; all reports say so, also with -q."""
    reports = ("--rageval-report=report.md", "--rageval-report=report.html", "--rageval=annotations=true")
    for arguments in ((), ("-q", *reports)):
        result, entry = _suite(suite, suite.run, *arguments)
        result.assert_outcomes(passed=TESTS)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines([LINE, f"{REMEDY}pytest --rageval-update-baseline"])
    result.stdout.fnmatch_lines([f"::error title=rageval::{LINE[:60]}*"])
    text = (suite.path / "report.md").read_text(encoding="utf-8")
    assert text.startswith(f"### rageval: the suite got worse, {TESTS} of {TESTS} thresholds inconclusive\n")
    assert f"> ❌ `{LINE[:60]}" in text
    assert f"> `{REMEDY}pytest --rageval-update-baseline`" in text
    page = (suite.path / "report.html").read_text(encoding="utf-8")
    assert f'<p class="warning">{LINE[:60]}' in page
    assert {key: entry[key] for key in ("verdict", "alpha", "n", "worse", "better", "gated")} == {
        "verdict": "fail",
        "alpha": 0.025,
        "n": 80,
        "worse": 8,
        "better": 0,
        "gated": 4,
    }
    assert 0 < entry["p_value"] <= 0.025
    assert sorted(entry["tests"]) == [f"test_it.py::test_{test}" for test in range(TESTS)]


def test_workers_and_shards_say_the_same(suite):
    _, alone = _suite(suite, suite.run)
    result, entry = _suite(suite, suite.run_process, "-n2")
    assert (entry, result.ret) == (alone, 1)
    for shard in (1, 2):
        suite.run(f"--rageval-shard={shard}/2", f"--rageval-report=s{shard}.json")
    folder = Path.cwd()
    os.chdir(suite.path)
    try:
        assert main(["merge", "s1.json", "s2.json", "--report", "merged.json", "--report", "merged.md"]) == 1
    finally:
        os.chdir(folder)
    merged = suite.read("merged.json")
    assert merged["suite"] == alone
    text = (suite.path / "merged.md").read_text(encoding="utf-8")
    assert f"> `{REMEDY}rageval merge s*.json --update-baseline`" in text


def test_a_part_of_the_suite_has_a_part_of_the_level(suite):
    """Two of four tests are tested at half of the suite's level; one alone has no such line."""
    _, entry = _suite(suite, suite.run, "test_it.py::test_0", "test_it.py::test_1")
    assert (entry["alpha"], entry["n"], entry["gated"]) == (0.0125, 40, 4)
    result, entry = _suite(suite, suite.run, "test_it.py::test_0")
    assert (entry, result.ret) == (None, 0)


def test_a_test_that_is_expected_to_fail_is_no_part_of_it(suite):
    _write(suite, "@pytest.mark.xfail(reason='known')\n")
    source = (suite.path / "test_it.py").read_text(encoding="utf-8").replace("): pass", "): assert False")
    (suite.path / "test_it.py").write_text(source, encoding="utf-8")
    result, entry = _suite(suite, suite.run)
    assert (entry, result.ret) == (None, 0)


def test_an_update_has_no_such_line(suite):
    result, entry = _suite(suite, suite.run, UPDATE)
    assert (entry, result.ret) == (None, 0)
    result, entry = _suite(suite, suite.run)
    assert (entry["verdict"], result.ret) == ("pass", 0)
