"""Gated tests, which the baseline lists, that a run does not compare with it.

Promise: on a build server none of them is missing in silence: it fails the run with a line that says why, or the option
that allows it is shown.
"""

import sys

import pytest

from tests.docs.test_report_schema import check
from tests.integration.conftest import Project

pytestmark = pytest.mark.slow

UPDATE = "--rageval-update-baseline=force"
HEAD = "? of ? gated test* not compared with the baseline, which --rageval require_baseline=true forbids *"
GATE = '@pytest.mark.rageval_threshold("recall@1", max_drop=0.02)\ndef test_gate(): pass\n'
MORE = GATE.replace("test_gate", "test_more")
RETRIEVER = "\n@pytest.fixture(scope='session')\ndef rageval_retriever():\n    {}\n    return search\n"


@pytest.fixture
def gated(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("CI", "true")
    project.evalset(8)
    project.test(GATE)
    project.test(MORE, name="test_second")
    project.run(UPDATE, passed=2)
    return project


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (f"@pytest.mark.skip(reason='no index')\n{GATE}", "skipped: no index"),
        (GATE.replace("max_drop", "min"), "no threshold compared recall@1"),
    ],
)
def test_a_gated_test_that_was_not_compared_fails_the_run(gated, body, reason):
    """The reports say it too; `test_green_builds.py` has more ways."""
    gated.test(body)
    result = gated.run(
        "-q", "--rageval-report=report.json", "--rageval-report=report.md", "--rageval-report=report.html"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [HEAD, f"  test_it.py::test_gate: {reason}", "Run them. *--rageval allow_missing=NODEID*"]
    )
    document = check(gated.path / "report.json")
    [*_, test] = [test for test in document["gate"]["missing"] if test["nodeid"] == "test_it.py::test_gate"]
    assert not test["allowed"]
    markdown = (gated.path / "report.md").read_text(encoding="utf-8")
    assert "\n\n❌ fail: " in markdown.partition("| verdict |")[0]
    page = (gated.path / "report.html").read_text(encoding="utf-8")
    for report in (markdown, page):
        assert "gated tests missing" in report
        assert f"test_it.py::test_gate: {test['reason']}"[:40] in report.replace("&#39;", "'")


@pytest.mark.parametrize("how", ["pytest.skip('no index')", "pytest.importorskip('no_such_index')"])
def test_a_retriever_that_skips_its_tests_fails_the_run(gated, how):
    gated.add(RETRIEVER.format(how))
    for arguments in ((), ("-k", "gate"), ("test_it.py",), ("-n2",)):
        result = (gated.run_process if "-n2" in arguments else gated.run)(*arguments)
        assert result.ret == pytest.ExitCode.TESTS_FAILED, arguments
        result.stdout.fnmatch_lines([HEAD, "  test_it.py::test_gate: skipped: *no*index*"])


@pytest.mark.parametrize(
    ("arguments", "not_run"),
    [
        (("-k", "more"), "1 of 2 gated tests was not run"),
        (("unit",), "2 of 2 gated tests were not run"),
    ],
)
@pytest.mark.parametrize("where", ["arguments", "PYTEST_ADDOPTS"])
def test_a_part_of_the_tests_is_one_line(gated, monkeypatch, arguments, not_run, where):
    (gated.path / "unit").mkdir()
    (gated.path / "unit" / "test_unit.py").write_text("def test_unit(): pass\n", encoding="utf-8")
    if where == "PYTEST_ADDOPTS":
        monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(f'"{word}"' for word in arguments))
        arguments = ()
    result = gated.run("-q", *arguments)
    assert result.ret == 0
    result.stdout.fnmatch_lines([not_run])
    result.stdout.no_fnmatch_line(HEAD)


def test_a_part_of_the_tests_is_one_line_on_a_laptop(gated, monkeypatch):
    """Elsewhere than on a build server a part is one line, and nothing for tests that have no gate."""
    monkeypatch.delenv("CI")
    gated.test(f"@pytest.mark.skip\n{GATE}def test_unit(): pass\n")
    result = gated.run("-k", "gate or more")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["1 of 2 gated tests was not run"])
    result.stdout.no_fnmatch_line("*test_gate: skipped*")
    gated.run("-k", "unit").stdout.no_fnmatch_line("*gated test*")
    result = gated.run()
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["1 of 2 gated tests was not compared with the baseline:", "  *test_gate: skipped: *"]
    )


@pytest.mark.parametrize(
    "arguments", [(), ("test_it.py", "test_second.py"), (".",), ("test_it.py::test_gate",)]
)
def test_a_place_that_the_command_line_names_is_run_in_full(gated, arguments):
    """Attack: the build names its tests on the command line, and one of them was removed."""
    gated.test("def test_other(): pass\n")
    if "::" not in "".join(arguments):
        result = gated.run(*arguments)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines([HEAD, "  test_it.py::test_gate: not collected: *"])
    else:
        assert gated.run(*arguments).ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    ("second", "reason"),
    [("pytest.param('b', marks=pytest.mark.skip)", "skipped: *"), ("'a'", "not collected: *")],
)
def test_each_variant_of_a_parametrized_test_is_a_gated_test(gated, second, reason):
    """Attack: one variant of a gated test is skipped or removed. A command line that names the test names them all."""
    body = '@pytest.mark.parametrize("index", ["a", {}][-2:])\n' + GATE.replace("()", "(index)")
    gated.test(body.format("'b'"))
    gated.run(UPDATE)
    gated.test(body.format(second).replace("[-2:]", "[:1]" if second == "'a'" else ""))
    result = gated.run("test_it.py::test_gate")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [HEAD, rf"  test_it.py::test_gate[[]b]: {reason}", "1 of 3 gated tests was not run"]
    )


@pytest.mark.parametrize("place", ["test_it.py::test_gate", "./test_it.py", "."])
@pytest.mark.parametrize("source", ["option", "ini"])
def test_a_test_that_may_be_missing_is_shown(gated, place, source):
    gated.test(f"@pytest.mark.skip(reason='nightly')\n{GATE}")
    if source == "ini":
        gated.ini(rageval_allow_missing=f"\n    other.py\n    {place}")
    option = [f"--rageval=allow_missing={place}"] if source == "option" else []
    result = gated.run("-q", *option, "--rageval-report=report.json", "--rageval-report=report.md")
    assert result.ret == 0
    line = (
        "1 gated test is missing, as rageval_allow_missing allows: test_it.py::test_gate (skipped: nightly)"
    )
    result.stdout.fnmatch_lines([line])
    assert line in (gated.path / "report.md").read_text(encoding="utf-8")
    document = check(gated.path / "report.json")
    reason = "skipped: nightly"
    assert document["gate"]["missing"] == [
        {"nodeid": "test_it.py::test_gate", "reason": reason, "allowed": True}
    ]
    if source == "ini":
        result.stdout.fnmatch_lines(
            ["rageval_allow_missing has no effect for other.py: the baseline has no such test"]
        )


def test_an_expected_failure_that_passes_was_compared(gated):
    gated.test(f"@pytest.mark.xfail\n{GATE}")
    gated.run(passed=1, xpassed=1)
    assert gated.run().ret == 0


def test_a_run_that_fails_anyway_lists_no_failed_tests(gated):
    """A test that failed or ended as an error is not missing: its error is in the output already."""
    gated.lose(1, 2, 3, 4)
    gated.run().stdout.no_fnmatch_line(HEAD)
    gated.test("import no_such_module\n")
    gated.run("--continue-on-collection-errors").stdout.no_fnmatch_line(HEAD)


def test_a_shard_that_skips_fails_the_merge(gated):
    gated.test(f"@pytest.mark.skip(reason='no index')\n{GATE}")
    for option, status in (([], 1), (["--rageval=allow_missing=test_it.py"], 0)):
        for index in (1, 2):
            gated.run(f"--rageval-shard={index}/2", f"--rageval-report=s{index}.json", *option)
        result = gated.pytester.run(
            sys.executable, "-m", "pytest_rageval", "merge", "s1.json", "s2.json", "--report=merged.json"
        )
        assert result.ret == status
        expected = "1 gated test is missing, as *" if option else "  test_it.py::test_gate: skipped: no index"
        result.stderr.fnmatch_lines([expected])
        document = check(gated.path / "merged.json")
        assert document["gate"]["missing"][0]["allowed"] == bool(option)


def test_the_options_of_a_plugin_that_splits_the_tests_select_a_part(gated):
    pytest.importorskip("pytest_split")
    result = gated.run("--splits=2", "--group=1")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["1 of 2 gated tests was not run"])
