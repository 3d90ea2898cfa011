"""Reads eval sets: `load()` reads a file or a folder, `load_records()` records in Python. Both return an `EvalSet`.

- `loading`: `load()`, `load_records()`, the eval sets of a run. `formats`: recognises and reads each format.
- `field_map`: renames fields. `records`: converts records to examples and back, and checks every field.
- `sampling`: draws a random sample while reading; selects a sample by a hash of the ids, or a shard of it.
- `files`: strict JSON. `corpus`: corpora.
"""

from pytest_rageval.evalsets.formats import FORMATS, Format
from pytest_rageval.evalsets.loading import LoadOptions, load, load_records, write_jsonl
from pytest_rageval.evalsets.records import from_records

__all__ = ["FORMATS", "Format", "LoadOptions", "from_records", "load", "load_records", "write_jsonl"]
