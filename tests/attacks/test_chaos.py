"""Processes are killed, stopped, or given another clock at random moments; then the run is resumed.

Promise: no cached reply is requested again, at most the requests in flight are sent twice, and no run continues for
longer than 30 s after the last reply of its server.

The default is one round per test. Thirty rounds, with counts printed, take about half an hour:

    CHAOS_ROUNDS=30 pytest -m slow tests/attacks/test_chaos.py -n 3 -rP
"""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

import pytest

from pytest_rageval.models.messages import Request
from pytest_rageval.models.stores.sqlite_file import FILE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be stopped here"),
]

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "1"))

QUESTIONS = 40
CONCURRENCY = 4
STOPPED_S = 8.0
LONGEST_S = 30.0

TESTS = "".join(
    f'@pytest.mark.rageval_threshold("answer.em@1", min=0.3)\ndef test_{n}(): pass\n' for n in range(2)
)

CONFTEST = """
import os, pathlib, time
pathlib.Path(f"{os.environ['CHAOS']}-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.pid").write_text(str(os.getpid()))
TRUE, SHIFT = time.time, float(os.environ.get("CLOCK_SHIFT", "0"))
time.time = lambda: TRUE() + SHIFT
"""


@dataclass
class Chaos:
    project: object
    llm: object
    chance: random.Random
    counts: Counter = field(default_factory=Counter)
    longest_s: float = 0.0
    usual_s: float = 0.0
    last_word: float = 0.0
    runs: int = 0

    def __post_init__(self):
        self.project.use(self.llm)
        self.llm.latency_s = 0.1
        self.project.evalset(QUESTIONS)
        self.project.test(TESTS)
        source = (self.project.path / "conftest.py").read_text(encoding="utf-8")
        self.project.pytester.makeconftest(CONFTEST + source)
        answer = self.llm.model

        def noted(prompt):
            self.last_word = time.monotonic()
            return answer(prompt)

        self.llm.model = noted
        began = time.monotonic()
        assert self.start("usual").wait(600) == 0
        # A busy machine makes every run slower: the limit for a hang is scaled by this duration.
        self.usual_s = time.monotonic() - began

    def start(self, cache, *arguments, shift=0.0):
        self.runs += 1
        options = (f"--rageval=cache_dir={cache}", f"--rageval=concurrency={CONCURRENCY}", *arguments)
        run = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                *self.project.arguments,
                *options,
            ],
            cwd=self.project.path,
            env={**os.environ, "CHAOS": str(self.runs), "CLOCK_SHIFT": str(shift)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        run.name = str(self.runs)
        return run

    def pid(self, run, worker):
        return int((self.project.path / f"{run.name}-{worker}.pid").read_text())

    def somewhere(self, run):
        """Wait until a random moment after the first request of a run; return whether the run is still running."""
        requests_before = len(self.llm.requests)
        until = time.monotonic() + 300
        while len(self.llm.requests) == requests_before and run.poll() is None:
            assert time.monotonic() < until
            time.sleep(0.005)
        time.sleep(self.chance.uniform(0, 0.1 * QUESTIONS / CONCURRENCY))
        return run.poll() is None

    def settled(self):
        """Wait until the server has read all requests that were sent."""
        until = time.monotonic() + 60
        while self.llm.connected and time.monotonic() < until:
            time.sleep(0.01)

    def ended(self, *runs):
        began = time.monotonic()
        for run in runs:
            run.wait(600)
            quiet = time.monotonic() - max(began, self.last_word)
            self.longest_s = max(self.longest_s, quiet)
            assert quiet < LONGEST_S + 2 * self.usual_s
        return all(run.returncode == 0 for run in runs)

    def kept(self, cache):
        """Return the keys of the cached replies.

        The file is opened read-only, because a stopped process may be writing.
        """
        file = self.project.path / cache / FILE
        if not file.exists():
            return set()
        with contextlib.closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            has_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,)
            return {key for (key,) in connection.execute("SELECT key FROM replies")} if has_tables else set()

    def asked(self, since):
        """Count the requests for each key, from the request with index `since` on."""
        return Counter(
            Request(
                self.llm.url, body["model"], tuple(body["messages"]), {"temperature": body["temperature"]}
            ).key
            for body in self.llm.requests[since:]
        )

    def report(self, what):
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        print(f"\n{what}: {counts}; longest silence {self.longest_s:.1f} s")


@pytest.fixture
def chaos(project, llm):
    """Runs of a small project."""
    return Chaos(project, llm, random.Random(13))


def _resumed(chaos, cache, first, cached_keys, max_repeated):
    hurt = len(chaos.llm.requests)
    assert chaos.ended(chaos.start(cache))
    resumed_counts = chaos.asked(hurt)
    assert not resumed_counts.keys() & cached_keys
    request_counts = chaos.asked(first)
    assert len(request_counts) == len(chaos.kept(cache)) == QUESTIONS
    repeated = request_counts.total() - QUESTIONS
    assert repeated <= max_repeated
    chaos.counts["kept before"] += len(cached_keys)
    chaos.counts["asked in the resumed runs"] += resumed_counts.total()
    chaos.counts["asked twice (in flight)"] += repeated
    chaos.counts["kept and asked again"] += len(resumed_counts.keys() & cached_keys)


@pytest.mark.parametrize("whom", ["process", "group", "worker"])
def test_killed(chaos, whom):
    processes = 1 if whom == "process" else 2
    workers = ("-n", str(processes)) if processes > 1 else ()
    for number in range(ROUNDS):
        cache = f"{whom}{number}"
        first = len(chaos.llm.requests)
        run = chaos.start(cache, *workers)
        if chaos.somewhere(run):
            chaos.counts["killed"] += 1
            if whom == "group":
                os.killpg(run.pid, signal.SIGKILL)
            else:
                os.kill(run.pid if whom == "process" else chaos.pid(run, "gw0"), signal.SIGKILL)
        cached_keys = chaos.kept(cache)
        mark = len(chaos.llm.requests)
        chaos.ended(run)
        chaos.settled()
        if whom == "worker":
            # The other worker, and the replacement of the killed worker, continued.
            late = chaos.asked(mark)
            assert not late.keys() & cached_keys
        _resumed(chaos, cache, first, chaos.kept(cache), CONCURRENCY * processes)
    chaos.report(f"kill -9 of a {whom}, {ROUNDS} rounds")


def test_stopped(chaos):
    """One of two runs is stopped for longer than a claim lasts, and then continued."""
    for number in range(ROUNDS):
        cache = f"stopped{number}"
        first = len(chaos.llm.requests)
        runs = [chaos.start(cache) for _ in range(2)]
        if chaos.somewhere(runs[0]):
            chaos.counts["stopped"] += 1
            os.kill(runs[0].pid, signal.SIGSTOP)
            cached_keys = chaos.kept(cache)
            mark = len(chaos.llm.requests)
            time.sleep(STOPPED_S)
            os.kill(runs[0].pid, signal.SIGCONT)
            assert chaos.ended(*runs)
            late = chaos.asked(mark)
            assert not late.keys() & cached_keys
        assert chaos.ended(*runs)
        _resumed(chaos, cache, first, chaos.kept(cache), CONCURRENCY)
    chaos.report(f"SIGSTOP for {STOPPED_S:g} s, {ROUNDS} rounds")


def test_another_time(chaos):
    day = 86_400.0
    for number in range(ROUNDS):
        cache = f"clock{number}"
        shift = day if number % 2 else -day
        first = len(chaos.llm.requests)
        run = chaos.start(cache, shift=shift)
        if chaos.somewhere(run):
            chaos.counts["killed"] += 1
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        chaos.settled()
        cached_keys, mark = chaos.kept(cache), len(chaos.llm.requests)
        assert chaos.ended(*(chaos.start(cache, shift=other) for other in (0.0, -shift)))
        late = chaos.asked(mark)
        assert not late.keys() & cached_keys
        assert max(late.values(), default=1) == 1
        _resumed(chaos, cache, first, chaos.kept(cache), CONCURRENCY)
    chaos.report(f"clock a day off, {ROUNDS} rounds")
