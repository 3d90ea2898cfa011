"""`--rageval canary=N`: a change of the judge or the generator is not reported as a worse retriever."""

import re

import pytest

from tests.docs.test_report_schema import check

pytestmark = pytest.mark.slow

UPDATE = "--rageval-update-baseline"
SURE = ("before", "now", "p_value")

ASKING = '@pytest.mark.rageval_threshold("answer.em@1", max_drop=0.02)\ndef test_gate(): pass\n'


def _forgetful(llm, items):
    before, asked = llm.model, [f"item-{n}?" for n in items]
    llm.model = lambda text: "I do not know." if any(each in text for each in asked) else before(text)


def _baseline(project, llm, **words):
    project.use(llm, **words)
    project.evalset(20)
    project.test(ASKING)
    project.run(UPDATE, passed=1)


def _report(project):
    (test,) = check(project.path / "report.json")["tests"]
    return test


def test_a_changed_generator_is_an_error_and_no_worse_retriever(project, llm):
    """Cached replies hide a changed generator, and the canary requests new replies."""
    _baseline(project, llm)
    _forgetful(llm, range(1, 16))
    project.lose(20)
    project.run(passed=1)
    project.run(
        "--rageval=canary=20",
        "--rageval-report=report.json",
        errors=1,
        shows=[
            "answer.em@1: the judge or the generator changed, perhaps not the retriever. 19 *",
            "    answer.em@1: canary: 19 questions with the same passages, 1.000 in the baseline, 0.211 with *",
        ],
    )
    canary = _report(project)["scores"][0]["canary"]
    assert (canary["questions"], canary["before"]) == (19, 1.0)


def test_a_canary_that_is_well_changes_no_verdict(project, llm):
    _baseline(project, llm)
    for arguments in ((), ("-n2",)):
        before = len(llm.requests)
        run = project.run_process if arguments else project.run
        result = run("--rageval=canary=5", "--rageval-report=report.json", *arguments)
        result.assert_outcomes(passed=1)
        assert len(llm.requests) - before == 5
        found = _report(project)["scores"][0]["canary"]
        assert found == {"questions": 5, "pooled": 5, "detectable": None} | dict.fromkeys(SURE, 1.0)


def test_a_small_change_is_found_in_all_tests_together(project, llm):
    """Three of 20 answers change in each of four tests: none alone is significant, all together are."""
    tests, size = 4, 20
    project.use(llm)
    conftest = project.path / "conftest.py"
    source = conftest.read_text(encoding="utf-8").replace("range(1, 21)", f"range(1, {tests * size + 1})")
    conftest.write_text(source, encoding="utf-8")
    lines = project.evalset(tests * size).read_text(encoding="utf-8").splitlines(keepends=True)
    for n in range(tests):
        part = "".join(lines[n * size : (n + 1) * size])
        (project.path / f"part{n}.jsonl").write_text(part, encoding="utf-8")
    gate = '@pytest.mark.rageval_evalset("part{0}.jsonl")\n' + ASKING.replace("test_gate", "test_{0}")
    project.test("".join(gate.format(n) for n in range(tests)))
    project.run(UPDATE, passed=tests)
    _forgetful(llm, [n + size * part for n in (1, 2, 3) for part in range(tests)])
    project.run("--rageval=canary=true", "test_it.py::test_0", "--rageval-report=report.json", passed=1)
    canary = _report(project)["scores"][0]["canary"]
    assert (canary["questions"], canary["pooled"]) == (20, 20)
    assert 0.3 < canary["detectable"] < 0.6
    result = project.run("--rageval=canary=true", passed=2, errors=2)
    text = " ".join(result.stdout.str().split())
    assert "of 60 in all tests so far, had 1.000 then and 0.850 with new replies" in text
    assert "changes above about 0." in text


@pytest.mark.parametrize(
    ("body", "requests"),
    [
        (ASKING, 5),
        (ASKING.replace("@pytest", '@pytest.mark.rageval_threshold("answer.em@1", min=0.1)\n@pytest', 1), 5),
        ("def test_gate(rageval): rageval.score('answer.em@1', max_drop=0.02)\n", 5),
        (ASKING.replace("answer.em", "answer.correct"), 10),
        (ASKING.replace("answer.em", "llm_reteval"), 20),
        (ASKING.replace("answer.em", "erag.ndcg"), 10),
    ],
)
def test_a_plan_counts_the_canary(project, llm, body, requests):
    _baseline(project, llm)
    project.test(body)
    project.run(UPDATE, passed=1)
    project.lose(20)
    project.run()
    before = len(llm.requests)
    cached = _in_total(project.run("--rageval-plan"))[1]
    plan = project.run("--rageval-plan", "--rageval=canary=5")
    assert len(llm.requests) == before
    total, in_cache, live = _in_total(plan)
    assert (in_cache, total) == (cached, cached + live)
    project.run("--rageval=canary=5", passed=1)
    assert len(llm.requests) - before == requests <= live


def _in_total(plan):
    line = plan.outlines[plan.outlines.index("in total") + 1]
    return [int(cell.removeprefix("≤ ")) for cell in re.split(r" {2,}", line.strip())[:3]]


def test_a_plan_of_a_canary_reads_the_baseline(project, llm):
    project.use(llm)
    project.test(ASKING)
    path = project.path / "rageval_baseline.json"
    plan = project.run("--rageval-plan", "--rageval=canary=5", skipped=1)
    assert _in_total(plan) == [4, 0, 4]
    path.write_text("[", encoding="utf-8")
    project.run("--rageval-plan", "--rageval=canary=5", errors=1, shows="The baseline * is not JSON*")


def test_a_violated_minimum_fails_whatever_the_canary_says(project, llm):
    _baseline(project, llm)
    _forgetful(llm, range(1, 16))
    project.lose(*range(1, 9))
    project.test(ASKING.replace("max_drop", "min=0.9, max_drop"))
    project.run(
        "--rageval=canary=20",
        failed=1,
        shows=[
            "answer.em@1: 0.600 is below the minimum 0.9*",
            "warning: *the judge or the generator changed*",
        ],
    )


def test_ranking_measures_have_no_canary(project, llm):
    _baseline(project, llm)
    project.test(ASKING.replace("answer.em@1", "recall@1"))
    project.run(UPDATE)
    before = len(llm.requests)
    project.run("--rageval=canary=5", passed=1)
    assert len(llm.requests) == before


def test_a_canary_is_not_recorded(project, llm):
    _baseline(project, llm)
    record = ("--rageval-cassette=replies.jsonl", "--rageval-record")
    project.run(*record, "--rageval=canary=5", passed=1)
    lines = (project.path / "replies.jsonl").read_text(encoding="utf-8").splitlines()
    project.run(*record, passed=1)
    assert (project.path / "replies.jsonl").read_text(encoding="utf-8").splitlines() == lines


@pytest.mark.parametrize("served", ["m1-2026-01", "m1"])
def test_another_served_model_is_named(project, llm, served):
    llm.served = served
    _baseline(project, llm)
    tests = project.read("rageval_baseline.json")["tests"]
    assert tests["test_it.py::test_gate"]["served"] == {"m1": [served]}
    project.run("--rageval-report=report.json").stdout.no_fnmatch_line("*was served as*")
    assert _report(project)["served"] == {"m1": [served]}
    llm.served = "m1-2026-07"
    project.run(
        "--rageval-refresh",
        "-q",
        passed=1,
        shows=f"warning: test_it.py::test_gate: m1 was served as {served} in the baseline and is as m1-2026-07 now: *",
    )


def test_a_test_names_the_models_that_its_own_scores_ask(project, llm):
    llm.served = "of-2026-01"
    project.use(llm)
    judged = ASKING.replace("answer.em", "answer.correct").replace("test_gate", "test_a_judge")
    project.test(judged + ASKING)
    project.run(UPDATE, "--rageval-judge-model=m2", passed=2)
    tests = project.read("rageval_baseline.json")["tests"]
    assert {name.partition("::")[2]: sorted(entry["served"]) for name, entry in tests.items()} == {
        "test_a_judge": ["m1", "m2"],
        "test_gate": ["m1"],
    }


def test_a_canary_and_a_replay_do_not_go_together(project):
    result = project.run("--rageval=canary=5", "--rageval-replay")
    result.stderr.fnmatch_lines(
        ["ERROR: --rageval-replay sends no requests and --rageval canary=N needs new replies: leave one out."]
    )
