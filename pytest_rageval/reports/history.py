"""The history of a project: one line per run, with its scores by test, which `--rageval-history` appends.

Lines of two branches may be merged in any order: `read_history` sorts them by time.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.files import append_line, refuse_special
from pytest_rageval.reports.document import ScoreEntry
from pytest_rageval.reports.results import sliced_name
from pytest_rageval.reports.terminal import BROKEN, VERDICTS

__all__ = [
    "CHARTED",
    "Point",
    "Run",
    "ScoreKey",
    "add_run",
    "append_run",
    "badness",
    "history_entry",
    "narrowed",
    "read_history",
    "series",
]

SCHEMA: Final = 1

CHARTED: Final = 20  # runs in the chart of a report

DIGITS: Final = 6  # significant digits of a number in the file
SHORT: Final = 7  # digits of a commit that are shown
LARGEST: Final = 1e100  # a larger number is damage
EVALSET: Final = 12  # digits of an eval set's digest in the file

MERGE_MARKS: Final = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")

GITATTRIBUTES: Final = "merge=union"


class ScoreKey(NamedTuple):
    """A score of a test, as reports name it."""

    nodeid: str
    score: str


@dataclass(frozen=True, slots=True)
class Point:
    """A score in one run; `baseline` and `anchor` are the means that it was compared with.

    `statistic` names the statistic if it is not a mean, such as "p95". Scores of different `evalset`s cannot be
    compared.
    """

    mean: float | None
    interval: tuple[float, float] | None
    n: int
    unscored: int
    verdict: str | None
    baseline: float | None
    anchor: float | None
    statistic: str | None
    evalset: str | None


@dataclass(frozen=True, slots=True)
class Run:
    """A line of the file: `plain` is its JSON, `outcomes` are those of the tests by node id."""

    time: datetime
    commit: str | None
    branch: str | None
    title: str | None
    url: str | None
    dirty: bool
    stopped: bool
    outcomes: Mapping[str, str]
    points: Mapping[ScoreKey, Point]
    plain: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        """The beginning of its commit, with a plus sign where files were changed; without a commit its time."""
        if self.commit is None:
            return f"{self.time:%Y-%m-%d %H:%M}"
        return f"{self.commit[:SHORT]}{'+' if self.dirty else ''}"

    @classmethod
    def of(cls, line: Mapping[str, Any], time: datetime | None = None) -> Self:
        """The run of a line, whose time may be known.

        Raises:
            ValueError: a part of it has another form; says which.
        """
        outcomes, points = {}, {}
        for nodeid, test in _object(line.get("tests"), "tests").items():
            of_test = _object(test, nodeid)
            outcome, evalset = _text(of_test, "outcome") or "", _text(of_test, "evalset")
            outcomes[nodeid] = outcome
            for name, score in _object(of_test.get("scores"), f"scores of {nodeid}").items():
                point = _point(_object(score, name), evalset)
                expected = outcome == "xfailed" and point.verdict in BROKEN
                points[ScoreKey(nodeid, name)] = replace(point, verdict="expected") if expected else point
        return cls(
            time=_time(_text(line, "time")) if time is None else time,
            commit=_text(line, "commit") or None,
            branch=_text(line, "branch") or None,
            title=_text(line, "title") or None,
            url=_text(line, "url") or None,
            dirty=line.get("dirty") is True,
            stopped=line.get("stopped") is True,
            outcomes=outcomes,
            points=points,
            plain=line,
        )


def history_entry(document: Mapping[str, Any]) -> dict[str, Any]:
    """The line of a run, from its report; empty where no score has a value."""
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
        "package": document["package"],
        "duration_s": _rounded(document["duration_s"]),
        "llm": {name: _rounded(llm[name]) for name in ("live", "tokens_in", "tokens_out", "cost_usd")},
        "tests": dict(sorted(tests.items())),
    }


def _test_entry(test: Mapping[str, Any]) -> dict[str, Any]:
    digest = (test.get("evalset") or {}).get("digest")
    scores: dict[str, dict[str, Any]] = {}
    for entry in (each for whole in test["scores"] for each in _slices(whole)):
        found = _score_entry(entry)
        # Several thresholds may bound one score: the worst verdict counts.
        known = scores.setdefault(sliced_name(entry), found)
        known.update({name: value for name, value in found.items() if name not in known})
        known["verdict"] = min(known["verdict"], found["verdict"], key=badness)
    return {
        "outcome": test["outcome"],
        **({"evalset": digest[:EVALSET]} if digest else {}),
        "scores": dict(sorted(scores.items())),
    }


def _slices(entry: ScoreEntry) -> Iterator[ScoreEntry]:
    """The entry, or with `by` one for each value of the tag: which is the worst differs from run to run."""
    by = entry.get("by")
    if by is None:
        yield entry
        return
    for each in by["slices"]:
        yield {**entry, **each, "where": {**entry["where"], by["tag"]: each["value"]}}


def _score_entry(entry: ScoreEntry) -> dict[str, Any]:
    interval = entry["ci95"]
    baseline, anchor = entry.get("baseline") or {}, entry.get("anchor") or {}
    compared = {"baseline": baseline.get("mean"), "anchor": anchor.get("mean")}
    return {
        "mean": _rounded(entry["mean"]),
        **({"statistic": entry["statistic"]} if "statistic" in entry else {}),
        **({"ci95": [_rounded(end) for end in interval]} if interval else {}),
        "n": entry["n"],
        "unscored": entry["unscored"],
        "verdict": entry["verdict"],
        **{name: _rounded(mean) for name, mean in compared.items() if mean is not None},
    }


def badness(verdict: str | None) -> int:
    """The place of a verdict among all, from the worst to none; one of a later version is like none."""
    verdicts = list(VERDICTS)
    return verdicts.index(verdict) if verdict in VERDICTS else len(verdicts)


def _rounded(number: float | None) -> float | None:
    return number if number is None or isinstance(number, int) else float(f"{number:.{DIGITS}g}")


def add_run(path: Path, entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Append a run to the file, which is made if it is missing; return the last runs, for its reports.

    Raises:
        OSError: it cannot be written; the file is unchanged.
        InputError: the run was appended, and the other runs cannot be read.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    append_run(path, entry)
    before = [run.plain for run in read_history(path, last=CHARTED) if run.plain != entry]
    # This run is the last, even if the clocks of other machines are ahead.
    return [*before, entry][-CHARTED:]


def append_run(path: Path, entry: Mapping[str, Any]) -> None:
    """Append a run to the file, which is made if it is missing, and whose other lines are not read.

    Raises:
        OSError: it cannot be written; the file is unchanged.
    """
    text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # UTF-8 has no half of a surrogate pair; this is JSON's escape for it.
    append_line(path, text.encode(errors="backslashreplace"))


def read_history(path: Path, *, last: int = 0) -> list[Run]:
    """The runs of the file, the oldest first; with `last` so many of them, and the others are checked less.

    Raises:
        InputError: it cannot be read, or a line is not a run; names the first such line.
    """
    remedy = f"A history is written by: pytest --rageval-history {path.name}"
    try:
        refuse_special(path)
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"The history {path} cannot be read: {error.strerror or error}.\n{remedy}") from None
    lines = []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            with _place(path, number):
                plain = _object(_parsed(line), "it")
                _check_schema(plain)
                lines.append((_time(_text(plain, "time")), number, plain))
    runs = []
    # Of equal times the file has the order.
    for time, number, plain in sorted(lines, key=lambda each: each[:2])[-last:]:
        with _place(path, number):
            runs.append(Run.of(plain, time))
    return runs


@contextmanager
def _place(path: Path, number: int) -> Iterator[None]:
    """Name the line in an error."""
    try:
        yield
    except ValueError as error:
        raise InputError(
            f"{path}, line {number}: {error}.\n"
            "Restore the line from git, or delete it; the other lines are runs of their own."
        ) from None


def _check_schema(line: Mapping[str, Any]) -> None:
    schema = line.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise ValueError(f"it has schema {schema}, and this version reads up to {SCHEMA}; update the package")
    if schema != SCHEMA or isinstance(schema, bool):
        raise ValueError("it has no schema number of pytest-rageval's history")


def _parsed(line: bytes) -> object:
    if line.startswith(tuple(mark.encode() for mark in MERGE_MARKS)):
        raise ValueError(
            "it is the mark of a merge conflict; delete the marks and keep all runs. "
            f"With the line `history.jsonl {GITATTRIBUTES}` in .gitattributes git keeps the lines of both sides"
        )
    try:
        return json.loads(line, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} at character {error.pos + 1}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: {error.reason}") from None
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _point(score: Mapping[str, Any], evalset: str | None) -> Point:
    ends = score.get("ci95")
    if ends is not None and (not isinstance(ends, list) or len(ends) != 2):  # noqa: PLR2004 - two ends
        raise ValueError("ci95 is not a pair of numbers")
    low, high = (None, None) if ends is None else (_number({"ci95": end}, "ci95") for end in ends)
    return Point(
        mean=_number(score, "mean"),
        interval=None if low is None or high is None else (low, high),
        n=int(_number(score, "n") or 0),
        unscored=int(_number(score, "unscored") or 0),
        verdict=_text(score, "verdict"),
        baseline=_number(score, "baseline"),
        anchor=_number(score, "anchor"),
        statistic=_text(score, "statistic"),
        evalset=evalset,
    )


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not an object")  # noqa: TRY004 - caught with other damage
    return value


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is {value!r:.40}, and must be a text")
    return value


def _number(fields: Mapping[str, Any], name: str) -> float | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise ValueError(f"{name} is {value!r:.40}, and must be a number or null")
    return float(value)


def _time(text: str | None) -> datetime:
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        raise ValueError(f"time is {text!r:.40}, and must be a date and time in ISO 8601") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def narrowed(runs: Sequence[Run], *, test: str | None = None, score: str | None = None) -> list[Run]:
    """The runs with the scores of these tests and of these names, without those that have none of them.

    Both are whole names, or parts of several; a whole name comes first.

    Raises:
        InputError: no run has such a score.
    """
    keys = {key: None for run in runs for key in run.points}
    tests = _matching(test, (key.nodeid for key in keys), "test")
    scores = _matching(score, (key.score for key in keys if key.nodeid in tests), "score")
    narrow = (
        _narrow(run, {key for key in keys if key.nodeid in tests and key.score in scores}) for run in runs
    )
    return [run for run in narrow if run.points]


def _narrow(run: Run, keys: Collection[ScoreKey]) -> Run:
    points = {key: point for key, point in run.points.items() if key in keys}
    of_test = {
        nodeid: [key.score for key in found] for nodeid, found in groupby(points, key=lambda key: key.nodeid)
    }
    tests = {
        nodeid: {**test, "scores": {name: test["scores"][name] for name in of_test[nodeid]}}
        for nodeid, test in run.plain["tests"].items()
        if nodeid in of_test
    }
    outcomes = {nodeid: run.outcomes[nodeid] for nodeid in of_test}
    return replace(run, points=points, outcomes=outcomes, plain={**run.plain, "tests": tests})


def _matching(wanted: str | None, names: Iterable[str], what: str) -> set[str]:
    known = set(names)
    if wanted is None:
        return known
    if wanted in known:
        return {wanted}
    found = {name for name in known if wanted in name}
    if not found:
        listed = "".join(f"\n  {name}" for name in sorted(known))
        raise InputError(f"There is no {what} {wanted!r}.{did_you_mean(wanted, known)} There is:{listed}")
    return found


def series(runs: Sequence[Run]) -> dict[ScoreKey, list[tuple[Run, Point]]]:
    """Each score with its points in the order of the runs, by test and name."""
    found: dict[ScoreKey, list[tuple[Run, Point]]] = {}
    for run in runs:
        for key, point in run.points.items():
            found.setdefault(key, []).append((run, point))
    return dict(sorted(found.items()))
