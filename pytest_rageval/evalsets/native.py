"""The native form: JSON lines, one example a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.records import from_records
from pytest_rageval.model import EvalSet

__all__ = ["load_jsonl"]


def load_jsonl(path: Path) -> EvalSet:
    """Read an eval set from a JSONL file in UTF-8; blank lines do not count.

    Raises:
        InputError: the file cannot be read or a line cannot be used: file, line, what to do.
    """
    try:
        return from_records(_records(path), name=path.name)
    except OSError as error:
        message = f"The eval set {path} cannot be read: {error.strerror or error}."
        raise InputError(message) from error
    except UnicodeDecodeError as error:
        message = (
            f"The eval set {path} is not UTF-8: byte {error.object[error.start]:#04x} ({error.reason}).\n"
            "Save it in UTF-8."
        )
        raise InputError(message) from error


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    # utf-8-sig: some editors put a byte-order mark in front, which is no part of the first record.
    with path.open(encoding="utf-8-sig") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            place = f"{path.name} line {number}"
            try:
                yield place, json.loads(line, parse_constant=_refuse)
            except (ValueError, RecursionError) as error:
                message = (
                    f"{place} is not JSON: {error}.\n"
                    "Each line is one whole JSON object; strings are in double quotes."
                )
                raise InputError(message) from None


def _refuse(constant: str) -> None:
    message = f"{constant} is not a JSON number"
    raise ValueError(message)
