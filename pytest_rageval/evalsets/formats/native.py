"""The native format: JSON lines, one example per line; or one array of such objects in a `.json` file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.records import Records
from pytest_rageval.lib.lazy import Lazy

map_fields: Final = Lazy("evalsets.field_map", "map_fields")  # few files need a field map


def read(path: Path, *, fields: Mapping[str, str] | None = None) -> Records:
    """Yield the records of a file in UTF-8; `fields` renames their fields (see `field_map.map_fields`)."""
    records = json_records(path)
    return records if fields is None else cast("Records", map_fields(records, fields))
