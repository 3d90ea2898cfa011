"""Threshold markers on tests: bounds on scores of an eval set."""

import json

import pytest

GATE = """
@pytest.mark.rageval_threshold("recall@2", min=0.9)
def test_gate():
    pass
"""


def test_a_score_within_its_bound_passes(project):
    project.test(GATE)
    result = project.run(passed=1)
    result.stdout.re_match_lines([r"  pass +recall@2 +1\.000 +≥ 0\.9 +4 +0\.510 to 1\.000"])


def test_a_score_below_its_minimum_fails_the_build_and_names_the_lost_questions(project):
    project.lose(3)
    project.test(GATE)
    result = project.run(failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "recall@2: 0.750 is below the minimum 0.9: 1 of 4 questions is below 0.9",
            "  q3  0         What is the code of item-3?",
            "      gold      doc-3",
            "      now       doc-1, doc-10",
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_rageval/*")


def test_a_score_above_its_maximum_fails(project):
    project.gate("precision@2 max=0.4")
    project.run(failed=1, shows="precision@2: 0.500 is above the maximum 0.4: *")


def test_where_limits_a_threshold_to_a_slice(project):
    project.lose(1, 3)
    project.test(
        '@pytest.mark.rageval_threshold("recall@2", min=1.0, where={"topic": "even"})\n'
        "def test_even(): pass\n"
        '@pytest.mark.rageval_threshold("recall@2", min=0.1, where={"topic": "odd"})\n'
        "def test_odd(): pass\n"
    )
    project.run(passed=1, failed=1, shows="recall@2 where topic='odd': 0.000 is below *")


def test_where_allows_other_examples_to_lack_what_a_score_needs(project):
    """Unscored examples count in the slice that is bounded; without `where`, the message names it as a remedy."""
    path = project.evalset(4)
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for record in records[::2]:
        del record["answers"]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    bound = '@pytest.mark.rageval_threshold("contains.hit@2", min=0.9{})\ndef test_gate(): pass'
    project.test(bound.format(', where={"topic": "even"}'))
    project.run(passed=1)
    for unlike in ("", ', where={"topic": "odd"}', ', where={"topic": ["odd", "even"]}'):
        project.test(bound.format(unlike))
        project.run(errors=1)
    project.test("def test_gate(rageval): rageval.score('contains.hit@2', where={'topic': 'even'})")
    project.run(passed=1)


def test_all_thresholds_of_a_test_are_reported_together(project):
    project.lose(1)
    project.gate("recall@2 min=1.0", "mrr@2 min=0.99")
    project.run(shows=["recall@2: 0.750 is below *", "mrr@2: 0.750 is below *"])


def test_markers_on_a_class_and_on_a_module_hold_for_every_test(project):
    project.lose(1)
    project.test(
        'pytestmark = [pytestmark, pytest.mark.rageval_threshold("hit@2", min=0.1)]\n'
        '@pytest.mark.rageval_threshold("recall@2", min=1.0)\n'
        "class TestAll:\n    def test_one(self): pass\n    def test_two(self): pass\n"
        "def test_three(): pass\n"
    )
    project.run(failed=2, passed=1)


def test_the_statements_of_a_marked_test_run_after_its_thresholds(project):
    project.test(
        '@pytest.mark.rageval_threshold("recall@2", min=0.5)\n'
        "def test_more(rageval):\n    assert len(rageval.examples) == 5\n"
    )
    project.run(failed=1, shows="E*assert 4 == 5*")


def test_lost_questions_are_counted_where_they_are_too_many_to_show(project):
    """A failure shows the lost questions that fit, all with -v, and names the others by id."""
    project.evalset(20)
    project.lose(*range(1, 16))
    project.gate("recall@1 min=0.9")
    project.run(shows="9 more (-v shows all): q7, q8, q9, q10, q11, q12, q13, q14, q15")
    project.run("-q", shows="14 more *")
    project.run("-v", shows="  q15  0 *")


def test_a_parametrized_retriever_multiplies_the_test(project):
    source = (project.path / "conftest.py").read_text(encoding="utf-8").split("@pytest.fixture")[0]
    project.pytester.makeconftest(
        source + '@pytest.fixture(scope="session", params=["good", "empty"])\n'
        "def rageval_retriever(request):\n"
        '    return search if request.param == "good" else lambda query, k: []\n'
    )
    project.test(GATE)
    project.run("-v", passed=1, failed=1, shows=["*test_gate?good? PASSED*", "*test_gate?empty? FAILED*"])


def test_a_threshold_of_one_class_leaves_a_class_alone_that_shares_the_test(project):
    project.test(
        "class Shared:\n"
        "    def test_gate(self, request): assert ('rageval' in request.fixturenames) == self.marked\n\n"
        '@pytest.mark.rageval_threshold("recall@1", min=0.9)\n'
        "class TestMarked(Shared): marked = True\n\n"
        "class TestPlain(Shared): marked = False\n\n"
        '@pytest.mark.rageval_threshold("recall@1", min=0.9)\n'
        "class TestMarkedToo(Shared): marked = True\n"
    )
    project.run(passed=3)


BY_NAME = """
def test_gate(request):
    rageval = request.getfixturevalue("rageval")
    rageval.score("recall@1", min={})
"""


@pytest.mark.parametrize("workers", ["-n0", pytest.param("-n2", marks=pytest.mark.slow)])
def test_a_fixture_that_is_asked_for_by_name_is_reported(project, workers):
    """A test that gets `rageval` by `getfixturevalue` is reported and gated, and its eval set counts as used."""
    project.test(BY_NAME.format(0.5) + "def test_other(): pass\n")
    run = project.run if workers == "-n0" else project.run_process
    result = run("--rageval-report=out.json", workers)
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*does nothing*")
    [test] = project.read("out.json")["tests"]
    assert [score["spec"] for score in test["scores"]] == ["recall@1"]
    project.test(BY_NAME.format(0.5))
    project.lose(1, 2, 3)
    project.run(failed=1)


def test_a_late_threshold_of_one_parameter_is_not_of_the_others(project):
    project.test(
        '@pytest.mark.parametrize("gated", [\n'
        '    pytest.param(True, marks=pytest.mark.rageval_threshold("recall@1", min=0.5)), False])\n'
        'def test_gate(gated, request): assert ("rageval" in request.node.fixturenames) == gated\n'
    )
    project.run(passed=2)


def test_a_threshold_added_too_late_is_an_error(project):
    project.test(
        "@pytest.fixture(autouse=True)\n"
        "def late(request):\n"
        '    request.node.add_marker(pytest.mark.rageval_threshold("recall@1", min=1))\n'
        "def test_gate(): pass\n"
    )
    project.run(failed=1, shows=["rageval_threshold does nothing here: *", "Mark the test in its file, *"])
