"""`rageval evalset nuggets`: the judge's model proposes the facts that a good answer states, for review by people."""

import argparse
import asyncio
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Final

from pytest_rageval.answers.judge import JudgeTask
from pytest_rageval.answers.judge.replies import parse_nuggets
from pytest_rageval.cli.command_session import command_settings, echo_request_count, session_for
from pytest_rageval.cli.console import echo, format_count, reason_lines
from pytest_rageval.core.data import EvalSet, Example
from pytest_rageval.core.errors import BudgetError, InputError, NoGroundTruth, Unscored
from pytest_rageval.evalsets.records import write_jsonl
from pytest_rageval.extensions.evalset_tools.reading import read_evalset, refuse_existing
from pytest_rageval.models.prompt_rendering import read_prompts
from pytest_rageval.models.prompts import MAX_NUGGETS
from pytest_rageval.run.default_components import DefaultJudge

NUGGETS: Final = JudgeTask(
    name="nuggets",
    template="nuggets",
    texts=("question", "sources*"),
    parse=lambda reply: parse_nuggets(reply)[:MAX_NUGGETS],
    vote=itemgetter(0),
    read=lambda nuggets: nuggets,
    call="nuggets(question, sources)",
    returns="a list of nuggets",
    decides="What the nuggets of an answer are",
    instead="write them into the eval set yourself",
)
"""The facts of a good answer, from reference answers or passages."""


def nuggets_command(options: argparse.Namespace) -> int:
    """Write the eval set with proposed nuggets and print a summary; return 1 if an example still has no nuggets."""
    out: Path = options.out
    refuse_existing([out], read=[options.file], force=options.force)
    evalset, _ = read_evalset(options)
    settings = command_settings(options, judge_votes=1)
    if len(settings.judge_models) > 1:
        raise InputError(
            f"Nuggets are proposed by one model, and several judge: {settings.llm_judge}. A person reviews the "
            "proposals, so no majority is needed.\nName one: --judge-model NAME."
        )
    without_nuggets = [example for example in evalset if not example.nuggets]
    with closing(session_for(settings)) as session:
        judge = DefaultJudge(session.models, read_prompts(settings.prompts))
        # If no model is named, the request raises an error that says so.
        model = next(iter(settings.judge_models), "")
        results = session.loop.run(_propose_all(judge, without_nuggets, model))
    proposed = {result.id: result for result in results if isinstance(result, Example)}
    failures = [result for result in results if not isinstance(result, Example)]
    if proposed:
        examples = tuple(proposed.get(example.id, example) for example in evalset)
        write_jsonl(EvalSet(out.name, examples), out)
    _echo_summary(out, proposed.values(), len(evalset) - len(without_nuggets))
    if failures:
        echo(f"{format_count(len(failures), 'example')} without nuggets:")
    for line in reason_lines(map(str, failures)):
        echo(line)
    echo_request_count(session)
    return int(bool(failures))


def _echo_summary(out: Path, proposed: Iterable[Example], before: int) -> None:
    nuggets = [nugget for example in proposed for nugget in example.nuggets]
    vital = sum(nugget.vital for nugget in nuggets)
    had = f"; {format_count(before, 'example')} had nuggets already" if before else ""
    if nuggets:
        counts = f"{format_count(len(nuggets), 'nugget')} for review, {vital:,} of them vital"
        echo(f"{out}: {counts}, of {format_count(len(list(proposed)), 'example')}{had}")
    else:
        echo(f"No nuggets were proposed, {out} was not written{had}.")


async def _propose_all(
    judge: DefaultJudge, examples: Iterable[Example], model: str
) -> list[Example | Unscored | BudgetError]:
    """Return each example with proposed nuggets, or the reason that it has none; other exceptions are raised."""
    outcomes = await asyncio.gather(
        *(_propose(judge, example, model) for example in examples), return_exceptions=True
    )
    results: list[Example | Unscored | BudgetError] = []
    for outcome in outcomes:
        if not isinstance(outcome, Example | Unscored | BudgetError):
            raise outcome
        results.append(outcome)
    return results


async def _propose(judge: DefaultJudge, example: Example, model: str) -> Example:
    """Return the example with nuggets from its reference answers and gold passages; NoGroundTruth if it has neither."""
    sources = [example.reference] if example.reference is not None else []
    sources += ["; ".join(aliases[0] for aliases in example.wanted)] if example.wanted else []
    sources += [gold.text for gold in example.relevant if gold.text is not None]
    if not sources:
        raise NoGroundTruth("neither reference answers nor gold passages with text")
    nuggets = await judge.ask(NUGGETS, example.full_question, sources)
    return replace(
        example, nuggets=nuggets, extra={**example.extra, "nuggets_by": model, "nuggets_reviewed": False}
    )
