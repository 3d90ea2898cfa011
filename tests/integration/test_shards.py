"""`--rageval-shard` and `rageval merge`: a run in parts is judged as a run in one."""

import json
import os
from pathlib import Path

import pytest

from pytest_rageval.cli import main
from tests.integration.conftest import Project
from tests.integration.test_arena_run import Arena
from tests.llm_server import LLMServer, clerk

SYSTEMS = """
from pytest_rageval import Retrieval

@pytest.fixture(scope="session", params=["good", "odd"])
def rageval_retriever(request):
    def find(query, k):
        found = search(query, k + 1)
        odd = request.param == "odd" and len(query) % 2
        return Retrieval(found[1:] if odd else found[:k], seconds=len(query) / 1000)
    return find
"""

TESTS = """
@pytest.mark.rageval_threshold("recall@3", min=0.9, max_drop=0.02)
@pytest.mark.rageval_threshold("map@10", min=0.2, where={"topic": ("odd", "none")})
@pytest.mark.rageval_threshold("latency.p50", max=5)
@pytest.mark.rageval_threshold("context.tokens@3", max=5000)
@pytest.mark.rageval_threshold("precision@3", by="topic", max_drop=0.02, cluster="gold.id")
def test_ranking(): pass

@pytest.mark.rageval_threshold("llm_reteval@2", max_drop=0.02)
@pytest.mark.rageval_threshold("answer.f1@2", max_drop=0.02, burden="beyond")
@pytest.mark.rageval_threshold("answer.correct@2", min=0.3, comparator="judge or em")
@pytest.mark.rageval_threshold("sufficient@2", min=0.1)
@pytest.mark.rageval_threshold("udcg@2", min=0.1)
@pytest.mark.rageval_threshold("erag.map@10", min=0.1)
@pytest.mark.rageval_threshold("rel.answer@2", min=0.0)
@pytest.mark.rageval_calibration("labels.jsonl", min_accuracy=0.1)
def test_answers(): pass

@pytest.mark.rageval_threshold("arena.win@1", min=0)
@pytest.mark.rageval_threshold("arena.win_tie@1", min=0, by="topic")
def test_arena(): pass

def test_nothing(rageval):
    assert rageval.retrieve("What is item-3?", k=1)
"""

OF_ONE_RUN = ("started", "duration_s", "llm")


class Judging(Arena):
    """The scripted model, which judges too; it is asked for long answers by the arena alone."""

    def __call__(self, prompt: str) -> str:
        """Also yes or no for passages that hold the code or do not."""
        if prompt.startswith("Decide whether ") and " passage" in prompt.splitlines()[0]:
            return "no" if clerk(prompt).startswith("no ") else "yes"
        return super().__call__(prompt)

    def explain(self, prompt: str) -> str:
        """As the clerk, but in one sentence for the arena."""
        return clerk(prompt)


def document(project: Project, name: str, *, times: bool = False) -> dict:
    """A report, without what differs between two equal runs; with `times` where the retriever says them."""
    found = json.loads((project.path / name).read_text(encoding="utf-8"))
    for test in found["tests"]:
        # The first retrieval of each run is not timed.
        for key in ("timed", *(() if times else ("latency_p50", "latency_p95"))):
            test.get("retrieval", {}).pop(key, None)
        for question in test.get("questions", ()):
            question.pop("seconds", None)
    return {key: value for key, value in found.items() if key not in OF_ONE_RUN}


def merge(project: Project, *arguments: object) -> int:
    """Run the command in the project."""
    here = Path.cwd()
    os.chdir(project.path)
    try:
        return main(["merge", *map(str, arguments)])
    finally:
        os.chdir(here)


def shards(project: Project, number: int, *arguments: str, name: str = "shard") -> list[str]:
    """Run all shards; return the names of their reports."""
    names = []
    for index in range(1, number + 1):
        names.append(f"{name}{index}.json")
        project.run(f"--rageval-shard={index}/{number}", f"--rageval-report={names[-1]}", *arguments)
    return names


def rich(project: Project, llm: LLMServer) -> None:
    """Scores of all kinds, with a baseline from which the retriever falls."""
    llm.model = Judging()
    project.use(llm)
    project.evalset(20, reference="That is a long story.")
    labels = [
        {"question": f"What is thing {n}?", "references": ["tiny"], "prediction": "tiny", "human": True}
        for n in range(6)
    ]
    (project.path / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)), encoding="utf-8")
    conftest = project.path / "conftest.py"
    conftest.write_text(conftest.read_text(encoding="utf-8") + SYSTEMS, encoding="utf-8")
    project.test(TESTS)
    project.run("--rageval-update-baseline")
    project.lose(2, 3, 5, 7, 11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        pytest.param(8, (), id="8"),
        pytest.param(2, ("-n2",), id="2, with two workers", marks=pytest.mark.long),
    ],
)
def test_shards_are_one_run(
    project: Project, llm: LLMServer, number: int, arguments: tuple[str, ...]
) -> None:
    """The whole report is the same, but for times and costs."""
    rich(project, llm)
    project.run("--rageval-report=whole.json")
    names = shards(project, number, *arguments)
    assert merge(project, *reversed(names), "--report", "merged.json", "--report", "merged.md") == 1
    whole = document(project, "whole.json", times=True)
    assert json.dumps(document(project, "merged.json", times=True), indent=1) == json.dumps(whole, indent=1)
    assert {test["outcome"] for test in whole["tests"]} == {"failed", "passed"}
    assert "recall@3" in (project.path / "merged.md").read_text(encoding="utf-8")


GATE = """
@pytest.mark.rageval_threshold("llm_reteval@1", max_drop=0.02)
@pytest.mark.rageval_threshold("recall@1", max_drop=0.02)
def test_one(): pass

@pytest.mark.rageval_threshold("mrr@2", max_drop=0.02)
def test_two(): pass
"""


@pytest.mark.slow
def test_a_merge_writes_baseline_and_cassette_as_one_run_would(project: Project, llm: LLMServer) -> None:
    """To the byte; the shards write neither."""
    project.use(llm)
    project.evalset(12)
    project.test(GATE)
    record = ("--rageval-record", "--rageval-cassette=replies.jsonl")
    project.run("--rageval-update-baseline", *record)
    baseline, cassette = project.path / "rageval_baseline.json", project.path / "replies.jsonl"
    whole = baseline.read_bytes(), cassette.read_bytes()
    baseline.unlink()
    cassette.unlink()
    names = shards(project, 3, *record)
    assert not baseline.exists()
    assert not cassette.exists()
    assert merge(project, *names, "--update-baseline", "--cassette", "replies.jsonl") == 0
    assert (baseline.read_bytes(), cassette.read_bytes()) == whole


@pytest.mark.slow
def test_jobs_of_different_tests_are_one_run(project: Project, llm: LLMServer) -> None:
    """As those of a plugin that splits tests; a job that is missing is an error."""
    project.use(llm)
    project.evalset(12)
    project.test(GATE)
    project.run("--rageval-update-baseline")
    project.lose(1, 2, 3, 4, 5, 6, 7, 8)
    project.run("--rageval-report=whole.json")
    for name in ("one", "two"):
        project.run("--rageval-shard=1/1", f"--rageval-report={name}.json", "-k", name)
    assert merge(project, "one.json", "two.json", "--report", "merged.json") == 1
    assert document(project, "merged.json") == document(project, "whole.json")
    assert merge(project, "one.json") == 2
    assert merge(project, "one.json", "--partial") == 1


@pytest.mark.slow
def test_a_baseline_that_lists_more_than_ran_is_noted(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a full run; where it is required, it fails the merge."""
    project.test(GATE.replace("llm_reteval", "hit"))
    project.run("--rageval-update-baseline")
    project.test(GATE.replace("llm_reteval", "hit").partition('@pytest.mark.rageval_threshold("mrr')[0])
    names = shards(project, 2)
    capsys.readouterr()
    assert merge(project, *names) == 0
    assert "test_it.py::test_two" in capsys.readouterr().err
    assert merge(project, *names, "--require-baseline") == 1


@pytest.mark.slow
def test_a_sample_is_compared_over_its_questions(project: Project) -> None:
    """The report says that it is one; questions outside are neither asked nor missed."""
    project.evalset(60)
    conftest = project.path / "conftest.py"
    source = conftest.read_text(encoding="utf-8").replace("range(1, 21)", "range(1, 61)")
    conftest.write_text(source, encoding="utf-8")
    project.test('@pytest.mark.rageval_threshold("recall@1", max_drop=0.02)\ndef test_gate(): pass\n')
    project.run("--rageval-update-baseline")
    before = (project.path / "rageval_baseline.json").read_bytes()
    result = project.run("--rageval-sample=0.3", "--rageval-report=some.json")
    result.assert_outcomes(passed=1)
    (test,) = document(project, "some.json")["tests"]
    n = test["evalset"]["size"]
    assert 5 < n < 40
    assert (test["evalset"]["sample"], test["evalset"]["of"]) == (0.3, 60)
    (score,) = test["scores"]
    assert (score["baseline"]["n"], score["baseline"]["left_out"]) == (n, 0)
    assert "warnings" not in score
    result.stdout.fnmatch_lines([f"test_it.py::test_gate  (evals.jsonl, {n} of 60, sample 0.3)"])
    again = project.run("--rageval-sample=0.3", "--rageval-update-baseline")
    assert again.ret == pytest.ExitCode.USAGE_ERROR
    again.stderr.fnmatch_lines(["*--rageval-update-baseline writes the scores of all questions*"])
    assert (project.path / "rageval_baseline.json").read_bytes() == before
    names = shards(project, 2, "--rageval-sample=0.3", "--rageval-history=history.jsonl")
    assert not (project.path / "history.jsonl").exists()
    assert merge(project, *names, "--report", "merged.json") == 0
    assert document(project, "merged.json") == document(project, "some.json")
    assert merge(project, *names, "--update-baseline") == 2
