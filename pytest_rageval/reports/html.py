"""The HTML report: one page with an overview, the tests, and every question. All text is escaped."""

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
    BROKEN,
    by_urgency,
    headline,
    notes,
    test_name,
    warning_lines,
)

__all__ = ["Fact", "html_page", "html_report"]

LARGEST: Final = 10_000_000
"""Bytes of all questions: what does not fit is left out, and counted."""

NEARLY_ALL: Final = 0.99  # of these bytes: when they are used, no more questions are written in full

MOST_VALUES: Final = 40  # of a tag: one with more, such as an id of each question, is not a filter

MOST_COLUMNS: Final = 4  # scores that a row of a question has side by side

LINK: Final = re.compile(r"https?://")


def html_report(document: Mapping[str, Any]) -> str:
    """The document as a single page, which loads nothing."""
    return html_page(
        document,
        title=headline(document),
        overall=_overall(document["tests"]),
        facts=list(_facts(document)),
        warnings=warning_lines(document["tests"]),
    )


def html_page(
    document: Mapping[str, Any], *, title: str, overall: str, facts: Sequence["Fact"], warnings: Sequence[str]
) -> str:
    """A page of tests and their questions: `overall` is the verdict beside the title, and `facts` identify them."""
    tests = by_urgency(document["tests"])
    filters = Filters()
    groups = [Group(test, question_rows(test), filters) for test in tests]
    left_out = _write(groups)
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
        matrices=[_matrix(each) for each in document["matrix"]],
        ratings=[_ratings(each) for each in document["ratings"]],
    )


def _overall(tests: Sequence[Mapping[str, Any]]) -> str:
    """The verdict on the run: the worst of its tests."""
    if any(test["outcome"] in {"failed", "error"} for test in tests):
        return "fail"
    verdicts = {entry["verdict"] for test in tests for entry in test["scores"]}
    return "inconclusive" if "inconclusive" in verdicts else "pass"


@dataclass(frozen=True)
class Fact:
    """A name and a value; with an address it is a link."""

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
        yield Fact("Run", url, url if LINK.match(url) else "")
    if baseline := run.get("baseline"):
        known = [baseline.get("path"), (baseline.get("commit") or "")[:12], baseline.get("date")]
        yield Fact("Baseline", ", ".join(filter(None, known)))
    yield Fact("Models", models_text(document))
    yield Fact("Written by", f"pytest-rageval {document['package']}")


class Filters:
    """The values by which questions can be filtered: cases, causes and tags, each with a short token."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], str] = {}

    def token(self, kind: str, value: str) -> str:
        """The token of a value, as questions carry it."""
        return self._tokens.setdefault((kind, value), f"f{len(self._tokens)}")

    def options(self, kind: str) -> list[tuple[str, str]]:
        """The values of a kind in order, each as its token and its text."""
        found = [(value, token) for (of, value), token in self._tokens.items() if of == kind]
        return [(token, value) for value, token in sorted(found)]

    @property
    def tags(self) -> list[str]:
        """The kinds that are tags, without their prefix, by which they are set apart from "case" and "lost by"."""
        return sorted({of.removeprefix("tag ") for of, _ in self._tokens if of.startswith("tag ")})


class Group:
    """A test with its questions and its scores, for the templates."""

    def __init__(self, test: Mapping[str, Any], rows: Sequence[QuestionRow], filters: Filters) -> None:
        self.test = test
        self.rows = rows
        self.name = test_name(test)
        self.anchor = f"t-{sha256(test['nodeid'].encode(errors='replace')).hexdigest()[:10]}"
        self.notes = [line.strip() for line in notes(test)]
        self.questions: list[Markup] = []
        self.columns = list(dict.fromkeys(cell.name for row in rows for cell in row.cells))
        self._tags = _tags(rows)
        self._filters = filters
        self.scores = [ScoreView(entry) for entry in test["scores"]]

    @property
    def is_wide(self) -> bool:
        """True if the scores of a question fit into columns."""
        return len(self.columns) <= MOST_COLUMNS

    @property
    def failed_otherwise(self) -> bool:
        """True if only the message says why the test failed."""
        return not any(entry["verdict"] in BROKEN for entry in self.test["scores"])

    def tokens(self, row: QuestionRow) -> str:
        """Return the tokens by which a question is filtered, separated by spaces."""
        found = [state or "same" for state in sorted(row.states or {""})]
        for kind, key in (("case", "case"), ("lost by", "lost_by")):
            found += [self._filters.token(kind, value) for value in row.known(key)]
        found += [self._filters.token(f"tag {name}", value) for name, value in row.tags if name in self._tags]
        return " ".join(found)

    @property
    def heat(self) -> Iterator[tuple[str, list[tuple[str, int, list["HeatCell | None"]]]]]:
        """Yield each tag with its values; of each value, the number of questions and the mean of each score."""
        overall = [mean_of(self.rows, name) for name in self.columns]
        for tag in self._tags if self.columns else ():
            rows_of: dict[str, list[QuestionRow]] = {}
            for row in self.rows:
                for name, value in row.tags:
                    if name == tag:
                        rows_of.setdefault(value, []).append(row)
            table = [
                (
                    value,
                    len(rows),
                    [HeatCell.of(rows, name, all_) for name, all_ in zip(self.columns, overall, strict=True)],
                )
                for value, rows in rows_of.items()
            ]
            yield tag, sorted(table, key=_lowest)


def _lowest(line: tuple[str, int, list[HeatCell | None]]) -> tuple[float, str]:
    """The order of slices: the lowest first, those without a score last."""
    means = [cell.mean for cell in line[2] if cell is not None]
    return min(means, default=inf), line[0]


def _tags(rows: Iterable[QuestionRow]) -> list[str]:
    """The tags whose values make slices; one with many values, such as a number of each question, makes none."""
    values: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.tags:
            values.setdefault(name, set()).add(value)
    return sorted(name for name, found in values.items() if len(found) <= MOST_VALUES)


@dataclass(frozen=True)
class LeftOut:
    """The number of questions shown without passages, and of those left out, out of `of` questions."""

    passages: int
    questions: int
    of: int


def _write(groups: Sequence[Group]) -> LeftOut:
    """Write the questions of all groups into them, the worst in full, as far as `LARGEST` allows."""
    template = environment().get_template("question.html")
    rows = [(group, row) for group in groups for row in group.rows]
    brief: dict[int, Markup] = {}
    total = 0
    order = sorted(range(len(rows)), key=lambda at: rows[at][1].order)

    def written(at: int, *, full: bool) -> Markup:
        group, row = rows[at]
        values = {"q": row, "columns": group.columns, "tokens": group.tokens(row), "full": full}
        return Markup(template.render(values))  # noqa: S704 - of a template

    for at in order:
        text = written(at, full=False)
        size = _size(text)
        if total + size > LARGEST:
            break
        brief[at] = text
        total += size
    full = 0
    for at in order[: len(brief)]:
        if total > NEARLY_ALL * LARGEST:
            break
        # Passages of a known length beyond the room need not be written.
        known = sum(len(each.get("text") or "") for each in rows[at][1].entry.get("retrieved", ()))
        if total + known <= LARGEST:
            text = written(at, full=True)
            size = _size(text) - _size(brief[at])
            if total + size <= LARGEST:
                brief[at] = text
                total += size
                full += 1
    for at in sorted(brief):
        rows[at][0].questions.append(brief[at])
    return LeftOut(len(brief) - full, len(rows) - len(brief), len(rows))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _matrix(matrix: Mapping[str, Any]) -> dict[str, Any]:
    """A matrix for its template: the columns of systems, and for each score the largest mean of its column."""
    cells = zip(*(row["cells"] for row in matrix["rows"]), strict=True)
    return {
        **matrix,
        "systems": system_names(matrix["rows"]),
        "most": [max((cell["mean"] for cell in column if cell is not None), default=0.0) for column in cells],
    }


def _ratings(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table of ratings for its template: with the ends of the axis of its intervals, and the matrix of pairs."""
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
