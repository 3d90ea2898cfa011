"""The names that users import from the package."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import pytest_rageval

INSTALLED = [
    name for name in pytest_rageval.__all__ if find_spec(pytest_rageval._MODULE_OF[name].rpartition(".")[0])
]
"""The public names whose extension is there."""


@pytest.mark.parametrize("name", INSTALLED)
def test_every_public_name_is_found(name: str) -> None:
    assert getattr(pytest_rageval, name).__name__ == name


def test_every_public_name_has_a_home() -> None:
    assert sorted(pytest_rageval._MODULE_OF) == sorted(pytest_rageval.__all__)


def test_a_recorded_run_as_the_docs_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evals" / "trec").mkdir(parents=True)
    (tmp_path / "evals" / "trec" / "topics.tsv").write_text("301\torganised crime?\n")
    (tmp_path / "evals" / "trec" / "qrels.txt").write_text("301 0 d1 1\n")
    (tmp_path / "bm25.run").write_text("301 Q0 d1 1 0.5 bm25\n")
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "reference" / "eval-sets.md"
    written = re.search(r"A recorded TREC run is a retriever: `(.*?)`", page.read_text(encoding="utf-8"))
    assert written is not None
    names = {name: getattr(pytest_rageval, name) for name in ("TrecRun", "load")}
    retriever = eval(written[1], names)  # noqa: S307 - our own page
    assert [document.id for document in retriever("organised crime?", 5)] == ["d1"]


def test_a_name_of_a_missing_extension_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the folder of an extension, its names raise ImportError, and the others work."""
    module = "pytest_rageval.extensions.traces"
    for name in (module, f"{module}.reading"):
        monkeypatch.setitem(sys.modules, name, None)
    missing = r"pytest_rageval\.TraceRun is in the extension pytest_rageval\.extensions\.traces"
    with pytest.raises(ImportError, match=missing):
        _ = pytest_rageval.TraceRun
    assert pytest_rageval.TrecRun.__name__ == "TrecRun"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Documnet'"):
        _ = pytest_rageval.Documnet
