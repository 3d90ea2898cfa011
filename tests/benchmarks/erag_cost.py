"""The cost of labelling passages one at a time: `python tests/benchmarks/erag_cost.py [QUESTIONS]`.

Salemi and Zamani (2024) compare the time and the memory of eRAG with those of scoring the whole ranking (Table 2), with
50 passages. Here the embedded model answers the first QUESTIONS (default: 3) of ms_marco_400, BM25 searches the
passages of 100 queries, and answers are compared in canonical form. Three methods score k = 5, 10 and 20 passages:

- eRAG: one answer from each passage alone;
- one prompt: one answer from all k passages, which scores the ranking but labels no passage;
- leave one out: one answer from all k passages, and one from all passages except one, for each passage. This is how the
  method "one prompt" can label passages.

Each method runs with an empty cache, and again after the ranking changed: a new passage has rank 2, and the last one is
missing. The script prints the number of requests, the prompt tokens, the elapsed seconds, the processor seconds of the
model's process, which depend less on other load than the elapsed seconds, its peak memory, and the mean number of
tokens per prompt. The caches are deleted.
"""

import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from os import sysconf
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.evalset import EvalSet, Example
from pytest_rageval.core.ranking import Document
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.extensions.providers.embedded import EmbeddedServer
from pytest_rageval.models import DefaultGenerator
from pytest_rageval.options.settings import Settings
from pytest_rageval.retrievers.bm25 import BM25Retriever
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session
from pytest_rageval.scores.pipeline import Pipeline
from tests.benchmarks.real_data import ms_marco_pools, say

KS = (5, 10, 20)
POOLS = 100

Search = Callable[[str, int], list[Document]]
Evaluate = Callable[[Session, Components, EvalSet, int], None]


class Cost(NamedTuple):
    requests: int
    tokens: int
    seconds: float
    processor: float
    memory: float

    def cells(self) -> str:
        numbers = self.seconds, self.processor, self.memory, self.tokens / max(self.requests, 1)
        return f"{self.requests:8} {self.tokens:8} {{:8.1f}} {{:8.1f}} {{:8.0f}} {{:10.0f}}".format(*numbers)


def score_method(spec: str) -> Evaluate:
    def evaluate(session: Session, components: Components, evalset: EvalSet, k: int) -> None:
        request = ScoreRequest(f"{spec}@{k}", comparator="canonical")
        score = session.evaluator.score(components, evalset, [request])[request]
        if isinstance(score, RagevalError):
            raise score

    return evaluate


def leave_one_out(session: Session, components: Components, evalset: EvalSet, k: int) -> None:
    """Generate and compare the answers from all passages, and from all passages except one."""
    pipeline = session.pipelines.get(components)

    async def compare_answers(example: Example) -> None:
        documents = (await pipeline.ranking_with_texts(example, k)).documents
        for left_out in (None, *documents):
            answer = await pipeline.answer_from(
                example.full_question, [document for document in documents if document is not left_out]
            )
            await pipeline.compare(example.full_question, example.answers, answer, "canonical")

    for example in evalset:
        session.loop.run(compare_answers(example))


METHODS: dict[str, Evaluate] = {
    "eRAG": score_method("erag.p"),
    "one prompt": score_method("answer.correct"),
    "leave one out": leave_one_out,
}


def main(questions: int) -> None:
    whole, pools = ms_marco_pools()
    evalset = EvalSet(f"{whole.name}, first {questions}", whole.examples[:questions])
    pooled = [example.question for example in whole.examples[:POOLS]]
    bm25 = BM25Retriever([document for question in pooled for document in pools[question]])

    def search(query: str, k: int) -> list[Document]:
        return bm25(query, k)

    def changed_search(query: str, k: int) -> list[Document]:
        first, *others = bm25(query, k + 1)
        return [first, others[-1], *others[:-2]]

    say(f"{questions} questions of {whole.name}")
    say(f"{'k':>2} {'':13} {'':8} requests   tokens  seconds      cpu       MB tok/prompt")
    for k in KS:
        for method, evaluate in METHODS.items():
            with tempfile.TemporaryDirectory() as cache:
                for ranking, retriever in (("cold", search), ("changed", changed_search)):
                    cost = measure(Path(cache), retriever, evalset, k, evaluate)
                    say(f"{k:2} {method:13} {ranking:8} {cost.cells()}")


def measure(cache: Path, search: Search, evalset: EvalSet, k: int, evaluate: Evaluate) -> Cost:
    with closing(
        Session(Settings(model="embedded", cache_dir=cache, max_unscored=1, timeout=600))
    ) as session:
        components = Components(search, DefaultGenerator(session.models), DefaultJudge(session.models))
        pipeline: Pipeline = session.pipelines.get(components)
        # A first request, which is not measured, starts the model and evaluates the worked examples with which every
        # prompt begins. Its text has the time, so that the reply is not in a cache.
        first_request: Awaitable[Any] = pipeline.answer_from(
            evalset.examples[0].full_question, [Document(f"It is {time.time_ns()}.")]
        )
        session.loop.run(first_request)
        usage_before, processor_before, began = session.usage, process_seconds(session), time.perf_counter()
        evaluate(session, components, evalset, k)
        seconds, usage = time.perf_counter() - began, session.usage - usage_before
        memory = float(proc(session, "status").split("VmHWM:")[1].split()[0]) / 1024
        return Cost(usage.live, usage.tokens_in, seconds, process_seconds(session) - processor_before, memory)


def process_seconds(session: Session) -> float:
    """Return the processor time of the model's process so far in seconds; 0 before the process has started."""
    times = proc(session, "stat").rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / sysconf("SC_CLK_TCK") if times else 0.0


def proc(session: Session, name: str) -> str:
    server, _ = session.models.generator_model()
    assert isinstance(server, EmbeddedServer)
    process = server._process
    assert process is not None
    return Path(f"/proc/{process.pid}/{name}").read_text(encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
