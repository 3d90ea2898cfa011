"""Lines of files: compressed, damaged, endless."""

import gzip
import sys
from pathlib import Path

import pytest

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets import files as streams
from pytest_rageval.evalsets.files import lines
from tests.evalset_files import zstd_compress

LINES = "".join(f"line {i}\n" for i in range(20_000)).encode()


def _error(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        list(lines(path))
    return str(caught.value)


def test_a_compressed_file_is_known_by_its_content(tmp_path: Path) -> None:
    """Whatever it is called; several members in one file are read on."""
    path = tmp_path / "lines.txt"
    path.write_bytes(gzip.compress(LINES[:1000]) + gzip.compress(LINES[1000:]))
    assert "".join(line for _, line in lines(path)).encode() == LINES


@pytest.mark.parametrize(
    "damage", [lambda packed: packed[:-200], lambda packed: packed[:5000] + packed[5100:]]
)
def test_a_damaged_gzip_file_says_how_far_it_could_be_read(damage, tmp_path: Path) -> None:
    """Nothing is taken for the end that is none."""
    path = tmp_path / "lines.gz"
    path.write_bytes(damage(gzip.compress(LINES)))
    assert _error(path).startswith("lines.gz cannot be read beyond line ")


@pytest.mark.skipif(zstd_compress() is None, reason="no package for Zstandard is installed")
def test_a_truncated_zstandard_file_is_an_error(tmp_path: Path) -> None:
    """As for gzip: half of the records are no eval set."""
    compress = zstd_compress()
    assert compress is not None
    path = tmp_path / "lines.zst"
    path.write_bytes(compress(LINES)[:-100])
    assert _error(path).startswith("lines.zst cannot be read beyond line ")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the standard library reads Zstandard")
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to install."""
    monkeypatch.setitem(sys.modules, "backports", None)
    monkeypatch.setitem(sys.modules, "backports.zstd", None)
    path = tmp_path / "support.jsonl.zst"
    path.write_bytes(streams.ZSTD + b"...")
    said = _error(path)
    assert said.startswith("Reading support.jsonl.zst needs the package 'backports.zstd'")
    assert "pip install 'pytest-rageval[zst]'" in said


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small compressed file may hold any number of bytes: only as many as a line may have are read."""
    monkeypatch.setattr(streams, "MAX_LINE", 2**20)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(b"{}\n" + b" " * 2**22))
    assert _error(path).startswith("bomb.jsonl.gz line 2 is longer than 1 MiB.")
