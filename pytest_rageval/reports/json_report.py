"""The report for programs: the document itself, as JSON."""

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["json_report"]


def json_report(document: Mapping[str, Any]) -> str:
    """The document in lines that are short enough to compare; letters stay letters."""
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
