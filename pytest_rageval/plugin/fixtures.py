"""The fixtures, and checks of markers: unknown ones, and eval sets that no test scores."""

import os
from collections.abc import Generator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from pytest_rageval.errors import did_you_mean
from pytest_rageval.plugin.runner import MARKERS, GatePlugin, checked_prompts, or_failure
from pytest_rageval.plugin.terminal import failure, print_lines

if TYPE_CHECKING:
    from pytest_rageval.embeddings.encoder import CachedEncoder
    from pytest_rageval.llm.api import LLM
    from pytest_rageval.plugin.rageval_fixture import Rageval
    from pytest_rageval.serving.server import GatewayServer

__all__ = [
    "MarksPlugin",
    "rageval",
    "rageval_client",
    "rageval_encoder",
    "rageval_executor",
    "rageval_gateway",
    "rageval_generator",
    "rageval_judge",
    "rageval_llm",
    "rageval_prompts",
    "rageval_reference_retriever",
    "rageval_retriever",
]

EVALSET: Final = "rageval_evalset"

TIMEOUT: Final = (
    "rageval: timeout = {:g} s counts the evaluation too, which is the setup of the first test that needs a score: a "
    "run without kept replies may exceed it. Set timeout_func_only = true."
)

NO_RETRIEVER: Final = """\
There is no fixture rageval_retriever, so there is nothing to evaluate. Write in conftest.py:

    import pytest
    from your_application import search

    @pytest.fixture(scope="session")
    def rageval_retriever():
        return search  # (query, k) -> documents
"""


@pytest.fixture(scope="session")
def rageval_retriever() -> object:
    """The retriever under test: a callable (query, k) -> documents, sync or async. Override it."""
    raise failure(NO_RETRIEVER)


NO_REFERENCE: Final = """\
There is no fixture rageval_reference_retriever, which max_ratio compares times with. Write in conftest.py:

    import pytest
    from your_application import simple_search

    @pytest.fixture(scope="session")
    def rageval_reference_retriever():
        return simple_search  # (query, k) -> documents, such as the version that is deployed
"""


@pytest.fixture(scope="session")
def rageval_reference_retriever() -> object:
    """The retriever that max_ratio times the one under test beside: like rageval_retriever. Override it."""
    raise failure(NO_REFERENCE)


@pytest.fixture(scope="session")
def rageval_executor() -> object:
    """A concurrent.futures.Executor in whose processes a sync retriever runs, in chunks. Default: none."""
    return None


@pytest.fixture(scope="session")
def rageval_prompts(pytestconfig: pytest.Config) -> Mapping[str, str]:
    """Prompts that replace the package's own, by name. Default: those of --rageval-prompts, then of the preset."""
    settings = GatePlugin.of(pytestconfig).settings
    path, given = settings.prompts, settings.preset.prompts if settings.preset else {}
    if path is None:
        return given
    from pytest_rageval.prompts.rendering import read_templates  # noqa: PLC0415 - few runs have such a file

    return {**given, **or_failure(lambda: read_templates(path))}


@pytest.fixture(scope="session")
def rageval_client() -> object:
    """Your own client of models: (model, messages, **parameters) -> a chat completion. Default: the options' server."""
    return None


@pytest.fixture(scope="session")
def rageval_generator(pytestconfig: pytest.Config, rageval_prompts: object, rageval_client: object) -> object:
    """The generator: a callable (question, passages) -> str, sync or async. Default: the configured model."""
    from pytest_rageval.session.models import DefaultGenerator  # noqa: PLC0415 - marked tests alone need it

    models = GatePlugin.of(pytestconfig).models_of(rageval_client)
    return DefaultGenerator(models, checked_prompts(rageval_prompts))


@pytest.fixture(scope="session")
def rageval_judge(pytestconfig: pytest.Config, rageval_prompts: object, rageval_client: object) -> object:
    """The judge: compare(question, references, prediction), or an object with it. Default: as in the header."""
    from pytest_rageval.session.models import DefaultJudge  # noqa: PLC0415 - marked tests alone need it

    models = GatePlugin.of(pytestconfig).models_of(rageval_client)
    return DefaultJudge(models, checked_prompts(rageval_prompts))


@pytest.fixture(scope="session")
def rageval_llm(pytestconfig: pytest.Config, rageval_prompts: object, rageval_client: object) -> "LLM":
    """The configured model, for your own code: complete(messages), acomplete(messages), cached(function)."""
    gate = GatePlugin.of(pytestconfig)
    return gate.session.llm_of(gate.models_of(rageval_client), checked_prompts(rageval_prompts))


@pytest.fixture(scope="session")
def rageval_gateway(pytestconfig: pytest.Config, rageval_client: object) -> "GatewayServer":
    """An OpenAI-compatible server for model calls inside your application: url, token, variables()."""
    return GatePlugin.of(pytestconfig).gateway_to(rageval_client)


@pytest.fixture(scope="session")
def rageval_encoder(pytestconfig: pytest.Config) -> "CachedEncoder":
    """The packaged encoder, for DenseRetriever: each text is encoded once and kept in the cache folder."""
    return GatePlugin.of(pytestconfig).session.encoder


@pytest.fixture
def rageval(  # noqa: PLR0913, PLR0917 - fixtures
    request: pytest.FixtureRequest,
    rageval_retriever: object,
    rageval_prompts: object,
    rageval_generator: object,
    rageval_judge: object,
    rageval_executor: object,
) -> "Rageval":
    """Scores of the retriever under test: score(spec), retrieve(query, k), answer(question, k), examples."""
    # Checked also where generator and judge are the user's own, and send no prompts.
    checked_prompts(rageval_prompts)
    gate = GatePlugin.of(request.config)
    # Few tests need it, and making it may take long.
    reference = partial(request.getfixturevalue, "rageval_reference_retriever")
    return gate.evaluate(
        request.node,
        rageval_retriever,
        rageval_generator,
        rageval_judge,
        executor=rageval_executor,
        reference=reference,
    )


class MarksPlugin:
    """The hooks of a process that collects tests: checks of markers."""

    NAME: ClassVar[str] = "rageval-marks"

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._unscored: dict[str, None] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """Refuse a module with a test that has an unknown `rageval` marker."""
        made = yield
        for item in made if isinstance(made, list) else [made]:
            if isinstance(item, pytest.Item) and (problem := self._problem(item)):
                raise collector.CollectError(problem)
        return made

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Find the eval sets that no test scores, before any test is deselected."""
        # Where a test is named on the command line, other tests of its module are not collected.
        if not any("::" in argument for argument in self._config.args):
            self._unscored = dict.fromkeys(_unscored(items))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Refuse an unknown marker that was added later, as by a conftest, and a timeout that counts the setup."""
        if problem := self._problem(item) or _timeout_problem(item):
            raise failure(problem)

    def pytest_report_header(self, config: pytest.Config) -> str | None:
        """Warn of a timeout for each test, unless it counts the function only."""
        if not config.pluginmanager.hasplugin("timeout") or config.getini("timeout_func_only"):
            return None
        found = (
            config.getoption("timeout", None),
            os.environ.get("PYTEST_TIMEOUT"),
            config.getini("timeout"),
        )
        seconds = next((each for each in found if each not in {None, ""}), 0)
        return TIMEOUT.format(float(seconds)) if _is_positive(seconds) else None

    def pytest_sessionfinish(self) -> None:
        """Send an xdist worker's warnings to the controller."""
        if hasattr(self._config, "workerinput"):
            self._config.workeroutput["rageval_unscored"] = list(self._unscored)  # type: ignore[attr-defined]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over a worker's warnings: every worker collects all tests."""
        self._unscored |= dict.fromkeys(getattr(node, "workeroutput", {}).get("rageval_unscored", ()))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Warn of eval sets that no test scores, also with -q."""
        print_lines(terminalreporter, [f"warning: {problem}" for problem in self._unscored], yellow=True)

    def _problem(self, item: pytest.Item) -> str:
        """An error about an unknown marker of an item; empty without one."""
        names = [mark.name for mark in item.iter_markers() if mark.name.lower().startswith("rageval")]
        if not names:
            return ""
        # The declared markers: ours, and those of the user with our prefix.
        known = {line.partition(":")[0].partition("(")[0].strip() for line in self._config.getini("markers")}
        unknown = next((name for name in names if name not in known), None)
        if unknown is None:
            return ""
        ours = sorted(name for name in known if name.startswith("rageval"))
        return (
            f"{item.nodeid} has the mark {unknown}, which does nothing.{did_you_mean(unknown, ours)}\n"
            f"There are: {', '.join(ours)}. One of your own is named under `markers` in pytest's configuration."
        )


def _unscored(items: list[pytest.Item]) -> Iterator[str]:
    """A warning for each eval-set marker without a test that scores it."""
    tests_of: dict[int, tuple[pytest.Mark, list[pytest.Item]]] = {}
    for item in items:
        if hasattr(item, "fixturenames"):
            for mark in item.iter_markers(EVALSET):
                tests_of.setdefault(id(mark), (mark, []))[1].append(item)
    for mark, tests in tests_of.values():
        if not any(map(_scores, tests)):
            first = tests[0].nodeid
            where = first if len(tests) == 1 else f"{len(tests)} tests, the first of them {first},"
            path = f"{mark.args[0]!r:.60}" if mark.args else ""
            yield (
                f"{EVALSET}({path}) on {where} does nothing: no test under it has a threshold (rageval_threshold), a "
                "calibration (rageval_calibration) or the fixture rageval"
            )


def _scores(item: pytest.Item) -> bool:
    return "rageval" in getattr(item, "fixturenames", ()) or any(map(item.get_closest_marker, MARKERS))


def _timeout_problem(item: pytest.Item) -> str:
    """An error about a mark of pytest-timeout that counts the evaluation; empty without one."""
    mark = item.get_closest_marker("timeout")
    if mark is None or not item.config.pluginmanager.hasplugin("timeout"):
        return ""
    seconds = mark.kwargs.get("timeout", mark.args[0] if mark.args else 0)
    func_only = mark.kwargs.get("func_only")
    func_only = item.config.getini("timeout_func_only") if func_only is None else func_only
    if func_only or not _is_positive(seconds) or not any(map(item.get_closest_marker, MARKERS)):
        return ""
    return (
        f"{item.nodeid} has the mark timeout, which counts the evaluation too: it is this test's setup, and would be "
        "ended while it is paid for.\n"
        f"Write @pytest.mark.timeout({seconds}, func_only=True), or set timeout_func_only = true in pytest's "
        "configuration."
    )


def _is_positive(seconds: object) -> bool:
    """Whether it is a time limit; pytest-timeout itself refuses what is not a number."""
    try:
        return float(str(seconds)) > 0
    except ValueError:
        return False
