"""`Project`: a small project of a user, and runs of pytest in it."""

import contextlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.foreign_plugins import WITHOUT
from tests.llm_server import LLMServer

CONFTEST = """
import pytest

CORPUS = {f"doc-{n}": f"Of all things, item-{n} has the code c{n}x." for n in range(1, 21)}

def search(query, k):
    wanted = query.split("item-")[1].rstrip("?")
    ranked = sorted(CORPUS, key=lambda name: (name != f"doc-{wanted}", name))
    return [{"id": name, "text": CORPUS[name]} for name in ranked[:k]]

@pytest.fixture(scope="session")
def rageval_retriever():
    return search
"""


collect_ignore = ["retriever_apps"]  # applications of users, which the packages of few environments can run


@pytest.fixture
def new_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is written again within a second is not read from the old bytecode."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


class Project:
    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self._monkeypatch = monkeypatch
        self.arguments = list(WITHOUT)
        pytester.makeconftest(CONFTEST)
        self.evalset(4)

    def evalset(self, n: int, name: str = "evals.jsonl", **changes: object) -> Path:
        lines = []
        for i in range(1, n + 1):
            record = {
                "id": f"q{i}",
                "question": f"What is the code of item-{i}?",
                "answers": [f"c{i}x"],
                "gold": [{"id": f"doc-{i}", "text": f"Of all things, item-{i} has the code c{i}x."}],
                "tags": {"topic": "odd" if i % 2 else "even"},
            }
            lines.append(json.dumps(record | changes))
        path = self.path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def lose(self, *numbers: int) -> None:
        lost = ", ".join(f'"doc-{n}"' for n in numbers)
        self.add(f"for name in [{lost}]:\n    del CORPUS[name]")

    def add(self, source: str) -> None:
        path = self.path / "conftest.py"
        path.write_text(f"{path.read_text(encoding='utf-8')}\n{source}\n", encoding="utf-8")

    def change(self, old: str, new: str) -> None:
        path = self.path / "conftest.py"
        source = path.read_text(encoding="utf-8")
        assert old in source
        path.write_text(source.replace(old, new), encoding="utf-8")

    def gate(self, *thresholds: str) -> None:
        """Write a test `test_gate` with thresholds, each written as `recall@1 max_drop=0.02`."""
        marks = (threshold.partition(" ") for threshold in thresholds)
        lines = (f'@pytest.mark.rageval_threshold("{spec}", {bounds})\n' for spec, _, bounds in marks)
        self.test(f"{''.join(lines)}def test_gate(): pass\n")

    def read(self, name: str = "report.json") -> Any:
        return json.loads((self.path / name).read_text(encoding="utf-8"))

    def test(self, body: str, name: str = "test_it") -> None:
        head = 'import pytest\npytestmark = pytest.mark.rageval_evalset("evals.jsonl")\n\n'
        self.pytester.makepyfile(**{name: head + body})

    def use(self, llm: LLMServer, model: str = "m1") -> None:
        self._monkeypatch.setenv("OPENAI_BASE_URL", llm.url)
        self._monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
        self.ini(rageval_model=model)

    def ini(self, **keys: str) -> None:
        lines = "\n".join(f"{key} = {value}" for key, value in keys.items())
        self.pytester.makeini(f"[pytest]\n{lines}\n")

    def policies(self, **tables: str) -> None:
        text = "".join(f"[tool.rageval.policy.{name}]\n{keys}\n" for name, keys in tables.items())
        (self.path / "pyproject.toml").write_text(text, encoding="utf-8")

    def run(self, *arguments: str, shows: str | Sequence[str] = (), **outcomes: int) -> pytest.RunResult:
        """Run pytest, and assert what it prints and, if any are given, the numbers of outcomes: `failed=1`."""
        return _as_expected(self.pytester.runpytest_inprocess(*self.arguments, *arguments), shows, outcomes)

    def run_process(
        self, *arguments: str, shows: str | Sequence[str] = (), **outcomes: int
    ) -> pytest.RunResult:
        return _as_expected(self.pytester.runpytest_subprocess(*self.arguments, *arguments), shows, outcomes)


def _as_expected(
    result: pytest.RunResult, shows: str | Sequence[str], outcomes: dict[str, int]
) -> pytest.RunResult:
    if outcomes:
        result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines([shows] if isinstance(shows, str) else shows)
    return result


def on_a_terminal(folder: Path, *arguments: str, columns: int = 0, status: int = 0) -> str:
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color"}
    if columns:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        environ = {name: value for name, value in environ.items() if name not in {"COLUMNS", "NO_COLOR"}}
    command = [sys.executable, "-m", "pytest", *arguments]
    process = subprocess.Popen(command, cwd=folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written = b""
    # Linux reports the end of a terminal as an error.
    with contextlib.suppress(OSError):
        while chunk := os.read(ours, 2**16):
            written += chunk
    os.close(ours)
    assert process.wait() == status, written.decode()
    return written.decode().replace("\r\n", "\n")


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    return Project(pytester, monkeypatch)
