"""Reads JSON reports for the commands `diff`, `merge` and `view`."""

from pathlib import Path
from typing import Any, cast

from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.files import refuse_special
from pytest_rageval.lib.shape import check_shape, parse_json
from pytest_rageval.reports.build import SCHEMA
from pytest_rageval.reports.document import ReportDocument


def read_report(path: Path, *, remedy: str | None = None) -> ReportDocument:
    if remedy is None:
        remedy = f"Write one with: pytest --rageval-report {path.with_suffix('.json').name}"
    document = read_json(path, "report", remedy)
    if isinstance(document, dict) and isinstance(document.get("tests"), dict):
        # A command that writes a report to this path would destroy the baseline.
        raise InputError(
            f"{path} is a baseline, not a JSON report of pytest-rageval.\n"
            "Write a report to another file: pytest --rageval-report report.json"
        )
    if not isinstance(document, dict) or not isinstance(document.get("tests"), list):
        raise InputError(f"{path} is not a JSON report of pytest-rageval: it has no list `tests`.\n{remedy}")
    if document.get("schema") != SCHEMA:
        raise InputError(
            f"The report {path} has schema {document.get('schema')!r:.40}; this version reads {SCHEMA}.\n{remedy}"
        )
    try:
        check_shape(document, ReportDocument)
    except ValueError as error:
        raise InputError(f"{path} is not a JSON report of pytest-rageval: {error}.\n{remedy}") from None
    return cast("ReportDocument", document)


def read_content(path: Path, what: str, remedy: str) -> bytes:
    try:
        refuse_special(path)
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"The {what} {path} cannot be read: {error.strerror or error}.\n{remedy}") from None


def read_json(path: Path, what: str, remedy: str) -> Any:
    """Return the content of a JSON file in UTF-8, with or without a byte-order mark."""
    content = read_content(path, what, remedy)
    try:
        return parse_json(content)
    except UnicodeDecodeError as error:
        raise InputError(f"The {what} {path} is not UTF-8: {error.reason}.\n{remedy}") from None
    except ValueError as error:
        raise InputError(f"The {what} {path} is not JSON: {error}.\n{remedy}") from None
