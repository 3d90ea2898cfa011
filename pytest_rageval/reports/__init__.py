"""Reports: build the document of a run from its results, and write it in several formats.

No module here evaluates a question or calls a model.

- Build the document, which is plain data: `build`, with `notes`, `anomalies`, `questions`, `evidence`, `systems`,
  `gated_tests`, and `suite`, all gated tests together. `document` declares the types of its entries.
- Write it: `terminal`, `markdown` and `html`; `settings`: the models and options of the run.
- Say why a test failed: `failures`, with the likely `causes`.
- `reading`: reads JSON reports.
- Helper: `layout` (lines that fit a terminal).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from pytest_rageval.lib.files import write_atomically
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.spool import rare_collection
from pytest_rageval.options.parsers import Address


def json_report(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON text of the document in parts.

    The text has one value per line, so that two reports can be compared with `diff`. Letters are not escaped.
    """
    encoder = json.JSONEncoder(ensure_ascii=False, indent=1, allow_nan=False)
    tokens = encoder.iterencode(document)
    while part := "".join(islice(tokens, TOKENS_PER_PART)):
        yield part
    yield "\n"


TOKENS_PER_PART: Final = 10_000  # the number of JSON tokens in one part of a JSON report

KINDS: Final[Mapping[str, Callable[..., Any]]] = {
    ".html": Lazy("reports.html.page", "html_report"),
    ".json": json_report,
    ".md": Lazy("reports.markdown", "markdown_report"),
}
"""The built-in writers of `--rageval-report`, by the suffix of the file. `Registry.writers` has the others too."""


def deliver(write: Callable[..., Any], document: Mapping[str, Any], destination: Path | Address) -> str:
    """Write a report to its file or send it to its address, and return its text for the line `report: …` of the run."""
    if isinstance(destination, Address):
        return str(write(document, destination.rest) or destination)
    destination.parent.mkdir(parents=True, exist_ok=True)
    with rare_collection():
        text = write(document)
        # UTF-8 cannot encode an unpaired surrogate; `backslashreplace` writes JSON's escape for it.
        parts = (
            part.encode(errors="backslashreplace") for part in ([text] if isinstance(text, str) else text)
        )
        write_atomically(destination, parts)
    return str(destination)
