"""The documentation builds without warnings."""

import os
import re
import subprocess
import sys

import pytest

from tests.docs.pages import ROOT, SITE

pytestmark = pytest.mark.slow

pytest.importorskip("furo")


def test_the_documentation_builds_without_warnings(tmp_path):
    """Sphinx treats warnings, such as unknown links, names and options, as errors."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", tmp_path / "doctrees"]
    done = subprocess.run(
        [*command, ROOT / "docs", tmp_path / "html"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": ""},
    )
    assert done.returncode == 0, done.stderr
    front = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert "rageval_threshold" in front
    assert (tmp_path / "html" / "report.schema.json").exists()
    sources = re.findall(rf"\({SITE}/(\S+)\)", (tmp_path / "html" / "llms.txt").read_text(encoding="utf-8"))
    assert sources
    assert [source for source in sources if not (tmp_path / "html" / source).exists()] == []
    # The pages load nothing from other servers: they work offline and do not track readers.
    assert not [
        line
        for line in front.splitlines()
        if '<script src="http' in line or '<link rel="stylesheet" type="text/css" href="http' in line
    ]
