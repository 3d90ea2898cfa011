"""A faulty server: the scores equal those of a server without faults, and no request is paid twice."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from pytest_rageval.models.messages import Request
from pytest_rageval.models.stores.sqlite_file import FILE, Database
from tests.llm_server import Fault, Hang, clerk
from tests.store_kinds import stored_entries

pytestmark = pytest.mark.slow

GATE = '@pytest.mark.rageval_threshold("llm_reteval@1", min=0.9)\ndef test_gate(): pass\n'
ONE_REPLY_EACH = '@pytest.mark.rageval_threshold("answer.em@1", min=0.9)\ndef test_gate(): pass\n'


class Misbehaving:
    """Replies with faults: every 5th request is 429, every 10th 500, every 20th garbage, every 50th hangs.

    The limit is a burst of 20 requests, then 20 requests a second: at least one request exceeds the limit at any speed.

    Garbage is a reply without a verdict if a verdict was requested, and otherwise a body that is not JSON.
    """

    def __init__(self) -> None:
        self.count = itertools.count(1)
        self.kinds = Counter()
        self.garbled = set()
        self.tokens, self.at = 20.0, None

    def __call__(self, prompt):
        now = time.monotonic()
        if self.at is not None:
            self.tokens, self.at = min(20.0, self.tokens + 20 * (now - self.at)), now
        elif self.tokens < 1:
            self.at = now
        k = next(self.count)
        busy = Fault(429, {"retry-after": "0.05"})
        faults = [
            ("over the limit", self.tokens < 1, busy),
            ("hangs", k % 50 == 0, Hang()),
            (
                "no JSON",
                k % 20 == 0 and "Answer to check" not in prompt,
                Fault(200, body=b'{"choices": [{"mess'),
            ),
            ("no verdict", k % 20 == 0, "I'd rather not {not json"),
            ("500", k % 10 == 0, Fault(500)),
            ("429", k % 5 == 0, busy),
        ]
        kind, _, reply = next((fault for fault in faults if fault[1]), ("", True, clerk(prompt)))
        self.tokens -= kind != "over the limit"
        self.kinds.update([kind] if kind else [])
        if kind == "no verdict":
            self.garbled.add(prompt.split("item-")[1].split("?")[0])
        return reply


def _outcomes(path):
    report = json.loads(path.read_text(encoding="utf-8"))
    (score,) = report["tests"][0]["scores"]
    return {example["id"]: (example["score"], example["unscored"]) for example in score["examples"]}


def test_a_bad_day_of_the_server_changes_no_score(project, llm):
    project.use(llm)
    project.evalset(20)
    project.lose(3, 8)
    project.test(GATE)
    # With a shorter timeout, a busy machine would take slow replies for hanging ones, and pay for them twice.
    options = ("--rageval=max_unscored=1", "--rageval=timeout=4")
    project.run("--rageval-report=good.json", "--rageval=cache_dir=good", *options)
    good, good_requests = _outcomes(project.path / "good.json"), Counter(map(_body, llm.requests))
    llm.requests.clear()
    llm.paid.clear()
    llm.model = bad = Misbehaving()
    project.run("--rageval-report=bad.json", "--rageval=cache_dir=bad", *options)
    assert bad.kinds.keys() >= {"429", "500", "over the limit"}, bad.kinds
    assert sum(bad.kinds.values()) > 15
    garbled = {f"q{number}" for number in bad.garbled}
    for name, (score, unscored) in _outcomes(project.path / "bad.json").items():
        if name in garbled:
            assert score is None
            assert unscored == "the judge's reply is neither yes nor no: \"I'd rather not {not json\""
        else:
            assert (score, unscored) == good[name]
    paid = Counter(map(_body, llm.paid))
    assert paid == good_requests


def _body(body):
    return json.dumps(body, sort_keys=True)


def test_workers_ask_each_request_once(project, llm):
    processes = 2
    project.use(llm)
    llm.latency_s = 0.1
    project.evalset(20)
    tests = "".join(GATE.replace("test_gate", f"test_{n}") for n in range(processes))
    project.test(tests)
    project.run_process("-n", str(processes), passed=processes)
    # Three samples of the answer with gold, the first of which also answers the retrieved passage; one verdict.
    assert len(llm.requests) == 20 * 4
    assert set(Counter(map(_body, llm.requests)).values()) == {3, 1}


def test_two_shells_share_what_they_ask(project, llm):
    project.use(llm)
    llm.latency_s = 0.2
    project.evalset(20)
    project.test(ONE_REPLY_EACH)
    runs = [_start(project) for _ in range(2)]
    assert [run.wait(300) for run in runs] == [0, 0]
    assert len(llm.requests) == 20


def test_a_worker_that_dies_delays_the_others_for_seconds_only(project, llm):
    """The claims of a killed process expire: another run sends its four requests again, and no others."""
    project.use(llm)
    llm.model = lambda _: Hang()
    project.evalset(4)
    project.test(ONE_REPLY_EACH)
    first = _start(project)
    _wait_until(lambda: len(llm.requests) == 4)
    first.kill()
    first.wait()
    llm.model = clerk
    began = time.monotonic()
    project.run(passed=1)
    # About 5 seconds on a machine that is not busy.
    assert time.monotonic() - began < 60
    assert len(llm.requests) == 8


def test_a_killed_run_continues_where_it_stopped(project, llm):
    project.use(llm)
    llm.latency_s = 0.05
    project.evalset(60)
    # Only 20 of the 60 questions have a passage in the corpus; this test counts requests, not scores.
    project.test(ONE_REPLY_EACH.replace("0.9", "0.3"))
    chance = random.Random(7)
    kills, caches, cut_short = 0, 0, 0
    while kills < 5 or cut_short < 3:
        folder = f"cache{caches}"
        cached_keys = _kept(project.path / folder)
        llm.requests.clear()
        run = _start(project, f"--rageval=cache_dir={folder}", "--rageval=concurrency=4")
        # Kill the process at a random moment between its first request and shortly before its end.
        _wait_until(lambda run=run: llm.requests or run.poll() is not None)
        time.sleep(chance.uniform(0, 0.5))
        finished = run.poll() is not None
        if not finished:
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        # Wait until the server has read the last requests of the killed process, which count for this run.
        _wait_until(lambda: not llm.connected)
        requested_keys = {_key(body, llm.url) for body in llm.requests}
        assert not requested_keys & cached_keys
        cut_short += bool(cached_keys) and not finished
        kills += not finished
        caches += finished
    cached_keys = _kept(project.path / folder)
    llm.requests.clear()
    project.run(f"--rageval=cache_dir={folder}", passed=1)
    assert len(llm.requests) == 60 - len(cached_keys)


def _key(body, url):
    messages = tuple(body["messages"])
    return Request(url, body["model"], messages, {"temperature": body["temperature"]}).key


def _kept(folder: Path) -> set[str]:
    if not (folder / FILE).exists():
        return set()
    database = Database(folder)
    keys = {entry.key for entry in stored_entries(database)}
    database.close()
    return keys


def _start(project, *arguments):
    command = [sys.executable, "-m", "pytest", "-q", *project.arguments, *arguments]
    return subprocess.Popen(
        command,
        cwd=project.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _wait_until(holds, seconds=120):
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)
