"""Time of the reply stores: `python tests/benchmarks/stores.py [ROUNDS]`.

The stores take turns in each round, so that a machine that gets slower affects all of them. The script prints medians.

1. look-ups: 10,000 stored replies are read by the store itself, and through the cache in its thread: all at once, 100
   at a time, and one at a time.
2. cold: 1,000 replies of 200 ms are requested through the gateway, with 64 requests in flight. The ratio is that to
   SQLite in the same round.

Redis is a server on 127.0.0.1 that writes its data to a file.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.lib.secret import parse_cache
from pytest_rageval.models.cache import Cache
from pytest_rageval.models.client import RequestPolicy
from pytest_rageval.models.gateway import Gateway, GatewaySettings
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.stores.fallback import store_opener
from pytest_rageval.models.stores.interface import Entry, OpenStore
from pytest_rageval.models.stores.sqlite import SqliteStore
from pytest_rageval.run.registry import Registry
from tests.benchmarks.replies import reply, request, seconds
from tests.redis_server import RedisServer

SERVER = Path(__file__).parents[1] / "llm_server.py"
COUNT = 10_000
BATCHES = {"all at once": COUNT, "100 at a time": 100, "one at a time": 1}
KEYS = [f"{number:064x}" for number in range(COUNT)]


@contextmanager
def places(folder: Path) -> Iterator[dict[str, str]]:
    server_folder = folder / "server"
    server_folder.mkdir()
    with RedisServer(server_folder) as server:
        yield {
            "sqlite": str(folder / "sqlite"),
            "redis": f"{server.url}/0",
            "diskcache": f"diskcache:{folder / 'diskcache'}",
        }


def opener(place: str, folder: Path) -> OpenStore:
    return store_opener(parse_cache(place), folder / "local", Registry().stores) or partial(
        SqliteStore, Path(place)
    )


def look_ups(folder: Path, rounds: int) -> None:
    with places(folder) as stores:
        for place in stores.values():
            store = opener(place, folder)(lambda _: None)
            store.keep(Entry(key, reply(number)) for number, key in enumerate(KEYS))
            store.close()
        durations: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        for _ in range(rounds):
            for name, place in stores.items():
                store = opener(place, folder)(lambda _: None)
                store.get_many(KEYS[:1])
                for batch, size in BATCHES.items():
                    work = partial(read_in_batches, store.get_many, size)
                    durations[name, batch, "store"].append(seconds(work))
                store.close()
                for batch, size in BATCHES.items():
                    durations[name, batch, "cache"].append(
                        asyncio.run(read_through_cache(opener(place, folder), size))
                    )
    for (name, batch, layer), values in durations.items():
        rate = COUNT / statistics.median(values)
        print(f"look-ups, {name:9} {batch:13} by the {layer}: {rate:10,.0f} a second")  # noqa: T201


def read_in_batches(get_many: object, size: int) -> None:
    for start in range(0, COUNT, size):
        assert callable(get_many)
        assert len(get_many(KEYS[start : start + size])) == size


async def read_through_cache(open_store: OpenStore, size: int) -> float:
    cache = Cache(open_store, None)
    await cache.open()
    loop = asyncio.get_running_loop()
    began = loop.time()
    for start in range(0, COUNT, size):
        assert len(await cache.look_up(KEYS[start : start + size])) == size
    elapsed = loop.time() - began
    cache.close()
    return elapsed


def cold(folder: Path, rounds: int) -> None:
    """Measure and print the time of 1,000 new replies with each store, and its ratio to that with SQLite."""
    command = [sys.executable, str(SERVER), "--latency-ms", "200"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    url = process.stdout.readline().strip() if process.stdout else ""
    durations: dict[str, list[float]] = defaultdict(list)
    try:
        asyncio.run(request_by_client(url, 64))
        for number in range(rounds):
            round_folder = folder / str(number)
            round_folder.mkdir()
            with places(round_folder) as stores:
                for name, place in stores.items():
                    work = partial(request_by_gateway, url, opener(place, round_folder), round_folder)
                    durations[name].append(seconds(lambda work=work: asyncio.run(work())))
    finally:
        process.terminate()
    for name, values in durations.items():
        ratios = [value / sqlite for value, sqlite in zip(values, durations["sqlite"], strict=True)]
        print(  # noqa: T201
            f"cold, 1,000 × 200 ms, {name:9} {statistics.median(values):.3f} s; ratio to sqlite "
            f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        )


async def request_by_client(url: str, count: int) -> None:
    from openai import AsyncOpenAI

    limit = asyncio.Semaphore(64)
    async with AsyncOpenAI(base_url=url, api_key="none") as client:

        async def one(i: int) -> None:
            async with limit:
                messages = request(url, i).messages
                await client.chat.completions.create(
                    model="m",
                    messages=[dict(message) for message in messages],
                    temperature=0.5,  # type: ignore[misc]
                )

        await asyncio.gather(*map(one, range(count)))


async def request_by_gateway(url: str, open_store: OpenStore, folder: Path) -> None:
    """Request 1,000 replies through a gateway with this store."""
    gateway = Gateway(
        GatewaySettings(folder / "local", policy=RequestPolicy(concurrency=64), open_store=open_store)
    )
    server = RemoteServer(url)
    await asyncio.gather(*(gateway.get_reply(server, request(url, number)) for number in range(1000)))
    await gateway.close()


if __name__ == "__main__":
    repeat = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        for part in ("look_ups", "cold"):
            (root / part).mkdir()
        look_ups(root / "look_ups", repeat)
        cold(root / "cold", repeat)
