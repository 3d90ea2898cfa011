"""`rageval settings`: all options, with the value in force in a run of pytest, and where it comes from."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.text import printable
from pytest_rageval.options import all_options
from pytest_rageval.options.settings import Settings
from pytest_rageval.plugin.lazy_start import ENVIRONMENT, resolve_settings

DEFAULT: Final = "default"


def _print(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")


class _Configured:
    """Keeps the settings of a run, and ends it before its tests are collected."""

    def __init__(self) -> None:
        self.root = Path()
        self.settings: Settings | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int:
        try:
            environ = config.stash.get(ENVIRONMENT, os.environ)
            self.root, self.settings = config.rootpath, resolve_settings(config, config.option, environ)
        except InputError as error:
            raise pytest.UsageError(str(error)) from None
        return 0


def settings_of(arguments: Sequence[str]) -> Settings | None:
    """Return the settings of a run of pytest with these arguments; None if pytest has printed why there are none."""
    return _configured(arguments).settings


def _configured(arguments: Sequence[str]) -> _Configured:
    configured = _Configured()
    pytest.main([*arguments], plugins=[configured])
    return configured


def settings_command(options: argparse.Namespace) -> int:
    configured = _configured(options.arguments)
    if configured.settings is None:
        # pytest has printed why.
        return 2
    rows = [*_options(configured.settings, configured.root), *_tables(configured.settings)]
    if options.json:
        _print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    widths = [max(len(row[key]) for row in rows) for key in ("name", "value")]
    for row in rows:
        name, value = (row[key].ljust(width) for key, width in zip(("name", "value"), widths, strict=True))
        default = "" if row["source"] == DEFAULT or not row["default"] else f" (default: {row['default']})"
        _print(f"{name}  {value}  {row['source']}{default}".rstrip())
        if options.verbose and row["help"]:
            _print(f"    {row['typed']}: {row['help']}")
    return 0


def _options(settings: Settings, root: Path) -> Iterator[dict[str, str]]:
    for option in all_options():
        yield {
            "name": option.name,
            "value": _text(settings[option], root),
            "source": settings.sources.get(option.name, DEFAULT),
            "default": _text(option.default, root),
            "typed": option.example(),
            "help": option.help,
        }


def _tables(settings: Settings) -> Iterator[dict[str, str]]:
    """Yield the keys that the tables of the models set, without API keys."""
    for role, table in settings.tables.items():
        for key, value in table.items():
            if key not in {"api_key", "needs_key"}:
                row = {"name": f"models.{role}.{key}", "value": _text(value, Path()), "source": "pyproject"}
                yield {**row, "default": "", "typed": "", "help": ""}


def _text(value: Any, root: Path) -> str:
    """Return a value as in the ini file, without passwords; "" for None."""
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        numbers = all(isinstance(item, int) for item in value)
        return ("," if numbers else " ").join(_text(item, root) for item in value)
    if isinstance(value, Path):
        return value.relative_to(root).as_posix() if value.is_relative_to(root) else str(value)
    if isinstance(value, Mapping):
        # Parameters of a request: they may contain a password.
        return ", ".join(f"{name}=***" for name in value)
    return str(getattr(value, "public", getattr(value, "name", value)))
