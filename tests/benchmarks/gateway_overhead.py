"""The overhead of the gateway: `python tests/benchmarks/gateway_overhead.py [ROUNDS]`.

A client requests 200 replies of 200 ms, with 20 requests in flight: directly, and through the gateway with an empty
cache, in turn. The script prints the medians, and the median of the ratios within the rounds.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import openai

from pytest_rageval.core.settings import Settings
from pytest_rageval.extensions.application_calls.application import Backend
from pytest_rageval.extensions.application_calls.plugin import GatewayServer
from pytest_rageval.lib.secret import BaseURL
from pytest_rageval.run.session import Session

SERVER = Path(__file__).parents[1] / "llm_server.py"
REQUESTS, IN_FLIGHT, LATENCY_MS = 200, 20, 200
PASSAGES = "The quick brown fox jumps over the lazy dog, and item-{i} has the code c{i}x. " * 20


async def request_all(url: str) -> float:
    """Request all replies; return the elapsed seconds."""
    slots = asyncio.Semaphore(IN_FLIGHT)
    async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0) as client:

        async def one(i: int) -> None:
            async with slots:
                messages = [{"role": "user", "content": PASSAGES.format(i=i)}]
                await client.chat.completions.create(model="m", messages=messages)  # type: ignore[arg-type]

        await one(-1)
        begun = time.perf_counter()
        await asyncio.gather(*map(one, range(REQUESTS)))
        return time.perf_counter() - begun


def through_gateway(url: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(cache_dir=Path(folder), base_url=BaseURL.parse(url), concurrency=IN_FLIGHT)
        session = Session(settings)
        with GatewayServer() as server:
            server.connect(lambda: Backend.of(session))
            seconds = asyncio.run(request_all(server.url))
        assert session.usage.live == REQUESTS + 1
        session.close()
    return seconds


def main(rounds: int) -> None:
    command = [sys.executable, str(SERVER), "--latency-ms", str(LATENCY_MS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        pairs = [(asyncio.run(request_all(url)), through_gateway(url)) for _ in range(rounds)]
        process.terminate()
    direct, served = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(through / bare for bare, through in pairs)
    sys.stdout.write(
        f"{REQUESTS} replies of {LATENCY_MS} ms, {IN_FLIGHT} in flight: {direct:.2f} s directly, {served:.2f} s "
        f"through the gateway, ratio {ratio:.2f} (median of {rounds})\n"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
