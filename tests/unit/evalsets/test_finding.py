"""Where a file is that a marker names."""

from pathlib import Path

import pytest

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.loading import find


def test_the_first_base_that_has_it_counts(tmp_path: Path) -> None:
    """The path comes back whole."""
    bases = tmp_path / "none", tmp_path / "first", tmp_path / "second"
    for base in bases[1:]:
        base.mkdir()
        (base / "labels.jsonl").touch()
    assert find("labels file", "labels.jsonl", bases=bases) == tmp_path / "first" / "labels.jsonl"


def test_one_that_is_nowhere_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    """Each place once."""
    with pytest.raises(InputError) as raised:
        find("eval set", "x.jsonl", bases=(tmp_path, tmp_path / "tests", tmp_path))
    assert str(raised.value) == (
        f"There is no eval set 'x.jsonl'. Looked for:\n  {tmp_path / 'x.jsonl'}\n  {tmp_path / 'tests' / 'x.jsonl'}"
    )


def test_a_folder_is_passed_over_where_a_file_is_looked_for(tmp_path: Path) -> None:
    """An eval set may be a folder; labels are a file."""
    (tmp_path / "one" / "labels").mkdir(parents=True)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "labels").touch()
    bases = tmp_path / "one", tmp_path / "two"
    assert find("eval set", "labels", bases=bases) == tmp_path / "one" / "labels"
    assert find("labels file", "labels", bases=bases, there=Path.is_file) == tmp_path / "two" / "labels"
