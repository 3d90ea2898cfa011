"""Attack: a server sends a huge reply. Promise: memory is bounded, and the request is unscored."""

import asyncio
import gzip
import json
import subprocess
import sys
import zlib

import pytest

from pytest_rageval.core.errors import Unscored
from pytest_rageval.models.client import Client, RetryableError
from pytest_rageval.models.connection import MAX_BODY_BYTES
from pytest_rageval.models.messages import MAX_REPLY_LENGTH, Request, TooLarge
from pytest_rageval.models.server import RemoteServer
from tests.llm_server import Cut
from tests.unit.models.scripted import Answer, ScriptedServer, completion

ASKED = Request("u", "m", ({"role": "user", "content": "Why?"},))
MIB = 2**20

PEAK = """
import asyncio, resource, sys

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
import openai, pytest_rageval.models.connection
from pytest_rageval.core.errors import Unscored
from pytest_rageval.models.client import Client
from pytest_rageval.models.messages import Request
from pytest_rageval.models.server import RemoteServer

before = peak()

async def main():
    client = Client(RemoteServer(sys.argv[1]), timeout_s=120)
    try:
        await client.complete(Request("u", "m", ({"role": "user", "content": "Why?"},)), {})
    except Unscored as error:
        print(error)
    await client.close()

asyncio.run(main())
print(peak() - before)
"""


def _ask(url):
    async def main():
        client = Client(RemoteServer(url), timeout_s=120)
        try:
            return (await client.complete(ASKED, {}))[0]
        finally:
            await client.close()

    return asyncio.run(main())


def _bomb(mebibytes, wbits=31):
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    return b"".join(packer.compress(bytes(MIB)) for _ in range(mebibytes)) + packer.flush()


@pytest.fixture(scope="module")
def gigabyte():
    """A body of one MiB that decompresses to one GiB."""
    return _bomb(1024)


@pytest.mark.slow
@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_gigabyte_in_a_small_answer_takes_little_memory(gigabyte, status):
    answer = Answer(status, gigabyte, {"content-encoding": "gzip"})
    with ScriptedServer(answer) as server:
        process = subprocess.run(
            [sys.executable, "-c", PEAK, server.url], capture_output=True, text=True, check=True
        )
    message, peak = process.stdout.splitlines()
    assert message == "the server's answer is larger than 16 MiB"
    # Without the limit the peak is 2,800 MiB.
    assert int(peak) < 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("identity", bytes),
        ("gzip, gzip", lambda body: gzip.compress(gzip.compress(body))),
    ],
)
def test_the_bound_is_on_what_is_unpacked(encoding, pack):
    """The limit holds for the decompressed body: one byte more is refused, with every encoding."""
    whole = json.dumps(completion("fine")).encode()
    for size, fits in ((MAX_BODY_BYTES, True), (MAX_BODY_BYTES + 1, False)):
        answer = Answer(body=pack(whole.ljust(size)), headers={"content-encoding": encoding})
        with ScriptedServer(answer) as server:
            if fits:
                assert _ask(server.url).text == "fine"
            else:
                with pytest.raises(TooLarge, match="larger than 16 MiB"):
                    _ask(server.url)


def test_an_answer_that_cannot_be_unpacked_is_no_reply():
    garbled = Answer(body=b"no gzip", headers={"content-encoding": "gzip"})
    with ScriptedServer(garbled) as server, pytest.raises(RetryableError) as caught:
        _ask(server.url)
    assert caught.value.kind in {"garbled", "unreached"}


@pytest.mark.parametrize("changes", [{}, {"message": {"refusal": "x" * MAX_REPLY_LENGTH}}])
def test_a_reply_has_a_size(changes):
    """A text longer than the limit of a reply is unscored, although its body is within the limit of a body."""
    for text in ("y" * MAX_REPLY_LENGTH, "y" * (MAX_REPLY_LENGTH + 1)):
        with ScriptedServer(Answer(body=completion(text, **changes))) as server:
            if len(text) == MAX_REPLY_LENGTH and not changes:
                assert len(_ask(server.url).text) == MAX_REPLY_LENGTH
            else:
                with pytest.raises(Unscored, match="characters, and at most 1,048,576 are read"):
                    _ask(server.url)


def test_one_reply_that_is_too_large_is_one_unscored_question(project, llm):
    project.use(llm)
    llm.model = lambda prompt: Cut("x" * (MAX_REPLY_LENGTH + 1), "stop") if "item-3?" in prompt else "c1x"
    project.test(
        "def test_own(rageval):\n"
        "    score = rageval.score('answer.em@1')\n"
        "    assert dict(score.reasons) == "
        "{'the reply has 1,048,577 characters, and at most 1,048,576 are read': 1}\n"
    )
    project.run("--rageval=max_unscored=0.5", "--rageval=max_calls=20", passed=1)
    assert len(llm.requests) == 4
