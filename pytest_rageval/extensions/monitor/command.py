"""Scores the questions of one day, keeps the days in a history, and judges the fall of each score.

The fall of a mean is judged by an e-process that may be looked at every day. Its values are between 0 and 1. A day has
counts of values: within a day the bets are the same, so that their order does not matter.

Source: Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting"; restarted each day:
Shin, Ramdas and Rinaldo (2024), "E-detectors: a nonparametric framework for sequential change detection".
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from importlib.metadata import version
from math import exp, isfinite, log1p, sqrt
from pathlib import Path
from statistics import NormalDist, fmean
from typing import Annotated, Final, NamedTuple, TypedDict, cast

from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.baseline.entries import IGNORED_KEYS
from pytest_rageval.cli.command_session import command_settings, echo_request_count, session_for
from pytest_rageval.cli.console import echo, format_count, format_table
from pytest_rageval.core.errors import InputError, RagevalError
from pytest_rageval.core.outcome import Score
from pytest_rageval.core.ranking import Document
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.evalsets.records import from_records
from pytest_rageval.evalsets.sampling import rank
from pytest_rageval.extensions.application.application import Application
from pytest_rageval.extensions.history.history import SCHEMA, Run, append_run, read_history
from pytest_rageval.extensions.traces.reading import Traces, question_key, read_traces
from pytest_rageval.extensions.traces.records import RecordedQuestion
from pytest_rageval.lib.files import write_json_lines
from pytest_rageval.lib.shape import check_shape
from pytest_rageval.models import DefaultGenerator
from pytest_rageval.models.prompt_rendering import read_prompts
from pytest_rageval.reports.document import Length
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.registry import resolve
from pytest_rageval.run.session import Session
from pytest_rageval.scores.definition import ScoreDef

Counts = Mapping[float, int]  # how often each value was observed
YEAR: Final = 365
BETS: Final = tuple(
    2.0**-n for n in range(1, 7)
)  # shares of the largest bet with which nothing can be lost entirely
LARGEST_GROWTH: Final = 300.0  # of a day, as a logarithm: more would overflow, and is an alarm anyway


def evidence(days: Iterable[Counts], allowed: float) -> Iterator[float]:
    """Yield after each day the evidence that on some day the mean fell below `allowed`, in (0, 1).

    A gambler gets 1/365 on each day, and bets on each question that its value is below `allowed`: a bet with the stake
    λ multiplies the capital by `1 + λ·(allowed - value)`, which is 1 on average if the mean is `allowed`, and less if
    it is higher. So the capital is at most T/365 on average after T days without a fall, and reaches 1/α within a year
    with a probability of at most α (Ville's inequality), whenever one looks. Money that came later has lost nothing
    before, so that a late fall is found as fast as an early one. The evidence is the mean over `BETS`, as different
    falls need different stakes.
    """
    capital = [0.0] * len(BETS)
    for counts in days:
        for index, bet in enumerate(BETS):
            stake = bet / (1 - allowed)
            growth = sum(n * log1p(stake * (allowed - value)) for value, n in counts.items())
            before = min(capital[index] + 1 / YEAR, exp(LARGEST_GROWTH))
            capital[index] = before * exp(min(growth, LARGEST_GROWTH))
        yield fmean(capital)


def lower_end(counts: Counts, alpha: float) -> float:
    """Return a number that the mean is below with a probability of about `alpha`: with two values, Agresti and Coull's.

    To the values are added z²/2 zeros and z²/2 ones, before the normal interval of the mean is computed. So it is not
    empty if all values are equal.
    """
    z = NormalDist().inv_cdf(1 - alpha)
    n = sum(counts.values()) + z * z
    mean, square = (
        (sum(value**power * times for value, times in counts.items()) + z * z / 2) / n for power in (1, 2)
    )
    return mean - z * sqrt((square - mean * mean) / n)


def pooled(days: Iterable[Counts]) -> Counts:
    return sum(map(Counter, days), Counter[float]())


def mean_of(counts: Counts) -> float:
    return sum(value * n for value, n in counts.items()) / sum(counts.values())


NAME: Final = "monitor"  # in place of the node id of a test
ALPHA: Final = 0.05  # the probability of a false alarm in a year
DIGITS: Final = 6  # of a value in the file


class DayScore(TypedDict):
    """What a line of the history has besides for a score of one day."""

    counts: list[Annotated[list[float], Length(2)]]  # each value, and how many questions have it
    fingerprint: dict[str, object]


Days = dict[date, Mapping[str, DayScore]]


class Verdict(NamedTuple):
    reference: str
    evidence: str
    alarm: str = ""  # the message


def monitor_command(options: argparse.Namespace) -> int:
    day: date = options.day or datetime.now(UTC).date() - timedelta(days=1)
    if options.since is not None and day < options.since:
        raise InputError(f"--since {options.since} is after the day to score, {day}.")
    definitions = {spec: _definition(spec) for spec in options.score}
    runs = read_history(options.history) if options.history.exists() else []
    kept = [run for run in runs if not (NAME in run.line["tests"] and run.time.date() == day)]
    days = {at: scores for at, scores in _days(options.history, kept).items() if at >= (options.since or at)}
    reference = {} if options.reference is None else _days(options.reference, read_history(options.reference))
    traces, drawn = _draw(options, day, with_answer=any(map(_takes_answer, definitions.values())))
    with closing(session_for(command_settings(options))) as session:
        scores = _score(session, drawn, definitions, {**reference, **days})
    days[day] = {spec: entry for spec, (_, entry) in scores.items()}
    verdicts = {
        spec: _judge(spec, score, dict(sorted(days.items())), reference, options)
        for spec, score in definitions.items()
    }
    line = _line(day, scores, verdicts)
    if len(kept) < len(runs):
        write_json_lines(options.history, [*(run.line for run in kept), line])
    else:
        append_run(options.history, line)
    echo(
        f"{day}: {len(drawn)} of {format_count(len(traces.questions), 'question')} drawn with the seed "
        f"{options.seed}, from {traces.counts_text}{traces.notes_text()}"
    )
    echo_request_count(session)
    rows = [
        (spec, f"{score:.3f}", str(score.n), verdicts[spec].reference, verdicts[spec].evidence)
        for spec, (score, _) in scores.items()
    ]
    echo(format_table(("score", "mean", "n", "reference", "evidence"), rows))
    echo(f"{options.history}: {day} {'replaced' if len(kept) < len(runs) else 'added'}")
    alarms = [verdict.alarm for verdict in verdicts.values() if verdict.alarm]
    echo(*alarms)
    return int(bool(alarms))


def _definition(spec: str) -> ScoreDef:
    score = resolve(ScoreRequest(spec))[1]
    problem = ""
    if score.needs:
        problem = f"needs {' and '.join(score.needs)}, which no trace has"
    elif score.scale is None or not isfinite(score.scale[1]):
        problem = "has no largest value, without which the test does not hold"
    if problem:
        raise InputError(
            f"{spec} {problem}.\nGive a score that needs no labels, such as sufficient@5 or "
            "judged.faithfulness@5; `rageval scores` lists what each needs."
        )
    return score


def _takes_answer(score: ScoreDef) -> bool:
    """Whether a score is about the answer of the application; one about single passages needs other answers."""
    return score.generates and not score.one_passage


def _days(path: Path, runs: Sequence[Run]) -> Days:
    days: Days = {}
    for run in runs:
        if NAME in run.line["tests"]:
            scores = run.line["tests"][NAME]["scores"]
            try:
                check_shape(scores, dict[str, DayScore])
            except ValueError as error:
                raise InputError(
                    f"{path}: the line of {run.time.date()} cannot be used: {error}.\n"
                    "Restore the line from git, or delete it, and score the day again with --day."
                ) from None
            days[run.time.date()] = scores
    return days


def _draw(
    options: argparse.Namespace, day: date, *, with_answer: bool
) -> tuple[Traces, list[RecordedQuestion]]:
    found: Counter[date] = Counter()

    def is_of_day(question: RecordedQuestion) -> bool:
        at = datetime.fromtimestamp(question.time, UTC).date()
        found[at] += 1
        return at == day

    traces = read_traces(options.files, is_of_day)
    untimed = found.pop(date(1970, 1, 1), 0)
    usable = [
        each for each in traces.questions if each.retrieved is not None and (each.answer or not with_answer)
    ]
    lacking = f"without a retrieval{' or an answer' * with_answer}: not drawn"
    traces.notes = +(
        traces.notes
        + Counter({"without a time: left out": untimed, lacking: len(traces.questions) - len(usable)})
    )
    traces.questions = usable
    if not usable:
        days = f"They are of {min(found)} to {max(found)}." if found else "None has a time."
        raise InputError(
            f"There are no questions of {day} to score, in {traces.counts_text}.{traces.notes_text()}\n"
            f"{days} Name another day with --day, or look why the export has none of it."
        )
    by_rank = sorted(
        traces.questions,
        key=lambda each: rank(
            options.seed, f"{day} {question_key(each.question.text or '', each.question.history)}"
        ),
    )
    return traces, by_rank[: options.size]


def _score(
    session: Session,
    drawn: Sequence[RecordedQuestion],
    definitions: Mapping[str, ScoreDef],
    before: Days,
) -> dict[str, tuple[Score, DayScore]]:
    recorded = {question_key(each.question.text or "", each.question.history): each for each in drawn}

    def trace(question: str, history: Sequence[Mapping[str, str]] = ()) -> tuple[str, Sequence[Document]]:
        known = recorded[question_key(question, history)]
        return known.answer or "", known.retrieved or ()

    prompts = read_prompts(session.settings.prompts)
    application, judge = Application(trace), DefaultJudge(session.models, prompts)
    generators = {True: application.generator, False: DefaultGenerator(session.models, prompts)}
    components = {
        spec: Components(application.retriever, generators[_takes_answer(score)], judge)
        for spec, score in definitions.items()
    }
    fingerprints = {
        spec: session.dependencies(each, ScoreRequest(spec)).fingerprint for spec, each in components.items()
    }
    for spec, fingerprint in fingerprints.items():
        _check_same(spec, fingerprint, before)
    records = (
        (each.place, {"id": each.id, "question": each.question.text, "history": list(each.question.history)})
        for each in drawn
    )
    evalset = from_records(records, name=NAME)
    scores = {}
    for spec, each in components.items():
        result = session.evaluator.score(each, evalset, [ScoreRequest(spec)])[ScoreRequest(spec)]
        if isinstance(result, RagevalError):
            raise result
        counts = Counter(map(_rounded, result.values))
        entry = DayScore(counts=[[*item] for item in sorted(counts.items())], fingerprint=fingerprints[spec])
        scores[spec] = result, entry
    return scores


def _check_same(spec: str, now: Mapping[str, object], days: Days) -> None:
    for day, scores in days.items():
        before = scores[spec]["fingerprint"] if spec in scores else now
        changed = [
            name for name in sorted({*before, *now} - IGNORED_KEYS) if before.get(name) != now.get(name)
        ]
        if changed:
            name = changed[0]
            raise InputError(
                f"{spec} was measured in another way on {day}, so that its means cannot be compared: {name} was "
                f"{before.get(name)}, and is {now.get(name)}.\n"
                "Set it back, or begin with a new reference: --since DAY, or another --history."
            )


def _judge(spec: str, score: ScoreDef, days: Days, reference: Days, options: argparse.Namespace) -> Verdict:
    """Judge the days after the reference. Half of the level is for the mean of the reference, half for the test."""
    low, high = cast("tuple[float, float]", score.scale)
    alpha, needed = ALPHA / len({*options.score}) / 2, options.reference_days
    known, watched = (
        [
            {(value - low) / (high - low): int(n) for value, n in scores[spec]["counts"]}
            for scores in some.values()
            if spec in scores
        ]
        for some in (reference, days)
    )
    if options.reference is None:
        known, watched = watched[:needed], watched[needed:]
        if not watched:
            return Verdict(f"day {len(known)} of {needed}", "-")
    elif not known:
        raise InputError(
            f"{options.reference} has no day with {spec}.\nGive a history that `rageval monitor` wrote with it."
        )
    floor = lower_end(pooled(known), alpha)
    allowed = floor - options.max_drop / (high - low)
    mean, least, last = (
        low + (high - low) * x for x in (mean_of(pooled(known)), floor, mean_of(pooled(watched[-7:])))
    )
    text = f"{mean:.3f}, at least {least:.3f}"
    if allowed <= 0:
        raise InputError(
            f"{spec}: --max-drop {options.max_drop:g} allows any mean: that of the reference is {text}, and the lowest "
            f"value {low:g}.\nGive a smaller one."
        )
    found = max(evidence(watched, allowed))
    alarm = (
        f"ALARM: {spec} fell by more than {options.max_drop:g}: from {text}, in "
        f"{format_count(len(known), 'reference day')}, to {last:.3f} in the last "
        f"{format_count(len(watched[-7:]), 'day')}.\nAfter a repair, --since DAY begins with a new reference."
    )
    return Verdict(text, f"{found:.3g} of {1 / alpha:.0f}", alarm if found >= 1 / alpha else "")


def _line(
    day: date, scores: Mapping[str, tuple[Score, DayScore]], verdicts: Mapping[str, Verdict]
) -> dict[str, object]:
    entries = {
        spec: {
            "mean": _rounded(score),
            "ci95": [_rounded(end) for end in score.ci95] if score.ci95 else None,
            "n": score.n,
            "unscored": score.unscored,
            "verdict": "fail" if verdicts[spec].alarm else "pass",
            **entry,
        }
        for spec, (score, entry) in sorted(scores.items())
    }
    return {
        "schema": SCHEMA,
        "time": f"{day}T00:00:00+00:00",
        "package": version("pytest-rageval"),
        "tests": {NAME: {"scores": entries}},
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
