"""What the stores of replies cost: `python tests/benchmarks/stores.py [ROUNDS]`.

Medians of rounds, in which the stores take turns, so that a machine that gets slower does so for all.

1. look-ups: 10,000 kept replies, by the store itself and through the cache, off the event loop: all at once, 100 at a
   time, and one at a time;
2. cold: 1,000 replies of 200 ms, 64 in flight, through the gateway; each store beside SQLite in the same round.

Redis is a server on 127.0.0.1 that writes its file.
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

from pytest_rageval.llm.cache import Cache
from pytest_rageval.llm.gateway import Gateway, GatewaySettings
from pytest_rageval.llm.servers.server import RemoteServer, RequestPolicy
from pytest_rageval.llm.stores import store_opener
from pytest_rageval.llm.stores.interface import Entry, OpenStore
from pytest_rageval.llm.stores.sqlite import SqliteStore
from pytest_rageval.secret import parse_cache
from tests.benchmarks.replies import SERVER, bare, reply, request, timed
from tests.redis_server import RedisServer

COUNT = 10_000
BATCHES = {"all at once": COUNT, "100 at a time": 100, "one at a time": 1}
KEYS = [f"{number:064x}" for number in range(COUNT)]


@contextmanager
def places(folder: Path) -> Iterator[dict[str, str]]:
    """Yield where each store is."""
    made = folder / "server"
    made.mkdir()
    with RedisServer(made) as server:
        yield {
            "sqlite": str(folder / "sqlite"),
            "redis": f"{server.url}/0",
            "diskcache": f"diskcache:{folder / 'diskcache'}",
        }


def opener(place: str, folder: Path) -> OpenStore:
    """What opens a store, as a run does."""
    return store_opener(parse_cache(place), folder / "local") or partial(SqliteStore, Path(place))


def look_ups(folder: Path, rounds: int) -> None:
    """Print look-ups a second."""
    with places(folder) as stores:
        for place in stores.values():
            store = opener(place, folder)(lambda _: None)
            store.keep(Entry(key, reply(number)) for number, key in enumerate(KEYS))
            store.close()
        seconds: dict[tuple[str, str, str], list[float]] = defaultdict(list)
        for _ in range(rounds):
            for name, place in stores.items():
                store = opener(place, folder)(lambda _: None)
                store.get_many(KEYS[:1])
                for batch, size in BATCHES.items():
                    work = partial(in_batches, store.get_many, size)
                    seconds[name, batch, "store"].append(timed(work))
                store.close()
                for batch, size in BATCHES.items():
                    seconds[name, batch, "cache"].append(
                        asyncio.run(through_cache(opener(place, folder), size))
                    )
    for (name, batch, way), found in seconds.items():
        rate = COUNT / statistics.median(found)
        print(f"look-ups, {name:9} {batch:13} by the {way}: {rate:10,.0f} a second")  # noqa: T201


def in_batches(get_many: object, size: int) -> None:
    """Look all keys up, so many at a time."""
    for start in range(0, COUNT, size):
        assert callable(get_many)
        assert len(get_many(KEYS[start : start + size])) == size


async def through_cache(opened: OpenStore, size: int) -> float:
    """The seconds that it takes off the event loop."""
    cache = Cache(opened, None)
    await cache.open()
    loop = asyncio.get_running_loop()
    began = loop.time()
    for start in range(0, COUNT, size):
        assert len(await cache.look_up(KEYS[start : start + size])) == size
    seconds = loop.time() - began
    cache.close()
    return seconds


def cold(folder: Path, rounds: int) -> None:
    """Print the time of 1,000 replies beside that with SQLite."""
    command = [sys.executable, str(SERVER), "--latency-ms", "200"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    url = process.stdout.readline().strip() if process.stdout else ""
    seconds: dict[str, list[float]] = defaultdict(list)
    try:
        asyncio.run(bare(url, 64))
        for number in range(rounds):
            turn = folder / str(number)
            turn.mkdir()
            with places(turn) as stores:
                for name, place in stores.items():
                    work = partial(through_gateway, url, opener(place, turn), turn)
                    seconds[name].append(timed(lambda work=work: asyncio.run(work())))
    finally:
        process.terminate()
    for name, found in seconds.items():
        ratios = [one / other for one, other in zip(found, seconds["sqlite"], strict=True)]
        print(  # noqa: T201
            f"cold, 1,000 × 200 ms, {name:9} {statistics.median(found):.3f} s; ratio to sqlite "
            f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        )


async def through_gateway(url: str, opened: OpenStore, folder: Path) -> None:
    """Ask for a thousand replies."""
    gateway = Gateway(
        GatewaySettings(folder / "local", policy=RequestPolicy(concurrency=64), open_store=opened)
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
