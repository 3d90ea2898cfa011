"""Reports: results in, text out. Nothing here computes a score or calls a model.

`KINDS` names the writers of `--rageval-report` by the suffix of the file.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pytest_rageval.reports.html import html_report
from pytest_rageval.reports.markdown import markdown_report

__all__ = ["KINDS", "Report", "json_report"]


def json_report(document: Mapping[str, Any]) -> str:
    """The document in lines that are short enough to compare; letters stay letters."""
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


Report = Callable[[Mapping[str, Any]], str]
"""From the document, as the JSON report holds it, to the file's text."""

KINDS: Final[Mapping[str, Report]] = {".html": html_report, ".json": json_report, ".md": markdown_report}
