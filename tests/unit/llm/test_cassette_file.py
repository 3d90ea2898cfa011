"""The file of recorded replies."""

import json
from pathlib import Path

import pytest

from pytest_rageval.errors import StoreError
from pytest_rageval.llm.cassette import read_cassette, write_cassette
from pytest_rageval.llm.reply import Reply

REPLIES = {"b2": Reply("two\u2028lines\n", "m"), "a1": Reply("„ja“", "m", "length", 5, 1), "c3": Reply("")}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the cassette is."""
    return tmp_path / "evals" / "replies.jsonl"


def test_what_is_written_is_read(file: Path) -> None:
    """All replies by key; missing folders are made."""
    write_cassette(file, REPLIES)
    assert read_cassette(file) == REPLIES


def test_replies_are_one_a_line_sorted_by_key(file: Path) -> None:
    """A diff in git shows one line a changed reply, readable, the key first."""
    write_cassette(file, REPLIES)
    lines = file.read_text(encoding="utf-8").split("\n")
    assert [json.loads(line)["key"] for line in lines[:-1]] == ["a1", "b2", "c3"]
    assert lines[0].startswith('{"key": "a1", ')
    assert "„ja“" in lines[0]
    assert lines[-1] == ""


def test_the_order_of_recording_does_not_matter(file: Path) -> None:
    """The same replies are the same bytes."""
    write_cassette(file, REPLIES)
    first = file.read_bytes()
    write_cassette(file, dict(reversed(REPLIES.items())))
    assert file.read_bytes() == first


def test_a_new_writing_is_the_whole_content(file: Path) -> None:
    """Nothing of before stays, and no other file is left beside it."""
    write_cassette(file, REPLIES)
    write_cassette(file, {"d4": Reply("four")})
    assert read_cassette(file) == {"d4": Reply("four")}
    assert [path.name for path in file.parent.iterdir()] == ["replies.jsonl"]


def test_the_file_can_be_read_by_others(file: Path) -> None:
    """As any file in git."""
    write_cassette(file, REPLIES)
    assert file.stat().st_mode & 0o777 == 0o644


def test_blank_lines_do_not_count(file: Path) -> None:
    """Nor do Windows line ends."""
    write_cassette(file, REPLIES)
    file.write_bytes(b"\r\n" + file.read_bytes().replace(b"\n", b"\r\n\r\n"))
    assert read_cassette(file) == REPLIES


@pytest.mark.parametrize(
    ("line", "found"),
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
    ],
)
def test_a_bad_line_is_named(file: Path, line: str, found: str) -> None:
    """File and line, why, and what to do."""
    write_cassette(file, REPLIES)
    good = file.read_text(encoding="utf-8")
    file.write_text(f"{good}\n{line}\n", encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        read_cassette(file)
    assert str(caught.value).startswith(f"{file} line 5 is no recorded reply: {found}")
    assert "Take the line out" in str(caught.value)


def test_a_missing_cassette_is_an_error(file: Path) -> None:
    """It says how to record one."""
    with pytest.raises(StoreError, match=r"cannot be read: .*\nCheck --rageval-cassette, or record it"):
        read_cassette(file)


def test_a_cassette_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    """It is named."""
    (tmp_path / "c.jsonl").write_bytes(b'{"key": "\xe9"}\n')
    with pytest.raises(StoreError, match=r"The cassette .*c\.jsonl cannot be read"):
        read_cassette(tmp_path / "c.jsonl")


def test_a_file_that_cannot_be_written_is_named(file: Path) -> None:
    """A folder in its place, or a file in the place of its folder."""
    file.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"The cassette .*replies\.jsonl cannot be written: "):
        write_cassette(file, REPLIES)
    blocked = file.parent / "blocked"
    blocked.write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="cannot be written"):
        write_cassette(blocked / "replies.jsonl", REPLIES)


def test_a_failed_writing_leaves_nothing_behind(file: Path) -> None:
    """No half-written file lies beside the cassette, to be committed by mistake."""
    file.mkdir(parents=True)
    with pytest.raises(StoreError):
        write_cassette(file, REPLIES)
    assert [path.name for path in file.parent.iterdir()] == ["replies.jsonl"]


def test_a_text_that_utf_8_cannot_hold_does_not_end_the_run(file: Path) -> None:
    """Half a surrogate pair is written so that it can be read again, or refused as a StoreError."""
    replies = {"k": Reply("\ud83d")}
    try:
        write_cassette(file, replies)
    except StoreError as error:
        assert str(file) in str(error)  # noqa: PT017 - either is right
    else:
        assert read_cassette(file) == replies
