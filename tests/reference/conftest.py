"""The fixture `data`: the folders of the data sets of reference tests, which are not part of the project."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

_DEFAULT = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture(scope="session")
def data() -> Callable[[str], Path]:
    """Return a function that returns the folder of a data set by its name, and skips the test if it does not exist.

    The environment variable RAGEVAL_TEST_DATA names the folder of all data sets; the default is `shared/data` next to
    the project.
    """

    def folder(name: str) -> Path:
        path = Path(os.environ.get("RAGEVAL_TEST_DATA", _DEFAULT)) / name
        if not path.is_dir():
            pytest.skip(f"the data set {name} is not available: {path} is no folder (RAGEVAL_TEST_DATA)")
        return path

    return folder
