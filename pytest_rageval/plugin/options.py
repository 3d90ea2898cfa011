"""The option table, as pytest's command line and ini file."""

from argparse import SUPPRESS
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_rageval.config import OPTIONS, Option, Settings, resolve

__all__ = ["add_options", "settings_of"]


def add_options(parser: pytest.Parser) -> None:
    """Add every option as a flag and, where it may last, as an ini key."""
    group = parser.getgroup("rageval", "RAG retriever evaluation")
    for option in OPTIONS:
        # The default is None: only then is it seen that the command line does not overrule the ini.
        how: dict[str, Any] = {"dest": option.ini, "default": None, "help": _help(option)}
        if not option.metavar:
            group.addoption(option.flag, action="store_const", const="true", **how)
            # Each as an option of its own: one with a value that may be left out would take a path for it.
            for word in option.words:
                group.addoption(
                    f"{option.flag}={word}", action="store_const", const=word, **how | {"help": SUPPRESS}
                )
        else:
            action = "append" if option.many else "store"
            group.addoption(option.flag, action=action, metavar=option.metavar, **how)
        if not option.lasting:
            continue
        if option.many:
            parser.addini(option.ini, _help(option), type="linelist", default=None)
        else:
            parser.addini(option.ini, _help(option), type="string", default=None)


def settings_of(config: pytest.Config, environ: Mapping[str, str]) -> Settings:
    """The options of a run.

    Raises:
        InputError: one of them has a value that is not allowed.
    """
    return resolve(
        {option.name: config.getoption(option.ini) for option in OPTIONS},
        {option.name: config.getini(option.ini) for option in OPTIONS if option.lasting},
        environ,
        invoked_in=config.invocation_params.dir,
        root=config.rootpath,
    )


def _help(option: Option) -> str:
    default = option.default
    told = "" if default is None or default is False or default == () else f" (default: {default})"
    return f"{option.help}{told}".replace("%", "%%")
