"""Type checkers accept the code that users write, and know the types of all public names."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

USERS_CODE = Path(__file__).parent / "typing"


def pyright(folder, *arguments):
    command = [sys.executable, "-m", "basedpyright", "--outputjson", *arguments]
    # It looks for packages where the first `python` of the path does.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    return json.loads(done.stdout)


def test_pyright_accepts_the_code_of_users(tmp_path):
    """Pyright's strict mode finds no error in a user's conftest and tests. mypy checks them with the package."""
    settings = {"typeCheckingMode": "strict", "include": [str(USERS_CODE)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    results = pyright(tmp_path)
    assert results["summary"]["filesAnalyzed"] == len(list(USERS_CODE.glob("*.py"))) > 1
    assert [d["message"] for d in results["generalDiagnostics"]] == []


def test_nearly_all_types_are_known(tmp_path):
    """At least 99 % of the names in public modules have a type that all checkers agree on."""
    results = pyright(tmp_path, "--verifytypes", "pytest_rageval", "--ignoreexternal")["typeCompleteness"]
    assert results["completenessScore"] >= 0.99, [
        (symbol["name"], [d["message"] for d in symbol["diagnostics"]])
        for symbol in results["symbols"]
        if symbol["isExported"] and not symbol["isTypeKnown"]
    ]
