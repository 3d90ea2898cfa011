"""The HTML report: one page with an overview, the tests, and every question. All text is escaped."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import inf
from statistics import fmean
from typing import Any, Final

from markupsafe import Markup

from pytest_rageval.plural import counted
from pytest_rageval.reports.notes import gained, moved_text
from pytest_rageval.reports.page import environment, render
from pytest_rageval.reports.question_rows import QuestionRow, question_rows
from pytest_rageval.reports.results import entry_name, models_text, sliced_name, usage_lines
from pytest_rageval.reports.systems import system_names
from pytest_rageval.reports.terminal import (
    BROKEN,
    by_urgency,
    headline,
    notes,
    test_name,
    threshold_text,
    warning_lines,
)

__all__ = ["Fact", "html_page", "html_report"]

LARGEST: Final = 10_000_000
"""Bytes of all questions: what does not fit is left out, and counted."""

MOST_VALUES: Final = 40  # of a tag: one with more, such as an id of each question, is no slice and no filter

BINS: Final = 11  # of a histogram; odd, so that the one in the middle is around 0

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
    left_out = _write(groups, filters)
    return render(
        "report.html",
        styles=("report.css",),
        scripts=("report.js",),
        document=document,
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
    """What identifies the run and its baseline."""
    run = document.get("run", {})
    yield Fact("Started", document["started"].replace("T", " "))
    yield Fact("Duration", f"{document['duration_s']:.1f} s")
    if commit := run.get("commit"):
        dirty = ", with changes that are not committed" if run.get("dirty") else ""
        yield Fact("Commit", f"{commit[:12]}{dirty}")
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
    """What the questions can be filtered by: each value of a case, a cause or a tag, with a short token."""

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
        by_name = {name: _states(rows, name) for name in self.columns}
        self.scores = [ScoreView(entry, by_name.get(entry_name(entry), {})) for entry in test["scores"]]

    @property
    def is_wide(self) -> bool:
        """Whether the scores of a question fit into columns."""
        return len(self.columns) <= MOST_COLUMNS

    @property
    def failed_otherwise(self) -> bool:
        """Whether the message alone says why it failed."""
        return not any(entry["verdict"] in BROKEN for entry in self.test["scores"])

    def tokens(self, row: QuestionRow) -> str:
        """What a question is filtered by."""
        found = [state or "same" for state in sorted(row.states or {""})]
        for kind, key in (("case", "case"), ("lost by", "lost_by")):
            found += [self._filters.token(kind, value) for value in row.known(key)]
        found += [
            self._filters.token(f"tag {name}", value) for name, value in row.tags if name in self._tags
        ]
        return " ".join(found)

    @property
    def heat(self) -> Iterator[tuple[str, list[tuple[str, int, list["HeatCell | None"]]]]]:
        """For each tag its values, with how many questions have one and the mean of each score over these."""
        overall = [_mean(self.rows, name) for name in self.columns]
        for tag in self._tags if self.columns else ():
            rows_of: dict[str, list[QuestionRow]] = {}
            for row in self.rows:
                for name, value in row.tags:
                    if name == tag:
                        rows_of.setdefault(value, []).append(row)
            table = [
                (value, len(rows), [HeatCell.of(rows, name, all_) for name, all_ in zip(self.columns, overall, strict=True)])
                for value, rows in rows_of.items()
            ]
            yield tag, sorted(table, key=_lowest)


@dataclass(frozen=True)
class HeatCell:
    """The mean of a score over the questions of a slice, its change, and how far it is from the mean over all."""

    mean: float
    n: int
    change: float | None
    level: str

    @classmethod
    def of(cls, rows: Sequence[QuestionRow], name: str, overall: float | None) -> "HeatCell | None":
        """The cell of a score; None where no question of the slice has one."""
        mean = _mean(rows, name)
        if mean is None or overall is None:
            return None
        said = [cell.said for row in rows for cell in row.cells if cell.name == name]
        pairs = [
            (each["before"], each["score"])
            for each in said
            if each.get("score") is not None and each.get("before") is not None
        ]
        change = fmean(now - before for before, now in pairs) if pairs else None
        # In steps of a tenth of the scale, or of the mean over all where that is above 1, as of a time.
        away = (mean - overall) / max(1.0, abs(overall)) * 10
        level = min(3, round(abs(away)))
        n = sum(each.get("score") is not None for each in said)
        return cls(mean, n, change, f"{'below' if away < 0 else 'above'}-{level}" if level else "")


def _lowest(line: tuple[str, int, list[HeatCell | None]]) -> tuple[float, str]:
    """The order of slices: the lowest first, those without a score last."""
    means = [cell.mean for cell in line[2] if cell is not None]
    return min(means, default=inf), line[0]


def _mean(rows: Iterable[QuestionRow], name: str) -> float | None:
    scores = [
        cell.said["score"]
        for row in rows
        for cell in row.cells
        if cell.name == name and cell.said.get("score") is not None
    ]
    return fmean(scores) if scores else None


def _tags(rows: Iterable[QuestionRow]) -> list[str]:
    """The tags that make slices: with several values, but not as many as questions."""
    values: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.tags:
            values.setdefault(name, set()).add(value)
    return sorted(name for name, found in values.items() if len(found) <= MOST_VALUES)


def _states(rows: Iterable[QuestionRow], name: str) -> dict[str, int]:
    """How many questions a score lost, gained, and so on; "compared" are those with a score in the baseline."""
    counts = dict.fromkeys(("lost", "gained", "same", "unscored"), 0)
    for row in rows:
        for cell in row.cells:
            if cell.name == name:
                state = cell.moved if cell.moved in counts else "same"
                counts[state] += 1
    return counts


class ScoreView:
    """A score for the templates: what the table of the overview and the charts are made of."""

    def __init__(self, entry: Mapping[str, Any], states: Mapping[str, int]) -> None:
        self.entry = entry
        self.name = sliced_name(entry)
        self.threshold = threshold_text(entry["threshold"] or {})
        # The questions of a slice are some of those of the column.
        self._states = states if not entry["where"] else {}

    @property
    def baseline(self) -> Mapping[str, Any] | None:
        """The comparison with the baseline, or else with the anchor."""
        return self.entry.get("baseline") or self.entry.get("anchor")

    @property
    def change(self) -> float | None:
        """The change of the mean from the baseline."""
        return None if self.baseline is None else -self.baseline["drop"]

    @property
    def change_interval(self) -> tuple[float, float] | None:
        """The interval of the change."""
        interval = (self.baseline or {}).get("interval")
        return None if interval is None else (-interval[1], -interval[0])

    @property
    def is_sure(self) -> bool:
        """Whether the change is shown as a gain or a loss, and not as noise."""
        return gained(self.entry) is not None or (self.entry["verdict"] == "fail" and bool(self.change))

    @property
    def p_value(self) -> float | None:
        """Of the test of the drop."""
        return (self.baseline or {}).get("p_value")

    @property
    def bound(self) -> float | None:
        """The bound of the mean."""
        threshold = self.entry["threshold"] or {}
        least, most = threshold.get("min"), threshold.get("max")
        return least if least is not None else most

    @property
    def scale(self) -> tuple[float, float]:
        """The ends of the axis: 0 and 1, or from 0 to beyond what is shown, as of a time."""
        interval = self.entry["ci95"] or ()
        shown = [self.entry["mean"] or 0.0, *interval, *filter(None, [self.bound, (self.baseline or {}).get("mean")])]
        return min(0.0, *shown), (1.0 if max(shown) <= 1 and not self.entry.get("statistic") else max(shown) * 1.1 or 1.0)

    @property
    def moved(self) -> str:
        """The change in words."""
        return moved_text(self.entry) or "-"

    @property
    def parts(self) -> list[tuple[str, int]]:
        """The questions that were lost, are the same, were gained, and have no score."""
        if self._states and self.baseline is not None:
            return [(name, self._states[name]) for name in ("lost", "same", "gained", "unscored")]
        compared = self.baseline
        if compared is None:
            return []
        lost, better = len(compared["worse"]), len(compared["better"])
        return [("lost", lost), ("same", compared["n"] - lost - better), ("gained", better)]

    @property
    def parts_text(self) -> str:
        """The same in words."""
        return ", ".join(f"{count:,} {name}" for name, count in self.parts if count)

    @property
    def differences(self) -> "Histogram | None":
        """How the questions moved that did; None where none did or no score of the baseline is known."""
        pairs = ((each.get("before"), each.get("score")) for each in self.entry["examples"])
        moved = [now - then for then, now in pairs if then is not None and now is not None and now != then]
        return Histogram.of_differences(moved) if moved else None

    @property
    def distribution(self) -> "Histogram | None":
        """How many questions have which score."""
        scores = [each["score"] for each in self.entry["examples"] if each["score"] is not None]
        return Histogram.of_scores(scores) if scores else None


@dataclass(frozen=True)
class Histogram:
    """Bars, each a class and a count, from `low` to `high`."""

    bars: Sequence[tuple[str, int]]
    low: float
    high: float
    label: str

    @classmethod
    def of_differences(cls, values: Sequence[float]) -> "Histogram":
        """Losses on the left and gains on the right of an axis with 0 in its middle."""
        end = max(map(abs, values)) if max(map(abs, values)) > 1 else 1.0
        counts = [0] * BINS
        for value in values:
            counts[min(BINS - 1, int((value + end) / (2 * end) * BINS))] += 1
        middle = BINS // 2
        bars = [("lost" if at < middle else "gained" if at > middle else "same", n) for at, n in enumerate(counts)]
        less = sum(value < 0 for value in values)
        label = f"differences of {counted(len(values), 'question')}: {less} lower, {len(values) - less} higher"
        return cls(bars, -end, end, label)

    @classmethod
    def of_scores(cls, values: Sequence[float]) -> "Histogram":
        """Scores from 0 to 1, or to the largest."""
        end = max(1.0, *values)
        low = min(0.0, *values)
        counts = [0] * (BINS - 1)
        for value in values:
            counts[min(BINS - 2, int((value - low) / (end - low) * (BINS - 1)))] += 1
        label = f"scores of {counted(len(values), 'question')}, from {low:g} to {end:g}"
        return cls([("scores", n) for n in counts], low, end, label)


@dataclass(frozen=True)
class LeftOut:
    """How many questions of `of` are without their passages, and how many are not there at all."""

    passages: int
    questions: int
    of: int


def _write(groups: Sequence[Group], filters: Filters) -> LeftOut:
    """Write the questions of all groups into them, the worst in full, as far as `LARGEST` allows."""
    template = environment().get_template("question.html")
    rows = [(group, row) for group in groups for row in group.rows]
    brief: dict[int, Markup] = {}
    total = 0
    order = sorted(range(len(rows)), key=lambda at: rows[at][1].order)

    def written(at: int, *, full: bool) -> Markup:
        group, row = rows[at]
        values = {"q": row, "tokens": group.tokens(row), "full": full}
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
    """A table of ratings for its template: with the ends of the axis of its intervals."""
    ends = [end for row in table["systems"] for end in row["ci95"]]
    return {**table, "low": min(ends, default=0.0), "high": max(ends, default=1.0)}
