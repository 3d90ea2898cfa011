"""The native format: JSON lines, one example per line; or one array of such objects in a `.json` file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.records import Records
from pytest_rageval.lazy import Lazy

__all__ = ["read"]

mapped: Final = Lazy("evalsets.field_map", "mapped")  # few files have other names of fields


def read(path: Path, *, fields: Mapping[str, str] | None = None) -> Records:
    """Records in UTF-8, blank lines do not count; with a field map, others (see `field_map.mapped`)."""
    records = json_records(path)
    return records if fields is None else cast("Records", mapped(records, fields))
