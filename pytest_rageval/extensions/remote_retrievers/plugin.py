"""`rageval gate`: runs pytest with one test that is in no file."""

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.remote_retrievers.http import HTTPRetriever
from pytest_rageval.extensions.remote_retrievers.program import CommandRetriever

if TYPE_CHECKING:
    from pytest_rageval.run.judged import JudgedTest

URLS: Final = ("http://", "https://")
BOUNDS: Final = ("min", "max", "max_drop", "max_lost")
TEST: Final = "gate"  # the end of the node id, and so the key of the test in the baseline


def gate_command(options: argparse.Namespace) -> int:
    if not options.evalset.exists():
        raise InputError(f"There is no eval set {options.evalset}.")
    bounds = {name: value for name in BOUNDS if (value := getattr(options, name)) is not None}
    if not bounds:
        raise InputError(f"rageval gate has no bound.\nGive one: {', '.join(map(_flag, BOUNDS))}.")
    thresholds = [pytest.mark.rageval_threshold(score, **bounds) for score in options.score]
    plugin = GatePlugin(options.evalset, thresholds, retriever_of(options))
    arguments = [str(options.evalset), *(word for word in options.arguments if word != "--")]
    arguments += ["--rageval-update-baseline"] if options.update_baseline else []
    return int(pytest.main(arguments, plugins=[plugin]))


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def retriever_of(options: argparse.Namespace) -> HTTPRetriever | CommandRetriever:
    is_url = options.retriever.startswith(URLS)
    given: dict[str, Any] = {
        name: value
        for name in ("documents", "timeout", "method")
        if (value := getattr(options, name)) is not None
    }
    if options.body is not None:
        try:
            given["body"] = json.loads(options.body)
        except ValueError as error:
            raise InputError(f"--body is no JSON: {error}: {options.body:.200}") from None
    if is_url:
        given["headers"] = dict(map(_header, options.header))
        return HTTPRetriever(options.retriever, id=options.id, text=options.text, **given)
    for name in ("method", "header"):
        if getattr(options, name):
            raise InputError(
                f"{_flag(name)} is of a request, and --retriever {options.retriever} is a program.\n"
                "A URL begins with http:// or https://."
            )
    return CommandRetriever(shlex.split(options.retriever), id=options.id, text=options.text, **given)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not (name.strip() and colon):
        # The text may be a secret.
        raise InputError("--header is NAME:VALUE, such as 'Authorization: Bearer ${SEARCH_TOKEN}'.")
    return name.strip(), value.strip()


class GateFile(pytest.Module):
    """The eval set as a test module, which has the retriever as its fixture, and one test."""

    in_memory: ModuleType

    def _getobj(self) -> ModuleType:
        return self.in_memory

    def funcnamefilter(self, name: str) -> bool:
        return name == TEST


class GateItem(pytest.Function):
    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, TEST


class GatePlugin:
    """Collects the test of a gate in place of its eval set."""

    def __init__(self, evalset: Path, thresholds: Sequence[pytest.MarkDecorator], retriever: object) -> None:
        self._path = evalset.resolve()
        self._repeat = f"rageval gate {shlex.quote(str(evalset))} …"
        self._thresholds = thresholds
        self._retriever = retriever

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        # Workers of pytest-xdist, which the ini file may ask for, have no such plugin, and one test needs none.
        if hasattr(config.option, "dist"):
            config.option.dist = "no"

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if file_path.resolve() != self._path:
            return None
        root = parent.config.rootpath
        path = self._path.relative_to(root) if self._path.is_relative_to(root) else self._path

        def gate() -> None:
            """Passes if its thresholds hold."""

        for mark in (pytest.mark.rageval_evalset(path.as_posix()), *self._thresholds):
            mark(gate)
        file: GateFile = GateFile.from_parent(parent, path=file_path)
        file.in_memory = ModuleType(TEST)
        vars(file.in_memory).update({
            TEST: gate,
            "rageval_retriever": pytest.fixture(scope="session", name="rageval_retriever")(lambda: self._retriever),
        })  # fmt: skip
        return file

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        return self.pytest_collect_file(path, parent)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self, collector: pytest.Collector, name: str) -> pytest.Item | None:
        if not (isinstance(collector, GateFile) and name == TEST):
            return None
        item: GateItem = GateItem.from_parent(collector, name=name)
        return item

    # The failure and the reports name the command that accepts a drop, as after a merge: it is not pytest's own.

    @pytest.hookimpl(optionalhook=True)
    def pytest_rageval_before_test(self, test: "JudgedTest") -> None:
        test.marked = replace(test.marked, merge=self._repeat)

    @pytest.hookimpl(optionalhook=True)
    def pytest_rageval_run_finished(self) -> Mapping[str, str]:
        return {"merge": self._repeat}
