"""Files with random damage, of each format that users give: they are loaded, or refused with their place.

Each is a small valid file that is truncated; whose bytes are removed, repeated, inserted or changed; whose values get
other types, or are nested deeply; whose encoding changes; or that is compressed and then damaged.
"""

import gzip
import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets import LoadOptions, load
from pytest_rageval.evalsets.corpus import read_corpus
from pytest_rageval.extensions.baseline_retrievers.trec_run import read_run
from pytest_rageval.extensions.calibration.human_labels import load_labels
from pytest_rageval.extensions.traces.reading import read_traces
from tests.evalset_files import FILES, Files, jsonl, zstd_compress
from tests.trace_files import EXPORTS

pytestmark = pytest.mark.slow

LABEL = {"question": "Q?", "references": ["a"], "prediction": "b", "human": [1, 0]}
DEPTHS = (50, 99, 101, 400, 990, 1_100, 20_000)
# fmt: off
WORDS = [
    *(b'NaN Infinity -Infinity 1e999 -1 1.5 null true {} [] "" { ]'.split()),
    *(b'" \\ , : | <top> </top> <num> # \\ud800 "\\u0000"'.split()),
    b"\t", b"9" * 5_000, b"\x00", b"\xff", b"\xe9", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\r", b"\n\n",
    b"\x1f\x8b", b"\x28\xb5\x2f\xfd",
]
VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 2**70, "", " ", "x", "\ud800", [], [None], [[]], {}, {"": None}, [{}], ["a"],
    {"a": {"b": 1}},
]
# fmt: on
PLACE = re.compile(r"\b(?:line|record) \d+|\btopic |\b(?:queries|relevant_docs) ")
WHOLE_FILE = re.compile(
    r"contains no examples|looks like no format|may be \w+ or|cannot be read|has no such split|has no column"
    r"|lacks \d+ (topics|queries) that|has \d+ files|is read as '\w+', which has no option"
    r"|the header has no columns|(contains|holds) (judgements|answers) and no questions"
    r"|is one JSON object, with|is [^.]*, which is not read"
)
"""Matches the messages about a whole file, which name no line."""


OTHER_FILES = [
    Files("run", {"a.run": b"301 Q0 d1 1 0.5 me\n301 Q0 d2 2 0.25 me\n302 Q0 d1 1 7 me\n"}, "a.run", ()),
    Files(
        "run", {"tabs.run": b"301\tQ0\tAda Lovelace\t1\t0.5\tmy run\n302\tQ0\td\t1\t1\tme\n"}, "tabs.run", ()
    ),
    Files("run", {"run.json": b'{"301": {"d1": 0.5, "d2": 1}, "302": {"d1": 7}}'}, "run.json", ()),
    Files("corpus", {"c.jsonl": jsonl({"id": 1, "text": "a", "source": "s.md", "start": 3})}, "c.jsonl", ()),
    Files("corpus", {"corpus.jsonl": jsonl({"_id": "1", "title": "t", "text": "a"})}, "corpus.jsonl", ()),
    Files(
        "labels", {"l.jsonl": jsonl(LABEL, {**LABEL, "question": "R?", "human": [0.5, None]})}, "l.jsonl", ()
    ),
    *(Files("traces", {path.name: path.read_bytes()}, path.name, ()) for path in EXPORTS),
    *(replace(files, format="traces") for files in FILES if files.format in ("deepeval", "promptfoo")),
]
READERS: dict[str, Callable[[Path], Any]] = {
    "run": read_run,
    "corpus": lambda path: list(read_corpus(path)),
    "labels": load_labels,
    "traces": lambda path: [question.record() for question in read_traces([path]).questions],
}
"""How a file is read that is no eval set."""


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def drop(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content) + 1)
    return content[:start] + content[start + chance.randrange(1, 20) :]


def repeat(content: bytes, chance: random.Random) -> bytes:
    start, end = sorted(chance.randrange(len(content) + 1) for _ in "ab")
    return content[:end] + content[start:]


def insert(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content) + 1)
    return content[:start] + chance.choice(WORDS) + content[start + chance.choice((0, 0, 1, 4)) :]


def flip(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.randrange(1, 4)):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def mistype(content: bytes, chance: random.Random) -> bytes:
    lines = content.split(b"\n")
    whole = chance.random() < 0.5
    index = 0 if whole else chance.randrange(len(lines))
    try:
        value = json.loads(content if whole else lines[index])
    except (ValueError, RecursionError):
        return insert(content, chance)
    encoded = json.dumps(_replace_value(value, chance)).encode()
    return encoded if whole else b"\n".join([*lines[:index], encoded, *lines[index + 1 :]])


def _replace_value(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: _replace_value(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.8:
        index = chance.randrange(len(value))
        return [*value[:index], _replace_value(value[index], chance), *value[index + 1 :]]
    return chance.choice(VALUES)


def nest(content: bytes, chance: random.Random) -> bytes:
    depth = chance.choice(DEPTHS)
    opening, closing = chance.choice([(b"[", b"]"), (b'{"a":', b"}")])
    nested = opening * depth + b"1" + closing * (depth if chance.random() < 0.8 else 0)
    value_starts = [match.end() for match in re.finditer(rb'":\s*|\[', content)]
    start = chance.choice(value_starts or [chance.randrange(len(content) + 1)])
    return content[:start] + nested + (b"," if chance.random() < 0.7 else b"") + content[start:]


def recode(content: bytes, chance: random.Random) -> bytes:
    text = content.decode("utf-8", "replace")
    start = chance.choice((0, 0, chance.randrange(len(text) + 1)))
    coding = chance.choice(("utf-16", "utf-16-le", "utf-32", "latin-1", "utf-8-sig", "cp037", "CRLF", "CR"))
    if coding in ("CRLF", "CR"):
        return content.replace(b"\n", b"\r\n" if coding == "CRLF" else b"\r")
    return text[:start].encode() + text[start:].encode(coding, "replace")


def damage_gzip(content: bytes, chance: random.Random) -> bytes:
    packed = gzip.compress(content, 1)
    return chance.choice((lambda packed, _: packed, cut, flip, drop, repeat))(packed, chance)


def damage_zstd(content: bytes, chance: random.Random) -> bytes:
    compress = zstd_compress()
    if compress is None:
        return damage_gzip(content, chance)
    return chance.choice((lambda packed, _: packed, cut, flip, drop, repeat))(compress(content), chance)


MUTATIONS: list[Callable[[bytes, random.Random], bytes]] = [
    *(cut, drop, repeat, *[insert] * 2, flip, *[mistype] * 3, nest, recode, damage_gzip, damage_zstd)
]


def mutated(seed: int, kind: str) -> Files:
    chance = random.Random(f"{kind} {seed}")
    files = chance.choice([files for files in OTHER_FILES if files.format == kind] or FILES)
    name = chance.choice(list(files.contents))
    content = files.contents[name]
    for _ in range(chance.choice((1, 1, 2, 3))):
        content = chance.choice(MUTATIONS)(content, chance)
    words = {
        **files.words,
        **chance.choice(({}, {"format": files.format}, {"sample": chance.randrange(1, 4)})),
    }
    return replace(files, contents={**files.contents, name: content}, words=words)


def outcome_of(files: Files, folder: Path) -> str:
    """Load an eval set; return "loaded", "refused", or a description of the wrong outcome."""
    path = files.write(folder)
    names = [*files.contents, folder.name]
    try:
        if files.format in READERS:
            return "loaded" if READERS[files.format](path) is not None else "empty"
        evalset = load(path, LoadOptions.parse(files.words))
    except InputError as error:
        message = str(error)
        if not any(name.rpartition("/")[2] in message for name in names):
            return f"no file is named: {message[:300]}"
        has_place = PLACE.search(message) or WHOLE_FILE.search(message) or files.format in READERS
        if not has_place:
            return f"no place is named: {message[:300]}"
        return "refused"
    except Exception as error:  # noqa: BLE001 - any other exception is a finding
        return f"{type(error).__name__}: {str(error)[:300]}"
    return "loaded" if len(evalset) and evalset.digest else "empty"


@pytest.mark.parametrize("kind", ["evalset 1", "evalset 2", "evalset 3", "evalset 4", *READERS])
def test_a_broken_file_is_refused_with_its_place(kind: str, tmp_path: Path) -> None:
    outcomes = {seed: outcome_of(mutated(seed, kind), tmp_path) for seed in range(500)}
    assert {seed: outcome for seed, outcome in outcomes.items() if outcome not in ("loaded", "refused")} == {}
    assert {"loaded", "refused"} <= set(outcomes.values())
