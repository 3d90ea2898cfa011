"""The overhead of HTTPRetriever: `python tests/benchmarks/http_retriever.py [ROUNDS]`.

1,000 questions are asked of a search that takes 50 ms, 16 at a time: by a bare client that reads the replies, and by
the retriever as the plugin calls it, in turn. The script prints the medians, and the median of the ratios within the
rounds.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import httpx2

from pytest_rageval import HTTPRetriever
from pytest_rageval.core.event_loop import BackgroundEventLoop
from pytest_rageval.core.gathering import gather_all
from pytest_rageval.retrievers import adapt_retriever

SERVER = Path(__file__).parents[1] / "unit" / "extensions" / "remote_retrievers" / "search_server.py"
REQUESTS, IN_FLIGHT, LATENCY_S = 1000, 16, 0.05
QUESTIONS = [f"How many days do refunds of order {n} take?" for n in range(REQUESTS)]


async def ask_bare(url: str) -> int:
    """Ask all questions; return the number of documents."""
    slots = asyncio.Semaphore(IN_FLIGHT)
    async with httpx2.AsyncClient() as client:

        async def one(question: str) -> int:
            async with slots:
                reply = await client.post(url, json={"query": question, "k": 3})
                return len([hit["source"] for hit in reply.json()["hits"]])

        return sum(await asyncio.gather(*map(one, QUESTIONS)))


def ask_retriever(url: str) -> int:
    loop = BackgroundEventLoop()
    retriever = adapt_retriever(
        HTTPRetriever(url, documents="hits[*].source", concurrency=IN_FLIGHT, retries=0), loop
    )

    async def all_questions() -> int:
        rankings = await gather_all(retriever.retrieve(question, 3) for question in QUESTIONS)
        return sum(map(len, rankings))

    try:
        return loop.run(all_questions())
    finally:
        loop.close()


def seconds_by_round(rounds: int) -> list[tuple[float, float]]:
    """Return the seconds of the bare client and of the retriever, in each round."""
    command = [sys.executable, str(SERVER), str(LATENCY_S)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    ) as server:  # fmt: skip
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/search"
        times: list[tuple[float, float]] = []
        for _ in range(rounds):
            begun = time.perf_counter()
            bare = asyncio.run(ask_bare(url))
            between = time.perf_counter()
            assert ask_retriever(url) == bare == 3 * REQUESTS
            times.append((between - begun, time.perf_counter() - between))
        assert server.stdin is not None
        server.stdin.close()
    return times


def main(rounds: int) -> None:
    times = seconds_by_round(rounds)
    bare, own = (statistics.median(each) for each in zip(*times, strict=True))
    ratio = statistics.median(second / first for first, second in times)
    print(f"bare client {bare:.2f} s, HTTPRetriever {own:.2f} s, ratio {ratio:.3f} ({rounds} rounds)")  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
