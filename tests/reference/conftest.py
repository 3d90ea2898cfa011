"""Where the data of reference tests is; it is not part of the project."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

_DEFAULT = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture(scope="session")
def data() -> Callable[[str], Path]:
    """The folder of a data set by its name; a test whose data is not at hand is skipped.

    RAGEVAL_TEST_DATA names the folder of all; without it, `shared/data` beside the project.
    """

    def folder(name: str) -> Path:
        found = Path(os.environ.get("RAGEVAL_TEST_DATA", _DEFAULT)) / name
        if not found.is_dir():
            pytest.skip(f"the data set {name} is not at hand: {found} is no folder (RAGEVAL_TEST_DATA)")
        return found

    return folder
