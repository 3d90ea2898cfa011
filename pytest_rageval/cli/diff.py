"""`rageval diff`: the scores of two runs, or of two systems of a run, compared question by question."""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_rageval.cli.console import note, plain, say, table
from pytest_rageval.cli.report_diff import (
    Difference,
    Report,
    compared_reports,
    named,
    of_system,
    read_report,
    signed,
)
from pytest_rageval.errors import InputError
from pytest_rageval.files import write_atomically
from pytest_rageval.reports.questions import single_question_lines
from pytest_rageval.reports.terminal import number_text

__all__ = ["diff_command"]


def diff_command(options: argparse.Namespace) -> int:
    """Print the differences of two reports, or of two systems in one."""
    before, after = _reports(options)
    compared, notes = compared_reports(before, after)
    if options.html is not None:
        _write_page(options.html, before, after, compared, notes)
    if options.json:
        say(json.dumps({"scores": [_entry(each) for each in compared], "notes": notes}, indent=2))
        return 0
    for nodeid in dict.fromkeys(each.key.nodeid for each in compared):
        say(plain(nodeid))
        for line in _lines([each for each in compared if each.key.nodeid == nodeid], before, after, options):
            say(f"  {line}")
        say("")
    if not compared:
        say(f"{plain(before.name)} and {plain(after.name)} have no score in common.")
    for each in notes:
        say(f"note: {each}")
    return 0


def _reports(options: argparse.Namespace) -> tuple[Report, Report]:
    paths = [options.before, options.before if options.after is None else options.after]
    if options.html is not None and options.html.resolve() in {path.resolve() for path in paths}:
        raise InputError(f"--html {options.html} is one of the reports.\nName another file for the page.")
    if options.system is None and options.after is None:
        raise InputError(
            "There is one report, and no two systems to compare.\n"
            "Name a second report; or two systems of a parametrized test: --system A B"
        )
    documents = {path: read_report(path) for path in paths}
    columns, names = ["before", "after"], [str(path) for path in paths]
    found = [documents[path] for path in paths]
    if options.system is not None:
        found = [
            of_system(documents[path], name, path) for path, name in zip(paths, options.system, strict=True)
        ]
        names = [f"{name} in {path}" for path, name in zip(paths, options.system, strict=True)]
        if options.after is None:
            columns = names = options.system
    before, after = (Report(*each) for each in zip(found, paths, names, columns, strict=True))
    return before, after


def _write_page(
    path: Path, before: Report, after: Report, compared: Sequence[Difference], notes: Sequence[str]
) -> None:
    # Imported late: it needs Jinja2.
    from pytest_rageval.cli.diff_page import diff_page  # noqa: PLC0415

    page = diff_page(before, after, compared, notes)
    try:
        write_atomically(path, [page.encode("utf-8", "replace")])
    except OSError as error:
        raise InputError(
            f"The page {path} cannot be written: {error.strerror or error}.\nName a file in a folder that exists."
        ) from None
    note(f"page: {path}")


def _lines(
    compared: Sequence[Difference], before: Report, after: Report, options: argparse.Namespace
) -> Iterator[str]:
    counts = ("n", "gained", "lost", "same")
    head = (
        "score",
        plain(before.column),
        plain(after.column),
        "difference",
        "95% interval",
        "p-value",
        *counts,
    )
    rows = []
    for each in compared:
        tested = each.tested
        bounds = "-" if tested.interval is None else " to ".join(map(signed, tested.interval))
        means = ["-" if mean is None else number_text(mean) for mean in (each.before.mean, each.after.mean)]
        difference = "-" if tested.difference is None else signed(tested.difference)
        p_value = "-" if tested.p_value is None else f"{tested.p_value:.2g}"
        numbers = map(str, (len(each.differences), len(each.gained), len(each.lost), each.same))
        rows.append((plain(each.key.label), *means, difference, bounds, p_value, *numbers))
    yield from table(head, rows).splitlines()
    for each in compared:
        label = plain(each.key.label)
        for report, error in zip((before, after), each.errors, strict=True):
            if error is not None:
                yield f"{label}: not computed in {plain(report.name)}: {plain(error)}"
        for text, ids in (
            (f"gained in {label}", each.gained),
            (f"lost in {label}", each.lost),
            (f"{label}: only in {plain(before.name)}", each.only_before),
            (f"{label}: only in {plain(after.name)}", each.only_after),
            (f"{label}: unscored in one of them or in both", each.unscored),
        ):
            if ids:
                yield f"{text}: {named(ids, everything=options.verbose)}"
    if options.verbose:
        for each in compared:
            yield from _changed_questions(each)


def _changed_questions(each: Difference) -> Iterator[str]:
    """Yield question, passages and answer before and after, for each question whose score changed."""
    changed = [each.question(one) for one in (*each.lost, *each.gained)]
    # A report of an earlier version may have only the ids.
    known = [question for question in changed if question["question"]]
    if known:
        yield ""
        yield plain(each.key.label)
    for question in known:
        yield from single_question_lines(question)


def _entry(each: Difference) -> dict[str, Any]:
    return {
        "nodeid": each.key.nodeid,
        "score": each.key.label,
        "before": each.before.mean,
        "after": each.after.mean,
        "difference": each.tested.difference,
        "interval": each.tested.interval,
        "p_value": each.tested.p_value,
        "n": len(each.differences),
        "same": each.same,
        "left_out": each.left_out,
        **{name: getattr(each, name) for name in ("gained", "lost", "only_before", "only_after", "unscored")},
        "examples": [
            {"id": one, "before": each.before.values.get(one), "after": each.after.values.get(one)}
            for one in dict.fromkeys((*each.before.values, *each.after.values))
        ],
    }
