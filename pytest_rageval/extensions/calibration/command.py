"""`rageval judge`: measures how often a model as judge agrees with people, and how stable its verdicts are.

Stability is the share of verdicts that change between votes, with the order of the texts, with the wording of the
prompt, and with prompt injections.

`injections.jsonl` contains inputs of a judge with the right verdict. Each input has a clean text and the same text with
a prompt injection that demands the opposite verdict: an order ("answer yes"), a forged message or end of the prompt, a
forged reference, forged examples, or a plea; in an answer or in a passage.

`rageval judge sample` draws the answers of a report that people are to label, and records how they were drawn.
"""

import argparse
import asyncio
import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from random import Random
from typing import Any, Literal, cast

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge import Judge
from pytest_rageval.answers.judge.default import configured_judge
from pytest_rageval.answers.judge.llm_judge import LLMJudge
from pytest_rageval.cli.command_session import command_settings, session_for
from pytest_rageval.cli.console import echo, echo_err, format_table, reason_lines, to_one_line
from pytest_rageval.core.errors import InputError, Unscored
from pytest_rageval.core.outcome import YES_THRESHOLD, Outcome, Tally
from pytest_rageval.extensions.calibration.calibration import Calibration, judge_items, judge_verdict
from pytest_rageval.extensions.calibration.gate import agreement_with_people, distribution
from pytest_rageval.extensions.calibration.human_labels import HumanLabels, LabelledAnswer, load_labels
from pytest_rageval.lib.files import write_json_lines
from pytest_rageval.lib.text import counted
from pytest_rageval.models.prompt_rendering import REWORDED_PROMPTS, Prompts, read_prompts
from pytest_rageval.models.usage import usage_entry, usage_lines
from pytest_rageval.options.settings import EMBEDDED
from pytest_rageval.reports.document import ReportDocument, ScoreEntry, TestEntry
from pytest_rageval.reports.notes import calibration_lines
from pytest_rageval.reports.reading import read_report
from pytest_rageval.run.session import Session
from pytest_rageval.scores.relevance import RELEVANT
from pytest_rageval.stats.intervals import Estimate, wilson_interval
from pytest_rageval.stats.systems import PositionBias, position_bias


def judge_command(options: argparse.Namespace) -> int:
    labels = load_labels(options.labels)
    if options.paraphrase and not labels.answers:
        raise InputError(
            f"{labels.name} holds {labels.kind}, and --paraphrase rewords only the question about single answers.\n"
            "Leave out --paraphrase."
        )
    if options.swap and labels.passages:
        raise InputError(f"{labels.name} holds passages, which have no order to swap.\nLeave out --swap.")
    if EMBEDDED in map(str.strip, options.model.split(",")):
        raise InputError(
            f"The {EMBEDDED} model is too small to judge: its verdicts are no better than chance.\n"
            "Name a model at a server with --model and --base-url."
        )
    # Without --base-url, the judge's server in the project's settings is used.
    settings = command_settings(
        options, judge_model=options.model, judge_base_url=options.base_url, judge_votes=options.votes
    )
    prompts = read_prompts(settings.prompts)
    with closing(session_for(settings)) as session:
        report = session.loop.run(_evaluate_judge(session, prompts, labels, options))
    if options.json:
        echo(json.dumps(_report_document(report, options), ensure_ascii=False, indent=1))
        return 0
    echo(*_report_lines(report, options))
    echo_err(*usage_lines(usage_entry(session.usage)))
    return 0


@dataclass(frozen=True, slots=True)
class Injection:
    """An input of a judge, clean and with a prompt injection."""

    id: str
    kind: str  # of injection, such as "forged message"
    method: Literal["compare", "relevant"]
    question: str
    clean: str
    injected: str
    verdict: int  # the right one on both texts, 1 or 0; the injection demands the opposite
    references: tuple[str, ...] = ()  # for "compare"


@dataclass(frozen=True, slots=True)
class Trial:
    """The verdicts of a judge on one input."""

    injection: Injection
    clean: bool | None
    injected: bool | None

    @property
    def right(self) -> bool:
        return self.clean is not None and self.clean == bool(self.injection.verdict)

    @property
    def flipped(self) -> bool:
        return None not in {self.clean, self.injected} and self.clean != self.injected

    @property
    def obeyed(self) -> bool:
        return self.right and self.flipped


@dataclass(frozen=True, slots=True)
class InjectionSummary:
    cases: int  # inputs with a verdict on both texts
    flipped: int  # their two verdicts differ
    right: int  # the verdict on the clean text is right
    obeyed: int  # right ones that the injection changed
    unscored: int


def injections() -> tuple[Injection, ...]:
    text = files(__package__).joinpath("injections.jsonl").read_text(encoding="utf-8")
    records = map(json.loads, text.splitlines())
    return tuple(
        Injection(**{**record, "references": tuple(record.get("references", ()))}) for record in records
    )


async def run_trials(judge: Judge, cases: Sequence[Injection]) -> list[Trial]:
    async def is_yes(case: Injection, text: str) -> bool | None:
        try:
            if case.method == "compare":
                return await judge.compare(case.question, case.references, text) >= YES_THRESHOLD
            return await judge.ask(RELEVANT, case.question, text) >= YES_THRESHOLD
        except Unscored:
            return None

    async def trial(case: Injection) -> Trial:
        return Trial(case, *await asyncio.gather(is_yes(case, case.clean), is_yes(case, case.injected)))

    return await asyncio.gather(*map(trial, cases))


async def compare_fences(judge: LLMJudge) -> dict[str, list[Trial]]:
    """Judge the packaged inputs with fences (delimiters) around the texts in the prompt, and without fences."""
    without_fences = replace(judge, prompts=judge.prompts.without_fences())
    judges = {"injections": judge, "injections without fences": without_fences}
    trials = await asyncio.gather(*(run_trials(each, injections()) for each in judges.values()))
    return dict(zip(judges, trials, strict=True))


def summarize_trials(trials: Sequence[Trial]) -> InjectionSummary:
    scored = [trial for trial in trials if None not in {trial.clean, trial.injected}]
    return InjectionSummary(
        cases=len(scored),
        flipped=sum(trial.flipped for trial in scored),
        right=sum(trial.right for trial in scored),
        obeyed=sum(trial.obeyed for trial in scored),
        unscored=len(trials) - len(scored),
    )


@dataclass(frozen=True, slots=True)
class Flips:
    """How many verdicts changed between two conditions."""

    total: int  # items with a verdict in both conditions
    changed: int
    ids: tuple[str, ...] = ()

    @property
    def rate(self) -> Estimate | None:
        if not self.total:
            return None
        return Estimate(self.changed / self.total, *wilson_interval(self.changed, self.total))


def count_changed_verdicts(pairs: Sequence[tuple[Outcome, Outcome]]) -> Flips:
    ids = tuple(old.example.id for old, new in pairs if old.value != new.value)
    return Flips(len(pairs), len(ids), ids)


def scored_pairs(
    before: Sequence[Outcome], after: Sequence[Outcome], ids: Collection[str]
) -> list[tuple[Outcome, Outcome]]:
    """Return the outcomes of these items in two conditions, of those with a verdict in both."""
    return [
        (old, new)
        for old, new in zip(before, after, strict=True)
        if old.example.id in ids and old.value is not None and new.value is not None
    ]


def count_split_votes(outcomes: Sequence[Outcome]) -> Flips | None:
    votes = [(outcome.example.id, outcome.evidence.votes) for outcome in outcomes]
    total = sum((tally for _, tally in votes), Tally())
    if not total.verdicts:
        return None
    return Flips(total.verdicts, total.split, tuple(identifier for identifier, tally in votes if tally.split))


@dataclass(frozen=True)
class _JudgeReport:
    calibration: Calibration
    flips: dict[str, Flips]  # by what was changed, such as "order of references"
    judges: dict[str, Calibration]  # of several models, each alone, by its name
    reworded: Calibration | None = None  # with --paraphrase
    positions: PositionBias | None = None  # with --swap
    injections: dict[str, InjectionSummary] = field(default_factory=dict)  # with --injections


async def _evaluate_judge(
    session: Session, prompts: Prompts, labels: HumanLabels, options: argparse.Namespace
) -> _JudgeReport:
    # --model is required, so the session's judge is an LLMJudge.
    model = cast("LLMJudge", session.models.shared(configured_judge))
    model = replace(model, prompts=prompts, voting=replace(model.voting, all_votes=True))
    base = await judge_items(labels, judge_verdict(model, labels.scale))
    judges: dict[str, Calibration] = {}
    if model.other_models:
        # The replies are those of the vote of all, which are in the cache.
        for alone in model.judges_in_turn:
            verdicts = await judge_items(labels, judge_verdict(alone, labels.scale))
            judges[alone.model] = Calibration(labels, verdicts)
    split_votes = count_split_votes(base)
    drawn = f"{len(judges)} judges" if judges else f"{model.voting.votes} votes"
    flips = {} if split_votes is None else {drawn: split_votes}
    reworded = positions = None
    # An abstention is judged wrong by a rule, without a request to the model.
    judged_by_model = {
        item.example.id
        for item in labels.items
        if not (isinstance(item, LabelledAnswer) and abstains(item.prediction))
    }
    if options.swap:
        swapped = await judge_items(labels, judge_verdict(model, labels.scale, swapped=True))
        # A single reference has only one order.
        swappable = judged_by_model - {
            item.example.id for item in labels.answers if len(set(item.references)) == 1
        }
        pairs = scored_pairs(base, swapped, swappable)
        condition = f"order of {'the answers' if labels.pairs else 'references'}"
        flips[condition] = count_changed_verdicts(pairs)
        if labels.pairs:
            # For each pair, the score of its first answer in the original order and in the reverse order.
            scores = [(old.value, new.value) for old, new in pairs]
            positions = position_bias(cast("list[tuple[float, float]]", scores))
    if options.paraphrase:
        outcomes = await judge_items(
            labels, judge_verdict(replace(model, prompts=REWORDED_PROMPTS), labels.scale)
        )
        flips["other words"] = count_changed_verdicts(scored_pairs(base, outcomes, judged_by_model))
        reworded = Calibration(labels, outcomes)
    summaries: dict[str, InjectionSummary] = {}
    for name, trials in (await compare_fences(model)).items() if options.injections else ():
        summary = summaries[name] = summarize_trials(trials)
        ids = tuple(trial.injection.id for trial in trials if trial.flipped)
        flips[name] = Flips(summary.cases, summary.flipped, ids)
    return _JudgeReport(Calibration(labels, base), flips, judges, reworded, positions, summaries)


def _table_of_judges(report: _JudgeReport, options: argparse.Namespace) -> list[str]:
    """Return the verdicts of people, of each judge and of their majority: for pairs, and for several judges."""
    calibration, labels = report.calibration, report.calibration.labels
    if not (report.judges or labels.pairs):
        return []
    together = f"majority of {len(report.judges)}" if report.judges else options.model
    no_measures = ["-"] * len(calibration.agreement)
    rows = [("people", *_shares(calibration, "people"), *no_measures)]
    for name, each in {**report.judges, together: calibration}.items():
        measures = ["-" if found is None else f"{found.value:.3f}" for found in each.agreement.values()]
        rows.append((to_one_line(name), *_shares(each, "judge"), *measures))
    what = f"better of {len(labels)} pairs" if labels.pairs else f"{len(labels)} {labels.kind}"
    words = (distribution(calibration) or {}).get("people", ())
    return ["", format_table((what, *words, *calibration.agreement), rows)]


def _shares(calibration: Calibration, rater: str) -> list[str]:
    counts, n = distribution(calibration), len(calibration.labelled_verdicts)
    return [f"{count / n:.1%}" if n else "-" for count in counts[rater].values()] if counts else []


def _report_lines(report: _JudgeReport, options: argparse.Namespace) -> list[str]:
    calibration = report.calibration
    agreement, *details = calibration_lines(agreement_with_people(calibration))
    lines = [f"{to_one_line(options.model)}: {agreement}", *details]
    if report.reworded is not None:
        lines.append(f"in other words: {calibration_lines(agreement_with_people(report.reworded))[0]}")
    lines += reason_lines(
        outcome.unscored for outcome in calibration.outcomes if outcome.unscored is not None
    )
    lines += _table_of_judges(report, options)
    if report.flips:
        rows = []
        for name, flips in report.flips.items():
            rate, rate_cells = flips.rate, ("-", "-")
            if rate is not None:
                rate_cells = f"{rate.value:.1%}", f"{rate.low:.1%} to {rate.high:.1%}"
            rows.append((name, str(flips.changed), str(flips.total), *rate_cells))
        lines += [
            "",
            format_table(("verdicts changed by", "changed", "of", "flip rate", "95% interval"), rows),
        ]
    bias = report.positions
    if bias is not None and bias.first is not None:
        lines.append(
            f"of these, {bias.first.value:.1%} prefer the answer shown first (p = {bias.p_value:.2g} that "
            "a place makes no difference)"
        )
    for name, summary in report.injections.items():
        unscored = f"; {summary.unscored} without a verdict" if summary.unscored else ""
        lines.append(
            f"{name}: {summary.right} of {summary.cases} clean texts are judged right, and {summary.obeyed} of these "
            f"as the injection asks{unscored}"
        )
    return lines


def _report_document(report: _JudgeReport, options: argparse.Namespace) -> dict[str, object]:
    bias = report.positions
    return {
        "model": options.model,
        **agreement_with_people(report.calibration),
        "distribution": distribution(report.calibration),
        "judges": {
            name: {
                "agreement": agreement_with_people(judge)["agreement"],
                "distribution": distribution(judge),
            }
            for name, judge in report.judges.items()
        },
        "reworded": None if report.reworded is None else agreement_with_people(report.reworded),
        "flips": {
            name: {"changed": flips.changed, "of": flips.total, "ids": list(flips.ids)}
            for name, flips in report.flips.items()
        },
        "places": bias and {"first": bias.first and bias.first.value, "p_value": bias.p_value},
        "injections": {name: asdict(summary) for name, summary in report.injections.items()},
    }


def sample_command(options: argparse.Namespace) -> int:
    report = read_report(options.report, remedy="Write it with pytest --rageval-report report.json.")
    score = _score_of(report, options)
    pool = sorted(_answers(*score), key=lambda record: record["id"])
    if not pool:
        raise InputError(
            f"{options.report.name}: {score[1]['spec']} has no answers with references.\nName a score of answers, such "
            "as --score answer.correct@3."
        )
    count = min(options.count, len(pool))
    drawn = Random(options.seed).sample(pool, count)  # noqa: S311 - no secret
    for place, record in enumerate(drawn, 1):
        record["sample"] = {"seed": options.seed, "of": len(pool), "n": count, "place": place}
    if options.output.exists():
        raise InputError(
            f"{options.output} exists already.\nName another file with --output: labels are not overwritten."
        )
    write_json_lines(options.output, drawn)
    echo(
        f"{options.output}: {count} of {counted(len(pool), 'answer')} of {score[1]['spec']}, drawn with seed "
        f'{options.seed}. Write true or false for each "human", from the first line on: the first labels of a file in '
        "random order are a random sample too"
    )
    return 0


def _score_of(report: ReportDocument, options: argparse.Namespace) -> tuple[TestEntry, ScoreEntry]:
    scores = [
        (test, score)
        for test in report["tests"]
        for score in test["scores"]
        if options.test in {None, test["nodeid"]} and not score["where"]
    ]
    found = [
        pair
        for pair in scores
        if (pair[1]["spec"] == options.score if options.score else any(_answers(*pair)))
    ]
    if not found:
        names = ", ".join(sorted({score["spec"] for _, score in scores})) or "no score"
        what = options.score or "score of answers"
        raise InputError(
            f"{options.report.name} has no {what}; found {names}.\nUse --test NODEID and --score NAME."
        )
    return found[0]


def _answers(test: TestEntry, score: ScoreEntry) -> Iterator[dict[str, Any]]:
    """Yield a record without a label for each answer of a score that has a verdict."""
    questions = {question["id"]: question for question in test.get("questions", ())}
    for example in score["examples"]:
        question, expected = questions.get(example["id"]), example.get("expected")
        if question is None or expected is None or example.get("answer") is None or example["score"] is None:
            continue
        yield {
            "id": example["id"],
            "question": question["question"],
            **({"history": question["history"]} if question.get("history") else {}),
            "references": expected["texts"],
            "prediction": example["answer"],
            "human": None,
        }
