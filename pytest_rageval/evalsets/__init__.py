"""Eval sets: from records to examples, one file a format."""

from pytest_rageval.evalsets.native import load_jsonl
from pytest_rageval.evalsets.records import from_records

__all__ = ["from_records", "load_jsonl"]
