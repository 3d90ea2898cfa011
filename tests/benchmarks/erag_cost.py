"""What labelling passages one at a time costs: `python tests/benchmarks/erag_cost.py [QUESTIONS]`.

Salemi and Zamani (2024) compare eRAG with scoring the whole ranking (Table 2): time and memory, 50 passages. Here the
embedded model answers the first QUESTIONS (3) of ms_marco_400, for which BM25 searches the passages of 100 queries, and
answers are compared in canonical form. Three ways to say how good k = 5, 10 and 20 passages are:

- eRAG: an answer from each passage alone;
- one prompt: an answer from all k passages; a number for the ranking, none for a passage;
- leave one out: an answer from all k and one from each k - 1 of them, which is how the second way labels passages.

Each is run with an empty cache, and again where a new passage has come to rank 2 and the last one has left. Printed are
requests, tokens of prompts, seconds, processor seconds of the model's process, which other work on the machine does not
lengthen much, its peak memory, and the tokens of a prompt in the mean. Nothing is kept.
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

from pytest_rageval.config import Settings
from pytest_rageval.datatypes import Document, EvalSet, Example
from pytest_rageval.errors import RagevalError
from pytest_rageval.evaluations.pipeline import Pipeline, ScoreRequest
from pytest_rageval.llm.servers.server import EmbeddedServer
from pytest_rageval.retrievers.bm25 import BM25Retriever
from pytest_rageval.session import Components, Session
from pytest_rageval.session.default_components import DefaultGenerator, DefaultJudge
from tests.benchmarks.real_data import ms_marco_pools, say

KS = (5, 10, 20)
POOLS = 100

Search = Callable[[str, int], list[Document]]
Evaluate = Callable[[Session, Components, EvalSet, int], None]


class Cost(NamedTuple):
    """Of one evaluation."""

    requests: int
    tokens: int
    seconds: float
    processor: float
    memory: float

    def cells(self) -> str:
        """The numbers in columns."""
        numbers = self.seconds, self.processor, self.memory, self.tokens / max(self.requests, 1)
        return f"{self.requests:8} {self.tokens:8} {{:8.1f}} {{:8.1f}} {{:8.0f}} {{:10.0f}}".format(*numbers)


def scored(spec: str) -> Evaluate:
    """One of our scores."""

    def evaluate(session: Session, parts: Components, evalset: EvalSet, k: int) -> None:
        for found in session.score(
            parts, evalset, [ScoreRequest(f"{spec}@{k}", comparator="canonical")]
        ).values():
            if isinstance(found, RagevalError):
                raise found

    return evaluate


def leave_one_out(session: Session, parts: Components, evalset: EvalSet, k: int) -> None:
    """The answers from all passages and from all but one, compared."""
    run = session.pipelines.get(parts)

    async def each(example: Example) -> None:
        documents = (await run.ranking_with_texts(example, k)).documents
        for left_out in (None, *documents):
            answer = await run.answer_from(
                example.full_question, [document for document in documents if document is not left_out]
            )
            await run.compare(example.full_question, example.answers, answer, "canonical")

    for example in evalset:
        session.loop.run(each(example))


WAYS: dict[str, Evaluate] = {
    "eRAG": scored("erag.p"),
    "one prompt": scored("answer.correct"),
    "leave one out": leave_one_out,
}


def main(questions: int) -> None:
    """Print the table."""
    whole, pools = ms_marco_pools()
    some = EvalSet(f"{whole.name}, first {questions}", whole.examples[:questions])
    pooled = [example.question for example in whole.examples[:POOLS]]
    bm25 = BM25Retriever([document for question in pooled for document in pools[question]])

    def search(query: str, k: int) -> list[Document]:
        return bm25(query, k)

    def changed(query: str, k: int) -> list[Document]:
        first, *others = bm25(query, k + 1)
        return [first, others[-1], *others[:-2]]

    say(f"{questions} questions of {whole.name}")
    say(f"{'k':>2} {'':13} {'':8} requests   tokens  seconds      cpu       MB tok/prompt")
    for k in KS:
        for way, evaluate in WAYS.items():
            with tempfile.TemporaryDirectory() as cache:
                for ranking, searches in (("cold", search), ("changed", changed)):
                    cost = measured(Path(cache), searches, some, k, evaluate)
                    say(f"{k:2} {way:13} {ranking:8} {cost.cells()}")


def measured(cache: Path, search: Search, evalset: EvalSet, k: int, evaluate: Evaluate) -> Cost:
    """Evaluate with a model that has just been started."""
    with closing(
        Session(Settings(model="embedded", cache_dir=cache, max_unscored=1, timeout=600))
    ) as session:
        parts = Components(search, DefaultGenerator(session.models), DefaultJudge(session.models))
        pipeline: Pipeline = session.pipelines.get(parts)
        # Neither the start is measured nor the worked examples, with which every prompt begins. No cache has this one.
        warm: Awaitable[Any] = pipeline.answer_from(
            evalset.examples[0].full_question, [Document(f"It is {time.time_ns()}.")]
        )
        session.loop.run(warm)
        before, started, began = session.usage, process_seconds(session), time.perf_counter()
        evaluate(session, parts, evalset, k)
        seconds, asked = time.perf_counter() - began, session.usage - before
        memory = float(proc(session, "status").split("VmHWM:")[1].split()[0]) / 1024
        return Cost(asked.live, asked.tokens_in, seconds, process_seconds(session) - started, memory)


def process_seconds(session: Session) -> float:
    """The processor time of the model's process so far; 0 before it has started."""
    times = proc(session, "stat").rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / sysconf("SC_CLK_TCK") if times else 0.0


def proc(session: Session, name: str) -> str:
    """A file of the model's process."""
    server, _ = session.models.generator_model()
    assert isinstance(server, EmbeddedServer)
    process = server._process
    assert process is not None
    return Path(f"/proc/{process.pid}/{name}").read_text(encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
