"""The plugin in a run without marked tests."""

from pathlib import Path

import pytest

from pytest_rageval.core.resolution import resolve_options
from pytest_rageval.plugin.lazy_start import HEADERS

PLAIN = """
import pytest

@pytest.mark.parametrize("n", range(3))
def test_it(n):
    assert n < 2

def test_skipped():
    pytest.skip("no")
"""


@pytest.mark.parametrize(("has_key", "header"), HEADERS.items())
def test_the_header_is_that_of_settings_where_nothing_is_set(tmp_path: Path, has_key, header):
    environ = {"OPENAI_API_KEY": "k"} if has_key else {}
    assert resolve_options({}, {}, environ, invoked_in=tmp_path, root=tmp_path).header_line() == header
