"""Latency of retrievals: absolute bounds and ratios to a reference retriever, measured by a fake clock."""

import inspect

import pytest

from pytest_rageval.calls import user_code

pytestmark = pytest.mark.slow


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def spend(self, seconds: float) -> None:
        self.now += seconds


SEARCH = """
def timed(name, factor):
    def found(query, k):
        # By the number of the question, up to 1 s.
        user_code.perf_counter.spend(factor * int(query.split("item-")[1].rstrip("?")) / 24)
        return search(query, k)
    return found
"""
RETRIEVERS = {
    "sync": f"{SEARCH}\ndef retriever(factor):\n    return timed('sync', factor)\n",
    "async": f"""{SEARCH}
import asyncio
def retriever(factor):
    found = timed("async", factor)
    async def search_async(query, k):
        await asyncio.sleep(0)
        return found(query, k)
    return search_async
""",
    "langchain": f"""{SEARCH}
from typing import Any
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
class Retriever(BaseRetriever):
    found: Any
    k: int = 5
    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(each["text"], id=each["id"]) for each in self.found(query, self.k)]
def retriever(factor):
    return Retriever(found=timed("langchain", factor))
""",
    "haystack": f"""{SEARCH}
from haystack import Document, component
@component
class Retriever:
    def __init__(self, found):
        self.found = found
    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int = 5):
        return {{"documents": [Document(id=each["id"], content=each["text"]) for each in self.found(query, top_k)]}}
def retriever(factor):
    return Retriever(timed("haystack", factor))
""",
    "llama_index": f"""{SEARCH}
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
class Retriever(BaseRetriever):
    def __init__(self, found):
        super().__init__()
        self.found = found
    def _retrieve(self, query_bundle):
        found = self.found(query_bundle.query_str, 5)
        return [NodeWithScore(node=TextNode(id_=each["id"], text=each["text"])) for each in found]
def retriever(factor):
    return Retriever(timed("llama_index", factor))
""",
}
FIXTURES = """
@pytest.fixture(scope="session")
def rageval_retriever():
    return retriever({})
"""
REFERENCE = """
@pytest.fixture(scope="session")
def rageval_reference_retriever():
    return retriever(1)
"""


@pytest.fixture
def timed(project, monkeypatch):
    monkeypatch.setattr(user_code, "perf_counter", Clock())
    corpus = (project.path / "conftest.py").read_text(encoding="utf-8").partition("@pytest.fixture")[0]
    project.evalset(24)

    def make(factor, kind="sync", reference=REFERENCE):
        head = f"from pytest_rageval.calls import user_code\n{corpus}\n{RETRIEVERS[kind]}"
        project.pytester.makeconftest(f"{head}\n{FIXTURES.format(factor)}\n{reference}")
        return project

    return make


BOUNDS = """
@pytest.mark.rageval_threshold("recall@3", min=0.5)
@pytest.mark.rageval_threshold("latency.p50", max=1.5)
@pytest.mark.rageval_threshold("latency.p95", max=2.5)
def test_bounds(): pass
"""


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_percentiles_of_the_time_are_compared_with_their_bounds(timed, kind):
    """The p50 and p95 of 24 times are the 12th and the 23rd; the report names the statistic."""
    project = timed(3, kind)
    project.test(BOUNDS)
    result = project.run(
        "--rageval-report=out.json",
        failed=1,
        shows=[
            "latency.p95: 2.875 is above the maximum 2.5: 4 of 24 questions are above 2.5",
            "  pass     latency.p50  1.500  ≤ 1.5  24  0.875 to 2.250",
            "  fail     latency.p95  2.875  ≤ 2.5  24  -",
        ],
    )
    # The rankings do not say why a search takes long.
    result.stdout.no_fnmatch_line("Likely cause: *")
    scores = {score["spec"]: score for score in project.read("out.json")["tests"][0]["scores"]}
    assert scores["latency.p95"]["mean"] == pytest.approx(2.875)
    assert scores["latency.p95"]["statistic"] == "p95"
    assert "statistic" not in scores["recall@3"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    ["langchain", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("llama_index", "haystack"))],
)
def test_the_retrievers_of_frameworks_are_timed(timed, kind):
    """Retrievers of frameworks are timed; each runs in a separate process, since the libraries may conflict."""
    project = timed(3, kind)
    project.add(f"{inspect.getsource(Clock)}\nuser_code.perf_counter = Clock()")
    project.test(BOUNDS)
    project.run_process(shows=["  pass     latency.p50  1.500 *", "  fail     latency.p95  2.875 *"])


def test_a_slice_has_the_percentile_of_its_own_times(timed):
    """`where` computes the percentile of the slice's 12 times, and `by` reports the worst slice."""
    project = timed(24)
    project.test(
        "@pytest.mark.rageval_threshold('latency.p50', max=13, by='topic')\n"
        "def test_it(rageval):\n"
        "    score = rageval.score('latency.p50', where={'topic': 'odd'})\n"
        "    assert score == pytest.approx(11)\n"
        "    assert rageval.score('latency.p95').where(topic='odd') == pytest.approx(23)\n"
    )
    project.run(passed=1, shows="*the worst of 2 by topic; then odd 11.000 pass")


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_three_times_the_reference_fails_and_the_same_passes(timed, kind):
    bounds = (
        "@pytest.mark.rageval_threshold('latency.p50', max_ratio=1.2, max=9)\n"
        "@pytest.mark.rageval_threshold('latency.p95', max_ratio=1.2)\n"
        "def test_beside(): pass\n"
    )
    project = timed(3, kind)
    project.test(bounds)
    result = project.run(
        "--rageval-report=out.json",
        failed=1,
        shows=[
            "latency.p50: 1.5 s is 3.000 times the reference's 0.5 s [[]3.000, 3.000], allowed",
            "  1.2: significantly more, as the whole 95% interval is above",
            "*fail * latency.p50 * ≤ 9 ratio ≤ 1.2*",
            "*latency.p95: 3.000 times the reference's 0.958 s [[]3.000, 3.000]",
        ],
    )
    result.stdout.no_fnmatch_line("*for comparison reference*")
    score = project.read("out.json")["tests"][0]["scores"][0]
    assert score["examples"][23]["beside"] == {"reference": pytest.approx(1)}
    assert score["reference"] == {
        "value": pytest.approx(0.5),
        "ratio": pytest.approx(3),
        "interval": [pytest.approx(3)] * 2,
        "n": 24,
    }
    assert score["threshold"]["max_ratio"] == 1.2
    timed(1, kind)
    project.run(passed=1)


def test_score_takes_a_ratio_too(timed):
    project = timed(3)
    project.test(
        "def test_it(rageval):\n"
        "    assert rageval.score('latency.p50', max_ratio=4) == pytest.approx(1.5)\n"
        "    assert rageval.score('latency.p50') == pytest.approx(1.5)\n"
        "    rageval.score('latency.p50', max_ratio=2)\n"
    )
    project.run(failed=1, shows="*latency.p50 3.000 times the reference > 2*")


def test_too_few_questions_show_no_ratio(timed):
    project = timed(3)
    project.evalset(5)
    project.test("@pytest.mark.rageval_threshold('latency.p50', max_ratio=1.2)\ndef test_few(): pass\n")
    project.run(
        passed=1,
        shows="warning: *not significantly more, as 5 examples are too few to show it, at least 6 are needed",
    )
    project.policies(pr='inconclusive = "fail"')
    project.run(failed=1)


def test_a_missing_reference_says_what_to_write(timed):
    project = timed(1, reference="")
    project.test(
        "@pytest.mark.rageval_threshold('latency.p50', max_ratio=1.2)\ndef test_beside(): pass\n"
        "@pytest.mark.rageval_threshold('latency.p50', max=12)\ndef test_alone(): pass\n"
    )
    project.run(
        errors=1,
        passed=1,
        shows=["*There is no fixture rageval_reference_retriever*", "*def rageval_reference_retriever():"],
    )


def test_times_are_not_in_the_baseline(timed):
    project = timed(1)
    project.test(
        "@pytest.mark.rageval_threshold('recall@3', max_drop=0.1)\n"
        "@pytest.mark.rageval_threshold('latency.p50', max=9)\ndef test_it(): pass\n"
    )
    project.run("--rageval-update-baseline", passed=1)
    text = (project.path / "rageval_baseline.json").read_text(encoding="utf-8")
    assert "recall@3" in text
    assert "latency" not in text
    assert "seconds" not in text


def test_what_retrievals_take_is_reported_without_a_threshold(timed):
    """Latency, calls and context tokens are in the JSON report and, with -v, below the table."""
    project = timed(24)
    project.test("@pytest.mark.rageval_threshold('recall@3', min=0.5)\ndef test_it(): pass\n")
    result = project.run("--rageval-report=out.json", "-v")
    times = "a retrieval takes 13 s (p50), 23 s (p95) over 23 of 24"
    result.stdout.fnmatch_lines([f"test_it.py::test_it: {times}, 1 call, * tokens of context at 3"])
    retrieval = project.read("out.json")["tests"][0]["retrieval"]
    assert retrieval | {"context_tokens": 0} == {
        "k": 3,
        "questions": 24,
        "timed": 23,
        "latency_p50": pytest.approx(13),
        "latency_p95": pytest.approx(23),
        "context_tokens": 0,
        "calls": 1.0,
        "cost": None,
    }
    assert retrieval["context_tokens"] > 20
    project.run().stdout.no_fnmatch_line("*a retrieval takes*")


def test_concurrent_retrievals_are_reported_without_a_time(timed):
    """Concurrent retrievals have no reported time, since they slow each other down."""
    project = timed(1, "async")
    project.test("@pytest.mark.rageval_threshold('recall@3', min=0.5)\ndef test_it(): pass\n")
    project.run("-v", shows="test_it.py::test_it: a retrieval takes 1 call, * tokens of context at 3")


def test_a_recorded_run_has_no_time(timed):
    project = timed(1)
    (project.path / "a.run").write_text(
        "".join(f"q{n} Q0 doc-{n} 1 1.0 mine\n" for n in range(1, 25)), encoding="utf-8"
    )
    project.pytester.makeconftest(
        """
        import pytest
        from pytest_rageval import TrecRun, load
        @pytest.fixture(scope="session")
        def rageval_retriever():
            return TrecRun("a.run", load("evals.jsonl"))
        """
    )
    project.test("@pytest.mark.rageval_threshold('latency.p50', max=1)\ndef test_it(): pass\n")
    project.run(errors=1, shows="*24 × the recorded rankings do not have the duration of the retrieval *")
