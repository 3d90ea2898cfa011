"""`--rageval-shard` and `rageval merge`: merged shards have the verdicts of a single run."""

import json
import re
from collections.abc import Sequence
from contextlib import chdir

import pytest

from pytest_rageval.cli import main
from tests.integration.conftest import Project
from tests.integration.test_arena_run import Arena
from tests.llm_server import LLMServer, clerk
from tests.unit.extensions.shards.sharded import without_updates

pytestmark = pytest.mark.slow

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

POLICIES = {"ids": 'cluster = "gold.id"', "beyond": 'burden = "beyond"', "topics": 'cluster = "topic"'}

TESTS = """
@pytest.mark.rageval_threshold("recall@3", min=0.9, max_drop=0.02)
@pytest.mark.rageval_threshold("map@10", min=0.2, where={"topic": ("odd", "none")})
@pytest.mark.rageval_threshold("latency.p50", max=5)
@pytest.mark.rageval_threshold("context.tokens@3", max=5000)
@pytest.mark.rageval_threshold("precision@3", by="topic", max_drop=0.02, policy="ids")
def test_ranking(): pass

@pytest.mark.rageval_threshold("llm_reteval@2", max_drop=0.02)
@pytest.mark.rageval_threshold("answer.f1@2", max_drop=0.02, policy="beyond")
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

OF_ONE_RUN = ("started", "duration_s", "llm", "merge")
OF_RUN = re.compile(
    r"<dd>[^<]*</dd>|<span>[^<]* s</span>|[0-9]+ repl(y|ies): [^`<]*|^- .*[Aa]ccept.*$|accept this drop[^`<]*",
    re.MULTILINE,
)
"""Matches the parts of a page that depend on the run: time, duration, requests, and how to accept drops."""


class Judging(Arena):
    """A scripted model that also judges; only the arena requests long answers from it."""

    def __call__(self, prompt: str) -> str:
        if prompt.startswith("Decide whether ") and " passage" in prompt.splitlines()[0]:
            return "no" if clerk(prompt).startswith("no ") else "yes"
        return super().__call__(prompt)

    def explain(self, prompt: str) -> str:
        return clerk(prompt)


def document(project: Project, name: str, *, times: bool = False) -> dict:
    report = project.read(name)
    for run in report.get("history", ()):
        for key in ("time", *OF_ONE_RUN):
            run.pop(key, None)
    for test in report["tests"]:
        if "message" in test:
            test["message"] = without_updates(test["message"])
        test.pop("notes", None)  # what labels cost
        # The first retrieval of each run is not timed.
        for key in ("timed", *(() if times else ("latency_p50", "latency_p95"))):
            test.get("retrieval", {}).pop(key, None)
        for question in test.get("questions", ()):
            question.pop("seconds", None)
    return {key: value for key, value in report.items() if key not in OF_ONE_RUN}


def merge(project: Project, *arguments: object) -> int:
    with chdir(project.path):
        return main(["merge", *map(str, arguments)])


def run_whole(project: Project, *arguments: str, kinds: Sequence[str] = (".json",)) -> None:
    """Run all questions at once, with reports "whole"; messages name them as those of the merge."""
    project.run(*(f"--rageval-report=merged{kind}" for kind in kinds), *arguments)
    for kind in kinds:
        (project.path / f"merged{kind}").rename(project.path / f"whole{kind}")


def shards(project: Project, number: int, *arguments: str, name: str = "shard") -> list[str]:
    names = []
    for index in range(1, number + 1):
        names.append(f"{name}{index}.json")
        project.run(f"--rageval-shard={index}/{number}", f"--rageval-report={names[-1]}", *arguments)
    return names


def rich(project: Project, llm: LLMServer) -> None:
    llm.model = Judging()
    project.use(llm)
    project.evalset(20, reference="That is a long story.")
    labels = [
        {"question": f"What is thing {n}?", "references": ["tiny"], "prediction": "tiny", "human": True}
        for n in range(6)
    ]
    (project.path / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)), encoding="utf-8")
    project.add(SYSTEMS)
    project.policies(**POLICIES)
    project.test(TESTS)
    project.run("--rageval-update-baseline")
    project.lose(2, 3, 5, 7, 11)


@pytest.mark.parametrize(
    ("number", "arguments"),
    [
        pytest.param(4, (), id="4"),
        pytest.param(2, ("-n2",), id="2, with two workers", marks=pytest.mark.long),
    ],
)
def test_shards_are_one_run(project, llm, number, arguments):
    rich(project, llm)
    run_whole(project)
    names = shards(project, number, *arguments)
    assert merge(project, *reversed(names), "--report", "merged.json", "--report", "merged.md") == 1
    whole = document(project, "whole.json", times=True)
    assert json.dumps(document(project, "merged.json", times=True), indent=1) == json.dumps(whole, indent=1)
    assert {test["outcome"] for test in whole["tests"]} >= {"failed", "passed"}
    assert "recall@3" in (project.path / "merged.md").read_text(encoding="utf-8")


NUGGETS = [{"text": "It has a code", "vital": True}, {"text": "It is one of all things", "vital": False}]

TIMED = """
from pytest_rageval import Retrieval, Step

@pytest.fixture(scope="session")
def rageval_retriever():
    def find(query, k):
        found, n = search(query, k), int(query.split("item-")[1].rstrip("?"))
        return Retrieval(found, steps=[Step(query, found[:1])] * (n % 3), seconds=n / 1000, cost=n / 100)
    return find

@pytest.fixture(scope="session")
def rageval_reference_retriever():
    return lambda query, k: Retrieval(search(query, k), seconds=0.005)
"""


class Panel:
    def __init__(self, llm: LLMServer) -> None:
        self._llm = llm

    def __call__(self, prompt: str) -> str:
        body, n = self._llm.requests[-1], int((re.findall(r"item-(\d+)", prompt) or "0")[0])
        judge = {"a": 1, "b": 2}.get(body["model"], 0)
        call = len(self._llm.requests) if body["temperature"] else 0
        found = clerk(prompt) != "no answer in the documents"
        if prompt.startswith("Label each nugget"):
            return (
                "I cannot."
                if n == 9
                else json.dumps(["support" if found else "not_support", "partial_support"])
            )
        if prompt.startswith("Decide whether passages are enough"):
            return "I do not know" if n == 13 else f"Verdict: {'yes' if found else 'no'}"
        if "Rate how" in prompt:
            return "well, well" if n == 4 else json.dumps({"explanation": "", "grade": 1 + n % 5})
        if "Answer 1:\n" in prompt:
            return f"<rating>{(n + judge) % 3}</rating>"
        if "Answer to " in prompt:
            return "yes" if (n + judge + call) % 3 else "no"
        return "no answer in the documents" if call % 5 == 4 else clerk(prompt)


KINDS = {
    "arena, three judges": (
        [
            "'arena.win@1', min=0.5, max_drop=0.02",
            "'arena.win_tie@1', min=0, by='topic'",
            "'answer.correct@1', min=0.9",
        ],
        ["--rageval=both_orders=true", "--rageval-judge-model=a,b,c"],
    ),
    "nuggets": (
        [
            "'nuggets.coverage@2', min=0.9, max_drop=0.02",
            "'nuggets.ndcg@2', min=0.6, by='topic'",
            "'answer.nuggets@2', min=0.9",
        ],
        [],
    ),
    "context": (
        [
            "'sufficient@3', min=0.99",
            "'answer.correct@3', min=0.9",
            "'answer.em@3', max_drop=0.0",
            "'llm_reteval@3', min=0",
        ],
        [],
    ),
    "repeats, votes": (
        ["'answer.correct@1', min=0.99, max_drop=0.02", "'answer.em@1', min=0.5, draws=2, temperature=0.8"],
        ["--rageval-repeat=3", "--rageval=judge_votes=3"],
    ),
    "ratings, drops": (
        [
            "'judged.correctness@1', min=4.9, max_drop=0.1",
            "'recall@2', max_drop=0.02, policy='topics'",
            "'map@5', max_lost=1",
        ],
        [],
    ),
    "times": (["'latency.p50', max_ratio=1.5", "'latency.p95', max=0.01", "'retrieval.calls', max=1"], []),
}


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_each_kind_are_those_of_one_run(project: Project, llm: LLMServer, kind: str) -> None:
    marks, options = KINDS[kind]
    llm.model = Panel(llm)
    project.use(llm)
    project.evalset(20, reference="That is a long story.", nuggets=NUGGETS)
    project.add(TIMED)
    project.policies(**POLICIES)
    project.test(
        "".join(f"@pytest.mark.rageval_threshold({mark})\n" for mark in marks) + "def test_gate(): pass\n"
    )
    options = [*options, "--rageval=max_unscored=0.5"]
    project.run("--rageval-update-baseline", *options)
    project.lose(2, 3, 5, 7, 11)
    kinds = (".json", ".html", ".md")
    run_whole(project, "--rageval=history=one.jsonl", *options, kinds=kinds)
    names = shards(project, 2, *options)
    reports = [f"--report=merged{kind}" for kind in kinds]
    assert merge(project, *names, *reports, "--history=other.jsonl") == 1
    # With model requests it is random which retrievals are timed, so times are compared only without a model.
    times = kind == "times"
    whole = document(project, "whole.json", times=times)
    assert json.dumps(document(project, "merged.json", times=times), indent=1) == json.dumps(whole, indent=1)
    assert {score["spec"] for score in whole["tests"][0]["scores"]} == {mark.split("'")[1] for mark in marks}
    for path in (project.path / "whole.html", project.path / "whole.md"):
        merged = path.with_stem("merged").read_text(encoding="utf-8")
        assert OF_RUN.sub("", merged) == OF_RUN.sub("", path.read_text(encoding="utf-8"))
    assert "shard 1/2" not in str(whole)


def test_the_agreement_of_the_judge_alone_is_judged_after_the_merge(project: Project, llm: LLMServer) -> None:
    llm.model = lambda _prompt: "yes"
    project.use(llm)
    labels = [
        {"question": f"What is {n}?", "references": ["tiny"], "prediction": "tiny", "human": n < 6}
        for n in range(12)
    ]
    (project.path / "labels.jsonl").write_text("\n".join(map(json.dumps, labels)), encoding="utf-8")
    mark = "@pytest.mark.rageval_calibration('labels.jsonl', min_accuracy={})\n"
    project.pytester.makepyfile(
        test_judge=f"import pytest\n{mark.format(0.9)}def test_judge(): pass\n{mark.format(0.1)}def test_low(): pass\n"
    )
    run_whole(project)
    assert merge(project, *shards(project, 2), "--report=merged.json") == 1
    whole = document(project, "whole.json")
    assert document(project, "merged.json") == whole
    assert [test["outcome"] for test in whole["tests"]] == ["failed", "passed"]
    assert len(llm.requests) == 12


EXPECTED = """
LOW = pytest.mark.rageval_threshold("recall@1", min=0.9)
HIGH = pytest.mark.rageval_threshold("recall@1", min=0.1)

@pytest.mark.xfail(reason="not yet")
@LOW
def test_fails(): pass

@pytest.mark.xfail
@HIGH
def test_passes(): pass

@pytest.mark.xfail(strict=True, reason="not yet")
@LOW
def test_fails_strictly(): pass

@pytest.mark.xfail(strict=True, reason="not yet")
@HIGH
def test_passes_strictly(): pass

@pytest.mark.xfail(raises=ValueError)
@LOW
def test_of_an_exception(): pass

@pytest.mark.xfail(strict=True)
@pytest.mark.rageval_threshold("recal@1", min=0.1)
def test_in_error(): pass
"""


def test_a_failure_that_is_expected_is_expected_in_the_merge(project: Project) -> None:
    project.evalset(12)
    project.test(EXPECTED)
    project.lose(2, 3, 5)
    run_whole(project)
    names = shards(project, 2)
    for name in names:
        outcomes = {test["outcome"] for test in document(project, name)["tests"]}
        assert outcomes == {"passed", "xfailed"}
    assert merge(project, *names, "--report=merged.json") == 1
    whole = document(project, "whole.json")
    assert document(project, "merged.json") == whole
    assert [test["outcome"] for test in whole["tests"]] == [
        *("xfailed", "xfailed", "xfailed", "failed", "passed", "failed")
    ]


def test_a_note_of_all_shards_is_printed_once(project: Project) -> None:
    project.gate("recal@1 min=0.1")
    run_whole(project)
    assert merge(project, *shards(project, 2), "--report=merged.json") == 1
    assert document(project, "merged.json") == document(project, "whole.json")


GATE = """
@pytest.mark.rageval_threshold("llm_reteval@1", max_drop=0.02)
@pytest.mark.rageval_threshold("recall@1", max_drop=0.02)
def test_one(): pass

@pytest.mark.rageval_threshold("mrr@2", max_drop=0.02)
def test_two(): pass
"""


def test_jobs_of_different_tests_are_one_run(project: Project, llm: LLMServer) -> None:
    project.use(llm)
    project.evalset(12)
    project.test(GATE)
    project.run("--rageval-update-baseline")
    project.lose(1, 2, 3, 4, 5, 6, 7, 8)
    run_whole(project)
    for name in ("one", "two"):
        project.run("--rageval-shard=1/1", f"--rageval-report={name}.json", "-k", name)
    assert merge(project, "one.json", "two.json", "--report", "merged.json") == 1
    assert document(project, "merged.json") == document(project, "whole.json")
    assert merge(project, "one.json") == 2
    assert merge(project, "one.json", "--partial") == 1


def test_a_baseline_that_lists_more_than_ran_is_noted(project, capsys):
    project.evalset(20)
    project.test(GATE.replace("llm_reteval", "hit"))
    project.run("--rageval-update-baseline")
    project.test(GATE.replace("llm_reteval", "hit").partition('@pytest.mark.rageval_threshold("mrr')[0])
    names = shards(project, 2)
    capsys.readouterr()
    assert merge(project, *names) == 0
    assert "test_it.py::test_two" in capsys.readouterr().err
    assert merge(project, *names, "--require-baseline") == 1


def test_a_sample_is_compared_over_its_questions(project: Project) -> None:
    project.evalset(60)
    conftest = project.path / "conftest.py"
    source = conftest.read_text(encoding="utf-8").replace("range(1, 21)", "range(1, 61)")
    conftest.write_text(source, encoding="utf-8")
    project.gate("recall@1 max_drop=0.02")
    project.run("--rageval-update-baseline")
    before = (project.path / "rageval_baseline.json").read_bytes()
    result = project.run("--rageval-sample=0.3", "--rageval-report=some.json", passed=1)
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
    names = shards(project, 2, "--rageval-sample=0.3", "--rageval=history=history.jsonl")
    assert not (project.path / "history.jsonl").exists()
    assert merge(project, *names, "--report", "merged.json") == 0
    assert document(project, "merged.json") == document(project, "some.json")
    assert merge(project, *names, "--update-baseline") == 2
