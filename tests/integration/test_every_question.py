"""The details of every question in the JSON report, with and without xdist, and which runs collect them."""

import json
import os

import pytest

from tests.docs.test_report_schema import check

pytestmark = pytest.mark.slow

ODD = "\ud800 \x00\x1b]8;;\x07 </script> \u2028 {mark} ümlaut"
"""Half of a surrogate pair, control characters of a terminal, and the end tag of a script."""

CONFTEST = """
import json, os
import pytest
from pytest_rageval import Document, Retrieval, Step

ODD = json.loads(os.environ["ODD"])
LOST = os.environ.get("LOST", "")

@pytest.fixture(scope="session")
def rageval_retriever():
    def search(query, k, *, history, filters):
        n = query.split("item-")[1][0]
        if n == "3":
            raise ValueError(f"no item {n} {ODD}")
        found = [
            Document(f"The code of item-{i} is c{i}x. {ODD}", *([] if i == "1" else [f"doc-{i}"]))
            for i in (n, *"456789")
            if i not in LOST
        ]
        return Retrieval(found[:k], [Step(f"first {ODD}", found[:1]), Step("second", [])])
    return search

@pytest.fixture(scope="session")
def rageval_generator():
    def answer(question, passages):
        return f"{passages[0].text.split()[5]} {ODD}" if passages else "no answer in the documents"
    return answer
"""

TESTS = """
import pytest
pytestmark = pytest.mark.rageval_evalset("evals.jsonl")

@pytest.mark.rageval_threshold("recall@2", max_drop=0.01, policy="release")
@pytest.mark.rageval_threshold("answer.containment@1", min=0.99, max_lost=3)
@pytest.mark.rageval_threshold("erag.p@2", min=0.5, where={"topic": "a"}, label="containment")
@pytest.mark.rageval_threshold("hit@4", min=0.5)
@pytest.mark.rageval_threshold("hit@4", min=0.1, by="odd")
def test_gate(): pass

def test_own(rageval):
    assert rageval.score("mrr@1") > 0
"""

RUN = ("--rageval=max_unscored=0.5", "--rageval=comparator=containment")


@pytest.fixture
def odd(project, monkeypatch):
    monkeypatch.setenv("ODD", json.dumps(ODD))
    records = [
        {
            "id": f"q{n} \x1b",
            "question": f"What is the code of item-{n}? {ODD}",
            "answers": [f"c{n}x"],
            "reference": f"It is c{n}x. {ODD}",
            "gold": [{"text": f"The code of item-{n} is c{n}x. {ODD}"}, {"id": "doc-6", "grade": n % 2}],
            "tags": {"topic": "a" if n < 3 else "b", "odd": ODD},
            "history": [{"role": "user", "content": f"Hello {ODD}"}],
            "filters": {"tenant": ODD},
        }
        for n in range(1, 5)
    ]
    lines = "\n".join(map(json.dumps, records))
    (project.path / "evals.jsonl").write_text(lines, encoding="utf-8")
    project.pytester.makeconftest(CONFTEST)
    project.pytester.makepyfile(test_it=TESTS)
    return project


def _without_times(document):
    for name in ("started", "duration_s"):
        document.pop(name)
    for test in document["tests"]:
        test.pop("retrieval")
        for question in test["questions"]:
            question.pop("seconds", None)
    return document


def test_the_report_is_the_same_from_workers(odd, monkeypatch):
    odd.run(*RUN, "--rageval-update-baseline")
    monkeypatch.setenv("LOST", "2")
    # A failure names the file of the report.
    report = "--rageval-report=out.json"
    odd.run(*RUN, report, failed=1, passed=1)
    alone = _without_times(check(odd.path / "out.json"))
    odd.run_process("-n2", *RUN, report, failed=1, passed=1)
    assert _without_times(check(odd.path / "out.json")) == alone
    gate, own = alone["tests"]
    first, second, third, fourth = gate["questions"]
    assert first["question"] == f"What is the code of item-1? {ODD}"
    assert first["references"] == [["c1x"]]
    assert [passage["text"] for passage in first["retrieved"]] == [
        f"The code of item-{i} is c{i}x. {ODD}" for i in "1456"
    ]
    assert [passage.get("gold") for passage in first["retrieved"]] == [True, None, None, True]
    assert list(first["gold_ranks"].values()) == [1, 4]
    assert [step["query"] for step in first["steps"]] == [f"first {ODD}", "second"]
    assert list(second["gold_ranks"].values()) == [None]
    assert list(second["gold_texts"].values()) == [f"The code of item-2 is c2x. {ODD}"]
    assert third.keys() == first.keys() - {"retrieved", "gold_ranks", "steps", "context_tokens"} | {
        "gold_texts"
    }
    assert [passage["document"] for passage in fourth["retrieved"]] == ["doc-4", "doc-5", "doc-6"]
    recall, contained, labelled, _, sliced = gate["scores"]
    assert sliced["by"]["slices"][0]["value"] == ODD
    lost = recall["examples"][1]
    assert (lost["score"], lost["before"], lost["before_retrieved"]) == (0.0, 1.0, ["doc-2", "doc-4"])
    assert "before" not in recall["examples"][2]
    assert contained["examples"][0]["answer"] == f"c1x. {ODD}"
    assert contained["examples"][1]["before_answer"] == f"c2x. {' '.join(ODD.split())}"
    assert [example["id"] for example in labelled["examples"]] == [first["id"], second["id"]]
    assert len(labelled["examples"][0]["alone"]) == 2
    assert own["questions"][0].keys() == first.keys()
    assert own["questions"][0]["gold_ranks"] == {next(iter(first["gold_ranks"])): 1, "doc-6": None}


PLUGIN = """
from pytest_rageval.core.outcome import Evidence, Outcome

async def length(run, examples, terms):
    rankings = [await run.ranking(example, terms.k) for example in examples]
    pairs = zip(examples, rankings)
    return [Outcome(example, len(ranking), evidence=Evidence(ranking)) for example, ranking in pairs]

def pytest_rageval_register(registry):
    registry.add_score("length", length, scale=None)
"""

HALF = """
def halves(document):
    yield "half"
    1 / 0

def pytest_rageval_register(registry):
    registry.add_report(".half", halves)
"""

KEEPS = """
    def pytest_rageval_register(registry):
        for suffix in {suffixes}:
            registry.add_report(suffix, lambda document: ["a", "b"])

    def pytest_runtest_logreport(report):
        if getattr(report, "rageval", None):
            print("keys:", "questions" in report.rageval)
"""


@pytest.mark.parametrize(
    ("reports", "suffixes", "has_questions"),
    [
        ((), (), False),
        (("out.md",), (), False),
        (("out.md", "out.json"), (), True),
        (("out.html",), (), True),
        (("out.txt",), (".txt",), True),
        (("out.md",), (".md",), True),
    ],
)
def test_only_a_report_that_shows_all_questions_pays_for_them(project, reports, suffixes, has_questions):
    """Details of all questions are collected for JSON, HTML and plugin reports, not for the terminal or Markdown."""
    added = KEEPS.format(suffixes=suffixes).replace("\n    ", "\n")
    project.add(added)
    project.test("def test_own(rageval): assert rageval.score('mrr@2') > 0\n")
    project.run("-s", *(f"--rageval-report={name}" for name in reports), shows=f"*keys: {has_questions}")
    if suffixes:
        assert (project.path / reports[0]).read_text(encoding="utf-8") == "ab"


def test_a_score_that_needs_no_model_has_a_report_where_none_can_be_asked(project, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    project.add(PLUGIN)
    project.test("def test_own(rageval): assert rageval.score('length@2') == 2\n")
    project.run("--rageval-report=out.json", passed=1)
    [test] = check(project.path / "out.json")["tests"]
    assert len(test["questions"]) == 4
    assert "fingerprint" not in test


def test_a_report_that_fails_halfway_leaves_the_old_file(project):
    project.add(HALF)
    project.test("def test_own(rageval): assert rageval.score('mrr@2') > 0\n")
    (project.path / "out.half").write_text("old", encoding="utf-8")
    result = project.run(
        "--rageval-report=out.half",
        "--rageval-report=out.json",
        shows="The report *out.half cannot be written: ZeroDivisionError: *",
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert (project.path / "out.half").read_text(encoding="utf-8") == "old"
    check(project.path / "out.json")
    assert not list(project.path.glob(".rageval-*"))


def test_git_is_asked_only_for_a_report(project, monkeypatch):
    project.test("def test_own(rageval): assert rageval.score('mrr@2') > 0\n")
    folder = project.path / "bin"
    folder.mkdir()
    git = folder / "git"
    git.write_text(f'#!/bin/sh\necho "$@" >> {project.path}/asked.txt\nexit 1\n', encoding="utf-8")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    project.run(passed=1)
    assert not (project.path / "asked.txt").exists()
    project.run("--rageval-report=out.md", passed=1)
    calls = (project.path / "asked.txt").read_text(encoding="utf-8")
    assert "status" in calls
