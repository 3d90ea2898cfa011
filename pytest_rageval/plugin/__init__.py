"""The pytest plugin: options, markers, fixtures and hooks. It connects pytest with `run`, which evaluates tests.

pytest imports this module in every run of every project that has the plugin installed. So it imports the rest of the
plugin only when a run has a marked test.

- `lazy_start`: waits for a marked test, then imports and registers the rest. `workers`: waits for the workers of
  pytest-xdist.
- `markers`: the markers, and checks of marks.
- `runner`: `EvaluationPlugin`, the hooks that evaluate marked tests, and the session that they share; the fixtures here
  take their values from it.
- `rageval_fixture`: the object that tests receive as `rageval`.
- `summary`, `terminal`, `progress`: output.
- `settings_command`: `rageval settings`.
- `completeness`: which tests ran. `files`: the files that a run writes, and the
  commit under test, which reports and pins name.
"""

from argparse import SUPPRESS
from collections.abc import Iterable, Mapping
from functools import partial
from inspect import Parameter, Signature, signature, unwrap
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_rageval import hookspecs
from pytest_rageval.core.extensions import at_start, installed
from pytest_rageval.options import MOVED, Option, all_options
from pytest_rageval.options.command import SETTER, SetOption, flag_problem
from pytest_rageval.plugin.lazy_start import PARSER, LazyStart, get_evaluation_plugin, needs_eager_start
from pytest_rageval.plugin.markers import MARKERS

if TYPE_CHECKING:
    from pytest_rageval.models.api import LLM
    from pytest_rageval.plugin.rageval_fixture import Rageval
    from pytest_rageval.run.session import Session


EXTENSIONS: Final = "rageval_extensions"  # the ini key that switches extensions off

EXTENSIONS_HELP: Final = (
    "extensions to switch off, each with a minus: -canary -early_stop. `rageval extensions` lists all"
)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the flags, `--rageval NAME=VALUE` for all options, and an ini key for each that may be permanent.

    The extensions are registered too.
    """
    group = parser.getgroup("rageval", "RAG retriever evaluation")
    for option in all_options():
        # The value None means that the command line does not have the option, so that the ini key applies.
        kwargs: dict[str, object] = {"dest": option.ini, "default": None, "help": _help(option)}
        if option.is_flag and not option.metavar:
            group.addoption(option.typed, action="store_const", const="true", **kwargs)
            # Each value is an option of its own. An option with an optional value would read a path that follows it as
            # its value.
            for word in option.switch_values:
                group.addoption(
                    f"{option.typed}={word}", action="store_const", const=word, **kwargs | {"help": SUPPRESS}
                )
        elif option.is_flag:
            action = "append" if option.repeatable else "store"
            group.addoption(option.typed, action=action, metavar=option.metavar, **kwargs)
        if option.in_ini:
            kind: Any = "linelist" if option.repeatable else "string"
            # The whole text is in `rageval settings`.
            text = f"as {option.typed}" if option.is_flag else _help(option).partition(". ")[0]
            parser.addini(option.ini, text, type=kind, default=None)
    group.addoption(SETTER, action=SetOption, dest=SETTER, attribute="rageval_{}")
    parser.addini(EXTENSIONS, EXTENSIONS_HELP, type="args", default=())
    # pytest has read the ini file by now, but not the command line.
    off = pluginmanager.get_plugin("pytestconfig").getini(EXTENSIONS)  # type: ignore[union-attr]
    components: list[str] = []
    for name, extension in at_start().items():
        if f"-{name}" not in off:
            components += getattr(extension, "COMPONENTS", ())
            # No name of its own: `-p no:NAME` must not disable a part of the plugin.
            pluginmanager.register(ExtensionPlugin(extension), str(id(extension)))
    request_components(components)


class ExtensionPlugin(ModuleType):
    """The hooks and the fixtures of an extension. pytest looks at each name of a plugin several times."""

    def __init__(self, extension: ModuleType) -> None:
        super().__init__(extension.__name__)
        hooks = {name: each for name, each in vars(extension).items() if name.startswith("pytest_")}
        # Decorated here, so that commands, which import extensions too, need not import pytest.
        fixture = pytest.fixture(scope="session")
        fixtures = {each.__name__: fixture(each) for each in getattr(extension, "FIXTURES", ())}
        self._names = [*hooks, *fixtures]
        vars(self).update(hooks | fixtures)

    def __dir__(self) -> list[str]:
        return self._names


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> None:
    """Keep the parser, which knows the options of all plugins; refuse flags that are none."""
    early_config.stash[PARSER] = parser
    if any(word.startswith("--rageval-") for word in args) and (
        problem := flag_problem(args, lambda flag: _is_known(parser, flag))
    ):
        raise pytest.UsageError(problem)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers and `LazyStart`.

    No object of this package is registered under a name, so that `-p no:NAME` cannot disable a part of the plugin: the
    only name is `rageval`, that of the whole plugin.
    """
    _refuse_unknown_keys(config)
    off = _switched_off(config)
    # The mark of an extension that is switched off is unknown, and so an error.
    active = [extension for name, extension in at_start().items() if name not in off]
    added = chain.from_iterable(getattr(extension, "MARKERS", ()) for extension in active)
    for marker in (*MARKERS.strip().splitlines(), *added):
        config.addinivalue_line("markers", marker)
    lazy_start = LazyStart(config, off)
    config.pluginmanager.register(lazy_start)
    if needs_eager_start(config):
        lazy_start.start()


def _refuse_unknown_keys(config: pytest.Config) -> None:
    """Raise UsageError for an ini key that is none: pytest only warns, and a setting would have no effect."""
    overrides = (text.partition("=")[0] for text in config.getoption("override_ini") or ())
    # pytest 9 deprecates `inicfg`, and has no other list of the keys.
    written: Mapping[str, object] = getattr(config, "_inicfg" if hasattr(config, "_inicfg") else "inicfg")
    for key in (*written, *overrides):
        if not key.startswith("rageval_"):
            continue
        try:
            config.getini(key)
        except ValueError:
            raise pytest.UsageError(f"{key} in pytest's configuration: {_unknown_key(key)}") from None


def _unknown_key(key: str) -> str:
    if flag := next((option.example() for option in all_options() if option.ini == key), ""):
        return f"it is an option of the command line alone: {flag}."
    from pytest_rageval.core.errors import similar_names  # noqa: PLC0415 - most runs do not need it

    # The names are compared without the prefix, which would make all of them similar.
    names = [option.name for option in all_options() if option.in_ini]
    similar = similar_names(key.removeprefix("rageval_"), names, limit=1)
    hint = f" Did you mean rageval_{similar[0]}?" if similar else ""
    hint = MOVED.get(key.removeprefix("rageval_"), hint)
    return (
        f"there is no such option.{hint}\n`rageval settings` lists all options, `rageval extensions` the extensions "
        "that have some of them."
    )


def _switched_off(config: pytest.Config) -> list[str]:
    """Return the extensions that the ini key switches off; UsageError if an option needs one of them."""
    if not (values := config.getini(EXTENSIONS)):
        return []
    from pytest_rageval.core.errors import InputError, did_you_mean  # noqa: PLC0415 - few runs switch one off
    from pytest_rageval.options.resolution import read_pyproject  # noqa: PLC0415

    names = [value.removeprefix("-") for value in values]
    for name, written in zip(names, values, strict=True):
        if name not in installed() or name == written:
            hint = f" Write -{name}." if name in installed() else did_you_mean(name, installed())
            raise pytest.UsageError(
                f"{EXTENSIONS} is '{' '.join(values)}': '{written}' is no extension with a minus.{hint}\n"
                "`rageval extensions` lists them. Plugins of others are switched off with -p no:NAME."
            )
    try:
        in_pyproject, _ = read_pyproject(config.rootpath)
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
    for name in names:
        for option in getattr(installed()[name], "OPTIONS", ()):
            value = getattr(config.option, option.ini, None)
            if value is None and option.in_ini:
                value = config.getini(option.ini) or in_pyproject.get(option.name)
            if value not in (None, "", "false", False, []):
                raise pytest.UsageError(
                    f"{option.example()} needs the extension {name}, which {EXTENSIONS} switches off."
                )
    return names


def _is_known(parser: pytest.Parser, flag: str) -> bool:
    try:
        return flag not in parser.parse_known_and_unknown_args([flag])[1]
    except pytest.UsageError:
        # A value is missing.
        return True


def _help(option: Option[Any]) -> str:
    default = f" (default: {option.shown_default})" if option.shown_default else ""
    return f"{option.help}{default}".replace("%", "%%")


NO_FIXTURE: Final = """\
{problem}. Write in conftest.py:

    import pytest
    from your_application import {function}

    @pytest.fixture(scope="session")
    def {name}():
        return {function}  # (query, k) -> documents{example}
"""


@pytest.fixture(scope="session")
def rageval_retriever(request: pytest.FixtureRequest) -> object:
    """The retriever under test: a callable (query, k) -> documents, sync or async. Override it."""
    given = request.config.hook.pytest_rageval_default_fixture(name="rageval_retriever", request=request)
    if given is None:
        raise _missing_fixture(
            "rageval_retriever",
            "There is no fixture rageval_retriever, so there is nothing to evaluate",
            "search",
        )
    return given


@pytest.fixture(scope="session")
def rageval_reference_retriever() -> object:
    """The retriever whose time max_ratio compares with that of rageval_retriever: a callable like it. Override it."""
    problem = "There is no fixture rageval_reference_retriever, which max_ratio compares times with"
    example = ", such as the version that is deployed"
    raise _missing_fixture("rageval_reference_retriever", problem, "simple_search", example)


@pytest.fixture(scope="session")
def rageval_prompts(pytestconfig: pytest.Config) -> Mapping[str, str]:
    """Prompts that replace the package's own, by name. Default: the file of --rageval prompts=FILE, then the preset."""
    return get_evaluation_plugin(pytestconfig).process.prompts


@pytest.fixture(scope="session")
def rageval_client() -> object:
    """A callable that calls models: (model, messages, **parameters) -> chat completion. Default: none."""
    return None


@pytest.fixture(scope="session")
def rageval_generator(
    request: pytest.FixtureRequest, rageval_prompts: object, rageval_client: object
) -> object:
    """The generator: a callable (question, passages) -> str, sync or async. Default: the configured model."""
    given = request.config.hook.pytest_rageval_default_fixture(name="rageval_generator", request=request)
    if given is not None:
        return given
    return get_evaluation_plugin(request.config).process.generator(rageval_prompts, rageval_client)


@pytest.fixture(scope="session")
def rageval_judge(pytestconfig: pytest.Config, rageval_prompts: object, rageval_client: object) -> object:
    """The judge: compare(question, references, prediction), or an object with it. Default: the configured model."""
    return get_evaluation_plugin(pytestconfig).process.judge(rageval_prompts, rageval_client)


@pytest.fixture(scope="session")
def rageval_llm(pytestconfig: pytest.Config, rageval_prompts: object, rageval_client: object) -> "LLM":
    """The configured model for your own code: complete(messages), acomplete(messages), cached(function)."""
    return get_evaluation_plugin(pytestconfig).process.llm(rageval_prompts, rageval_client)


@pytest.fixture(scope="session")
def _rageval_session(pytestconfig: pytest.Config) -> "Session":
    """The session of this process, for fixtures of extensions."""
    return get_evaluation_plugin(pytestconfig).process.session


@pytest.fixture
def rageval(
    request: pytest.FixtureRequest,
    rageval_retriever: object,
    rageval_prompts: object,
    rageval_generator: object,
    rageval_judge: object,
    **components: object,
) -> "Rageval":
    """Scores of the retriever under test: score(spec), retrieve(query, k), answer(question, k), examples."""
    plugin = get_evaluation_plugin(request.config)
    from pytest_rageval.plugin.rageval_fixture import exceptions_as_failures  # noqa: PLC0415 - with most of the package

    with exceptions_as_failures():
        return plugin.evaluate(
            request.node,
            rageval_retriever,
            rageval_generator,
            rageval_judge,
            prompts=rageval_prompts,
            components=components,
            # Few tests need this fixture, and its setup may take long.
            reference=partial(request.getfixturevalue, "rageval_reference_retriever"),
        )


SIGNATURE: Final = signature(rageval)


def request_components(names: Iterable[str]) -> None:
    """Let the fixture `rageval` request the fixtures that extensions declare; pytest has not read its signature yet."""
    *parameters, _ = SIGNATURE.parameters.values()
    parameters += [Parameter(name, Parameter.KEYWORD_ONLY) for name in names]
    unwrap(rageval).__signature__ = Signature(parameters)


def _missing_fixture(name: str, problem: str, function: str, example: str = "") -> BaseException:
    from pytest_rageval.plugin.terminal import failure  # noqa: PLC0415 - few runs lack a fixture

    return failure(NO_FIXTURE.format(name=name, problem=problem, function=function, example=example))
