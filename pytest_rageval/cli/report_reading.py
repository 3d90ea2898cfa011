"""Reads JSON reports for the commands `diff`, `merge` and `badge`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from pytest_rageval.errors import InputError, parse_failure
from pytest_rageval.files import refuse_special
from pytest_rageval.reports.results import SCHEMA

__all__ = ["is_report", "read_report"]


def read_report(path: Path, *, remedy: str | None = None) -> Mapping[str, Any]:
    """Return the document of a JSON report; only its list `tests` and its schema are checked.

    Args:
        path: path of the report.
        remedy: the last line of error messages; default: the command that writes a report.

    Raises:
        InputError: the file cannot be read, is not a JSON report, or has another schema than this version reads.
    """
    if remedy is None:
        remedy = f"Write one with: pytest --rageval-report {path.with_suffix('.json').name}"
    try:
        refuse_special(path)
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"The report {path} cannot be read: {error.strerror or error}.\n{remedy}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"The report {path} is not UTF-8: {error.reason}.\n{remedy}") from None
    except (ValueError, RecursionError) as error:
        reason = parse_failure(error)
        raise InputError(f"The report {path} is not JSON: {reason}.\n{remedy}") from None
    if isinstance(document, dict) and isinstance(document.get("tests"), dict):
        # A command that writes a report to this path would destroy the baseline.
        raise InputError(
            f"{path} is a baseline, not a JSON report of pytest-rageval.\n"
            "Write a report to another file: pytest --rageval-report report.json"
        )
    if not is_report(document):
        raise InputError(f"{path} is not a JSON report of pytest-rageval: it has no list `tests`.\n{remedy}")
    if document.get("schema") != SCHEMA:
        raise InputError(
            f"The report {path} has schema {document.get('schema')!r}; this version reads {SCHEMA}.\n{remedy}"
        )
    return document


def is_report(document: object) -> TypeGuard[dict[str, Any]]:
    """Return True if a JSON document has the list `tests`, as reports have."""
    return isinstance(document, dict) and isinstance(document.get("tests"), list)
