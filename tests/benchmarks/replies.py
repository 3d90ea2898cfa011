"""What the reply cache and the sender cost: `python tests/benchmarks/replies.py [ROUNDS]`.

Each figure stands beside a bare one of the same run; medians, and ratios of medians.

1. look-up: 10,000 kept replies, by the store and through the gateway, next to a bare SQLite bulk read of
   the same rows;
2. cold: 1,000 replies of 200 ms, 64 in flight, through the gateway, next to a bare `AsyncOpenAI` with a
   semaphore;
3. memory: 100,000 kept replies asked for through the gateway, 1,000 at a time.
"""

import asyncio
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pytest_rageval.llm.gateway import Gateway, GatewaySettings
from pytest_rageval.llm.messages import Reply, Request
from pytest_rageval.llm.servers.server import RemoteServer, RequestPolicy
from pytest_rageval.llm.stores.interface import Entry
from pytest_rageval.llm.stores.sqlite_file import FILE, Database, ReplyTable

SERVER = Path(__file__).parents[1] / "llm_server.py"
PASSAGES = "The quick brown fox jumps over the lazy dog, and item-{i} has the code c{i}x. " * 20
"""A prompt of about 1,600 characters, as five short passages make it."""


NOWHERE = "http://127.0.0.1:9/v1"


def request(url: str, i: int) -> Request:
    """One of many requests."""
    return Request(url, "m", ({"role": "user", "content": PASSAGES.format(i=i)},), {"temperature": 0.5})


def reply(i: int) -> Reply:
    """To the request of that number."""
    return Reply(f"the code is c{i}x", "m-2026", "stop", 400, 6)


def fill(folder: Path, count: int) -> list[Request]:
    """Keep replies to so many requests."""
    requests = numbered(count)
    database = Database(folder)
    store = ReplyTable(database)
    with database.transaction():
        store.put_many(
            Entry(r.key, Reply(f"the code is c{i}x", "m-2026", "stop", 400, 6))
            for i, r in enumerate(requests)
        )
    database.close()
    return requests


def look_up(folder: Path, rounds: int) -> None:
    """10,000 kept replies."""
    fill(folder, 10_000)
    timings: dict[str, list[float]] = {"bare": [], "store": [], "gateway": []}
    for _ in range(rounds):
        requests = numbered(10_000)
        keys = [asked.key for asked in requests]
        bare = sqlite3.connect(folder / FILE)
        sql = "SELECT * FROM replies WHERE key IN (SELECT value FROM json_each(?))"
        timings["bare"].append(timed(lambda: bare.execute(sql, (json.dumps(keys),)).fetchall()))  # noqa: B023
        bare.close()
        store = ReplyTable(Database(folder))
        timings["store"].append(timed(lambda: store.get_many(keys)))  # noqa: B023
        timings["gateway"].append(timed(lambda: asyncio.run(asked(folder, requests, 10_000))))  # noqa: B023
    bare_s = statistics.median(timings["bare"])
    for name in ("store", "gateway"):
        ours = statistics.median(timings[name])
        say(f"look-up of 10,000, {name}", ours, bare_s, "bare SQLite bulk read")


def numbered(count: int) -> list[Request]:
    """So many requests."""
    return [request(NOWHERE, i) for i in range(count)]


async def asked(folder: Path, requests: list[Request], at_once: int) -> Gateway:
    """Ask for all of them through a gateway."""
    gateway, server = Gateway(GatewaySettings(folder, mode="replay")), RemoteServer(NOWHERE)
    for start in range(0, len(requests), at_once):
        await asyncio.gather(*(gateway.get_reply(server, r) for r in requests[start : start + at_once]))
    await gateway.close()
    return gateway


def cold(folder: Path, rounds: int) -> None:
    """1,000 replies of 200 ms, 64 in flight."""
    command = [sys.executable, str(SERVER), "--latency-ms", "200"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    url = process.stdout.readline().strip() if process.stdout else ""
    ours, floor = [], []
    try:
        asyncio.run(bare(url, 64))
        for n in range(rounds):
            floor.append(timed(lambda: asyncio.run(bare(url, 1000))))
            ours.append(timed(lambda: asyncio.run(through_door(url, folder / str(n), 1000))))  # noqa: B023
    finally:
        process.terminate()
    say(
        "cold, 1,000 × 200 ms, 64 in flight", statistics.median(ours), statistics.median(floor), "bare client"
    )


async def bare(url: str, count: int) -> None:
    """What the client library takes by itself."""
    from openai import AsyncOpenAI

    limit = asyncio.Semaphore(64)
    async with AsyncOpenAI(base_url=url, api_key="none") as client:

        async def one(i: int) -> None:
            async with limit:
                asked = request(url, i)
                await client.chat.completions.create(
                    model="m",
                    messages=[dict(m) for m in asked.messages],
                    temperature=0.5,  # type: ignore[misc]
                )

        await asyncio.gather(*map(one, range(count)))


async def through_door(url: str, folder: Path, count: int) -> None:
    """The same with everything that a gateway does."""
    gateway, server = (
        Gateway(GatewaySettings(folder, policy=RequestPolicy(concurrency=64))),
        RemoteServer(url),
    )
    await asyncio.gather(*(gateway.get_reply(server, request(url, i)) for i in range(count)))
    await gateway.close()


def memory(folder: Path) -> None:
    """100,000 kept replies."""
    count = 100_000
    database = Database(folder)
    with database.transaction():
        ReplyTable(database).put_many(
            Entry(request(NOWHERE, i).key, Reply(f"the code is c{i}x", "m-2026", "stop", 400, 6))
            for i in range(count)
        )
    database.close()
    command = [sys.executable, __file__, "--memory", str(folder)]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="")  # noqa: T201


async def ask_many(folder: Path) -> None:
    """Ask for all, and print how the memory grew."""
    gateway, server = Gateway(GatewaySettings(folder, mode="replay")), RemoteServer(NOWHERE)
    at_start = peak_mb()
    for start in range(0, 100_000, 1000):
        await asyncio.gather(
            *(gateway.get_reply(server, request(NOWHERE, i)) for i in range(start, start + 1000))
        )
        if start == 9_000:
            at_tenth = peak_mb()
    assert gateway.usage.cached == 100_000
    await gateway.close()
    print(  # noqa: T201
        f"memory, peak resident: {at_start:.0f} MB before, {at_tenth:.0f} MB after 10,000, "
        f"{peak_mb():.0f} MB after 100,000 cached replies"
    )


def peak_mb() -> float:
    """The most memory this process has had, as Linux counts it; since it began, and not its parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def timed(work: Callable[[], object]) -> float:
    """Seconds that it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def say(what: str, ours: float, theirs: float, name: str) -> None:
    """Print two medians and their ratio."""
    print(f"{what:38}{ours:.3f} s; {name} {theirs:.3f} s; ratio {ours / theirs:.3f}", flush=True)  # noqa: T201


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        asyncio.run(ask_many(Path(sys.argv[2])))
    else:
        repeat = int(sys.argv[1]) if len(sys.argv) > 1 else 5
        with tempfile.TemporaryDirectory() as temporary:
            look_up(Path(temporary) / "look_up", repeat)
            cold(Path(temporary) / "cold", repeat)
            memory(Path(temporary) / "memory")
