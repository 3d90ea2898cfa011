"""Eval sets: from files and records to examples. `load()` and `load_records()` are the entry points.

- `loading`: the entry points. `format` recognises the format of a file, and `formats` has one module per format.
- `field_map`: renames fields. `records`: checks records and makes examples of them.
- `sampling`: draws a sample while reading. `subsets`: the part of a set that a shard or a sample scores.
- `files`: strict JSON. `corpus`: corpora. `human_labels`: labels for the calibration of a judge.
- `traces`: exports of tracing tools.
"""

from pytest_rageval.evalsets.format import Format
from pytest_rageval.evalsets.formats import FORMATS
from pytest_rageval.evalsets.loading import LoadOptions, load, load_records
from pytest_rageval.evalsets.records import from_records, write_jsonl

__all__ = ["FORMATS", "Format", "LoadOptions", "from_records", "load", "load_records", "write_jsonl"]
