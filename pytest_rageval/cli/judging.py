"""`rageval judge`: a model compared with people, and with itself when votes, order or words change."""

import argparse
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.injections import Trial, compare_fences, flip_rate
from pytest_rageval.answers.llm_judge import LLMJudge
from pytest_rageval.calibration.findings import Calibration
from pytest_rageval.cli.output import note, plain, say, table
from pytest_rageval.config import EMBEDDED, Settings, resolve
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.human_labels import HumanLabels, LabelledPair, load_labels
from pytest_rageval.evaluations.calibration import judge_labels, verdict_of
from pytest_rageval.llm.patience import Announcer
from pytest_rageval.prompts.rendering import OTHER, Prompts, read_prompts
from pytest_rageval.reports.judge_calibration import agreement_with_people, calibration_lines
from pytest_rageval.reports.results import usage_entry, usage_lines
from pytest_rageval.scores import Outcome
from pytest_rageval.session import Session
from pytest_rageval.stats.agreement import Tally
from pytest_rageval.stats.intervals import Estimate, wilson
from pytest_rageval.stats.position_bias import PositionBias, position_bias

__all__ = ["Flips", "changed_verdicts", "judge", "split_votes"]


@dataclass(frozen=True, slots=True)
class Flips:
    """How many verdicts did not stay.

    Attributes:
        of: how many verdicts could be had both times.
        changed: how many of these are not the same.
        ids: of the items on which they are not; empty where only their number is known.
    """

    of: int
    changed: int
    ids: tuple[str, ...] = ()

    @property
    def rate(self) -> Estimate | None:
        """The share of changed verdicts, in [0, 1], with Wilson's 95% interval; None of none."""
        if not self.of:
            return None
        return Estimate(self.changed / self.of, *wilson(self.changed, self.of))


def changed_verdicts(once: Sequence[Outcome], again: Sequence[Outcome]) -> Flips:
    """Compare the verdicts on the same items, in the same order; unscored ones are left out."""
    pairs = [
        (one.example.id, one.value, other.value)
        for one, other in zip(once, again, strict=True)
        if one.value is not None and other.value is not None
    ]
    ids = tuple(name for name, one, other in pairs if one != other)
    return Flips(len(pairs), len(ids), ids)


def split_votes(outcomes: Sequence[Outcome]) -> Flips | None:
    """How many verdicts were reached by votes that differ; None where there was one vote each."""
    voted = [(one.example.id, one.evidence.votes) for one in outcomes]
    tally = sum((votes for _, votes in voted), Tally())
    if not tally.verdicts:
        return None
    return Flips(tally.verdicts, tally.split, tuple(name for name, votes in voted if votes.split))


WITH_AND_WITHOUT: Final = ("injections", "injections without fences")
"""How the two trials of the set of injections are called."""


@dataclass(frozen=True)
class _Report:
    """All that was found.

    Attributes:
        calibration: the judge beside people.
        flips: how many verdicts changed, by what was changed.
        reworded: the judge beside people when asked in other words, or None.
        places: whether the judge of pairs prefers a place, or None.
        injections: what it said to the set that ships, by how it was asked; empty where it was not.
    """

    calibration: Calibration
    flips: dict[str, Flips]
    reworded: Calibration | None = None
    places: PositionBias | None = None
    injections: Mapping[str, list[Trial]] = field(default_factory=dict)


def judge(options: argparse.Namespace) -> int:
    """Ask, and print the report.

    Raises:
        InputError: the labels or the prompts cannot be used, or what was asked for does not fit them.
        RagevalError: the model cannot be asked.
    """
    labels = load_labels(options.labels)
    if options.paraphrase and labels.pairs:
        raise InputError(
            f"{labels.name} holds pairs, and only the questions about single answers have other words.\n"
            "Leave out --paraphrase."
        )
    settings = _settings(options)
    prompts = read_prompts(settings.prompts)
    session = Session(settings, tick=Announcer(note))
    try:
        report = session.loop.run(_report(session, prompts, labels, options))
    finally:
        session.close()
    if options.json:
        say(json.dumps(_entry(report, options), ensure_ascii=False, indent=1))
        return 0
    for line in _lines(report, options):
        say(line)
    for line in usage_lines(usage_entry(session.usage)):
        note(line)
    return 0


def _settings(options: argparse.Namespace) -> Settings:
    if options.model == EMBEDDED:
        raise InputError(
            f"The {EMBEDDED} model is too small to judge: its verdicts are no better than chance.\n"
            "Name a model at a server with --model and --base-url."
        )
    here = Path.cwd()
    given = {
        "model": options.model,
        "base_url": options.base_url,
        "judge_votes": str(options.votes),
        "cache_dir": str(options.cache_dir),
        "prompts": options.prompts and str(options.prompts),
        "replay": "true" if options.replay else None,
    }
    return resolve(given, {}, os.environ, invoked_in=here, root=here)


async def _report(
    session: Session, prompts: Prompts, labels: HumanLabels, options: argparse.Namespace
) -> _Report:
    # A model is named, so no rules judge.
    model = replace(cast("LLMJudge", session.models.judge), prompts=prompts)
    base = await judge_labels(labels, verdict_of(model, labels.scale))
    votes = split_votes(base)
    flips = {} if votes is None else {f"{model.poll.votes} votes": votes}
    reworded = places = None
    # An abstention is wrong by rule; what is not asked cannot change.
    asked = {
        one.example.id
        for one in labels.items
        if isinstance(one, LabelledPair) or not abstains(one.prediction)
    }
    if options.swap:
        ids = asked - {one.example.id for one in labels.answers if len(set(one.references)) == 1}
        after = await judge_labels(labels, verdict_of(model, labels.scale, swapped=True))
        before, after = _only(ids, base), _only(ids, after)
        flips[f"order of {'the answers' if labels.pairs else 'references'}"] = changed_verdicts(before, after)
        places = _places(before, after) if labels.pairs else None
    if options.paraphrase:
        other = replace(model, prompts=OTHER)
        again = await judge_labels(labels, verdict_of(other, labels.scale))
        flips["other words"] = changed_verdicts(_only(asked, base), _only(asked, again))
        reworded = Calibration(labels, again)
    trials = (
        dict(zip(WITH_AND_WITHOUT, await compare_fences(model), strict=True)) if options.injections else {}
    )
    flips |= {name: _flips(said) for name, said in trials.items()}
    return _Report(Calibration(labels, base), flips, reworded, places, trials)


def _flips(trials: Sequence[Trial]) -> Flips:
    """The verdicts that an injection changed."""
    found = flip_rate(trials)
    return Flips(found.cases, found.flipped, tuple(trial.injection.id for trial in trials if trial.flipped))


def _only(ids: set[str], outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [one for one in outcomes if one.example.id in ids]


def _places(before: Sequence[Outcome], after: Sequence[Outcome]) -> PositionBias | None:
    """What the first answer of each pair scored when it was shown first, and second."""
    return position_bias(
        [
            (one.value, other.value)
            for one, other in zip(before, after, strict=True)
            if one.value is not None and other.value is not None
        ]
    )


def _lines(report: _Report, options: argparse.Namespace) -> list[str]:
    calibration = report.calibration
    agreement, *beside = calibration_lines(agreement_with_people(calibration))
    lines = [f"{plain(options.model)}: {agreement}", *beside]
    if report.reworded is not None:
        lines.append(f"in other words: {calibration_lines(agreement_with_people(report.reworded))[0]}")
    reasons = Counter(one.unscored for one in calibration.outcomes if one.unscored is not None)
    lines += [f"  {count} × {plain(reason)}" for reason, count in reasons.most_common()]
    if report.flips:
        rows = [_row(name, flips) for name, flips in report.flips.items()]
        lines += ["", table(("verdicts changed by", "changed", "of", "flip rate", "95% interval"), rows)]
    bias = report.places
    if bias is not None and bias.first is not None:
        lines.append(
            f"of these, {bias.first.value:.1%} prefer the answer shown first (p = {bias.p_value:.2g} that "
            "a place makes no difference)"
        )
    return lines + [_obeyed(name, trials) for name, trials in report.injections.items()]


def _obeyed(name: str, trials: Sequence[Trial]) -> str:
    """What the flips are worth: a judge who is wrong anyhow cannot be led astray."""
    found = flip_rate(trials)
    unscored = f"; {found.unscored} without a verdict" if found.unscored else ""
    return (
        f"{name}: {found.right} of {found.cases} clean texts are judged right, and {found.obeyed} of these as the "
        f"injection asks{unscored}"
    )


def _row(name: str, flips: Flips) -> tuple[str, ...]:
    rate = flips.rate
    told = ("-", "-") if rate is None else (f"{rate.value:.1%}", f"{rate.low:.1%} to {rate.high:.1%}")
    return (name, str(flips.changed), str(flips.of), *told)


def _entry(report: _Report, options: argparse.Namespace) -> dict[str, Any]:
    """The report as data."""
    bias = report.places
    return {
        "model": options.model,
        **agreement_with_people(report.calibration),
        "reworded": None if report.reworded is None else agreement_with_people(report.reworded),
        "flips": {
            name: {"changed": flips.changed, "of": flips.of, "ids": list(flips.ids)}
            for name, flips in report.flips.items()
        },
        "places": None
        if bias is None
        else {"first": None if bias.first is None else bias.first.value, "p_value": bias.p_value},
        "injections": {name: asdict(flip_rate(trials)) for name, trials in report.injections.items()},
    }
