"""Replay: only recorded replies are returned, and a missing reply is explained."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_rageval.core.errors import MissingReplyError
from pytest_rageval.models.cache import Cache
from pytest_rageval.models.cassette import write_cassette
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.sources import ReplaySource
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.summaries import request_summary

SERVER = RemoteServer("http://127.0.0.1:9/v1")
RECORDED = Request(
    "u",
    "m1",
    ({"role": "user", "content": "Why? Because."},),
    {"max_tokens": 16},
    parts={"question": "Why?", "passage 1": "Because.", "prompt": "p1"},
)
OTHER = replace(RECORDED, parts={"question": "Who?", "passage 1": "Ann.", "prompt": "p1"})


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Cache]:
    file = tmp_path / "replies.jsonl"
    write_cassette(
        file, [Entry("a", Reply("x"), request_summary(RECORDED)), Entry("b", Reply("without outline"))]
    )
    made = Cache(tmp_path / "cache", file)
    asyncio.run(made.keep(Entry("c", Reply("y"), request_summary(OTHER))))
    yield made
    made.close()


def _missing(replay: ReplaySource, request: Request) -> str:
    with pytest.raises(MissingReplyError) as caught:
        asyncio.run(replay.obtain(SERVER, request))
    return str(caught.value)


@pytest.mark.parametrize(
    ("missing_request", "difference"),
    [
        (replace(RECORDED, model="m2"), "model: m1, now m2"),
        (replace(RECORDED, parts={**RECORDED.parts, "prompt": "p2"}), "prompt (other text)"),
        (replace(RECORDED, parameters={"max_tokens": 32}), "max_tokens: 16, now 32"),
        (replace(OTHER, sample=1), "sample: 0, now 1"),
        (RECORDED, "nothing that the record shows, but its wording"),
    ],
)
def test_the_nearest_recorded_request_says_what_changed(cache, missing_request, difference):
    message = _missing(ReplaySource(cache), missing_request)
    assert message.startswith(f"A reply of {missing_request.model} is in neither the cache nor a cassette")
    assert f"The nearest recorded request differs in: {difference}." in message
    assert "Run once without --rageval-replay" in message


def test_a_request_without_a_similar_recorded_one_says_so(cache: Cache) -> None:
    stranger = replace(RECORDED, parts={"question": "Where?"})
    assert "No request like it is recorded." in _missing(ReplaySource(cache), stranger)


@pytest.mark.parametrize(
    ("prompt", "difference"),
    [
        ("Answer in a few words. " + "Text. " * 20 + "Why now?", "message 1 (user) ('Why?', now 'Why now?')"),
        ("Answer in a few words. " + "Text. " * 20 + "Why? " * 20, "message 1 (user) (other text)"),
        ("Something else.", None),
    ],
)
def test_a_recorded_prompt_is_compared_by_its_words(
    tmp_path: Path, prompt: str, difference: str | None
) -> None:
    def asked(text: str) -> Request:
        return Request("u", "m1", ({"role": "user", "content": text},), {})

    file = tmp_path / "replies.jsonl"
    texts = ["Say hello to each guest.", "Answer in a few words. " + "Text. " * 20 + "Why?"]
    entries = [
        Entry(str(n), Reply("x"), request_summary(asked(text), prompts=True)) for n, text in enumerate(texts)
    ]
    write_cassette(file, entries)
    cache = Cache(tmp_path / "cache", file)
    message = _missing(ReplaySource(cache), asked(prompt))
    near = "No request like it is recorded." if difference is None else f"request differs in: {difference}."
    assert near in message
    cache.close()


def test_the_words_decide_between_prompts_with_the_same_system_message(tmp_path: Path) -> None:
    def asked(question: str, **parameters: object) -> Request:
        system, user = "Be brief.", f"From these pages. {question}"
        messages = {"role": "system", "content": system}, {"role": "user", "content": user}
        return Request("u", "m1", messages, parameters)

    file = tmp_path / "replies.jsonl"
    requests = [
        asked("Is there a fee?"),
        asked("When is the lake open?"),
        asked("When is the lake open?", seed=1),
    ]
    entries = [
        Entry(str(n), Reply("x"), request_summary(each, prompts=True)) for n, each in enumerate(requests)
    ]
    write_cassette(file, entries)
    cache = Cache(tmp_path / "cache", file)
    message = _missing(ReplaySource(cache), asked("When is the lake closed?", seed=1))
    assert "request differs in: message 2 (user) ('open?', now 'closed?')." in message
    cache.close()


def test_nothing_is_recorded_at_all(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", None)
    assert "No request like it is recorded." in _missing(ReplaySource(cache), RECORDED)
    cache.close()


def test_each_missing_reply_has_its_own_explanation_up_to_a_number(cache: Cache) -> None:
    """The first 50 missing replies are explained; comparing all of them would take too long."""
    replay = ReplaySource(cache)
    first = _missing(replay, replace(RECORDED, model="m2"))
    assert "model: m1, now m2" in first
    assert "model: m1, now m3" in _missing(replay, replace(OTHER, model="m3"))
    for _ in range(48):
        assert _missing(replay, replace(RECORDED, model="m2")) == first
    assert _missing(replay, replace(RECORDED, model="m2")) == "More replies are missing than are explained."
    asyncio.run(replay.close())
