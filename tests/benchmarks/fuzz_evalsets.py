"""Broken eval sets of every format: `python tests/benchmarks/fuzz_evalsets.py [MUTATIONS] [SEED]`.

Each file is a small valid one that was cut, mixed up, mistyped, nested, blown up, recoded or
compressed and damaged. Loading it must give an eval set that has a digest, or an `InputError` that
names a file of it and, unless the whole file is meant, a line, record or topic. Anything else is
printed with its seed and ends the run with 1: another exception, a message without a place, more
than `PATIENCE_S` for one file. The memory of the process is limited throughout.
"""
# ruff: noqa: T201 - a script that reports

import gzip
import json
import random
import re
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets import LoadOptions, load
from tests.evalset_files import FILES, Files, zstd_compress

MEMORY = 3 * 2**30
PATIENCE_S = 60
HUGE = 50_000_000
HUGE_EVERY = 2_000
DEPTHS = (50, 99, 101, 400, 990, 1_100, 20_000)
WORDS = [
    *(
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1e999",
        b"-1",
        b"1.5",
        b"null",
        b"true",
        b"{}",
        b"[]",
        b'""',
        b"{",
        b"]",
    ),
    *(
        b'"',
        b"\\",
        b",",
        b":",
        b"\t",
        b"|",
        b"<top>",
        b"</top>",
        b"<num>",
        b"#",
        b"9" * 5_000,
        b"\x00",
        b"\xff",
        b"\xe9",
    ),
    *(
        b"\\ud800",
        b'"\\u0000"',
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b"\r",
        b"\n\n",
        b"\x1f\x8b",
        b"\x28\xb5\x2f\xfd",
    ),
]
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    "",
    " ",
    "x",
    "\ud800",
    [],
    [None],
    [[]],
    {},
    {"": None},
    [{}],
    ["a"],
    {"a": {"b": 1}},
]
PLACE = re.compile(r"\b(line|record|topic) \d+")
WHOLE = re.compile(
    r"contains no examples|looks like no format|may be \w+ or|cannot be read|has no such split|has no column"
    r"|lacks \d+ (topics|queries) that|has \d+ files|is read as '\w+', which has no option"
    r"|the header has no columns|holds (judgements|answers) and no questions"
    r"|is one JSON object, with"
)
"""What may be said without a line: it is of the file as a whole."""


def cut(content: bytes, chance: random.Random) -> bytes:
    """The beginning only."""
    return content[: chance.randrange(len(content) + 1)]


def drop(content: bytes, chance: random.Random) -> bytes:
    """Without a part."""
    at = chance.randrange(len(content) + 1)
    return content[:at] + content[at + chance.randrange(1, 20) :]


def repeat(content: bytes, chance: random.Random) -> bytes:
    """With a part twice."""
    at, end = sorted(chance.randrange(len(content) + 1) for _ in "ab")
    return content[:end] + content[at:]


def insert(content: bytes, chance: random.Random) -> bytes:
    """With something that has no place there."""
    at = chance.randrange(len(content) + 1)
    return content[:at] + chance.choice(WORDS) + content[at + chance.choice((0, 0, 1, 4)) :]


def flip(content: bytes, chance: random.Random) -> bytes:
    """With other bytes."""
    changed = bytearray(content)
    for _ in range(chance.randrange(1, 4)):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def mistype(content: bytes, chance: random.Random) -> bytes:
    """With a value of another type somewhere in its JSON; of what is no JSON, as `insert`."""
    lines = content.split(b"\n")
    whole = chance.random() < 0.5
    at = 0 if whole else chance.randrange(len(lines))
    try:
        value = json.loads(content if whole else lines[at])
    except (ValueError, RecursionError):
        return insert(content, chance)
    made = json.dumps(_mistyped(value, chance)).encode()
    return made if whole else b"\n".join([*lines[:at], made, *lines[at + 1 :]])


def _mistyped(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: _mistyped(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        at = chance.randrange(len(value))
        return [*value[:at], _mistyped(value[at], chance), *value[at + 1 :]]
    return chance.choice(VALUES)


def nest(content: bytes, chance: random.Random) -> bytes:
    """With a value, or the beginning of one, that is nested deeply."""
    depth = chance.choice(DEPTHS)
    opening, closing = chance.choice([(b"[", b"]"), (b'{"a":', b"}")])
    inside = opening * depth + b"1" + closing * (depth if chance.random() < 0.8 else 0)
    at = [match.end() for match in re.finditer(rb'":\s*|\[', content)] or [chance.randrange(len(content) + 1)]
    where = chance.choice(at)
    return content[:where] + inside + (b"," if chance.random() < 0.7 else b"") + content[where:]


def recode(content: bytes, chance: random.Random) -> bytes:
    """In another encoding, whole or from somewhere on, or with other line ends, or with a mark in front."""
    text = content.decode("utf-8", "replace")
    at = chance.choice((0, 0, chance.randrange(len(text) + 1)))
    coding = chance.choice(("utf-16", "utf-16-le", "utf-32", "latin-1", "utf-8-sig", "cp037", "CRLF", "CR"))
    if coding in ("CRLF", "CR"):
        return content.replace(b"\n", b"\r\n" if coding == "CRLF" else b"\r")
    return text[:at].encode() + text[at:].encode(coding, "replace")


def damage_gzip(content: bytes, chance: random.Random) -> bytes:
    """Compressed, and mostly damaged after that."""
    packed = gzip.compress(content, 1)
    return chance.choice((lambda packed, _: packed, cut, flip, drop, repeat))(packed, chance)


def damage_zstd(content: bytes, chance: random.Random) -> bytes:
    """As `damage_gzip`, with the other compression."""
    compress = zstd_compress()
    if compress is None:
        return damage_gzip(content, chance)
    return chance.choice((lambda packed, _: packed, cut, flip, drop, repeat))(compress(content), chance)


def blow_up(content: bytes, chance: random.Random) -> bytes:
    """With 50 MB on one line."""
    filling = chance.choice(
        (
            b"x",
            b" ",
            b"[",
            b'{"a":',
            b"\\",
            b'"',
            b",",
            b'"a",',
            b"{},",
            b"9",
            "é".encode(),
            b"\t",
            b'{"text":"a"},',
        )
    )
    at = chance.randrange(len(content) + 1)
    made = content[:at] + filling * (HUGE // len(filling)) + content[at:]
    return gzip.compress(made, 1) if chance.random() < 0.3 else made


SMALL: list[Callable[[bytes, random.Random], bytes]] = [
    *(
        cut,
        drop,
        repeat,
        insert,
        insert,
        flip,
        mistype,
        mistype,
        mistype,
        nest,
        recode,
        damage_gzip,
        damage_zstd,
    )
]


def mutated(seed: int, *, huge: bool = False) -> Files:
    """One broken eval set, the same for a seed wherever Zstandard is (or is not) installed."""
    chance = random.Random(seed)
    files = chance.choice(FILES)
    name = chance.choice(list(files.contents))
    content = files.contents[name]
    for _ in range(chance.choice((1, 1, 2, 3))):
        content = chance.choice(SMALL)(content, chance)
    if huge:
        content = blow_up(files.contents[name], chance)
    words = {
        **files.words,
        **chance.choice(({}, {"format": files.format}, {"sample": chance.randrange(1, 4)})),
    }
    return replace(files, contents={**files.contents, name: content}, words=words)


def verdict(files: Files, folder: Path) -> str:
    """What became of a file: "loaded", "refused", or what is wrong."""
    path = files.write(folder)
    names = [*files.contents, folder.name]
    try:
        evalset = load(path, LoadOptions.parse(files.words))
    except InputError as error:
        message = str(error)
        if not any(name.rpartition("/")[2] in message for name in names):
            return f"no file is named: {message[:300]}"
        if not PLACE.search(message) and not WHOLE.search(message):
            return f"no place is named: {message[:300]}"
        return "refused"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return f"{type(error).__name__}: {str(error)[:300]}"
    return "loaded" if len(evalset) and evalset.digest else "empty"


@contextmanager
def bounded() -> Iterator[None]:
    """A memory limit, and an alarm that raises."""

    def late(*_: object) -> None:
        raise TimeoutError(f"more than {PATIENCE_S} s")

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, late)
    yield
    signal.alarm(0)


def main(mutations: int, first: int) -> int:
    """Run them all; 1 where one went wrong."""
    verdicts: Counter[str] = Counter()
    slowest = (0.0, 0)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary, bounded():
        folder = Path(temporary)
        for seed in range(first, first + mutations):
            files = mutated(seed, huge=seed % HUGE_EVERY == 0)
            signal.alarm(PATIENCE_S)
            start = time.monotonic()
            found = verdict(files, folder)
            signal.alarm(0)
            slowest = max(slowest, (time.monotonic() - start, seed))
            known = found in ("loaded", "refused")
            verdicts[found if known else "wrong"] += 1
            if not known:
                print(f"seed {seed} ({files.format}): {found}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"{mutations} mutations from seed {first}, of 50 MB a line each {HUGE_EVERY}th: {dict(verdicts)}")
    took, (worst, seed) = time.monotonic() - began, slowest
    print(f"{took:.0f} s; slowest {worst:.1f} s (seed {seed}); peak memory {peak:.0f} MiB")
    return 1 if verdicts["wrong"] else 0


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    raise SystemExit(main(*(arguments + [100_000, 0][len(arguments) :])))
