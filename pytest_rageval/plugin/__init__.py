"""The pytest plugin: options, markers, fixtures and hooks. It connects pytest with `run`, which evaluates tests.

pytest imports this module in every run of every project that has the plugin installed. So it imports the rest of the
plugin only when a run has a marked test.

- `lazy_start`: waits for a marked test. `startup`: imports and registers the rest.
- `markers`: the markers, and checks of marks. `unused_evalsets`: a warning about eval sets that no test scores.
- `runner`: `EvaluationPlugin`, the hooks that evaluate marked tests. `fixtures`: the fixtures.
- `rageval_fixture`: the object that tests receive as `rageval`.
- `summary`, `terminal`, `progress`, `annotations`: output.
- `completeness`: whether all tests ran. `files`: the files that a run writes, and the commit under test, which reports
  and pins name.
"""

import os
from argparse import SUPPRESS
from typing import TYPE_CHECKING, Any

import pytest

from pytest_rageval import hookspecs
from pytest_rageval.core.extensions import installed
from pytest_rageval.lib.options import OPTIONS, Option
from pytest_rageval.plugin.fixtures import (
    _rageval_session,
    rageval,
    rageval_client,
    rageval_gateway,
    rageval_generator,
    rageval_judge,
    rageval_llm,
    rageval_prompts,
    rageval_reference_retriever,
    rageval_retriever,
)
from pytest_rageval.plugin.lazy_start import ENVIRONMENT, PARSER, LazyStart, needs_eager_start
from pytest_rageval.plugin.markers import MARKERS

if TYPE_CHECKING:
    from warnings import WarningMessage

__all__ = [
    "_rageval_session",
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_configure",
    "pytest_load_initial_conftests",
    "pytest_warning_recorded",
    "rageval",
    "rageval_client",
    "rageval_gateway",
    "rageval_generator",
    "rageval_judge",
    "rageval_llm",
    "rageval_prompts",
    "rageval_reference_retriever",
    "rageval_retriever",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add every option as a flag and, if it may be permanent, as an ini key."""
    group = parser.getgroup("rageval", "RAG retriever evaluation")
    for option in OPTIONS:
        # The value None means that the command line does not have the option, so that the ini key applies.
        kwargs: dict[str, Any] = {"dest": option.ini, "default": None, "help": _help(option)}
        if not option.metavar:
            group.addoption(option.flag, action="store_const", const="true", **kwargs)
            # Each value is an option of its own. An option with an optional value would read a path that follows it as
            # its value.
            for word in option.switch_values:
                group.addoption(
                    f"{option.flag}={word}", action="store_const", const=word, **kwargs | {"help": SUPPRESS}
                )
        else:
            action = "append" if option.repeatable else "store"
            group.addoption(option.flag, action=action, metavar=option.metavar, **kwargs)
        if option.in_ini:
            kind: Any = "linelist" if option.repeatable else "string"
            parser.addini(option.ini, _help(option), type=kind, default=None)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the hooks of this package, and its extensions, which implement them."""
    pluginmanager.add_hookspecs(hookspecs)
    for extension in installed().values():
        for function in getattr(extension, "FIXTURES", ()):
            # Decorated here, so that commands, which import extensions too, need not import pytest.
            setattr(extension, function.__name__, pytest.fixture(scope="session")(function))
        # No name of its own: `-p no:NAME` must not disable a part of the plugin.
        pluginmanager.register(extension, str(id(extension)))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, parser: pytest.Parser) -> None:
    """Start the gateway if an option requests it, before a conftest imports the application under test."""
    early_config.stash[PARSER] = parser
    options = early_config.known_args_namespace
    switch = next(option for option in OPTIONS if option.name == "gateway")
    if getattr(options, switch.ini, None) is None and not early_config.getini(switch.ini):
        return
    from pytest_rageval.plugin.startup import start_gateway  # noqa: PLC0415 - few runs have one

    environ = dict(os.environ)
    if start_gateway(early_config, environ):
        early_config.stash[ENVIRONMENT] = environ


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers and `LazyStart`.

    No object of this package is registered under a name, so that `-p no:NAME` cannot disable a part of the plugin: the
    only name is `rageval`, that of the whole plugin.
    """
    for marker in MARKERS.strip().splitlines():
        config.addinivalue_line("markers", marker)
    lazy_start = LazyStart(config)
    config.pluginmanager.register(lazy_start)
    if needs_eager_start(config):
        lazy_start.start()


@pytest.hookimpl(tryfirst=True)
def pytest_warning_recorded(warning_message: "WarningMessage") -> None:
    """Add a hint to pytest's warning about an unknown ini key: the key that may be meant.

    This hook is called first, before pytest's reporter reads the text of the warning.
    """
    text = str(warning_message.message).strip()
    key = text.removeprefix("Unknown config option: ")
    if key == text or not key.startswith("rageval_"):
        return
    flags = {option.ini: option.flag for option in OPTIONS if not option.in_ini}
    if key in flags:
        hint = f" It is an option of the command line alone: {flags[key]}."
    else:
        from pytest_rageval.core.errors import similar_names  # noqa: PLC0415 - most runs do not need it

        # The names are compared without the prefix, which would make all of them similar.
        names = [option.name for option in OPTIONS if option.in_ini]
        hint = "".join(
            f" Did you mean rageval_{name}?"
            for name in similar_names(key.removeprefix("rageval_"), names, limit=1)
        )
    warning_message.message = pytest.PytestConfigWarning(f"{text}.{hint}")


def _help(option: Option) -> str:
    default = "" if option.default is None else f" (default: {option.default})"
    return f"{option.help}{default}".replace("%", "%%")
