"""`rageval cache verify`."""

import gzip
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.models.cassette import entry_line, write_cassette
from tests.unit.cli.folders import CacheFolder, Done, entry, key

Run = Callable[..., Done]

FILE = "cache/replies.sqlite"


class _Bomb:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


@pytest.mark.usefixtures("cache")
def test_a_good_cache_is_good(rageval: Run) -> None:
    expected = Done(0, f"{FILE}: 4 good replies, 0 damaged entries, schema 1\n", "")
    assert rageval("verify") == expected
    assert rageval("verify", "--repair") == expected


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("text = text || ' '", "the checksum is not that of the contents"),
        ("tokens_in = tokens_in + 1", "the checksum is not that of the contents"),
        ("checksum = checksum + 1", "the checksum is not that of the contents"),
        ("text = x'80049500'", "text is blob, expected text"),
        ("text = CAST(x'c3' AS TEXT)", "text is not UTF-8"),
        ("tokens_out = 'many'", "tokens_out is text, expected integer"),
        ("tokens_out = 1.5", "tokens_out is real, expected integer"),
        (
            "checksum = 'x', refusal = x'00'",
            "refusal is blob, expected text; checksum is text, expected integer",
        ),
    ],
)
def test_a_damaged_entry_is_named_and_deleted(rageval, cache, change, why):
    cache.sql(f"UPDATE replies SET {change} WHERE key = ?", key(1))  # noqa: S608 - our own
    done = rageval("verify")
    assert done.status == 1
    assert done.out == (
        f"{FILE}: damaged: entry {key(1)}: {why}\n{FILE}: 3 good replies, 1 damaged entry, schema 1\n"
    )
    assert "verify --repair" in done.err
    assert cache.sql("SELECT count(*) FROM replies") == [(4,)]
    done = rageval("verify", "--repair")
    assert done.status == 1
    assert done.out.endswith(f"deleted: {key(1)}\n")
    assert {stored.key for stored in cache.entries()} == {key(0), key(2), key(3)}
    assert rageval("verify").status == 0


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("outline = x'80'", "outline is blob, expected text"),
        ("outline = '[]'", "outline is not a JSON object"),
        (
            "outline = '{', written = 9e999",
            "written is inf, expected seconds since 1970; outline is not a JSON object",
        ),
        ("written = -1", "written is -1.0, expected seconds since 1970"),
        ("written = 'today'", "written is text, expected real"),
    ],
)
def test_a_valid_reply_survives_a_damaged_outline_or_date(rageval, cache, change, why):
    cache.sql(f"UPDATE replies SET {change} WHERE key = ?", key(1))  # noqa: S608 - our own
    done = rageval("verify", "--repair")
    assert done.status == 1
    assert f"{FILE}: damaged: entry {key(1)}: {why}\n" in done.out
    assert done.out.endswith(f"mended, its reply is kept: {key(1)}\n")
    assert {stored.key: stored.reply for stored in cache.entries()}[key(1)] == entry(1).reply
    assert rageval("verify").status == 0


def test_a_planted_pickle_is_named_and_not_run(rageval: Run, cache: CacheFolder, tmp_path: Path) -> None:
    """Cache folders may come from elsewhere: no command unpickles, and so executes, a pickle in the database."""
    mark = tmp_path / "it ran"
    bomb = pickle.dumps(_Bomb(mark))
    cache.sql("UPDATE replies SET text = ?, outline = ? WHERE key = ?", bomb, bomb, key(0))
    for command in (["verify"], ["info"], ["export", "x.jsonl"], ["verify", "--repair"]):
        rageval(*command)
    assert not mark.exists()
    assert len(cache.entries()) == 3
    pickle.loads(bomb)  # noqa: S301 - the bomb is a real one
    assert mark.exists()


@pytest.mark.parametrize("bad", ["x'6162'", "CAST(x'61ff' AS TEXT)"])
def test_a_key_that_is_no_text_can_be_deleted(rageval: Run, cache: CacheFolder, bad: str) -> None:
    cache.sql(f"UPDATE replies SET key = {bad} WHERE key = ?", key(0))  # noqa: S608 - our own
    cache.put([entry(0)])
    assert rageval("verify", "--repair").status == 1
    assert rageval("verify").status == 0
    assert len(cache.entries()) == 4


def test_many_damaged_entries_among_many_are_all_found(rageval: Run, cache: CacheFolder) -> None:
    """Of 2,000 entries, `--repair` reports and deletes all damaged ones and no good one."""
    cache.put([entry(n) for n in range(4, 2000)])
    bad = {key(n) for n in range(0, 2000, 7)}
    cache.sql(
        "UPDATE replies SET text = 'forged' WHERE key IN (SELECT value FROM json_each(?))",
        str(sorted(bad)).replace("'", '"'),
    )
    done = rageval("verify", "--repair")
    assert {line.split("entry ")[1][:64] for line in done.out.splitlines() if "damaged: entry" in line} == bad
    assert {stored.key for stored in cache.entries()} == {key(n) for n in range(2000)} - bad


def test_claims_are_reported(rageval: Run, cache: CacheFolder) -> None:
    cache.sql("INSERT INTO leases VALUES ('a', 'x', 1), ('b', 'x', 1), ('c', 'y', 1e300)")
    done = rageval("verify")
    assert (done.status, done.err) == (0, "")
    assert (
        "notice: 3 claims of running or killed runs; a killed run's claim blocks others for 5 s\n" in done.out
    )


@pytest.mark.parametrize("length", [0, 50, 4096, 8192, 9000])
@pytest.mark.parametrize("more", [[], ["--repair"]])
def test_a_file_that_was_cut_off_is_damaged(rageval, cache, length, more):
    """If the file is truncated, `verify` deletes no entry, even with `--repair`, and says how to restore the cache."""
    cache.file.write_bytes(cache.file.read_bytes()[:length])
    done = rageval("verify", *more)
    assert done.status == 1
    assert done.out.startswith(f"{FILE}: damaged: ")
    assert "`rageval cache export FILE`" in done.err
    assert cache.file.stat().st_size == length


def test_a_file_whose_pages_are_damaged_is_not_repaired_by_entry(rageval: Run, cache: CacheFolder) -> None:
    cache.put([entry(n) for n in range(4, 300)])
    cache.sql("UPDATE replies SET text = 'forged' WHERE key = ?", key(0))
    content = bytearray(cache.file.read_bytes())
    content[-4096:] = bytes(4096)
    cache.file.write_bytes(content)
    done = rageval("verify", "--repair")
    assert done.status == 1
    assert f"{FILE}: damaged: " in done.out
    assert "deleted: " not in done.out
    assert "The file as a whole is damaged" in done.err
    assert cache.file.read_bytes() == content


@pytest.mark.parametrize(
    ("before", "after"), [(b"replies (", b"reblies ("), (b"CREATE TABLE replies", b"CREATE TABL\x98 replies")]
)
def test_a_file_whose_tables_are_lost_is_damaged(rageval, cache, tmp_path, before, after):
    content = cache.file.read_bytes()
    assert before in content
    cache.file.write_bytes(content.replace(before, after))
    done = rageval("verify", "--repair")
    assert done.status == 1
    assert done.out.startswith(f"{FILE}: damaged: ")
    assert rageval("export", "x.jsonl").status == 1
    assert not (tmp_path / "x.jsonl").exists()


def test_a_good_cassette_is_good(rageval: Run, tmp_path: Path) -> None:
    write_cassette(tmp_path / "x.jsonl", [entry(n) for n in range(3)])
    write_cassette(tmp_path / "y.jsonl.gz", [entry(0)])
    done = rageval("verify", "x.jsonl", "y.jsonl.gz")
    assert done == Done(0, "x.jsonl: 3 good replies, 0 faults\ny.jsonl.gz: 1 good reply, 0 faults\n", "")


def test_all_bad_lines_are_listed(rageval: Run, tmp_path: Path) -> None:
    """Blank lines count in the line numbers."""
    lines = [
        b"<<<<<<< HEAD",
        entry_line(entry(0)).encode(),
        b"",
        b'{"key": "\xe9"}',
        b"[" * 100_000,
        entry_line(entry(1, tokens_in=2**64)).encode(),
        b'{"key": "k", "text": null}',
        entry_line(entry(2)).encode(),
    ]
    (tmp_path / "x.jsonl").write_bytes(b"\r\n".join(lines))
    done = rageval("verify", "x.jsonl")
    assert done.status == 1
    starts = [
        "line 1 is not a recorded reply: Expecting value",
        "line 4 is not a recorded reply: it is not UTF-8",
    ]
    starts += [
        "line 5 is not a recorded reply: ",
        "line 6 is not a recorded reply: 'tokens_in' is 1844674407",
    ]
    starts += ["line 7 is not a recorded reply: 'text' is None, expected str"]
    damaged = [line for line in done.out.splitlines() if "damaged: " in line]
    assert all(
        line.startswith(f"x.jsonl: damaged: {start}") for line, start in zip(damaged, starts, strict=True)
    )
    assert done.out.endswith("x.jsonl: 2 good replies, 5 faults\n")


def test_repeated_keys_and_disorder_are_only_noticed(rageval: Run, tmp_path: Path) -> None:
    """A merge in git leaves repeated and unsorted lines: `verify` prints notices and exits with status 0."""
    first, second = sorted([entry(0), entry(1)], key=lambda item: item.key, reverse=True)
    other = entry_line(first).replace("Antwort", "Wort")
    lines = [entry_line(first), entry_line(second), other, entry_line(first)]
    (tmp_path / "x.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert rageval("verify", "x.jsonl") == Done(
        0,
        "x.jsonl: notice: line 3 has another reply to the request of line 1; the first one counts\n"
        "x.jsonl: notice: 1 line repeats another\n"
        "x.jsonl: notice: 1 line out of order, the first is line 2\n"
        "x.jsonl: 2 good replies, 0 faults\n",
        "",
    )


@pytest.mark.parametrize("how", ["cut", "flipped", "not compressed"])
def test_a_damaged_compressed_cassette_is_named(rageval: Run, tmp_path: Path, how: str) -> None:
    write_cassette(tmp_path / "x.jsonl.gz", [entry(n) for n in range(3000)])
    content = bytearray((tmp_path / "x.jsonl.gz").read_bytes())
    if how == "cut":
        del content[len(content) // 2 :]
    elif how == "flipped":
        content[-8] ^= 1
    else:
        content = bytearray(gzip.decompress(content))
    (tmp_path / "x.jsonl.gz").write_bytes(content)
    done = rageval("verify", "x.jsonl.gz")
    assert done.status == 1
    assert "x.jsonl.gz: damaged: it breaks off after line " in done.out


def test_a_missing_cassette_is_an_error(rageval: Run) -> None:
    for name in ("none.jsonl", "."):
        done = rageval("verify", name)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith(f"The cassette {name} cannot be read: ")


def test_cassettes_are_not_repaired(rageval: Run, tmp_path: Path) -> None:
    """`--repair` with a cassette is an error: cassettes are in git, where a person reviews changes."""
    write_cassette(tmp_path / "x.jsonl", [entry(0)])
    done = rageval("verify", "--repair", "x.jsonl")
    assert done.status == 2
    assert "--repair works on the cache only" in done.err
