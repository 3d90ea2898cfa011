"""Eval sets: from records to examples, one file a format.

`formats` is the table of formats; each has two functions, `recognises(shape)` and `read(path, …)`, the
latter with the format's options, to records of the native form, lazily. `records` alone makes examples
of these and checks them.
"""

from pytest_rageval.evalsets.format import Format
from pytest_rageval.evalsets.formats import FORMATS
from pytest_rageval.evalsets.formats.native import load_jsonl
from pytest_rageval.evalsets.loading import How, load, load_records
from pytest_rageval.evalsets.records import from_records, write_jsonl

__all__ = [
    "FORMATS",
    "Format",
    "How",
    "from_records",
    "load",
    "load_jsonl",
    "load_records",
    "write_jsonl",
]
