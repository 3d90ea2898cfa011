"""Reading lines and JSON elements of files: compressed, damaged, or with records that are too long."""

import gzip
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets import files as streams
from pytest_rageval.evalsets.files import json_elements, read_lines
from tests.evalset_files import zstd_compress

LINES = "".join(f"line {i}\n" for i in range(20_000)).encode()


def _error(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        list(read_lines(path))
    return str(caught.value)


def test_a_compressed_file_is_known_by_its_content(tmp_path: Path) -> None:
    """Gzip is detected by content, whatever the file name, and several gzip members are read as one file."""
    path = tmp_path / "lines.txt"
    path.write_bytes(gzip.compress(LINES[:1000]) + gzip.compress(LINES[1000:]))
    assert "".join(line for _, line in read_lines(path)).encode() == LINES


@pytest.mark.parametrize(
    "damage", [lambda packed: packed[:-200], lambda packed: packed[:5000] + packed[5100:]]
)
def test_a_damaged_gzip_file_says_how_far_it_could_be_read(damage, tmp_path: Path) -> None:
    path = tmp_path / "lines.gz"
    path.write_bytes(damage(gzip.compress(LINES)))
    assert _error(path).startswith("lines.gz cannot be read beyond line ")


@pytest.mark.skipif(zstd_compress() is None, reason="no package for Zstandard is installed")
def test_a_truncated_zstandard_file_is_an_error(tmp_path: Path) -> None:
    compress = zstd_compress()
    assert compress is not None
    path = tmp_path / "lines.zst"
    path.write_bytes(compress(LINES)[:-100])
    assert _error(path).startswith("lines.zst cannot be read beyond line ")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the standard library reads Zstandard")
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "backports", None)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    path = tmp_path / "support.jsonl.zst"
    path.write_bytes(streams.ZSTD_MAGIC + b"...")
    message = _error(path)
    assert message.startswith("Reading support.jsonl.zst needs the package 'backports.zstd'")
    assert "pip install 'pytest-rageval[zst]'" in message


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    """A small compressed file may hold a huge line: only as many bytes as a line may have are read."""
    monkeypatch.setattr(streams, "MAX_LINE_BYTES", 2**20)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}\n" + b" " * 2**22))
    assert _error(path).startswith("bomb.jsonl.gz line 2 is longer than 1 MiB.")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _json_error(path: Path, content: str, key: str | None = None) -> str:
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        list(json_elements(path, key))
    return str(caught.value)


@pytest.mark.slow
@given(values=st.lists(VALUES, max_size=6), chunk=st.integers(1, 40), indent=st.sampled_from([None, 0, 3]))
def test_elements_are_what_json_reads(tmp_path_factory, values, chunk, indent):
    path = tmp_path_factory.getbasetemp() / "values.json"
    for document, key in ((values, None), ({"a": [1], "data": values, "b": {"data": 1}}, "data")):
        path.write_text(json.dumps(document, indent=indent, ensure_ascii=bool(chunk % 2)), encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(streams, "CHUNK_BYTES", chunk)
            assert [value for _, value in json_elements(path, key)] == values


@pytest.mark.parametrize(
    ("content", "key", "message"),
    [
        ('[\n{"a": 1}\n{"a": 2}]', None, "line 3 is not JSON as expected: expected ',', found '{'."),
        ('[{"a": 1},\n {"a": ', None, "line 2 is not JSON as expected: Expecting value."),
        ('[{"a": 1}', None, "line 1 is not JSON as expected: it ends before ','."),
        ('[{"a": 1}] []', None, "line 1 is not JSON as expected: more follows after its end."),
        ('[{"a": 1, "a": 2}]', None, 'line 1 is not JSON as expected: "a" occurs twice in one object'),
        ("[NaN]", None, "line 1 is not JSON as expected: NaN is not a finite number."),
        ("[1e999]", None, "line 1 is not JSON as expected: 1e999 is not a finite number."),
        ('["a\tb"]', None, "line 1 is not JSON as expected: Invalid control character at."),
        ('{"version": 1}', "data", 'line 1 is not JSON as expected: its object has no key "data".'),
        ('{"data": {}}', "data", "line 1 is not JSON as expected: expected '[', found '{'."),
        ("{data: []}", "data", "line 1 is not JSON as expected: a key in double quotes is missing."),
        ("[" * 100_000, None, "line 1 is not JSON as expected: it is nested too deeply."),
    ],
)
def test_a_line_that_is_not_such_a_document_is_an_error(content, key, message, tmp_path):
    assert _json_error(tmp_path / "d.json", content, key).startswith(f"d.json {message}")


def test_an_element_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_LINE_BYTES", 2**17)
    assert "one record is longer than" in _json_error(tmp_path / "d.json", '[{"a": "' + "x" * 2**20)
