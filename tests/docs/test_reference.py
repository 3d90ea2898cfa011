"""The reference pages list exactly what the package has."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import pytest_rageval
from pytest_rageval.core.extensions import installed
from pytest_rageval.evalsets import FORMATS
from pytest_rageval.models.prompts import FENCE_PLACEHOLDER, PLACEHOLDER, TEMPLATES
from pytest_rageval.options import all_options
from pytest_rageval.options.pyproject import TABLE_PARSERS
from pytest_rageval.options.resolution import resolve_options
from pytest_rageval.plugin.summary import LEGEND
from pytest_rageval.scores import MODULES
from tests.docs.pages import ROOT
from tests.foreign_plugins import WITHOUT

DOCS = ROOT / "docs"
PACKAGE = Path(pytest_rageval.__file__).parent


def page(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


@cache
def printed(*arguments):
    command = [sys.executable, "-m", "pytest", *arguments, *WITHOUT]
    with TemporaryDirectory() as folder:
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder).stdout


def terms(text):
    """Return the terms of a page's definition lists."""
    return re.findall(r"(?m)^(.+)\n: ", text)


def test_every_package_is_on_the_map_of_the_source():
    """Each package and module directly under `pytest_rageval` has a row, and each row names one that exists."""
    parts = {
        path.stem
        for path in PACKAGE.glob("[a-z]*")
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    table = page("explanation/architecture").partition("## Packages")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| [^|]*\| ([^|]*`[^|]*) \|", table)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(parts)


def test_the_map_of_the_source_names_what_is_there():
    text = page("explanation/architecture")
    paths = {path for path in re.findall(r"`((?:\w+/)+\w*(?:\.py)?)`", text) if "NAME" not in path}
    assert not [path for path in paths if not ((PACKAGE / path).exists() or (ROOT / path).exists())]
    table = text.partition("## Extensions")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| [^|]*\| ([^|]*`[^|]*) \|", table)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(installed())


@pytest.mark.parametrize(
    "package", sorted({path.parent for path in PACKAGE.glob("*/**/*.py")}), ids=lambda each: each.name
)
def test_the_docstring_of_a_package_names_its_modules(package):
    """A package's docstring names each module, if there are several.

    Formats, adapters and methods of scoring are listed in the tables of their packages instead, extensions in the map
    of the source.
    """
    if package.name in {"formats", "adapters", "extensions"}:
        return
    init = package / "__init__.py"
    named = set(re.findall(r"[`.](\w+)", ast.get_docstring(ast.parse(init.read_text(encoding="utf-8")))))
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    modules |= {path.parent.name for path in package.glob("*/__init__.py")}
    assert modules - MODULES.keys() <= named or len(modules) == 1


def test_every_option_is_on_the_page_of_options_once():
    groups = re.findall(r"```\{rageval-options\}\n(.*?)```", page("reference/options"), re.DOTALL)
    assert sorted(" ".join(groups).split()) == sorted(option.name for option in all_options())


@pytest.mark.parametrize(
    "path",
    [
        path
        for path in (
            *PACKAGE.rglob("*"),
            *DOCS.rglob("*"),
            *(ROOT / ".github").rglob("*"),
            ROOT / "README.md",
        )
        if path.suffix in {".py", ".toml", ".json", ".md", ".yml"}
    ],
    ids=lambda path: path.name,
)
def test_every_option_is_spelled_as_it_works(path):
    text = path.read_text(encoding="utf-8")
    flags = {option.typed for option in all_options() if option.is_flag}
    named = set(re.findall(r"--rageval-[a-z-]*[a-z]", text))
    assert named <= flags | ({"--rageval-canary"} if path == PACKAGE / "options" / "command.py" else set())
    assert set(re.findall(r"--rageval[ =]([a-z_]+)=", text)) <= {option.name for option in all_options()}


def test_every_key_of_the_tables_of_models_is_on_the_page_of_options():
    rows = page("reference/options").partition("| key | value |\n|---|---|\n")[2].partition("\n\n")[0]
    named = [word for row in rows.splitlines() for word in re.findall(r"`(\w+)`", row.split(" | ")[0])]
    assert sorted(named) == sorted(TABLE_PARSERS)


def test_every_variable_that_is_read_is_on_the_page_of_options():
    class Environment(dict):
        """A dict that records the names that are looked up."""

        def get(self, name, default=None):
            names_read.add(name)
            return super().get(name, default)

    names_read = set()
    settings = resolve_options({}, {}, Environment(RAGEVAL_MODEL="m"), invoked_in=Path(), root=Path())
    section = page("reference/options").partition("## Environment variables")[2]
    assert {word for term in terms(section) for word in re.findall(r"`(\w+)`", term)} == names_read
    assert settings.model is None


def test_the_footer_of_the_table_names_the_page_that_explains_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"{project['urls']['Documentation']}reference/terminal-table.html" == LEGEND
    assert (DOCS / "reference" / "terminal-table.md").exists()


@pytest.mark.parametrize("marker", ["rageval_evalset", "rageval_threshold", "rageval_calibration"])
def test_every_word_of_a_marker_is_on_the_page_of_markers(marker):
    signature = re.search(rf"@pytest\.mark\.{marker}\((.*?)\):", printed("--markers"))[1]
    words = [word.partition("=")[0].strip(" *") for word in signature.split(",")]
    section = page("reference/markers").partition(f"## `{marker}`")[2].partition("\n## ")[0]
    described = {word for term in terms(section) for word in re.findall(r"`(\w+)`", term)}
    assert described == {word for word in words if word and word != "options"}


def test_every_fixture_is_on_the_page_of_fixtures():
    names = set(re.findall(r"(?m)^(rageval\w*)", printed("--fixtures")))
    assert names
    assert {name for name in names if f"`{name}`" not in page("reference/fixtures")} == set()


def test_every_format_is_on_the_page_of_eval_sets():
    table = page("reference/eval-sets").partition("## Other formats")[2].partition("\n## ")[0]
    assert re.findall(r"(?m)^\| `(\w+)` \|", table) == list(FORMATS)


def test_every_prompt_is_on_the_page_of_files_with_its_placeholders():
    rows = re.findall(r"(?m)^\| `(\w+)` \| ((?:`\{\w+\}` ?)+)\|", page("reference/files"))
    assert {name: set(re.findall(r"\{(\w+)\}", cells)) for name, cells in rows} == {
        name: set(PLACEHOLDER.findall(text)) - {FENCE_PLACEHOLDER} for name, text in TEMPLATES.items()
    }


def test_every_public_name_is_on_the_page_of_the_python_api():
    """The page documents exactly the names that the package exports."""
    described = set(re.findall(r"auto\w+:: pytest_rageval\.(\w+)(?:\(.*)?\n", page("reference/python-api")))
    assert described == set(pytest_rageval.__all__)


@cache
def messages():
    """Return all strings in the package's code, with … for interpolated values."""
    texts = []
    for path in (ROOT / "pytest_rageval").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                texts.append(
                    "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                )
    return [re.sub(r"\{\w*\}", "…", text) for text in texts]


QUOTED = [
    quoted for term in terms(page("how-to/troubleshooting")) for quoted in re.findall(r"`([^`]+)`", term)
]


@pytest.mark.slow
@pytest.mark.parametrize("quoted", QUOTED)
def test_a_message_of_the_page_of_troubles_is_one_of_the_package(quoted):
    """Every message on the page occurs in the package, so that users can search the page for it."""
    pattern = ".*".join(re.escape(part) for part in quoted.split("…"))
    assert any(re.search(pattern, text, re.DOTALL) for text in messages())
