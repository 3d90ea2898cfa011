"""Executes the code blocks of a Markdown page as its reader would, and compares the output with the page.

Each page is executed in its own folder. Its code blocks are processed in order:

- A block whose first line is a comment with a file name, such as `# conftest.py`, is written into this file;
  `# conftest.py, continued` appends to it. For formats without comments, `<!-- file: NAME -->` precedes the block.
- `diff`: the named file is changed as the block shows.
- `console`: bash runs the command of each line after `$`, and the lines after the command are the expected output. A
  line of three dots matches any number of lines. A command may fail only if the expected output says that something
  failed, or ends with three dots.
- Other `python` blocks are executed; `toml`, `ini`, `json` and `yaml` blocks are parsed.
- `text` and `sh` blocks are not run; `sh` is for commands that need another machine.
- `<!-- invisible-code-block: python` up to `-->` is executed and prepares what the page assumes, such as the files of
  an application, or a server (`serve`). Readers do not see it.

`normal` replaces the parts of the output that differ from run to run. `RAGEVAL_DOCS=update pytest tests/docs` writes
the current output of commands into the pages; between lines of three dots it writes as many lines as there were, those
most like them. The expected output of a new command can be written as `?`, which is replaced. Check the diff.
"""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from difflib import SequenceMatcher
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import yaml
from sybil import Document, Example, Region
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer, FencedCodeBlockLexer

from tests.batch_server import BatchServer
from tests.foreign_plugins import WITHOUT
from tests.llm_server import LLMServer, Said

ROOT: Final = Path(__file__).parents[2]

SITE: Final = "https://pytest-rageval.github.io/pytest-rageval"

UPDATE: Final = os.environ.get("RAGEVAL_DOCS") == "update"

ANY: Final = "..."
"""A line of expected output that matches any number of lines."""

LEXERS: Final = (
    FencedCodeBlockLexer(language=r"\w+", mapping={"language": "arguments", "source": "source"}),
    DirectiveInHTMLCommentLexer(directive="invisible-code-block", arguments=".+"),
)

NAMED: Final = re.compile(r"# ([\w./-]+\.\w+)(, continued)?\n")
"""Matches the first line of a block that is written into a file."""

ABOVE: Final = re.compile(r"<!-- file: (\S+) -->\s*\Z")
"""Matches a comment with the name of the file before a block."""

INSTALLING: Final = re.compile(r"python3 -m venv|\. \.venv/bin/activate|pip install")
"""Matches the commands that are run only if the page is executed in its own virtual environment."""

FAILED: Final = re.compile(r"\bfailed\b|\berrors?\b|\bexit status 1\b", re.IGNORECASE)

NETWORK: Final = ("PIP_", "SSL_", "REQUESTS_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")

SHIMS: Final = {"pytest": "from pytest import main", "rageval": "from pytest_rageval.cli import main"}

FOREIGN: Final = {*WITHOUT, "-pno:randomly", "-pno:timeout", "-pno:split"} - {"-pno:cacheprovider"}
"""Options that disable plugins of the developer's environment that a reader does not have."""

VOLATILE: Final = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    # Durations, and pytest's lines of "=", whose length depends on the duration.
    (re.compile(r"\b\d+\.\d+ ?s\b( \(\d+:\d\d:\d\d\))?"), "0.10s"),
    (re.compile(r"\b\d+(\.\d+)? ms\b"), "1 ms"),
    (re.compile(r"(=|-|_){4,}"), r"\1\1\1\1"),
    (re.compile(r"(platform|plugins:|rootdir:|cachedir:) .*"), r"\1"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([+-]\d\d:\d\d)?"), "2026-01-01 00:00"),
    (re.compile(r"\bpinned (at [0-9a-f]{7}\b|on \d{4}-\d\d-\d\d)"), "pinned at 1a2b3c4"),
    (re.compile(r"\b\d+(\.\d)? [kM]B\b"), "1 kB"),
    (re.compile(r"\b\d+ tokens in, \d+ out"), "1 tokens in, 1 out"),
    # A plan's estimate of tokens depends on the address of the server, whose port changes.
    (re.compile(r"(≤ \d+),\d{3}\b"), r"\1,000"),
    (re.compile(r"(≤ \d+\.\d\d)\d\d\b"), r"\1"),
    (re.compile(r" +$"), ""),
)


def normal(text: str) -> str:
    lines = []
    for line in text.splitlines():
        for pattern, replacement in VOLATILE:
            line = pattern.sub(replacement, line)  # noqa: PLW2901 - the patterns are applied in turn
        lines.append(line)
    return "".join(f"{line}\n" for line in lines).strip("\n")


class Page:
    """A page, and the folder in which it is executed.

    Args:
        path: path of the Markdown file.
        folder: an empty folder.
        installed: whether the installation commands are run too, in a virtual environment of the page.
    """

    def __init__(self, path: Path, folder: Path, *, installed: bool = False) -> None:
        self.path = path
        self.folder = folder / "project"
        self.folder.mkdir()
        self._installed = installed
        self._aliases: dict[str, str] = {str(self.folder): "/home/you/project"}
        self._open = ExitStack()
        self._updates: list[tuple[int, int, str]] = []
        self.ran = 0
        """Number of blocks that were executed."""
        tools = folder / "bin"
        tools.mkdir()
        for name, code in SHIMS.items():
            # -P: unlike `python -m pytest`, `pytest` does not put the folder it is started in on sys.path.
            program = f"import sys; {code}; sys.exit(main())"
            shim = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -c "{program}" "$@"\n'
            (tools / name).write_text(shim, encoding="utf-8")
            (tools / name).chmod(0o755)
        (tools / "python").write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8"
        )
        (tools / "python").chmod(0o755)
        self.env: dict[str, str] = {
            "PATH": os.environ["PATH"] if installed else f"{tools}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "COLUMNS": "80",
            "LC_ALL": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_ADDOPTS": "" if installed else " ".join(sorted(FOREIGN)),
            "HAYSTACK_TELEMETRY_ENABLED": "False",
            "LANGSMITH_TRACING": "false",
        }
        """Environment variables of the commands."""

    def check(self) -> None:
        """Execute all blocks of the page.

        Raises:
            AssertionError: the result of a block differs from the page.
        """
        document = Document.parse(str(self.path), self._regions)
        document.namespace.update(
            folder=self.folder, env=self.env, serve=self.serve, example=self.copy_example, write=self._write
        )
        before = Path.cwd()
        os.chdir(self.folder)
        sys.path.insert(0, str(self.folder))
        loaded = set(sys.modules)
        try:
            for example in document.examples():
                example.evaluate()
                self.ran += 1
        finally:
            os.chdir(before)
            sys.path.remove(str(self.folder))
            for name in set(sys.modules) - loaded:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(self.folder)):
                    del sys.modules[name]
            self._open.close()
            self._update()

    def serve(
        self,
        model: Callable[[str], Said],
        instead_of: str = "https://api.openai.com/v1",
        *,
        batches: bool = False,
    ) -> LLMServer | BatchServer:
        server_class: Any = BatchServer if batches else LLMServer
        server: LLMServer | BatchServer = self._open.enter_context(server_class(model))
        self._aliases[server.url] = instead_of
        if instead_of == "https://api.openai.com/v1":
            self.env["OPENAI_BASE_URL"] = server.url
        return server

    def copy_example(self) -> None:
        hidden = shutil.ignore_patterns(".*", "__pycache__", "langchain_agent")
        shutil.copytree(ROOT / "example_project", self.folder, dirs_exist_ok=True, ignore=hidden)

    def _regions(self, document: Document) -> Iterator[Region]:
        for lexer in LEXERS:
            for region in lexer(document):
                region.parsed = region.lexemes["source"]
                region.evaluator = self._evaluate
                yield region

    def _evaluate(self, example: Example) -> None:
        language, source = example.region.lexemes["arguments"].strip(), str(example.parsed)
        above = ABOVE.search(example.document.text[: example.region.start])
        named = NAMED.match(source)
        try:
            if language == "console":
                self._console(example)
            elif language == "diff":
                if named:
                    self._change(named[1], source)
            else:
                self._parse(language, source)
                if above:
                    self._write(above[1], source)
                elif named:
                    self._write(named[1], source, append=named[2] is not None)
                elif language == "python":
                    PythonEvaluator()(example)
        except AssertionError as error:
            raise AssertionError(f"{self.path}:{example.line}: {error}") from None

    def _parse(self, language: str, source: str) -> None:
        match language:
            case "python":
                compile(source, str(self.path), "exec")
            case "toml":
                tomllib.loads(source)
            case "ini":
                configparser.ConfigParser().read_string(source)
            case "json":
                for line in [source] if source.startswith(("{\n", "[")) else source.splitlines():
                    json.loads(line)
            case "yaml":
                yaml.safe_load(source)
            case "text" | "sh" | "markdown":
                pass
            case _:
                raise AssertionError(f"code blocks in {language!r} are not supported")

    def _write(self, name: str, source: str, *, append: bool = False) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text(encoding="utf-8") + "\n" if append else ""
        path.write_text(before + self._inside(source), encoding="utf-8")

    def _change(self, name: str, source: str) -> None:
        path = self.folder / name
        text = path.read_text(encoding="utf-8")
        before, after = (
            "".join(f"{line[1:]}\n" for line in source.splitlines() if line[:1] in (sign, " "))
            for sign in "-+"
        )
        assert text.count(before) == 1, f"{name} has these lines {text.count(before)} times:\n{before}"
        path.write_text(text.replace(before, after), encoding="utf-8")

    def _console(self, example: Example) -> None:
        source = str(example.parsed)
        before_commands, *parts = re.split(r"(?m)^\$ ", source)
        assert not before_commands.strip(), "a console block begins with a command"
        new_parts = []
        for part in parts:
            lines = part.splitlines()
            count = 1
            while lines[count - 1].endswith("\\"):
                count += 1
            command, expected = "\n".join(lines[:count]), "\n".join(lines[count:]).strip("\n")
            printed = self._run(command, expected)
            new_parts.append(f"$ {command}\n" + (f"{printed}\n" if printed else ""))
        new = "\n".join(part.rstrip("\n") for part in new_parts) + "\n"
        if new != source:
            start = example.region.start + example.document.text[example.region.start :].index(source)
            self._updates.append((start, start + len(source), new))

    def _run(self, command: str, expected: str) -> str:
        if exported := re.fullmatch(r"export (\w+)=(\S*)", command):
            self.env[exported[1]] = self._inside(exported[2].strip("'\""))
            return ""
        if not self._installed and INSTALLING.match(command):
            return expected
        if command == ". .venv/bin/activate":
            self.env["PATH"] = f"{self.folder / '.venv' / 'bin'}{os.pathsep}{self.env['PATH']}"
            return ""
        done = subprocess.run(
            ["bash", "-c", self._inside(command)],  # noqa: S607 - any bash on PATH
            cwd=self.folder,
            env=self._environ(),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        printed = self._outside((done.stdout + done.stderr).rstrip())
        if expected and UPDATE and not _matches(expected, printed):
            return _renewed(expected, [line.rstrip() for line in printed.splitlines()])
        if done.returncode and not expected.endswith(f"\n{ANY}"):
            assert FAILED.search(expected), f"$ {command}\nended with {done.returncode}:\n{printed}"
        if not expected or _matches(expected, printed):
            return expected
        raise AssertionError(f"$ {command}\nprinted\n{normal(printed)}\n\nand not\n{normal(expected)}")

    def _environ(self) -> Mapping[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            # The network variables may configure another package index or a proxy.
            if name in ("SYSTEMROOT", "TMPDIR") or (self._installed and name.upper().startswith(NETWORK))
        }
        return inherited | self.env

    def _inside(self, text: str) -> str:
        """Return a text of the page with the addresses and paths of this machine."""
        for here, there in self._aliases.items():
            text = text.replace(there, here)
        return text

    def _outside(self, text: str) -> str:
        """Return an output with the addresses and paths of the page; the inverse of `_inside`."""
        for here, there in self._aliases.items():
            text = text.replace(here, there)
        return text

    def _update(self) -> None:
        if not UPDATE or not self._updates:
            return
        text = self.path.read_text(encoding="utf-8")
        for start, end, new in reversed(self._updates):
            text = text[:start] + new + text[end:]
        self.path.write_text(text, encoding="utf-8")


def _matches(expected: str, printed: str) -> bool:
    """Return True if an output matches the expected output, in which `ANY` matches any number of lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == ANY else re.escape(line) + r"\n" for line in normal(expected).splitlines()
    )
    return re.fullmatch(pattern, f"{normal(printed)}\n") is not None


def _renewed(expected: str, printed: list[str]) -> str:
    """Return the lines of an output that are most like the expected ones between the lines of three dots."""
    new: list[str] = []
    position = 0
    for any_, group in groupby(expected.splitlines(), lambda line: line == ANY):
        if any_:
            new.append(ANY)
            continue
        old = list(group)
        starts = range(position, max(position, len(printed) - len(old)) + 1)
        start = max(
            starts if new else [0],
            key=lambda start: sum(
                SequenceMatcher(None, *map(normal, pair)).ratio()
                for pair in zip(old, printed[start : start + len(old)], strict=False)
            ),
        )
        position = start + len(old)
        new += printed[start:position]
    if new[-1] != ANY:
        new += printed[position:]
    return "\n".join(new)
