"""The cost of the reply cache and the sender: `python tests/benchmarks/replies.py [ROUNDS]`.

The script prints medians, each with the median of a baseline in the same run, and the ratio of the medians.

1. look-up: 10,000 cached replies are read by the store, and through the gateway. The baseline is one SQLite query that
   reads the same rows.
2. memory: 100,000 cached replies are read through the gateway, 1,000 at a time.
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

from pytest_rageval.models.gateway import Gateway, GatewaySettings
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.stores.sqlite_file import FILE, Database, ReplyTable

PASSAGES = "The quick brown fox jumps over the lazy dog, and item-{i} has the code c{i}x. " * 20
"""A prompt of about 1,600 characters, the length of five short passages."""

UNUSED_URL = "http://127.0.0.1:9/v1"
"""The base URL of requests whose replies are all cached."""


def request(url: str, i: int) -> Request:
    return Request(url, "m", ({"role": "user", "content": PASSAGES.format(i=i)},), {"temperature": 0.5})


def reply(i: int) -> Reply:
    return Reply(f"the code is c{i}x", "m-2026", "stop", 400, 6)


def fill(folder: Path, count: int) -> list[Request]:
    requests = numbered_requests(count)
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
    fill(folder, 10_000)
    timings: dict[str, list[float]] = {"bare": [], "store": [], "gateway": []}
    for _ in range(rounds):
        requests = numbered_requests(10_000)
        keys = [request.key for request in requests]
        connection = sqlite3.connect(folder / FILE)
        sql = "SELECT * FROM replies WHERE key IN (SELECT value FROM json_each(?))"
        parameters = (json.dumps(keys),)
        timings["bare"].append(seconds(lambda: connection.execute(sql, parameters).fetchall()))  # noqa: B023
        connection.close()
        store = ReplyTable(Database(folder))
        timings["store"].append(seconds(lambda: store.get_many(keys)))  # noqa: B023
        timings["gateway"].append(seconds(lambda: asyncio.run(read_all(folder, requests, 10_000))))  # noqa: B023
    bare_s = statistics.median(timings["bare"])
    for name in ("store", "gateway"):
        ours = statistics.median(timings[name])
        say(f"look-up of 10,000, {name}", ours, bare_s, "bare SQLite bulk read")


def numbered_requests(count: int) -> list[Request]:
    return [request(UNUSED_URL, i) for i in range(count)]


async def read_all(folder: Path, requests: list[Request], batch_size: int) -> Gateway:
    gateway, server = Gateway(GatewaySettings(folder, mode="replay")), RemoteServer(UNUSED_URL)
    for start in range(0, len(requests), batch_size):
        await asyncio.gather(*(gateway.get_reply(server, r) for r in requests[start : start + batch_size]))
    await gateway.close()
    return gateway


def memory(folder: Path) -> None:
    """Store 100,000 replies, and print the memory of a process that reads them."""
    count = 100_000
    database = Database(folder)
    with database.transaction():
        ReplyTable(database).put_many(
            Entry(request(UNUSED_URL, i).key, Reply(f"the code is c{i}x", "m-2026", "stop", 400, 6))
            for i in range(count)
        )
    database.close()
    command = [sys.executable, __file__, "--memory", str(folder)]
    print(subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="")  # noqa: T201


async def read_many(folder: Path) -> None:
    gateway, server = Gateway(GatewaySettings(folder, mode="replay")), RemoteServer(UNUSED_URL)
    at_start = peak_mb()
    for start in range(0, 100_000, 1000):
        await asyncio.gather(
            *(gateway.get_reply(server, request(UNUSED_URL, i)) for i in range(start, start + 1000))
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
    """Return the peak of resident memory of this process in MB, as Linux reports it, without that of its parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def say(title: str, ours: float, baseline: float, name: str) -> None:
    print(f"{title:38}{ours:.3f} s; {name} {baseline:.3f} s; ratio {ours / baseline:.3f}", flush=True)  # noqa: T201


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        asyncio.run(read_many(Path(sys.argv[2])))
    else:
        repeat = int(sys.argv[1]) if len(sys.argv) > 1 else 5
        with tempfile.TemporaryDirectory() as temporary:
            look_up(Path(temporary) / "look_up", repeat)
            memory(Path(temporary) / "memory")
