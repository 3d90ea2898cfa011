"""A run imports only the modules of this package that it needs, and no heavy libraries."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pluggy
import pytest

from pytest_rageval.core.extensions import at_start, installed
from pytest_rageval.evalsets import FORMATS
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.reports import KINDS
from pytest_rageval.reports.notes import NOTE_TEXTS
from pytest_rageval.retrievers.adapters import ADAPTERS
from pytest_rageval.scores import SCORES, modules

HEAVY = {"numpy", "scipy", "openai", "sqlite3", "torch", "jinja2"}

RUN = """
import sys, pytest
if pytest.main(["-p", "no:cacheprovider", *sys.argv[1:]]):
    sys.exit("the run failed")
print(*sorted(sys.modules), file=open("modules.txt", "w"))
"""

TEST = """
import threading

import pytest

@pytest.fixture(scope="session")
def rageval_retriever():
    return lambda query, k: [{"id": "doc-4", "text": "Tulsa is a city."}, {"id": "doc-5", "text": "No."}]

@pytest.mark.rageval_evalset("evalset.jsonl")
@pytest.mark.rageval_threshold("recall@3", min=0.5)
def test_recall(rageval):
    assert [thread.name for thread in threading.enumerate()] == ["MainThread"]
"""


def _loaded(folder: Path, test: str, *arguments: str) -> set[str]:
    (folder / "pytest.ini").write_text("[pytest]")
    (folder / "test_it.py").write_text(test)
    command = [sys.executable, "-c", RUN, "-p", "rageval", *arguments]
    # Some other plugins import asyncio or numpy. This process may be a worker of pytest-xdist.
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environ.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return set((folder / "modules.txt").read_text().split())


def _ours(loaded: set[str]) -> set[str]:
    return {name for name in loaded if name.partition(".")[0] == "pytest_rageval"}


def _lines(name: str) -> int:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return len(Path(spec.origin).read_text(encoding="utf-8").splitlines())


def test_a_ranking_test_imports_a_third_of_the_package(tmp_path):
    records = (
        '{"id": "a", "question": "Where?", "gold": [{"id": "doc-4"}]}',
        '{"id": "b", "question": "Is it?", "gold": [{"id": "doc-5"}]}',
    )
    (tmp_path / "evalset.jsonl").write_text("\n".join(records))
    loaded = _loaded(tmp_path, TEST)
    assert "pytest_rageval.scores.ranking" in loaded
    # Of an extension, the module with its declarations.
    assert len(_ours(loaded)) <= 76 + len(installed()), sorted(_ours(loaded))
    core = {name for name in _ours(loaded) if "extensions" not in name.split(".")}
    assert sum(map(_lines, core)) <= 17_850
    assert not loaded & (HEAVY | {"asyncio"})
    # Modules that few runs need, and whose import takes long.
    unused = {
        "pytest_rageval.answers.comparators",
        "pytest_rageval.answers.overlap",
        "pytest_rageval.calls.threads",
        "pytest_rageval.evalsets.field_map",
        "pytest_rageval.baseline",
        "pytest_rageval.gate.comparison",
        "pytest_rageval.gate.drop_tests",
        "pytest_rageval.gate.sentences",
        "pytest_rageval.lib.cache_folder",
        "pytest_rageval.lib.normal_forms",
        "pytest_rageval.lib.secret",
        "pytest_rageval.models.prices",
        "pytest_rageval.models.prompts",
        "pytest_rageval.stats.paired_tests",
        "pytest_rageval.reports.document",
        "pytest_rageval.reports.questions",
        "pytest_rageval.reports.systems",
        "pytest_rageval.retrievers.documents",
        "pytest_rageval.scores.gold_matching",
        "tomllib",
    }
    assert not loaded & unused


def test_a_run_without_marked_tests_imports_the_plugin_alone(tmp_path):
    """It imports the options, the hooks that wait for a marked test, and one module of some extensions."""
    loaded = _loaded(tmp_path, "def test_it(): pass")
    assert "pytest_rageval.plugin" in loaded
    assert len(_ours(loaded)) <= 13 + len(at_start()), sorted(_ours(loaded))
    assert not loaded & (HEAVY | {"asyncio", "tomllib"})


def test_an_extension_that_is_not_imported_at_the_start_has_nothing_that_pytest_needs():
    manager = pluggy.PluginManager("pytest")
    others = installed().keys() - at_start().keys()
    assert others
    for name in others:
        manager.register(installed()[name], name)
        assert not manager.get_hookcallers(installed()[name])
        assert not vars(installed()[name]).keys() & {"OPTIONS", "MARKERS", "FIXTURES", "COMPONENTS"}


WORKERS_CONFTEST = """
import os, sys

def pytest_unconfigure():
    name = os.environ.get("PYTEST_XDIST_WORKER", "controller")
    print(*sorted(sys.modules), file=open(f"{name}.txt", "w"))
"""


@pytest.mark.slow
def test_workers_without_marked_tests_import_as_little_and_their_controller_one_module_more(tmp_path):
    (tmp_path / "conftest.py").write_text(WORKERS_CONFTEST)
    _loaded(tmp_path, "def test_it(): pass\ndef test_other(): pass", "-p", "xdist", "-n2")
    for name, more in (("gw0", set()), ("gw1", set()), ("controller", {"pytest_rageval.plugin.workers"})):
        loaded = set((tmp_path / f"{name}.txt").read_text().split())
        assert more <= loaded
        assert len(_ours(loaded) - more) <= 13 + len(at_start()), sorted(_ours(loaded))
        assert not loaded & (HEAVY | {"asyncio", "tomllib"})


@pytest.mark.parametrize(
    "late",
    [
        *(form.read for form in FORMATS.values() if isinstance(form.read, Lazy)),
        *(adapt for _, adapt in ADAPTERS if isinstance(adapt, Lazy)),
        *(report for report in KINDS.values() if isinstance(report, Lazy)),
        *(text for text in NOTE_TEXTS.values() if isinstance(text, Lazy)),
    ],
    ids=lambda late: f"{late.__module__}.{late.__name__}",
)
def test_a_lazily_imported_object_exists(late):
    """Static checkers do not check the names of a `Lazy`, which are strings."""
    assert callable(late.__wrapped__)


def test_every_score_is_found_by_its_name_or_its_first_part():
    listed_names = [part for names in modules().values() for part in names]
    actual_names = [name if name in listed_names else name.partition(".")[0] for name in SCORES]
    assert list(dict.fromkeys(actual_names)) == listed_names
    assert all(SCORES[name].name == name for name in SCORES)
