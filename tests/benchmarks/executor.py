"""A retriever of much computing, here and in two processes: `python tests/benchmarks/executor.py [QUESTIONS]`.

BM25 in plain Python over so many passages that a question takes about 20 ms. The rankings of all questions are timed
in the test's thread, in a `ProcessPoolExecutor` of two and with Dask's two workers, in turns; printed is the ratio of
each pair of runs that followed each other, and the median of these with their range.
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
from pytest_rageval.concurrency.event_loop import BackgroundEventLoop
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
        """The best passages."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word in query.split():
            found = self._postings.get(word, {})
            weight = math.log(1 + (self._passages - len(found) + 0.5) / (len(found) + 0.5))
            for number, count in found.items():
                scores[number] += weight * count * 2.5 / (count + 1.5)
        best = sorted(scores, key=lambda number: (-scores[number], number))[:k]
        return [{"id": f"d{number}", "text": f"passage {number}"} for number in best]


def seconds(executor: Executor | None, questions: list[str]) -> float:
    """What all rankings take, without the time in which the index is built."""
    loop = BackgroundEventLoop()
    try:
        retriever = adapt_retriever(RetrieverFactory(PlainBM25, PASSAGES), loop, executor=executor)

        async def every(asked: list[str]) -> None:
            await asyncio.gather(*(retriever.retrieve(each, 10) for each in asked))

        for _ in range(WORKERS * 4):
            loop.run(every([f"{query} once" for query in questions[:WORKERS]]))
        loop.run(every([f"{query} more" for query in questions[: WORKERS * 20]]))
        began = time.perf_counter()
        loop.run(every(questions))
        return time.perf_counter() - began
    finally:
        loop.close()


def main(number: int) -> None:
    """Measure in turns."""
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
                here, there = seconds(None, questions), seconds(executor, questions)
                ratios[name].append(here / there)
                each = here / number * 1000
                print(  # noqa: T201
                    f"{name:16} here {here:5.2f} s ({each:.0f} ms a question), there {there:5.2f} s: "
                    f"{here / there:.2f} ×",
                    flush=True,
                )
    for name, found in ratios.items():
        middle = statistics.median(found)
        print(  # noqa: T201
            f"{name:16} median of {len(found)} pairs: {middle:.2f} × ({min(found):.2f} to {max(found):.2f})"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 300)
