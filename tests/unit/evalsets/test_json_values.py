"""JSON documents that are too large to be held: their elements one by one."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets import files as json_values
from pytest_rageval.evalsets.files import json_elements

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _error(path: Path, content: str, key: str | None = None) -> str:
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        list(json_elements(path, key))
    return str(caught.value)


@pytest.mark.slow
@given(values=st.lists(VALUES, max_size=6), chunk=st.integers(1, 40), indent=st.sampled_from([None, 0, 3]))
def test_elements_are_what_json_reads(
    tmp_path_factory: pytest.TempPathFactory, values: list[Any], chunk: int, indent: int | None
) -> None:
    """Wherever the file is cut into chunks, in the midst of numbers, escapes and characters."""
    path = tmp_path_factory.getbasetemp() / "values.json"
    for document, key in ((values, None), ({"a": [1], "data": values, "b": {"data": 1}}, "data")):
        path.write_text(json.dumps(document, indent=indent, ensure_ascii=bool(chunk % 2)), encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(json_values, "CHUNK", chunk)
            assert [value for _, value in json_elements(path, key)] == values


@pytest.mark.parametrize(
    ("content", "key", "said"),
    [
        ('[\n{"a": 1}\n{"a": 2}]', None, "line 3 is not JSON as expected: expected ',', found '{'."),
        ('[{"a": 1},\n {"a": ', None, "line 2 is not JSON as expected: Expecting value."),
        ('[{"a": 1}', None, "line 1 is not JSON as expected: it ends before ','."),
        ('[{"a": 1}] []', None, "line 1 is not JSON as expected: more follows after its end."),
        ("[NaN]", None, "line 1 is not JSON as expected: NaN is no number that a computer holds."),
        ("[1e999]", None, "line 1 is not JSON as expected: 1e999 is no number that a computer holds."),
        ('["a\tb"]', None, "line 1 is not JSON as expected: Invalid control character at."),
        ('{"version": 1}', "data", 'line 1 is not JSON as expected: its object has no key "data".'),
        ('{"data": {}}', "data", "line 1 is not JSON as expected: expected '[', found '{'."),
        ("{data: []}", "data", "line 1 is not JSON as expected: a key in double quotes is missing."),
        ("[" * 100_000, None, "line 1 is not JSON as expected: maximum recursion depth"),
    ],
)
def test_what_is_no_such_document_is_named_with_its_line(
    content: str, key: str | None, said: str, tmp_path: Path
) -> None:
    """The line, and what was found."""
    assert _error(tmp_path / "d.json", content, key).startswith(f"d.json {said}")


def test_an_element_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a line is."""
    monkeypatch.setattr(json_values, "MAX_LINE", 2**17)
    assert "one record is longer than" in _error(tmp_path / "d.json", '[{"a": "' + "x" * 2**20)
