"""Batches: requests are submitted once, found again at the server, and their replies are cached under their keys."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from pytest_rageval.core.errors import BudgetError, ReplyPending, ServerError, StoreError, Unscored
from pytest_rageval.extensions.batches import api as batch_api
from pytest_rageval.extensions.batches import batches as module
from pytest_rageval.extensions.batches.api import Batch
from pytest_rageval.extensions.batches.batches import BatchSource, Submission
from pytest_rageval.models.budget import Limits
from pytest_rageval.models.client import RetryableError
from pytest_rageval.models.gateway import Gateway, GatewaySettings
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.server import RemoteServer
from tests.batch_server import BatchServer
from tests.unit.models.scripted import ScriptedServer

KEY = "sk-a-key-that-nobody-may-see"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_api, "FIRST_DELAY_S", 0.001)


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer(lambda prompt: f"re: {prompt}") as running:
        yield running


def _request(text: object, **changes: Any) -> Request:
    fields: dict[str, Any] = {"model": "m", "parameters": {"temperature": 0.5, "max_tokens": 5}, **changes}
    messages = ({"role": "user", "content": str(text)},)
    return Request("u", messages=messages, **fields)


def _source(gateway: Gateway) -> BatchSource:
    assert isinstance(gateway.source, BatchSource)
    return gateway.source


class Runs:
    def __init__(self, folder: Path, server: BatchServer | ScriptedServer) -> None:
        self.folder = folder
        self.remote = RemoteServer(server.url, KEY)
        # The base URL in the requests of `_request`.
        self.remote.base_url = "u"

    def of(
        self,
        work: Callable[[Gateway], Any],
        *,
        batch: str = "collect",
        batch_errors: Literal["live", "unscored"] = "live",
        run: str = "r",
        **access: Any,
    ) -> Any:
        source = partial(BatchSource, collects=batch == "collect", errors=batch_errors) if batch else None

        async def main() -> Any:
            gateway = Gateway(GatewaySettings(self.folder / "cache", run=run, make_source=source, **access))
            try:
                return await work(gateway)
            finally:
                await gateway.close()

        return asyncio.run(main())

    def ask(self, *requests: Request, **access: Any) -> list[Any]:
        return self.of(lambda gateway: self._asked(gateway, requests), **access)

    def submit(self, *requests: Request, **access: Any) -> Submission:
        async def work(gateway: Gateway) -> Submission:
            await self._asked(gateway, requests)
            return await _source(gateway).submit()

        return self.of(work, **access)

    def collect(self, **access: Any) -> list[Batch]:
        return self.of(lambda gateway: _source(gateway).refresh([self.remote]), **access)

    async def _asked(self, gateway: Gateway, requests: Sequence[Request]) -> list[Any]:
        asking = (gateway.get_reply(self.remote, request) for request in requests)
        return await asyncio.gather(*asking, return_exceptions=True)


@pytest.fixture
def runs(tmp_path: Path, server: BatchServer) -> Runs:
    return Runs(tmp_path, server)


def _texts(outcomes: Sequence[Any]) -> list[str]:
    return [outcome.text if isinstance(outcome, Reply) else type(outcome).__name__ for outcome in outcomes]


def test_replies_of_a_batch_are_found_by_any_later_run(runs: Runs, server: BatchServer) -> None:
    one, two = _request("one"), _request("two")
    assert _texts(runs.ask(one, two)) == ["ReplyPending"] * 2
    submission = runs.submit(one, two)
    assert (submission.missing, [batch.requests for batch in submission.made]) == (2, [2])
    [batch] = runs.collect()
    assert (batch.status, batch.replies, batch.failures) == ("completed", 2, {})
    assert _texts(runs.ask(one, two, batch="")) == ["re: one", "re: two"]
    assert not server.live

    async def summaries(gateway: Gateway) -> list[Any]:
        return [summary["model"] for summary in gateway.cache.summaries()]

    assert runs.of(summaries) == ["m", "m"]


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("extra", [{}, {"extra_body": {"top_k": 3}, "temperature": 0.1}, {"stop": ["x"]}])
def test_a_line_is_what_would_be_sent_live(tmp_path: Path, api: Any, extra: dict[str, Any]) -> None:
    request = _request("Why – 😀?", parameters={"max_tokens": 5, **extra}, api=api)
    with BatchServer() as server:
        runs = Runs(tmp_path, server)
        runs.remote = RemoteServer(server.url, KEY, api=api)
        runs.ask(request, batch="", run="live")
        runs.folder = tmp_path / "other"
        runs.submit(request)
    [[line]] = server.uploads
    assert line["body"] == server.live[0]
    assert line["custom_id"] == request.key
    [batch] = server.batches.values()
    path = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}[api]
    assert batch["endpoint"] == line["url"] == path


def test_a_request_in_flight_is_not_submitted_again(runs: Runs, server: BatchServer) -> None:
    server.polls = 1
    one, two = _request("one"), _request("two")
    runs.submit(one)
    submission = runs.submit(one, two)
    texts = [line["body"]["messages"][0]["content"] for lines in server.uploads for line in lines]
    assert texts == ["one", "two"]
    assert (submission.missing, len(submission.waited_for), len(submission.made)) == (2, 2, 1)


def test_a_batch_whose_creation_was_not_confirmed_is_found(runs: Runs, server: BatchServer) -> None:
    server.lost = 1
    [batch] = runs.submit(_request("one")).made
    assert (batch.id, list(server.batches)) == ("batch-1", ["batch-1"])


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_process_that_dies_makes_no_second_batch(runs, server, calls, monkeypatch):
    once, done = batch_api.BatchAPI._call_once, []

    async def dies(*args: Any) -> Any:
        result = await once(*args)
        done.append(result)
        if len(done) == calls:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patched:
        patched.setattr(batch_api.BatchAPI, "_call_once", dies)
        with pytest.raises(KeyboardInterrupt):
            runs.submit(_request("one"))
    assert [event for event in server.events if event != "list"] == ["upload", "create"][: calls - 1]
    [batch] = runs.submit(_request("one")).waited_for
    assert batch.id == "batch-1"
    assert len(server.batches) == 1


def test_a_lost_folder_leads_to_no_second_batch(runs: Runs, server: BatchServer, tmp_path: Path) -> None:
    """The name of a batch depends only on its requests: without the cache folder, it is found at the server."""
    runs.submit(_request("one"), _request("two"))
    runs.folder = tmp_path / "another machine"
    [batch] = runs.submit(_request("two"), _request("one")).made
    assert (batch.id, len(server.uploads)) == ("batch-1", 1)
    runs.collect()
    assert _texts(runs.ask(_request("one"))) == ["re: one"]


def test_an_old_batch_is_not_taken_for_a_lost_one(runs: Runs, server: BatchServer, tmp_path: Path) -> None:
    server.age_s = 3 * 86400
    runs.submit(_request("one"))
    runs.folder = tmp_path / "another machine"
    [batch] = runs.submit(_request("one")).made
    assert batch.id == "batch-2"


def test_each_model_has_a_batch_of_its_own(runs: Runs, server: BatchServer) -> None:
    assert len(runs.submit(_request("one"), _request("two", model="n")).made) == 2
    assert [body["model"] for body in server.asked] == ["m", "n"]


@pytest.mark.slow
def test_a_batch_has_no_more_than_the_server_takes(runs, server, monkeypatch):
    monkeypatch.setattr(batch_api, "MAX_REQUESTS", 3)
    runs.submit(*map(_request, range(7)))
    assert [len(lines) for lines in server.uploads] == [3, 3, 1]
    monkeypatch.setattr(batch_api, "MAX_BYTES", 2 * len(json.dumps(server.uploads[0][0])) + 20)
    runs.submit(*map(_request, range(10, 13)))
    assert [len(lines) for lines in server.uploads] == [3, 3, 1, 2, 1]


@pytest.mark.parametrize("errors", ["live", "unscored"])
def test_a_request_that_failed_is_asked_live_or_left_unscored(runs, server, errors):
    one, two = _request("one"), _request("two")
    broken = 500, {"message": "broken"}
    server.refuse = lambda body: broken if body["messages"][0]["content"] == "two" else None
    runs.submit(one, two)
    [batch] = runs.collect()
    assert batch.failures[two.key]["reason"] == "status 500: broken"
    server.refuse = lambda _: None
    first_outcome, second_outcome = runs.ask(one, two, batch_errors=errors)
    assert first_outcome.text == "re: one"
    if errors == "live":
        assert second_outcome.text == "re: two"
        assert len(server.live) == 1
    else:
        assert str(second_outcome) == "it failed in a batch: status 500: broken"
        assert not server.live
    assert runs.submit(one, two, batch_errors=errors).missing == 0


@pytest.mark.parametrize("errors", ["live", "unscored"])
def test_what_no_stage_asked_for_is_asked_live_or_left_unscored(runs, server, errors):
    async def work(gateway: Gateway) -> Any:
        asking = asyncio.gather(gateway.get_reply(runs.remote, _request("new")), return_exceptions=True)
        return (await asking)[0], dict(gateway.usage.remarks)

    outcome, remarks = runs.of(work, batch="use", batch_errors=errors)
    if errors == "live":
        assert outcome.text == "re: new"
        [remark] = remarks
        assert remark.startswith("m called live: no stage sent this request")
    else:
        assert "no stage sent this request" in str(outcome)
        assert not server.live


def test_a_failure_is_forgotten_after_a_day(runs, server, monkeypatch):
    server.refuse = lambda _: (500, {"message": "broken"})
    runs.submit(_request("one"))
    runs.collect()
    monkeypatch.setattr(module, "FAILURES_COUNT_S", 0.0)
    assert len(runs.submit(_request("one")).made) == 1


def test_an_expired_request_is_sent_in_a_second_batch_and_no_third(runs: Runs, server: BatchServer) -> None:
    server.expire = lambda body, _: body["messages"][0]["content"] == "two"
    one, two = _request("one"), _request("two")
    runs.submit(one, two)
    [batch] = runs.collect()
    assert (batch.status, batch.replies) == ("expired", 1)
    assert [new_batch.requests for new_batch in runs.submit(one, two).made] == [1]
    runs.collect()
    assert runs.submit(one, two, batch_errors="unscored").missing == 0
    [reply, missing] = runs.ask(one, two, batch_errors="unscored")
    assert reply.text == "re: one"
    assert isinstance(missing, Unscored)


def test_a_batch_with_the_name_of_an_older_one_is_another(runs, server, tmp_path):
    """The number in a name is free again when the files of an old batch are deleted."""
    server.expire = lambda _body, _number: True
    for _ in range(2):
        runs.submit(_request("one"))
        runs.collect()
    for file in tmp_path.glob("cache/batches/*-0.*"):
        file.unlink()
    [batch] = runs.submit(_request("one")).made
    assert (batch.name[-2:], batch.id, len(server.uploads)) == ("-1", "batch-3", 3)


@pytest.mark.parametrize("end", ["failed", "cancelled"])
def test_a_batch_that_failed_or_was_cancelled_is_free_for_another(runs, server, end):
    server.ends[1] = end
    runs.submit(_request("one"))
    [batch] = runs.collect()
    assert (batch.status, batch.replies) == (end, 0)
    assert batch.error == ("Enqueued token limit reached" if end == "failed" else "")
    runs.submit(_request("one"))
    runs.collect()
    assert _texts(runs.ask(_request("one"))) == ["re: one"]


def test_a_parameter_that_the_model_refuses_is_left_out_of_the_next_batch(runs, server):
    def refuse(body: dict[str, Any]) -> Any:
        words = {"message": "Unsupported value: 'temperature'", "param": "temperature"}
        return (400, words) if "temperature" in body else None

    server.refuse = refuse
    runs.submit(_request("one"))
    runs.collect()
    assert len(runs.submit(_request("one"), _request("two")).made) == 1
    runs.collect()
    replies = [(reply.text, reply.without) for reply in runs.ask(_request("one"), _request("two"))]
    assert replies == [("re: one", "temperature"), ("re: two", "temperature")]
    assert not server.live


def test_a_refusal_that_no_parameter_explains_is_a_failure(runs: Runs, server: BatchServer) -> None:
    server.refuse = lambda _: (400, {"message": "the prompt is too long"})
    runs.submit(_request("one"))
    runs.collect()
    [error] = runs.ask(_request("one"), batch_errors="unscored")
    assert "status 400: the prompt is too long" in str(error)


def test_a_line_that_is_not_a_reply_is_a_failure(runs, server, monkeypatch):
    one, two, three = map(_request, ("one", "two", "three"))
    runs.submit(one, two, three)
    content = server._content

    def garbled(file_id: str) -> bytes:
        lines = {line["custom_id"]: line for line in map(json.loads, content(file_id).splitlines())}
        lines[two.key]["response"]["body"] = {"choices": []}
        foreign = {**lines.pop(three.key), "custom_id": "f" * 64}
        return b"\n".join([b"{", b"[]", *(json.dumps(line).encode() for line in [*lines.values(), foreign])])

    monkeypatch.setattr(server, "_content", garbled)
    [batch] = runs.collect()
    assert batch.replies == 1
    assert "not understood" in batch.failures[two.key]["reason"]
    assert "has no line of it" in batch.failures[three.key]["reason"]
    assert _texts(runs.ask(one)) == ["re: one"]


def test_cached_replies_count_once_if_a_process_dies_while_collecting(runs, server, monkeypatch):
    runs.submit(*map(_request, range(5)))
    write = module.BatchFolder.write

    def die(self: Any, batch: Batch) -> None:
        if batch.collected:
            raise KeyboardInterrupt
        write(self, batch)

    monkeypatch.setattr(module, "CHUNK", 2)
    monkeypatch.setattr(module.BatchFolder, "write", die)
    with pytest.raises(KeyboardInterrupt):
        runs.collect()
    monkeypatch.setattr(module.BatchFolder, "write", write)
    [batch] = runs.collect()
    assert batch.replies == 5
    assert runs.submit(*map(_request, range(5))).missing == 0
    assert len(server.uploads) == 1


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text("[m]\ninput = 2\noutput = 8\nbatch_input = 1\nbatch_output = 4\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(max_calls=1), "--rageval max_calls=1 would be passed"),
        (Limits(max_cost=1e-9), "--rageval-max-cost=1e-09 could be passed"),
    ],
)
def test_a_batch_that_could_pass_the_budget_is_not_submitted(runs, server, limits, message, prices):
    with pytest.raises(BudgetError, match=message):
        runs.submit(_request("one"), _request("two"), limits=limits, prices=prices)
    assert not server.files


def test_a_batch_is_counted_at_its_own_price(runs: Runs, prices: Path) -> None:
    options: dict[str, Any] = {"prices": prices, "limits": Limits(max_calls=3, max_cost=1.0)}
    runs.submit(_request("one"), _request("two"), **options)
    with pytest.raises(BudgetError):
        # The requests of open batches count.
        runs.submit(_request("three"), _request("four"), **options)
    [batch] = runs.collect(**options)
    assert batch.cost_usd == pytest.approx(2 * (10 * 1 + 2 * 4) / 1e6)
    with pytest.raises(BudgetError, match="2 calls were made"):
        runs.submit(_request("three"), _request("four"), **options)
    assert len(runs.submit(_request("three"), **options).made) == 1
    assert len(runs.submit(_request("four"), _request("five"), **{**options, "run": "another"}).made) == 1


def test_a_reply_without_token_counts_costs_the_most_possible(runs, server, prices):
    options: dict[str, Any] = {"prices": prices, "limits": Limits(max_cost=1.0)}
    server.usage = False
    [submitted_batch] = runs.submit(_request("one"), **options).made
    [collected_batch] = runs.collect(**options)
    assert collected_batch.cost_usd == submitted_batch.most_usd > 0


@pytest.mark.parametrize("path", ["POST /files", "POST /batches", "GET /batches"])
def test_a_server_without_batches_is_an_error(runs: Runs, server: BatchServer, path: str) -> None:
    server.without = {path}
    with pytest.raises(ServerError, match=r"has no batches.*\nRun without --rageval-batch"):
        runs.submit(_request("one"))
    server.without = set()
    assert len(runs.submit(_request("one")).made) == 1


def test_a_damaged_note_is_an_error_that_names_it(runs: Runs, tmp_path: Path) -> None:
    """A damaged file of a batch raises StoreError: the batch may exist at the server, and is not created again."""
    runs.submit(_request("one"))
    [file] = (tmp_path / "cache" / "batches").glob("*.json")
    for content in ("{", "[]", '{"name": 7}', file.read_text(encoding="utf-8").replace('"chat"', "7")):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(StoreError, match="Delete it"):
            runs.ask(_request("one"))


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
@pytest.mark.parametrize("suffix", ["json", "lines"])
def test_a_pipe_in_place_of_a_batch_record_does_not_block(runs: Runs, tmp_path: Path, suffix: str) -> None:
    runs.submit(_request("one"))
    [file] = (tmp_path / "cache" / "batches").glob(f"*.{suffix}")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(StoreError):
        runs.ask(_request("one"))


def test_the_key_is_in_no_file_and_no_reason(runs: Runs, server: BatchServer, tmp_path: Path) -> None:
    server.refuse = lambda _: (401, {"message": f"Incorrect API key provided: {KEY}"})
    runs.submit(_request("one"))
    [batch] = runs.collect()
    assert "***" in next(iter(batch.failures.values()))["reason"]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not any(KEY.encode() in path.read_bytes() for path in files)


def test_two_processes_submit_one_batch(runs: Runs, server: BatchServer) -> None:
    async def both() -> list[Submission]:
        where = runs.folder / "cache", partial(BatchSource, collects=True)
        gateways = [Gateway(GatewaySettings(where[0], make_source=where[1], run=name)) for name in "ab"]

        async def submit_request(gateway: Gateway) -> Submission:
            with pytest.raises(ReplyPending):
                await gateway.get_reply(runs.remote, _request("one"))
            return await _source(gateway).submit()

        try:
            return await asyncio.gather(*map(submit_request, gateways))
        finally:
            for gateway in gateways:
                await gateway.close()

    submissions = asyncio.run(both())
    assert sorted(len(submission.made) for submission in submissions) == [0, 1]
    assert [len(submission.waited_for) for submission in submissions] == [1, 1]
    assert len(server.uploads) == 1


def test_replies_that_arrived_meanwhile_are_not_submitted(runs: Runs, server: BatchServer) -> None:
    """B finds replies missing, A submits and collects them, then B submits: nothing is paid for twice."""

    async def late(gateway: Gateway) -> Submission:
        with pytest.raises(ReplyPending):
            await gateway.get_reply(runs.remote, _request("one"))
        await asyncio.to_thread(lambda: (runs.submit(_request("one")), runs.collect()))
        return await _source(gateway).submit()

    submission = runs.of(late, run="another")
    assert (submission.made, submission.waited_for) == ([], [])
    assert len(server.asked) == 1


BATCH = {"id": "batch-1", "object": "batch", "created_at": 1, "status": "completed"}
SPOILED: dict[str, tuple[int, Any]] = {
    "HTML": (200, b"<html>please log in</html>"),
    "a list": (200, []),
    "a text": (200, "completed"),
    "null": (200, None),
    "nothing": (200, b""),
    "no status": (200, {**BATCH, "status": None}),
    "a number as status": (200, {**BATCH, "status": 7}),
    "another batch": (200, {**BATCH, "id": "batch-2"}),
    "no id": (200, {"status": "completed"}),
    "deep nesting": (200, b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "status 500": (500, b"<html>"),
}


GOOD = {"create": {"another batch"}, "upload": {"another batch", "no status", "a number as status"}}
"""What a good answer may be."""


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (event, kind)
        for event in ("retrieve", "list", "create", "upload")
        for kind in SPOILED
        if kind not in GOOD.get(event, ())
    ],
)
def test_a_spoiled_answer_is_asked_for_again(runs: Runs, server: BatchServer, event: str, kind: str) -> None:
    server.spoiled = {event: [SPOILED[kind]]}
    runs.submit(_request("one"))
    [batch] = runs.collect()
    assert (batch.status, batch.replies, len(server.batches)) == ("completed", 1, 1)
    assert server.spoiled == {event: []}


@pytest.mark.parametrize("kind", SPOILED)
def test_answers_that_stay_spoiled_are_one_error(runs: Runs, server: BatchServer, kind: str) -> None:
    runs.submit(_request("one"))
    server.spoiled = {"retrieve": [SPOILED[kind]] * batch_api.ATTEMPTS}
    with pytest.raises(RetryableError):
        runs.collect()
    [batch] = runs.collect()
    assert (batch.status, batch.replies) == ("completed", 1)


@pytest.mark.parametrize(
    "errors", [{"data": None}, {"data": [None, {"message": None, "code": "c"}, 7]}, [], "text", {"data": {}}]
)
def test_the_errors_of_a_batch_may_have_any_form(runs: Runs, server: BatchServer, errors: Any) -> None:
    runs.submit(_request("one"))
    server.spoiled = {"retrieve": [(200, {**BATCH, "status": "failed", "errors": errors})]}
    [batch] = runs.collect()
    assert (batch.status, batch.error) == ("failed", "c" if "'c'" in str(errors) else "")


@pytest.mark.parametrize("status", [404, 410])
def test_an_unknown_batch_is_named(runs: Runs, server: BatchServer, tmp_path: Path, status: int) -> None:
    """It may belong to another key, and a second batch would be paid for as well."""
    runs.submit(_request("one"))
    server.spoiled = {"retrieve": [(status, {"error": {"message": "gone"}})]}
    with pytest.raises(ServerError, match="describes the batch batch-1, which it does not know") as caught:
        runs.collect()
    [file] = (tmp_path / "cache" / "batches").glob("*.json")
    assert str(file) in str(caught.value)


FILES: dict[str, Callable[[bytes], Any]] = {
    "UTF-16": lambda content: content.decode().encode("utf-16"),
    "CR only": lambda content: content.replace(b"\n", b"\r"),
    "HTML": lambda _: b"<html>please log in</html>",
    "an error": lambda _: b'{"error": {"message": "not ready"}}',
    "nothing": lambda _: b"",
}


@pytest.mark.parametrize("kind", [*FILES, "no file"])
def test_an_unreadable_file_of_answers_sends_nothing_live(runs: Runs, server: BatchServer, kind: str) -> None:
    requests = [_request("one"), _request("two")]
    runs.submit(*requests)
    if kind == "no file":
        server.spoiled = {"retrieve": [(200, {**BATCH, "output_file_id": None})]}
    else:
        server.change_file = FILES[kind]
    with pytest.raises(ServerError, match=r"The answers of the batch batch-1 cannot be read"):
        runs.collect()
    assert _texts(runs.ask(*requests)) == ["ReplyPending", "ReplyPending"]
    server.change_file = lambda content: content
    [batch] = runs.collect()
    assert (batch.replies, batch.failures) == (2, {})
    assert server.live == []


def test_a_reply_that_is_not_utf8_is_a_failure(runs: Runs, server: BatchServer) -> None:
    runs.submit(_request("one"), _request("two"))
    server.change_file = lambda content: content.replace(b"re: one", b"re: \xff")
    [batch] = runs.collect()
    assert batch.replies == 1
    assert [failure["reason"] for failure in batch.failures.values()] == ["its line is not UTF-8"]


def test_an_empty_reply_is_cached_and_counts_as_a_failure(runs: Runs, server: BatchServer) -> None:
    server.model = lambda _: ""
    runs.submit(_request("one"))
    [batch] = runs.collect()
    assert (batch.replies, len(batch.failures)) == (1, 1)
    assert runs.submit(_request("one"), run="another", batch_errors="unscored").missing == 0
