"""The table `rageval_factors` of a conftest.py; and, loaded with `-p`, the hooks of the runs of `rageval why`."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import pytest

from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.lib.text import one_line
from pytest_rageval.plugin.terminal import failure

TABLE: Final = "rageval_factors"
FORM: Final = f'{TABLE} = {{"chunk_size": (400, 800), "reranker": (True, False)}}'
NO_FACTORS: Final = f"""\
There are no factors. Write their values before and after the change into the conftest.py of the tests:

    {FORM}

and use the values in force: rageval_factor["chunk_size"] in the fixture rageval_retriever."""
MAX_TEXT: Final = 40  # characters of a value
ALL: Final = "all"
FACTORS_FILE: Final = "factors.json"


class Factor(NamedTuple):
    before: Any
    after: Any

    @property
    def texts(self) -> list[str]:
        return [one_line(repr(value)) for value in self]


class Values(dict[str, object]):
    """The values in force, by name."""

    def __missing__(self, name: object) -> Any:
        raise InputError(_unknown(str(name), self))


def values_in_force(config: pytest.Config, reverted: tuple[str, ...]) -> Values:
    try:
        factors = factors_of(config)
    except InputError as error:
        raise failure(str(error)) from None
    for name in reverted:
        if name not in factors and (name != ALL or not factors):
            raise failure(_unknown(name, factors))
    return Values(
        (name, each.before if {name, ALL} & {*reverted} else each.after) for name, each in factors.items()
    )


def _unknown(name: str, factors: Mapping[str, object]) -> str:
    if not factors:
        return NO_FACTORS
    return f"There is no factor {name!r}.{did_you_mean(name, factors)}\n{TABLE} has {', '.join(factors)}."


def factors_of(config: pytest.Config) -> dict[str, Factor]:
    modules = (each for each in config.pluginmanager.get_plugins() if isinstance(each, ModuleType))
    tables = {str(module.__file__): vars(module)[TABLE] for module in modules if TABLE in vars(module)}
    factors: dict[str, Factor] = {}
    for place, table in sorted(tables.items()):
        for name, factor in _read(table, f"{TABLE} in {place}"):
            if name in factors:
                raise InputError(
                    f"Two tables {TABLE} have the factor {name!r}; one is in {place}.\nKeep one."
                )
            factors[name] = factor
    return factors


def _read(table: object, where: str) -> Iterator[tuple[str, Factor]]:
    if not isinstance(table, Mapping):
        raise InputError(f"{where} is of type {type(table).__name__}, and must be a table: {FORM}")
    for name, pair in table.items():
        # The command line separates names by commas.
        if not (isinstance(name, str) and name.isidentifier()) or name == ALL:
            raise InputError(
                f"{where} has the name {name!r}: expected a word such as chunk_size, and not {ALL!r}."
            )
        if not isinstance(pair, tuple | list) or len(pair) != 2:  # noqa: PLR2004 - before and after
            found = one_line(repr(pair))[:MAX_TEXT]
            raise InputError(f"{where}: {name} is {found}, and must be two values, before and after: {FORM}")
        before, after = Factor(*pair).texts
        if before == after:
            raise InputError(f"{where}: {name} is {before[:MAX_TEXT]} before and after. Take it out.")
        yield name, Factor(*pair)


SWITCHED_OFF: Final = (
    "annotations", "drop_unused", "early_stop", "pin_baseline", "record", "record_prompts", "update_baseline",
)  # fmt: skip


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let the run write nothing but its last report, that of the command, and score all questions of all tests."""
    option = config.option
    del option.rageval_report[:-1]
    option.rageval_history = str(Path(option.rageval_report[0]).with_suffix(".jsonl"))
    for name in SWITCHED_OFF:
        setattr(option, f"rageval_{name}", "false")
    option.xmlpath, option.maxfail = None, 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Write the factors beside the report, or what is wrong with them; then no test runs.

    With pytest-xdist the workers do, which alone may have loaded the table.
    """
    found: dict[str, object] = {"factors": {}, "problem": NO_FACTORS}
    try:
        if factors := factors_of(config):
            found = {"factors": {name: each.texts for name, each in factors.items()}, "problem": ""}
    except InputError as error:
        found["problem"] = str(error)
    if found["problem"]:
        items.clear()
    path = Path(config.option.rageval_report[0]).with_name(FACTORS_FILE)
    path.write_text(json.dumps(found), encoding="utf-8")
