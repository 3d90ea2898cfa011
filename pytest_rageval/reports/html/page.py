"""Writes the HTML report: a page with every question and all its scores, plots, and the tests. All text is escaped."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from statistics import fmean
from typing import Any, Final

from markupsafe import Markup

from pytest_rageval.lib.text import counted
from pytest_rageval.models.usage import usage_lines
from pytest_rageval.reports.build import sliced_name
from pytest_rageval.reports.document import ComparisonEntry, ScoreEntry, TestEntry
from pytest_rageval.reports.gated_tests import change_lines, failing_gates, missing_lines, remark_lines
from pytest_rageval.reports.html import render
from pytest_rageval.reports.html.plots import Plot, Ranks, plots_of, ranks_of
from pytest_rageval.reports.html.question_rows import (
    Column,
    Details,
    QuestionRow,
    QuestionTable,
    anchor_of,
    short_digest,
)
from pytest_rageval.reports.html.questions_html import question_html
from pytest_rageval.reports.layout import AddedTable
from pytest_rageval.reports.notes import p_of_drop, significant_gain
from pytest_rageval.reports.settings import models_text
from pytest_rageval.reports.suite import suite_lines
from pytest_rageval.reports.systems import PAIRS, pairs_notes, pairs_table, ratings_text, system_names
from pytest_rageval.reports.terminal import (
    FAILING_OUTCOMES,
    FAILING_VERDICTS,
    by_urgency,
    headline,
    note_lines,
    test_name,
    threshold_text,
    warning_lines,
)

MAX_QUESTION_BYTES: Final = 10_000_000
"""The maximum size of all questions in the page. Questions beyond it are left out and counted."""

FULL_SHARE: Final = 0.99  # questions are written in full until this share of the size is used

MAX_TAG_VALUES: Final = 40  # a tag with more values, such as an id of each question, is not a filter

MAX_COLUMNS: Final = 8  # maximum number of scores in columns; more scores are in a line of text

BINS: Final = 10  # number of bars in a histogram


def html_report(
    document: Mapping[str, Any], *, server_script: str = "", added: Iterable[AddedTable] = ()
) -> str:
    """Return the HTML report of a run: a single page that loads no other files. `server_script`: see `html_page`."""
    gate = document.get("gate", {})
    on_suite = list(suite_lines(document.get("suite"), document.get("merge", "")))
    return html_page(
        document,
        title=headline(document),
        overall="fail" if failing_gates(gate) or on_suite else _overall_verdict(document["tests"]),
        facts=list(_facts(document)),
        warnings=[
            *(*on_suite, *missing_lines(gate), *change_lines(gate), *remark_lines(gate)),
            *warning_lines(document["tests"]),
        ],
        server_script=server_script,
        added=added,
    )


def html_page(  # noqa: PLR0913 - what the top of a page shows
    document: Mapping[str, Any],
    *,
    title: str,
    overall: str,
    facts: Sequence["Fact"],
    warnings: Sequence[str],
    server_script: str = "",
    added: Iterable[AddedTable] = (),
) -> str:
    tests = by_urgency(document["tests"])
    filters = Filters()
    tables = [TableView(table, filters) for table in QuestionTable.of_tests(tests)]
    left_out = _render_questions(tables)
    return render(
        "report.html",
        styles=("report.css",),
        scripts=("report.js",),
        server_script=server_script,
        headline=title,
        overall=overall,
        facts=facts,
        usage=usage_lines(document["llm"]),
        warnings=warnings,
        tests=[Card(test) for test in tests],
        tables=tables,
        filters=filters,
        left_out=left_out,
        matrices=[_matrix_view(matrix) for matrix in document["matrix"]],
        ratings=[_ratings_view(table) for table in document["ratings"]],
        added=[(table.title, rows) for table in added if (rows := table.rows(tests))],
    )


def _overall_verdict(tests: Sequence[TestEntry]) -> str:
    if any(test["outcome"] in FAILING_OUTCOMES for test in tests):
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
        yield Fact("Run", url, url if url.startswith(("https://", "http://")) else "")
    if baseline := run.get("baseline"):
        parts = [baseline.get("path"), (baseline.get("commit") or "")[:12], baseline.get("date")]
        yield Fact("Baseline", ", ".join(filter(None, parts)))
    if models := models_text(document):
        yield Fact("Models", models)
    yield Fact("Written by", f"pytest-rageval {document['package']}")


class Filters:
    """The values by which questions can be filtered, each with a short token.

    The kinds of values are "case", "lost by" (the causes), and "tag NAME" for each tag.
    """

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], str] = {}

    def token(self, kind: str, value: str) -> str:
        return self._tokens.setdefault((kind, value), f"f{len(self._tokens)}")

    def options(self, kind: str) -> list[tuple[str, str]]:
        pairs = [(value, token) for (key, value), token in self._tokens.items() if key == kind]
        return [(token, value) for value, token in sorted(pairs)]

    @property
    def tags(self) -> list[str]:
        return sorted({kind.removeprefix("tag ") for kind, _ in self._tokens if kind.startswith("tag ")})


class ScoreView:
    """A score for the templates: the values that the overview table and the charts show."""

    def __init__(self, entry: ScoreEntry) -> None:
        self.entry = entry
        self.name: str = sliced_name(entry)
        self.threshold: str = threshold_text(entry)
        # The comparison with the baseline, else with the anchor.
        self.baseline: ComparisonEntry | None = entry.get("baseline") or entry.get("anchor")
        self.change: float | None = None if self.baseline is None else -self.baseline["drop"]
        self.p_value: float | None = p_of_drop(entry, self.baseline) if self.baseline else None
        # The lowest and the highest possible score of a question; None if they are 0 and 1, or not finite.
        self._entry_scale: Sequence[float] | None = entry.get("scale")

    @property
    def change_interval(self) -> tuple[float, float] | None:
        interval = (self.baseline or {}).get("interval")
        return None if interval is None else (-interval[1], -interval[0])

    @property
    def effect(self) -> str:
        """The kind of the change: "gain", "loss", or empty if it may be noise."""
        if significant_gain(self.entry) is not None or self.entry["verdict"] == "better":
            return "gain"
        return "loss" if self.entry["verdict"] in {"fail", "worse"} and self.change else ""

    @property
    def bound(self) -> float | None:
        """The threshold's `min`, else its `max`; None without either."""
        threshold = self.entry["threshold"] or {}
        minimum, maximum = threshold.get("min"), threshold.get("max")
        return minimum if minimum is not None else maximum

    @property
    def scale(self) -> tuple[float, float]:
        """The ends of the axis: the ends of the score's scale, else 0 and 1.

        The axis of a time, or of another score above 1 without a scale, ends after the largest value that is shown. An
        axis is extended if a value is beyond its ends.
        """
        interval = self.entry["ci95"] or ()
        before = (self.baseline or {}).get("mean")
        shown = [self.entry["mean"] or 0.0, *interval, *filter(None, [self.bound, before])]
        if self._entry_scale is not None:
            return min(self._entry_scale[0], *shown), max(self._entry_scale[1], *shown)
        end = 1.0 if max(shown) <= 1 and not self.entry.get("statistic") else max(shown) * 1.1 or 1.0
        return min(0.0, *shown), end

    @property
    def parts(self) -> list[tuple[str, int]]:
        """The number of questions by their change since the baseline; empty without a baseline.

        "unscored" counts the questions without a score, now or in the baseline.
        """
        if (comparison := self.baseline) is None:
            return []
        lost, better = len(comparison["worse"]), len(comparison["better"])
        same = comparison["n"] - lost - better
        return [("lost", lost), ("same", same), ("gained", better), ("unscored", comparison["unscored"])]

    @property
    def parts_text(self) -> str:
        return ", ".join(f"{count:,} {name}" for name, count in self.parts if count)

    @property
    def distribution(self) -> "Histogram | None":
        """A histogram of the scores of the questions; None without scores, and if each is 0 or 1."""
        scores = [example["score"] for example in self.entry["examples"] if example["score"] is not None]
        if all(score in {0, 1} for score in scores):
            return None
        low, high = self._entry_scale or (0.0, 1.0)
        low = min(low, *scores)
        # The axis of times ends at the largest time.
        end = max(scores) if "statistic" in self.entry else max(high, *scores)
        counts = [0] * BINS
        for score in scores:
            counts[min(BINS - 1, int((score - low) / (end - low) * BINS))] += 1
        label = f"scores of {counted(len(scores), 'question')}, from {low:g} to {end:g}"
        return Histogram(counts, low, end, label)


@dataclass(frozen=True)
class Histogram:
    """A histogram of scores: the count of each bar, the ends of the axis, and the text for screen readers."""

    counts: Sequence[int]
    low: float
    high: float
    label: str


@dataclass(frozen=True)
class HeatCell:
    """A score over the questions of a slice."""

    mean: float
    n: int
    change: float | None  # from the baseline, over the questions with both scores
    level: str  # the CSS class for the distance from the mean over all questions, such as "below-2"


def _heat_cell(rows: Sequence[QuestionRow], column: Column, overall: float | None) -> HeatCell | None:
    """Return the cell of a column from the questions of a slice; `overall` is the mean over all questions."""
    cells = [cell for row in rows if (cell := row.cells.get(column.index)) is not None]
    scores = [cell.now for cell in cells if cell.now is not None]
    if not scores or overall is None:
        return None
    mean = fmean(scores)
    changes = [cell.now - cell.before for cell in cells if cell.now is not None and cell.before is not None]
    # A level is 0.1, or a tenth of the overall mean if the mean is above 1, as for times.
    distance = (mean - overall) / max(1.0, abs(overall)) * 10
    level = min(3, round(abs(distance)))
    name = f"{'below' if distance < 0 else 'above'}-{level}" if level else ""
    return HeatCell(mean, len(scores), fmean(changes) if changes else None, name)


class ColumnView:
    def __init__(self, column: Column) -> None:
        self.column = column
        # Of the entries of a score, the one over the whole eval set that failed, or has a verdict, says most.
        entry = min(
            column.entries,
            key=lambda entry: (
                bool(entry["where"]),
                entry["verdict"] not in FAILING_VERDICTS,
                entry["verdict"] is None,
            ),
        )
        self.score: ScoreView = ScoreView(entry)
        # A narrow column breaks the name between its parts.
        self.name: str = re.sub(r"(?<=[._])|(?=@)", "\N{ZERO WIDTH SPACE}", column.name)


class TableView:
    """The questions of an eval set for the templates. `_render_questions` adds their HTML to the groups."""

    def __init__(self, table: QuestionTable, filters: Filters) -> None:
        self.table = table
        self.anchor: str = f"e-{short_digest(table.evalset)}"
        self.columns: list[ColumnView] = [ColumnView(column) for column in table.columns]
        self._ranks: list[tuple[str, Ranks]] = []
        self.groups: list[QuestionGroup] = [
            QuestionGroup(f"{self.anchor}-{number}", name, rows, self._heat_row(rows))
            for number, (name, rows) in enumerate(table.groups)
        ]
        self._tags = sorted(
            tag for tag, values in table.values_by_tag.items() if len(values) <= MAX_TAG_VALUES
        )
        self._filters = filters

    def add_to_plots(self, row: QuestionRow, variants: Sequence[Details]) -> None:
        if (ranks := ranks_of(variants)) is not None:
            self._ranks.append((row.id, ranks))

    @cached_property
    def plots(self) -> list[Plot]:
        return plots_of(self.table, self._ranks)

    @property
    def is_wide(self) -> bool:
        return len(self.columns) <= MAX_COLUMNS

    @cached_property
    def _means(self) -> list[float | None]:
        indices = range(len(self.columns))
        cells = ([row.cells.get(index) for row in self.table.rows] for index in indices)
        scores = ([cell.now for cell in each if cell and cell.now is not None] for each in cells)
        return [fmean(each) if each else None for each in scores]

    def _heat_row(self, rows: Sequence[QuestionRow]) -> list[HeatCell | None]:
        return [_heat_cell(rows, *each) for each in zip(self.table.columns, self._means, strict=True)]

    def tokens(self, row: QuestionRow, variants: Sequence[Details]) -> str:
        tokens = [state or "same" for state in sorted(row.states or {""})]
        for kind, key in (("case", "case"), ("lost by", "lost_by")):
            values = dict.fromkeys(value for each in variants for value in each.example_values(key))
            tokens += [self._filters.token(kind, value) for value in values]
        tokens += [
            self._filters.token(f"tag {name}", value) for name, value in row.tags if name in self._tags
        ]
        return " ".join(tokens)

    @property
    def heat(self) -> Iterator[tuple[str, list[tuple[str, int, list[HeatCell | None]]]]]:
        """Yield each tag with a table: a value, its number of questions, and a cell for each score."""
        for tag in self._tags if self.columns else ():
            rows_by_value: dict[str, list[QuestionRow]] = {}
            for row in self.table.rows:
                for name, value in row.tags:
                    if name == tag:
                        rows_by_value.setdefault(value, []).append(row)
            lines = [(value, len(rows), self._heat_row(rows)) for value, rows in rows_by_value.items()]
            # The lowest mean comes first, slices without a score last.
            yield (
                tag,
                sorted(lines, key=lambda line: (min((c.mean for c in line[2] if c), default=inf), line[0])),
            )


@dataclass
class QuestionGroup:
    """The questions with one value of a tag, and their means; `questions` is their HTML."""

    anchor: str
    name: str
    rows: Sequence[QuestionRow]
    means: Sequence[HeatCell | None]
    questions: list[Markup] = field(default_factory=list)

    @property
    def counts_text(self) -> str:
        states = ((state, sum(state in row.states for row in self.rows)) for state in ("lost", "gained"))
        changes = [f"{count} {state}" for state, count in states if count]
        return ", ".join([counted(len(self.rows), "question"), *changes])


class Card:
    def __init__(self, test: TestEntry) -> None:
        self.test = test
        self.name: str = test_name(test)
        self.anchor: str = anchor_of(test)
        self.notes: list[str] = [line.strip() for line in note_lines(test)]
        self.scores: list[ScoreView] = [ScoreView(entry) for entry in test["scores"]]

    @cached_property
    def distributions(self) -> list[tuple[str, "Histogram"]]:
        pairs = ((score.name, score.distribution) for score in self.scores)
        return [(name, histogram) for name, histogram in pairs if histogram is not None]

    @property
    def is_green(self) -> bool:
        verdicts = {entry["verdict"] for entry in self.test["scores"]}
        is_green = self.test["outcome"] in {"passed", "skipped", "better", "same"}
        return is_green and verdicts.isdisjoint({*FAILING_VERDICTS, "inconclusive"})

    @property
    def failed_otherwise(self) -> bool:
        """True if no threshold of the test failed, so that only the message says why the test failed."""
        return not any(entry["verdict"] in FAILING_VERDICTS for entry in self.test["scores"])


@dataclass(frozen=True)
class LeftOut:
    """The number of questions that are not shown in full."""

    passages: int  # shown without their passages
    questions: int  # not shown
    of: int  # all


def _render_questions(tables: Sequence[TableView]) -> LeftOut:
    """Add the HTML of the questions to their groups, within `MAX_QUESTION_BYTES`.

    The worst questions have precedence. All questions get a brief form, as far as they fit; then questions get their
    full form, as far as it fits.
    """
    rows = [(table, group, row) for table in tables for group in table.groups for row in group.rows]
    texts: dict[int, str] = {}
    total = 0
    order = sorted(range(len(rows)), key=lambda index: rows[index][2].order)

    def html_of(index: int, variants: Sequence[Details], *, full: bool) -> str:
        table, _, row = rows[index]
        return question_html(row, variants, table.table.columns, table.tokens(row, variants), full=full)

    has_room = True
    for index in order:
        table, _, row = rows[index]
        variants = row.read(table.table.columns)
        table.add_to_plots(row, variants)
        if has_room:
            text = html_of(index, variants, full=False)
            size = _byte_size(text)
            has_room = total + size <= MAX_QUESTION_BYTES
        if has_room:
            texts[index] = text
            total += size
    full = 0
    for index in order[: len(texts)]:
        if total > FULL_SHARE * MAX_QUESTION_BYTES:
            break
        # A question whose passages alone exceed the limit is not rendered.
        variants = rows[index][2].read(rows[index][0].table.columns)
        passages = [passage for each in variants for passage in each.entry.get("retrieved", ())]
        if total + sum(len(passage.get("text") or "") for passage in passages) <= MAX_QUESTION_BYTES:
            text = html_of(index, variants, full=True)
            size = _byte_size(text) - _byte_size(texts[index])
            if total + size <= MAX_QUESTION_BYTES:
                texts[index] = text
                total += size
                full += 1
    for index in sorted(texts):
        rows[index][1].questions.append(Markup(texts[index]))  # noqa: S704 - all texts are escaped
    return LeftOut(len(texts) - full, len(rows) - len(texts), len(rows))


def _byte_size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _matrix_view(matrix: Mapping[str, Any]) -> dict[str, Any]:
    columns = zip(*(row["cells"] for row in matrix["rows"]), strict=True)
    means = [max((cell["mean"] for cell in cells if cell is not None), default=0.0) for cells in columns]
    return {**matrix, "systems": system_names(matrix["rows"]), "max_means": means}


def _ratings_view(table: Mapping[str, Any]) -> dict[str, Any]:
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
