"""Reports: results in, text out. Nothing here computes a score or calls a model.

`results` builds the document of a run, whose keys `document` describes; `notes`, `questions` and `judge_calibration`
build its parts and their lines of text, `systems` compares systems. `terminal`, `html` and `markdown` write it;
`KINDS` are those of `--rageval-report`, by the suffix of the file.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from pytest_rageval.late import Late

__all__ = ["KINDS", "json_report"]


def json_report(document: Mapping[str, Any]) -> Iterator[str]:
    """The document in parts, with one value a line, so that reports can be compared; letters are not escaped."""
    encoder = json.JSONEncoder(ensure_ascii=False, indent=1, allow_nan=False)
    tokens = encoder.iterencode(document)
    while part := "".join(islice(tokens, TOKENS)):
        yield part
    yield "\n"


TOKENS: Final = 10_000
"""So many tokens of JSON are one part."""

KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], str | Iterable[str]]]] = {
    ".html": Late("reports.html", "html_report"),
    ".json": json_report,
    ".md": Late("reports.markdown", "markdown_report"),
}
