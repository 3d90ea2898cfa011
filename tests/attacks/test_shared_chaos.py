"""Two machines with one Redis: processes are killed and the Redis server is restarted at random moments.

A machine is a separate folder with four workers. Promise: no cached reply is requested again while the server keeps
its data, and no score changes.

The default is two kills and one restart. Twenty kills and three restarts, with counts, take about twenty minutes:

    SHARED_CHAOS_KILLS=20 SHARED_CHAOS_RESTARTS=3 pytest -m slow tests/attacks/test_shared_chaos.py -rP
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_rageval.models.messages import Request
from tests.redis_server import RedisServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes cannot be killed here"),
]

KILLS = int(os.environ.get("SHARED_CHAOS_KILLS", "2"))
RESTARTS = int(os.environ.get("SHARED_CHAOS_RESTARTS", "1"))
QUESTIONS = 60
WORKERS = 4
CONCURRENCY = 3
LATENCY_S = 0.2

# The second test violates its minimum in every run, because two questions have a wrong answer.
TESTS = """
@pytest.mark.parametrize("part", range(4))
@pytest.mark.rageval_threshold("answer.em@1", min=0.5)
def test_passes(part): pass

@pytest.mark.parametrize("part", range(4))
@pytest.mark.rageval_threshold("answer.em@1", min=0.99)
def test_fails(part): pass
"""

CONFTEST = """
import os, pathlib
worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
pathlib.Path(f"{worker}.pid").write_text(str(os.getpid()))
"""


@dataclass
class Machine:
    folder: Path
    url: str
    arguments: list[str]
    run: "subprocess.Popen[bytes] | None" = None

    def start(self, database: int, workers: int = WORKERS) -> None:
        for old_file in (*self.folder.glob("*.pid"), self.folder / "report.json"):
            old_file.unlink(missing_ok=True)
        options = (
            f"--rageval-cache={self.url}/{database}",
            f"--rageval=concurrency={CONCURRENCY}",
            "--rageval-report=report.json",
        )
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "-p", "no:cacheprovider"]
        with (self.folder / "output.txt").open("wb") as output:
            self.run = subprocess.Popen(
                [*command, *self.arguments, *options],
                cwd=self.folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self, chance: random.Random) -> str:
        assert self.run is not None
        pids = [int(file.read_text() or 0) for file in self.folder.glob("gw*.pid")]
        if pids and chance.random() < 0.7:
            os.kill(chance.choice(pids), signal.SIGKILL)
            return "worker"
        os.killpg(self.run.pid, signal.SIGKILL)
        return "machine"

    def ended(self) -> int:
        assert self.run is not None
        return self.run.wait(300)

    def verdicts(self) -> list[tuple[str, float, str]]:
        file = self.folder / "report.json"
        if not file.exists():
            return []
        return [
            (test["function"].rpartition("::")[2], score["mean"], score["verdict"])
            for test in json.loads(file.read_text(encoding="utf-8"))["tests"]
            for score in test["scores"]
            if score["mean"] is not None
        ]


def clerk(prompt: str) -> str:
    """Reply with the code of the item, or always with a wrong answer for two of the questions."""
    match = re.search(r"item-(\d+)", prompt)
    item = match[1] if match else ""
    return "wrong" if item in {"3", "5"} else f"c{item}x"


@pytest.fixture
def machines(project, llm, redis):
    project.use(llm)
    llm.latency_s = LATENCY_S
    llm.model = clerk
    project.evalset(QUESTIONS)
    project.test(TESTS)
    source = (project.path / "conftest.py").read_text(encoding="utf-8")
    project.pytester.makeconftest(CONFTEST + source.replace("range(1, 21)", f"range(1, {QUESTIONS + 1})"))
    files = [path for path in project.path.iterdir() if path.is_file()]
    made = []
    for name in ("one", "other"):
        folder = project.path.parent / f"{project.path.name}-{name}"
        folder.mkdir()
        for file in files:
            shutil.copy(file, folder)
        made.append(Machine(folder, redis.url, project.arguments))
    yield made
    for machine in made:
        if machine.run is not None and machine.run.poll() is None:
            os.killpg(machine.run.pid, signal.SIGKILL)
            machine.run.wait()


@pytest.fixture
def redis(tmp_path_factory):
    """A Redis server that writes all its data to a file."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


def _asked(llm, since):
    return Counter(
        Request(llm.url, body["model"], tuple(body["messages"]), {"temperature": body["temperature"]}).key
        for body in llm.requests[since:]
    )


def _kept(redis, database):
    return {name.rpartition(b":")[2].decode() for name in redis.client(database).scan_iter("*:reply:*")}


def _right(machine):
    """Check that all scores and verdicts of a run are correct; return the number of scores."""
    mean = (QUESTIONS - 2) / QUESTIONS
    verdicts = machine.verdicts()
    assert set(verdicts) <= {("test_passes", mean, "pass"), ("test_fails", mean, "fail")}
    return len(verdicts)


def test_two_machines_ask_once(machines, llm):
    for machine in machines:
        machine.start(0)
    assert [machine.ended() for machine in machines] == [1, 1]
    for machine in machines:
        output = (machine.folder / "output.txt").read_text(encoding="utf-8")
        assert "4 failed, 4 passed" in output
        assert _right(machine) == 8
        assert not (machine.folder / ".rageval_cache").exists()
    counts = _asked(llm, 0)
    assert len(counts) == QUESTIONS
    assert counts.total() == QUESTIONS


def _somewhere(machines, llm, chance, since):
    until = time.monotonic() + 300
    while len(llm.requests) == since and any(machine.run.poll() is None for machine in machines):
        assert time.monotonic() < until
        time.sleep(0.005)
    in_flight = 2 * WORKERS * CONCURRENCY
    time.sleep(chance.uniform(0, LATENCY_S * QUESTIONS / in_flight + 0.5))


def test_kills_and_restarts(machines, llm, redis):
    chance, counts = random.Random(20), Counter()
    restarts = set(range(0, KILLS, max(KILLS // max(RESTARTS, 1), 1)))
    for number in range(KILLS):
        database = number % 16
        redis.client(database).flushdb()
        first = len(llm.requests)
        for machine in machines:
            machine.start(database)
        _somewhere(machines, llm, chance, first)
        cached_keys = _kept(redis, database)
        mark = len(llm.requests)
        counts[chance.choice(machines).kill(chance)] += 1
        if number in restarts and counts["restart"] < RESTARTS:
            counts["restart"] += 1
            redis.stop(signal.SIGTERM)
            time.sleep(chance.uniform(0, 2))
            redis.start()
        for machine in machines:
            machine.ended()
            counts["scores"] += _right(machine)
        late = _asked(llm, mark)
        assert not late.keys() & cached_keys
        cached_keys = _kept(redis, database)
        resumed = len(llm.requests)
        machines[0].start(database, workers=0)
        assert machines[0].ended() == 1
        assert _right(machines[0]) == 8
        again = _asked(llm, resumed)
        assert not again.keys() & cached_keys
        request_counts = _asked(llm, first)
        assert len(request_counts) == QUESTIONS
        # At most the requests that one machine had in flight.
        repeated = request_counts.total() - QUESTIONS
        assert repeated <= WORKERS * CONCURRENCY
        counts["kept before"] += len(cached_keys)
        counts["asked twice (in flight)"] += repeated
        counts["asked in the resumed runs"] += again.total()
    print("\n" + ", ".join(f"{count} {name}" for name, count in counts.items()))
