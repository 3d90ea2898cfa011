"""Reports: results in, text out. Nothing here computes a score or calls a model.

`results` builds the document of a run, whose keys `document` describes; `notes`, `questions` and `judge_calibration`
build its parts and their lines of text, `systems` compares systems. `terminal`, `html` and `markdown` write it;
`KINDS` are those of `--rageval-report`, by the suffix of the file.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pytest_rageval.late import Late

__all__ = ["KINDS", "json_report"]


def json_report(document: Mapping[str, Any]) -> str:
    """The document with one value a line, so that reports can be compared; letters are not escaped."""
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    ".html": Late("reports.html", "html_report"),
    ".json": json_report,
    ".md": Late("reports.markdown", "markdown_report"),
}
