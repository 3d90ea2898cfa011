"""The native format: JSON lines, one example a line; or one array of such objects in a `.json` file."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_rageval.evalsets.field_map import mapped
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.records import from_records
from pytest_rageval.model import EvalSet

__all__ = ["load_jsonl", "read", "recognises"]


def load_jsonl(path: Path) -> EvalSet:
    """Read an eval set in the native form, in UTF-8; blank lines do not count.

    Raises:
        InputError: the file cannot be read or a line cannot be used: file, line, what to do.
    """
    return from_records(read(path), name=path.name)


def recognises(shape: Shape) -> bool:
    """JSON lines or an array: what no special format claims is read as this, and says what it lacks."""
    if shape.folder or shape.suffix in (".csv", ".tsv"):
        return False
    return shape.suffix in (".jsonl", ".ndjson", ".json") or shape.head.lstrip()[:1] in ("{", "[")


def read(path: Path, *, fields: Mapping[str, str] | None = None) -> Iterator[tuple[str, Any]]:
    """Records of the native form, or of others where `fields` says which field is which.

    Args:
        path: of the file.
        fields: see `field_map.mapped`.
    """
    records = json_records(path)
    return records if fields is None else mapped(records, fields)
