"""`rageval evalset generate`: questions about a corpus, written by a model, for people to review."""

import argparse
import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pytest_rageval.answers.text import normalize
from pytest_rageval.cli.candidates import Candidate, Writer
from pytest_rageval.cli.drawing import draw
from pytest_rageval.cli.evalset_anchor import refuse_existing
from pytest_rageval.cli.show import count, note, plain, say
from pytest_rageval.config import OPTIONS, Settings, resolve
from pytest_rageval.errors import BudgetError, InputError
from pytest_rageval.evalsets.corpus import read_corpus
from pytest_rageval.evalsets.writing import write_jsonl
from pytest_rageval.file_writing import write_whole
from pytest_rageval.model import EvalSet, Span
from pytest_rageval.models import DefaultGenerator, DefaultJudge
from pytest_rageval.prompts.asking import Prompts
from pytest_rageval.prompts.continuing import few_shot_question_prompt
from pytest_rageval.prompts.replacing import read_prompts
from pytest_rageval.session import Session

__all__ = ["generate"]

SPARE: Final = 4
"""Passages that are drawn for each question, as some questions are rejected."""
MAX_TOKENS: Final = 96
"""Of a question and an answer by the local model, which goes on otherwise."""


def generate(options: argparse.Namespace) -> int:
    """Write candidates, and what is said about them.

    Returns:
        0; 1 where there are fewer than asked for.

    Raises:
        InputError: the corpus or an option cannot be used, or a file exists already.
        RagevalError: no model answers.
    """
    out, rejects = options.out, options.keep_rejected
    refuse_existing([out, *([rejects] if rejects else [])], read=[options.corpus], force=options.force)
    settings = _settings(options)
    passages = draw(lambda: read_corpus(options.corpus), SPARE * options.n, settings.seed)
    if not passages:
        raise InputError(f"{options.corpus} has no passage to ask about, of five words or more.")
    prompts = read_prompts(settings.prompts)
    session = Session(settings)
    try:
        run = _Run(session, prompts, options.n)
        session.loop.run(run.go(passages))
    finally:
        session.close()
    if run.accepted:
        provenance = {"written_by": run.model, "compared_by": settings.llm_judge or "canonical comparison"}
        write_jsonl(EvalSet(out.name, tuple(each.example(provenance) for each in run.accepted)), out)
    if rejects is not None:
        _write(rejects, run.rejected)
    _tell(out, run, session)
    return int(len(run.accepted) < options.n)


class _Run:
    """Asks for questions until there are enough, or no passages, or no budget."""

    def __init__(self, session: Session, prompts: Prompts, n: int) -> None:
        models, settings = session.models, session.settings
        _, self.model = models.generating()
        self._writer = Writer(
            session.llm,
            few_shot_question_prompt if settings.embedded else prompts.question,
            _parameters(settings),
            DefaultGenerator(models, prompts),
            DefaultJudge(models, prompts),
        )
        self.wanted = n
        self.accepted: list[Candidate] = []
        self.rejected: list[Candidate] = []
        self.asked = 0
        self.stopped: BudgetError | None = None

    async def go(self, passages: Sequence[tuple[Span, str]]) -> None:
        """Ask about as many passages at once as questions are missing."""
        said: set[str] = set()
        while len(self.accepted) < self.wanted and self.asked < len(passages) and self.stopped is None:
            wave = passages[self.asked : self.asked + self.wanted - len(self.accepted)]
            self.asked += len(wave)
            for candidate in await self._wave(wave):
                key = normalize(candidate.question)
                if candidate.rejected:
                    self.rejected.append(candidate)
                elif key in said:
                    self.rejected.append(replace(candidate, rejected="the same question as one before"))
                else:
                    said.add(key)
                    self.accepted.append(candidate)

    async def _wave(self, wave: Sequence[tuple[Span, str]]) -> list[Candidate]:
        asked = (self._writer.write(place, passage) for place, passage in wave)
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BudgetError):
                self.stopped = outcome
            elif isinstance(outcome, BaseException):
                raise outcome
        done = [outcome for outcome in outcomes if isinstance(outcome, Candidate)]
        self.asked -= len(wave) - len(done)
        return done


def _settings(options: argparse.Namespace) -> Settings:
    here = Path.cwd()
    given = {option.name: getattr(options, option.name, None) for option in OPTIONS}
    return resolve(given, {}, os.environ, invoked_in=here, root=here)


def _parameters(settings: Settings) -> dict[str, Any]:
    if settings.embedded:
        return {"temperature": 0.0, "max_tokens": MAX_TOKENS, "stop": ["\n\n"]}
    limit = {} if settings.max_tokens is None else {"max_tokens": settings.max_tokens}
    return {"temperature": 0.0, **limit}


def _write(path: Path, rejected: Iterable[Candidate]) -> None:
    lines = (f"{json.dumps(each.record(), ensure_ascii=False)}\n" for each in rejected)
    write_whole(path, (line.encode(errors="backslashreplace") for line in lines))


def _tell(out: Path, run: _Run, session: Session) -> None:
    made, usage = len(run.accepted), session.usage
    sources = {each.place.source for each in run.accepted}
    say(
        f"{out}: {count(made, 'candidate')} for review, of {count(len(sources), 'file')}, "
        f"from {count(run.asked, 'passage')}"
        if made
        else f"No candidates from {count(run.asked, 'passage')}, {out} was not written."
    )
    if run.rejected:
        say(f"{count(len(run.rejected), 'question')} rejected:")
    for why, often in Counter(each.rejected for each in run.rejected).most_common():
        say(f"  {often:,} × {plain(str(why))}")
    say(f"{count(usage.requests, 'reply')} asked for: {usage.cached:,} cached, {usage.live:,} live")
    if run.stopped is not None:
        note(str(run.stopped))
    elif made < run.wanted:
        note(f"{run.wanted:,} were asked for, and the passages that were drawn are used up.")
