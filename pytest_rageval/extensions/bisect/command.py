"""`rageval bisect`: runs pytest in a worktree of each commit that the search asks for, and prints what it finds."""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import ceil, log2
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Final, NamedTuple

from pytest_rageval.cli.console import echo, echo_err, to_one_line
from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.extensions.bisect import ARGUMENTS
from pytest_rageval.extensions.bisect.search import Measured, State, decide, first_bad
from pytest_rageval.lib.git import GitError, commit_of, git_output, run_git
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import counted, join_first
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.build import sliced_name
from pytest_rageval.reports.document import ReportDocument
from pytest_rageval.reports.reading import read_report
from pytest_rageval.reports.terminal import number_text
from pytest_rageval.scores import SCORES

settings_of: Final = Lazy("plugin.settings_command", "settings_of")  # imports pytest

MORE_REPEATS: Final = 3  # times as many repeats for a score that is unsure
MAX_LISTED: Final = 10  # files and questions in the output
HASH_DIGITS: Final = 7
DECIDING: Final = ("fail", "error", "inconclusive", "pass")  # the worst first


class SkippedError(Exception):
    """A commit cannot be judged; the message is the reason."""


class Run(NamedTuple):
    top: Path  # of the repository
    folder: str  # where the command was started, from `top`
    arguments: Sequence[str]  # of pytest, from the user
    added: Sequence[str]  # to these
    setup: str | None
    repeat: int  # of the user
    environment: Mapping[str, str]


class Target(NamedTuple):
    """The score that decides."""

    nodeid: str
    name: str


class Step(NamedTuple):
    """A commit with its score; without one `reason` says why. `lost` has by id the text of each lost question."""

    commit: str
    score: Measured
    mean: float | None = None
    reason: str = ""
    lost: Mapping[str, str] = MappingProxyType({})
    state: State = "bad"
    unsure: bool = False


def bisect_command(options: argparse.Namespace) -> int:
    commits, options = _parse(options)
    here = Path.cwd()
    try:
        top = Path(os.fsdecode(run_git(here, "rev-parse", "--show-toplevel")).rstrip("\n"))
        _check_tree(here)
        bad = commit_of(here, commits[1])
        # Before pytest reads the settings: a conftest may change the environment.
        environment = _environment(top)
        settings = settings_of(options.arguments)
        if settings is None:
            raise InputError("pytest cannot be run with these arguments; it has printed why.")
        good = commit_of(here, commits[0]) if commits[0] else _baseline_commit(settings.baseline, bad)
        history = _history(here, good, bad)
        folder, added = os.path.relpath(here, top), [*_shared(settings, good)]
        run = Run(top, folder, options.arguments, added, options.setup, settings.repeat, environment)
        with TemporaryDirectory(prefix="rageval-bisect-", ignore_cleanup_errors=True) as name:
            return _bisect(run, Path(name).resolve(), good, history, options.score)
    except GitError as error:
        raise InputError(f"rageval bisect needs a git repository with these commits: {error}.") from None


def _parse(options: argparse.Namespace) -> tuple[list[str], argparse.Namespace]:
    """Return GOOD, or "", and BAD; and the options, which may stand after them, with the arguments of pytest."""
    words = list(options.arguments)
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(prog="rageval bisect", allow_abbrev=False)
    for names, kwargs in ARGUMENTS:
        parser.add_argument(*names, **{**kwargs, "default": argparse.SUPPRESS})
    parser.add_argument("commits", nargs="*")
    options = parser.parse_intermixed_args(words[:split], argparse.Namespace(**vars(options)))
    named: list[str] = options.commits
    if len(named) > 2:  # noqa: PLR2004 - GOOD and BAD
        parser.error(f"{named[2]!r} is a third commit: write the arguments of pytest after --")
    options.arguments = words[split + 1 :]
    return [*named, *["", "HEAD"][len(named) :]], options


def _check_tree(here: Path) -> None:
    status = ("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=untracked")
    rows = os.fsdecode(run_git(here, *status, timeout_s=None)).split("\0")[:-1]
    changed = [row[3:] for row in rows if not row.startswith("??")]
    if changed:
        raise InputError(
            f"There are changes that are not committed, in {join_first(changed, MAX_LISTED)}.\n"
            "Commit them, or put them aside with git stash: rageval bisect judges commits."
        )
    if untracked := [row[3:] for row in rows]:
        echo_err(f"note: untracked files are in no commit, and left out: {join_first(untracked, MAX_LISTED)}")


def _environment(top: Path) -> dict[str, str]:
    """Return environment variables with which the worktree is searched for modules in place of the repository.

    An editable installation has the repository in `sys.path`: pytest would test its code, whatever the commit.
    {} stands for the worktree.
    """
    own = [Path(entry).resolve() for entry in sys.path if entry]
    inside = [f"{{}}{os.sep}{path.relative_to(top)}" for path in own if path.is_relative_to(top)]
    inherited = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([*inside, *([inherited] if inherited else [])])}


def _baseline_commit(baseline: Path, bad: str) -> str:
    commit = baseline.parent.is_dir() and git_output(
        baseline.parent, "log", "-1", "--format=%H", bad, "--", baseline.name
    )
    if not commit:
        raise InputError(
            f"No commit has the baseline {baseline}.\nName the last good commit: rageval bisect GOOD"
        )
    return commit


def _history(here: Path, good: str, bad: str) -> dict[str, list[str]]:
    """Return the commits that contain GOOD, up to BAD, with their parents, oldest first."""
    if good == bad:
        raise InputError(
            f"{_short(good)} is both the good and the bad commit.\nName an older one: rageval bisect GOOD [BAD]"
        )
    if git_output(here, "merge-base", "--is-ancestor", good, bad) is None:
        raise InputError(
            f"{_short(bad)} does not contain the good commit {_short(good)}.\n"
            f"Name one that it contains, such as that of: git merge-base {_short(good)} {_short(bad)}"
        )
    log = ("log", "--format=%H %P", "--topo-order", "--reverse", "--ancestry-path", f"{good}..{bad}")
    rows = run_git(here, *log, timeout_s=None).decode().splitlines()
    return {commit: parents for commit, *parents in map(str.split, rows)}


def _shared(settings: Settings, good: str) -> Iterator[str]:
    if settings.cache is None:
        yield from ("--rageval-cache", str(settings.cache_dir.absolute()))
    else:
        yield from ("--rageval", f"cache_dir={settings.cache_dir.absolute()}")
    if settings.sources.get("baseline") == "command line":
        yield from ("--rageval-baseline", str(settings.baseline.absolute()))
    else:
        yield from ("--rageval", f"baseline_ref={good}")


def _bisect(
    run: Run, scratch: Path, good: str, history: Mapping[str, Sequence[str]], score: str | None
) -> int:
    bad = [*history][-1]
    try:
        target, end = _bad_step(run, scratch, bad, score)
    except SkippedError as error:
        raise InputError(f"The bad commit {_short(bad)} cannot be judged: {error}.") from None
    _print_step(run, end)
    start = _step(run, scratch, good, target)
    _print_step(run, start)
    if start.state != "good":
        how, remedy = f"cannot be judged: {start.reason}", ""
        if start.state == "bad":
            how = f"fails {target.name} of {to_one_line(target.nodeid)} too"
            remedy = (
                " If each commit fails, the tests may use code or an index from outside of the worktree; --setup "
                "COMMAND can install or build that of the commit."
            )
        raise InputError(
            f"The good commit {_short(good)} {how}.\nName another: rageval bisect GOOD [BAD].{remedy}"
        )
    steps = {good: start, bad: end}

    def judge(commit: str, left: int) -> State:
        echo(f"{counted(left, 'commit')} left, about {counted(ceil(log2(left)), 'step')}")
        steps[commit] = _step(run, scratch, commit, target, end.score.drop)
        _print_step(run, steps[commit])
        return steps[commit].state

    found = first_bad(history, judge)
    culprit = steps[found[-1]]
    echo("")
    if len(found) > 1:
        head = f"One of these commits lost {target.name} of {to_one_line(target.nodeid)}"
        echo(f"{head}; all but the last were skipped:", *(f"  {_title(run, commit)}" for commit in found))
    else:
        before = [steps[parent] for parent in history[culprit.commit] if parent in steps]
        _print_found(run, target, culprit, before)
    return int(len(found) > 1)


def _bad_step(run: Run, scratch: Path, bad: str, score: str | None) -> tuple[Target, Step]:
    document = _document(run, scratch, bad)
    named = [
        (Target(test["nodeid"], sliced_name(entry)), entry)
        for test in document["tests"]
        for entry in test["scores"]
        if entry["verdict"] is not None
    ]
    names = [target.name for target, _ in named]
    if score is not None and score not in names:
        existing = f"It has {', '.join(dict.fromkeys(names)) or 'none'}."
        raise InputError(
            f"The bad commit {_short(bad)} has no score {score!r} with a bound. {existing}{did_you_mean(score, names)}"
        )
    chosen = [(target, entry) for target, entry in named if score in {None, target.name}]
    target = next((target for target, entry in chosen if entry["verdict"] == "fail"), None)
    if target is None:
        reasons = [
            f"\n  {target.name} of {to_one_line(target.nodeid)}: "
            f"{entry['verdict']}, {to_one_line(entry['reason'] or '')}"
            for target, entry in chosen
        ]
        raise InputError(
            f"No score fails at the bad commit {_short(bad)}, so that there is nothing to find."
            f"{''.join(reasons) or ' Its tests have no score with a bound.'}\n"
            "Name a commit that fails: rageval bisect GOOD BAD"
        )
    return target, _read(bad, document, target)


def _step(run: Run, scratch: Path, commit: str, target: Target, drop_at_bad: float | None = None) -> Step:
    step = Step(commit, Measured(None))

    def measure(more: bool) -> Measured:  # noqa: FBT001 - as `decide` calls it
        nonlocal step
        repeats = ("--rageval-repeat", str(MORE_REPEATS * run.repeat)) if more else ()
        try:
            step = _read(commit, _document(run, scratch, commit, repeats), target)
        except SkippedError as error:
            step = Step(commit, Measured(None), reason=str(error))
        return step.score

    state, unsure = decide(measure, drop_at_bad)
    return step._replace(state=state, unsure=unsure)


def _document(run: Run, scratch: Path, commit: str, repeats: Sequence[str] = ()) -> ReportDocument:
    report = scratch / "report.json"
    report.unlink(missing_ok=True)
    with _worktree(run.top, scratch / "tree", commit) as tree:
        folder = tree / run.folder
        if not folder.is_dir():
            raise SkippedError(f"it has no folder {run.folder}")
        changed = {name: text.replace("{}", str(tree)) for name, text in run.environment.items()}
        environment = {**os.environ, **changed}
        if run.setup is not None:
            status, output = _call(run.setup, folder, environment)
            if status:
                raise SkippedError(f"the setup failed with status {status}: {output}")
        # A path into the repository means the file of the commit.
        arguments = [argument.replace(f"{run.top}{os.sep}", f"{tree}{os.sep}") for argument in run.arguments]
        arguments += [*run.added, *repeats, "--rageval-report", str(report)]
        status, output = _call([sys.executable, "-m", "pytest", *arguments], folder, environment)
    if not report.exists():
        raise SkippedError(f"pytest ended with status {status} and without a report: {output}")
    try:
        return read_report(report)
    except InputError as error:
        raise SkippedError(str(error)) from None


@contextmanager
def _worktree(top: Path, tree: Path, commit: str) -> Iterator[Path]:
    """Check out a commit into a new worktree, which is removed at the end: the next commit finds nothing of it."""
    try:
        try:
            run_git(top, "worktree", "add", "--detach", "--force", str(tree), commit, timeout_s=None)
            if (tree / ".gitmodules").exists():
                run_git(tree, "submodule", "update", "--init", "--recursive", timeout_s=None)
        except GitError as error:
            raise SkippedError(f"git cannot check it out: {error}") from None
        yield tree
    finally:
        with suppress(GitError):
            run_git(top, "worktree", "remove", "--force", "--force", str(tree), timeout_s=None)


def _call(command: str | Sequence[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run a command, or the line of a shell; return its status and the last line of its output."""
    done = subprocess.run(  # noqa: S603 - the user's own commands
        command,
        cwd=folder,
        env=environment,
        shell=isinstance(command, str),  # nosec B602 - a line of the user's own shell
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    lines = done.stdout.decode(errors="backslashreplace").split("\n")
    return done.returncode, next((line.strip() for line in reversed(lines) if line.strip()), "(no output)")


def _read(commit: str, document: ReportDocument, target: Target) -> Step:
    """Return a commit with the score that decides, from the report; of several bounds, with the worst verdict."""
    entries = [
        entry
        for test in document["tests"]
        for entry in test["scores"]
        if (test["nodeid"], sliced_name(entry)) == target and entry["verdict"] in DECIDING
    ]
    if not entries:
        raise SkippedError(f"it has no verdict on {target.name} of {target.nodeid}")
    entry = min(entries, key=lambda entry: DECIDING.index(entry["verdict"]))
    if entry["verdict"] == "error":
        raise SkippedError(str(entry["reason"]))
    definition = SCORES.get(entry["spec"].partition("@")[0])
    varies = document["llm"]["requests"] > 0 and not (definition and definition.deterministic)
    lost = {question["id"]: question["question"] for question in entry.get("questions", {}).get("listed", ())}
    score = Measured(entry["verdict"], (entry["baseline"] or {}).get("drop"), varies)
    return Step(commit, score, entry["mean"], lost=lost)


def _print_step(run: Run, step: Step) -> None:
    mean = None if step.mean is None else number_text(step.mean)
    parts = filter(None, (mean, step.score.verdict, *step.reason.split()))
    echo(f"{step.state:<7} {_title(run, step.commit)}: {to_one_line(' '.join(parts))}")
    if step.unsure:
        how = f"judged with {MORE_REPEATS * run.repeat} repeats" if step.score.varies else "counts as good"
        echo(f"        the verdict was unsure: {how}")
    sys.stdout.flush()


def _print_found(run: Run, target: Target, culprit: Step, before: Sequence[Step]) -> None:
    commit = culprit.commit
    echo(f"{_short(commit)} is the first commit that fails {target.name} of {to_one_line(target.nodeid)}")
    echo(f"  {to_one_line(git_output(run.top, 'show', '-s', '--format=%an, %as: %s', commit) or '')}")
    files = os.fsdecode(run_git(run.top, "diff", "--name-only", "-z", f"{commit}^1", commit)).split("\0")[:-1]
    _print_list("changed files", files)
    already = {identifier for step in before for identifier in step.lost}
    lost = {name: text for name, text in culprit.lost.items() if name not in already}
    _print_list("lost questions", [f"{name}  {text}".rstrip() for name, text in lost.items()])


def _print_list(title: str, items: Sequence[str]) -> None:
    if items:
        echo(f"  {title} ({len(items)}):")
    echo(*(f"    {to_one_line(item)}" for item in items[:MAX_LISTED]))
    if len(items) > MAX_LISTED:
        echo("    …")


def _title(run: Run, commit: str) -> str:
    return f"{_short(commit)} {to_one_line(git_output(run.top, 'show', '-s', '--format=%s', commit) or '')}"


def _short(commit: str) -> str:
    return commit[:HASH_DIGITS]
