"""`rageval evalset variants`: a model writes each question in other words or languages, for review."""

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from pytest_rageval.cli.command_session import command_settings, echo_request_count, session_for
from pytest_rageval.cli.console import echo, format_count, reason_lines
from pytest_rageval.core.errors import BudgetError, InputError, Unscored
from pytest_rageval.core.evalset import Example
from pytest_rageval.evalsets import load
from pytest_rageval.evalsets.loading import write_proposals
from pytest_rageval.extensions.robustness.scores import VARIANTS
from pytest_rageval.models.api import LLM

PARAPHRASE: Final = "paraphrase"
TRANSLATE: Final = "translate:"

ORDER: Final = {
    PARAPHRASE: "Write the question below in other words, as another user would ask it.",
    TRANSLATE: "Translate the question below into the language {language!r}.",
}
PROMPT: Final = """{order} Keep its meaning, its names and its numbers. \
Reply with the question alone, on one line.

Question:
{question}"""


def variants_command(options: argparse.Namespace) -> int:
    if options.out.resolve() == options.file.resolve() or (options.out.exists() and not options.force):
        raise InputError(
            f"{options.out} exists already, nothing was written.\nName another file, or add --force."
        )
    evalset = load(options.file)
    wanted = [(example, name) for example in evalset for name in options.rewriting]
    with closing(session_for(command_settings(options))) as session:
        llm = session.llm_of(session.models)
        written = session.loop.run(_write_all(llm, wanted))
    variants: dict[str, list[str]] = {example.id: [] for example in evalset}
    failures = []
    for (example, _), text in zip(wanted, written, strict=True):
        if not isinstance(text, str):
            failures.append(str(text))
        elif text not in (*example.added.get(VARIANTS, ()), *variants[example.id]):
            variants[example.id].append(text)
    if new := write_proposals(evalset, VARIANTS, variants, options.out):
        echo(
            f"{options.out}: {format_count(new, 'variant')} for review, of {format_count(len(evalset), 'question')}"
        )
    else:
        echo(f"No variants were written: {options.out} was not written.")
    echo(*reason_lines(failures))
    echo_request_count(session)
    return int(bool(failures))


async def _write_all(llm: LLM, wanted: Sequence[tuple[Example, str]]) -> list[str | Unscored | BudgetError]:
    async def write(example: Example, name: str) -> str | Unscored | BudgetError:
        kind = PARAPHRASE if name == PARAPHRASE else TRANSLATE
        order = ORDER[kind].format(language=name.removeprefix(TRANSLATE))
        try:
            reply = await llm.acomplete(PROMPT.format(order=order, question=example.question))
        except (Unscored, BudgetError) as error:
            return error
        text = " ".join(reply.text.split())
        if not text or text == " ".join(example.question.split()):
            return Unscored(f"{name}: the reply is {'the question itself' if text else 'empty'}")
        return text

    return await asyncio.gather(*(write(*each) for each in wanted))
