"""`rageval evalset generate`: questions about a corpus, written by a model, for people to review."""

import argparse
import asyncio
import heapq
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge_protocol import Comparator
from pytest_rageval.answers.text import containment, normalize
from pytest_rageval.cli.evalset_anchor import refuse_existing
from pytest_rageval.cli.output import count, note, plain, say
from pytest_rageval.cli.quotes import Quotable
from pytest_rageval.config import OPTIONS, Settings, resolve
from pytest_rageval.errors import BudgetError, InputError, Unscored
from pytest_rageval.evalsets.corpus import read_corpus
from pytest_rageval.evalsets.records import write_jsonl
from pytest_rageval.evalsets.sampling import Draw, rank, shares
from pytest_rageval.files import write_whole
from pytest_rageval.fingerprint import digest
from pytest_rageval.generator import Generator
from pytest_rageval.llm.api import LLM
from pytest_rageval.llm.messages import empty_reason
from pytest_rageval.llm.patience import Announcer
from pytest_rageval.measures.near_duplicates import words
from pytest_rageval.model import Document, EvalSet, Example, Gold, Span
from pytest_rageval.prompts.few_shot import few_shot_question_prompt
from pytest_rageval.prompts.rendering import Prompts, read_prompts
from pytest_rageval.session import Session
from pytest_rageval.session.models import DefaultGenerator, DefaultJudge

__all__ = ["Candidate", "Writer", "draw", "generate", "passages"]

LONGEST: Final = 1200
"""Characters of a passage: what is longer is cut."""
FEWEST: Final = 5
"""Words of a passage: what is shorter is a heading, or says too little to ask about."""
BREAKS: Final = ("\n\n", "\n", ". ", "。", " ")
"""Where a long text is cut, the best first."""


def passages(corpus: Iterable[Document]) -> Iterator[tuple[Span, str]]:
    """The passages of a corpus that can be asked about, with their places.

    A document of over 1,200 characters is cut, at a blank line if it can be, else at the end of a
    line, a sentence or a word. Passages of under five words are left out, and so are those whose
    place in a file is not known.
    """
    for document in corpus:
        span, text = document.span, document.text
        if span is None:
            continue
        if span.end - span.start != len(text):
            # Its offsets are those of another text, so that it has a place only as a whole.
            if len(words(text[:LONGEST])) >= FEWEST:
                yield span, text
            continue
        for start, end in _cuts(text):
            if len(words(text[start:end])) >= FEWEST:
                yield Span(span.source, span.start + start, span.start + end), text[start:end]


def draw(read: Callable[[], Iterable[Document]], size: int, seed: int) -> list[tuple[Span, str]]:
    """Draw passages at random, stratified by their files.

    Of each file as many are drawn as its share of all passages, rounded by largest remainders; where
    there are more files than passages to draw, at most one of each. The corpus is read twice.

    Args:
        read: gives the corpus from its start, each time it is called.
        size: how many, at most.
        seed: another one draws others.

    Returns:
        The passages, in such an order that the first n are of the files in about the same shares.
    """
    counts = _counts(passages(read()), size)
    if counts is None:
        return _one_each(passages(read()), size, seed)
    wanted = shares(counts, Draw(size, seed)) if counts.total() > size else counts
    lots: dict[str, list[tuple[int, int, Span, str]]] = defaultdict(list)
    for number, (span, text) in enumerate(passages(read())):
        lot, ticket = lots[span.source], (-_rank(seed, span), number, span, text)
        if len(lot) < wanted[span.source]:
            heapq.heappush(lot, ticket)
        elif lot:
            heapq.heappushpop(lot, ticket)
    turns = []
    for source, lot in lots.items():
        for turn, (_, _, span, text) in enumerate(sorted(lot, reverse=True)):
            turns.append(((turn + 0.5) / len(lot), rank(seed, source), (span, text)))
    return [passage for *_, passage in sorted(turns)]


def _counts(every: Iterable[tuple[Span, str]], most: int) -> Counter[str] | None:
    """How many passages each file has; None where there are more files than `most`."""
    counts: Counter[str] = Counter()
    for span, _ in every:
        counts[span.source] += 1
        if len(counts) > most:
            return None
    return counts


def _one_each(every: Iterable[tuple[Span, str]], size: int, seed: int) -> list[tuple[Span, str]]:
    """One passage of each of the files with the smallest numbers."""
    best: dict[str, tuple[int, Span, str]] = {}
    largest: list[tuple[int, str]] = []
    for span, text in every:
        source, own = span.source, (_rank(seed, span), span, text)
        if source in best:
            best[source] = min(best[source], own)
            continue
        place = (-rank(seed, source), source)
        if len(largest) < size:
            heapq.heappush(largest, place)
        else:
            gone = heapq.heappushpop(largest, place)
            if gone == place:
                continue
            del best[gone[1]]
        best[source] = own
    return [best[source][1:] for _, source in sorted(largest, reverse=True)]


def _rank(seed: int, span: Span) -> int:
    return rank(seed, f"{span.source} {span.start}")


def _cuts(text: str) -> Iterator[tuple[int, int]]:
    """From where to where the passages of a text go, without white space around them."""
    at = 0
    while at < len(text):
        end = len(text) if len(text) - at <= LONGEST else _break(text, at)
        part = text[at:end]
        if part.strip():
            start = at + len(part) - len(part.lstrip())
            yield start, start + len(part.strip())
        at = end


def _break(text: str, at: int) -> int:
    for mark in BREAKS:
        found = text.rfind(mark, at + LONGEST // 3, at + LONGEST)
        if found >= 0:
            return found + len(mark)
    return at + LONGEST


# Nothing in it is tried twice: its time is linear in the reply.
WRITTEN: Final = re.compile(
    r"(?>[\W\d]*question\W*:)?\s*+(?=[^\n]*[^\W_])(?P<question>[^\n]*+)\n"
    r"(?>\W*answer\W*:)(?=[^\n]*\w)[*_ \t]*+(?P<answer>[^\n]*+)",
    re.IGNORECASE,
)
QUOTED: Final = "\"'`*_“”„«» \t"
OF_THE_PASSAGE: Final = re.compile(
    r"\b(?:the|this|that)(?: \w+)? (?:passage|paragraph|excerpt|text)\b", re.IGNORECASE
)
HALF: Final = 0.5


@dataclass(frozen=True, slots=True)
class Candidate:
    """A question about a passage, and what became of it.

    Attributes:
        place: of the passage.
        passage: its text.
        reply: what the model wrote.
        question: as read from it; empty where it could not be.
        answer: likewise; as it stands in the passage, but for white space.
        answer_spans: where in its file the answer stands, once or more.
        with_gold: the generator's answer from the passage, if it was asked.
        without: the generator's answer from nothing, if it was asked.
        rejected: why; None for one that holds up.
    """

    place: Span
    passage: str
    reply: str = ""
    question: str = ""
    answer: str = ""
    answer_spans: tuple[tuple[int, int], ...] = ()
    with_gold: str | None = None
    without: str | None = None
    rejected: str | None = None

    def example(self, provenance: Mapping[str, Any]) -> Example:
        """As an example of an eval set, for review."""
        place = self.place
        return Example(
            id=digest([*place, self.question])[:12],
            question=self.question,
            answers=(self.answer,),
            gold=(Gold(text=self.passage, source=place.source, start=place.start, end=place.end),),
            tags={"source": place.source},
            extra={
                "answer_spans": [{"start": start, "end": end} for start, end in self.answer_spans],
                "self_check": {"with_gold": self.with_gold, "without": self.without},
                **provenance,
            },
        )

    def record(self) -> dict[str, Any]:
        """As JSON, for those who want to know what was rejected."""
        shown = {"question": self.question, "answer": self.answer}
        checks = {"with_gold": self.with_gold, "without": self.without}
        return {"rejected": self.rejected, **self.place._asdict(), **shown, **checks, "reply": self.reply}


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes questions and checks them.

    Attributes:
        llm: writes them.
        prompt: asks it to, from a passage.
        parameters: of its requests.
        generator: answers them.
        comparator: says whether its answer is the one that was written.
    """

    llm: LLM
    prompt: Callable[[str], str]
    parameters: Mapping[str, Any]
    generator: Generator
    comparator: Comparator

    async def write(self, place: Span, passage: str) -> Candidate:
        """A question about a passage, checked.

        It holds up if it can be read, its answer stands in the passage word for word and not in the
        question, the generator gives this answer from the passage, and does not give it from nothing.

        Raises:
            RagevalError: no model answers at all, or none may be asked any more.
        """
        candidate = Candidate(place, passage)
        try:
            reply = await self.llm.acomplete(self.prompt(passage), **self.parameters)
        except Unscored as failure:
            return replace(candidate, rejected=f"no question was written: {failure}")
        if not reply.answer:
            return replace(
                candidate, rejected=f"no question was written: the reply is empty{empty_reason(reply)}"
            )
        read = _read(replace(candidate, reply=reply.answer))
        if read.rejected:
            return read
        try:
            return await self._checked(read)
        except Unscored as failure:
            return replace(read, rejected=f"the self-check has no result: {failure}")

    async def _checked(self, candidate: Candidate) -> Candidate:
        question, answer, place = candidate.question, candidate.answer, candidate.place
        document = Document(candidate.passage, span=place)
        candidate = replace(candidate, with_gold=await self.generator.generate(question, [document]))
        if not await self._same(question, answer, candidate.with_gold or ""):
            return replace(candidate, rejected="the generator has another answer from the passage")
        candidate = replace(candidate, without=await self.generator.generate(question, []))
        if await self._same(question, answer, candidate.without or ""):
            return replace(candidate, rejected="the generator has the answer without the passage")
        return candidate

    async def _same(self, question: str, answer: str, prediction: str) -> bool:
        if abstains(prediction):
            return False
        return await self.comparator.compare(question, [answer], prediction) >= HALF


def _read(candidate: Candidate) -> Candidate:
    """The question and the answer from a reply, or why it has none that can be used."""
    written = WRITTEN.match(candidate.reply)
    if written is None:
        return replace(candidate, rejected="the reply is not a question and an answer")
    question, answer = written["question"].strip(QUOTED), written["answer"].strip(QUOTED)
    candidate = replace(candidate, question=question, answer=answer)
    passage, place = Quotable(candidate.passage), candidate.place
    # A full stop after the answer may be the passage's ("D.C.") or the model's.
    quotes = (passage.find(quote) for quote in (answer, answer.rstrip(".")))
    found = next((places for places in quotes if places), [])
    if not found:
        return replace(candidate, rejected="the answer is no quote from the passage")
    start, end = found[0]
    answer = " ".join(candidate.passage[start:end].split())
    exact = place.end - place.start == len(candidate.passage)
    spans = tuple((place.start + start, place.start + end) for start, end in found) if exact else ()
    candidate = replace(candidate, answer=answer, answer_spans=spans)
    if containment(question, [answer]):
        return replace(candidate, rejected="the answer stands in the question")
    if OF_THE_PASSAGE.search(question):
        return replace(candidate, rejected="the question speaks of its passage")
    return candidate


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
    session = Session(settings, tick=Announcer(note))
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
