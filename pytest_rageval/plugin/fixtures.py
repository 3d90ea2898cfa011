"""The fixtures and the checks of markers: mistyped ones, and eval sets that no test scores."""

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest

from pytest_rageval.errors import did_you_mean
from pytest_rageval.plugin.runner import MARKERS, GatePlugin
from pytest_rageval.plugin.terminal import failure, print_lines

if TYPE_CHECKING:
    from pytest_rageval.embeddings.encoder import CachedEncoder
    from pytest_rageval.llm.api import LLM
    from pytest_rageval.plugin.rageval_fixture import Rageval

__all__ = [
    "MarksPlugin",
    "rageval",
    "rageval_encoder",
    "rageval_generator",
    "rageval_judge",
    "rageval_llm",
    "rageval_prompts",
    "rageval_retriever",
]

NO_RETRIEVER = """\
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


@pytest.fixture(scope="session")
def rageval_prompts(pytestconfig: pytest.Config) -> Mapping[str, str]:
    """Prompts in place of the package's own, by name. Default: those in the file of --rageval-prompts."""
    return GatePlugin.of(pytestconfig).prompts()


@pytest.fixture(scope="session")
def rageval_generator(pytestconfig: pytest.Config, rageval_prompts: object) -> object:
    """The generator: a callable (question, passages) -> str, sync or async. Default: the model in force."""
    return GatePlugin.of(pytestconfig).default_generator(rageval_prompts)


@pytest.fixture(scope="session")
def rageval_judge(pytestconfig: pytest.Config, rageval_prompts: object) -> object:
    """The judge: an object with compare(question, references, prediction). Default: as in the header."""
    return GatePlugin.of(pytestconfig).default_judge(rageval_prompts)


@pytest.fixture(scope="session")
def rageval_llm(pytestconfig: pytest.Config) -> "LLM":
    """The model in force, for your own code: complete(messages), acomplete(messages), cached(function)."""
    return GatePlugin.of(pytestconfig).llm()


@pytest.fixture(scope="session")
def rageval_encoder(pytestconfig: pytest.Config) -> "CachedEncoder":
    """The packaged encoder, for DenseRetriever: each text is encoded once and kept in the cache folder."""
    return GatePlugin.of(pytestconfig).encoder()


@pytest.fixture
def rageval(
    request: pytest.FixtureRequest,
    rageval_retriever: object,
    rageval_prompts: object,
    rageval_generator: object,
    rageval_judge: object,
) -> "Rageval":
    """Scores of the retriever under test: score(spec), retrieve(query, k), answer(question, k), examples."""
    gate = GatePlugin.of(request.config)
    # Looked at also where generator and judge are the user's own, and send none of them.
    gate.check_prompts(rageval_prompts)
    return gate.open(request.node, rageval_retriever, rageval_generator, rageval_judge)


PREFIX: Final = "rageval"

EVALSET: Final = "rageval_evalset"


class MarksPlugin:
    """The hooks of a process that collects tests."""

    NAME: ClassVar[str] = "rageval-marks"

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._idle: dict[str, None] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """Refuse a module with a test that has an unknown mark of ours."""
        made = yield
        for item in made if isinstance(made, list) else [made]:
            if isinstance(item, pytest.Item) and (problem := self._unknown(item)):
                raise collector.CollectError(problem)
        return made

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Find the eval sets that no test scores, before any test is deselected."""
        # Of a module of which one test is named, it is not known whether another scores it.
        if not any("::" in argument for argument in self._config.args):
            self._idle = dict.fromkeys(_idle(items))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Refuse an unknown mark that came later, as from a conftest."""
        if problem := self._unknown(item):
            raise failure(problem)

    def pytest_sessionfinish(self) -> None:
        """From an xdist worker, tell the process that reports."""
        if hasattr(self._config, "workerinput"):
            self._config.workeroutput["rageval_idle"] = list(self._idle)  # type: ignore[attr-defined]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker found: every worker collects everything."""
        self._idle |= dict.fromkeys(getattr(node, "workeroutput", {}).get("rageval_idle", ()))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Warn of eval sets that no test scores, also with -q."""
        print_lines(terminalreporter, [f"warning: {problem}" for problem in self._idle], yellow=True)

    def _unknown(self, item: pytest.Item) -> str:
        """What is wrong with an item's marks; empty where nothing is."""
        named = [mark.name for mark in item.iter_markers() if mark.name.lower().startswith(PREFIX)]
        if not named:
            return ""
        # Those of ours are among them; others with our prefix may be the user's own.
        known = {line.partition(":")[0].partition("(")[0].strip() for line in self._config.getini("markers")}
        unknown = next((name for name in named if name not in known), None)
        if unknown is None:
            return ""
        ours = sorted(name for name in known if name.startswith(PREFIX))
        return (
            f"{item.nodeid} has the mark {unknown}, which does nothing.{did_you_mean(unknown, ours)}\n"
            f"There are: {', '.join(ours)}. One of your own is named under `markers` in pytest's configuration."
        )


def _idle(items: list[pytest.Item]) -> Iterator[str]:
    """The eval sets that no test scores, of all that are under one mark."""
    under: dict[int, tuple[pytest.Mark, list[pytest.Item]]] = {}
    for item in items:
        if hasattr(item, "fixturenames"):
            for mark in item.iter_markers(EVALSET):
                under.setdefault(id(mark), (mark, []))[1].append(item)
    for mark, marked in under.values():
        if not any(map(_scores, marked)):
            name = marked[0].nodeid
            where = name if len(marked) == 1 else f"{len(marked)} tests, the first of them {name},"
            path = f"{mark.args[0]!r:.60}" if mark.args else ""
            yield (
                f"{EVALSET}({path}) on {where} does nothing: no test under it has a threshold (rageval_threshold), a "
                "calibration (rageval_calibration) or the fixture rageval"
            )


def _scores(item: pytest.Item) -> bool:
    """Whether a test can have to do with an eval set."""
    return "rageval" in getattr(item, "fixturenames", ()) or any(map(item.get_closest_marker, MARKERS))
