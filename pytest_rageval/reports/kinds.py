"""The kinds of report files, by what their names end in."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pytest_rageval.reports.html_report import html_report
from pytest_rageval.reports.json_report import json_report
from pytest_rageval.reports.markdown_report import markdown_report

__all__ = ["KINDS", "Report"]

Report = Callable[[Mapping[str, Any]], str]
"""From the document, as the JSON report holds it, to the file's text."""

KINDS: Final[Mapping[str, Report]] = {".html": html_report, ".json": json_report, ".md": markdown_report}
