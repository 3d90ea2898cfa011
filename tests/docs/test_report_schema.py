"""Real reports conform to the published schema and have no undocumented keys."""

import copy
import json
import lzma
from importlib.resources import files

import pytest
from jsonschema import Draft202012Validator

from tests.docs.pages import ROOT
from tests.foreign_plugins import WITHOUT
from tests.llm_server import clerk

pytestmark = pytest.mark.slow

SCHEMA = json.loads((files("pytest_rageval") / "report.schema.json").read_text(encoding="utf-8"))
REPORTS = sorted((ROOT / "tests" / "golden").glob("*/expected/*[0-9].json*"))
"""The reports that `tests/golden` compares byte for byte, among them those of the example and of early stops."""

CONFTEST = """
import pytest

CORPUS = {f"doc-{n}": f"Of all things, item-{n} has the code c{n}x." for n in range(1, 21)}

@pytest.fixture(scope="session", params=["good", "bad"])
def rageval_retriever(request):
    def search(query, k):
        wanted = query.split("item-")[1].rstrip("?")
        if request.param == "bad" and wanted in "13":
            wanted = "20"
        ranked = sorted(CORPUS, key=lambda name: (name != f"doc-{wanted}", name))
        return [{"id": name, "text": CORPUS[name]} for name in ranked[:k]]
    return search
"""

REFERENCE = """
@pytest.fixture(scope="session")
def rageval_reference_retriever():
    return lambda query, k: list(CORPUS)[:k]
"""

TESTS = """
import pytest

pytestmark = pytest.mark.rageval_evalset("evals.jsonl")

@pytest.mark.rageval_threshold("recall@1", min=0.2, max_drop=0.02, policy="total")
@pytest.mark.rageval_threshold("recall@1", max_drop=0.3, policy="release")
@pytest.mark.rageval_threshold("recall@1", max=0.4)
@pytest.mark.rageval_threshold("latency.p50", max_ratio=1e6, by="topic")
@pytest.mark.rageval_threshold("recall@1", min=0.9, by="topic")
@pytest.mark.rageval_threshold("answer.correct@1", min=0.1, where={"topic": ["odd", "even"]}, comparator="judge or em")
@pytest.mark.rageval_threshold("llm_reteval@1", min=0.9)
@pytest.mark.rageval_threshold("erag.p@2", min=0.9, label="f1")
@pytest.mark.rageval_threshold("rel_recall.citation@2", min=0.1, order="random")
@pytest.mark.rageval_threshold("rel.citation@2", min=0.1, order="random")
@pytest.mark.rageval_threshold("rel.coverage@2", min=0.1, order="random")
@pytest.mark.rageval_threshold("rel.citation_precision@2", min=0.9, relevant="contains")
@pytest.mark.rageval_threshold("arena.win@1", min=0.1)
@pytest.mark.rageval_threshold("judged.correctness@1", min=4.5)
@pytest.mark.rageval_threshold("sufficient@1", min=0.1)
@pytest.mark.rageval_threshold("udcg@2", min=0.1)
@pytest.mark.rageval_threshold("answer.containment@1", min=0.0, temperature=0.7, draws=2)
@pytest.mark.rageval_calibration("labels.jsonl", min_kappa=0.9)
@pytest.mark.rageval_calibration("pairs.jsonl")
def test_many(rageval):
    pass

def test_agreement(rageval):
    rageval.agreement(ks=(1, 2))

@pytest.mark.rageval_threshold("recall@1", min=85)
def test_error(): pass

@pytest.mark.xfail
@pytest.mark.rageval_threshold("recall@1", min=1.0, max=1.0)
def test_expected(): assert False

@pytest.mark.skip(reason="not today")
def test_skipped(rageval): pass
"""


def strict(schema):
    closed = copy.deepcopy(schema)

    def close(part):
        if isinstance(part, dict):
            if "properties" in part:
                part.setdefault("additionalProperties", False)
            for subschema in part.values():
                close(subschema)
        elif isinstance(part, list):
            for subschema in part:
                close(subschema)

    close(closed)
    return closed


def check(path):
    """Check that a report conforms to the schema and has no undocumented keys; return the report."""
    report = json.loads(path.read_text(encoding="utf-8"))
    for schema in (SCHEMA, strict(SCHEMA)):
        errors = [
            f"{error.json_path}: {error.message}"
            for error in Draft202012Validator(schema).iter_errors(report)
        ]
        assert not errors, "\n".join(errors[:10])
    return report


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: f"{path.parents[1].name}-{path.name}")
def test_the_reports_of_whole_runs_conform(path, tmp_path):
    report = tmp_path / "report.json"
    report.write_bytes(lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes())
    assert check(report)["tests"]


def _says(prompt):
    if "<rating>" in prompt:
        return "The second is fuller. <rating>2</rating>"
    if "JSON object" in prompt:
        return '{"explanation": "All of it is right.", "grade": 4}'
    if "List all answers" in prompt:
        return f"{clerk(prompt)} [1][7]"
    if prompt.startswith("Decide whether passages are enough"):
        return "Verdict: yes"
    if "Is the passage relevant?" in prompt:
        return "yes"
    return clerk(prompt)


def test_a_report_with_everything_in_it(pytester, monkeypatch, llm):
    llm.model = _says
    monkeypatch.setenv("OPENAI_BASE_URL", llm.url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    records = [
        {
            "id": f"q{n}",
            "question": f"What is the code of item-{n}?",
            "answers": [f"c{n}x"],
            "reference": f"It is c{n}x.",
            "gold": [{"id": f"doc-{n}", "text": f"Of all things, item-{n} has the code c{n}x."}]
            if n < 8
            else [],
            "tags": {"topic": "odd" if n % 2 else "even"},
            "answr": 1,
        }
        for n in range(1, 9)
    ]
    labels = [
        {
            "question": f"What is item-{n}?",
            "references": [f"c{n}x"],
            "prediction": f"c{n}x" if n % 2 else "no",
            "human": [n % 2, n % 3 == 0],
        }
        for n in range(1, 9)
    ]
    pairs = [
        {"question": f"What is {n}?", "first": f"a{n}", "second": f"b{n}", "human": 1 + n % 2}
        for n in range(8)
    ]
    for name, lines in (("evals", records), ("labels", labels), ("pairs", pairs)):
        (pytester.path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    pytester.makeconftest(CONFTEST + REFERENCE)
    pytester.makepyfile(test_it=TESTS)
    pytester.makepyprojecttoml("[tool.rageval.policy.total]\nmax_total_drop = 0.05\n")
    run = (
        *WITHOUT,
        "--rageval-model=m1",
        "--rageval=max_unscored=0.5",
        "--rageval-repeat=2",
        "--rageval=judge_votes=3",
    )
    pytester.runpytest_inprocess(
        *run, "--rageval-update-baseline", "--rageval-pin-baseline", "-k", "many and good"
    )
    baseline = pytester.path / "rageval_baseline.json"
    baseline.write_text(baseline.read_text(encoding="utf-8").replace("[good]", "[bad]"), encoding="utf-8")
    added = ("--rageval=both_orders=true", "--rageval=history=history.jsonl", "--rageval-report=out.json")
    pytester.runpytest_inprocess(*run, *added, "--rageval=arena_pairs=5")
    report = check(pytester.path / "out.json")
    scores = [score for test in report["tests"] for score in test["scores"]]
    missing = set(SCHEMA["$defs"]["score"]["properties"]) - {key for score in scores for key in score}
    # These rare keys are covered by tests of their own.
    assert missing <= {"canary", "corrected", "domains", "early_stop", "partly_scored"}
    examples = [example for score in scores for example in score["examples"]]
    missing = set(SCHEMA["$defs"]["example"]["properties"]) - {key for example in examples for key in example}
    assert missing <= {"before_answer", "early_stop", "remark", "retrieved", "undefined"}
    questions = [question for test in report["tests"] for question in test.get("questions", ())]
    missing = set(SCHEMA["$defs"]["evaluated"]["properties"]) - {
        key for question in questions for key in question
    }
    assert missing <= {"history", "filters", "steps", "gold_texts"}
    prompts = {name for test in report["tests"] for name in test.get("prompts", ())}
    assert prompts >= {"generate", "cite", "explain", "compare", "prefer", "rate correctness"}
    assert report["matrix"]
    assert report["ratings"][0]["pairs"][-1]["battles"] == 5
    assert any(test.get("battles") for test in report["tests"])
    assert len(report["history"]) == 1
    assert {"function", "system", "own"} - {key for test in report["tests"] for key in test} <= {"own"}
    assert {test["outcome"] for test in report["tests"]} >= {"failed", "error", "skipped", "xfailed"}
