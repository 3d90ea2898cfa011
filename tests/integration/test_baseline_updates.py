"""`--rageval-update-baseline`: which entries are written, kept and dropped."""

import pytest

from pytest_rageval.baseline import Baseline

pytestmark = pytest.mark.slow

UPDATE = "--rageval-update-baseline"
GATE = '@pytest.mark.rageval_threshold("{spec}", max_drop=0.02)\ndef test_{name}(): pass\n'
ONE, TWO, THREE = (
    GATE.format(spec=spec, name=name)
    for spec, name in (("recall@1", "one"), ("mrr@2", "two"), ("hit@3", "three"))
)


def _tests(project):
    return Baseline.read(project.path / "rageval_baseline.json").tests


def _scores(project, name, spec):
    examples = _tests(project)[f"test_it.py::test_{name}"]["scores"][spec]["examples"]
    return [example["score"] for example in examples.values()]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("-k", "one"), "1 test deselected"),
        (("test_it.py::test_one",), "tests named on the command line"),
        (("--deselect=test_it.py::test_two",), "1 test deselected"),
        (("--ignore=test_more.py",), "--ignore"),
        (("--rageval-update-baseline", "-m", "not slow"), "1 test deselected"),
    ],
)
def test_a_partial_run_keeps_the_other_tests_entries(project, arguments, why):
    project.pytester.makeini("[pytest]\nmarkers = slow\n")
    project.test(ONE + f"@pytest.mark.slow\n{TWO}" + THREE)
    project.run(UPDATE)
    before = _tests(project)
    project.lose(2)
    project.test(ONE + f"@pytest.mark.slow\n{TWO}")
    result = project.run(UPDATE, *arguments)
    after = _tests(project)
    assert after["test_it.py::test_three"] == before["test_it.py::test_three"]
    assert _scores(project, "one", "recall@1") == [1.0, 0.0, 1.0, 1.0]
    ran = result.parseoutcomes()["passed"]
    assert (after["test_it.py::test_two"] == before["test_it.py::test_two"]) == (ran == 1)
    counts = "1 test written; 2 others" if ran == 1 else "2 tests written; 1 other"
    result.stdout.fnmatch_lines([f"baseline: * ({counts} kept, since this was not a full run ({why}))"])


def test_a_full_run_that_passes_removes_tests_that_no_longer_exist(project):
    project.test(
        ONE + '@pytest.mark.rageval_threshold("mrr@2", max_drop=0.02)\n' + TWO.replace("mrr@2", "f1@2")
    )
    project.run(UPDATE)
    assert set(_tests(project)["test_it.py::test_two"]["scores"]) == {"mrr@2", "f1@2"}
    project.test(TWO)
    result = project.run(UPDATE)
    assert set(_tests(project)) == {"test_it.py::test_two"}
    assert set(_tests(project)["test_it.py::test_two"]["scores"]) == {"mrr@2"}
    result.stdout.fnmatch_lines(["baseline: * (1 test written; 1 other dropped, since gone)"])


@pytest.mark.parametrize(
    "skips",
    [
        "import pytest\npytest.skip('not here', allow_module_level=True)\n",
        "import pytest\npytest.importorskip('no_such_package')\n",
        "raise ImportError\n",
        "import pytest\ndef test_more(): pytest.skip('not now')\n",
        "def test_more(): assert False\n",
    ],
)
def test_a_run_that_left_something_out_is_no_full_run(project, skips):
    project.test(ONE)
    project.test(TWO, name="test_more")
    project.run(UPDATE)
    project.pytester.makepyfile(test_more=skips)
    result = project.run(UPDATE, "--continue-on-collection-errors")
    assert set(_tests(project)) == {"test_it.py::test_one", "test_more.py::test_two"}
    result.stdout.fnmatch_lines(
        ["baseline: * (1 test written; 1 other kept, since this was not a full run (1 *))"]
    )


def test_a_failing_tests_scores_are_written(project):
    project.test(ONE.replace("max_drop", "min=0.9, max_drop") + TWO)
    project.lose(2)
    project.run(UPDATE, passed=1, failed=1)
    assert _scores(project, "one", "recall@1") == [1.0, 0.0, 1.0, 1.0]


def test_a_test_in_error_keeps_its_entry(project):
    project.test(ONE + TWO)
    project.run(UPDATE)
    before = _tests(project)
    project.lose(2)
    project.test('@pytest.mark.rageval_evalset("gone.jsonl")\n' + ONE + TWO)
    result = project.run(UPDATE, passed=1, errors=1)
    assert _tests(project)["test_it.py::test_one"] == before["test_it.py::test_one"]
    assert _scores(project, "two", "mrr@2") == [1.0, 0.0, 1.0, 1.0]
    result.stdout.fnmatch_lines(["* 1 other kept, since this was not a full run (1 test in error))"])


def test_a_test_with_a_score_in_error_keeps_its_entry(project, llm):
    """A test with a score in error keeps its old entry as a whole, so that all of its scores are of one commit."""
    project.use(llm)
    project.test('@pytest.mark.rageval_threshold("answer.em@1", max_drop=0.02)\n' + ONE)
    project.run(UPDATE, passed=1)
    project.lose(2)
    llm.model = lambda _: " "
    result = project.run(UPDATE, "--rageval-refresh", errors=1)
    assert _scores(project, "one", "answer.em@1") == [1.0, 1.0, 1.0, 1.0]
    assert _scores(project, "one", "recall@1") == [1.0, 1.0, 1.0, 1.0]
    result.stdout.fnmatch_lines(["*test_one: its old entry is kept, as this run has no answer.em@1"])


def test_a_test_that_ended_before_its_last_score_keeps_its_entry(project):
    body = (
        "def test_own(rageval):\n    assert rageval.score('recall@1', max_drop=0.5) > 0.9\n"
        "    rageval.score('mrr@2', max_drop=0.5)\n"
    )
    project.test(body)
    project.run(UPDATE, passed=1)
    project.lose(2)
    project.run(UPDATE, failed=1)
    assert _scores(project, "own", "recall@1") == [1.0, 1.0, 1.0, 1.0]
    assert _scores(project, "own", "mrr@2") == [1.0, 1.0, 1.0, 1.0]


def test_only_what_max_drop_bounds_is_written(project):
    project.test(ONE + TWO.replace("max_drop=0.02", "min=0.5"))
    project.run(UPDATE)
    assert set(_tests(project)) == {"test_it.py::test_one"}


def test_a_baseline_that_cannot_be_written_fails_the_run(project):
    """If the baseline cannot be written, the run fails, so that an update job does not pass with the old file."""
    (project.path / "taken").write_text("a file", encoding="utf-8")
    project.test(ONE)
    result = project.run(UPDATE, "--rageval-baseline=taken/baseline.json", passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["The baseline *taken/baseline.json cannot be read: *"])


def test_an_update_passes_whatever_the_baseline_says(project):
    project.evalset(12)
    project.test(ONE)
    project.run(UPDATE)
    project.lose(*range(1, 9))
    project.run(failed=1)
    project.run(UPDATE, "--rageval-report=report.json", passed=1)
    (test,) = project.read()["tests"]
    assert (test["scores"][0]["reason"], test["scores"][0]["baseline"]) == ("0.333 is the new baseline", None)
    project.run(passed=1)


def test_an_update_says_what_it_lowers_and_raises(project):
    """An update lists changed scores, the largest drop first, then by name; unchanged scores are not listed."""
    project.test(ONE + TWO + THREE)
    first = project.run(UPDATE)
    first.stdout.no_fnmatch_line("*→*")
    project.lose(2)
    lowered = project.run(UPDATE)
    assert [line for line in lowered.outlines if "→" in line] == [
        "  test_it.py::test_one recall@1: 1.000 → 0.750, 1 of 4 worse, 0 better",
        "  test_it.py::test_three hit@3: 1.000 → 0.750, 1 of 4 worse, 0 better",
        "  test_it.py::test_two mrr@2: 1.000 → 0.750, 1 of 4 worse, 0 better",
    ]


@pytest.mark.parametrize("arguments", [(), ("-q",)])
def test_an_update_that_writes_nothing_says_why(project, arguments):
    path = project.path / "rageval_baseline.json"
    project.gate("recall@1 max_drop=0.1")
    project.run(UPDATE)
    before = path.read_bytes()
    project.gate("recall@1 min=0.1")
    result = project.run(UPDATE, *arguments)
    why = "no test that ran has a threshold with max_drop"
    result.stdout.fnmatch_lines([f"baseline: nothing to write, {why}; *rageval_baseline.json is as before"])
    project.pytester.makepyfile(test_it="def test_plain(): pass\n")
    project.run(
        UPDATE,
        *arguments,
        shows="baseline: nothing to write, no marked test was collected; *rageval_baseline.json is as before",
    )
    project.run(UPDATE, "--collect-only")
    assert path.read_bytes() == before


@pytest.mark.parametrize("bounds", ["max_drop=0.02", "min=0.5, max_drop=0.02", "max_lost=0"])
def test_a_baseline_of_zeros_is_not_written(project, bounds):
    project.evalset(12)
    gate = f'@pytest.mark.rageval_threshold("recall@1", {bounds})\ndef test_one(): pass\n'
    project.test(gate + TWO)
    project.run(UPDATE, passed=2)
    before = (project.path / "rageval_baseline.json").read_bytes()
    project.evalset(12, gold=[{"id": "kb/handbook"}])
    for arguments in ((UPDATE,), (UPDATE, "-q"), ("--rageval-baseline=none.json", UPDATE)):
        result = project.run(*arguments)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        assert (project.path / "rageval_baseline.json").read_bytes() == before
        assert not (project.path / "none.json").exists()
        result.stdout.fnmatch_lines(
            [
                "*recall@1: every question scores 0, so that nothing could be a drop, and this is no baseline.",
                "*Gold 'kb/handbook', retrieved 'doc-1'*",
            ]
            if "min" not in bounds
            else ["recall@1: 0.000 is below the minimum 0.5: 12 of 12 questions are below 0.5"]
        )
    (project.path / "rageval_baseline.json").unlink()
    result = project.run()
    assert result.parseoutcomes().get("passed") is None
