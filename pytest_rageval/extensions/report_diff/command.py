"""`rageval diff`: prints how two runs, or two systems in a run, differ question by question; or writes it as a page."""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_rageval.cli.console import echo, echo_err, format_table, to_one_line
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.spec import SCORE_KEYWORDS
from pytest_rageval.extensions.report_diff.diff import (
    Report,
    ScoreComparison,
    compare_reports,
    format_change,
    format_ids,
    select_system,
)
from pytest_rageval.lib.files import write_atomically
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import counted
from pytest_rageval.reports.questions import single_question_lines
from pytest_rageval.reports.reading import read_report
from pytest_rageval.reports.terminal import number_text

# Imported at the first use: they need Jinja2.
Fact: Final = Lazy("reports.html.page", "Fact")
html_page: Final = Lazy("reports.html.page", "html_page")

ALPHA: Final = 0.05  # a score with a p-value up to this is called worse or better

CHANGES: Final = ("worse", "unclear", "better", "same")  # of a score, the most urgent first
NO_REQUESTS: Final[dict[str, object]] = {
    "requests": 0,
    "cached": 0,
    "live": 0,
    "failed": 0,
    "cut": 0,
    "remarks": {},
}

BASELINE_KEYS: Final = ("before", "before_answer", "before_retrieved")  # of its own run


def diff_command(options: argparse.Namespace) -> int:
    before, after = _read_reports(options)
    comparisons, notes = compare_reports(before, after)
    if options.html is not None:
        _write_page(options.html, before, after, comparisons, notes)
    if options.json:
        scores = [_json_entry(comparison) for comparison in comparisons]
        echo(json.dumps({"scores": scores, "notes": notes}, indent=2))
        return 0
    for nodeid, of_test in _by_test(comparisons).items():
        lines = _test_lines(of_test, before, after, verbose=options.verbose)
        echo(to_one_line(nodeid), *(f"  {line}" for line in lines), "")
    if not comparisons:
        echo(f"{to_one_line(before.name)} and {to_one_line(after.name)} have no score in common.")
    echo(*(f"note: {note}" for note in notes))
    return 0


def _read_reports(options: argparse.Namespace) -> tuple[Report, Report]:
    paths = [options.before, options.before if options.after is None else options.after]
    if options.html is not None and options.html.resolve() in {path.resolve() for path in paths}:
        raise InputError(f"--html {options.html} is one of the reports.\nName another file for the page.")
    if options.system is None and options.after is None:
        raise InputError(
            "There is one report, and no two systems to compare.\n"
            "Name a second report; or two systems of a parametrized test: --system A B"
        )
    documents_by_path = {path: read_report(path) for path in paths}
    documents = [documents_by_path[path] for path in paths]
    columns, names = ["before", "after"], [str(path) for path in paths]
    if options.system is not None:
        systems = list(zip(documents, options.system, paths, strict=True))
        documents = [select_system(document, name, path) for document, name, path in systems]
        names = [f"{name} in {path}" for _, name, path in systems]
        if options.after is None:
            columns = names = options.system
    before, after = (
        Report(document, path, name, column)
        for document, path, name, column in zip(documents, paths, names, columns, strict=True)
    )
    return before, after


def _test_lines(
    comparisons: Sequence[ScoreComparison], before: Report, after: Report, *, verbose: bool
) -> Iterator[str]:
    counts = ("n", "gained", "lost", "same")
    columns = to_one_line(before.column), to_one_line(after.column)
    head = ("score", *columns, "difference", "95% interval", "p-value", *counts)
    rows = []
    for comparison in comparisons:
        test = comparison.test_result
        interval = "-" if test.interval is None else " to ".join(map(format_change, test.interval))
        means = [
            "-" if mean is None else number_text(mean)
            for mean in (comparison.before.mean, comparison.after.mean)
        ]
        difference = "-" if test.difference is None else format_change(test.difference)
        p_value = "-" if test.p_value is None else f"{test.p_value:.2g}"
        numbers = map(
            str,
            (len(comparison.differences), len(comparison.gained), len(comparison.lost), comparison.same),
        )
        rows.append((to_one_line(comparison.key.label), *means, difference, interval, p_value, *numbers))
    yield from format_table(head, rows).splitlines()
    for comparison in comparisons:
        label = to_one_line(comparison.key.label)
        for report, error in zip((before, after), comparison.errors, strict=True):
            if error is not None:
                yield f"{label}: not computed in {to_one_line(report.name)}: {to_one_line(error)}"
        for text, ids in (
            (f"gained in {label}", comparison.gained),
            (f"lost in {label}", comparison.lost),
            (f"{label}: only in {to_one_line(before.name)}", comparison.only_before),
            (f"{label}: only in {to_one_line(after.name)}", comparison.only_after),
            (f"{label}: unscored in one of them or in both", comparison.unscored),
        ):
            if ids:
                yield f"{text}: {format_ids(ids, everything=verbose)}"
    if verbose:
        for comparison in comparisons:
            yield from _changed_question_lines(comparison)


def _changed_question_lines(comparison: ScoreComparison) -> Iterator[str]:
    changed = [comparison.question(identifier) for identifier in (*comparison.lost, *comparison.gained)]
    # A report of an earlier version may have only the ids.
    with_text = [question for question in changed if question["question"]]
    if with_text:
        yield ""
        yield to_one_line(comparison.key.label)
    for question in with_text:
        yield from single_question_lines(question)


def _json_entry(comparison: ScoreComparison) -> dict[str, object]:
    before, after, test = comparison.before, comparison.after, comparison.test_result
    id_lists = ("gained", "lost", "only_before", "only_after", "unscored")
    return {
        "nodeid": comparison.key.nodeid,
        "score": comparison.key.label,
        "before": before.mean,
        "after": after.mean,
        "difference": test.difference,
        "interval": test.interval,
        "p_value": test.p_value,
        "n": len(comparison.differences),
        "same": comparison.same,
        "left_out": comparison.left_out,
        **{name: getattr(comparison, name) for name in id_lists},
        "examples": [
            {"id": identifier, "before": before.values.get(identifier), "after": after.values.get(identifier)}
            for identifier in dict.fromkeys((*before.values, *after.values))
        ],
    }


def _by_test(comparisons: Sequence[ScoreComparison]) -> dict[str, list[ScoreComparison]]:
    groups: dict[str, list[ScoreComparison]] = {}
    for comparison in comparisons:
        groups.setdefault(comparison.key.nodeid, []).append(comparison)
    return groups


def _write_page(
    path: Path, before: Report, after: Report, comparisons: Sequence[ScoreComparison], notes: Sequence[str]
) -> None:
    """Write an HTML page with all scores and questions of both reports, laid out as the HTML report of a run."""
    tests = [_test_entry(of_test, before, after) for of_test in _by_test(comparisons).values()]
    tests.sort(key=lambda test: CHANGES.index(test["outcome"]))
    changes = [_change(comparison) for comparison in comparisons]
    counts = [f"{changes.count(change)} {change}" for change in CHANGES if change in changes]
    page = html_page(
        {"tests": tests, "llm": NO_REQUESTS, "matrix": [], "ratings": []},
        title="rageval diff"
        + (f": {', '.join(counts)} of {counted(len(changes), 'score')}" if changes else ""),
        overall=next((change for change in CHANGES if change in changes), "same"),
        facts=[_fact("Baseline", before), _fact("Compared with it", after)],
        warnings=notes,
    )
    try:
        write_atomically(path, [page.encode("utf-8", "replace")])
    except OSError as error:
        raise InputError(
            f"The page {path} cannot be written: {error.strerror or error}.\nName a file in a folder that exists."
        ) from None
    echo_err(f"page: {path}")


def _change(comparison: ScoreComparison) -> str:
    """Return one of `CHANGES`; "unclear" if the difference is not significant, or no question has two scores."""
    difference, _, p_value = comparison.test_result
    if difference is None or p_value is None:
        return "unclear"
    if not comparison.gained and not comparison.lost:
        return "same"
    if p_value > ALPHA:
        return "unclear"
    return "worse" if (difference > 0) == comparison.is_cost else "better"


def _fact(name: str, report: Report) -> Any:
    document, run = report.document, report.document.get("run", {})
    settings = document.get("settings", {})
    parts = [
        report.name,
        " at ".join(filter(None, (run.get("branch"), (run.get("commit") or "")[:12]))),
        str(document.get("started", "")).replace("T", " "),
        *(
            f"{role} {settings[role]}"
            for role in ("generator", "judge")
            if settings.get(role) not in {None, "canonical"}
        ),
    ]
    return Fact(name, ", ".join(filter(None, parts)))


def _test_entry(comparisons: Sequence[ScoreComparison], before: Report, after: Report) -> dict[str, object]:
    """Return the entry of a test for the page: that of the second report, compared with the first."""
    first, second = comparisons[0].before.test, comparisons[0].after.test
    questions: dict[str, Mapping[str, object]] = {}
    for test in (second, first):
        for question in test.get("questions", ()):
            questions.setdefault(str(question["id"]), question)
    evalset = second.get("evalset") or {}
    changes = [_change(comparison) for comparison in comparisons]
    return {
        "nodeid": comparisons[0].key.nodeid,
        "outcome": next(change for change in CHANGES if change in changes),
        "evalset": evalset if {"name", "size"} <= evalset.keys() else None,
        "scores": [_score_entry(comparison, before, after) for comparison in comparisons],
        "questions": list(questions.values()),
    }


def _score_entry(comparison: ScoreComparison, before: Report, after: Report) -> dict[str, object]:
    entry, (difference, interval, p_value) = comparison.after.entry, comparison.test_result
    keywords = {name: entry[name] for name in SCORE_KEYWORDS if entry.get(name) is not None}
    numbers = {name: entry.get(name, 0) for name in ("n", "unscored", "undefined")}
    baseline = None
    if difference is not None and interval is not None:
        baseline = {
            "mean": comparison.before.mean or 0.0,
            "drop": -difference,
            "n": len(comparison.differences),
            # `reason` below says what is left out.
            "left_out": 0,
            "unscored": 0,
            "interval": [-interval[1], -interval[0]],
            "p_value": p_value,
            # The interval is two-sided, and `alpha` is the error probability of each bound.
            "alpha": ALPHA / 2,
            "worse": comparison.lost,
            "better": comparison.gained,
        }
    return {
        "spec": comparison.key.spec,
        **keywords,
        "where": entry["where"],
        "mean": comparison.after.mean,
        "ci95": entry.get("ci95"),
        **numbers,
        "oddities": {},
        "threshold": None,
        "baseline": baseline,
        "verdict": _change(comparison),
        "reason": _reason(comparison, before, after),
        "examples": [*_examples(comparison), *_removed_examples(comparison, after)],
    }


def _reason(comparison: ScoreComparison, before: Report, after: Report) -> str:
    difference, interval, p_value = comparison.test_result
    parts = [
        f"not computed in {report.name}: {error}"
        for report, error in zip((before, after), comparison.errors, strict=True)
        if error is not None
    ]
    parts += [
        f"{counted(len(ids), 'question')} {text}"
        for ids, text in (
            (comparison.only_before, f"only in {before.name}"),
            (comparison.only_after, f"only in {after.name}"),
            (comparison.unscored, "unscored in one of them or in both"),
        )
        if ids
    ]
    if difference is None or interval is None:
        return "; ".join(["no question has two scores", *parts])
    low, high = map(format_change, interval)
    test = f"difference {format_change(difference)}, 95% interval {low} to {high}, p = {p_value:.2g}"
    changes = f"{len(comparison.gained)} gained, {len(comparison.lost)} lost, {comparison.same} same"
    return "; ".join([test, changes, *parts])


def _examples(comparison: ScoreComparison) -> Iterator[dict[str, object]]:
    for example in comparison.after.entry["examples"]:
        identifier = str(example["id"])
        now = comparison.after.questions[identifier]
        then = comparison.before.questions.get(identifier, {})
        own = {name: value for name, value in example.items() if name not in BASELINE_KEYS}
        outcome = {name: now[name] for name in ("answer", "expected", "remark") if name in now}
        changed = {
            f"before_{name}": then[name]
            for name in ("answer", "retrieved")
            if name in then and then[name] != now.get(name)
        }
        value = comparison.before.values.get(identifier)
        yield {
            **outcome,
            **own,
            "id": identifier,
            **changed,
            **({} if value is None else {"before": value}),
        }


def _removed_examples(comparison: ScoreComparison, after: Report) -> Iterator[dict[str, object]]:
    for identifier in comparison.only_before:
        value = comparison.before.values[identifier]
        entry: dict[str, object] = {"id": identifier, "score": None, "unscored": f"not in {after.name}"}
        yield entry if value is None else {**entry, "before": value}
