"""Writes the HTML report: one page with an overview, the tests, and every question. All text is escaped."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import inf
from typing import Any, Final

from markupsafe import Markup

from pytest_rageval.reports.page import environment, render
from pytest_rageval.reports.question_rows import QuestionRow, question_rows
from pytest_rageval.reports.results import models_text, usage_lines
from pytest_rageval.reports.score_views import HeatCell, ScoreView, mean_of
from pytest_rageval.reports.systems import PAIRS, pairs_notes, pairs_table, ratings_text, system_names
from pytest_rageval.reports.terminal import (
    FAILING_VERDICTS,
    by_urgency,
    headline,
    note_lines,
    test_name,
    warning_lines,
)

__all__ = ["Fact", "html_page", "html_report"]

MAX_QUESTION_BYTES: Final = 10_000_000
"""The maximum size of all questions in the page. Questions beyond it are left out and counted."""

FULL_SHARE: Final = 0.99
"""Questions are written in full until this share of `MAX_QUESTION_BYTES` is used."""

MAX_TAG_VALUES: Final = 40  # a tag with more values, such as an id of each question, is not a filter

MAX_COLUMNS: Final = 4  # maximum number of scores in columns; more scores are in a line of text

WEB_ADDRESS: Final = re.compile(r"https?://")


def html_report(document: Mapping[str, Any]) -> str:
    """Return the HTML report of a run: a single page that loads no other files."""
    return html_page(
        document,
        title=headline(document),
        overall=_overall_verdict(document["tests"]),
        facts=list(_facts(document)),
        warnings=warning_lines(document["tests"]),
    )


def html_page(
    document: Mapping[str, Any], *, title: str, overall: str, facts: Sequence["Fact"], warnings: Sequence[str]
) -> str:
    """Return a page with the tests of a document and their questions.

    Args:
        document: all results of a run.
        title: the heading of the page.
        overall: the verdict that is shown beside the heading.
        facts: names and values for the top of the page.
        warnings: warnings for the overview.
    """
    tests = by_urgency(document["tests"])
    filters = Filters()
    groups = [Group(test, question_rows(test), filters) for test in tests]
    left_out = _render_questions(groups)
    return render(
        "report.html",
        styles=("report.css",),
        scripts=("report.js",),
        headline=title,
        overall=overall,
        facts=facts,
        usage=usage_lines(document["llm"]),
        warnings=warnings,
        groups=groups,
        filters=filters,
        left_out=left_out,
        matrices=[_matrix_view(matrix) for matrix in document["matrix"]],
        ratings=[_ratings_view(table) for table in document["ratings"]],
    )


def _overall_verdict(tests: Sequence[Mapping[str, Any]]) -> str:
    """Return the worst verdict of the tests: "fail", "inconclusive" or "pass"."""
    if any(test["outcome"] in {"failed", "error"} for test in tests):
        return "fail"
    verdicts = {entry["verdict"] for test in tests for entry in test["scores"]}
    return "inconclusive" if "inconclusive" in verdicts else "pass"


@dataclass(frozen=True)
class Fact:
    """A name and a value at the top of the page; `url` is the address that the value links to, or empty."""

    name: str
    text: str
    url: str = ""


def _facts(document: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield the facts that identify the run and its baseline."""
    run = document.get("run", {})
    yield Fact("Started", document["started"].replace("T", " "))
    yield Fact("Duration", f"{document['duration_s']:.1f} s")
    if commit := run.get("commit"):
        dirty = ", with changes that are not committed" if run.get("dirty") else ""
        title = f" {run['title']}" if run.get("title") else ""
        yield Fact("Commit", f"{commit[:12]}{title}{dirty}")
    if branch := run.get("branch"):
        yield Fact("Branch", branch)
    if url := run.get("url"):
        yield Fact("Run", url, url if WEB_ADDRESS.match(url) else "")
    if baseline := run.get("baseline"):
        parts = [baseline.get("path"), (baseline.get("commit") or "")[:12], baseline.get("date")]
        yield Fact("Baseline", ", ".join(filter(None, parts)))
    yield Fact("Models", models_text(document))
    yield Fact("Written by", f"pytest-rageval {document['package']}")


class Filters:
    """The values by which questions can be filtered, each with a short token.

    The kinds of values are "case", "lost by" (the causes), and "tag NAME" for each tag.
    """

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], str] = {}

    def token(self, kind: str, value: str) -> str:
        """Return the token of a value, which is the same at each call."""
        return self._tokens.setdefault((kind, value), f"f{len(self._tokens)}")

    def options(self, kind: str) -> list[tuple[str, str]]:
        """Return the values of a kind as pairs of token and value, sorted by value."""
        pairs = [(value, token) for (key, value), token in self._tokens.items() if key == kind]
        return [(token, value) for value, token in sorted(pairs)]

    @property
    def tags(self) -> list[str]:
        """The names of the tags that have values."""
        return sorted({kind.removeprefix("tag ") for kind, _ in self._tokens if kind.startswith("tag ")})


class Group:
    """A test with its scores and questions, for the templates.

    `questions` is the HTML of the questions, which `_render_questions` adds.
    """

    def __init__(self, test: Mapping[str, Any], rows: Sequence[QuestionRow], filters: Filters) -> None:
        self.test = test
        self.rows = rows
        self.name = test_name(test)
        self.anchor = f"t-{sha256(test['nodeid'].encode(errors='replace')).hexdigest()[:10]}"
        self.notes = [line.strip() for line in note_lines(test)]
        self.questions: list[Markup] = []
        self.columns = list(dict.fromkeys(cell.name for row in rows for cell in row.cells))
        self._tags = _slice_tags(rows)
        self._filters = filters
        self.scores = [ScoreView(entry) for entry in test["scores"]]

    @property
    def is_wide(self) -> bool:
        """True if the scores of a question fit into columns."""
        return len(self.columns) <= MAX_COLUMNS

    @property
    def failed_otherwise(self) -> bool:
        """True if no threshold of the test failed, so that only the message says why the test failed."""
        return not any(entry["verdict"] in FAILING_VERDICTS for entry in self.test["scores"])

    def tokens(self, row: QuestionRow) -> str:
        """Return the tokens by which a question is filtered, separated by spaces."""
        tokens = [state or "same" for state in sorted(row.states or {""})]
        for kind, key in (("case", "case"), ("lost by", "lost_by")):
            tokens += [self._filters.token(kind, value) for value in row.example_values(key)]
        tokens += [
            self._filters.token(f"tag {name}", value) for name, value in row.tags if name in self._tags
        ]
        return " ".join(tokens)

    @property
    def heat(self) -> Iterator[tuple[str, list[tuple[str, int, list["HeatCell | None"]]]]]:
        """Yield each tag with a table: each value of the tag, its number of questions, and a cell for each score."""
        overall_means = [mean_of(self.rows, name) for name in self.columns]
        for tag in self._tags if self.columns else ():
            rows_by_value: dict[str, list[QuestionRow]] = {}
            for row in self.rows:
                for name, value in row.tags:
                    if name == tag:
                        rows_by_value.setdefault(value, []).append(row)
            table = [
                (
                    value,
                    len(rows),
                    [
                        HeatCell.from_rows(rows, name, overall)
                        for name, overall in zip(self.columns, overall_means, strict=True)
                    ],
                )
                for value, rows in rows_by_value.items()
            ]
            yield tag, sorted(table, key=_heat_sort_key)


def _heat_sort_key(line: tuple[str, int, list[HeatCell | None]]) -> tuple[float, str]:
    """Return the sort key of a slice: slices with the lowest mean come first, slices without a score last."""
    means = [cell.mean for cell in line[2] if cell is not None]
    return min(means, default=inf), line[0]


def _slice_tags(rows: Iterable[QuestionRow]) -> list[str]:
    """Return the names of the tags that have at most `MAX_TAG_VALUES` different values."""
    values_by_tag: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.tags:
            values_by_tag.setdefault(name, set()).add(value)
    return sorted(name for name, values in values_by_tag.items() if len(values) <= MAX_TAG_VALUES)


@dataclass(frozen=True)
class LeftOut:
    """The number of questions that are not shown in full.

    Attributes:
        passages: number of questions that are shown without their passages.
        questions: number of questions that are not shown.
        of: number of all questions.
    """

    passages: int
    questions: int
    of: int


def _render_questions(groups: Sequence[Group]) -> LeftOut:
    """Add the HTML of the questions to their groups, within `MAX_QUESTION_BYTES`.

    The worst questions have precedence. All questions get a brief form, as far as they fit; then questions get their
    full form, as far as it fits.
    """
    template = environment().get_template("question.html")
    rows = [(group, row) for group in groups for row in group.rows]
    texts: dict[int, Markup] = {}
    total = 0
    order = sorted(range(len(rows)), key=lambda index: rows[index][1].order)

    def render_row(index: int, *, full: bool) -> Markup:
        group, row = rows[index]
        values = {"q": row, "columns": group.columns, "tokens": group.tokens(row), "full": full}
        return Markup(template.render(values))  # noqa: S704 - the template escapes all texts

    for index in order:
        text = render_row(index, full=False)
        size = _byte_size(text)
        if total + size > MAX_QUESTION_BYTES:
            break
        texts[index] = text
        total += size
    full = 0
    for index in order[: len(texts)]:
        if total > FULL_SHARE * MAX_QUESTION_BYTES:
            break
        # A question whose passages alone exceed the limit is not rendered.
        passage_chars = sum(
            len(passage.get("text") or "") for passage in rows[index][1].entry.get("retrieved", ())
        )
        if total + passage_chars <= MAX_QUESTION_BYTES:
            text = render_row(index, full=True)
            size = _byte_size(text) - _byte_size(texts[index])
            if total + size <= MAX_QUESTION_BYTES:
                texts[index] = text
                total += size
                full += 1
    for index in sorted(texts):
        rows[index][0].questions.append(texts[index])
    return LeftOut(len(texts) - full, len(rows) - len(texts), len(rows))


def _byte_size(text: str) -> int:
    """Return the number of bytes of a text in UTF-8."""
    return len(text.encode("utf-8", "replace"))


def _matrix_view(matrix: Mapping[str, Any]) -> dict[str, Any]:
    """Return a matrix for its template, with the columns of system names, and the largest mean of each score."""
    cells = zip(*(row["cells"] for row in matrix["rows"]), strict=True)
    return {
        **matrix,
        "systems": system_names(matrix["rows"]),
        "max_means": [
            max((cell["mean"] for cell in column if cell is not None), default=0.0) for column in cells
        ],
    }


def _ratings_view(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of ratings for its template, with the ends of the axis of its intervals, and the pair matrix."""
    ends = [end for row in table["systems"] for end in row["ci95"]]
    names, cells = pairs_table(table)
    return {
        **table,
        "text": ratings_text(table),
        "low": min(ends, default=0.0),
        "high": max(ends, default=1.0),
        "pairs_text": PAIRS,
        "names": names,
        "cells": cells,
        "notes": list(pairs_notes(table)),
    }
