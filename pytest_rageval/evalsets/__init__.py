"""Eval sets: from files and records to examples. `load()` and `load_records()` are the entry points.

Each module of `formats` reads one file format into records of the native format; `format` recognizes them.
`field_map` renames fields, `records` checks records and makes examples, `sampling` draws some while reading.
`files` reads strict JSON. Read besides eval sets: labels of people (`human_labels`), corpora (`corpus`).
"""

from pytest_rageval.evalsets.format import Format
from pytest_rageval.evalsets.formats import FORMATS
from pytest_rageval.evalsets.loading import LoadOptions, load, load_records
from pytest_rageval.evalsets.records import from_records, write_jsonl

__all__ = ["FORMATS", "Format", "LoadOptions", "from_records", "load", "load_records", "write_jsonl"]
