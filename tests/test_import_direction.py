"""The layers of the package: which part may import which parts.

A part is a module or a package directly under `pytest_rageval`. It belongs to one layer and imports only from
lower layers; a new part must be added to one layer. Imports for the type checker count too.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import pytest_rageval

PACKAGE = Path(pytest_rageval.__file__).parent
LAYERS = {
    9: {"__main__", "extensions"},
    8: {"cli", "plugin"},
    7: {"run"},
    6: {"reports"},
    5: {"scores"},
    4: {"answers", "retrievers"},
    3: {"evalsets", "gate", "models"},
    2: {"baseline", "calls", "options"},
    1: {"core", "hookspecs"},
    0: {"lib", "stats"},
}
LAYER_OF = {part: layer for layer, parts in LAYERS.items() for part in parts}
PYTEST = {"pytest", "_pytest", "xdist", "pytester"}
UPWARD: tuple[str, ...] = ()
"""Imports upward that are still there. The list only gets shorter."""

HOOKS = "pytest_rageval.hookspecs"
"""Names types of all layers, for type checkers alone."""

HOOKS_OF_AN_EXTENSION = re.compile(r"pytest_rageval\.extensions\.\w+")

HEAVY = ("numpy", "scipy", "openai", "asyncio", "torch", "pydantic", "rank_bm25", "sqlite3", "jinja2")


def _part(module: str) -> str:
    """Return the part that a dotted module name belongs to; empty for the package itself."""
    return module.split(".")[1] if "." in module else ""


@cache
def _imported(source: str, module: str, *, is_package: bool) -> tuple[str, ...]:
    """Return the dotted names that a module imports; for `from a import b` this is `a.b`, since b may be a module."""
    return tuple(_each_import(source, module, is_package=is_package))


def _each_import(source: str, module: str, *, is_package: bool) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, base] if base else parts)
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Lazy":
            # Formats are imported by a name in a variable.
            yield from (
                f"pytest_rageval.{each.value}" for each in node.args[:1] if isinstance(each, ast.Constant)
            )


def _violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    part, found = _part(module), []
    if module == HOOKS:
        return found
    for name in _imported(source, module, is_package=is_package):
        top, _, rest = name.partition(".")
        if (
            top in PYTEST
            and "plugin" not in module.split(".")
            and not HOOKS_OF_AN_EXTENSION.fullmatch(module)
        ):
            found.append(f"{module} imports {top}, which plugin/ and the hooks of an extension alone may")
        if top != "pytest_rageval" or not part:
            continue
        other = rest.partition(".")[0]
        if other not in LAYER_OF:
            found.append(f"{module} imports {name}, which is in no layer")
        elif other != part and LAYER_OF[other] >= LAYER_OF[part]:
            found.append(f"{module} (layer {LAYER_OF[part]}) imports {name} (layer {LAYER_OF[other]})")
    return found


def _modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def _dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_part_is_in_a_layer() -> None:
    """Every module or package is in a layer, and every entry of the table exists."""
    parts = {_part(_dotted(path)) for path in _modules()} - {""}
    assert parts == LAYER_OF.keys()


def test_no_part_is_in_two_layers() -> None:
    assert sum(map(len, LAYERS.values())) == len(LAYER_OF)


def _kept_apart(violation: str) -> str:
    """Return a violation without the layers and the imported name: "run.test imports extensions.plan"."""
    found = re.fullmatch(r"pytest_rageval\.(\S+) \(.*\) imports pytest_rageval\.(\S+) \(.*\)", violation)
    if found is None:
        return violation
    dotted = {_dotted(path) for path in _modules()}
    imported = found[2] if f"pytest_rageval.{found[2]}" in dotted else found[2].rpartition(".")[0]
    return f"{found[1]} imports {imported}"


def test_imports_go_downward() -> None:
    """No module imports from its own layer or a higher one, but for `UPWARD`; only plugins import pytest."""
    found = {
        _kept_apart(violation)
        for path in _modules()
        for violation in _violations(
            path.read_text(encoding="utf-8"), _dotted(path), is_package=path.name == "__init__.py"
        )
    }
    assert not found - {*UPWARD}, "new imports upward"
    assert not {*UPWARD} - found, "no longer there: take them out of `UPWARD`, so that they do not come back"


def test_no_modules_import_each_other() -> None:
    """There is no import cycle within a part either, not even by late or type-only imports."""
    dotted = {_dotted(path): path for path in _modules()}
    graph = {}
    for name, path in dotted.items():
        imported = set(
            _imported(path.read_text(encoding="utf-8"), name, is_package=path.name == "__init__.py")
        )
        owners = {each if each in dotted else each.rpartition(".")[0] for each in imported}
        graph[name] = set() if name == HOOKS else (owners & dotted.keys()) - {name}
    # The package's `__init__` imports all modules; the layers forbid importing it from below.
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("pytest_rageval.core.outcome", "from pytest_rageval.run.session import Session"),
        ("pytest_rageval.core.outcome", "import pytest_rageval.evalsets.formats.trec"),
        ("pytest_rageval.core.outcome", "from pytest_rageval import run"),
        ("pytest_rageval.core.outcome", "from pytest_rageval import Document"),
        ("pytest_rageval.stats", "from .models.stores.sqlite_file import ReplyTable"),
        ("pytest_rageval.models.stores.sqlite_file", "from ...scores import Score"),
        ("pytest_rageval.models.stores.sqlite_file", "from ... import scores"),
        ("pytest_rageval.core.outcome", "f = Lazy('run.session', 'Session')"),
        ("pytest_rageval.core.outcome", "def f():\n    from pytest_rageval.gate import verdict"),
        (
            "pytest_rageval.core.outcome",
            "if TYPE_CHECKING:\n    from pytest_rageval.plugin.rageval_fixture import Rageval",
        ),
        ("pytest_rageval.core.ranking", "from pytest_rageval.newcomer import x"),
        ("pytest_rageval.run", "import pytest"),
        ("pytest_rageval.run", "from _pytest.config import Config"),
    ],
)
def test_the_check_sees_what_is_forbidden(module: str, source: str) -> None:
    """The check finds upward, sideways, relative, late and type-only imports."""
    assert len(_violations(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("pytest_rageval.run", "from pytest_rageval.core.outcome import Score\nimport json, numpy"),
        (
            "pytest_rageval.models.stores.sqlite_file",
            "from pytest_rageval.models.messages import Reply\nfrom .reply import Reply",
        ),
        ("pytest_rageval.plugin.runner", "import pytest\nfrom pytest_rageval.run.session import Session"),
        ("pytest_rageval", "from pytest_rageval.plugin.rageval_fixture import Rageval"),
    ],
)
def test_the_check_lets_pass_what_is_allowed(module: str, source: str) -> None:
    """The check accepts imports downward, within a part, of pytest in the plugin, and in the package's `__init__`."""
    assert not _violations(source, module)


@pytest.mark.parametrize(
    "module", ["pytest_rageval", "pytest_rageval.plugin", "pytest_rageval.options.resolution"]
)
def test_importing_the_plugin_is_cheap(module: str) -> None:
    script = f"import sys, {module}\nprint(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert module.partition(".")[0] in loaded
    assert not loaded & set(HEAVY)


@pytest.mark.slow
def test_a_session_needs_the_heavy_ones() -> None:
    """A session imports the heavy libraries by these names, so that the test above can fail."""
    ours = ("retrievers.bm25", "models.stores.sqlite_file", "calls.event_loop", "reports.html")
    script = f"import sys, openai, {', '.join(f'pytest_rageval.{each}' for each in ours)}\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    assert set(HEAVY) - {"torch", "scipy"} <= set(done.stdout.split())


@pytest.mark.slow
def test_a_run_of_verdicts_needs_no_numpy() -> None:
    """Until real-valued scores are computed, a test with markers does not import numpy or scipy."""
    script = "import sys, pytest_rageval.run.registry, pytest_rageval.plugin.rageval_fixture\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "pytest_rageval.run.session" in loaded
    assert not loaded & {"numpy", "scipy"}


def test_rank_correlations_need_neither_numpy_nor_scipy() -> None:
    """They are computed from ranks in plain Python: each import takes longer than 10,000 items."""
    script = "import sys\nfrom pytest_rageval.stats.agreement import *\n"
    calls = "spearman_rho([1, 2, 2], [3, 1, 4]), kendall_tau([1, 2, 2], [3, 1, 4])\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}{calls}print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not set(done.stdout.split()) & {"numpy", "scipy"}


def test_an_interval_of_real_scores_needs_no_scipy() -> None:
    script = "import sys\nfrom pytest_rageval.stats.intervals import mean_interval\nmean_interval([0.2, 0.5, 1.0])\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "numpy" in loaded
    assert "scipy" not in loaded
