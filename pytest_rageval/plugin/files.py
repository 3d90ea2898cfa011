"""The hooks that write the cassette and the baseline.

The revision under test: the commit, the branch and the CI job, from git and from the variables of CI.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_rageval.core.errors import InputError, StoreError
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.options import all_options
from pytest_rageval.options.settings import Settings
from pytest_rageval.plugin.completeness import CompletenessPlugin
from pytest_rageval.plugin.runner import Process
from pytest_rageval.plugin.terminal import fail_run, plain_nodeid, print_lines

if TYPE_CHECKING:
    from pytest_rageval.baseline.entries import BaselineEntry


class CassetteWriterPlugin:
    """Writes the cassette at the end of a run, in the process that writes files."""

    def __init__(self, config: pytest.Config, settings: Settings, completeness: CompletenessPlugin) -> None:
        self._config = config
        self._settings = settings
        self._completeness = completeness
        self._worker_lines: dict[str, str] = {}
        self._notes: list[str] = []
        self._errors: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        output = getattr(node, "workeroutput", {})
        if "rageval_recorded" not in output:
            self._notes.append(
                "a worker crashed: the replies that it used are not in the cassette, but in the cache"
            )
        self._worker_lines.update(output.get("rageval_recorded", {}))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        path = self._settings.cassette
        is_merged = "is merged" in self._settings.effects
        if path is None or self._config.option.collectonly or is_merged:
            # `rageval merge` writes the cassette, from the replies in the reports of the shards.
            return
        from pytest_rageval.models.cassette import update_cassette  # noqa: PLC0415 - few runs record

        left_out = (
            option.example()
            for option in all_options()
            if "leaves out questions" in option.effects(self._settings)
        )
        partial = self._completeness.why_partial(session)
        partial = partial or ", ".join(left_out)
        try:
            self._notes += update_cassette(
                path,
                self.recorded_lines,
                drop_unused=self._settings.drop_unused,
                partial=partial,
                every_key=self._config.get_verbosity() > 0,
            )
        except StoreError as error:
            self._errors.append(str(error))
            fail_run(session)

    @property
    def recorded_lines(self) -> dict[str, str]:
        lines = {**self._worker_lines, **Process.get(self._config).recorded_lines()}
        return dict(sorted(lines.items()))

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        print_lines(terminalreporter, self._errors, red=True)
        if self._notes and terminalreporter.verbosity >= 0:
            terminalreporter.section("rageval cassette")
            print_lines(terminalreporter, self._notes)


class BaselineWriterPlugin:
    """Updates the baseline at the end of a run, in the process that writes files."""

    def __init__(self, config: pytest.Config, settings: Settings, completeness: CompletenessPlugin) -> None:
        self._config = config
        self._settings = settings
        self._completeness = completeness
        self._entries: dict[str, BaselineEntry] = {}
        self._unfinished: set[str] = set()
        self._failed: dict[str, list[str]] = {}
        self._note = ""
        self._changes: list[str] = []
        self._lowers = False
        self._printed = False
        self._errors: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store the new baseline entry of a test; the entry of a rerun replaces the previous one."""
        nodeid = plain_nodeid(report.nodeid)
        if report.when == "setup":
            self._unfinished.discard(nodeid)
        if not report.passed:
            self._unfinished.add(nodeid)
        results = getattr(report, "rageval", None) or {}
        if "baseline" in results:
            self._entries[results["nodeid"]] = results["baseline"]
            self._failed[results["nodeid"]] = results["out_of_bounds"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._config.option.collectonly:
            return
        if not self._entries:
            reason = "no test that ran has a threshold with max_drop"
            if not self._completeness.collected:
                reason = "no marked test was collected"
            elif self._unfinished:
                reason = "the tests that ran have no score that can be one"
            path = self._settings.baseline
            self._note = f"baseline: nothing to write, {reason}" + f"; {path} is as before" * path.exists()
        else:
            try:
                self._update(self._completeness.why_partial(session))
            except InputError as error:
                self._errors.append(str(error))
                fail_run(session)
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and self._config.option.no_summary:
            # Lowered scores must be printed with --no-summary too, with which older versions of pytest do not call
            # `pytest_terminal_summary`.
            reporter.ensure_newline()
            self.pytest_terminal_summary(reporter)
            self._printed = True

    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        """Print the changes of the baseline, or the error; with -q only if they lower it, or nothing was written."""
        if self._printed:
            return
        print_lines(terminalreporter, self._errors, red=True)
        if self._note and (terminalreporter.verbosity >= 0 or self._lowers or not self._entries):
            terminalreporter.section("rageval baseline")
            print_lines(terminalreporter, [self._note])
            print_lines(terminalreporter, [f"  {line}" for line in self._changes], yellow=self._lowers)

    def _update(self, partial: str) -> None:
        from pytest_rageval.baseline.entries import AnchorPin  # noqa: PLC0415 - few runs update the baseline
        from pytest_rageval.baseline.update import update_baseline  # noqa: PLC0415

        pins = self._settings.pin_baseline
        self._note, self._changes, self._lowers = update_baseline(
            self._settings.baseline,
            self._entries,
            unfinished=self._unfinished,
            failed=self._failed,
            partial=partial,
            pin=AnchorPin.today(head_commit(self._config.rootpath)) if pins else None,
        )


git_output: Final = Lazy("lib.git", "git_output")  # few runs write a report or the baseline

COMMITS: Final = ("GITHUB_SHA", "CI_COMMIT_SHA")
BRANCHES: Final = (
    "GITHUB_HEAD_REF",
    "GITHUB_REF_NAME",
    "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME",
    "CI_COMMIT_REF_NAME",
)
URLS: Final = ("CI_JOB_URL", "CIRCLE_BUILD_URL", "BUILDKITE_BUILD_URL", "BUILD_URL")
"""Environment variables of CI systems. The first one that is set is used. The branch comes from one of these variables
where the checkout is detached, as it often is in CI, since git then reports no branch."""


def head_commit(root: Path) -> str | None:
    return git_output(root, "rev-parse", "--verify", "--quiet", "HEAD") or None


def run_entry(
    root: Path, baseline: Path, environment: Mapping[str, str], *, written: Collection[Path] = ()
) -> dict[str, object]:
    """Return the revision under test and the revision of the baseline, without the values that are unknown.

    Changes of the files `written`, which runs write, do not make the checkout dirty.
    """
    excluded = [path.relative_to(root).as_posix() for path in written if path.is_relative_to(root)]
    paths = (":/", *(f":(exclude,literal){name}" for name in excluded))
    status = git_output(root, "status", "--porcelain=v2", "--branch", "--untracked-files=no", "--", *paths)
    lines = (status or "").splitlines()
    head = dict(re.findall(r"(?m)^# branch\.(oid|head) ([^(].*)$", "\n".join(lines)))
    entry = {
        "commit": head.get("oid") or _first_set(environment, COMMITS),
        "branch": head.get("head") or _first_set(environment, BRANCHES),
        "title": git_output(root, "log", "-1", "--format=%s") if "oid" in head else None,
        "dirty": any(not line.startswith("#") for line in lines) if "oid" in head else None,
        "url": _job_url(environment),
        "baseline": _baseline(root, baseline),
    }
    return {name: value for name, value in entry.items() if value is not None}


def _baseline(root: Path, path: Path) -> dict[str, str] | None:
    """Return the path of the baseline, and hash and date of the last commit that changed it, if they are known."""
    if not path.is_file():
        return None
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    logged = (git_output(root, "log", "-1", "--format=%H %cI %P", "--", str(path)) or "").split()
    # In a shallow clone the oldest commit has no parents, and git reports it as the commit that added every file.
    is_oldest = len(logged) == 2  # noqa: PLR2004 - the commit and its date
    if not logged or (is_oldest and git_output(root, "rev-parse", "--is-shallow-repository") != "false"):
        return {"path": name}
    return {"path": name, "commit": logged[0], "date": logged[1]}


def _job_url(environment: Mapping[str, str]) -> str | None:
    parts = [environment.get(f"GITHUB_{name}") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")]
    url = "{}/{}/actions/runs/{}".format(*parts) if all(parts) else _first_set(environment, URLS)
    # The URL becomes a link in reports.
    return url if url and url.startswith(("https://", "http://")) else None


def _first_set(environment: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((value for name in names if (value := environment.get(name))), None)
