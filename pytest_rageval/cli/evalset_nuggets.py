"""`rageval evalset nuggets`: the judge proposes the facts that a good answer states, for people to review."""

import argparse
import asyncio
import os
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from pytest_rageval.cli.console import count, note, reason_lines, say
from pytest_rageval.cli.evalset_reading import read_evalset, refuse_existing
from pytest_rageval.cli.plugin_stores import registry_for
from pytest_rageval.config import OPTIONS, resolve
from pytest_rageval.datatypes import EvalSet, Example
from pytest_rageval.errors import BudgetError, InputError, NoGroundTruth, Unscored
from pytest_rageval.evalsets.records import write_jsonl
from pytest_rageval.llm.servers.rate_limits import StallNotifier
from pytest_rageval.prompts.rendering import read_prompts
from pytest_rageval.session import Session
from pytest_rageval.session.default_components import DefaultJudge

__all__ = ["nuggets_command"]


def nuggets_command(options: argparse.Namespace) -> int:
    """Write the eval set with proposed nuggets, and print a summary; 1 if an example still has none."""
    out: Path = options.out
    refuse_existing([out], read=[options.file], force=options.force)
    evalset, _ = read_evalset(options)
    here = Path.cwd()
    command_line = {option.name: getattr(options, option.name, None) for option in OPTIONS}
    settings = resolve(command_line, {}, os.environ, invoked_in=here, root=here)
    if len(settings.judge_models) > 1:
        raise InputError(
            f"Nuggets are proposed by one model, and several judge: {settings.llm_judge}. A person reviews the "
            "proposals, so no majority is needed.\nName one: --judge-model NAME."
        )
    bare = [example for example in evalset if not example.nuggets]
    with closing(
        Session(settings, registry=registry_for(settings.cache_location), tick=StallNotifier(note))
    ) as session:
        judge = DefaultJudge(session.models, read_prompts(settings.prompts))
        # Without a model, asking it is the error.
        found = session.loop.run(_each(judge, bare, next(iter(settings.judge_models), "")))
    proposed = {each.id: each for each in found if isinstance(each, Example)}
    lacking = [each for each in found if not isinstance(each, Example)]
    if proposed:
        whole = tuple(proposed.get(example.id, example) for example in evalset)
        write_jsonl(EvalSet(out.name, whole), out)
    _say_summary(out, proposed.values(), len(evalset) - len(bare))
    if lacking:
        say(f"{count(len(lacking), 'example')} without nuggets:")
    for line in reason_lines(map(str, lacking)):
        say(line)
    usage = session.usage
    say(f"{count(usage.requests, 'reply')} asked for: {usage.cached:,} cached, {usage.live:,} live")
    return int(bool(lacking))


def _say_summary(out: Path, proposed: Iterable[Example], before: int) -> None:
    nuggets = [nugget for example in proposed for nugget in example.nuggets]
    vital = sum(nugget.vital for nugget in nuggets)
    had = f"; {count(before, 'example')} had nuggets already" if before else ""
    if nuggets:
        found = f"{count(len(nuggets), 'nugget')} for review, {vital:,} of them vital"
        say(f"{out}: {found}, of {count(len(list(proposed)), 'example')}{had}")
    else:
        say(f"No nuggets were proposed, {out} was not written{had}.")


async def _each(
    judge: DefaultJudge, examples: Iterable[Example], model: str
) -> list[Example | Unscored | BudgetError]:
    """Each example with proposed nuggets, or why it has none; any other exception is raised."""
    outcomes = await asyncio.gather(
        *(_proposed(judge, example, model) for example in examples), return_exceptions=True
    )
    found: list[Example | Unscored | BudgetError] = []
    for outcome in outcomes:
        if not isinstance(outcome, Example | Unscored | BudgetError):
            raise outcome
        found.append(outcome)
    return found


async def _proposed(judge: DefaultJudge, example: Example, model: str) -> Example:
    sources = [example.reference] if example.reference is not None else []
    sources += ["; ".join(aliases[0] for aliases in example.wanted)] if example.wanted else []
    sources += [gold.text for gold in example.relevant if gold.text is not None]
    if not sources:
        raise NoGroundTruth("neither reference answers nor gold passages with text")
    nuggets = await judge.nuggets(example.full_question, sources)
    return replace(
        example, nuggets=nuggets, extra={**example.extra, "nuggets_by": model, "nuggets_reviewed": False}
    )
