"""`rageval evalset generate` and `nuggets`: a model writes questions, or facts of answers, for review by people."""

import argparse
import asyncio
import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge import JudgeTask
from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.answers.judge.replies import parse_nuggets
from pytest_rageval.answers.overlap import containment, normalize
from pytest_rageval.calls.gathering import gather_results
from pytest_rageval.cli.command_session import command_settings, echo_request_count, session_for
from pytest_rageval.cli.console import echo, echo_err, format_count, reason_lines
from pytest_rageval.core.errors import BudgetError, InputError, NoGroundTruth, Unscored
from pytest_rageval.core.evalset import EvalSet, Example, Gold
from pytest_rageval.core.ranking import Document, Span
from pytest_rageval.evalsets.corpus import read_corpus
from pytest_rageval.evalsets.loading import write_jsonl
from pytest_rageval.evalsets.sampling import SampleSpec, allocate, keep_smallest, rank
from pytest_rageval.extensions.evalset_tools.quotes import SearchableText
from pytest_rageval.extensions.evalset_tools.reading import read_evalset, refuse_existing
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.files import write_json_lines
from pytest_rageval.models import DefaultGenerator
from pytest_rageval.models.messages import empty_reason
from pytest_rageval.models.prompt_rendering import FEW_SHOT_PROMPTS, Prompts, read_prompts
from pytest_rageval.models.prompts import MAX_NUGGETS
from pytest_rageval.options.parsers import merge_parameters
from pytest_rageval.run.session import Session
from pytest_rageval.scores.near_duplicates import words

PASSAGES_PER_QUESTION: Final = 4  # passages drawn for each question, since some questions are rejected
EMBEDDED_MAX_TOKENS: Final = 96  # enough for a question and an answer; the embedded model would write more
MAX_CHARACTERS: Final = 1200  # maximum length of a passage; longer texts are cut
MIN_WORDS: Final = 5  # a passage with fewer words is a heading, or contains too little to ask about
BREAKS: Final = ("\n\n", "\n", ". ", "。", " ")  # where a long text is cut, in order of preference
SAME_ANSWER: Final = 0.5  # the comparator's score from which two answers count as the same

# Atomic groups and possessive quantifiers match no part twice, so the time is linear in the length of the reply.
REPLY_PATTERN: Final = re.compile(
    r"(?>[\W\d]*question\W*:)?\s*+(?=[^\n]*[^\W_])(?P<question>[^\n]*+)\n"
    r"(?>\W*answer\W*:)(?=[^\n]*\w)[*_ \t]*+(?P<answer>[^\n]*+)",
    re.IGNORECASE,
)
QUOTATION_MARKS: Final = "\"'`*_“”„«» \t"
PASSAGE_MENTION: Final = re.compile(
    r"\b(?:the|this|that)(?: \w+)? (?:passage|paragraph|excerpt|text)\b", re.IGNORECASE
)

Passage = tuple[Span, str]  # the span of a passage in its file, and its text


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


def generate_command(options: argparse.Namespace) -> int:
    out, rejects = options.out, options.keep_rejected
    refuse_existing([out, *([rejects] if rejects else [])], read=[options.corpus], force=options.force)
    settings = command_settings(options)
    passages = draw_passages(
        lambda: read_corpus(options.corpus), PASSAGES_PER_QUESTION * options.n, settings.seed
    )
    if not passages:
        raise InputError(f"{options.corpus} has no passage to ask about, of five words or more.")
    prompts = read_prompts(settings.prompts)
    with closing(session_for(settings)) as session:
        run = _Generation(session, prompts, options.n)
        session.loop.run(run.generate(passages))
    if run.accepted:
        provenance = {"written_by": run.model, "compared_by": settings.llm_judge or "canonical comparison"}
        write_jsonl(
            EvalSet(out.name, tuple(candidate.example(provenance) for candidate in run.accepted)), out
        )
    if rejects is not None:
        write_json_lines(rejects, (candidate.record() for candidate in run.rejected))
    _echo_summary(out, run, session)
    return int(len(run.accepted) < options.n)


def _echo_summary(out: Path, run: "_Generation", session: Session) -> None:
    accepted = len(run.accepted)
    files = {candidate.place.source for candidate in run.accepted}
    echo(
        f"{out}: {format_count(accepted, 'candidate')} for review, of {format_count(len(files), 'file')}, "
        f"from {format_count(run.passages_used, 'passage')}"
        if accepted
        else f"No candidates from {format_count(run.passages_used, 'passage')}, {out} was not written."
    )
    if run.rejected:
        echo(f"{format_count(len(run.rejected), 'question')} rejected:")
    echo(*reason_lines(str(candidate.rejected) for candidate in run.rejected))
    echo_request_count(session)
    if run.budget_error is not None:
        echo_err(str(run.budget_error))
    elif accepted < run.wanted:
        echo_err(f"{run.wanted:,} were asked for, and the passages that were drawn are used up.")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A question about a passage, and the results of its checks."""

    place: Span
    passage: str
    reply: str = ""
    question: str = ""
    answer: str = ""  # copied from the passage, with single spaces
    answer_spans: tuple[tuple[int, int], ...] = ()  # of each occurrence in the file
    with_gold: str | None = None  # the generator's answer with the passage; None before this check
    without: str | None = None  # the generator's answer without the passage
    rejected: str | None = None  # the reason

    def example(self, provenance: Mapping[str, object]) -> Example:
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

    def record(self) -> dict[str, object]:
        names = ("question", "answer", "with_gold", "without", "reply")
        values = {name: getattr(self, name) for name in names}
        return {"rejected": self.rejected, **self.place._asdict(), **values}


class _Generation:
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
        self._prompt = partial((FEW_SHOT_PROMPTS if settings.embedded else prompts).fill, "question")
        self._generator = DefaultGenerator(models, prompts)
        self._comparator = DefaultJudge(models, prompts)
        self.wanted = n
        self.accepted: list[Candidate] = []
        self.rejected: list[Candidate] = []
        self.passages_used = 0
        self.budget_error: BudgetError | None = None

    async def generate(self, passages: Sequence[Passage]) -> None:
        """Request questions in waves: in each wave, one passage for each question that is still missing."""
        questions: set[str] = set()
        while (
            len(self.accepted) < self.wanted
            and self.passages_used < len(passages)
            and self.budget_error is None
        ):
            wave = passages[self.passages_used : self.passages_used + self.wanted - len(self.accepted)]
            for candidate in await self._generate_wave(wave):
                key = normalize(candidate.question)
                if candidate.rejected:
                    self.rejected.append(candidate)
                elif key in questions:
                    self.rejected.append(replace(candidate, rejected="the same question as one before"))
                else:
                    questions.add(key)
                    self.accepted.append(candidate)

    async def _generate_wave(self, wave: Sequence[Passage]) -> list[Candidate]:
        """Generate one candidate for each passage concurrently; without the candidates that exceeded the budget."""
        coroutines = (self._generate_candidate(place, passage) for place, passage in wave)
        candidates = []
        for outcome in await asyncio.gather(*coroutines, return_exceptions=True):
            if isinstance(outcome, BudgetError):
                self.budget_error = outcome
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                candidates.append(outcome)
        self.passages_used += len(candidates)
        return candidates

    async def _generate_candidate(self, place: Span, passage: str) -> Candidate:
        candidate = Candidate(place, passage)
        try:
            reply = await self._llm.acomplete(self._prompt(passage), **self._parameters)
        except Unscored as failure:
            return replace(candidate, rejected=f"no question was written: {failure}")
        if not reply.answer:
            why = f"the reply is empty{empty_reason(reply)}"
            return replace(candidate, rejected=f"no question was written: {why}")
        candidate = parse_reply(replace(candidate, reply=reply.answer))
        if candidate.rejected:
            return candidate
        try:
            return await self._self_check(candidate)
        except Unscored as failure:
            return replace(candidate, rejected=f"the self-check has no result: {failure}")

    async def _self_check(self, candidate: Candidate) -> Candidate:
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


def parse_reply(candidate: Candidate) -> Candidate:
    reply = REPLY_PATTERN.match(candidate.reply)
    if reply is None:
        return replace(candidate, rejected="the reply is not a question and an answer")
    question, answer = reply["question"].strip(QUOTATION_MARKS), reply["answer"].strip(QUOTATION_MARKS)
    candidate = replace(candidate, question=question, answer=answer)
    passage, place = SearchableText(candidate.passage), candidate.place
    # A full stop after the answer may be in the passage ("D.C."), or be added by the model.
    matches = passage.find(answer) or passage.find(answer.rstrip("."))
    if not matches:
        return replace(candidate, rejected="the answer is not a quote from the passage")
    start, end = matches[0]
    answer = " ".join(candidate.passage[start:end].split())
    has_offsets = place.end - place.start == len(candidate.passage)
    spans = tuple((place.start + start, place.start + end) for start, end in matches) if has_offsets else ()
    candidate = replace(candidate, answer=answer, answer_spans=spans)
    if containment(question, [answer]):
        return replace(candidate, rejected="the question contains the answer")
    if PASSAGE_MENTION.search(question):
        return replace(candidate, rejected="the question speaks of its passage")
    return candidate


def draw_passages(read: Callable[[], Iterable[Document]], size: int, seed: int) -> list[Passage]:
    """Draw at most `size` passages at random.

    The number of passages from a file is proportional to its passages, rounded by largest remainders. If there are more
    files than passages to draw, it is at most one. The passages are ordered so that the first n of them, for any n, are
    from the files in about the same proportions.

    Args:
        read: returns the whole corpus; called twice.
        size: the maximum number of passages.
        seed: the seed of the random numbers.
    """
    counts = Counter(span.source for span, _ in corpus_passages(read()))
    quotas: Mapping[str, int] = counts
    if len(counts) > size:
        quotas = dict.fromkeys(heapq.nsmallest(size, counts, key=lambda source: rank(seed, source)), 1)
    elif counts.total() > size:
        quotas = allocate(counts, SampleSpec(size, seed))
    drawn: dict[str, list[tuple[int, int, Span, str]]] = defaultdict(list)
    for number, (span, text) in enumerate(corpus_passages(read())):
        own_rank = rank(seed, f"{span.source} {span.start}")
        keep_smallest(drawn[span.source], quotas.get(span.source, 0), (-own_rank, number, span, text))
    ordered = [
        ((index + 0.5) / len(heap), rank(seed, source), (span, text))
        for source, heap in drawn.items()
        for index, (_, _, span, text) in enumerate(sorted(heap, reverse=True))
    ]
    return [passage for *_, passage in sorted(ordered)]


def corpus_passages(corpus: Iterable[Document]) -> Iterator[Passage]:
    """Yield the span and the text of each passage of a corpus about which a question can be written.

    A document of more than 1,200 characters is cut at a blank line or, if there is none, at the end of a line, a
    sentence or a word. Passages of fewer than five words, or without a span in a file, are left out.
    """
    for document in corpus:
        span, text = document.span, document.text
        if span is None:
            continue
        if span.end - span.start != len(text):
            # White space was changed, so offsets within the text are unknown: use the passage as a whole.
            if len(words(text[:MAX_CHARACTERS])) >= MIN_WORDS:
                yield span, text
            continue
        for start, end in _cut_text(text):
            if len(words(text[start:end])) >= MIN_WORDS:
                yield Span(span.source, span.start + start, span.start + end), text[start:end]


def _cut_text(text: str) -> Iterator[tuple[int, int]]:
    part_start = 0
    while part_start < len(text):
        part_end = len(text) if len(text) - part_start <= MAX_CHARACTERS else _next_break(text, part_start)
        part = text[part_start:part_end]
        if part.strip():
            start = part_start + len(part) - len(part.lstrip())
            yield start, start + len(part.strip())
        part_start = part_end


def _next_break(text: str, start: int) -> int:
    """Return the offset at which the part that begins at `start` ends; it is at least a third of the maximum long."""
    for mark in BREAKS:
        index = text.rfind(mark, start + MAX_CHARACTERS // 3, start + MAX_CHARACTERS)
        if index >= 0:
            return index + len(mark)
    return start + MAX_CHARACTERS


def nuggets_command(options: argparse.Namespace) -> int:
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
        results = session.loop.run(
            gather_results(_propose(judge, example, model) for example in without_nuggets)
        )
    if error := next(
        (each for each in results if not isinstance(each, Example | Unscored | BudgetError)), None
    ):
        raise error
    proposed = {result.id: result for result in results if isinstance(result, Example)}
    failures = [result for result in results if not isinstance(result, Example)]
    if proposed:
        examples = tuple(proposed.get(example.id, example) for example in evalset)
        write_jsonl(EvalSet(out.name, examples), out)
    nuggets = [nugget for example in proposed.values() for nugget in example.nuggets]
    before = len(evalset) - len(without_nuggets)
    had = f"; {format_count(before, 'example')} had nuggets already" if before else ""
    if nuggets:
        vital = sum(nugget.vital for nugget in nuggets)
        counts = f"{format_count(len(nuggets), 'nugget')} for review, {vital:,} of them vital"
        echo(f"{out}: {counts}, of {format_count(len(proposed), 'example')}{had}")
    else:
        echo(f"No nuggets were proposed, {out} was not written{had}.")
    if failures:
        echo(f"{format_count(len(failures), 'example')} without nuggets:")
    echo(*reason_lines(map(str, failures)))
    echo_request_count(session)
    return int(bool(failures))


async def _propose(judge: DefaultJudge, example: Example, model: str) -> Example:
    sources = [example.reference] if example.reference is not None else []
    sources += ["; ".join(aliases[0] for aliases in example.wanted)] if example.wanted else []
    sources += [gold.text for gold in example.relevant if gold.text is not None]
    if not sources:
        raise NoGroundTruth("neither reference answers nor gold passages with text")
    nuggets = await judge.ask(NUGGETS, example.full_question, sources)
    return replace(
        example, nuggets=nuggets, extra={**example.extra, "nuggets_by": model, "nuggets_reviewed": False}
    )
