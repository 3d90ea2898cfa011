"""Attacks on the files that a run reads: the caches, the cassette, and every file that a user names.

Promise: with any content, no code of the file runs, nothing hangs, memory is bounded, and the error names the problem
and a remedy; a damaged entry loses only its own reply.
"""

import contextlib
import gzip
import json
import os
import random
import socket
import sqlite3
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest

from pytest_rageval.cli import main
from pytest_rageval.core.errors import RagevalError, StoreError
from pytest_rageval.extensions.embeddings.store import FILE as EMBEDDINGS
from pytest_rageval.extensions.embeddings.store import EmbeddingStore
from pytest_rageval.lib.cache_folder import UntrustedFolderError, make_cache_folder
from pytest_rageval.models.cassette import entry_line, read_cassette
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.stores.sqlite_file import FILE, Database, ReplyTable
from tests.store_kinds import stored_entries

pytestmark = pytest.mark.slow

ONE_REPLY_EACH = '@pytest.mark.rageval_threshold("answer.em@1", min=0.3)\ndef test_gate(): pass\n'

PLANTED = {
    "trigger": "CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
    "view": "CREATE VIEW v AS SELECT 1",
    "view in place of a table": "DROP TABLE {table}; CREATE VIEW {table} AS SELECT 1 AS key, 'x' AS text",
    "index with an expression": "CREATE INDEX i ON {table} (length(key))",
    "column with an expression": "ALTER TABLE {table} ADD COLUMN x TEXT AS (printf('%1000000d', 1)) VIRTUAL",
    "condition": "DROP TABLE {table}; CREATE TABLE {table} (key TEXT PRIMARY KEY CHECK (length(key) > 0))",
    "table of its own": "CREATE TABLE other (x)",
}


def _change(file: Path, script: str) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_in_the_reply_cache_is_refused(project, llm, name):
    """A foreign table, trigger or view is an error before any request is sent; the replies can be exported."""
    project.use(llm)
    project.test(ONE_REPLY_EACH)
    project.run()
    file = project.path / ".rageval_cache" / FILE
    _change(file, PLANTED[name].format(table="leases"))
    project.run(
        "--rageval-refresh",
        errors=1,
        shows=[
            "*its file replies.sqlite contains tables that pytest-rageval did not create: *",
            "*`rageval cache export FILE *",
        ],
    )
    assert len(llm.requests) == 4
    saved = project.path / "saved.jsonl"
    subprocess.run(
        [sys.executable, "-m", "pytest_rageval", "cache", "--cache-dir", file.parent, "export", saved],
        check=False,
    )
    assert len(read_cassette(saved)) == 4


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_in_the_embeddings_is_refused(tmp_path, name):
    with contextlib.closing(EmbeddingStore(tmp_path)) as store:
        store.put_many({"a": np.ones(3, np.float32)})
    _change(tmp_path / EMBEDDINGS, PLANTED[name].format(table="embeddings"))
    before = (tmp_path / EMBEDDINGS).read_bytes()
    store = EmbeddingStore(tmp_path)
    for use in (lambda: store.get_many(["a"]), lambda: store.put_many({"b": np.ones(3, np.float32)})):
        with pytest.raises(
            StoreError, match=r"contains tables that pytest-rageval did not create: .*\nDelete the file"
        ):
            use()
    assert (tmp_path / EMBEDDINGS).read_bytes() == before


def _bomb(file: Path, member: bytes, times: int) -> None:
    part = gzip.compress(member, 9)
    with file.open("wb") as out:
        for _ in range(times):
            out.write(part)
    print(f"{file.stat().st_size:,} bytes become {len(member) * times:,}")


LINES = entry_line(Entry("k", Reply("x", "m", tokens_in=1))).encode() + b"\n"

BOMBS = {
    "one line": (b" " * 2**20, 2048, "line 1 is larger than 16 MiB when decompressed"),
    "one entry": (b'{"key": "' + b"k" * 2**20, 2048, "line 1 is larger than 16 MiB when decompressed"),
    "empty lines": (b"\n" * 2**20, 2048, "tape.jsonl.gz is larger than 1024 MiB when decompressed"),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_compressed_bomb_is_read_up_to_a_limit(tmp_path, kind):
    """Attack: 2 GiB in a small compressed file. The error names the file and the limit, and memory is bounded."""
    member, times, expected = BOMBS[kind]
    bomb = tmp_path / "tape.jsonl.gz"
    _bomb(bomb, member, times)
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from pytest_rageval.core.errors import StoreError\n"
        "from pytest_rageval.models.cassette import read_cassette\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    read_cassette(Path(sys.argv[1]))\n"
        "except StoreError as error:\n    print(error)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, bomb], capture_output=True, text=True, timeout=300, check=True
    )
    *message, more_mib = process.stdout.splitlines()
    assert expected in message[0]
    assert "--rageval-record" in message[1]
    assert int(more_mib) < 8 * 16


def test_many_entries_are_read_up_to_a_limit(tmp_path, monkeypatch):
    """Each line counts at least as much as the memory of its entry."""
    monkeypatch.setattr("pytest_rageval.models.cassette.MAX_FILE_BYTES", 1000 * 512)
    bomb = tmp_path / "tape.jsonl.gz"
    _bomb(bomb, LINES, 1000)
    assert len(read_cassette(bomb)) == 1
    _bomb(bomb, LINES, 1001)
    with pytest.raises(StoreError, match="is larger than"):
        read_cassette(bomb)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    # The length of a socket's path is limited, hence the relative path.
    before = Path.cwd()
    os.chdir(path.parent)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(path.name)
    os.chdir(before)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


LABELS = '@pytest.mark.rageval_calibration("labels.jsonl", min_kappa=0.1)\ndef test_judge(): pass\n'


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize(
    ("make", "kind"),
    [(_pipe, "named pipe"), (_socket, "socket"), (_device, "device")],
    ids=["pipe", "socket", "device"],
)
@pytest.mark.parametrize(
    "name",
    ["evals.jsonl", "tape.jsonl", "baseline.json", "labels.jsonl", "prompts.toml", "prices.toml", "cache"],
)
def test_anything_but_a_regular_file_is_refused(project, llm, name, make, kind):
    """A pipe, a socket or a device in place of a file is an error: reading it would hang or never end."""
    project.use(llm)
    project.test(
        LABELS if name == "labels.jsonl" else ONE_REPLY_EACH.replace("min=0.3", "min=0.3, max_drop=0.1")
    )
    path = project.path / name
    if name == "cache":
        path.mkdir()
        path /= FILE
    path.unlink(missing_ok=True)
    make(path)
    options = {
        "tape.jsonl": ["--rageval-cassette=tape.jsonl"],
        "baseline.json": ["--rageval-baseline=baseline.json"],
        "prompts.toml": ["--rageval=prompts=prompts.toml"],
        "prices.toml": ["--rageval=prices=prices.toml"],
        "cache": ["--rageval=cache_dir=cache"],
    }.get(name, [])
    result = project.pytester.runpytest_subprocess(*project.arguments, *options, timeout=120)
    output = result.stdout.str() + result.stderr.str()
    assert result.ret != 0
    assert f"it is a {kind}, and only a regular file is read" in output
    assert path.name in output or str(path.resolve()) in output
    assert "Traceback" not in output


SPOILED = [
    "text = CAST(x'fffe41' AS TEXT)",
    "text = x'80049541'",
    "text = 'forged'",
    "tokens_in = 'many'",
    "tokens_in = -1",
    "finish_reason = CAST(x'ff' AS TEXT)",
    "model = 7.5",
    "checksum = 'none'",
    "checksum = 1e300",
]


@pytest.mark.parametrize("change", SPOILED)
def test_a_damaged_row_loses_only_its_own_reply(project, llm, change):
    project.use(llm)
    project.evalset(12)
    project.test(ONE_REPLY_EACH)
    project.run()
    file = project.path / ".rageval_cache" / FILE
    _change(file, f"UPDATE replies SET {change} WHERE key IN (SELECT key FROM replies LIMIT 3)")  # noqa: S608 - as above
    project.run(passed=1, shows="3 × damaged entry of the cache ignored (`rageval cache verify` *")
    assert len(llm.requests) == 15
    result = project.run(passed=1)
    result.stdout.no_fnmatch_line("*damaged entry*")
    assert len(llm.requests) == 15


@pytest.mark.parametrize(
    "outline", ["[", "[]", '{"parts": 7, "model": ["m"]}', "[" * 50_000], ids=lambda o: o[:8]
)
def test_a_damaged_outline_leads_to_no_request(project, llm, outline):
    project.use(llm)
    project.test(ONE_REPLY_EACH)
    project.run()
    with (
        contextlib.closing(sqlite3.connect(project.path / ".rageval_cache" / FILE)) as connection,
        connection,
    ):
        connection.execute("UPDATE replies SET outline = ?", [outline])
    project.run("--rageval-replay", passed=1)
    project.run(
        "--rageval-replay",
        "--rageval-model=another",
        errors=1,
        shows=["*is in neither the cache nor a cassette*", "No request like it is recorded.*"],
    )


def _as_link(folder):
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


def _of_another_user(folder):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    os.chown(folder, 54321, 54321)


UNTRUSTED = {
    "link": (_as_link, "*it is a symbolic link to */elsewhere.*", "*ame */elsewhere itself*"),
    "everybody": (
        lambda folder: folder.chmod(0o777),
        "*every user of this machine can write replies to it (its mode is 777)*",
        "*chmod o-w '*'*",
    ),
    "another user": (
        _of_another_user,
        "*it belongs to another user (id 54321), who may have written replies to it*",
        "*change its owner with chown*",
    ),
}


@pytest.mark.skipif(os.name != "posix", reason="owners and permissions are those of POSIX")
@pytest.mark.parametrize("kind", UNTRUSTED)
@pytest.mark.parametrize("place", ["folder", "diskcache"])
def test_a_folder_that_others_can_write_is_refused(project, llm, capsys, kind, place):
    """Attack: another user plants replies. The folder is refused by runs and commands, before anything is read."""
    if place == "diskcache":
        pytest.importorskip("diskcache")
    project.use(llm)
    project.test(ONE_REPLY_EACH)
    option = "--rageval=cache_dir=cache" if place == "folder" else "--rageval-cache=diskcache:cache"
    project.run(option, passed=1)
    asked, folder = len(llm.requests), project.path / "cache"
    change, why, remedy = UNTRUSTED[kind]
    change(folder)
    project.run(option, "--rageval-replay", errors=1, shows=[why, remedy])
    capsys.readouterr()
    arguments = ("--cache-dir", "cache") if place == "folder" else ("--cache", "diskcache:cache")
    assert main(["cache", *arguments, "info"]) == 2
    assert fnmatch(capsys.readouterr().err, f"*{why}*")
    assert len(llm.requests) == asked


@pytest.mark.skipif(os.name != "posix", reason="owners and permissions are those of POSIX")
def test_a_folder_of_the_projects_owner_is_trusted(tmp_path, monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    folder = tmp_path / "cache"
    folder.mkdir()
    for path in (tmp_path, folder):
        os.chown(path, 54321, 54321)
    monkeypatch.chdir(tmp_path)
    make_cache_folder(folder)
    monkeypatch.chdir("/")
    with pytest.raises(UntrustedFolderError):
        make_cache_folder(folder)


def test_random_bytes_in_the_cache_never_give_a_wrong_reply(tmp_path):
    """In 1000 files with a few changed bytes, every reply that is returned equals the stored reply."""
    chance = random.Random(5)
    stored = {f"{n:064x}": Reply(f"reply {n}" * 9, "m", tokens_in=n) for n in range(60)}
    with contextlib.closing(Database(tmp_path)) as database, database.transaction():
        ReplyTable(database).put_many(Entry(key, reply, {"model": "m"}) for key, reply in stored.items())
    whole = (tmp_path / FILE).read_bytes()
    ends = Counter()
    for _ in range(1000):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 20)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        (tmp_path / FILE).write_bytes(content)
        try:
            with contextlib.closing(Database(tmp_path)) as database:
                returned = ReplyTable(database).get_many(list(stored))
                stored_entries(database)
        except RagevalError:
            ends["refused"] += 1
            continue
        finally:
            for beside in tmp_path.glob(f"{FILE}-*"):
                beside.unlink()
        assert returned.items() <= stored.items()
        ends["read whole" if returned == stored else "read in part"] += 1
    print(dict(ends))
    assert min(ends.values()) > 20
    assert len(ends) == 3


def test_a_cassette_of_a_later_version_is_refused(project, llm):
    project.use(llm)
    project.test(ONE_REPLY_EACH)
    options = ("--rageval-cassette=tape.jsonl", "--rageval=cache_dir=empty")
    project.run("--rageval-cassette=tape.jsonl", "--rageval-record")
    tape = project.path / "tape.jsonl"
    records = [json.loads(line) for line in tape.read_text(encoding="utf-8").splitlines()]
    assert not any("version" in record for record in records)
    records[2]["version"] = 1
    tape.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    project.run(*options, "--rageval-replay", passed=1)
    records[2]["version"] = 2
    tape.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    project.run(
        *options,
        errors=1,
        shows=[
            "*tape.jsonl line 3: it is of version 2, written by a later *; this one reads version 1.",
            "Update *",
        ],
    )
    assert len(llm.requests) == 4


@pytest.mark.parametrize("version", ['version="1"', ""])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_cached_function_that_waits_for_itself_is_an_error(project, version, kind):
    """A cached function that calls itself with the same arguments is an error, because it would wait for ever."""
    wait, run = ("await ", "asyncio.run({})") if kind == "async def" else ("", "{}")
    project.pytester.makepyfile(
        f"""
        import asyncio
        import pytest

        def test_it(rageval_llm):
            {kind} again(text):
                return {wait}cached(text)

            again.__qualname__ = "again"
            cached = rageval_llm.cached(again, {version})

            {kind} call():
                return {wait}cached("a")

            with pytest.raises(Exception, match="calls itself with the same arguments"):
                {run.format("call()")}
        """
    )
    result = project.pytester.runpytest_subprocess(*project.arguments, timeout=120)
    result.assert_outcomes(passed=1)
