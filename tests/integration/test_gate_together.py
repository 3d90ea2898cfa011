"""The drops of a run share one error rate; workers, order and reruns change no verdict and no byte of the baseline."""

import pytest

from pytest_rageval.cli import main

pytestmark = pytest.mark.slow

UPDATE = "--rageval-update-baseline"

TESTS = """
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.rageval_threshold("recall@1", max_drop=0.02)
def test_many(k): pass

@pytest.mark.rageval_threshold("precision@2", max_drop=0.02)
@pytest.mark.rageval_threshold("precision@2", min=0.1)
def test_more(): pass

@pytest.mark.xdist_group("slow")
@pytest.mark.rageval_threshold("ndcg@3", max_drop=0.02, by="topic")
class TestAll:
    def test_one(self): pass

@pytest.mark.rageval_threshold("hit@1", min=0.1)
def test_bound(): pass

def test_own(rageval):
    rageval.score("precision@4", max_drop=0.2)
"""

ORDERLY = """
def pytest_collection_modifyitems(items):
    import os
    if "REVERSED" in os.environ:
        items.reverse()
"""

RERUNS = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for last in (False, True):
        if last:
            item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if not any(report.failed for report in reports):
            last = True
        for report in reports:
            if report.failed and not last:
                report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
        if last:
            break
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True

FAILED = []

@pytest.fixture(scope="session")
def rageval_retriever():
    def flaky(query, k):
        if not FAILED:
            FAILED.append(query)
            raise ConnectionError("the index is being built")
        return search(query, k)
    return flaky
"""


@pytest.fixture
def worse(project):
    """A project whose retriever is worse than its baseline by 7 of 12 questions."""
    project.evalset(12)
    project.policies(pr="small_set_drop = false")
    project.add(ORDERLY)
    project.test(TESTS)
    project.run(UPDATE, passed=6)
    project.good = (project.path / "rageval_baseline.json").read_bytes()
    project.lose(*range(1, 8))
    return project


def _told(project, run, *arguments):
    # Without -v a failure shows less after several failures, of which each worker knows its own.
    run("-v", "--rageval-report=report.json", *arguments)
    tests = project.read()["tests"]
    for test in tests:
        # Times differ from run to run, and the first call of a process has none.
        test["retrieval"] = {
            name: value
            for name, value in test["retrieval"].items()
            if not name.startswith(("latency", "timed"))
        }
        for question in test["questions"]:
            question.pop("seconds", None)
    run(UPDATE, *arguments)
    path = project.path / "rageval_baseline.json"
    written = path.read_bytes()
    path.write_bytes(project.good)
    return tests, written


def test_workers_order_and_reruns_change_nothing(worse, monkeypatch):
    alone = _told(worse, worse.run)
    assert [score["verdict"] for test in alone[0] for score in test["scores"]] == [
        # The questions of each topic are too few to fail at this level.
        *("error", "pass", "fail", "fail", "fail", "pass", "pass")
    ]
    assert alone[1] != worse.good
    assert _told(worse, worse.run) == alone
    # Workers append the xdist group to the node id; the baseline is looked up by the node id without the group.
    assert _told(worse, worse.run_process, "-n2", "--dist=loadgroup") == alone
    monkeypatch.setenv("REVERSED", "1")
    assert _told(worse, worse.run) == alone
    monkeypatch.delenv("REVERSED")
    worse.add(RERUNS)
    assert _told(worse, worse.run) == alone


def _levels(project, run, *arguments):
    run("--rageval-report=report.json", *arguments)
    tests = project.read()["tests"]
    return {
        test["nodeid"].removeprefix("test_it.py::"): round(score["baseline"]["alpha"], 5)
        for test in tests
        for score in test["scores"]
        if score["baseline"]
    }


EVERYTHING = {
    "test_many[1]": 0.00625,
    "test_many[2]": 0.00625,
    "test_more": 0.00625,
    # Two topics are tested jointly.
    "TestAll::test_one": 0.00625,
    "test_own": 0.05,
}


@pytest.mark.parametrize(
    "selected",
    [
        (),
        ("--maxfail=1",),
        ("-k", "many"),
        ("test_it.py::test_more",),
        pytest.param(("-n2", "-k", "many or more"), marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_a_test_has_the_same_level_whatever_is_selected(worse, selected):
    """Each parameter set counts as a test in the correction; a minimum and a call of `rageval.score` do not count."""
    run = worse.run_process if "-n2" in selected else worse.run
    levels = _levels(worse, run, *selected)
    assert levels == {name: EVERYTHING[name] for name in levels}


def test_the_last_failed_are_judged_as_before(worse):
    arguments = [argument for argument in worse.arguments if "cacheprovider" not in argument]

    def run(*more):
        return worse.pytester.runpytest_inprocess(*arguments, *more)

    run("-k", "many or bound").assert_outcomes(failed=2, passed=1, deselected=3)
    assert _levels(worse, run, "--lf") == {"test_many[1]": 0.00625, "test_many[2]": 0.00625}
    result = run("--lf", UPDATE)
    result.stdout.fnmatch_lines(
        ["baseline: * (2 tests written; 3 others kept, since this was not a full run (*--lf*))"]
    )


VERDICTS = """
@pytest.mark.rageval_threshold("recall@1", max_drop=0.02)
def test_default(): pass

@pytest.mark.rageval_threshold("precision@2", max_drop=0.02, policy="snapshot")
@pytest.mark.rageval_threshold("mrr@2", max_drop=0.4, policy="release")
def test_policies(): pass

@pytest.mark.rageval_threshold("ndcg@3", max_drop=0.3, by="topic")
@pytest.mark.rageval_threshold("hit@1", max_drop=0.02, policy="tested")
def test_tested(): pass
"""


def test_a_verdict_is_the_same_alone_with_workers_in_shards_and_in_the_suite(project):
    project.evalset(24)
    project.policies(tested="small_set_drop = false")
    project.test(VERDICTS)
    project.run(UPDATE, passed=3)
    project.lose(3, 8, 14)

    def told(name):
        tests = project.read(name)["tests"]
        return {
            (test["nodeid"], score["spec"]): (score["verdict"], score["reason"])
            for test in tests
            for score in test["scores"]
        }

    project.run("--rageval-report=suite.json")
    suite = told("suite.json")
    assert {verdict for verdict, _ in suite.values()} >= {"pass", "fail", "inconclusive"}
    alone = {}
    for name in ("default", "policies", "tested"):
        project.run("--rageval-report=alone.json", f"test_it.py::test_{name}")
        alone |= told("alone.json")
    assert alone == suite
    project.run_process("--rageval-report=workers.json", "-n2")
    assert told("workers.json") == suite
    names = [f"{n}.json" for n in (1, 2)]
    for n, name in enumerate(names, 1):
        project.run(f"--rageval-shard={n}/2", f"--rageval-report={name}")
    assert main(["merge", *names, "--report=merged.json"]) == 1
    assert told("merged.json") == suite
