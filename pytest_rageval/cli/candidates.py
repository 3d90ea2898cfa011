"""A question about a passage, written by a model, and whether it holds up."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.compare import Comparator
from pytest_rageval.answers.text import containment
from pytest_rageval.cli.quotes import Quotable
from pytest_rageval.errors import Unscored
from pytest_rageval.fingerprint import digest
from pytest_rageval.generator import Generator
from pytest_rageval.llm.complete import LLM
from pytest_rageval.llm.reply import silence
from pytest_rageval.model import Document, Example, Gold, Span

__all__ = ["Candidate", "Writer"]

WRITTEN: Final = re.compile(
    r"(?:[\W\d]*question\W*:)?\s*(?P<question>[^\n]*[^\W_][^\n]*)\n\s*\W*answer\W*:[*_ \t]*(?P<answer>[^\n]*\w[^\n]*)",
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
            return replace(candidate, rejected=f"no question was written: the reply is empty{silence(reply)}")
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
