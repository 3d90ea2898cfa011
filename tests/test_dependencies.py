"""Every package that the source imports is a declared dependency; a package that another one brings can disappear."""

import ast
import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import pytest_rageval

PACKAGE = Path(pytest_rageval.__file__).parent
PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
STANDARD = sys.stdlib_module_names | {"compression"}  # of Python 3.14
FRAMEWORKS = {"haystack", "langchain_core", "llama_index", "pyarrow"}
"""Packages of users: an adapter is loaded only with an object of its framework, pyarrow only for a Parquet file."""


def _imported(source: str) -> set[str]:
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module or "")
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"require", "import_module"}:
            found.update(name.value for name in node.args[:1] if isinstance(name, ast.Constant))
    return {name.partition(".")[0] for name in found}


def _undeclared(imported: set[str]) -> set[str]:
    """Return the names that belong to no declared dependency, neither of the core nor of an extra for users."""
    extras = PROJECT["optional-dependencies"].items()
    requirements = [
        *PROJECT["dependencies"],
        *(each for extra, packages in extras if extra != "test" for each in packages),
    ]
    declared = {_normalized(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}
    owners = _owners()
    return {name for name in imported if declared.isdisjoint(map(_normalized, owners.get(name, [name])))}


@cache
def _owners() -> Mapping[str, list[str]]:
    """Return the distributions of each top-level name. All metadata of the environment is read."""
    return packages_distributions()


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.slow
def test_every_imported_package_is_declared() -> None:
    """No module imports a package that is installed only because another package needs it."""
    imported = set[str]().union(
        *(_imported(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py"))
    )
    assert {"numpy", "httpx2", "redis", "nltk"} <= imported
    assert not _undeclared(imported - {"pytest_rageval"} - STANDARD - FRAMEWORKS)


@pytest.mark.parametrize(
    "source",
    [
        "import yaml",
        "def f():\n    from yaml.nodes import Node",
        "if TYPE_CHECKING:\n    import yaml",
        "require('yaml.nodes', extra='x')",
    ],
)
def test_the_check_sees_what_is_undeclared(source: str) -> None:
    assert _undeclared(_imported(source)) == {"yaml"}
