"""Damaged and hostile files: each command that reads one ends with an error or a result, without a traceback.

`RAGEVAL_MUTATIONS` sets the number of mutations of each kind of file; default: 60.
"""

import json
import os
import random
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.cli import main
from pytest_rageval.core.errors import StoreError
from pytest_rageval.extensions.history.history import history_entry
from pytest_rageval.models.cassette import entry_line, read_cassette
from pytest_rageval.models.messages import Reply
from pytest_rageval.models.stores.interface import Entry
from pytest_rageval.models.usage import Usage, usage_entry
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.build import report_document
from pytest_rageval.reports.settings import settings_entry
from tests.unit.extensions.shards.sharded import evaluated_in, outcome_of, shards_of, write_baseline
from tests.unit.run.marked import EVALS, NODEID, components, threshold

pytestmark = pytest.mark.slow

MUTATIONS = int(os.environ.get("RAGEVAL_MUTATIONS", "60"))
USAGE_ERROR = 2
MAX_SECONDS = 5  # of the processor, for one command; a longer one hangs

VALUES = [
    *(
        None,
        True,
        False,
        0,
        -1,
        2.0,
        1.5,
        -0.0,
        1e308,
        10**400,
        2**63,
        "",
        "x" * 5000,
        "\x00\x1b[31m",
        "\ud800",
        "\u202e",
    ),
    *(
        [],
        {},
        [[]],
        [None],
        {"": None},
        {"~": "at", "place": 0},
        {"~": "Example"},
        {"~": "dict", "of": [[[], 1]]},
    ),
    *({"~": "float", "value": "nan"}, {"~": "tuple", "of": 3}, {"~": 1}, "2026-01-01", "0" * 64, 99999999),
]

ENCODINGS = ("utf-16", "utf-32", "latin-1", "utf-8-sig")


def _places(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Yield each place in a document, down to a depth of 100: the list or object, and the index or key."""
    if isinstance(value, dict | list) and depth < 100:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key], depth + 1)


def _deep(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def mutate(document: Any, rng: random.Random) -> bytes:
    document = json.loads(json.dumps(document))
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        if places := list(_places(document)):
            _change(*rng.choice(places), *rng.choice(places), rng)
    content = json.dumps(document).encode()
    form = rng.randrange(20)
    if form == 0:
        return content[: rng.randrange(len(content))]
    if form == 1:
        return content.decode().encode(rng.choice(ENCODINGS))
    if form == 2:
        return content.replace(b'"', rng.choice((b"'", b"\xff", b"")), 3)
    return content


def _change(container: Any, key: Any, other: Any, other_key: Any, rng: random.Random) -> None:
    kind = rng.choice(("drop", "swap", "deep", "rename", "repeat", "no number", "value", "value"))
    if kind == "drop":
        del container[key]
    elif kind == "swap":
        container[key] = json.loads(json.dumps(other[other_key]))
    elif kind == "deep":
        container[key] = _deep(rng.choice((3, 70, 300)))
    elif kind == "rename" and isinstance(container, dict):
        container[rng.choice(("", "score", "~", "new", "examples"))] = container.pop(key)
    elif kind == "repeat" and isinstance(container, list):
        container.append(container[key])
    elif kind == "no number":
        container[key] = float(rng.choice(("nan", "inf", "-inf")))
    else:
        container[key] = deepcopy(rng.choice(VALUES))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("good")
    settings = Settings(cache_dir=folder / "cache", baseline=folder / "rageval_baseline.json")
    marks = [EVALS, threshold(max_drop=0.02), threshold(min=0.2, by="topic")]
    parts = components(0, 1, 2)
    write_baseline(settings, folder, marks, components())
    baseline = json.loads(settings.baseline.read_text(encoding="utf-8"))
    anchor = {**baseline["tests"][NODEID], "date": "2026-01-01", "updates": 2, "commit": "1a2b3c4"}
    baseline["anchors"] = {NODEID: json.loads(json.dumps(anchor))}
    problems, failures, results = evaluated_in(settings, folder, marks, parts, explain=True)
    test = {"nodeid": NODEID, **outcome_of(problems, failures), **results}
    report = report_document(
        [test],
        settings=settings_entry(settings),
        llm=usage_entry(Usage()),
        package="1",
        started="2026-01-01T00:00:00+00:00",
        duration_s=1.0,
        run={"commit": "1a2b3c4", "branch": "main"},
    )
    report = json.loads(json.dumps(report, default=list))
    history = [json.loads(json.dumps(history_entry(report))) for _ in range(2)]
    history[1]["time"] = "2026-01-02T00:00:00+00:00"
    cassette = [json.loads(entry_line(entry)) for entry in ENTRIES]
    shards = [
        dict(shard.document) for shard in shards_of(settings, folder, marks, 2, lambda: components(0, 1))
    ]
    return {"report": report, "shard": shards, "baseline": baseline, "history": history, "cassette": cassette}


ENTRIES = [
    Entry("b2", Reply("two lines", "m"), {"model": "m", "parts": {"question": "ab"}}),
    Entry("a1", Reply("yes", "m", "length", 5, 1)),
    Entry("c3", Reply("", refusal="no", tool_calls="[{}]", without="seed")),
]

COMMANDS = {
    "report": [
        "diff good.json bad.json -v --html page.html",
        "diff bad.json good.json --json",
        "merge bad.json",
    ],
    "shard": [
        "merge bad.json s2.json --report out.json --report out.html --report out.md",
        "merge s2.json bad.json --update-baseline --baseline new.json --history h.jsonl",
    ],
    "history": ["history bad.json --html page.html", "history bad.json --json"],
    "baseline": [
        "merge s1.json s2.json --baseline bad.json --report out.json --report out.html",
        "merge s1.json s2.json --baseline bad.json --update-baseline --pin-baseline",
    ],
    "cassette": ["cassette"],
}


@pytest.fixture
def project(good: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    first, second = good["shard"]
    valid = {"good": good["report"], "s1": first, "s2": second, "rageval_baseline": good["baseline"]}
    for name, document in valid.items():
        Path(f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
    return tmp_path


def _mutated(good: dict[str, Any], kind: str, rng: random.Random) -> bytes:
    """Return the content of a mutated file; files of lines have one mutated line."""
    document = good[kind]
    if kind == "shard":
        return mutate(document[0], rng)
    if not isinstance(document, list):
        return mutate(document, rng)
    lines = [json.dumps(line).encode() for line in document]
    number = rng.randrange(len(lines))
    lines[number] = mutate(document[number], rng)
    return b"\n".join(lines) + b"\n"


def _run(command: str) -> int:
    if command != "cassette":
        return main(command.split())
    try:
        read_cassette(Path("bad.json"))
    except StoreError:
        return 2
    return 0


@pytest.mark.parametrize("kind", list(COMMANDS))
def test_valid_files_are_read(good: dict[str, Any], project: Path, kind: str) -> None:
    documents = (
        good[kind] if kind in {"history", "cassette"} else [good[kind][0] if kind == "shard" else good[kind]]
    )
    (project / "bad.json").write_text(
        "".join(f"{json.dumps(each)}\n" for each in documents), encoding="utf-8"
    )
    for command in COMMANDS[kind]:
        if command != "merge bad.json":
            assert _run(command) in {0, 1}


@pytest.mark.parametrize("kind", list(COMMANDS))
def test_a_mutated_file_is_an_error_or_read(good, project, capsys, kind):
    """Attack: keys are dropped, moved or of other types, numbers are huge or NaN, values deep, files cut or recoded.

    Each command ends with a result, or with an error that names the file. Nothing hangs.
    """
    rng = random.Random(f"mutations of a {kind}")
    errors = 0
    for number in range(MUTATIONS):
        content = _mutated(good, kind, rng)
        for command in COMMANDS[kind]:
            (project / "bad.json").write_bytes(content)
            start = time.process_time()
            try:
                status = _run(command)
            except BaseException as error:
                kept = os.environ.get("RAGEVAL_KEEP_MUTATIONS")
                if kept is not None:
                    Path(kept, f"{kind}-{number}.json").write_bytes(content)
                raise AssertionError(f"mutation {number}: {command}") from error
            assert time.process_time() - start < MAX_SECONDS
            printed = capsys.readouterr()
            if status == USAGE_ERROR and kind != "cassette":
                assert "bad.json" in printed.err or "question" in printed.err
            errors += status == USAGE_ERROR
    assert 0 < errors < MUTATIONS * len(COMMANDS[kind])
