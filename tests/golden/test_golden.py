"""Whole runs, whose reports, baselines, request keys and terminal output are compared byte for byte.

To add a run, add a folder with `steps.txt`: commands, one a line as in a shell. They run in a copy of `_project` with
the files of the folder on top. RETRIEVER=worse spoils the retriever of the project. A `pytest` in line N writes the
reports N.json, N.md and N.html. Replies of a model are those in `replies.jsonl.gz`, if the folder has this file.

The folder `expected` has all files that the steps write, and in `terminal.txt` what they print.
`RAGEVAL_GOLDEN=update` writes it anew. `RAGEVAL_GOLDEN=record` records the replies anew, with a server in place of
`--rageval-replay`; a new run starts with an empty file of replies.

Only what differs between two equal runs is replaced: times, paths, ports, versions, and places in the package.
"""

import difflib
import gzip
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import lzma
import math
import os
import re
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from tests.batch_server import BatchServer
from tests.foreign_plugins import WITHOUT
from tests.llm_server import LLMServer

pytestmark = pytest.mark.slow

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
MODE: Final = os.environ.get("RAGEVAL_GOLDEN", "compare")
MAX_TEXT_BYTES: Final = 6_000  # a larger file is stored compressed, and so is every page
MAX_DIFF_LINES: Final = 60  # of each file
IGNORED: Final = shutil.ignore_patterns(".*", "__pycache__", "expected", "steps.txt")
CASSETTE: Final = "replies.jsonl.gz"
MAX_SAMPLES: Final = 100  # the sample numbers of a canary are larger, and new in each run
PATH_LENGTH: Final = 160
UNSET: Final = ("CI", "FORCE_COLOR", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT")
SET: Final = {"COLUMNS": "120", "NO_COLOR": "1", "TZ": "UTC", "OPENAI_API_KEY": "sk-secret"}
TERMINAL: Final = "terminal.txt"

OURS: Final = re.compile(r"^RAG retriever.*\n( .*\n)+|^  rageval_.*\n(   .*\n)*", re.MULTILINE)
"""Matches what is ours in the output of `pytest --help`."""

REPLACED: Final = [
    (re.compile(pattern, re.MULTILINE | re.DOTALL), new)
    for pattern, new in (
        (r"^(platform|cachedir|rootdir|configfile|plugins):? [^\n]*\n", ""),
        (r"^(\[gw\d+\])[^\n]*\n", r"\1\n"),
        (r"\d{4}-\d\d-\d\d([T ])\d\d:\d\d(:\d\d)?(\.\d+)?([+-]\d\d:\d\d|Z)?", r"2000-01-01\1"),
        (r'"2000-01-01 ?( \(\d+\))?"', '"2000-01-01"'),  # in a chart, runs of the same minute have numbers
        (r"\b(in|after) [\d.]+ ?s\b", r"\1 0 s"),
        (r'("duration_s": ?)[\d.]+', r"\g<1>0"),
        (r'( time| hostname)="[^"]*"', r'\1=""'),
        (r"(<dt>Duration</dt><dd>)[^<]*", r"\1"),
        (r'("package": ?)"[^"]*"', r'\1"0"'),
        # Processors differ in the last digits of sums.
        (r"-?\b\d+\.\d{9,}(e-?\d+)?\b", lambda found: f"{float(found[0]):.9g}"),
        (r"0x[0-9a-f]{6,}", "0x0"),
        (r"pytest_rageval(\.\w+)+\.([A-Z]\w+)", r"pytest_rageval.\2"),
        # A line that is cut at a width: the name of the module decides where.
        (r"( - pytest_rageval\.\w+:)[^\n]*\.\.\.$", r"\1 ..."),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:0"),
        (r"\S*pytest_rageval/[\w/]+\.py:\d+", "pytest_rageval:0"),
        (r"<(style|script)>(.*?)</\1>", lambda found: hashlib.sha256(found[2].encode()).hexdigest()),
    )
]


def _normal(text: str, folder: Path, days: set[str]) -> str:
    """Replace what differs between two equal runs."""
    for place, name in ((folder, "/project"), (ROOT, "/repository"), (Path(sys.prefix), "/environment")):
        text = text.replace(str(place), name)
    for day in days:
        text = text.replace(day, "2000-01-01")
    for pattern, new in REPLACED:
        text = pattern.sub(new, text)
    return text


def _model() -> Callable[[str], str]:
    """Return the scripted model of the project; a judge that is asked a second time about some items says no."""
    spec = importlib.util.spec_from_file_location("golden_corpus", HERE / "_project" / "corpus.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    asked: Counter[str] = Counter()

    def reply(prompt: str) -> str:
        asked[prompt] += 1
        wavers = asked[prompt] == 2 and prompt.startswith("Decide whether an answer")
        return "no" if wavers and re.search(r"item-\d*[47]\?", prompt) else module.reply(prompt)

    return reply


def _run(name: str, pytester: pytest.Pytester, url: str) -> dict[str, str]:
    # Texts are cut and filled to a width: with a path of another length they would differ.
    folder = pytester.path / "project".ljust(PATH_LENGTH - len(str(pytester.path)) - 1, "-")
    project = ROOT / "example_project" if name == "example" else HERE / "_project"
    for source in (project, HERE / name):
        shutil.copytree(source, folder, ignore=IGNORED, dirs_exist_ok=True)
    before = {path: path.read_bytes() for path in _files(folder)}
    cassette = folder / CASSETTE
    options = [*WITHOUT, f"--rageval-cassette={CASSETTE}"] if cassette.exists() else WITHOUT
    recorded = MODE == "record" and cassette.exists()
    if recorded:
        cassette.unlink()
    days, printed = {_today()}, []
    for number, line in enumerate((HERE / name / "steps.txt").read_text(encoding="utf-8").splitlines(), 1):
        words = shlex.split(line.replace("--rageval-replay", "--rageval-record") if recorded else line)
        command = next(index for index, word in enumerate(words) if "=" not in word)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            # A slow machine would print lines of progress.
            patch.setattr("pytest_rageval.plugin.progress.LOG_INTERVAL_S", math.inf)
            for variable in UNSET:
                patch.delenv(variable, raising=False)
            fixed = {"GIT_CEILING_DIRECTORIES": str(folder.parent), "OPENAI_BASE_URL": url}
            own = dict(word.split("=", 1) for word in words[:command])
            for variable, value in (SET | fixed | own).items():
                patch.setenv(variable, value)
            if words[command] == "pytest":
                reports = (f"--rageval-report={number}.{suffix}" for suffix in ("json", "md", "html"))
                result = pytester.runpytest_inprocess(*options, *reports, *words[command + 1 :])
                status, text = int(result.ret), f"{result.stdout}\n{result.stderr}"
                if "--help" in words:
                    text = "\n".join(part[0] for part in OURS.finditer(text))
            else:
                status, text = _rageval(words[command + 1 :])
        printed.append(f"$ {line}\n{text.rstrip()}\nexit status {status}\n")
    days.add(_today())
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _rageval(["cache", "export", "requests.txt"])
    written = {path for path in _files(folder) if path.read_bytes() != before.get(path)}
    if recorded:
        shutil.copy(cassette, HERE / name / CASSETTE)
    texts = {str(path.relative_to(folder)): _text(path) for path in sorted(written)}
    if exported := texts.pop("requests.txt", ""):
        entries = map(json.loads, exported.splitlines())
        keys = sorted(entry["key"][:16] for entry in entries if entry["request"]["sample"] < MAX_SAMPLES)
        texts["requests.txt"] = "".join(f"{key}\n" for key in keys)
    texts[TERMINAL] = "\n".join(printed)
    return {file: _normal(text, folder, days) for file, text in texts.items()}


def _rageval(arguments: Sequence[str]) -> tuple[int, str]:
    """Run the command `rageval`; return its exit status and what it printed."""
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="rageval")
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        try:
            status = command.load()(arguments)
        except SystemExit as ended:
            status = ended.code
    return int(status or 0), output.getvalue()


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files that a user sees."""
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in parts):
            yield path


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _stored(folder: Path) -> dict[str, str]:
    """Return the expected files by name."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)).removesuffix(".xz"): _text(path) for path in files}


def _text(path: Path) -> str:
    """Return the text of a file, which may be compressed."""
    unpack = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(path.suffix, bytes)
    return unpack(path.read_bytes()).decode()


def _store(folder: Path, texts: Mapping[str, str]) -> None:
    """Replace the expected files."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in texts.items():
        content, path = text.encode(), folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name != TERMINAL and (len(content) > MAX_TEXT_BYTES or path.suffix == ".html"):
            path, content = path.with_name(f"{path.name}.xz"), lzma.compress(content, preset=9)
        path.write_bytes(content)


def _differences(expected: Mapping[str, str], found: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(expected.keys() | found.keys()):
        before, after = (texts.get(name, "").splitlines() for texts in (expected, found))
        lines = list(difflib.unified_diff(before, after, f"expected/{name}", name, lineterm="", n=1))
        yield from lines[:MAX_DIFF_LINES]
        if len(lines) > MAX_DIFF_LINES:
            yield f"... and {len(lines) - MAX_DIFF_LINES} more lines"


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the base URL of a server, if the run needs one; else that of no server."""
    name = request.getfixturevalue("name")
    if name == "batch" or MODE == "record":
        with (BatchServer if name == "batch" else LLMServer)(_model()) as server:
            yield server.url
    else:
        yield "http://127.0.0.1:9/v1"


@pytest.mark.parametrize("name", sorted(path.parent.name for path in HERE.glob("*/steps.txt")))
def test_a_run_writes_what_it_wrote(name: str, pytester: pytest.Pytester, url: str) -> None:
    found = _run(name, pytester, url)
    expected = _stored(HERE / name / "expected")
    if MODE == "update":
        _store(HERE / name / "expected", found)
    elif MODE == "compare" and found != expected:
        pytest.fail("\n".join(_differences(expected, found)), pytrace=False)
