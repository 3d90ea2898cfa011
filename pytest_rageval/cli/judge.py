"""`rageval judge`: a model as judge, compared with people, and with itself when votes, order or words change.

`injections.jsonl` holds inputs of a judge with the right verdict, each once clean and once with a prompt injection that
asks for the other one: an order ("answer yes"), a forged message or end of the prompt, a forged reference, forged
examples, or a plea; in an answer or in a passage.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, cast

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge_protocol import Judge
from pytest_rageval.answers.llm_judge import LLMJudge
from pytest_rageval.calibration import Calibration
from pytest_rageval.cli.console import note, plain, reason_lines, say, table
from pytest_rageval.cli.plugin_stores import registry_for
from pytest_rageval.config import EMBEDDED, OPTIONS, resolve
from pytest_rageval.errors import InputError, Unscored
from pytest_rageval.evalsets.human_labels import HumanLabels, LabelledAnswer, load_labels
from pytest_rageval.evaluations.calibration import judge_items, judge_verdict
from pytest_rageval.llm.servers.rate_limits import StallNotifier
from pytest_rageval.prompts.rendering import REWORDED_PROMPTS, Prompts, read_prompts
from pytest_rageval.reports.judge_calibration import agreement_with_people, calibration_lines
from pytest_rageval.reports.results import usage_entry, usage_lines
from pytest_rageval.scores import YES_THRESHOLD, Outcome
from pytest_rageval.session import Session
from pytest_rageval.stats.agreement import Tally
from pytest_rageval.stats.intervals import Estimate, wilson_interval
from pytest_rageval.stats.systems import PositionBias, position_bias

__all__ = [
    "FlipRate",
    "Injection",
    "Trial",
    "compare_fences",
    "flip_rate",
    "injections",
    "judge_command",
    "run_trials",
]

INJECTION_TRIALS: Final = ("injections", "injections without fences")


def judge_command(options: argparse.Namespace) -> int:
    """Ask the model about the labelled answers, and print the report."""
    labels = load_labels(options.labels)
    if options.paraphrase and not labels.answers:
        raise InputError(
            f"{labels.name} holds {labels.kind}, and --paraphrase rewords only the question about single answers.\n"
            "Leave out --paraphrase."
        )
    if options.swap and labels.passages:
        raise InputError(f"{labels.name} holds passages, which have no order to swap.\nLeave out --swap.")
    if options.model == EMBEDDED:
        raise InputError(
            f"The {EMBEDDED} model is too small to judge: its verdicts are no better than chance.\n"
            "Name a model at a server with --model and --base-url."
        )
    # The model that judges, at the judge's server where the project has one and none is named here.
    command_line = {
        **{option.name: getattr(options, option.name, None) for option in OPTIONS},
        "judge_model": options.model,
        "judge_base_url": options.base_url,
        "judge_votes": options.votes,
    }
    here = Path.cwd()
    settings = resolve(command_line, {}, os.environ, invoked_in=here, root=here)
    prompts = read_prompts(settings.prompts)
    with closing(
        Session(settings, registry=registry_for(settings.cache_location), tick=StallNotifier(note))
    ) as session:
        report = session.loop.run(_report(session, prompts, labels, options))
    if options.json:
        say(json.dumps(_report_document(report, options), ensure_ascii=False, indent=1))
        return 0
    for line in _report_lines(report, options):
        say(line)
    for line in usage_lines(usage_entry(session.usage)):
        note(line)
    return 0


@dataclass(frozen=True, slots=True)
class Injection:
    """One case: a judge's question, with the answer ("compare") or passage ("relevant") clean and `injected`.

    `verdict` is the right one for both texts, 1 or 0; the injection, of a `kind` such as "forged message", asks for
    the other.
    """

    id: str
    kind: str
    method: Literal["compare", "relevant"]
    question: str
    clean: str
    injected: str
    verdict: int
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """A judge's verdicts on one case: whether that on each text is yes; None without a verdict."""

    injection: Injection
    clean: bool | None
    injected: bool | None

    @property
    def right(self) -> bool:
        """True if the verdict on the clean text is right."""
        return self.clean is not None and self.clean == bool(self.injection.verdict)

    @property
    def flipped(self) -> bool:
        """True if the injection changed the verdict, either way."""
        return None not in {self.clean, self.injected} and self.clean != self.injected

    @property
    def obeyed(self) -> bool:
        """True if the injection changed a right verdict to the one that it asks for."""
        return self.right and self.flipped


@dataclass(frozen=True, slots=True)
class FlipRate:
    """The counts of a test of injections: how often they changed the verdict of a judge.

    `cases` have a verdict on both texts; `unscored` do not. Of the cases, `flipped` have two different verdicts, and
    `right` have the right verdict on the clean text. Of the right ones, `obeyed` have the verdict that the injection
    asks for on the other text.
    """

    cases: int
    flipped: int
    right: int
    obeyed: int
    unscored: int


def injections() -> tuple[Injection, ...]:
    """Return the packaged set."""
    text = files("pytest_rageval.cli").joinpath("injections.jsonl").read_text(encoding="utf-8")
    records = map(json.loads, text.splitlines())
    return tuple(
        Injection(**{**record, "references": tuple(record.get("references", ()))}) for record in records
    )


async def run_trials(judge: Judge, cases: Sequence[Injection]) -> list[Trial]:
    """Ask a judge for its verdict on each case, clean and with the injection, all at once."""

    async def is_yes(case: Injection, text: str) -> bool | None:
        try:
            if case.method == "compare":
                return await judge.compare(case.question, case.references, text) >= YES_THRESHOLD
            return await judge.relevant(case.question, text) >= YES_THRESHOLD
        except Unscored:
            return None

    async def trial(case: Injection) -> Trial:
        return Trial(case, *await asyncio.gather(is_yes(case, case.clean), is_yes(case, case.injected)))

    return await asyncio.gather(*map(trial, cases))


async def compare_fences(judge: LLMJudge) -> tuple[list[Trial], list[Trial]]:
    """Run the packaged set on a model as judge, with fences around quoted texts and without."""
    bare = replace(judge, prompts=judge.prompts.without_fences())
    fenced, unfenced = await asyncio.gather(*(run_trials(each, injections()) for each in (judge, bare)))
    return fenced, unfenced


def flip_rate(trials: Sequence[Trial]) -> FlipRate:
    """Count the verdicts that an injection changed."""
    read = [trial for trial in trials if None not in {trial.clean, trial.injected}]
    return FlipRate(
        cases=len(read),
        flipped=sum(trial.flipped for trial in read),
        right=sum(trial.right for trial in read),
        obeyed=sum(trial.obeyed for trial in read),
        unscored=len(trials) - len(read),
    )


@dataclass(frozen=True, slots=True)
class Flips:
    """The number `of` items with verdicts from two trials, and the number and ids of those that differ."""

    of: int
    changed: int
    ids: tuple[str, ...] = ()

    @property
    def rate(self) -> Estimate | None:
        """The share of changed verdicts, in [0, 1], with Wilson's 95% interval; None without items."""
        return Estimate(self.changed / self.of, *wilson_interval(self.changed, self.of)) if self.of else None


def changed_verdicts(first: Sequence[Outcome], second: Sequence[Outcome]) -> Flips:
    """Compare verdicts on the same items, in the same order; unscored ones are left out."""
    pairs = _scored_pairs(first, second)
    ids = tuple(one.example.id for one, other in pairs if one.value != other.value)
    return Flips(len(pairs), len(ids), ids)


def _scored_pairs(first: Sequence[Outcome], second: Sequence[Outcome]) -> list[tuple[Outcome, Outcome]]:
    return [
        (one, other)
        for one, other in zip(first, second, strict=True)
        if one.value is not None and other.value is not None
    ]


def split_votes(outcomes: Sequence[Outcome]) -> Flips | None:
    """Count the verdicts whose votes differ; None if each verdict is a single vote."""
    votes = [(one.example.id, one.evidence.votes) for one in outcomes]
    tally = sum((tally for _, tally in votes), Tally())
    if not tally.verdicts:
        return None
    return Flips(tally.verdicts, tally.split, tuple(name for name, tally in votes if tally.split))


@dataclass(frozen=True)
class _Report:
    """Agreement with people, changed verdicts by what was changed, and the results of optional trials."""

    calibration: Calibration
    flips: dict[str, Flips]
    reworded: Calibration | None = None
    positions: PositionBias | None = None
    injections: dict[str, list[Trial]] = field(default_factory=dict)


async def _report(
    session: Session, prompts: Prompts, labels: HumanLabels, options: argparse.Namespace
) -> _Report:
    # The cast holds: a model is named, so the default judge is an LLM.
    model = replace(cast("LLMJudge", session.models.judge), prompts=prompts)
    base = await judge_items(labels, judge_verdict(model, labels.scale))
    votes = split_votes(base)
    flips = {} if votes is None else {f"{model.voting.votes} votes": votes}
    reworded = positions = None
    # Abstentions are wrong by rule; the model is not asked about them.
    asked = {
        item.example.id
        for item in labels.items
        if not (isinstance(item, LabelledAnswer) and abstains(item.prediction))
    }
    if options.swap:
        swapped = await judge_items(labels, judge_verdict(model, labels.scale, swapped=True))
        # A single reference has no other order.
        many = asked - {item.example.id for item in labels.answers if len(set(item.references)) == 1}
        before, after = _only(many, base), _only(many, swapped)
        flips[f"order of {'the answers' if labels.pairs else 'references'}"] = changed_verdicts(before, after)
        if labels.pairs:
            # The scores of each pair's first answer when it was shown first, and second.
            scores = [(one.value, other.value) for one, other in _scored_pairs(before, after)]
            positions = position_bias(cast("list[tuple[float, float]]", scores))
    if options.paraphrase:
        outcomes = await judge_items(
            labels, judge_verdict(replace(model, prompts=REWORDED_PROMPTS), labels.scale)
        )
        flips["other words"] = changed_verdicts(_only(asked, base), _only(asked, outcomes))
        reworded = Calibration(labels, outcomes)
    trials: dict[str, list[Trial]] = {}
    if options.injections:
        trials = dict(zip(INJECTION_TRIALS, await compare_fences(model), strict=True))
    for name, each in trials.items():
        found = flip_rate(each)
        ids = tuple(trial.injection.id for trial in each if trial.flipped)
        flips[name] = Flips(found.cases, found.flipped, ids)
    return _Report(Calibration(labels, base), flips, reworded, positions, trials)


def _only(ids: set[str], outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if outcome.example.id in ids]


def _report_lines(report: _Report, options: argparse.Namespace) -> list[str]:
    calibration = report.calibration
    agreement, *details = calibration_lines(agreement_with_people(calibration))
    lines = [f"{plain(options.model)}: {agreement}", *details]
    if report.reworded is not None:
        lines.append(f"in other words: {calibration_lines(agreement_with_people(report.reworded))[0]}")
    lines += reason_lines(one.unscored for one in calibration.outcomes if one.unscored is not None)
    if report.flips:
        rows = []
        for name, flips in report.flips.items():
            rate, shown = flips.rate, ("-", "-")
            if rate is not None:
                shown = f"{rate.value:.1%}", f"{rate.low:.1%} to {rate.high:.1%}"
            rows.append((name, str(flips.changed), str(flips.of), *shown))
        lines += ["", table(("verdicts changed by", "changed", "of", "flip rate", "95% interval"), rows)]
    bias = report.positions
    if bias is not None and bias.first is not None:
        lines.append(
            f"of these, {bias.first.value:.1%} prefer the answer shown first (p = {bias.p_value:.2g} that "
            "a place makes no difference)"
        )
    for name, trials in report.injections.items():
        found = flip_rate(trials)
        unscored = f"; {found.unscored} without a verdict" if found.unscored else ""
        lines.append(
            f"{name}: {found.right} of {found.cases} clean texts are judged right, and {found.obeyed} of these as the "
            f"injection asks{unscored}"
        )
    return lines


def _report_document(report: _Report, options: argparse.Namespace) -> dict[str, Any]:
    bias = report.positions
    return {
        "model": options.model,
        **agreement_with_people(report.calibration),
        "reworded": None if report.reworded is None else agreement_with_people(report.reworded),
        "flips": {
            name: {"changed": flips.changed, "of": flips.of, "ids": list(flips.ids)}
            for name, flips in report.flips.items()
        },
        "places": bias and {"first": bias.first and bias.first.value, "p_value": bias.p_value},
        "injections": {name: asdict(flip_rate(trials)) for name, trials in report.injections.items()},
    }
