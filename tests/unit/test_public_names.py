"""What users import from the package itself."""

import pytest

import pytest_rageval


@pytest.mark.parametrize("name", pytest_rageval.__all__)
def test_every_public_name_is_found(name: str) -> None:
    """Each name in `__all__` leads to the object of that name."""
    assert getattr(pytest_rageval, name).__name__ == name


def test_every_public_name_has_a_home() -> None:
    """The lazy table and `__all__` list the same names."""
    assert sorted(pytest_rageval._HOMES) == sorted(pytest_rageval.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A misspelt import fails as in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'Documnet'"):
        _ = pytest_rageval.Documnet
