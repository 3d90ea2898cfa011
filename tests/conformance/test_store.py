"""Behavior that every store must have: SQLite, Redis and diskcache."""

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from pytest_rageval.models.messages import Reply, replace_surrogates
from pytest_rageval.models.stores.interface import CLAIM_TTL_S, Damaged, Entry, ReplyStore, Spending
from tests.store_kinds import Kind, opened

Open = Callable[..., ReplyStore]
Start = Callable[..., "subprocess.Popen[str]"]

SILENT = Reply(" \n", "m")
KEYS = [f"{number:02x}" for number in range(6)]
TEXTS = st.text().map(replace_surrogates)
COUNTS = st.integers(0, 2**63 - 1)
REPLIES = st.builds(Reply, TEXTS, TEXTS, TEXTS, COUNTS, COUNTS, TEXTS, TEXTS, TEXTS)
SUMMARY = {"base_url": "http://u/v1", "model": "m", "parts": {"question": "ab"}}


def _entry(key: str, text: str = "x", **changes: Any) -> Entry:
    return Entry(key, Reply(text, "m", **changes), SUMMARY)


def _good(store: ReplyStore) -> dict[str, Reply]:
    found = list(store.entries())
    assert [entry.key for entry in found] == sorted(entry.key for entry in found)
    assert not [entry for entry in found if isinstance(entry, Damaged)]
    return {entry.key: entry.reply for entry in found}


def test_cached_entries_are_found(stores: Open) -> None:
    writer, reader = stores(), stores()
    began = time.time()
    entry = Entry(
        "ab", Reply("c7 – „ja“\n\x00 \U0001f600", "m", "stop", 12, 3, "no", "[{}]", "seed"), SUMMARY
    )
    assert writer.get_many(["ab"]) == {}
    assert writer.keep([entry, _entry("cd", "other")]) == {"ab": entry.reply, "cd": Reply("other", "m")}
    for store in (writer, reader):
        assert store.get_many(["ab", "ef", "ab"]) == {"ab": entry.reply}
    found, _ = reader.entries()
    assert (found.key, found.reply, found.summary) == ("ab", entry.reply, SUMMARY)
    assert began - 1 <= found.written <= time.time() + 1
    assert [entry_.key for entry_ in reader.entries(["cd", "ef"])] == ["cd"]
    writer.keep([Entry("old", Reply("x"), written=1e9)])
    assert [entry_.written for entry_ in reader.entries(["old"])] == [1e9]


def test_a_cached_reply_is_not_replaced(stores: Open) -> None:
    """The first reply of a key is kept, and later writers get it, also within one call."""
    first_store, second_store = stores(), stores()
    first_store.keep([_entry("a", "first")])
    assert second_store.keep([_entry("a", "late"), _entry("b", "1"), _entry("b", "2")]) == {
        "a": Reply("first", "m"),
        "b": Reply("1", "m"),
    }
    assert _good(first_store) == {"a": Reply("first", "m"), "b": Reply("1", "m")}


@pytest.mark.slow
def test_ten_thousand_keys_are_found_at_once(stores: Open) -> None:
    """One call stores 5,000 entries, and one call looks up 10,000 keys, half of them missing."""
    store = stores()
    keys = [f"{number:064x}" for number in range(10_000)]
    store.keep(_entry(key, key) for key in keys[::2])
    assert store.get_many(keys) == {key: Reply(key, "m") for key in keys[::2]}
    assert store.get_many([]) == {}
    store.delete_many(keys)
    assert list(store.entries()) == []


def test_one_of_two_has_a_claim(stores: Open) -> None:
    first, second = stores(), stores()
    assert first.claim(["a", "b"]) == {"a": True, "b": True}
    assert second.claim(["b", "c"]) == {"b": False, "c": True}
    assert first.claim(["a"]) == {"a": True}
    assert first.claims(["a", "b", "c", "d"]) == {"a": True, "b": True, "c": False}
    assert second.claims(["a", "b", "c", "d"]) == {"a": False, "b": False, "c": True}
    assert first.others_active()
    second.release(["a", "c", "d"])
    assert second.claims(["a", "b", "c"]) == {"a": False, "b": False}
    assert not first.others_active()
    first.release(["b"])
    assert second.claim(["a", "b"]) == {"a": False, "b": True}
    assert second.claim([]) == {}


def test_a_claim_ends_with_the_reply(stores: Open) -> None:
    first, second = stores(), stores()
    first.claim(["a"])
    first.keep([_entry("a")])
    assert second.claims(["a"]) == {}
    assert second.claim(["a", "b"]) == {"a": Reply("x", "m"), "b": True}


def test_closing_ends_the_claims(stores: Open) -> None:
    first, second, third = stores(), stores(), stores()
    first.claim(["a"])
    second.claim(["b"])
    first.close()
    assert third.claim(["a", "b"]) == {"a": True, "b": False}


def test_replies_of_one_run(stores: Open) -> None:
    """An empty reply counts only in its own run; with `only_run`, replies of other runs do not count at all."""
    store = stores()
    store.keep([Entry("silent", SILENT), _entry("full")], run="1")
    assert store.get_many(["silent", "full"]).keys() == {"silent", "full"}
    assert store.get_many(["silent", "full"], run="1").keys() == {"silent", "full"}
    assert store.get_many(["silent", "full"], run="2").keys() == {"full"}
    assert store.get_many(["silent", "full"], run="2", only_run=True) == {}
    assert store.claim(["silent", "full"], run="2") == {"silent": True, "full": Reply("x", "m")}
    assert store.keep([_entry("silent", "at last")], run="2") == {"silent": Reply("at last", "m")}
    assert store.keep([_entry("full", "anew")], run="2", only_run=True) == {"full": Reply("anew", "m")}
    assert store.get_many(["silent", "full"], run="3") == {
        "silent": Reply("at last", "m"),
        "full": Reply("anew", "m"),
    }


@pytest.mark.parametrize("how", ["cut", "changed", "no text"])
def test_a_damaged_entry_counts_as_missing(stores: Open, kind: Kind, place: str, how: str) -> None:
    store = stores()
    store.keep([_entry("aa", "damaged"), _entry("bb", "good"), _entry("cc", "deleted")])
    for key in ("aa", "cc"):
        kind.damage(place, key, how)
    store = stores()
    assert store.get_many(["aa", "bb"]) == {"bb": Reply("good", "m")}
    assert store.damaged == {"aa"}
    first, good, last = store.entries()
    assert isinstance(first, Damaged)
    assert isinstance(last, Damaged)
    assert (first.key, last.key) == ("aa", "cc")
    assert first.rest is None
    assert first.why
    assert isinstance(good, Entry)
    store.delete_many(["cc", "dd"])
    assert [entry.key for entry in store.entries()] == ["aa", "bb"]
    assert store.claim(["aa"]) == {"aa": True}
    assert store.keep([_entry("aa", "anew")]) == {"aa": Reply("anew", "m")}
    assert _good(stores()) == {"aa": Reply("anew", "m"), "bb": Reply("good", "m")}


def test_an_account(stores: Open) -> None:
    """A change is applied as a whole unless it exceeds a limit, and accounts are separate."""
    first, second = stores(), stores()
    call = Spending(open_calls=1, open_cost=0.1)
    assert first.spend("r", call, max_calls=2, max_cost=0.25) is None
    assert second.spend("r", call, max_calls=2, max_cost=0.25) is None
    assert first.spend("r", call, max_calls=2) == pytest.approx(Spending(0, 0, 2, 0.2))
    assert first.spend("r", call, max_cost=0.25) == pytest.approx(Spending(0, 0, 2, 0.2))
    assert second.spend("r", Spending(1, 0.05, -1, -0.1)) is None
    assert first.spend("r", Spending(1, 0.3, -1, -0.1)) is None
    assert first.spend("r", call, max_calls=2) == Spending(2, 0.05 + 0.3, 0, 0.0)
    assert first.spend("r", call, max_cost=0.3) == Spending(2, 0.05 + 0.3, 0, 0.0)
    assert first.spend("r", call, max_calls=3, max_cost=inf) is None
    assert first.spend("another", call, max_calls=0) == Spending()


@pytest.mark.slow
def test_any_reply_is_cached_unchanged(stores: Open) -> None:
    store, other = stores(), stores()

    @given(st.lists(REPLIES, max_size=5))
    @settings(max_examples=30, deadline=None)
    def check(replies: list[Reply]) -> None:
        entries = [Entry(f"{number:x}", reply, SUMMARY) for number, reply in enumerate(replies)]
        store.delete_many([f"{number:x}" for number in range(5)])
        expected = {entry.key: entry.reply for entry in entries}
        assert store.keep(entries) == expected
        assert other.get_many([f"{number:x}" for number in range(5)]) == expected
        assert _good(other) == expected

    check()


class Machine(RuleBasedStateMachine):
    """Two stores at one place, compared with a dictionary of the expected entries."""

    places: Iterator[str]

    @initialize()
    def open(self) -> None:
        place = next(self.places)
        self.stores = [opened(place), opened(place)]
        self.kept: dict[str, Reply] = {}
        self.owners: dict[str, int] = {}
        self.account = Spending()

    @rule(who=st.integers(0, 1), keys=st.lists(st.sampled_from(KEYS)))
    def claim(self, who: int, keys: list[str]) -> None:
        expected = {}
        for key in keys:
            if key in self.kept:
                expected[key] = self.kept[key]
            else:
                expected[key] = self.owners.setdefault(key, who) == who
        assert self.stores[who].claim(keys) == expected

    @rule(
        who=st.integers(0, 1),
        keys=st.lists(st.sampled_from(KEYS)),
        text=st.text(max_size=3).map(replace_surrogates),
    )
    def keep(self, who: int, keys: list[str], text: str) -> None:
        kept = self.stores[who].keep([_entry(key, text + key) for key in keys])
        for key in keys:
            self.kept.setdefault(key, Reply(text + key, "m"))
            if self.owners.get(key) == who:
                del self.owners[key]
        assert kept == {key: self.kept[key] for key in keys}

    @rule(who=st.integers(0, 1), keys=st.lists(st.sampled_from(KEYS)))
    def release(self, who: int, keys: list[str]) -> None:
        self.stores[who].release(keys)
        self.owners = {key: owner for key, owner in self.owners.items() if owner != who or key not in keys}

    @rule(who=st.integers(0, 1), keys=st.lists(st.sampled_from(KEYS)))
    def delete(self, who: int, keys: list[str]) -> None:
        self.stores[who].delete_many(keys)
        self.kept = {key: reply for key, reply in self.kept.items() if key not in keys}

    @rule(who=st.integers(0, 1))
    def renew(self, who: int) -> None:
        """Renew the claims, without a visible effect."""
        self.stores[who].renew()

    @rule(
        who=st.integers(0, 1),
        calls=st.integers(0, 3),
        cents=st.integers(0, 300),
        most=st.sampled_from([0, 2, 5, inf]),
        max_cents=st.sampled_from([0, 150, inf]),
    )
    def spend(self, who: int, calls: int, cents: int, most: float, max_cents: float) -> None:
        change = Spending(calls, cents / 4, 1, 0.25)
        fits = self.account.fits(change, most, max_cents)
        found = self.stores[who].spend("r", change, max_calls=most, max_cost=max_cents)
        assert found == (None if fits else self.account)
        if fits:
            self.account = self.account.changed(change)

    @rule(who=st.integers(0, 1))
    def settle(self, who: int) -> None:
        """Give back all open calls and costs, without a limit."""
        change = Spending(0, 0, -self.account.open_calls, -self.account.open_cost)
        assert self.stores[who].spend("r", change) is None
        self.account = self.account.changed(change)

    @invariant()
    def both_see_the_same(self) -> None:
        for who, store in enumerate(getattr(self, "stores", [])):
            assert store.get_many(KEYS) == self.kept
            assert store.claims(KEYS) == {key: owner == who for key, owner in self.owners.items()}
            assert store.others_active() == any(owner != who for owner in self.owners.values())

    def teardown(self) -> None:
        for store in getattr(self, "stores", []):
            store.close()


@pytest.mark.slow
@pytest.mark.parametrize("examples", [8, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.long])])
def test_a_store_is_like_a_dictionary(places: Iterator[str], examples: int) -> None:
    """After any calls of two stores, the content equals that of a dictionary."""

    class Here(Machine):
        pass

    Here.places = places
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=examples,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


ASK_ALL = """
keys = [f"{number:03x}" for number in range(60)]
random.seed(int(sys.argv[1]))
random.shuffle(keys)
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry
while keys:
    for key, found in store.claim(keys[:7]).items():
        if found is True:
            print("asked", key, flush=True)
            time.sleep(0.005)
            kept = store.keep([Entry(key, Reply(sys.argv[1] + " " + key, "m"))])
            found = kept[key]
        if found is not False:
            print("found", key, found.text, flush=True)
            keys.remove(key)
    random.shuffle(keys)
    time.sleep(0.001)
store.close()
"""


@pytest.mark.slow
def test_processes_ask_once(start: Start) -> None:
    processes = [start(ASK_ALL, number) for number in range(4)]
    lines = [
        line.split() for process in processes for line in process.communicate(timeout=120)[0].splitlines()
    ]
    requested = Counter(line[1] for line in lines if line[0] == "asked")
    assert len(requested) == requested.total() == 60
    found = Counter((key, text) for word, key, text, *_ in (line for line in lines if line[0] == "found"))
    assert len(found) == 60
    assert set(found.values()) == {4}


SPEND_ALL = """
from pytest_rageval.models.stores.interface import Spending
made = 0
while True:
    state = store.spend("r", Spending(open_calls=1, open_cost=0.25), max_calls=100, max_cost=20.0)
    if state is None:
        made += 1
        store.spend("r", Spending(1, 0.125, -1, -0.25))
    elif not state.fits(Spending(calls=1), 100, inf) and not state.open_calls:
        break
print(made)
"""


@pytest.mark.slow
def test_processes_spend_no_more_than_the_limit(start: Start, stores: Open) -> None:
    processes = [start(f"from math import inf\n{SPEND_ALL}") for _ in range(4)]
    assert sum(int(process.communicate(timeout=120)[0]) for process in processes) == 100
    assert stores().spend("r", Spending(calls=1), max_calls=0) == Spending(100, 12.5)


KEEP_ON = """
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry
number = 0
while True:
    keys = [f"{sys.argv[1]}-{number:05x}-{each}" for each in range(20)]
    store.claim(keys)
    store.keep([Entry(key, Reply(key, "m")) for key in keys])
    print(number, flush=True)
    number += 1
"""


@pytest.mark.slow
def test_a_killed_process_leaves_whole_calls(start: Start, stores: Open) -> None:
    """A killed process has stored everything that it reported, and the call in progress completely or not at all."""
    for attempt in range(3):
        process = start(KEEP_ON, attempt)
        assert process.stdout is not None
        for _ in range(3 + 5 * attempt):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
        last = [2 + 5 * attempt, *map(int, rest.split())][-1]
        kept = Counter(
            entry.key.split("-")[1] for entry in stores().entries() if entry.key.startswith(f"{attempt}-")
        )
        assert set(kept.values()) == {20}
        assert last + 1 <= len(kept) <= last + 2


CLAIM = """
assert store.claim(["a", "b"]) == {"a": True, "b": True}
print("claimed", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "shift",
    [
        pytest.param(0.0, id="same clock"),
        pytest.param(86_400.0, id="a day ahead", marks=pytest.mark.long),
        pytest.param(-86_400.0, id="a day behind", marks=pytest.mark.long),
    ],
)
def test_the_claims_of_a_killed_process_end(start: Start, stores: Open, shift: float) -> None:
    """Claims of a process persist while it lives and expire after its death, whatever its clock.

    One other process then gets the claim.
    """
    process = start(CLAIM, shift=shift)
    assert process.stdout is not None
    process.stdout.readline()
    first, second = stores(), stores()

    def look(seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for store in (first, second):
                assert store.claims(["a"]) == {"a": False}
                assert store.claim(["a"]) == {"a": False}
                assert store.others_active()
            time.sleep(0.1)

    look(CLAIM_TTL_S + 2)
    process.kill()
    process.wait()
    look(CLAIM_TTL_S - 2)
    ended = time.monotonic() + 60
    while first.claims(["a"]) or second.claims(["a"]):
        assert time.monotonic() < ended
        time.sleep(0.05)
    assert not first.others_active()
    assert first.claim(["a"]) == {"a": True}
    assert second.claim(["a", "b"]) == {"a": False, "b": True}


@pytest.mark.slow
@pytest.mark.parametrize("shift", [86_400.0, -86_400.0], ids=["a day ahead", "a day behind"])
def test_a_process_with_another_time(start: Start, stores: Open, shift: float) -> None:
    """Replies and claims of a process with another clock are valid here at once, and vice versa."""
    store = stores()
    assert store.claim(["here"]) == {"here": True}
    store.keep([_entry("kept here")])
    code = """
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry
assert store.claim(["here", "there", "kept here"]) == {"here": False, "there": True, "kept here": Reply("x", "m")}
store.keep([Entry("kept there", Reply("y", "m"))])
print("done", flush=True)
time.sleep(600)
"""
    process = start(code, shift=shift)
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    assert store.claim(["there", "kept there"]) == {"there": False, "kept there": Reply("y", "m")}
    assert store.claims(["here", "there"]) == {"here": True, "there": False}


@pytest.mark.slow
def test_a_process_that_was_stopped_knows_what_it_lost(start: Start, stores: Open) -> None:
    code = """
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry
store.claim(["a", "b"])
print("claimed", flush=True)
os.kill(os.getpid(), 19)
print(store.claims(["a"]), flush=True)
print(store.keep([Entry("a", Reply("late")), Entry("b", Reply("late"))])["a"].text, flush=True)
"""
    process = start(code)
    assert process.stdout is not None
    process.stdout.readline()
    store = stores()
    ended = time.monotonic() + 60
    while store.claim(["a"]) != {"a": True}:
        assert time.monotonic() < ended
        time.sleep(0.05)
    process.send_signal(signal.SIGCONT)
    assert process.stdout.readline() == "{'a': False}\n"
    assert process.stdout.readline() in {"late\n", "first\n"}
    assert store.keep([_entry("a", "first")])["a"] == store.get_many(["a"])["a"]
