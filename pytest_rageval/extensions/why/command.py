"""`rageval why`: runs pytest with factors before and after the change, and prints how much of it each explains.

Shapley values of the runs' scores, with paired intervals. Each quantity is a contrast: for each question a weighted sum
of its scores in the runs, and then the mean over the questions. So its interval is that of a mean, whatever the runs
have in common.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, combinations
from math import factorial, fsum, isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from pytest_rageval.cli.console import echo, echo_err, to_one_line
from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.extensions.why import FACTORS_BEFORE
from pytest_rageval.extensions.why.plugin import ALL, FACTORS_FILE, MAX_TEXT
from pytest_rageval.lib.files import write_atomically
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.lib.text import counted, join_first
from pytest_rageval.reports.build import sliced_name
from pytest_rageval.reports.document import ReportDocument, ScoreEntry
from pytest_rageval.reports.reading import read_report
from pytest_rageval.reports.terminal import number_text
from pytest_rageval.scores import SCORES
from pytest_rageval.stats.paired_tests import drop_interval

# Of more factors each is reverted alone, in two runs more than factors instead of 2 ** factors.
MAX_SUBSETS: Final = 4
ALPHA: Final = 0.025  # on each side
DIGITS: Final = 12  # of a contrast: the others are rounding

Run = frozenset[str]  # by the factors that have their value after the change

Contrast = Mapping[Run, Fraction]  # the weights of runs


class Effect(NamedTuple):
    mean: float
    low: float
    high: float

    @property
    def is_shown(self) -> bool:
        return not self.low <= 0 <= self.high


def runs_of(factors: Collection[str]) -> list[Run]:
    """Return the runs that explain a change; the first two are before and after."""
    n = len(factors)
    sizes = [0, n, *(range(n - 1, 0, -1) if n <= MAX_SUBSETS else [n - 1])]
    return [*map(frozenset, chain.from_iterable(combinations(factors, size) for size in sizes))]


def alone(factor: str, factors: Collection[str]) -> Contrast:
    """Return what is back if a factor alone is reverted."""
    whole = frozenset(factors)
    return {whole: Fraction(1), whole - {factor}: Fraction(-1)}


def shapley(factor: str, factors: Collection[str]) -> Contrast:
    """Return the mean change at a factor over all orders of changing them: the values of all sum to the whole."""
    n, weights = len(factors), dict[Run, Fraction]()
    others = [name for name in factors if name != factor]
    for size in range(n):
        weight = Fraction(factorial(size) * factorial(n - size - 1), factorial(n))
        for changed in map(frozenset, combinations(others, size)):
            weights[changed | {factor}], weights[changed] = weight, -weight
    return weights


def total(factors: Collection[str]) -> Contrast:
    return {frozenset(factors): Fraction(1), frozenset(): Fraction(-1)}


def interaction(factors: Collection[str]) -> Contrast:
    """Return the whole change less what is back if each of two factors or more is reverted alone."""
    whole = frozenset(factors)
    reverted = {whole - {factor}: Fraction(1) for factor in factors}
    return {whole: Fraction(1 - len(whole)), frozenset(): Fraction(-1), **reverted}


def contrast(weights: Contrast, scores: Mapping[Run, Sequence[float]]) -> list[float]:
    columns = [[float(weight) * score for score in scores[run]] for run, weight in weights.items()]
    return [round(fsum(parts), DIGITS) for parts in zip(*columns, strict=True)]


def effect(weights: Contrast, scores: Mapping[Run, Sequence[float]], span: float = 1.0) -> Effect:
    """Return a contrast over at least one question; `span` is the largest possible difference of two scores.

    Both ends of the interval are upper bounds of `stats.paired_tests.drop_interval`, which allow for changes that no
    question of the sample shows. They cover in small samples with few changes too, where those of a t-test do not.
    """
    values = contrast(weights, scores)
    largest = max(span * float(sum(weight for weight in weights.values() if weight > 0)), *map(abs, values))
    _, high = drop_interval(values, alpha=ALPHA, largest=largest)
    _, minus_low = drop_interval([-value for value in values], alpha=ALPHA, largest=largest)
    return Effect(fsum(values) / len(values), -minus_low, high)


MAX_MISSING: Final = 0.1  # largest share of questions that may lack a value in a run
MAX_LISTED: Final = 5  # questions, and scores of a run, in a line
LAST_LINES: Final = 20  # of pytest's output, if a run fails

Texts = Mapping[str, Sequence[str]]  # of each factor before and after


class Key(NamedTuple):
    nodeid: str
    name: str  # of the score, with its slice


class Explained(NamedTuple):
    """A score whose change is explained over n questions; `missing` more lack a value in a run.

    The fields are the keys in the file of `--json`. `changed` counts the questions whose value a factor changes in any
    run.
    """

    nodeid: str
    name: str
    before: float
    after: float
    n: int
    missing: int
    change: Effect
    shares: Mapping[str, Effect]
    changed: Mapping[str, int]
    interaction: Effect | None  # None of a single factor


def why_command(options: argparse.Namespace) -> int:
    arguments = list(options.arguments)
    if "--" in arguments:
        arguments.remove("--")
    with TemporaryDirectory(prefix="rageval-why-", ignore_cleanup_errors=True) as folder:
        texts, reports = _reports(arguments, Path(folder))
    explained, problems = [], []
    for key in _keys(reports.values(), options.score or ()):
        try:
            explained.append(_explained(key, reports, list(texts)))
        except InputError as error:
            problems.append(f"{key.name} of {to_one_line(key.nodeid)} cannot be explained: {error}")
    for score in explained:
        echo("")
        echo(*_lines(score, texts))
    echo_err(*problems)
    if options.json is not None:
        record = {"factors": texts, "scores": [score._asdict() for score in explained]}
        write_atomically(options.json, [f"{json.dumps(record, indent=1, ensure_ascii=False)}\n".encode()])
    return 2 if problems else 0


def _reports(arguments: Sequence[str], scratch: Path) -> tuple[Texts, dict[Run, ReportDocument]]:
    reports = {frozenset[str](): _run(arguments, [ALL], scratch)}
    texts: Texts = json.loads((scratch / FACTORS_FILE).read_bytes())["factors"]
    runs = runs_of(texts)
    echo(f"{counted(len(texts), 'factor')}, {counted(len(runs), 'run')} of pytest")
    for run in runs:
        if run not in reports:
            reports[run] = _run(arguments, [name for name in texts if name not in run], scratch)
        means = [
            f"{key.name} {number_text(entry['mean'])}"
            for key, entry in _entries(reports[run]).items()
            if entry["mean"] is not None
        ]
        echo(f"  {_title(run, texts)}: {join_first(means, MAX_LISTED) or 'no score'}")
        sys.stdout.flush()
    return texts, reports


def _run(arguments: Sequence[str], before: Sequence[str], scratch: Path) -> ReportDocument:
    report = scratch / "report.json"
    report.unlink(missing_ok=True)
    reverted = ["--rageval", f"{FACTORS_BEFORE.name}={','.join(before)}"]
    command = ["pytest", "-p", "pytest_rageval.extensions.why.plugin", *arguments, *reverted]
    done = subprocess.run(  # noqa: S603 - the user's own tests
        [sys.executable, "-m", *command, "--rageval-report", str(report), "-o", f"cache_dir={scratch}"],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    found = scratch / FACTORS_FILE
    if found.exists() and (problem := json.loads(found.read_bytes())["problem"]):
        raise InputError(problem)
    if report.exists() and done.returncode in {0, 1}:
        return read_report(report)
    lines = done.stdout.decode(errors="backslashreplace").splitlines()[-LAST_LINES:]
    raise InputError(
        "\n    ".join(
            [f"A run of pytest ended with status {done.returncode}, before all tests had run:", *lines]
        )
        + f"\nRepeat it with: {shlex.join(['pytest', *arguments, *reverted])}"
    )


def _title(run: Run, factors: Iterable[str]) -> str:
    before = [name for name in factors if name not in run]
    return "after" if not before else f"{', '.join(before)} before" if run else "before"


def _entries(report: ReportDocument) -> dict[Key, ScoreEntry]:
    """Return the scores of a run, without times, which differ from run to run."""
    entries: dict[Key, ScoreEntry] = {}
    for test in report["tests"]:
        for entry in test["scores"]:
            if not entry.get("statistic"):
                entries.setdefault(Key(test["nodeid"], sliced_name(entry)), entry)
    return entries


def _keys(reports: Collection[ReportDocument], named: Sequence[str]) -> list[Key]:
    keys = dict.fromkeys(key for report in reports for key in _entries(report))
    if not keys:
        tests = (test for report in reports for test in report["tests"])
        reason = next((test["message"] for test in tests if test.get("message")), "no test has a score")
        raise InputError(f"There is nothing to explain: {reason}")
    names = list(dict.fromkeys(key.name for key in keys))
    for name in named:
        if name not in names:
            raise InputError(
                f"No test has a score {name!r}.{did_you_mean(name, names)} There are: {', '.join(names)}."
            )
    return [key for key in keys if not named or key.name in named]


def _explained(key: Key, reports: Mapping[Run, ReportDocument], factors: Sequence[str]) -> Explained:
    by_run = {run: _values(key, report, _title(run, factors)) for run, report in reports.items()}
    every = dict.fromkeys(name for values in by_run.values() for name in values)
    common = set.intersection(*map(set, by_run.values()))
    missing = [name for name in every if name not in common]
    if len(missing) > MAX_MISSING * len(every):
        run = next(run for run, values in by_run.items() if missing[0] not in values)
        raise InputError(
            f"{len(missing)} of {counted(len(every), 'question')} lack a value in a run, and at most {MAX_MISSING:.0%} "
            f"may: {to_one_line(join_first(missing, MAX_LISTED))}; the first one in the run {_title(run, factors)!r}."
        )
    scores = {run: [values[name] for name in every if name in common] for run, values in by_run.items()}
    definition = SCORES.get(key.name.partition("@")[0])
    low, high = (definition and definition.scale) or (0.0, 1.0)
    span = high - low if isfinite(high - low) else 0.0
    share = shapley if len(factors) <= MAX_SUBSETS else alone
    whole = effect(total(factors), scores, span)
    before, after = (fsum(scores[run]) / len(common) for run in (frozenset[str](), frozenset(factors)))
    shares = {name: effect(share(name, factors), scores, span) for name in factors}
    changed = {name: _changed(name, scores) for name in factors}
    joint = effect(interaction(factors), scores, span) if len(factors) > 1 else None
    return Explained(*key, before, after, len(common), len(missing), whole, shares, changed, joint)


def _values(key: Key, report: ReportDocument, title: str) -> dict[str, float]:
    entry: JsonObject = _entries(report).get(key, {})
    values = {
        example["id"]: example["score"]
        for example in entry.get("examples", ())
        if example["score"] is not None
    }
    if not values:
        messages = [test.get("message") for test in report["tests"] if test["nodeid"] == key.nodeid]
        reason = next(filter(None, [entry.get("reason"), *messages]), "the test did not run")
        raise InputError(f"it has no value in the run {title!r}: {to_one_line(' '.join(reason.split()))}")
    return values


def _changed(factor: str, scores: Mapping[Run, Sequence[float]]) -> int:
    pairs = [
        (scores[run], scores[run - {factor}]) for run in scores if factor in run and run - {factor} in scores
    ]
    changes = ([one != other for one, other in zip(*pair, strict=True)] for pair in pairs)
    return sum(map(any, zip(*changes, strict=True)))


def _lines(score: Explained, texts: Texts) -> Iterator[str]:
    """Yield the whole change, then the factors, that which explains most first, then their interaction."""
    change, questions = score.change, counted(score.n, "question")
    verb = "fell" if change.mean < 0 else "rose" if change.mean > 0 else "stayed"
    chance = "" if change.is_shown else ", which chance could explain"
    means = f"from {number_text(score.before)} to {number_text(score.after)}"
    yield f"{score.name} of {to_one_line(score.nodeid)} {verb} {means}: {_text(change)}, {questions}{chance}"
    if score.missing:
        yield f"  {counted(score.missing, 'question')} without a value in a run: left out"
    for name, part in sorted(
        score.shares.items(), key=lambda item: (not item[1].is_shown, -abs(item[1].mean))
    ):
        title = f"  {name} ({' → '.join(text[:MAX_TEXT] for text in texts[name])})"
        changed = f"{counted(score.changed[name], 'question')} changed"
        if not score.changed[name]:
            yield f"{title}: no question changed in any run. Does a fixture use rageval_factor[{name!r}]?"
        elif part.is_shown:
            yield f"{title} explains {_signed(part.mean)} of {_signed(change.mean)} {_interval(part)}, {changed}"
        else:
            yield f"{title}: nothing that could be shown, {_text(part)}, {changed}"
    if score.interaction is not None:
        kind = "shared by the factors above" if len(texts) <= MAX_SUBSETS else "the rest"
        shown = _text(score.interaction) if score.interaction.is_shown else "nothing that could be shown"
        yield f"  interaction, {kind}: {shown}"


def _text(part: Effect) -> str:
    return f"{_signed(part.mean)} {_interval(part)}"


def _interval(part: Effect) -> str:
    return f"[{_signed(part.low)}, {_signed(part.high)}]"


def _signed(number: float) -> str:
    return f"{'-' if number < 0 else '+'}{number_text(abs(number))}"
