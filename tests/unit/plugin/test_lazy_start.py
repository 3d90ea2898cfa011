"""The plugin in a run without marked tests."""

PLAIN = """
import pytest

@pytest.mark.parametrize("n", range(3))
def test_it(n):
    assert n < 2

def test_skipped():
    pytest.skip("no")
"""
