"""Fixtures and settings of all tests: no network connections to other machines, and no API keys of the developer."""

import contextlib
import functools
import gc
import importlib.metadata
import os
import pkgutil
import re
import socket
import ssl
import sys
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

import pytest_rageval

pytest_plugins = ["pytester"]

# The tests start hundreds of processes, which would each compile the package and its dependencies again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Examples have no deadline: a busy machine must not fail a property test.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("patient", PATIENT, max_examples=50)
# For `--hypothesis-profile=thorough`, every night.
settings.register_profile("thorough", PATIENT, max_examples=1000)
settings.load_profile("patient")

REMOVED_PREFIXES = (
    "OPENAI_",
    "RAGEVAL_",
    "GITHUB_",
    "OTEL_",
    "CI",
    "BUILD_NUMBER",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
)
"""Prefixes of the environment variables that the code under test may read, and that are removed for all tests."""

PLUGIN = re.compile(r"(_pytest|pytest_rageval\.(plugin|extensions)|xdist)(\.(?!hookspec|newhooks)\w+)*$")
"""Matches the modules that runs of pytest inside a test register as plugins."""

ALL_SLOW = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.slow\b", re.MULTILINE)
"""Matches in a module of which all tests are slow."""

LOOPBACK = {"127.0.0.1", "::1", "localhost"}


# With Python's defaults, garbage collections are a sixth of the time of a collection or of a small run.
gc.set_threshold(50_000, 20, 20)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no test module of which `-m` selects nothing."""
    selected = str(config.option.markexpr)
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    if selected == "not slow":
        return bool(ALL_SLOW.search(collection_path.read_text(encoding="utf-8"))) or None
    if selected == "slow and not long":
        # A conftest may parametrize the tests of its folder.
        sources = (collection_path, collection_path.with_name("conftest.py"))
        return (
            not any(path.exists() and "mark.slow" in path.read_text(encoding="utf-8") for path in sources)
            or None
        )
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in docstrings of the package alone, not in those of tests."""
    collectors = yield
    return [each for each in collectors if not isinstance(each, DoctestModule)]


def pytest_collection_finish() -> None:
    """Exclude the imported modules and collected tests from garbage collection: they exist until the end of the run."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _clean_environment() -> Iterator[None]:
    """Remove the environment variables that the code under test may read, before any other fixture runs."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.upper().startswith(REMOVED_PREFIXES) and name != "RAGEVAL_TEST_DATA":
                patch.delenv(name)
        yield


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.socket.connect

    def connect_locally(self: socket.socket, address: object) -> None:
        if isinstance(address, tuple) and address[0] not in LOOPBACK:
            raise AssertionError(f"a test connects to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_locally)
    # Every HTTP client loads all certificate authorities, which takes longer than most tests.
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)


@pytest.fixture(scope="session")
def _inner_runs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Prepare this process for runs of pytest inside it.

    `pytester` removes the modules that a run has imported. The next run would import them again, which takes a second,
    and modules such as numpy cannot be imported twice. So all modules are imported before the first run. A run also
    reads the metadata of every installed package several times; here the metadata is cached. And it looks for hooks
    and fixtures among all names of each plugin, a third of the time of a small run; here `dir` returns no others.
    """
    ours = (module.name for module in pkgutil.walk_packages(pytest_rageval.__path__, "pytest_rageval."))
    for name in (*ours, "anyio._backends._asyncio", "httpcore2", "openai", "scipy.optimize", "scipy.stats"):
        # Without an extra, a module that needs it cannot be imported.
        with contextlib.suppress(ModuleNotFoundError):
            import_module(name)
    # torch belongs to the extra `dense`. Only slow tests need it, and its import takes seconds.
    if find_spec("torch") and any(item.get_closest_marker("slow") for item in request.session.items):
        import_module("torch")

    packages = list(importlib.metadata.distributions())
    distributions, distribution_class = importlib.metadata.distributions, importlib.metadata.Distribution
    with pytest.MonkeyPatch.context() as patch:
        for name in ("entry_points", "files", "metadata"):
            cached_getter = functools.cache(getattr(distribution_class, name).fget)
            patch.setattr(distribution_class, name, property(cached_getter))
        patch.setattr(
            importlib.metadata,
            "distributions",
            lambda **kwargs: distributions(**kwargs) if kwargs else packages,
        )
        for name, module in list(sys.modules.items()):
            if PLUGIN.match(name):
                found = [name for name, value in vars(module).items() if _is_hook_or_fixture(name, value)]
                patch.setattr(module, "__dir__", functools.partial(list, found), raising=False)
        yield


def _is_hook_or_fixture(name: str, value: object) -> bool:
    # The second is the marker of pytest before 8.4.
    markers = ("_fixture_function_marker", "_pytestfixturefunction")
    return name.startswith("pytest_") or any(hasattr(value, marker) for marker in markers)


@pytest.fixture
def pytester(_inner_runs: None, pytester: pytest.Pytester) -> pytest.Pytester:
    return pytester


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """Run `rageval`, in a folder of its own, with a key and without the address of a server."""
    from pytest_rageval.cli import main
    from tests.unit.cli.folders import Done

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    def run(*arguments: str) -> Done:
        try:
            status = main(list(arguments))
        except SystemExit as ended:
            status = int(ended.code or 0)
        return Done(status, *capsys.readouterr())

    return run


@pytest.fixture
def llm() -> Iterator["LLMServer"]:
    with LLMServer() as server:
        yield server


from tests.llm_server import LLMServer  # noqa: E402 - only the last fixture needs it
