"""`CommandRetriever` with programs in Python and in JavaScript."""

import asyncio
import json
import sys
import time
from pathlib import Path

import pytest

from pytest_rageval import CommandRetriever
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import InputError, QueryError
from pytest_rageval.extensions.remote_retrievers import program
from pytest_rageval.retrievers import adapt_retriever
from tests.docs.pages import ROOT

pytestmark = [pytest.mark.slow]


PROGRAM = """
import json, os, sys, time
open("starts", "a").write("1")
for line in sys.stdin:
    request = json.loads(line)
    query, id = request["query"], request["id"]
    print("asked", query, file=sys.stderr, flush=True)
    if query == "exit":
        sys.exit("out of memory")
    if query == "hang":
        time.sleep(60)
    if query == "log":
        print("Loading the index")
    reply = {"id": id, "documents": [{"id": f"{query}-{n}", "text": "t"} for n in range(request["k"])]}
    if query == "fail":
        reply = {"id": id, "error": "no such index"}
    if query == "other":
        reply["id"] = 99
    print(json.dumps(reply), flush=True)
open("ends", "a").write("1")
"""


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "search.py").write_text(PROGRAM, encoding="utf-8")
    return [sys.executable, "search.py"]


def test_one_program_answers_all_questions(loop, command, tmp_path):
    retriever = adapt_retriever(CommandRetriever(command, cwd=tmp_path), loop)
    for query in ("a", "ü \ud83d\n"):
        assert loop.run(retriever.retrieve(query, 2)).ids == (f"{query}-0", f"{query}-1")
    with pytest.raises(QueryError, match=r"RuntimeError: .* search.py reported: no such index"):
        loop.run(retriever.retrieve("fail", 2))
    assert len(loop.run(retriever.retrieve("b", 3))) == 3
    assert loop.close() is None
    assert [(tmp_path / name).read_text() for name in ("starts", "ends")] == ["1", "1"]


@pytest.mark.parametrize(
    ("query", "kind", "problem"),
    [
        (
            "exit",
            ConnectionError,
            r"search.py ended with exit status 1.\nIt wrote to stderr: asked a\nasked exit\nout of",
        ),
        (
            "hang",
            TimeoutError,
            r"did not answer within 0.7 s, and was ended.\nIt wrote to stderr: asked a\nasked hang$",
        ),
        ("log", ConnectionError, "wrote a line to stdout that answers no question: Loading the index\n"),
        ("other", ConnectionError, 'answers no question: {"id": 99, '),
    ],
)
async def test_a_program_that_fails_fails_all_that_follow(command, tmp_path, query, kind, problem):
    retriever = CommandRetriever([command[0], "-u", *command[1:]], cwd=tmp_path, timeout=10, concurrency=2)
    began = time.monotonic()
    await retriever("a", 1)
    (await retriever._resource.get())._timeout = 0.7
    failed, *_, last = await asyncio.gather(
        retriever(query, 1), retriever("b", 1), retriever("c", 1), return_exceptions=True
    )
    with pytest.raises(kind, match=problem):
        raise failed
    assert str(failed) == str(last)
    assert time.monotonic() - began < 10
    assert not (tmp_path / "ends").exists()


async def test_several_questions_at_a_time_may_be_answered_in_any_order() -> None:
    source = """
import json, sys
while requests := [json.loads(sys.stdin.readline()) for _ in range(4)]:
    for request in reversed(requests):
        print(json.dumps({"id": request["id"], "found": {"rows": [request["q"]]}}), flush=True)
"""
    command = [sys.executable, "-c", source]
    retriever = CommandRetriever(command, concurrency=4, body={"q": "{query}"}, documents="found.rows")
    assert await asyncio.gather(*(retriever(f"question {n}") for n in range(8))) == [
        [f"question {n}"] for n in range(8)
    ]


async def test_a_cancelled_question_leaves_the_program_usable(command: list[str], tmp_path: Path) -> None:
    retriever = CommandRetriever(command, cwd=tmp_path, concurrency=2)
    first = asyncio.ensure_future(retriever("a", 1))
    await asyncio.to_thread(_wait_for, tmp_path / "starts")
    first.cancel()
    assert await retriever("b", 1) == [{"id": "b-0", "text": "t"}]


def test_a_program_that_goes_on_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "END_S", 0.1)
    source = """
import json, sys, time
print(json.dumps({"id": json.loads(sys.stdin.readline())["id"], "documents": []}), flush=True)
time.sleep(60)
"""
    began = time.monotonic()
    assert asyncio.run(CommandRetriever([sys.executable, "-c", source])("a")) == []
    assert time.monotonic() - began < 10


def test_a_missing_program_is_an_error() -> None:
    with pytest.raises(InputError, match="no program 'no-such-program' in the folders of PATH"):
        CommandRetriever(["no-such-program"])
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        asyncio.run(CommandRetriever(["./no-such-program"])("a"))
    with pytest.raises(InputError, match="needs a list"):
        CommandRetriever("node search.mjs")
    with pytest.raises(InputError, match='without "id"'):
        CommandRetriever(["node"], body={"id": "{query}"})


def test_secrets_of_a_command_are_not_in_its_fingerprint(command: list[str]) -> None:
    words = ["--token", "12345678", "--api-key=12345678", "-k", "5"]
    settings = json.loads(CommandRetriever([*command, *words]).fingerprint)
    assert settings["command"].endswith(
        "--token … --api-key=… -k 5".replace("…", "'…'", 1).replace("--api-key=…", "'--api-key=…'")
    )


def test_settings_are_the_fingerprint(command: list[str]) -> None:
    settings = json.loads(CommandRetriever(command, env={"SECRET": "12345678"}).fingerprint)
    assert settings == {
        "command": f"{sys.executable} search.py", "body": {"query": "{query}", "k": "{k}"}, "documents": "documents",
        "id": "", "text": "",
    }  # fmt: skip


@pytest.mark.usefixtures("node")
def test_the_example_in_typescript_answers(loop: BackgroundEventLoop) -> None:
    folder = ROOT / "example_project" / "typescript"
    retriever = adapt_retriever(CommandRetriever(["node", "search.ts"], cwd=folder), loop)
    ranking = loop.run(retriever.retrieve("How long do refunds of a voucher take?", 3))
    assert len(set(ranking.ids)) == 3
    assert all(document.text and document.score for document in ranking)
