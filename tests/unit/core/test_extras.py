"""Optional packages."""

import pytest

from pytest_rageval.core.errors import InputError, require


def test_a_missing_package_is_named_with_its_remedy() -> None:
    with pytest.raises(InputError) as caught:
        require("rageval_no_such_package", extra="dense", purpose="Embedding retrieval")
    assert str(caught.value) == (
        "Embedding retrieval needs the package 'rageval_no_such_package', which is not installed.\n"
        "Install it with: pip install 'pytest-rageval[dense]'"
    )


def test_a_remedy_without_the_extra_follows_the_command() -> None:
    with pytest.raises(InputError) as caught:
        require("rageval_no_such_package", extra="local", purpose="A model", remedy="\nOr name another.")
    assert str(caught.value).endswith("pip install 'pytest-rageval[local]'\nOr name another.")


def test_an_installed_package_is_imported() -> None:
    assert require("json", extra="dense", purpose="A test").loads("1") == 1


def test_a_package_that_lacks_its_own_dependency_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "rageval_half_installed.py").write_text("import rageval_absent_part\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="rageval_absent_part"):
        require("rageval_half_installed", extra="dense", purpose="A test")
