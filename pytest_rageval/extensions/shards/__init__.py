"""Shards: the parts of a run that is split over several machines by `--rageval-shard`.

- `record`: the report of a shard, with the records of its tests, which nobody has judged yet.
- `merge`: joins the records of a test, and judges them as a run does. `command`: `rageval merge`.
- `plain`: objects as plain data for JSON, and back.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.options import Option
from pytest_rageval.options.command import Command, switch, value, with_plugin_names
from pytest_rageval.options.parsers import destination_kind

if TYPE_CHECKING:
    import pytest

    from pytest_rageval.core.evalset import EvalSet
    from pytest_rageval.gate.threshold import Threshold
    from pytest_rageval.options.settings import Settings
    from pytest_rageval.run import FinishedRun
    from pytest_rageval.run.judged import JudgedTest
    from pytest_rageval.run.test import TestRun


def _parse_shard(text: str) -> tuple[int, int]:
    index, _, count = text.partition("/")
    if index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count):
        return int(index), int(count)
    raise ValueError("expected I/N with 1 ≤ I ≤ N, such as 2/8")


# fmt: off
SHARD: Final[Option[tuple[int, int] | None]] = Option(
    "shard", "I/N", _parse_shard, None,
    "score only part I of N of the questions of every eval set, chosen by a hash of their ids, and decide "
    "nothing: `rageval merge` judges the JSON reports of all parts as one run. 1/1 is a job that runs some of "
    "the tests with all their questions. Only on the command line",
    in_ini=False, is_flag=True,
    effects=lambda settings: ("is merged", "compares nothing") if settings[SHARD] else (),
)
OPTIONS: Final = (SHARD,)
# fmt: on

MERGE_OPTIONS: Final = with_plugin_names(
    value("--report", "FILE", "report to write: .md for a pull request, .html for a browser, .json for programs; "
          "may be repeated", action="append", default=[]),
    value("--history", "FILE", "append the joined scores to this file (.jsonl), as --rageval history=FILE does in "
          "a run; scores of a sample are not appended"),
    value("--baseline", "FILE", "baseline to compare with (default: that of the shards)"),
    value("--update-baseline", "force", "write the joined scores to the baseline instead of comparing them "
          "with it; refused under CI=true, unless it is --update-baseline=force", str, nargs="?", const=""),
    switch("--pin-baseline", "with --update-baseline: also pin these scores as the anchor of max_total_drop"),
    switch("--require-baseline", "make a bound on a drop an error if there is no baseline (default: as in "
           "the shards)"),
    value("--cassette", "FILE", "file to write: the replies that the shards used, if they ran with "
          "--rageval-record"),
    switch("--drop-unused", "drop replies that no shard used from the cassette"),
)  # fmt: skip

# fmt: off
COMMANDS: Final = (
    Command("merge", "pytest_rageval.extensions.shards.command:merge_command",
            "judge the reports of a run's shards as one run",
            "Joins the JSON reports of pytest --rageval-shard and compares the joined scores with their bounds and "
            "with the baseline, as one run with all questions would. No report may be missing.",
            (value("files", "FILE", "JSON reports, one of each shard (pytest --rageval-shard I/N --rageval-report "
                   "FILE.json)", nargs="+"),
             *MERGE_OPTIONS,
             switch("--partial", "allow tests that were collected but ran in no shard, as with -k")),
            "Exit status: 0; 1 if a test failed or was in error, or a shard was stopped; 2 if a report is missing, "
            "given twice or of another run, or something else cannot be used.", place=5),
)
# fmt: on


def contradictions(settings: "Settings") -> Iterator[str]:
    if settings[SHARD] is None:
        return
    if settings.update_baseline:
        yield (
            "--rageval-update-baseline writes the scores of a whole run, and --rageval-shard has only some of them: "
            "leave it out here, and write the baseline with rageval merge --update-baseline."
        )
    reports = settings.effects.isdisjoint({"reports nothing", "is a step"})
    if reports and not any(destination_kind(report) == ".json" for report in settings.report):
        yield (
            "--rageval-shard needs a JSON report, which rageval merge reads: add --rageval-report shard.json, with "
            "another name for each shard."
        )


@hookimpl
def pytest_rageval_start(settings: "Settings") -> Sequence[object]:
    return (ShardPlugin(),) if settings[SHARD] and "is a step" not in settings.effects else ()


@hookimpl
def pytest_rageval_part(settings: "Settings", evalset: "EvalSet") -> "EvalSet | None":
    if (shard := settings[SHARD]) is None:
        return None
    from pytest_rageval.evalsets.sampling import select_subset  # noqa: PLC0415 - few runs are shards

    return select_subset(evalset, sample=settings.sample, shard=shard)


@hookimpl
def pytest_rageval_before_call(test: "TestRun", call: str) -> None:
    index, count = test.session.settings[SHARD] or (1, 1)
    if count > 1:
        from pytest_rageval.core.errors import InputError  # noqa: PLC0415 - few runs are shards

        raise InputError(
            f"{call} needs the results of all questions, and --rageval-shard {index}/{count} evaluates only some of "
            "them.\nWrite the bound as a marker rageval_threshold, which rageval merge judges; or run the test with "
            "all questions, in a job with --rageval-shard 1/1."
        )


@hookimpl
def pytest_rageval_evaluate(test: "TestRun", thresholds: "Sequence[Threshold]") -> Sequence[str] | None:
    if test.session.settings[SHARD] is None:
        return None
    if not thresholds and not test.marked.markers("rageval_calibration"):
        return []
    from pytest_rageval.extensions.shards.record import record_thresholds  # noqa: PLC0415 - few runs are shards

    return record_thresholds(test, thresholds)


@hookimpl
def pytest_rageval_evaluate_call(test: "TestRun") -> None:
    """Leave a call of `rageval.score` to the core, which records it: the only shard has all questions."""
    effects = test.session.settings.effects
    test.is_recorded |= "is merged" in effects and "lacks replies" not in effects


@hookimpl
def pytest_rageval_test_entry(test: "JudgedTest") -> Mapping[str, object]:
    if not getattr(test, "is_recorded", False):
        return {}
    from pytest_rageval.extensions.shards.record import stored_test  # noqa: PLC0415 - few runs are shards

    return {"shard": stored_test(cast("TestRun", test))}


@hookimpl
def pytest_rageval_run_finished(run: "FinishedRun") -> Mapping[str, object]:
    if (shard := run.settings[SHARD]) is None:
        return {}
    from pytest_rageval.extensions.shards.record import shard_entry  # noqa: PLC0415 - few runs are shards

    # With -q too: a green shard says nothing of its scores.
    run.remarks.append(
        f"shard {shard[0]}/{shard[1]}: no score is judged here; rageval merge judges the "
        "reports of all shards together"
    )
    return {"shard": shard_entry(run)}


XPASS_PREFIX: Final = (
    "[XPASS(strict)] "  # of pytest's message about a test that passed and should have failed
)


class ShardPlugin:
    """Notes in the record of a test that it is expected to fail, and lets it pass, since `rageval merge` decides."""

    @hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: "pytest.Item"
    ) -> "Generator[None, pytest.TestReport, pytest.TestReport]":
        from pytest_rageval.plugin.lazy_start import get_evaluation_plugin  # noqa: PLC0415 - few runs are shards

        test = get_evaluation_plugin(item.config).test_of(item)
        report = yield
        if test is not None and test.is_recorded:
            _note_xfail(item, report, test)
            results = getattr(report, "rageval", {})
            if "xfail" in test.state and "shard" in results:
                results["shard"] = {**results["shard"], "xfail": test.state["xfail"]}
        return report


def _note_xfail(item: "pytest.Item", report: "pytest.TestReport", test: "TestRun") -> None:
    """Note an xfail mark; one with an exception, as in `xfail(raises=ValueError)`, does not expect a low score."""
    if any("raises" in mark.kwargs for mark in item.iter_markers("xfail")):
        return
    strict = isinstance(report.longrepr, str) and report.longrepr.startswith(XPASS_PREFIX)
    if strict:
        report.wasxfail = str(report.longrepr).removeprefix(XPASS_PREFIX)
        report.outcome, report.longrepr = "passed", None
    if hasattr(report, "wasxfail"):
        test.state["xfail"] = {"reason": report.wasxfail, "strict": strict}
