"""`rageval evalset generate`: questions about a corpus, written by a model, for people to review."""

import argparse
import asyncio
import heapq
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.overlap import containment, normalize
from pytest_rageval.cli.console import count, note, reason_lines, say
from pytest_rageval.cli.evalset_reading import refuse_existing
from pytest_rageval.cli.plugin_stores import registry_for
from pytest_rageval.cli.quotes import Quotable
from pytest_rageval.config import OPTIONS, merge_parameters, resolve
from pytest_rageval.datatypes import Document, EvalSet, Example, Gold, Span
from pytest_rageval.digests import digest
from pytest_rageval.errors import BudgetError, InputError, Unscored
from pytest_rageval.evalsets.corpus import read_corpus
from pytest_rageval.evalsets.records import write_jsonl
from pytest_rageval.evalsets.sampling import SampleSpec, keep_smallest, rank, shares
from pytest_rageval.files import write_atomically
from pytest_rageval.llm.messages import empty_reason
from pytest_rageval.llm.servers.rate_limits import StallNotifier
from pytest_rageval.measures.near_duplicates import words
from pytest_rageval.prompts.rendering import Prompts, few_shot_question_prompt, read_prompts
from pytest_rageval.session import Session
from pytest_rageval.session.default_components import DefaultGenerator, DefaultJudge

__all__ = ["generate_command"]

PASSAGES_PER_QUESTION: Final = 4  # drawn for each question, since some questions are rejected
EMBEDDED_MAX_TOKENS: Final = 96  # length of a question and an answer by the embedded model, which would go on
MAX_CHARACTERS: Final = 1200  # length of a passage; longer texts are cut
MIN_WORDS: Final = 5  # words of a passage; a shorter one is a heading, or says too little to ask about
BREAKS: Final = ("\n\n", "\n", ". ", "。", " ")  # where a long text is cut, the best first
SAME_ANSWER: Final = 0.5  # the comparator's score from which two answers count as the same

# No part is matched twice: the time is linear in the reply.
REPLY: Final = re.compile(
    r"(?>[\W\d]*question\W*:)?\s*+(?=[^\n]*[^\W_])(?P<question>[^\n]*+)\n"
    r"(?>\W*answer\W*:)(?=[^\n]*\w)[*_ \t]*+(?P<answer>[^\n]*+)",
    re.IGNORECASE,
)
QUOTATION_MARKS: Final = "\"'`*_“”„«» \t"
PASSAGE_MENTION: Final = re.compile(
    r"\b(?:the|this|that)(?: \w+)? (?:passage|paragraph|excerpt|text)\b", re.IGNORECASE
)

Passage = tuple[Span, str]  # a passage's place in its file, and its text


def generate_command(options: argparse.Namespace) -> int:
    """Write candidates, and print a summary; 1 if there are fewer than asked for."""
    out, rejects = options.out, options.keep_rejected
    refuse_existing([out, *([rejects] if rejects else [])], read=[options.corpus], force=options.force)
    here = Path.cwd()
    command_line = {option.name: getattr(options, option.name, None) for option in OPTIONS}
    settings = resolve(command_line, {}, os.environ, invoked_in=here, root=here)
    drawn = draw(lambda: read_corpus(options.corpus), PASSAGES_PER_QUESTION * options.n, settings.seed)
    if not drawn:
        raise InputError(f"{options.corpus} has no passage to ask about, of five words or more.")
    prompts = read_prompts(settings.prompts)
    with closing(
        Session(settings, registry=registry_for(settings.cache_location), tick=StallNotifier(note))
    ) as session:
        run = _Run(session, prompts, options.n)
        session.loop.run(run.ask_about(drawn))
    if run.accepted:
        provenance = {"written_by": run.model, "compared_by": settings.llm_judge or "canonical comparison"}
        write_jsonl(EvalSet(out.name, tuple(each.example(provenance) for each in run.accepted)), out)
    if rejects is not None:
        lines = (f"{json.dumps(each.record(), ensure_ascii=False)}\n" for each in run.rejected)
        write_atomically(rejects, (line.encode(errors="backslashreplace") for line in lines))
    _say_summary(out, run, session)
    return int(len(run.accepted) < options.n)


def _say_summary(out: Path, run: "_Run", session: Session) -> None:
    accepted, usage = len(run.accepted), session.usage
    files = {each.place.source for each in run.accepted}
    say(
        f"{out}: {count(accepted, 'candidate')} for review, of {count(len(files), 'file')}, "
        f"from {count(run.asked, 'passage')}"
        if accepted
        else f"No candidates from {count(run.asked, 'passage')}, {out} was not written."
    )
    if run.rejected:
        say(f"{count(len(run.rejected), 'question')} rejected:")
    for line in reason_lines(str(each.rejected) for each in run.rejected):
        say(line)
    say(f"{count(usage.requests, 'reply')} asked for: {usage.cached:,} cached, {usage.live:,} live")
    if run.stopped is not None:
        note(str(run.stopped))
    elif accepted < run.wanted:
        note(f"{run.wanted:,} were asked for, and the passages that were drawn are used up.")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A question about a passage, and the results of its checks.

    The answer is copied from the passage, with single spaces; `answer_spans` are its places in the file.
    `with_gold` and `without` are the generator's answers with the passage and without it.
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
        """Return an example of an eval set, for review."""
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
        """Return a record of a rejected candidate."""
        names = ("question", "answer", "with_gold", "without", "reply")
        values = {name: getattr(self, name) for name in names}
        return {"rejected": self.rejected, **self.place._asdict(), **values}


class _Run:
    """Asks for questions until there are enough, or no passages or budget are left.

    The generator answers each question; the comparator compares its answer with the written one.
    """

    def __init__(self, session: Session, prompts: Prompts, n: int) -> None:
        models, settings = session.models, session.settings
        _, self.model = models.generator_model()
        self._parameters: dict[str, Any] = {"temperature": 0.0}
        if settings.embedded:
            self._parameters |= {"max_tokens": EMBEDDED_MAX_TOKENS, "stop": ["\n\n"]}
        elif settings.max_tokens is not None:
            self._parameters["max_tokens"] = settings.max_tokens
        self._parameters = merge_parameters(self._parameters, settings.generator.parameters)
        self._llm = session.llm
        self._prompt = few_shot_question_prompt if settings.embedded else prompts.question
        self._generator = DefaultGenerator(models, prompts)
        self._comparator = DefaultJudge(models, prompts)
        self.wanted = n
        self.accepted: list[Candidate] = []
        self.rejected: list[Candidate] = []
        self.asked = 0
        self.stopped: BudgetError | None = None

    async def ask_about(self, passages: Sequence[Passage]) -> None:
        """Ask in waves: about as many passages at once as questions are missing."""
        questions: set[str] = set()
        while len(self.accepted) < self.wanted and self.asked < len(passages) and self.stopped is None:
            wave = passages[self.asked : self.asked + self.wanted - len(self.accepted)]
            for candidate in await self._wave(wave):
                key = normalize(candidate.question)
                if candidate.rejected:
                    self.rejected.append(candidate)
                elif key in questions:
                    self.rejected.append(replace(candidate, rejected="the same question as one before"))
                else:
                    questions.add(key)
                    self.accepted.append(candidate)

    async def _wave(self, wave: Sequence[Passage]) -> list[Candidate]:
        writing = (self._write(place, passage) for place, passage in wave)
        candidates = []
        for outcome in await asyncio.gather(*writing, return_exceptions=True):
            if isinstance(outcome, BudgetError):
                self.stopped = outcome
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                candidates.append(outcome)
        self.asked += len(candidates)
        return candidates

    async def _write(self, place: Span, passage: str) -> Candidate:
        """Write a question, which is accepted if only the passage lets the generator give its answer."""
        candidate = Candidate(place, passage)
        try:
            reply = await self._llm.acomplete(self._prompt(passage), **self._parameters)
        except Unscored as failure:
            return replace(candidate, rejected=f"no question was written: {failure}")
        if not reply.answer:
            why = f"the reply is empty{empty_reason(reply)}"
            return replace(candidate, rejected=f"no question was written: {why}")
        candidate = parsed(replace(candidate, reply=reply.answer))
        if candidate.rejected:
            return candidate
        try:
            return await self._checked(candidate)
        except Unscored as failure:
            return replace(candidate, rejected=f"the self-check has no result: {failure}")

    async def _checked(self, candidate: Candidate) -> Candidate:
        question = candidate.question
        document = Document(candidate.passage, span=candidate.place)
        candidate = replace(candidate, with_gold=await self._generator.generate(question, [document]))
        if not await self._is_answer(candidate, candidate.with_gold):
            return replace(candidate, rejected="the generator has another answer from the passage")
        candidate = replace(candidate, without=await self._generator.generate(question, []))
        if await self._is_answer(candidate, candidate.without):
            return replace(candidate, rejected="the generator has the answer without the passage")
        return candidate

    async def _is_answer(self, candidate: Candidate, prediction: str | None) -> bool:
        if abstains(prediction or ""):
            return False
        score = await self._comparator.compare(candidate.question, [candidate.answer], prediction or "")
        return score >= SAME_ANSWER


def parsed(candidate: Candidate) -> Candidate:
    """Return the candidate with the question and answer of its reply, or the reason why they cannot be used."""
    reply = REPLY.match(candidate.reply)
    if reply is None:
        return replace(candidate, rejected="the reply is not a question and an answer")
    question, answer = reply["question"].strip(QUOTATION_MARKS), reply["answer"].strip(QUOTATION_MARKS)
    candidate = replace(candidate, question=question, answer=answer)
    passage, place = Quotable(candidate.passage), candidate.place
    # A full stop after the answer may be the passage's ("D.C.") or the model's.
    found = passage.find(answer) or passage.find(answer.rstrip("."))
    if not found:
        return replace(candidate, rejected="the answer is not a quote from the passage")
    start, end = found[0]
    answer = " ".join(candidate.passage[start:end].split())
    exact = place.end - place.start == len(candidate.passage)
    spans = tuple((place.start + start, place.start + end) for start, end in found) if exact else ()
    candidate = replace(candidate, answer=answer, answer_spans=spans)
    if containment(question, [answer]):
        return replace(candidate, rejected="the question contains the answer")
    if PASSAGE_MENTION.search(question):
        return replace(candidate, rejected="the question speaks of its passage")
    return candidate


def draw(read: Callable[[], Iterable[Document]], size: int, seed: int) -> list[Passage]:
    """Draw at most `size` passages at random; `read`, which returns the whole corpus, is called twice.

    Each file gets its share of the sample, rounded by largest remainders; with more files than passages to
    draw, at most one. The first n passages are of the files in about the same shares.
    """
    counts = Counter(span.source for span, _ in passages(read()))
    wanted: Mapping[str, int] = counts
    if len(counts) > size:
        wanted = dict.fromkeys(heapq.nsmallest(size, counts, key=lambda source: rank(seed, source)), 1)
    elif counts.total() > size:
        wanted = shares(counts, SampleSpec(size, seed))
    drawn: dict[str, list[tuple[int, int, Span, str]]] = defaultdict(list)
    for number, (span, text) in enumerate(passages(read())):
        own_rank = rank(seed, f"{span.source} {span.start}")
        keep_smallest(drawn[span.source], wanted.get(span.source, 0), (-own_rank, number, span, text))
    ordered = [
        ((index + 0.5) / len(heap), rank(seed, source), (span, text))
        for source, heap in drawn.items()
        for index, (_, _, span, text) in enumerate(sorted(heap, reverse=True))
    ]
    return [passage for *_, passage in sorted(ordered)]


def passages(corpus: Iterable[Document]) -> Iterator[Passage]:
    """Yield the passages of a corpus that can be asked about, with their places.

    A document of over 1,200 characters is cut at a blank line, else at the end of a line, a sentence or a
    word. Passages of under five words, or without a place in a file, are left out.
    """
    for document in corpus:
        span, text = document.span, document.text
        if span is None:
            continue
        if span.end - span.start != len(text):
            # Its offsets are those of another text: only the whole passage has a place.
            if len(words(text[:MAX_CHARACTERS])) >= MIN_WORDS:
                yield span, text
            continue
        for start, end in _cuts(text):
            if len(words(text[start:end])) >= MIN_WORDS:
                yield Span(span.source, span.start + start, span.start + end), text[start:end]


def _cuts(text: str) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(text):
        end = len(text) if len(text) - at <= MAX_CHARACTERS else _break(text, at)
        part = text[at:end]
        if part.strip():
            start = at + len(part) - len(part.lstrip())
            yield start, start + len(part.strip())
        at = end


def _break(text: str, at: int) -> int:
    for mark in BREAKS:
        found = text.rfind(mark, at + MAX_CHARACTERS // 3, at + MAX_CHARACTERS)
        if found >= 0:
            return found + len(mark)
    return at + MAX_CHARACTERS
