"""Reads and writes the history of a project: a JSON Lines file to which `--rageval history=FILE` appends each run.

A line has the scores of a run by test. A merge of two branches may leave the lines in any order: `read_history` sorts
the runs by time.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final, NamedTuple, Required, Self, TypedDict, cast

from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.lib.files import append_line
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.lib.shape import check_shape, parse_json
from pytest_rageval.reports.build import sliced_name
from pytest_rageval.reports.document import Count, Length, ReportDocument, ScoreEntry, TestEntry
from pytest_rageval.reports.gated_tests import failing_gates
from pytest_rageval.reports.reading import read_content
from pytest_rageval.reports.terminal import FAILING_VERDICTS, VERDICTS
from pytest_rageval.run import FinishedRun

SCHEMA: Final = 1

MAX_CHART_RUNS: Final = 20  # number of runs in the chart of a report

SIGNIFICANT_DIGITS: Final = 6  # of a number in the file
COMMIT_DIGITS: Final = 7  # number of digits of a commit in the name of a run
EVALSET_DIGITS: Final = 12  # number of hex digits of an eval set's digest in the file

MIN_AXIS_SHARE: Final = 0.1  # length of an axis by its largest value, so that small noise looks small
CONFLICT_MARKERS: Final = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")


class HistoryScore(TypedDict, total=False):
    mean: Required[float | None]
    statistic: str | None
    ci95: Annotated[list[float], Length(2)] | None
    n: Count
    unscored: Count
    verdict: str | None
    baseline: float | None
    anchor: float | None


class HistoryTest(TypedDict, total=False):
    outcome: str | None
    evalset: str | None
    scores: Required[dict[str, HistoryScore]]


class HistoryLine(TypedDict, total=False):
    """The keys of a line that are read."""

    commit: str | None
    branch: str | None
    title: str | None
    url: str | None
    tests: Required[dict[str, HistoryTest]]


class ScoreKey(NamedTuple):
    """The key of a score in the history: the node id of its test, and its name with its slice."""

    nodeid: str
    score: str


@dataclass(frozen=True, slots=True)
class Point:
    mean: float | None
    interval: tuple[float, float] | None
    n: int
    unscored: int
    verdict: str | None  # the worst; "expected" for an expected failure, "new" without a baseline yet
    baseline: float | None
    anchor: float | None
    statistic: str | None  # in place of the mean, such as "p95"
    evalset: str | None  # a digest: points with different ones cannot be compared


@dataclass(frozen=True, slots=True)
class Run:
    time: datetime
    commit: str | None
    branch: str | None
    title: str | None
    url: str | None
    dirty: bool  # with uncommitted changes
    stopped: bool  # ended early: tests may be missing
    points: Mapping[ScoreKey, Point]
    line: JsonObject = field(repr=False)

    @property
    def name(self) -> str:
        if self.commit is None:
            return f"{self.time:%Y-%m-%d %H:%M}"
        return f"{self.commit[:COMMIT_DIGITS]}{'+' if self.dirty else ''}"

    @classmethod
    def from_line(cls, line: JsonObject, time: datetime | None = None) -> Self:
        check_shape(line, HistoryLine)
        tests = cast("HistoryLine", line)["tests"]
        points = {}
        for nodeid, test in tests.items():
            for name, score in test["scores"].items():
                verdict, ends = score.get("verdict"), score.get("ci95")
                is_expected = test.get("outcome") == "xfailed" and verdict in FAILING_VERDICTS
                points[ScoreKey(nodeid, name)] = Point(
                    mean=score["mean"],
                    interval=None if ends is None else (ends[0], ends[1]),
                    n=score.get("n", 0),
                    unscored=score.get("unscored", 0),
                    verdict="expected" if is_expected else verdict,
                    baseline=score.get("baseline"),
                    anchor=score.get("anchor"),
                    statistic=score.get("statistic"),
                    evalset=test.get("evalset"),
                )
        return cls(
            time=_parse_time(line.get("time")) if time is None else time,
            commit=line.get("commit") or None,
            branch=line.get("branch") or None,
            title=line.get("title") or None,
            url=line.get("url") or None,
            dirty=line.get("dirty") is True,
            stopped=line.get("stopped") is True,
            points=points,
            line=line,
        )


def history_entry(document: ReportDocument) -> dict[str, object]:
    tests = {test["nodeid"]: _test_entry(test) for test in document["tests"]}
    if all(score["mean"] is None for test in tests.values() for score in test["scores"].values()):
        return {}
    run, llm = document.get("run", {}), document["llm"]
    return {
        "schema": SCHEMA,
        "time": document["started"],
        **{name: run[name] for name in ("commit", "branch", "title", "url") if run.get(name)},
        **({"dirty": True} if run.get("dirty") else {}),
        **({"stopped": True} if document["stopped"] else {}),
        **({"missing": missing} if (missing := failing_gates(document.get("gate", {}))) else {}),
        **({"suite": "fail"} if document.get("suite", {}).get("verdict") == "fail" else {}),
        "package": document["package"],
        "duration_s": _round(document["duration_s"]),
        "llm": {name: _round(llm[name]) for name in ("live", "tokens_in", "tokens_out", "cost_usd")},
        "tests": dict(sorted(tests.items())),
    }


def _test_entry(test: TestEntry) -> dict[str, Any]:
    digest = (test.get("evalset") or {}).get("digest")
    scores: dict[str, dict[str, object]] = {}
    for entry in (part for whole in test["scores"] for part in _split_by_tag(whole)):
        new = _score_entry(entry)
        # Several thresholds may bound one score: the worst verdict counts.
        merged = scores.setdefault(sliced_name(entry), new)
        merged.update({name: value for name, value in new.items() if name not in merged})
        merged["verdict"] = min(merged["verdict"], new["verdict"], key=severity_rank)
    return {
        "outcome": test["outcome"],
        **({"evalset": digest[:EVALSET_DIGITS]} if digest else {}),
        "scores": dict(sorted(scores.items())),
    }


def _split_by_tag(entry: ScoreEntry) -> Iterator[ScoreEntry]:
    """Yield an entry for each value of the tag `by`: the entry itself is about the worst, which varies."""
    by = entry.get("by")
    if by is None:
        yield entry
        return
    for item in by["slices"]:
        yield cast("ScoreEntry", {**entry, **item, "where": {**entry["where"], by["tag"]: item["value"]}})


def _score_entry(entry: ScoreEntry) -> dict[str, Any]:
    interval = entry["ci95"]
    baseline, anchor = entry.get("baseline") or {}, entry.get("anchor") or {}
    means = {"baseline": baseline.get("mean"), "anchor": anchor.get("mean")}
    return {
        "mean": _round(entry["mean"]),
        **({"statistic": entry["statistic"]} if "statistic" in entry else {}),
        **({"ci95": [_round(end) for end in interval]} if interval else {}),
        "n": entry["n"],
        "unscored": entry["unscored"],
        # A score that waits for its first baseline is an error under CI, and no failure of the retriever.
        "verdict": "new" if entry.get("new") and entry["verdict"] == "error" else entry["verdict"],
        **{name: _round(mean) for name, mean in means.items() if mean is not None},
    }


def severity_rank(verdict: str | None) -> int:
    verdicts = list(VERDICTS)
    return verdicts.index(verdict) if verdict in VERDICTS else len(verdicts)


def _round(number: float | None) -> float | None:
    return number if number is None or isinstance(number, int) else float(f"{number:.{SIGNIFICANT_DIGITS}g}")


def add_run(run: FinishedRun, path: Path) -> dict[str, object]:
    """Append a run to a history; return its last runs as the key `history` of the report, if there are any."""
    entry = history_entry(cast("ReportDocument", run.document))
    if not entry:
        return {}
    is_merged = "is merged" in run.settings.effects
    if is_merged or run.settings.sample < 1:
        instead = "; add it with rageval merge --history" if is_merged else ""
        run.notes.append(
            f"history: nothing added to {path}, as this run scores only some of the questions{instead}"
        )
        return {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        append_run(path, entry)
    except OSError as error:
        raise InputError(f"The history {path} cannot be written: {error.strerror or error}.") from None
    run.notes.append(f"history: {path}")
    try:
        before = [each.line for each in read_history(path, last=MAX_CHART_RUNS) if each.line != entry]
    except InputError as error:
        run.warnings.append(f"{error}\nReports have no chart of it.")
        return {}
    # This run is the last, even if the clocks of other machines are ahead.
    return {"history": [*before, entry][-MAX_CHART_RUNS:]}


def append_run(path: Path, entry: Mapping[str, object]) -> None:
    text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # UTF-8 cannot encode an unpaired surrogate; `backslashreplace` writes JSON's escape for it.
    append_line(path, text.encode(errors="backslashreplace"))


def read_history(path: Path, *, last: int = 0) -> list[Run]:
    """Return the runs of the file, the oldest first; with `last` only so many, and only their lines are checked."""
    remedy = f"A history is written by: pytest --rageval history={path.name}"
    content = read_content(path, "history", remedy)
    lines = []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            with _name_line(path, number):
                parsed = _parse_line(line)
                lines.append((_parse_time(parsed.get("time")), number, parsed))
    runs = []
    # Runs with equal times are in the order of the file.
    for time, number, parsed in sorted(lines, key=lambda item: item[:2])[-last:]:
        with _name_line(path, number):
            runs.append(Run.from_line(parsed, time))
    return runs


@contextmanager
def _name_line(path: Path, number: int) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise InputError(
            f"{path}, line {number}: {error}.\n"
            "Restore the line from git, or delete it; the other lines are runs of their own."
        ) from None


def _parse_line(line: bytes) -> Mapping[str, object]:
    if line.startswith(tuple(mark.encode() for mark in CONFLICT_MARKERS)):
        raise ValueError(
            "it is the mark of a merge conflict; delete the marks and keep all runs. "
            "With the line `history.jsonl merge=union` in .gitattributes git keeps the lines of both sides"
        )
    try:
        parsed = parse_json(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at character {error.pos + 1}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: {error.reason}") from None
    check_shape(parsed, dict)
    schema = parsed.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise ValueError(f"it has schema {schema}, and this version reads up to {SCHEMA}; update the package")
    if schema != SCHEMA or isinstance(schema, bool):
        raise ValueError("it has no schema number of pytest-rageval's history")
    return cast("Mapping[str, object]", parsed)


def _parse_time(text: object) -> datetime:
    try:
        time = datetime.fromisoformat(cast("str", text))
    except (TypeError, ValueError):
        raise ValueError(f"time is {text!r:.40}, and must be a date and time in ISO 8601") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def filter_runs(runs: Sequence[Run], *, test: str | None = None, score: str | None = None) -> list[Run]:
    keys = {key: None for run in runs for key in run.points}
    tests = _select_names(test, (key.nodeid for key in keys), "test")
    scores = _select_names(score, (key.score for key in keys if key.nodeid in tests), "score")
    selected = {key for key in keys if key.nodeid in tests and key.score in scores}
    filtered = (_keep_scores(run, selected) for run in runs)
    return [run for run in filtered if run.points]


def _keep_scores(run: Run, keys: Collection[ScoreKey]) -> Run:
    points = {key: point for key, point in run.points.items() if key in keys}
    tests = {
        nodeid: {**test, "scores": kept}
        for nodeid, test in run.line["tests"].items()
        if (kept := {name: score for name, score in test["scores"].items() if (nodeid, name) in points})
    }
    return replace(run, points=points, line={**run.line, "tests": tests})


def _select_names(wanted: str | None, names: Iterable[str], what: str) -> set[str]:
    known = set(names)
    if wanted is None:
        return known
    if wanted in known:
        return {wanted}
    matches = {name for name in known if wanted in name}
    if not matches:
        choices = "".join(f"\n  {name}" for name in sorted(known))
        raise InputError(f"There is no {what} {wanted!r}.{did_you_mean(wanted, known)} There is:{choices}")
    return matches


def series(runs: Sequence[Run]) -> dict[ScoreKey, list[tuple[Run, Point]]]:
    points: dict[ScoreKey, list[tuple[Run, Point]]] = {}
    for run in runs:
        for key, point in run.points.items():
            points.setdefault(key, []).append((run, point))
    return dict(sorted(points.items()))


def value_range(points: Sequence[Point]) -> tuple[float, float]:
    """Return the minimum and the maximum of all means, interval ends, baselines and anchors; 0 and 0 without means.

    The end of an interval counts as at most the median length of all intervals away from its mean: one run of few
    questions must not flatten all others.
    """
    scored = [(point.mean, point) for point in points if point.mean is not None]
    lengths = [high - low for low, high in (point.interval for _, point in scored if point.interval)]
    limit = median(lengths or [0.0])
    values = [
        value
        for mean, point in scored
        for value in (
            mean,
            *(min(max(end, mean - limit), mean + limit) for end in point.interval or ()),
            point.baseline,
            point.anchor,
        )
        if value is not None
    ]
    return min(values, default=0.0), max(values, default=0.0)


def axis_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis, with a margin that does not go below 0 or above 1 if no value does."""
    low, high = min(values), max(values)
    min_length = MIN_AXIS_SHARE * (max(abs(low), abs(high)) or 1)
    margin = max(high - low, min_length) / 10 + max(0, min_length - (high - low)) / 2
    bottom, top = low - margin, high + margin
    return (max(bottom, 0) if low >= 0 else bottom, min(top, 1) if high <= 1 else top)
