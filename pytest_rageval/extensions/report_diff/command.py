"""`rageval diff`: compares the scores of two runs, or of two systems in a run, question by question."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_rageval.cli.console import echo, echo_err, format_table, to_one_line
from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.report_diff.diff import (
    Report,
    ScoreComparison,
    compare_reports,
    format_change,
    format_ids,
    select_system,
)
from pytest_rageval.lib.files import write_atomically
from pytest_rageval.reports.questions import single_question_lines
from pytest_rageval.reports.reading import read_report
from pytest_rageval.reports.terminal import number_text


def diff_command(options: argparse.Namespace) -> int:
    before, after = _read_reports(options)
    comparisons, notes = compare_reports(before, after)
    if options.html is not None:
        _write_page(options.html, before, after, comparisons, notes)
    if options.json:
        scores = [_json_entry(comparison) for comparison in comparisons]
        echo(json.dumps({"scores": scores, "notes": notes}, indent=2))
        return 0
    for nodeid in dict.fromkeys(comparison.key.nodeid for comparison in comparisons):
        echo(to_one_line(nodeid))
        of_test = [comparison for comparison in comparisons if comparison.key.nodeid == nodeid]
        for line in _test_lines(of_test, before, after, verbose=options.verbose):
            echo(f"  {line}")
        echo("")
    if not comparisons:
        echo(f"{to_one_line(before.name)} and {to_one_line(after.name)} have no score in common.")
    for note in notes:
        echo(f"note: {note}")
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


def _write_page(
    path: Path, before: Report, after: Report, comparisons: Sequence[ScoreComparison], notes: Sequence[str]
) -> None:
    # Imported late: it needs Jinja2.
    from pytest_rageval.extensions.report_diff.page import diff_page  # noqa: PLC0415

    page = diff_page(before, after, comparisons, notes)
    try:
        write_atomically(path, [page.encode("utf-8", "replace")])
    except OSError as error:
        raise InputError(
            f"The page {path} cannot be written: {error.strerror or error}.\nName a file in a folder that exists."
        ) from None
    echo_err(f"page: {path}")


def _test_lines(
    comparisons: Sequence[ScoreComparison], before: Report, after: Report, *, verbose: bool
) -> Iterator[str]:
    """Yield the table of a test's scores and the ids of its changed questions; if verbose, the questions too."""
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


def _json_entry(comparison: ScoreComparison) -> dict[str, Any]:
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
