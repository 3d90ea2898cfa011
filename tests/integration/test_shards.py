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

    def explain(self, prompt: str) -> str:
        """As the clerk, but in one sentence for the arena."""
        return clerk(prompt)


def document(project: Project, name: str) -> dict:
    """A report, without what differs between two equal runs."""
    found = json.loads((project.path / name).read_text(encoding="utf-8"))
    for test in found["tests"]:
        # The first retrieval of each run is not timed.
        test.get("retrieval", {}).pop("timed", None)
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
@pytest.mark.parametrize("arguments", [(), ("-n2",)], ids=["alone", "two workers"])
def test_eight_shards_are_one_run(project: Project, llm: LLMServer, arguments: tuple[str, ...]) -> None:
    """The whole report is the same, but for times and costs."""
    rich(project, llm)
    project.run("--rageval-report=whole.json")
    names = shards(project, 8, *arguments)
    assert merge(project, *reversed(names), "--report", "merged.json", "--report", "merged.md") == 1
    whole = document(project, "whole.json")
    assert json.dumps(document(project, "merged.json"), indent=1) == json.dumps(whole, indent=1)
    assert {test["outcome"] for test in whole["tests"]} == {"failed", "passed"}
    assert "recall@3" in (project.path / "merged.md").read_text(encoding="utf-8")
