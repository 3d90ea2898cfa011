"""Reports: results in, text out. Nothing here computes a score or calls a model.

- `results` builds the document of a run from `notes`, `questions`, `evidence`, `retrieval` and `judge_calibration`;
  `document` describes its keys, and `systems` compares systems.
- `terminal`, `markdown`, `html` write it. `html` uses `question_rows`, `score_views` and the templates in `page`.
- `otlp` sends it as OpenTelemetry `events`.
- `history`, `trend`, `trend_page`: scores over many runs.
- `next_steps`: commands to run next. `layout`: lines that fit a terminal.

`KINDS` are the kinds of `--rageval-report`, by the suffix of the file or the scheme of the address.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pytest_rageval.config import Address
from pytest_rageval.files import write_atomically
from pytest_rageval.lazy import Lazy

__all__ = ["KINDS", "deliver", "json_report"]


def json_report(document: Mapping[str, Any]) -> Iterator[str]:
    """The document in parts, with one value per line, so that reports can be compared; letters are not escaped."""
    encoder = json.JSONEncoder(ensure_ascii=False, indent=1, allow_nan=False)
    tokens = encoder.iterencode(document)
    while part := "".join(islice(tokens, TOKENS)):
        yield part
    yield "\n"


TOKENS: Final = 10_000
"""So many tokens of JSON are one part."""

KINDS: Final[Mapping[str, Callable[..., Any]]] = {
    ".html": Lazy("reports.html", "html_report"),
    ".json": json_report,
    ".md": Lazy("reports.markdown", "markdown_report"),
    "otlp:": Lazy("reports.otlp", "send_events"),
}


def deliver(write: Callable[..., Any], document: Mapping[str, Any], destination: Path | Address) -> str:
    """Write a report to its file, or let it be sent to its address; return what the summary says of it.

    Args:
        write: as in `Registry.add_report`.
        document: all results.
        destination: where the report goes.

    Raises:
        OSError: the file cannot be written.
        Exception: the error of the writer.
    """
    if isinstance(destination, Address):
        return str(write(document, destination.rest) or destination)
    text = write(document)
    destination.parent.mkdir(parents=True, exist_ok=True)
    # UTF-8 has no half of a surrogate pair; this is JSON's escape for it.
    parts = (part.encode(errors="backslashreplace") for part in ([text] if isinstance(text, str) else text))
    write_atomically(destination, parts)
    return str(destination)
