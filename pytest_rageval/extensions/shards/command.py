"""`rageval merge`: joins the JSON reports of a run's shards and decides the verdicts as for one run."""

import argparse
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_rageval.baseline.entries import AnchorPin
from pytest_rageval.baseline.update import update_baseline
from pytest_rageval.cli.console import echo, echo_err
from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.shards.merge import MergedRun, MergedTestResult
from pytest_rageval.extensions.shards.record import Shard, ShardSettings
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.lib.text import counted
from pytest_rageval.models.cassette import update_cassette
from pytest_rageval.models.usage import Usage, usage_entry, usage_lines
from pytest_rageval.options.resolution import is_ci
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports import KINDS, deliver
from pytest_rageval.reports.build import compared_names, has_table, report_document
from pytest_rageval.reports.gated_tests import (
    RanTests,
    change_lines,
    failing_gates,
    missing_lines,
    remark_lines,
)
from pytest_rageval.reports.reading import read_report
from pytest_rageval.reports.suite import SuiteContribution, suite_entry, suite_lines
from pytest_rageval.reports.systems import matrix_entries, ratings_entries, systems_lines
from pytest_rageval.reports.terminal import (
    FAILING_OUTCOMES,
    gain_lines,
    headline,
    table_lines,
    warning_lines,
)
from pytest_rageval.run import FinishedRun
from pytest_rageval.run.base import BaseSession
from pytest_rageval.run.baseline_lookup import check_gate

LAST_NUMBER: Final = re.compile(r"(?<=\D)\d+(?=\D*$)")  # in a file name that does not begin with it


def merge_command(options: argparse.Namespace) -> int:
    _check_options(options)
    shards = [
        Shard(str(path), read_report(path, remedy="Give the JSON reports of shards."))
        for path in options.files
    ]
    run = MergedRun(shards, partial=options.partial, command=_command(options))
    settings = _settings(run, options)
    session = BaseSession(settings, run.registry)
    explain = any(path.suffix != ".md" for path in options.report)
    results = [run.judge(test, session, Path.cwd(), explain=explain) for test in run.tests]
    gate: Mapping[str, object] = {}
    problem = ""
    try:
        gate = _gate_entry(run, results, settings)
    except InputError as error:
        # No test may be left that reads the baseline and reports this error.
        problem = str(error)
    suite = None if settings.update_baseline else suite_entry(_contributions(results), seed=settings.seed)
    document = _document(run, results, settings, gate, suite)
    echo(*_summary_lines(document))
    failed = any(result.entry["outcome"] in FAILING_OUTCOMES for result in results)
    gate_fails = failing_gates(gate) or any(suite_lines(suite)) or (problem and settings.require_baseline)
    status = int(bool(run.stopped or failed or gate_fails))
    gate_lines = (
        *missing_lines(gate),
        *change_lines(gate),
        *remark_lines(gate),
        *suite_lines(suite, run.command),
    )
    echo_err(*filter(None, [problem]), *gate_lines)
    history = {"history": options.history} if options.history else {}
    finished = FinishedRun(settings.replace(**history), Path.cwd(), lambda: document)
    for keys in run.registry.hook.pytest_rageval_run_finished(run=finished):
        document |= keys
    echo_err(*finished.warnings)
    echo(*finished.notes, *finished.remarks)
    for path in options.report:
        echo(f"report: {deliver(run.registry.writers[path.suffix], document, path)}")
    _update_files(run, results, settings, options)
    return status


def _check_options(options: argparse.Namespace) -> None:
    for path in options.report:
        if path.suffix not in KINDS:
            kinds = ", ".join(kind for kind in KINDS if kind.startswith("."))
            raise InputError(f"--report is '{path.name}': expected a file name that ends in {kinds}.")
    if options.update_baseline not in {None, "", "force"}:
        raise InputError(f"--update-baseline is {options.update_baseline!r}: expected nothing, or force.")
    if options.update_baseline == "" and is_ci(os.environ.get("CI")):
        raise InputError(
            "--update-baseline is refused under CI=true, because it accepts the joined scores, good or bad. In a job "
            "that is meant to update the baseline, write --update-baseline=force."
        )
    if options.pin_baseline and options.update_baseline is None:
        raise InputError("--pin-baseline pins what --update-baseline writes: add that.")
    if options.drop_unused and options.cassette is None:
        raise InputError("--drop-unused drops replies from a cassette: name it with --cassette FILE.")


def _command(options: argparse.Namespace) -> str:
    """Return a command that merges these reports, for messages; users copy it."""
    paths: list[Path] = options.files
    names = [shlex.quote(str(path)) for path in paths]
    pattern = paths[0].with_name(LAST_NUMBER.sub("*", paths[0].name))
    # Use a glob pattern if it matches exactly these files, and none of the reports that this command writes.
    matches = {
        *pattern.parent.glob(pattern.name),
        *(report for report in options.report if report.match(str(pattern))),
    }
    literal = str(pattern).replace("*", "")
    needs_quotes = shlex.quote(literal) != literal
    if matches == {*paths} and len(paths) > 1 and not needs_quotes:
        names = [str(pattern)]
    baseline = [] if options.baseline is None else ["--baseline", shlex.quote(str(options.baseline))]
    return " ".join(["rageval merge", *names, *baseline, *(["--partial"] if options.partial else [])])


def _settings(run: MergedRun, options: argparse.Namespace) -> Settings:
    first = run.first.entry
    values = {
        name: first["settings"][name] for name in ShardSettings.__annotations__ if name in first["settings"]
    }
    if options.require_baseline:
        values["require_baseline"] = True
    settings = Settings(
        **values,
        baseline=Path.cwd() / (options.baseline or first["baseline"]),
        sources={} if options.baseline is None else {"baseline": "command line"},
        report=tuple(options.report),
        update_baseline=options.update_baseline is not None,
        pin_baseline=options.pin_baseline,
        calibration=None if first["calibration"] is None else Path(first["calibration"]),
    )
    if settings.update_baseline and settings.sample < 1:
        raise InputError(
            "--update-baseline writes the scores of all questions, and these shards have a sample of them "
            f"(--rageval-sample {settings.sample:g}): run the shards without it."
        )
    return settings


def _document(
    run: MergedRun,
    results: Sequence[MergedTestResult],
    settings: Settings,
    gate: Mapping[str, object],
    suite: Mapping[str, object] | None,
) -> dict[str, object]:
    documents = [shard.document for shard in run.shards]
    # The report lists a test that has scores, or did not pass.
    tests = [
        result.entry for result in results if result.entry["outcome"] != "passed" or has_table(result.entry)
    ]
    return report_document(
        tests,
        matrix=matrix_entries(tests, seed=settings.seed),
        ratings=ratings_entries(tests, seed=settings.seed),
        settings=documents[0]["settings"],
        llm=usage_entry(sum((Usage.from_dict(shard.entry["usage"]) for shard in run.shards), Usage())),
        package=documents[0]["package"],
        started=min(document["started"] for document in documents),
        duration_s=max(document["duration_s"] for document in documents),
        stopped=run.stopped,
        run=documents[0].get("run"),
        gate=gate,
        suite=suite,
        merge=run.command,
    )


def _summary_lines(document: JsonObject) -> Iterator[str]:
    tests = document["tests"]
    scored = [test for test in tests if has_table(test)]
    yield from table_lines(scored) if scored else ()
    yield from systems_lines(tests, document["matrix"], document["ratings"])
    yield from gain_lines(tests, str, document["merge"])
    yield from usage_lines(document["llm"])
    yield from warning_lines(tests)
    for test in tests:
        if test["outcome"] in FAILING_OUTCOMES:
            yield ""
            yield f"{test['nodeid']} {test['outcome']}:"
            yield from (f"  {line}" for line in test.get("message", "").splitlines())
    yield headline(document)


def _gate_entry(
    run: MergedRun, results: Sequence[MergedTestResult], settings: Settings
) -> Mapping[str, object]:
    if settings.update_baseline or run.stopped:
        return {}
    entries = [result.entry for result in results]
    ran = RanTests(
        compared={entry["nodeid"]: compared_names(entry["scores"]) for entry in entries},
        prevented={
            entry["nodeid"]: _why_prevented(entry) for entry in entries if entry["outcome"] != "passed"
        },
        collected=run.collected,
        claims=run.claims,
    )
    return check_gate(settings, ran, run.registry.hook)


def _contributions(results: Sequence[MergedTestResult]) -> dict[str, SuiteContribution]:
    """Return what each test contributes to the gate of the suite; nothing if it is skipped, or expected to fail."""
    return {
        result.entry["nodeid"]: result.results["suite"]
        for result in results
        if "suite" in result.results and result.entry["outcome"] in {"passed", *FAILING_OUTCOMES}
    }


def _why_prevented(entry: JsonObject) -> str:
    """Return why a test was not compared with the baseline; empty if it failed."""
    failed = entry["outcome"] in FAILING_OUTCOMES
    return "" if failed else ": ".join(filter(None, [entry["outcome"], entry.get("message")]))


def _update_files(
    run: MergedRun, results: Sequence[MergedTestResult], settings: Settings, options: argparse.Namespace
) -> None:
    outcomes = Counter(result.entry["outcome"] for result in results)
    incomplete = [
        f"{counted(outcomes[outcome], 'test')} {text}"
        for outcome, text in (("failed", "failed"), ("error", "in error"), ("skipped", "skipped"))
        if outcomes[outcome]
    ]
    partial = ", ".join([*incomplete, *run.left_out, *(["it was interrupted"] if run.stopped else [])])
    if settings.update_baseline:
        updated = {
            result.entry["nodeid"]: result.results for result in results if "baseline" in result.results
        }
        if not updated:
            echo("baseline: nothing to write, no test that ran has a threshold with max_drop")
        else:
            commit = run.first.document.get("run", {}).get("commit")
            pin = AnchorPin.today(commit) if settings.pin_baseline else None
            update = update_baseline(
                settings.baseline,
                {nodeid: each["baseline"] for nodeid, each in updated.items()},
                unfinished={
                    result.entry["nodeid"] for result in results if result.entry["outcome"] != "passed"
                },
                failed={nodeid: each["out_of_bounds"] for nodeid, each in updated.items()},
                partial=partial,
                pin=pin,
            )
            echo(update.note, *(f"  {line}" for line in update.changes))
    if options.cassette is not None:
        lines = {key: line for shard in run.shards for key, line in shard.entry["recorded"].items()}
        sampled = "--rageval-sample" if settings.sample < 1 else ""
        for line in update_cassette(
            options.cassette, lines, drop_unused=options.drop_unused, partial=partial or sampled
        ):
            echo(line)
