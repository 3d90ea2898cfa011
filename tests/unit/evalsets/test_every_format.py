"""What holds for every format: it is detected by its shape, read lazily and compressed, and written without loss."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets import FORMATS, LoadOptions, load, write_jsonl
from pytest_rageval.evalsets.formats import find_format
from tests.evalset_files import FILES, Files, zstd_compress

each = pytest.mark.parametrize("files", FILES, ids=lambda files: f"{files.format}-{files.path or 'folder'}")


def _load(files: Files, folder: Path) -> Any:
    folder.mkdir(exist_ok=True)
    return load(files.write(folder), LoadOptions.parse(files.words))


def _changed(files: Files, change: Any) -> Files:
    return Files(
        files.format,
        {name: change(name, content) for name, content in files.contents.items()},
        files.path,
        files.ids,
        files.words,
    )


def test_every_format_has_a_file_here() -> None:
    assert {files.format for files in FILES} == FORMATS.keys()


@each
def test_it_is_known_by_its_shape(files: Files, tmp_path: Path) -> None:
    assert find_format(files.write(tmp_path), FORMATS).name == files.format
    assert tuple(example.id for example in _load(files, tmp_path)) == files.ids


@each
def test_it_is_written_without_a_loss(files: Files, tmp_path: Path) -> None:
    evalset = _load(files, tmp_path / "theirs")
    write_jsonl(evalset, tmp_path / "ours.jsonl")
    again = load(tmp_path / "ours.jsonl", LoadOptions("native"))
    assert again.examples == evalset.examples
    assert again.digest == evalset.digest


def _reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed_keys(value[key]) for key in reversed(value)}
    return [_reversed_keys(item) for item in value] if isinstance(value, list) else value


def _with_reversed_keys(_: str, content: bytes) -> bytes:
    try:
        return json.dumps(_reversed_keys(json.loads(content))).encode()
    except ValueError:
        lines = content.decode().splitlines(keepends=True)
    if not lines[0].startswith("{"):
        return content
    return "".join(json.dumps(_reversed_keys(json.loads(line))) + "\n" for line in lines).encode()


@each
def test_the_order_of_keys_is_no_content(files: Files, tmp_path: Path) -> None:
    turned = _changed(files, _with_reversed_keys)
    assert _load(turned, tmp_path / "turned").digest == _load(files, tmp_path / "as they were").digest


@each
@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_it_is_read_compressed(files: Files, ending: str, tmp_path: Path) -> None:
    pack = gzip.compress if ending == ".gz" else zstd_compress()
    if pack is None:
        pytest.skip("no package for Zstandard is installed")
    options = {
        option: f"{value}{ending}" if value in list(files.contents) else value
        for option, value in files.words.items()
    }
    packed = Files(
        files.format,
        {f"{name}{ending}": pack(content) for name, content in files.contents.items()},
        files.path and f"{files.path}{ending}",
        files.ids,
        options,
    )
    assert _load(packed, tmp_path / "packed").digest == _load(files, tmp_path / "plain").digest


@each
def test_line_ends_and_a_byte_order_mark_do_not_matter(files: Files, tmp_path: Path) -> None:
    def saved(name: str, content: bytes) -> bytes:
        # A line feed inside a quoted cell is part of the text.
        ends = content if name.endswith(".csv") else content.replace(b"\n", b"\r\n")
        return b"\xef\xbb\xbf" + ends

    assert _load(_changed(files, saved), tmp_path / "saved").digest == _load(files, tmp_path / "plain").digest


ONE_FILE = [
    files for files in FILES if len(files.ids) > 1 and len(files.contents) == 1 and files.format != "squad"
]


@pytest.mark.parametrize("files", ONE_FILE, ids=lambda files: files.path)
def test_records_come_one_by_one(files: Files, tmp_path: Path) -> None:
    """The first record is yielded before a later, broken part is read. SQuAD is read article by article."""
    path = files.write(tmp_path)
    read_records = FORMATS[files.format].records
    first = next(iter(read_records(path, files.words)))
    path.write_bytes(path.read_bytes().rstrip(b"]} \n") + b" " * 200_000 + b"\xff")
    if files.format == "trec":
        with pytest.raises(InputError):
            next(iter(read_records(path, files.words)))
    else:
        assert next(iter(read_records(path, files.words))) == first
