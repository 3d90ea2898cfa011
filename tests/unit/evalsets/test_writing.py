"""Eval sets as files; that nothing is lost is tested for every format."""

from pathlib import Path

import pytest

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets import load, write_jsonl
from pytest_rageval.model import EvalSet, Example, Gold


def test_a_line_has_what_there_is_and_no_more(tmp_path: Path) -> None:
    """Readable in every script; a grade of 1 and what is empty are left out."""
    example = Example("ü", "Wo?", gold=(Gold("d"), Gold(text="t", grade=0)), extra={"n": 1})
    write_jsonl(EvalSet("s", (example,)), tmp_path / "s.jsonl")
    assert (tmp_path / "s.jsonl").read_text(encoding="utf-8") == (
        '{"id": "ü", "question": "Wo?", "gold": [{"id": "d"}, {"text": "t", "grade": 0}], "n": 1}\n'
    )


def test_half_a_surrogate_pair_is_written_escaped(tmp_path: Path) -> None:
    """It is in no UTF-8, and in some data."""
    evalset = EvalSet("s", (Example("a", "\ud83d?"),))
    write_jsonl(evalset, tmp_path / "s.jsonl")
    assert load(tmp_path / "s.jsonl").digest == evalset.digest


def test_a_key_of_the_form_under_extra_is_refused(tmp_path: Path) -> None:
    """It would be read as the field; the file that was there stays, and nothing else is left."""
    path = tmp_path / "s.jsonl"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(InputError, match="The example 'a' has gold under extra"):
        write_jsonl(EvalSet("s", (Example("a", "Q?", extra={"gold": []}),)), path)
    assert [file.name for file in tmp_path.iterdir()] == ["s.jsonl"]
    assert path.read_text(encoding="utf-8") == "old"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the path."""
    with pytest.raises(InputError, match=r"The eval set .*s\.jsonl cannot be written: No such file"):
        write_jsonl(EvalSet("s", (Example("a", "Q?"),)), tmp_path / "none" / "s.jsonl")
