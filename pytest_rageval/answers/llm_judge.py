"""The LLM judge: yes or no, a grade from 1 to 5, a rating with its reasons, or the better of two answers.

A verdict may be a majority of several votes, of one model or of several (`Poll`).
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from statistics import median, median_low
from typing import Any, Final, NamedTuple, TypeVar

from pytest_rageval.answers.judge_protocol import Preference, Rating, Verdict, add_tally
from pytest_rageval.answers.judge_replies import (
    RATING_FORMAT,
    parse_grade,
    parse_nuggets,
    parse_preferred,
    parse_rating,
    parse_reasoned,
    parse_support,
    parse_yes_no,
    unread,
)
from pytest_rageval.concurrency.gathering import gather_results
from pytest_rageval.config import merge_parameters
from pytest_rageval.conversation import conversation_text, history_of
from pytest_rageval.datatypes import Nugget
from pytest_rageval.digests import digest
from pytest_rageval.errors import Planned, Unscored, is_placeholder
from pytest_rageval.llm.gateway import Gateway
from pytest_rageval.llm.messages import LazyParts, Reply, Request, describe_parameters, empty_reason
from pytest_rageval.llm.servers.server import Server
from pytest_rageval.prompts.rendering import DEFAULT_PROMPTS, Prompts, repair_prompt
from pytest_rageval.prompts.templates import CRITERIA, MOST_NUGGETS
from pytest_rageval.stats.agreement import Tally
from pytest_rageval.stats.agreement import majority as majority_or

__all__ = ["LLMJudge", "Poll", "majority"]

V = TypeVar("V", bound=Hashable)

TEMPERATURE: Final = 0.5
"""Of several votes. At 0 a server that repeats itself would make them agree, however close the verdict."""


class Ballot(NamedTuple):
    """Who votes: a model, in the sample of this number."""

    model: str
    sample: int


@dataclass(frozen=True, slots=True)
class Poll:
    """How often a judge is asked for one verdict.

    Attributes:
        votes: of each model, an odd number. One is drawn at temperature 0. More are drawn at `TEMPERATURE` as samples
            0, 1, 2 …, so that five votes share three with an earlier run of three.
        first: the number of the first sample.
    """

    votes: int = 1
    first: int = 0

    @property
    def temperature(self) -> float:
        """The temperature of each vote."""
        return 0.0 if self.votes == 1 else TEMPERATURE

    async def verdict(
        self,
        about: Hashable,
        models: Sequence[str],
        vote: Callable[[Ballot], Awaitable[V]],
        settle: Callable[[Sequence[V]], V],
    ) -> V:
        """Ask all models for all votes at once, and `settle` on those that can be read.

        `about` identifies the verdict, for the tally.

        Raises:
            Unscored: no vote can be read, or they do not settle it.
        """
        if self.votes == len(models) == 1:
            return await vote(Ballot(models[0], self.first))
        samples = range(self.first, self.first + self.votes)
        ballots = [Ballot(model, sample) for model in models for sample in samples]
        votes: list[V] = []
        lost: list[Unscored] = []
        for outcome in await gather_results(map(vote, ballots)):
            if isinstance(outcome, Unscored) and not isinstance(outcome, Planned):
                lost.append(outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                votes.append(outcome)
        if not votes:
            raise Unscored(f"none of {len(ballots)} votes could be obtained: {lost[0]}")
        verdict = settle(votes)
        minority = sum(each != verdict for each in votes)
        add_tally(about, Tally(1, int(len(set(votes)) > 1), len(votes), minority, len(lost)))
        return verdict


def majority(votes: Sequence[float]) -> float:
    """Return 1.0 where most of the votes, each 1.0 or 0.0, are yes; 0.0 where most are no.

    Raises:
        Unscored: they are tied, which takes an even number.

    >>> majority([1.0, 0.0, 1.0])
    1.0
    """
    yes = sum(votes)
    if 2 * yes == len(votes):
        raise Unscored(f"the judge's votes are tied: {yes:g} yes, {yes:g} no")
    return float(2 * yes > len(votes))


PROMPT_OF: Final = {
    "compare": "same_answer",
    "grade": "graded_answer",
    "relevant": "relevance",
    "sufficient": "sufficiency",
    "prefer": "preference",
    "support": "nugget_support",
}
"""The templates of the methods; that of a rating has the name of its criterion."""

LONGEST: Final = 2000
"""Characters of an unreadable reply that are sent back for repair."""


@dataclass(frozen=True)
class LLMJudge:
    """A model as judge: whether an answer holds what a reference says (LLM-retEval, step 3), grades and ratings.

    Each method raises Unscored where the reply has no verdict; of several votes, where none has. `max_tokens` are
    those of a reply; None is the server's default. `others` are further models at the same server, which vote too.
    """

    gateway: Gateway
    server: Server
    model: str
    max_tokens: int | None = None
    poll: Poll = field(default_factory=Poll)
    prompts: Prompts = DEFAULT_PROMPTS
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)  # the user's, in place of these
    others: tuple[str, ...] = ()

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return 1.0 for yes, 0.0 for no; unscored where the reply is neither, and where votes are tied."""
        texts = _compared(question, references, prediction)
        return await self._verdict(parse_yes_no, majority, self.prompts.same_answer, texts)

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return (grade - 1) / 4 for a grade from 1, nothing of a reference or a contradiction, to 5, all of it.

        Of several votes the median counts.
        """
        texts = _compared(question, references, prediction)
        return await self._verdict(parse_grade, median, self.prompts.graded_answer, texts)

    async def relevant(self, question: str, passage: str) -> float:
        """Return 1.0 for yes, 0.0 for no; unscored as in `compare`."""
        texts = {"question": question, "passage": passage}
        return await self._verdict(parse_yes_no, majority, self.prompts.relevance, texts)

    async def sufficient(self, question: str, passages: Sequence[str]) -> Verdict:
        """Return 1.0 for yes, 0.0 for no, with the reasons; unscored as in `compare`.

        Of several votes the reasons are those of the first one that agrees with most.
        """
        texts: dict[str, str | list[str]] = {"question": question, "passages": list(passages)}
        verdict, vote = await self._reasoned(parse_reasoned, majority, self.prompts.sufficiency, texts)
        return Verdict(verdict, vote[1])

    async def support(self, question: str, nuggets: Sequence[str], passage: str) -> tuple[float, ...]:
        """Return the labels of the nuggets; unscored where the reply is not a list of one label for each.

        Of several votes the median counts, nugget by nugget.
        """
        texts: dict[str, str | list[str]] = {"question": question, "nuggets": list(nuggets), "text": passage}
        read = partial(parse_support, n=len(nuggets))
        return await self._verdict(read, _medians, self.prompts.support, texts)

    async def nuggets(self, question: str, sources: Sequence[str]) -> tuple[Nugget, ...]:
        """Propose the facts of a good answer, from reference answers or passages; unscored where the reply has none."""
        prompt = self.prompts.nuggets(question, sources)
        parts = LazyParts(
            lambda: {
                "instructions": self.prompts.nuggets("", []),
                "question": str(question),
                **_conversation(question),
                "sources": "\n".join(sources),
            }
        )
        reply = await self._answer(self._request(prompt, parts, Ballot(self.model, self.poll.first)))
        return parse_nuggets(reply)[:MOST_NUGGETS]

    async def prefer(self, question: str, first: str, second: str) -> Preference:
        """Return 1 where the first answer is better, 2 where the second is, 0 where neither; with the reasons.

        Of several votes the one of more than half counts, otherwise 0.
        """
        texts = {"question": question, "first answer": first, "second answer": second}
        settle = partial(majority_or, tie=0.0)
        better, vote = await self._reasoned(parse_preferred, settle, self.prompts.preference, texts)
        # Votes that cancel out give no reasons for a tie.
        return Preference(int(better), vote[1] if vote[0] == better else "")

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """Return a grade from 1 to 5 with its explanation.

        Of several votes the median counts, with the explanation of the nearest vote. The request names the form of
        the reply. After a reply that is not a rating the request is repeated once, with the reason.
        """
        prompt = self.prompts.rating(criterion, question, rated, against)
        parts = LazyParts(
            lambda: {
                "instructions of the judge": self.prompts.rating(criterion, "", [], []),
                "question": str(question),
                **_conversation(question),
                "rated": "\n".join(rated),
                "held against": "\n".join(against),
            }
        )

        async def vote(ballot: Ballot) -> Rating:
            return await self._rating(self._request(prompt, parts, ballot, response_format=RATING_FORMAT))

        grade, nearest = await self._explained(prompt, vote, median)
        return Rating(grade, nearest[1])

    @property
    def model_names(self) -> frozenset[str]:
        """All models that vote."""
        return frozenset(self._models)

    def repetition(self, n: int) -> "LLMJudge":
        """Return this judge with the n-th set of samples."""
        return replace(self, poll=replace(self.poll, first=n * self.poll.votes))

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return the model, its server and parameters, and the digest of the method's prompt."""
        prompt = {
            "compare": self.prompts.same_answer("", [], ""),
            "grade": self.prompts.graded_answer("", [], ""),
            "relevant": self.prompts.relevance("", ""),
            "sufficient": self.prompts.sufficiency("", []),
            "prefer": self.prompts.preference("", "", ""),
            "support": self.prompts.support("", [], ""),
            **{f"rate {criterion}": self.prompts.rating(criterion, "", [], []) for criterion in CRITERIA},
        }[method]
        api = {} if self.server.api == "chat" else {"api": self.server.api}
        return {
            "": f"{', '.join(self._models)} at {self.server.base_url}",
            **api,
            "votes": self.poll.votes,
            "max_tokens": self.max_tokens,
            **describe_parameters(self.parameters),
            f"prompt to {method}": digest(prompt)[:12],
        }

    def template(self, method: str) -> str:
        """Return the template of a method's prompt."""
        return self.prompts.template(PROMPT_OF.get(method) or method.removeprefix("rate "))

    async def _verdict(
        self,
        read: Callable[[str], V],
        settle: Callable[[Sequence[V]], V],
        ask: Callable[..., str],
        texts: Mapping[str, str | list[str]],
    ) -> V:
        """Ask with these texts in the prompt; read each reply and settle a verdict on the votes."""
        prompt, parts = ask(*texts.values()), LazyParts(lambda: _parts(ask, texts))

        async def vote(ballot: Ballot) -> V:
            return read(await self._answer(self._request(prompt, parts, ballot)))

        return await self.poll.verdict(prompt, self._models, vote, settle)

    async def _reasoned(
        self,
        read: Callable[[str], tuple[float, str]],
        settle: Callable[[Sequence[float]], float],
        ask: Callable[..., str],
        texts: Mapping[str, str | list[str]],
    ) -> tuple[float, tuple[float, str]]:
        """Ask as `_verdict` does, for votes with reasons; return what `_explained` does."""
        prompt, parts = ask(*texts.values()), LazyParts(lambda: _parts(ask, texts))

        async def vote(ballot: Ballot) -> tuple[float, str]:
            return read(await self._answer(self._request(prompt, parts, ballot)))

        return await self._explained(prompt, vote, settle)

    async def _explained(
        self,
        prompt: str,
        vote: Callable[[Ballot], Awaitable[tuple[float, str]]],
        settle: Callable[[Sequence[float]], float],
    ) -> tuple[float, tuple[float, str]]:
        """Settle on votes that are explained; return the verdict, and the first of the votes nearest to it."""
        votes: dict[Ballot, tuple[float, str]] = {}

        async def value(ballot: Ballot) -> float:
            votes[ballot] = await vote(ballot)
            return votes[ballot][0]

        settled = await self.poll.verdict(prompt, self._models, value, settle)
        nearest = min(sorted(votes), key=lambda ballot: abs(votes[ballot][0] - settled))
        return settled, votes[nearest]

    async def _rating(self, request: Request) -> Rating:
        """Read a rating, and ask once more where the reply is not one. A plan counts both requests."""
        reply, answer = await self._reply(request)
        try:
            return parse_rating(answer)
        except ValueError as error:
            # A broken reply may be very long, so only its beginning is sent.
            messages = (
                *request.messages,
                {"role": "assistant", "content": reply.text[:LONGEST]},
                {"role": "user", "content": repair_prompt(str(error))},
            )
            parts = {**request.parts, "reply to repair": reply.text}
        answer = await self._answer(replace(request, messages=messages, parts=parts))
        try:
            return parse_rating(answer)
        except ValueError as error:
            raise unread(f"not a rating in the second attempt either ({error})", answer) from None

    @cached_property
    def _models(self) -> tuple[str, ...]:
        return self.model, *self.others

    @cached_property
    def _parameters(self) -> dict[str, Any]:
        return self._parameters_with()

    def _parameters_with(self, **more: Any) -> dict[str, Any]:
        limit = {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        return merge_parameters({"temperature": self.poll.temperature, **limit, **more}, self.parameters)

    def _request(self, prompt: str, parts: Mapping[str, str], ballot: Ballot, **more: Any) -> Request:
        return Request(
            base_url=self.server.base_url,
            api=self.server.api,
            model=ballot.model,
            messages=({"role": "user", "content": prompt},),
            parameters=self._parameters_with(**more) if more else self._parameters,
            sample=ballot.sample,
            parts=parts,
        )

    async def _answer(self, request: Request) -> str:
        """Ask, and return the reply without its reasoning."""
        reply, answer = await self._reply(request)
        if is_placeholder(reply.text):
            raise Planned("the judge is not asked in a plan")
        return answer

    async def _reply(self, request: Request) -> tuple[Reply, str]:
        """Ask for a reply that has an answer, and return both; in a plan it has the mark of one."""
        reply = await self.gateway.get_reply_for_score(self.server, request)
        answer = reply.answer
        if not answer:
            raise Unscored(f"the judge's reply is empty{empty_reason(reply)}")
        return reply, answer


def _medians(votes: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """The median of each label; the lower one of an even number of votes."""
    return tuple(map(median_low, zip(*votes, strict=True)))


def _parts(ask: Callable[..., str], texts: Mapping[str, str | list[str]]) -> dict[str, str]:
    """What the messages are made of."""
    parts = {"instructions of the judge": ask(*(type(text)() for text in texts.values()))}
    for name, text in texts.items():
        parts[name] = str(text) if isinstance(text, str) else "\n".join(text)
    return parts | _conversation(texts["question"])


def _conversation(question: object) -> dict[str, str]:
    history = history_of(question)
    return {"conversation": conversation_text(history)} if history else {}


def _compared(question: str, references: Sequence[str], prediction: str) -> dict[str, str | list[str]]:
    # One reference a line, without repeats: several samples of the same answer add nothing.
    listed = list(dict.fromkeys(" ".join(reference.split()) for reference in references))
    return {"question": question, "references": listed, "answer": prediction}
