"""A CPU-bound retriever in one process and in two: `python tests/benchmarks/executor.py [QUESTIONS]`.

The retriever is BM25 in plain Python, with about 20 ms per question. The script measures the time of all rankings in
the thread of the test, in a `ProcessPoolExecutor` with two processes, and in two workers of Dask, in turn. It prints
the ratio of each pair of consecutive runs, and the median and the range of the ratios.
"""

import asyncio
import math
import random
import statistics
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval import RetrieverFactory
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.retrievers import adapt_retriever

PASSAGES, WORDS, VOCABULARY, TERMS, ROUNDS, WORKERS = 18_000, 60, 400, 12, 5, 2


class PlainBM25:
    """BM25 with postings in dicts: k1 = 1.5, b = 0.75."""

    def __init__(self, passages: int) -> None:
        drawn = random.Random(1)
        self._length = WORDS
        self._postings: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for number in range(passages):
            for word, count in Counter(f"w{drawn.randrange(VOCABULARY)}" for _ in range(WORDS)).items():
                self._postings[word][number] = count
        self._passages = passages

    def __call__(self, query: str, k: int) -> list[dict[str, str]]:
        scores: defaultdict[int, float] = defaultdict(float)
        for word in query.split():
            postings = self._postings.get(word, {})
            weight = math.log(1 + (self._passages - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, count in postings.items():
                scores[number] += weight * count * 2.5 / (count + 1.5)
        best = sorted(scores, key=lambda number: (-scores[number], number))[:k]
        return [{"id": f"d{number}", "text": f"passage {number}"} for number in best]


def seconds(executor: Executor | None, questions: list[str]) -> float:
    loop = BackgroundEventLoop()
    try:
        retriever = adapt_retriever(RetrieverFactory(PlainBM25, PASSAGES), loop, executor=executor)

        async def retrieve_all(queries: list[str]) -> None:
            await asyncio.gather(*(retriever.retrieve(query, 10) for query in queries))

        for _ in range(WORKERS * 4):
            loop.run(retrieve_all([f"{query} once" for query in questions[:WORKERS]]))
        loop.run(retrieve_all([f"{query} more" for query in questions[: WORKERS * 20]]))
        began = time.perf_counter()
        loop.run(retrieve_all(questions))
        return time.perf_counter() - began
    finally:
        loop.close()


def main(number: int) -> None:
    from distributed import Client, LocalCluster

    drawn = random.Random(2)
    questions = [" ".join(f"w{drawn.randrange(VOCABULARY)}" for _ in range(TERMS)) for _ in range(number)]
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    with (
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
        ) as cluster,
        Client(cluster) as client,
        ProcessPoolExecutor(WORKERS) as pool,
    ):
        executors: dict[str, Executor] = {"Dask, 2 workers": client.get_executor(), "2 processes": pool}
        for _ in range(ROUNDS):
            for name, executor in executors.items():
                in_thread, in_executor = seconds(None, questions), seconds(executor, questions)
                ratios[name].append(in_thread / in_executor)
                question_ms = in_thread / number * 1000
                print(  # noqa: T201
                    f"{name:16} here {in_thread:5.2f} s ({question_ms:.0f} ms a question), "
                    f"there {in_executor:5.2f} s: {in_thread / in_executor:.2f} ×",
                    flush=True,
                )
    for name, values in ratios.items():
        median = statistics.median(values)
        print(  # noqa: T201
            f"{name:16} median of {len(values)} pairs: {median:.2f} × ({min(values):.2f} to {max(values):.2f})"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 300)
