"""The native form: JSON lines, one example a line."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

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


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    with path.open("rb") as lines:
        for number, raw in enumerate(lines, 1):
            place = f"{path.name} line {number}"
            try:
                # Some editors put a byte-order mark in front, which is no part of the first record.
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                found = f"byte {raw[error.start]:#04x} ({error.reason})"
                message = f"{place} is not UTF-8: {found}.\nSave the file in UTF-8."
                raise InputError(message) from None
            if not line.strip():
                continue
            try:
                yield place, json.loads(line, parse_constant=_refuse, parse_float=_finite)
            except (ValueError, RecursionError) as error:
                message = (
                    f"{place} is not JSON: {error}.\n"
                    "Each line is one whole JSON object; strings are in double quotes."
                )
                raise InputError(message) from None


def _refuse(constant: str) -> NoReturn:
    message = f"{constant} is no number that a computer holds"
    raise ValueError(message)


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)
