"""The files of `--rageval-report`: which kinds there are, and how they are written."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.file_writing import write_whole
from pytest_rageval.plugin.gate import GatePlugin
from pytest_rageval.printable import printable

__all__ = ["check_kinds", "written"]


def check_kinds(config: pytest.Config, paths: Sequence[Path]) -> None:
    """Let pass files of kinds that there are: nobody wants to hear it after the run.

    Raises:
        UsageError: a file's name ends in nothing that is known.
    """
    from pytest_rageval.reports.kinds import KINDS  # noqa: PLC0415 - few runs write reports

    for path in paths:
        # Other plugins are asked only where it matters: that imports much.
        if path.suffix not in KINDS and path.suffix not in (added := GatePlugin.of(config).reports):
            *most, last = sorted({*KINDS, *added})
            message = (
                f"--rageval-report is '{path.name}': expected a file name that ends in "
                f"{', '.join(most)} or {last}."
            )
            raise pytest.UsageError(printable(message))


def written(
    config: pytest.Config, paths: Sequence[Path], document: Mapping[str, Any]
) -> Iterator[tuple[Path, str]]:
    """Write each file; with each, why it cannot be written, or nothing."""
    from pytest_rageval.reports.kinds import KINDS  # noqa: PLC0415 - few runs write reports

    # What a plugin adds rules over what is built in.
    kinds = {**KINDS, **GatePlugin.of(config).reports}
    for path in paths:
        try:
            text = kinds[path.suffix](document)
            path.parent.mkdir(parents=True, exist_ok=True)
            # Half of a surrogate pair is no text; written so, it is at least what JSON writes.
            write_whole(path, [text.encode(errors="backslashreplace")])
        except OSError as error:
            yield path, error.strerror or str(error)
        except Exception as error:  # noqa: BLE001 - a plugin's mistake must not cost the baseline or other reports
            yield path, f"{type(error).__name__}: {error}"
        else:
            yield path, ""
