"""The code on the documentation pages runs with the documented output."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT, Page

PAGES = sorted((ROOT / "docs").rglob("*.md"))  # `test_pictures.py` runs the README

LONG = {
    "docs/explanation/deviations.md",
    *("docs/how-to/langchain.md", "docs/how-to/llamaindex.md", "docs/how-to/haystack.md"),
    *("docs/how-to/mlflow.md", "docs/how-to/vector-stores.md", "docs/how-to/other-plugins.md"),
    *("docs/how-to/application-calls.md", "docs/how-to/batches.md"),
    *("docs/how-to/models.md", "docs/how-to/cost.md", "docs/how-to/shared-cache.md"),
    *("docs/how-to/cookbook.md", "docs/how-to/recipes.md", "docs/how-to/compare-systems.md"),
    "docs/explanation/papers.md",
}
"""Slow pages with frameworks, servers or many processes; `tests/integration` covers their content in every build."""

PROGRAMS = {"docs/how-to/any-language.md": "node"}
"""The programs that the commands of a page need."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="pages are written for a POSIX shell"),
]


def name(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.long] if name(path) in LONG else [], id=name(path))
        for path in PAGES
    ],
)
def test_a_page_does_what_it_says(path, tmp_path):
    """The page's files are written, its commands are run, and their output is compared with the page."""
    if (program := PROGRAMS.get(name(path))) and shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    Page(path, tmp_path).check()


@pytest.mark.long
def test_the_tutorial_works_from_an_empty_folder(tmp_path):
    """The tutorial runs in a new virtual environment, with its install commands and this version of the package."""
    pip = (sys.executable, "-m", "pip")
    reach = (*pip, "download", "--quiet", "--no-deps", "--dest", tmp_path / "reach", "pluggy")
    if subprocess.run(reach, check=False, capture_output=True).returncode:
        pytest.skip("no package index can be reached")
    build = (*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path / "wheels", ROOT)
    subprocess.run(build, check=True, capture_output=True)
    (tmp_path / "reader").mkdir()
    page = Page(ROOT / "docs" / "tutorial.md", tmp_path / "reader", installed=True)
    page.env["PIP_FIND_LINKS"] = str(tmp_path / "wheels")
    page.env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    page.env["PIP_QUIET"] = "1"
    page.check()
