"""`rageval merge`: joins the JSON reports of a run's shards and rules on their thresholds as one run."""

import argparse
import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pytest_rageval.cli.console import note, say
from pytest_rageval.config import Settings, is_ci
from pytest_rageval.errors import InputError
from pytest_rageval.files import refuse_special
from pytest_rageval.gate.baseline import Baseline
from pytest_rageval.gate.comparison import Pin
from pytest_rageval.llm.usage import Usage
from pytest_rageval.plural import counted
from pytest_rageval.reports import KINDS, deliver
from pytest_rageval.reports.history import history_entry, record_run
from pytest_rageval.reports.next_steps import gain_lines
from pytest_rageval.reports.results import (
    compared_names,
    has_table,
    report_document,
    usage_entry,
    usage_lines,
)
from pytest_rageval.reports.systems import matrix_entries, matrix_lines, ratings_entries, ratings_lines
from pytest_rageval.reports.terminal import headline, table_lines, warning_lines
from pytest_rageval.session.shards.merged_run import MergedRun, MergedTestResult, Shard
from pytest_rageval.session.shards.record import JUDGING
from pytest_rageval.session.written_files import not_compared, update_baseline, update_cassette

__all__ = ["merge_command"]

NUMBER: Final = re.compile(r"(?<=\D)\d+(?=\D*$)")  # the last one of a file name, unless it begins with it
RED = frozenset({"failed", "error"})  # outcomes of tests that fail a run


def merge_command(options: argparse.Namespace) -> int:
    """Judge the joined scores, write what is asked for, and print the table; 1 if a test failed."""
    _check(options)
    shards = [_read(path) for path in options.files]
    run = MergedRun(shards, partial=options.partial, command=_command(options))
    settings = _settings(run, options)
    baselines: dict[str, Baseline] = {}
    explain = any(path.suffix != ".md" for path in options.report)
    ruled = [run.ruled(test, settings, Path.cwd(), baselines, explain=explain) for test in run.tests]
    document = _document(run, ruled, settings)
    for line in _lines(document):
        say(line)
    status = int(run.stopped or any(test.entry["outcome"] in RED for test in ruled))
    missing = list(_missing(run, ruled, settings))
    for line in missing:
        note(line)
    status = status or int(bool(missing) and settings.require_baseline)
    if options.history is not None:
        document |= _with_history(options.history, document, settings)
    for path in options.report:
        say(f"report: {deliver(KINDS[path.suffix], document, path)}")
    _update(run, ruled, settings, options)
    return status


def _check(options: argparse.Namespace) -> None:
    """Refuse options before anything is read or written; InputError."""
    for path in options.report:
        if path.suffix not in KINDS:
            kinds = ", ".join(kind for kind in KINDS if kind.startswith("."))
            raise InputError(f"--report is '{path.name}': expected a file name that ends in {kinds}.")
    if options.update_baseline not in {None, "", "force"}:
        raise InputError(f"--update-baseline is {options.update_baseline!r}: expected nothing, or force.")
    if options.update_baseline == "" and is_ci(os.environ.get("CI")):
        raise InputError(
            "--update-baseline makes the joined scores those that later runs are compared with, good or bad; under "
            "CI=true that is refused. In a job that is meant to update, write --update-baseline=force."
        )
    if options.pin_baseline and options.update_baseline is None:
        raise InputError("--pin-baseline pins what --update-baseline writes: add that.")
    if options.drop_unused and options.cassette is None:
        raise InputError("--drop-unused drops replies from a cassette: name it with --cassette FILE.")


def _command(options: argparse.Namespace) -> str:
    """The command for these reports and this baseline, to be copied from a message."""
    paths: list[Path] = options.files
    names = [shlex.quote(str(path)) for path in paths]
    pattern = paths[0].with_name(NUMBER.sub("*", paths[0].name))
    # By a pattern where it finds these files and no others, also when this command's reports lie beside them.
    found = {
        *pattern.parent.glob(pattern.name),
        *(each for each in options.report if each.match(str(pattern))),
    }
    plain = str(pattern).replace("*", "")
    if found == {*paths} and len(paths) > 1 and shlex.quote(plain) == plain:
        names = [str(pattern)]
    baseline = [] if options.baseline is None else ["--baseline", shlex.quote(str(options.baseline))]
    return " ".join(["rageval merge", *names, *baseline, *(["--partial"] if options.partial else [])])


def _read(path: Path) -> Shard:
    """The report of a shard; InputError if the file is not one."""
    try:
        refuse_special(path)
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}.\nGive the JSON reports of shards.") from None
    if (
        not isinstance(document, dict)
        or document.get("schema") != 1
        or not isinstance(document.get("tests"), list)
    ):
        raise InputError(f"{path} is not a JSON report of this package.\nGive the JSON reports of shards.")
    return Shard(str(path), document)


def _settings(run: MergedRun, options: argparse.Namespace) -> Settings:
    """The settings of the shards that verdicts depend on, with the files of the command line."""
    about = run.first.about
    found = {name: about["settings"][name] for name in JUDGING}
    if options.require_baseline:
        found["require_baseline"] = True
    settings = Settings(
        **found,
        baseline=Path.cwd() / (options.baseline or about["baseline"]),
        baseline_named=options.baseline is not None,
        update_baseline=options.update_baseline is not None,
        pin_baseline=options.pin_baseline,
        calibration=None if about["calibration"] is None else Path(about["calibration"]),
    )
    if settings.update_baseline and settings.sample < 1:
        raise InputError(
            "--update-baseline writes the scores of all questions, and these shards have a sample of them "
            f"(--rageval-sample {settings.sample:g}): run the shards without it."
        )
    return settings


def _document(run: MergedRun, ruled: Sequence[MergedTestResult], settings: Settings) -> dict[str, Any]:
    """The document of the joined run."""
    documents = [shard.document for shard in run.shards]
    tests = [test.entry for test in ruled if _is_reported(test.entry)]
    return report_document(
        tests,
        matrix=matrix_entries(tests, seed=settings.seed),
        ratings=ratings_entries(tests, seed=settings.seed),
        settings=documents[0]["settings"],
        llm=usage_entry(sum((Usage.of(shard.about["usage"]) for shard in run.shards), Usage())),
        package=documents[0]["package"],
        started=min(each["started"] for each in documents),
        duration_s=max(each["duration_s"] for each in documents),
        stopped=run.stopped,
        run=documents[0].get("run"),
        merge=run.command,
    )


def _is_reported(entry: Mapping[str, Any]) -> bool:
    """Return True if the report lists the test: it has scores, or did not pass."""
    return entry["outcome"] != "passed" or has_table(entry)


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    tests = document["tests"]
    scored = [test for test in tests if has_table(test)]
    yield from table_lines(scored) if scored else ()
    yield from matrix_lines(document["matrix"])
    yield from ratings_lines(document["ratings"])
    yield from gain_lines(tests, str, document["merge"])
    yield from usage_lines(document["llm"])
    yield from warning_lines(tests)
    for test in tests:
        if test["outcome"] in RED:
            yield ""
            yield f"{test['nodeid']} {test['outcome']}:"
            yield from (f"  {line}" for line in test.get("message", "").splitlines())
    yield headline(document)


def _missing(run: MergedRun, ruled: Sequence[MergedTestResult], settings: Settings) -> Iterator[str]:
    """Yield, after a full run, the entries of the baseline that no score was compared with."""
    if settings.update_baseline or run.left_out or run.stopped or not settings.baseline.exists():
        return
    entries = [test.entry for test in ruled]
    compared = {entry["nodeid"]: compared_names(entry["scores"]) for entry in entries}
    excused = [entry["nodeid"] for entry in entries if entry["outcome"] != "passed"]
    yield from not_compared(settings.baseline, compared, excused=excused, required=settings.require_baseline)


def _with_history(path: Path, document: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Append the joined run to a history; return its last runs as a key of the document."""
    if settings.sample < 1:
        say(f"history: nothing added to {path}, as these shards have a part of the questions")
        return {}
    if not (entry := history_entry(document)):
        return {}
    runs, warning = record_run(path, entry)
    if warning:
        note(warning)
    say(f"history: {path}")
    return {"history": runs} if runs else {}


def _update(
    run: MergedRun, ruled: Sequence[MergedTestResult], settings: Settings, options: argparse.Namespace
) -> None:
    """Write the baseline and the cassette where that is asked for."""
    outcomes = Counter(test.entry["outcome"] for test in ruled)
    incomplete = [
        f"{counted(outcomes[outcome], 'test')} {word}"
        for outcome, word in (("failed", "failed"), ("error", "in error"), ("skipped", "skipped"))
        if outcomes[outcome]
    ]
    partial = ", ".join([*incomplete, *run.left_out, *(["it was interrupted"] if run.stopped else [])])
    if settings.update_baseline:
        entries = {
            each.entry["nodeid"]: each.results["baseline"] for each in ruled if "baseline" in each.results
        }
        if not entries:
            say("baseline: nothing to write, no test that ran has a threshold with max_drop")
        else:
            today = datetime.now(UTC).date().isoformat()
            pin = (
                Pin(run.first.document.get("run", {}).get("commit"), today) if settings.pin_baseline else None
            )
            written = update_baseline(
                settings.baseline,
                entries,
                unfinished={each.entry["nodeid"] for each in ruled if each.entry["outcome"] != "passed"},
                failed={
                    each.entry["nodeid"]: each.results["out_of_bounds"]
                    for each in ruled
                    if "baseline" in each.results
                },
                partial=partial,
                pin=pin,
            )
            say(written.note)
            for line in written.changes:
                say(f"  {line}")
    if options.cassette is not None:
        lines = {key: line for shard in run.shards for key, line in shard.about["recorded"].items()}
        sampled = "--rageval-sample" if settings.sample < 1 else ""
        for line in update_cassette(
            options.cassette, lines, drop_unused=options.drop_unused, partial=partial or sampled
        ):
            say(line)
