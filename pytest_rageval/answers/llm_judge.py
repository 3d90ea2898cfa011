"""The LLM judge: yes or no, a grade from 1 to 5, a rating with its reasons, or the better of two answers."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any, Final, NamedTuple

from pytest_rageval.answers.judge_protocol import HIGHEST, RATING_FORMAT, Rating, json_object, parse_rating
from pytest_rageval.answers.votes import Poll, majority
from pytest_rageval.errors import Planned, Unscored, is_plan_mark
from pytest_rageval.fingerprint import digest
from pytest_rageval.llm.gateway import Gateway
from pytest_rageval.llm.messages import Reply, Request, empty_reason
from pytest_rageval.llm.servers import Server
from pytest_rageval.prompts.rendering import OWN, Prompts, repair_prompt
from pytest_rageval.prompts.templates import CRITERIA
from pytest_rageval.stats.agreement import majority as majority_or

__all__ = ["LLMJudge", "parse_grade", "parse_preference", "parse_yes_no"]

_YES_OR_NO: Final = r"""(yes|no) (?!-\w) [*_"'`)]*      # the word, perhaps in bold or in quotes, then
    (?: \s*$ | \s*[.,:;!(\u2013\u2014-] | [ \t]*\n | \s+because\b )  # its end, or a reason set apart"""

_GRADE: Final = r"""([1-5]) (?: \s*/\s*5 | \s+out\s+of\s+5 )? (?!-?\w)  # perhaps in bold, of five, then
    # its end, or a reason set apart; "1. The" begins a list, and "4, 5" and "4-5" are two numbers.
    \.? [*_"'`)]* [.!]? (?: \s*$ | [ \t]*\n | \s*[,:;(\u2013\u2014-] (?!\s*\d) | \s+because\b )"""

_CLOSING: Final = " \t\r\n*_\"'`).!"
"""Characters that may follow a verdict at the end of a reply."""

_PREFERENCE: Final = re.compile(r"<rating>\s*([012])\s*</rating>", re.IGNORECASE)
_PREFERENCE_TAG: Final = re.compile(r"</?\s*rating\b", re.IGNORECASE)

LONGEST: Final = 2000
"""Characters of an unreadable reply that are sent back for repair."""


class _Wording:
    """How a reply states its verdict unambiguously.

    A reply states it at its beginning; or at its end, after a label ("Verdict: no"); or, where `alone`, as its whole
    last line; or it is a JSON object with the verdict under a known key.

    Args:
        verdict: a pattern with the verdict as its group, and what must follow it.
        labels: alternatives that may stand before it, with a colon, and keys of a JSON object.
        keys: further keys.
        alone: whether the verdict may be the last line without a label.
    """

    def __init__(self, verdict: str, labels: str, keys: str, *, alone: bool = False) -> None:
        # Possessive, so that matching takes linear time.
        lead = r"""[ \t*_\#>"'`(]*+"""
        label = rf"(?: (?:final[ ]|my[ ])? (?:{labels}) [ \t*_]*+ : {lead} )"
        flags = re.IGNORECASE | re.VERBOSE
        self._first = re.compile(rf"""[\s*_\#>"'`(]*+ {label}? {verdict}""", flags)
        # At the beginning of a line or a sentence: what is quoted within one is not stated.
        self._labelled = re.compile(
            rf"(?: ^ | [.!?][\"')]?\s ) {lead} {label} {verdict}", flags | re.MULTILINE
        )
        self._keys = {*labels.split("|"), *keys.split("|")}
        self._alone = alone

    def stated(self, reply: str) -> str | None:
        """Return the one verdict of a reply, in lower case; None where it states none, or two."""
        found = json_object(reply) or {}
        values = [value for key, value in found.items() if key.lower().replace(" ", "_") in self._keys]
        stated = [self._first.match(_as_text(value)) for value in values]
        first, labelled = self._first.match(reply), list(self._labelled.finditer(reply))
        last = self._first.match(reply.rstrip().rpartition("\n")[2]) if self._alone else None
        if last is None or last.string[last.end(1) :].strip(_CLOSING):
            last = None
        if first or last or (labelled and not reply[labelled[-1].end(1) :].strip(_CLOSING)):
            stated += [first, *labelled, last]
        verdicts = {match[1].lower() for match in stated if match}
        return verdicts.pop() if len(verdicts) == 1 else None


class _Scale(NamedTuple):
    """How one reply is read, and how several votes reach a verdict."""

    read: Callable[[str], float]
    settle: Callable[[Sequence[float]], float]


@dataclass(frozen=True, slots=True)
class LLMJudge:
    """A model as judge: whether an answer holds what a reference says (LLM-retEval, step 3), grades and ratings.

    Each method raises Unscored where the reply has no verdict; of several votes, where none has.

    Attributes:
        gateway: that sends the requests.
        server: of the model.
        model: its name at the server.
        max_tokens: of a reply; None is the server's default.
        poll: how often it is asked for each verdict.
        prompts: with which it is asked.
    """

    gateway: Gateway
    server: Server
    model: str
    max_tokens: int | None = None
    poll: Poll = field(default_factory=Poll)
    prompts: Prompts = OWN

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return 1.0 for yes, 0.0 for no; unscored where the reply is neither, and where votes are tied."""
        return await self._compared(self.prompts.same_answer, _VERDICTS, question, references, prediction)

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return (grade - 1) / 4 for a grade from 1, nothing of a reference or a contradiction, to 5, all of it.

        Of several votes the median counts.
        """
        return await self._compared(self.prompts.graded_answer, _GRADES, question, references, prediction)

    async def relevant(self, question: str, passage: str) -> float:
        """Return 1.0 for yes, 0.0 for no; unscored as in `compare`."""
        ask, parts = self.prompts.relevance, {"question": question, "passage": passage}
        return await self._verdict(_VERDICTS, ask(question, passage), ask("", ""), parts)

    async def prefer(self, question: str, first: str, second: str) -> int:
        """Return 1 where the first answer is better, 2 where the second is, 0 where neither.

        Of several votes the one of more than half counts, otherwise 0.
        """
        ask = self.prompts.preference
        parts = {"question": question, "first answer": first, "second answer": second}
        return int(await self._verdict(_PREFERENCES, ask(question, first, second), ask("", "", ""), parts))

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """Return a grade from 1 to 5 with its explanation.

        Of several votes the median counts, with the explanation of the nearest vote. The request names the form of
        the reply. After a reply that is not a rating the model is asked once more, with what is wrong with it.
        """
        prompt = self.prompts.rating(criterion, question, rated, against)
        parts = {
            "instructions of the judge": self.prompts.rating(criterion, "", [], []),
            "question": question,
            "rated": "\n".join(rated),
            "held against": "\n".join(against),
        }
        votes: dict[int, Rating] = {}

        async def vote(sample: int) -> float:
            request = self._request(prompt, parts, sample)
            request = replace(request, parameters={**request.parameters, "response_format": RATING_FORMAT})
            votes[sample] = await self._rating(request)
            return votes[sample].grade

        grade = await self.poll.verdict(prompt, vote, median)
        nearest = min(sorted(votes), key=lambda sample: abs(votes[sample].grade - grade))
        return Rating(grade, votes[nearest].explanation)

    def repetition(self, n: int) -> "LLMJudge":
        """Return this judge with the n-th set of samples."""
        return replace(self, poll=replace(self.poll, first=n * self.poll.votes))

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return the model, its server and parameters, and the digest of the method's prompt."""
        prompt = {
            "compare": self.prompts.same_answer("", [], ""),
            "grade": self.prompts.graded_answer("", [], ""),
            "relevant": self.prompts.relevance("", ""),
            "prefer": self.prompts.preference("", "", ""),
            **{f"rate {criterion}": self.prompts.rating(criterion, "", [], []) for criterion in CRITERIA},
        }[method]
        return {
            "": f"{self.model} at {self.server.base_url}",
            "votes": self.poll.votes,
            "max_tokens": self.max_tokens,
            f"prompt to {method}": digest(prompt)[:12],
        }

    async def _compared(
        self,
        prompt: Callable[[str, Sequence[str], str], str],
        scale: _Scale,
        question: str,
        references: Sequence[str],
        prediction: str,
    ) -> float:
        # One reference a line, without repeats: several samples of the same answer add nothing.
        listed = list(dict.fromkeys(" ".join(reference.split()) for reference in references))
        parts = {"question": question, "references": "\n".join(listed), "answer": prediction}
        return await self._verdict(scale, prompt(question, listed, prediction), prompt("", [], ""), parts)

    async def _verdict(
        self, scale: _Scale, prompt: str, instructions: str, texts: Mapping[str, str]
    ) -> float:
        parts = {"instructions of the judge": instructions, **texts}

        async def vote(sample: int) -> float:
            return scale.read(await self._answer(self._request(prompt, parts, sample)))

        return await self.poll.verdict(prompt, vote, scale.settle)

    async def _rating(self, request: Request) -> Rating:
        """Read a rating, and ask once more where the reply is not one. A plan counts both requests."""
        reply = await self._reply(request)
        try:
            return parse_rating(reply.answer)
        except ValueError as unread:
            # A broken reply may be very long, so only its beginning is sent.
            messages = (
                *request.messages,
                {"role": "assistant", "content": reply.text[:LONGEST]},
                {"role": "user", "content": repair_prompt(str(unread))},
            )
            parts = {**request.parts, "reply to repair": reply.text}
        answer = await self._answer(replace(request, messages=messages, parts=parts))
        try:
            return parse_rating(answer)
        except ValueError as unread:
            raise _unread(f"no rating when asked again either ({unread})", answer) from None

    def _request(self, prompt: str, parts: Mapping[str, str], sample: int) -> Request:
        limit = {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        return Request(
            base_url=self.server.base_url,
            model=self.model,
            messages=({"role": "user", "content": prompt},),
            parameters={"temperature": self.poll.temperature, **limit},
            sample=sample,
            parts=parts,
        )

    async def _answer(self, request: Request) -> str:
        """Ask, and return the reply without its reasoning."""
        reply = await self._reply(request)
        if is_plan_mark(reply.text):
            raise Planned("the judge is not asked in a plan")
        return reply.answer

    async def _reply(self, request: Request) -> Reply:
        """Ask for a reply that has an answer; in a plan it has the mark of one."""
        reply = await self.gateway.ask(self.server, request)
        if not reply.answer:
            raise Unscored(f"the judge's reply is empty{empty_reason(reply)}")
        return reply


def parse_yes_no(reply: str) -> float:
    """Return 1.0 for a reply that states yes, 0.0 for one that states no; see `_Wording`.

    Raises:
        Unscored: it states neither, or both. A verdict is never searched for in the middle.

    >>> parse_yes_no("**Yes.**"), parse_yes_no("no, the year differs")
    (1.0, 0.0)
    """
    verdict = _YES_NO.stated(reply)
    if verdict is None:
        raise _unread("neither yes nor no", reply)
    return float(verdict == "yes")


def parse_grade(reply: str) -> float:
    """Return (grade - 1) / 4 for a reply that states an integer from 1 to 5, perhaps "of 5"; see `_Wording`.

    Raises:
        Unscored: it states none, or two. A grade is never searched for in the middle.

    >>> parse_grade("**4**"), parse_grade("3/5: the year is missing")
    (0.75, 0.5)
    """
    grade = _ONE_TO_FIVE.stated(reply)
    if grade is None:
        raise _unread("no grade from 1 to 5", reply)
    return (int(grade) - 1) / (HIGHEST - 1)


def parse_preference(reply: str) -> float:
    """Return the 0.0, 1.0 or 2.0 in the only rating tag of a reply.

    Raises:
        Unscored: it has no tag, or several, or something else in it. A number outside of a tag is not a rating:
            reasons mention "answer 1", too.

    >>> parse_preference("Answer 1 errs about the year. <rating>2</rating>")
    2.0
    """
    rating = _PREFERENCE.search(reply)
    # An opening and a closing one. Where the reply quotes a tag of an answer, the rating is ambiguous.
    if rating is None or len(_PREFERENCE_TAG.findall(reply)) != 2:  # noqa: PLR2004
        raise _unread("not one rating of 0, 1 or 2 in a tag", reply)
    return float(rating[1])


_YES_NO: Final = _Wording(
    _YES_OR_NO,
    "answer|verdict|judgment|judgement|decision|conclusion",
    "final_answer|final_verdict|correct|right|relevant",
    alone=True,
)
_ONE_TO_FIVE: Final = _Wording(_GRADE, "grade|score|rating|points", "final_grade|final_score")

_VERDICTS: Final = _Scale(parse_yes_no, majority)
_GRADES: Final = _Scale(parse_grade, median)
_PREFERENCES: Final = _Scale(parse_preference, partial(majority_or, tie=0.0))


def _as_text(value: object) -> str:
    """A value of a JSON object as a verdict is written; empty where it cannot be one."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, str | int) else ""


def _unread(what: str, reply: str) -> Unscored:
    shown = " ".join(reply.split())
    shown = shown if len(shown) <= 60 else f"{shown[:59]}…"  # noqa: PLR2004 - fits a line
    return Unscored(f"the judge's reply is {what}: {shown!r}")
