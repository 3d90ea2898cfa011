"""What options mean for a run: the core asks for these effects, and not for the options that have them."""

import ast
from pathlib import Path
from typing import Any

import pytest

import pytest_rageval
from pytest_rageval.options.settings import Settings

PACKAGE = Path(pytest_rageval.__file__).parent
MODES = {"plan", "replay", "record", "repeat", "shard", "batch", "update_baseline", "sample", "refresh"}
READERS = {
    "options/__init__.py": "declares them",
    "options/resolution.py": "refuses those that contradict each other",
    "run/base.py": "computes what repeats and samples are made of",
}


@pytest.mark.parametrize(
    ("values", "effects"),
    [
        ({}, set()),
        ({"replay": True}, {"sends nothing"}),
        ({"refresh": True}, {"sends again"}),
        ({"record": True}, {"keeps replies", "needs no cassette"}),
        ({"update_baseline": "force"}, {"replaces the baseline", "compares nothing"}),
        ({"sample": 0.5}, {"leaves out questions"}),
        ({"flex": True, "replay": True}, {"flex tier", "sends nothing"}),
    ],
)
def test_the_effects_of_the_options_of_the_core(values: dict[str, Any], effects: set[str]) -> None:
    assert Settings(**values).effects == effects


def test_an_option_of_an_extension_that_is_not_there_has_no_value() -> None:
    assert Settings().value_of("no_such_option") is None


def _reads_a_mode(source: str) -> bool:
    """Whether a module reads `settings.MODE`, of any object that is called settings, or `value_of("MODE")`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in MODES:
            if ast.unparse(node.value).rpartition(".")[2].lower().lstrip("_") == "settings":
                return True
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".value_of"):
            return True
    return False


@pytest.mark.parametrize("source", ["if self._settings.plan: pass", 'x = settings.value_of("shard")'])
def test_a_reader_is_found(source: str) -> None:
    assert _reads_a_mode(source)


def test_three_modules_of_the_core_read_a_mode() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if not path.is_relative_to(PACKAGE / "extensions") and _reads_a_mode(path.read_text(encoding="utf-8"))
    }
    assert found == READERS.keys()
