"""Attacks on the budget of a run, and on the replies that were paid for.

Promise: no call exceeds `--rageval-max-cost`, whatever a server reports; a received reply is cached, whatever fails
afterwards; on a full disk only the calls in flight are lost; and no cached reply is requested again, whatever happens
to the cache folder, the clocks and the other processes.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.stores.sqlite_file import FILE, Database
from tests.llm_server import Fault, clerk
from tests.store_kinds import stored_entries
from tests.unit.models.scripted import completion

pytestmark = pytest.mark.slow

ONE_REPLY_EACH = '@pytest.mark.rageval_threshold("answer.em@1", min=0.3)\ndef test_gate(): pass\n'

PRICES = '["m1"]\ninput = 1000.0\noutput = 1000.0\nmax_output = 100\n'


def _start(project, *arguments, limits=""):
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *project.arguments, *arguments]
    return subprocess.Popen(
        ["/bin/sh", "-c", f'{limits} exec "$0" "$@"', *command],
        cwd=project.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _wait_until(holds, seconds=120):
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


def _ended(run):
    output, _ = run.communicate(timeout=300)
    return output, run.returncode


def _entries(folder: Path) -> list[Entry]:
    with contextlib.closing(Database(folder)) as database:
        return stored_entries(database)


def _kept(folder: Path) -> set[str]:
    return {entry.key for entry in _entries(folder)}


def _asked(llm):
    return Counter(body["messages"][-1]["content"] for body in llm.paid)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": -5, "completion_tokens": "3"},
        {"prompt_tokens": 1e300, "completion_tokens": 1e300},
    ],
    ids=["none", "empty", "zero", "nonsense", "huge"],
)
def test_a_server_that_reports_no_usage_does_not_open_the_purse(project, llm, usage):
    """Without a valid usage, a reply is billed at the maximum cost that was reserved for its call."""
    project.use(llm)
    project.evalset(60)
    project.test(ONE_REPLY_EACH)
    (project.path / "prices.toml").write_text(PRICES, encoding="utf-8")
    llm.model = lambda prompt: Fault(200, body={**completion(clerk(prompt)), "usage": usage})
    project.run(
        "--rageval-max-cost=2",
        "--rageval=prices=prices.toml",
        "--rageval=max_tokens=10",
        shows="--rageval-max-cost=2 is reached: * USD are spent, and the next call may cost *",
    )
    # A prompt has more than 40 tokens, so a call may cost more than 5 cents.
    assert 5 < len(llm.requests) < 40
    print(f"paid {len(llm.requests)} of 60")


def test_a_budget_is_not_exceeded_at_a_server_that_drops_connections(project, llm):
    """A call whose connection breaks counts towards the budget, because the server may have answered and billed it."""
    project.use(llm)
    project.evalset(60)
    project.test(ONE_REPLY_EACH)
    llm.model = lambda _: (_ for _ in ()).throw(ConnectionError)
    project.run("--rageval=max_calls=7", "--rageval=retries=1", "--rageval=max_unscored=1")
    assert len(llm.requests) == 7


def test_tokens_per_minute_are_not_exceeded_at_a_server_that_reports_none(project, llm):
    project.use(llm)
    project.evalset(6)
    project.test(ONE_REPLY_EACH)
    arrived = []

    def model(prompt):
        arrived.append(time.monotonic())
        return Fault(200, body={**completion(clerk(prompt)), "usage": None})

    llm.model = model
    # A prompt has about 80 tokens: after the first request, the limit allows one request a second.
    project.run("--rageval=tpm=4800", passed=1)
    assert len(arrived) == 6
    assert arrived[-1] - arrived[0] > 3


def test_every_reply_is_cached_without_a_free_file_handle(project, llm):
    """With 64 requests in flight and 64 file handles for the process, every received reply is cached."""
    project.use(llm)
    llm.latency_s, llm.together = 0.3, 40
    project.evalset(64)
    project.test(ONE_REPLY_EACH)
    run = _start(project, "--rageval=concurrency=64", limits="ulimit -n 64;")
    output, _ = _ended(run)
    _wait_until(lambda: not llm.connected)
    cached = _kept(project.path / ".rageval_cache")
    print(f"answered {len(llm.paid)}, kept {len(cached)}")
    assert len(llm.paid) >= 40, output
    assert len(cached) == len(_asked(llm)) == len(llm.paid), output


def test_every_reply_is_cached_if_the_budget_cannot_be_counted(project, llm):
    """If the table of spending fails, the run ends as an error and sends no more requests."""
    project.use(llm)
    project.evalset(30)
    project.test(ONE_REPLY_EACH)

    def rename(before, after):
        connection = sqlite3.connect(project.path / ".rageval_cache" / FILE)
        connection.execute(f"ALTER TABLE {before} RENAME TO {after}")
        connection.close()

    renamed = threading.Event()

    def sabotage(prompt):
        if not renamed.is_set():
            renamed.set()
            rename("spending", "gone")
        return clerk(prompt)

    llm.model, llm.together = sabotage, 16
    project.run("--rageval=max_calls=100", errors=1, shows="*no such table: spending*")
    assert len(llm.paid) == 16
    rename("gone", "spending")
    llm.model = clerk
    project.run(passed=1)
    assert set(_asked(llm).values()) == {1}
    assert len(llm.paid) == 30


def test_on_a_full_disk_only_the_calls_in_flight_are_lost(project, llm):
    project.use(llm)
    llm.latency_s = 0.05
    project.evalset(200)
    project.test(ONE_REPLY_EACH)
    llm.model = lambda prompt: clerk(prompt) + " " * 20_000
    # `ulimit -f` is the maximum file size in blocks of 512 bytes.
    run = _start(project, "--rageval=concurrency=16", limits="ulimit -f 1500;")
    output, status = _ended(run)
    cached = _kept(project.path / ".rageval_cache")
    lost = len(llm.paid) - len(cached)
    print(f"answered {len(llm.paid)}, kept {len(cached)}, lost {lost}")
    assert status == 1
    assert "The reply cache in" in output
    assert len(cached) > 5
    assert 1 <= lost <= 16
    assert len(llm.requests) <= len(cached) + 16


@pytest.mark.parametrize("remove", ["folder", "file"])
@pytest.mark.parametrize("processes", [0, 2])
def test_a_removed_cache_folder_is_made_again(project, llm, remove, processes):
    project.use(llm)
    llm.latency_s = 0.1
    project.evalset(60)
    project.test("".join(ONE_REPLY_EACH.replace("test_gate", f"test_{n}") for n in range(max(processes, 1))))
    cache = project.path / ".rageval_cache"
    removed = threading.Event()

    def removing(prompt):
        if len(llm.paid) >= 30 and not removed.is_set():
            removed.set()
            if remove == "folder":
                shutil.rmtree(cache)
            else:
                (cache / FILE).unlink()
        return clerk(prompt)

    llm.model = removing
    run = _start(project, "-n", str(processes), "--rageval=concurrency=5")
    output, status = _ended(run)
    assert status == 0, output
    assert "the cache folder was removed during the run; it was created again with all" in output
    assert removed.is_set()
    assert set(_asked(llm).values()) == {1}
    project.run(passed=max(processes, 1))
    assert len(llm.paid) == 60


@pytest.mark.parametrize("processes", [0, 1])
def test_a_cache_folder_that_is_removed_from_a_cached_run_is_made_again(project, llm, processes):
    project.use(llm)
    project.test(ONE_REPLY_EACH)
    project.run(passed=1)
    paid = len(llm.paid)
    project.test(ONE_REPLY_EACH.replace(": pass", ": __import__('shutil').rmtree('.rageval_cache')"))
    output, status = _ended(_start(project, "-q", "-n", str(processes)))
    assert status == 0, output
    assert (
        output.count("the cache folder was removed during the run; it was created again with all entries")
        == 1
    )
    project.test(ONE_REPLY_EACH)
    project.run(passed=1)
    assert len(llm.paid) == paid


def test_a_cache_that_cannot_be_made_again_ends_the_run(project, llm):
    """If the cache cannot be created again, the run ends as an error after the calls in flight."""
    project.use(llm)
    llm.latency_s = 0.05
    project.evalset(60)
    project.test(ONE_REPLY_EACH)
    cache = project.path / ".rageval_cache"

    def replacing(prompt):
        if len(llm.paid) == 20 and cache.is_dir():
            shutil.rmtree(cache)
            cache.write_text("in the way", encoding="utf-8")
        return clerk(prompt)

    llm.model = replacing
    project.run(
        "--rageval=concurrency=5",
        errors=1,
        shows="The reply cache in * cannot be used: *.rageval_cache is a file, not a folder.*",
    )
    assert len(llm.requests) <= 20 + 5


CLOCK = """
import os, time
_true = time.time
_shift = float(os.environ["CLOCK_SHIFT"])
time.time = lambda: _true() + _shift
"""


def _with_clock(project):
    source = (project.path / "conftest.py").read_text(encoding="utf-8")
    project.pytester.makeconftest(CLOCK + source)


def test_two_processes_with_different_clocks_pay_once(project, llm, monkeypatch):
    """Three processes whose clocks differ by 20 seconds do not take over the claims of each other."""
    project.use(llm)
    llm.latency_s = 0.3
    project.evalset(40)
    project.test(ONE_REPLY_EACH)
    _with_clock(project)
    runs = []
    for shift in ("0", "20", "-20"):
        monkeypatch.setenv("CLOCK_SHIFT", shift)
        runs.append(_start(project, "--rageval=concurrency=4"))
    for run in runs:
        output, status = _ended(run)
        assert status == 0, output
    assert Counter(_asked(llm).values()) == {1: 40}


@pytest.mark.parametrize("shift", [86_400, -86_400])
def test_a_clock_change_during_a_refresh_leads_to_no_second_request(project, llm, shift):
    project.use(llm)
    again = ONE_REPLY_EACH.replace("test_gate", "test_again").replace("answer.em", "answer.f1")
    project.test(ONE_REPLY_EACH + again)
    source = (project.path / "conftest.py").read_text(encoding="utf-8")
    # The retriever is called after the start of the run, and before the first request to a model.
    set_clock = f"def search(query, k):\n    time.time = lambda: TRUE() + {shift}\n"
    project.pytester.makeconftest(
        "import time\nTRUE = time.time\n" + source.replace("def search(query, k):\n", set_clock)
    )
    project.run_process()
    project.run_process("--rageval-refresh", passed=2)
    assert set(_asked(llm).values()) == {2}


def test_a_process_that_was_stopped_asks_for_nothing_that_another_has_taken_over(project, llm):
    """At most the requests in flight of a stopped process are paid twice, because it looks like a dead one."""
    project.use(llm)
    llm.latency_s = 0.3
    project.evalset(120)
    project.test(ONE_REPLY_EACH.replace("0.3", "0.1"))
    runs = [_start(project, "--rageval=concurrency=8") for _ in range(2)]
    _wait_until(lambda: len(llm.paid) > 30 or any(run.poll() is not None for run in runs))
    os.kill(runs[0].pid, signal.SIGSTOP)
    time.sleep(8)
    os.kill(runs[0].pid, signal.SIGCONT)
    for run in runs:
        output, status = _ended(run)
        assert status == 0, output
    twice = len(llm.paid) - 120
    print(f"paid {len(llm.paid)} for 120")
    assert len(_asked(llm)) == 120
    assert 0 <= twice <= 8


def test_processes_that_were_stopped_together_pay_once(project, llm):
    """Processes that are stopped at the same time do not take over the claims of each other."""
    project.use(llm)
    llm.latency_s = 0.2
    project.evalset(60)
    project.test("".join(ONE_REPLY_EACH.replace("test_gate", f"test_{n}") for n in range(2)))
    run = _start(project, "-n", "2", "--rageval=concurrency=4")
    _wait_until(lambda: len(llm.paid) > 15 or run.poll() is not None)
    os.killpg(run.pid, signal.SIGSTOP)
    time.sleep(8)
    os.killpg(run.pid, signal.SIGCONT)
    output, status = _ended(run)
    assert status == 0, output
    assert Counter(_asked(llm).values()) == {1: 60}


@pytest.mark.parametrize("processes", [0, pytest.param(2, marks=pytest.mark.long)])
def test_an_empty_reply_is_requested_once_per_run(project, llm, processes):
    project.use(llm)
    project.evalset(6)
    project.test("".join(ONE_REPLY_EACH.replace("test_gate", f"test_{n}") for n in range(max(processes, 1))))
    llm.model = lambda prompt: " \n" if "item-3?" in prompt else clerk(prompt)
    options = ("-n", str(processes), "--rageval=max_unscored=0.5")
    run = project.run_process if processes else project.run
    result = run(*options)
    result.assert_outcomes(passed=max(processes, 1))
    assert len(llm.paid) == 6
    run(*options)
    assert len(llm.paid) == 7
    llm.model = clerk
    run(*options)
    assert len(llm.paid) == 8
    run(*options)
    assert len(llm.paid) == 8


NO_ANSWERS = {
    "nothing": completion(None),
    "cut": completion("", finish_reason="length"),
    "withheld": completion(None, finish_reason="content_filter"),
    "refused": completion(None, message={"refusal": "I will not."}),
    "reasoned apart": completion(None, message={"reasoning_content": "Well"}, finish_reason="length"),
    "reasoned": completion("<think>Well</think>"),
}


@pytest.mark.parametrize("body", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_a_repaired_server_is_asked_again(project, llm, body):
    project.use(llm)
    project.test(ONE_REPLY_EACH)
    llm.model = lambda prompt: (
        Fault(200, body=json.dumps(body).encode()) if "item-3?" in prompt else clerk(prompt)
    )
    options = ("--rageval=max_unscored=0.5",)
    for sent in (4, 5):
        project.run(*options, passed=1)
        assert len(llm.requests) == sent
    project.run(*options, "--rageval-replay", "--rageval-report=report.json", passed=1)
    report = project.read()
    unscored = [example["unscored"] for example in report["tests"][0]["scores"][0]["examples"]]
    assert [bool(reason) for reason in unscored] == [False, False, True, False]
    assert unscored[2].startswith("the generator's reply is empty")
    plan = project.run("--rageval-plan")
    assert re.split(r" {2,}", plan.outlines[plan.outlines.index("in total") + 1].strip())[:3] == [
        "4",
        "3",
        "1",
    ]
    llm.model = clerk
    for sent in (6, 6):
        project.run(passed=1)
        assert len(llm.requests) == sent


def test_an_empty_reply_on_a_cassette_is_a_recorded_one(project, llm):
    project.use(llm)
    project.test(ONE_REPLY_EACH)
    llm.model = lambda prompt: "" if "item-3?" in prompt else clerk(prompt)
    options = ("--rageval-cassette=tape.jsonl", "--rageval=max_unscored=0.5")
    project.run(*options, "--rageval-record")
    shutil.rmtree(project.path / ".rageval_cache")
    project.run(*options, "--rageval-replay", "--rageval-report=report.json", passed=1)
    report = project.read()
    (score,) = report["tests"][0]["scores"]
    assert [example["unscored"] for example in score["examples"]] == [
        None,
        None,
        "the generator's reply is empty",
        None,
    ]
    assert len(llm.paid) == 4
    llm.model = clerk
    project.run(*options, "--rageval-record")
    assert len(llm.paid) == 5
    assert '"text": ""' not in (project.path / "tape.jsonl").read_text(encoding="utf-8")


def test_a_reply_that_is_not_utf_8_is_asked_for_again(project, llm):
    """A reply that is not UTF-8 is requested again, because decoding it would change its characters."""
    project.use(llm)
    project.test(ONE_REPLY_EACH)
    request_counts = Counter()

    def model(prompt):
        request_counts[prompt] += 1
        if request_counts[prompt] > 1:
            return clerk(prompt)
        return Fault(200, body=json.dumps(completion("caf\xe9"), ensure_ascii=False).encode("latin-1"))

    llm.model = model
    project.run(passed=1)
    assert set(request_counts.values()) == {2}
    cached_texts = {entry.reply.text for entry in _entries(project.path / ".rageval_cache")}
    assert cached_texts == {f"c{n}x" for n in range(1, 5)}
