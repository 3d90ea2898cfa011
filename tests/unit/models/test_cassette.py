"""The cassette: a file of recorded replies."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import StoreError
from pytest_rageval.models.cassette import entry_line, read_cassette, write_cassette
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.summaries import request_summary

ENTRIES = [
    Entry("b2", Reply("two\u2028lines\n", "m"), {"model": "m", "parts": {"question": "ab"}}),
    Entry("a1", Reply("„ja“", "m", "length", 5, 1)),
    Entry("c3", Reply("", refusal="no", tool_calls="[{}]", without="seed")),
]


def _plain(entries: Iterable[Entry]) -> dict[str, tuple[Reply, Any]]:
    return {entry.key: (entry.reply, entry.summary) for entry in entries}


def _read(file: Path) -> dict[str, tuple[Reply, Any]]:
    return _plain(read_cassette(file).values())


@pytest.fixture(params=["replies.jsonl", "replies.jsonl.gz"])
def file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return tmp_path / "evals" / request.param


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return tmp_path / "evals" / "replies.jsonl"


def test_what_is_written_in_any_order_is_read(file: Path) -> None:
    write_cassette(file, ENTRIES)
    assert _read(file) == _plain(ENTRIES)
    assert list(read_cassette(file)) == ["a1", "b2", "c3"]
    first = file.read_bytes()
    write_cassette(file, reversed(ENTRIES))
    assert file.read_bytes() == first


def test_replies_are_one_a_line_sorted_by_key(plain: Path) -> None:
    """A cassette has one readable line per reply, sorted by key, so a git diff shows one line per changed reply."""
    write_cassette(plain, ENTRIES)
    lines = plain.read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["key"] for line in lines[:-1]] == ["a1", "b2", "c3"]
    assert lines[0].startswith('{"key": "a1", "finish_reason"')
    assert "„ja“" in lines[0]
    assert lines[1].startswith('{"key": "b2", "request": {"model": "m", ')
    assert lines[-1] == ""


def test_a_compressed_cassette_contains_no_time_and_no_file_name(tmp_path: Path) -> None:
    for name in ("one.jsonl.gz", "other.gz"):
        write_cassette(tmp_path / name, ENTRIES)
    one = (tmp_path / "one.jsonl.gz").read_bytes()
    assert one == (tmp_path / "other.gz").read_bytes()
    # The gzip flags, which say that there is no file name, and the four bytes of the time.
    assert one[3:8] == b"\0\0\0\0\0"


@pytest.mark.skipif(shutil.which("zcat") is None, reason="there is no zcat here")
def test_a_compressed_cassette_is_for_other_tools_too(tmp_path: Path, plain: Path) -> None:
    write_cassette(plain, ENTRIES)
    write_cassette(tmp_path / "c.jsonl.gz", ENTRIES)
    shown = subprocess.run(["zcat", tmp_path / "c.jsonl.gz"], capture_output=True, check=True)  # noqa: S607
    assert shown.stdout == plain.read_bytes()


def test_a_cassette_that_others_compressed_is_read(tmp_path: Path, plain: Path) -> None:
    write_cassette(plain, ENTRIES)
    first, *rest = plain.read_bytes().splitlines(keepends=True)
    (tmp_path / "c.gz").write_bytes(gzip.compress(first) + gzip.compress(b"".join(rest)))
    assert _read(tmp_path / "c.gz") == _plain(ENTRIES)


@pytest.mark.parametrize("left", [5, 40, -9, -4, -1])
def test_a_truncated_compressed_cassette_is_an_error(tmp_path: Path, left: int) -> None:
    file = tmp_path / "c.jsonl.gz"
    write_cassette(file, [*ENTRIES, *(Entry(f"{n:064x}", Reply(str(n))) for n in range(300))])
    file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(StoreError, match=r"The cassette .*c\.jsonl\.gz cannot be read: .*\nCheck --rageval"):
        read_cassette(file)


def test_what_is_not_compressed_is_no_compressed_cassette(plain: Path) -> None:
    write_cassette(plain, ENTRIES)
    wrong = plain.with_name("c.gz")
    wrong.write_bytes(plain.read_bytes())
    with pytest.raises(StoreError, match="cannot be read: Not a gzipped file"):
        read_cassette(wrong)
    write_cassette(wrong, ENTRIES)
    content = bytearray(wrong.read_bytes())
    content[len(content) // 2] ^= 0xFF
    wrong.write_bytes(content)
    with pytest.raises(StoreError):
        read_cassette(wrong)


def test_a_new_writing_is_the_whole_content(file: Path) -> None:
    write_cassette(file, ENTRIES)
    write_cassette(file, [Entry("d4", Reply("four"))])
    assert _read(file) == {"d4": (Reply("four"), {})}
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_the_file_can_be_read_by_others(file: Path) -> None:
    """A cassette has the default permissions of new files, so that other users can read it."""
    write_cassette(file, ENTRIES)
    (plain := file.with_name("plain")).touch()
    assert file.stat().st_mode == plain.stat().st_mode


def test_blank_lines_do_not_count(plain: Path) -> None:
    write_cassette(plain, ENTRIES)
    plain.write_bytes(b"\r\n" + plain.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert _read(plain) == _plain(ENTRIES)


def test_the_first_of_two_replies_under_one_key_counts(plain: Path) -> None:
    lines = [entry_line(Entry("k", Reply(text))) for text in ("first", "second")]
    plain.parent.mkdir()
    plain.write_text("\n".join(lines), encoding="utf-8")
    assert _read(plain) == {"k": (Reply("first"), {})}


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    tool = shutil.which("git")
    if tool is None:
        pytest.skip("there is no git here")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgsign=false")

    def run(*args: str) -> str:
        done = subprocess.run(
            [tool, *identity, *args], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("init", "--quiet", "--initial-branch=main")
    return run


def test_two_branches_that_recorded_are_merged(git: Callable[..., str], tmp_path: Path) -> None:
    cassette = tmp_path / "replies.jsonl"

    def commit(branch: str, *entries: Entry) -> None:
        write_cassette(cassette, entries)
        git("add", ".")
        git("commit", "--quiet", "-m", branch)

    shared = [Entry(f"{n}0", Reply(f"shared {n}")) for n in range(9)]
    (tmp_path / ".gitattributes").write_text("*.jsonl merge=union\n", encoding="utf-8")
    commit("base", *shared)
    git("checkout", "--quiet", "-b", "other")
    commit("other", *shared[1:], Entry("05", Reply("theirs")), Entry("35", Reply("both, theirs")))
    git("checkout", "--quiet", "main")
    commit("main", *shared[:-1], Entry("04", Reply("ours")), Entry("35", Reply("both, ours")))
    git("merge", "--quiet", "--no-edit", "other")
    read = {key: reply.text for key, (reply, _) in _read(cassette).items()}
    assert read["04"] == "ours"
    assert read["05"] == "theirs"
    assert read["35"] in {"both, ours", "both, theirs"}
    assert {f"{n}0" for n in range(1, 8)} <= read.keys()
    # After it is written again, the cassette is sorted and has each key once.
    write_cassette(cassette, read_cassette(cassette).values())
    keys = [json.loads(line)["key"] for line in cassette.read_text(encoding="utf-8").splitlines()]
    assert keys == sorted(read)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("<<<<<<< HEAD", "Expecting value"),
        ("[]", "the key is missing"),
        ('{"text": "x"}', "the key is missing"),
        ('{"key": 5, "text": "x"}', "the key is missing"),
        ('{"key": "k"}', "'text' is None, expected str"),
        (
            '{"key": "k", "text": "x", "model": "m", "finish_reason": "stop", "tokens_in": "1"}',
            "'tokens_in' is '1'",
        ),
        ('{"key": "k", "request": "r", "text": "x"}', "'request' is 'r', expected an object"),
        ('{"key": "k", "text": "x", "model": "m"', "Expecting ',' delimiter"),
        pytest.param("[" * 100_000, "", id="nested without end"),
    ],
)
def test_a_bad_line_is_named(plain: Path, line: str, reason: str) -> None:
    write_cassette(plain, ENTRIES)
    good = plain.read_text(encoding="utf-8")
    plain.write_text(f"{good}\n{line}\n", encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        read_cassette(plain)
    assert str(caught.value).startswith(f"{plain} line 5 is not a recorded reply: {reason}")
    assert "Take the line out" in str(caught.value)


def test_a_missing_cassette_is_an_error(file: Path) -> None:
    with pytest.raises(StoreError, match=r"does not exist\.\nRecord it: pytest --rageval-record\."):
        read_cassette(file)


def test_a_cassette_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_bytes(b'{"key": "\xe9"}\n')
    with pytest.raises(StoreError, match=r"The cassette .*c\.jsonl cannot be read"):
        read_cassette(tmp_path / "c.jsonl")


def test_a_file_that_cannot_be_written_is_named(file: Path) -> None:
    file.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"The cassette .*replies\.jsonl(\.gz)? cannot be written: "):
        write_cassette(file, ENTRIES)
    # No partial file is left, which could be committed by mistake.
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    blocked = file.parent / "blocked"
    blocked.write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="cannot be written"):
        write_cassette(blocked / "replies.jsonl", ENTRIES)


def test_a_prompt_that_utf_8_cannot_encode_is_recorded(file: Path) -> None:
    request = Request("u", "m", ({"role": "user", "content": "cut \ud83d"},), {"stop": ["\ud83d"]})
    write_cassette(file, [Entry("k", Reply("fine"), request_summary(request, prompts=True)), *ENTRIES])
    assert read_cassette(file)["k"].reply == Reply("fine")
    assert len(read_cassette(file)) == 4
