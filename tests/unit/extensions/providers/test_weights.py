"""The file of the embedded model."""

from pathlib import Path

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.providers.embedded import Weights, resolve_weights
from pytest_rageval.lib.digests import BLOCK_BYTES


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(bytes(range(256)) * (3 * BLOCK_BYTES // 256))
    return file


@pytest.mark.parametrize("gguf", [None, ""])
def test_without_a_file_it_is_the_packaged_model(gguf: str | None) -> None:
    weights = resolve_weights(gguf)
    assert weights == Weights()
    assert len(weights.fingerprint) == 64


def test_the_users_file_is_taken(model: Path) -> None:
    weights = resolve_weights(str(model))
    assert weights == Weights(model)
    assert (weights.name, weights.path()) == ("tiny", model)


def test_the_home_directory_may_be_abbreviated(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(model.parent))
    assert resolve_weights("~/tiny.gguf").path() == model


@pytest.mark.parametrize("name", ["missing.gguf", "."])
def test_a_file_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    path_text = str(tmp_path / name)
    with pytest.raises(InputError) as caught:
        resolve_weights(path_text)
    assert str(caught.value) == (
        f"RAGEVAL_GGUF names {path_text!r}, which is not a file.\n"
        "Name a model in GGUF form, or unset it for the packaged model."
    )


def test_the_fingerprint_does_not_depend_on_the_name(model: Path) -> None:
    before = Weights(model).fingerprint
    assert Weights(model.rename(model.with_name("other.gguf"))).fingerprint == before


@pytest.mark.parametrize("where", [0, BLOCK_BYTES, 3 * BLOCK_BYTES - 1])
def test_the_fingerprint_changes_with_the_content(model: Path, where: int) -> None:
    before = Weights(model).fingerprint
    content = bytearray(model.read_bytes())
    content[where] ^= 1
    model.write_bytes(content)
    assert Weights(model).fingerprint != before
