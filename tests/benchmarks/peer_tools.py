"""The tools that `peers.py` compares with this package, and a script for each that evaluates the same examples.

An example is a question with three passages. It needs one generated answer and one verdict on it, or the closest
equivalent of a tool. DeepEval, RAGAS and rag-ci leave the answers to the user: `COMMON` and the adapter of rag-ci
generate them and store them in a file, so that a second run sends only the requests that the tool itself does not
cache.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.benchmarks.venvs import ROOT

# The replies that the judges of the tools parse, by a text that occurs in the judge's prompt.
VERDICTS: Final = {
    "**Example JSON:**": {"reason": "the same", "score": 10},
    '"classifications"': {"classifications": [{"statement": "s", "reason": "r", "attributed": 1}]},
    "Retrieved passages:": {"claims": [{"text": "t", "supported": True, "supporting_chunk": 0}]},
}

COMMON = """
import asyncio, json
from pathlib import Path

MODEL = "gpt-4o-mini"
EXAMPLES = [json.loads(line) for line in Path("evals.jsonl").read_text(encoding="utf-8").splitlines()]

def passages(question):
    n = int(question.split("item-")[1].rstrip("?"))
    return [f"Of all things, item-{i} has the code c{i}x." for i in range(n, n + 3)]

def prompt(question):
    return "\\n".join(["Answer from the passages.", *passages(question), "", question])

async def generated():
    from openai import AsyncOpenAI
    limit = asyncio.Semaphore(20)
    async with AsyncOpenAI() as client:
        async def one(example):
            async with limit:
                try:
                    reply = await client.chat.completions.create(
                        model=MODEL, messages=[{"role": "user", "content": prompt(example["question"])}])
                except Exception:
                    return None
                return reply.choices[0].message.content
        return await asyncio.gather(*map(one, EXAMPLES))

def answered():
    kept = Path("answers.json")
    answers = json.loads(kept.read_text()) if kept.exists() else asyncio.run(generated())
    kept.write_text(json.dumps(answers))
    return [(example, answer) for example, answer in zip(EXAMPLES, answers) if answer is not None]
"""

DEEPEVAL = """
from common import MODEL, answered, json, passages
from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import GEval
from deepeval.test_case import LLMTestCase, SingleTurnParams

correct = GEval(
    name="Correctness", model=MODEL,
    evaluation_steps=["Check whether the actual output agrees with the expected output."],
    evaluation_params=[SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT, SingleTurnParams.EXPECTED_OUTPUT])
cases = [LLMTestCase(input=example["question"], actual_output=answer, expected_output=example["answers"][0],
                     retrieval_context=passages(example["question"])) for example, answer in answered()]
found = evaluate(
    cases, [correct], async_config=AsyncConfig(max_concurrent=20),
    cache_config=CacheConfig(write_cache=True, use_cache=True), error_config=ErrorConfig(ignore_errors=True),
    display_config=DisplayConfig(show_indicator=False, print_results=False, inspect_after_run=False))
print(sum(bool(result.metrics_data) and result.metrics_data[0].score is not None for result in found.test_results))
"""

RAGAS = """
from common import MODEL, answered, passages
from openai import AsyncOpenAI
from ragas import EvaluationDataset, RunConfig, SingleTurnSample, evaluate
from ragas.cache import DiskCacheBackend
from ragas.llms import llm_factory
from ragas.metrics import LLMContextRecall

samples = [SingleTurnSample(user_input=example["question"], response=answer, reference=example["answers"][0],
                            retrieved_contexts=passages(example["question"])) for example, answer in answered()]
found = evaluate(
    EvaluationDataset(samples), metrics=[LLMContextRecall()], run_config=RunConfig(max_workers=20),
    llm=llm_factory(MODEL, client=AsyncOpenAI(), cache=DiskCacheBackend()), show_progress=False)
found.to_pandas().to_csv("report.csv")
print(sum(score["context_recall"] == score["context_recall"] for score in found.scores))
"""

RAGAS_MEASURES = """
import asyncio, json
from pathlib import Path
from ragas import EvaluationDataset, SingleTurnSample, evaluate
from ragas.metrics import IDBasedContextRecall

examples = [json.loads(line) for line in Path("evals.jsonl").read_text(encoding="utf-8").splitlines()]
samples = [SingleTurnSample(retrieved_context_ids=[f"doc-{i}" for i in range(n, n + 3)],
                            reference_context_ids=[example["gold"][0]["id"]]) for n, example in enumerate(examples)]
found = evaluate(EvaluationDataset(samples), metrics=[IDBasedContextRecall()], show_progress=False)
found.to_pandas().to_csv("report.csv")
print(sum(score["id_based_context_recall"] == 1 for score in found.scores))
"""

INSPECT = """
from common import EXAMPLES, MODEL, prompt
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.scorer import model_graded_qa
from inspect_ai.solver import generate

samples = [Sample(input=prompt(example["question"]), target=example["answers"][0]) for example in EXAMPLES]
[log] = eval(Task(dataset=samples, solver=generate(), scorer=model_graded_qa()), model=f"openai/{MODEL}",
             max_connections=20, cache=True, display="none", fail_on_error=False)
print(sum(bool(sample.scores) for sample in log.samples or []))
"""

RAG_CI = """
from common import MODEL, Path, json, passages, prompt
from ragci.contract import Answer, Chunk, RetrievalTrace, Step, adapter

@adapter(primary_metric="recall@3")
class Rag:
    def retrieve(self, query, index, config):
        n = int(query.split("item-")[1].rstrip("?"))
        chunks = [Chunk(text=text, doc_id=f"doc-{n + i}", char_start=0, char_end=len(text))
                  for i, text in enumerate(passages(query))]
        return RetrievalTrace(steps=[Step(query=query, chunks=chunks)])

    async def answer(self, query, trace, config):
        kept = Path("answers.jsonl")
        self.known = getattr(self, "known", None) or dict(
            json.loads(line) for line in (kept.read_text().splitlines() if kept.exists() else []))
        if query not in self.known:
            from openai import AsyncOpenAI
            self.client = getattr(self, "client", None) or AsyncOpenAI()
            reply = await self.client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": prompt(query)}])
            self.known[query] = reply.choices[0].message.content
            with kept.open("a") as file:
                file.write(json.dumps([query, self.known[query]]) + "\\n")
        return Answer(text=self.known[query])
"""

PYTEST: Final = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
OURS: Final = (*PYTEST, "test_gate.py", "--rageval-model=gpt-4o-mini", "--rageval=concurrency=20")
RAG_CI_RUN: Final = ("-c", "from ragci.cli import app; app()", "run", "--concurrency=20")


def count_own_scores(folder: Path, _: str) -> int:
    [score] = json.loads((folder / "run.json").read_text(encoding="utf-8"))["tests"][0]["scores"]
    return int(score["n"])


def count_rag_ci_scores(folder: Path, _: str) -> int:
    record = json.loads((folder / ".ragci" / "run.json").read_text(encoding="utf-8"))
    return sum("faithfulness" in result["scores"] for result in record["case_results"])


@dataclass(frozen=True, eq=False)
class Peer:
    """A tool, and the commands that evaluate the examples with it.

    Attributes:
        name: the name in the table.
        package: the package whose version is printed.
        packages: the packages that pip installs.
        requests: the requests for one example, as text.
        command: arguments of Python for a run with verdicts.
        measures: arguments of Python for a run without a model; empty if the tool cannot compute recall.
        files: files that are written into the folder of a run, by name.
        plugin: whether the tool has pytest plugins.
        imports: the import statements of a user of the tool; empty if imports are not measured.
        scored: returns the number of examples with a score, from the folder of a run and the output of the run.
        python: the oldest version of Python that the tool supports.
    """

    name: str
    package: str
    packages: tuple[str, ...]
    requests: str
    command: tuple[str, ...]
    measures: tuple[str, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    plugin: bool = False
    imports: str = ""
    scored: Callable[[Path, str], int] = lambda _, printed: int(printed.split()[-1])
    python: tuple[int, int] = (3, 11)


PEERS: Final = (
    Peer(
        "ours",
        "pytest-rageval",
        (str(ROOT),),
        "answer.correct@3: answer, verdict",
        (*OURS, "--rageval-report=run.json"),
        (*OURS, "--rageval-report=run.json"),
        plugin=True,
        scored=count_own_scores,
    ),
    Peer(
        "DeepEval",
        "deepeval",
        ("deepeval",),
        "answer by own code, GEval with given steps",
        ("deepeval_run.py",),
        files={"deepeval_run.py": DEEPEVAL},
        plugin=True,
        imports="from deepeval import evaluate; from deepeval.metrics import GEval",
    ),
    Peer(
        "RAGAS",
        "ragas",
        # Later releases of langchain-community lack a module that this one imports.
        ("ragas", "langchain-community<0.4.2"),
        "answer by own code, LLMContextRecall",
        ("ragas_run.py",),
        ("ragas_measures.py",),
        files={"ragas_run.py": RAGAS, "ragas_measures.py": RAGAS_MEASURES},
        imports="from ragas import evaluate; from ragas.metrics import LLMContextRecall",
    ),
    Peer(
        "Inspect",
        "inspect-ai",
        ("inspect-ai", "openai"),
        "generate(), model_graded_qa()",
        ("inspect_run.py",),
        files={"inspect_run.py": INSPECT},
        imports="from inspect_ai import Task, eval; from inspect_ai.scorer import model_graded_qa",
    ),
    Peer(
        "rag-ci",
        "rag-ci",
        ("rag-ci[generate]", "openai"),
        "answer by own code, --judge",
        (*RAG_CI_RUN, "--judge"),
        RAG_CI_RUN,
        files={"ragci_adapter.py": RAG_CI},
        imports="import ragci.cli",
        scored=count_rag_ci_scores,
        python=(3, 12),
    ),
)
