"""What the parts of the page share."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_rageval.lib.text import one_line
from pytest_rageval.reports.terminal import number_text

Lacks = dict[str, str]
"""What a measurement lacks, with what to add."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(cell, row))} |"


def cell(text: str) -> str:
    """Return a text in one line that ends no cell and begins no HTML."""
    return one_line(text).replace("<", "&lt;").replace("|", "&#124;")


def number(value: float | None) -> str:
    return "-" if value is None else number_text(value)


def rankings(questions: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    return {each["id"]: [passage["document"] for passage in each.get("retrieved", ())] for each in questions}
