"""The LLM judge: asks a model for a verdict (yes or no), a grade, a rating with its reasons, or a preference.

A verdict may be decided by several votes of one model or of several models (`Voting`).
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from statistics import median, median_low
from typing import Any, Final, NamedTuple, TypeVar

from pytest_rageval.answers.judge.protocol import JudgeVerdict, Preference, Rating, record_tally
from pytest_rageval.answers.judge.replies import (
    RATING_FORMAT,
    parse_explained_preference,
    parse_explained_yes_no,
    parse_grade,
    parse_nuggets,
    parse_rating,
    parse_support,
    parse_yes_no,
    unreadable_reply,
)
from pytest_rageval.core.concurrency.gathering import gather_results
from pytest_rageval.core.conversation import conversation_text, history_of
from pytest_rageval.core.data import Nugget
from pytest_rageval.core.errors import Planned, Unscored, is_placeholder
from pytest_rageval.core.request_parameters import merge_parameters
from pytest_rageval.lib.digests import digest
from pytest_rageval.models.gateway import Gateway
from pytest_rageval.models.messages import LazyParts, Reply, Request, describe_parameters, empty_reason
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS, Prompts, repair_prompt
from pytest_rageval.models.prompts import CRITERIA, MAX_NUGGETS
from pytest_rageval.models.server import Server
from pytest_rageval.stats.agreement import Tally
from pytest_rageval.stats.agreement import majority as majority_or

V = TypeVar("V", bound=Hashable)

TEMPERATURE: Final = 0.5
"""The temperature of several votes. At 0, a deterministic server would return the same vote every time."""


class Voter(NamedTuple):
    """The source of one vote: a model and the number of the sample that is drawn from it."""

    model: str
    sample: int


@dataclass(frozen=True, slots=True)
class Voting:
    """How many votes decide a verdict, and how they are requested.

    Attributes:
        votes: the number of votes of each model, which is odd. One vote is drawn at temperature 0. Several are drawn at
            `TEMPERATURE` as samples 0, 1, 2 …, so that five votes share three with an earlier run of three.
        first_sample: the number of the first sample.
    """

    votes: int = 1
    first_sample: int = 0

    @property
    def temperature(self) -> float:
        """The temperature of each vote."""
        return 0.0 if self.votes == 1 else TEMPERATURE

    async def decide(
        self,
        subject: Hashable,
        models: Sequence[str],
        request_vote: Callable[[Voter], Awaitable[V]],
        aggregate: Callable[[Sequence[V]], V],
    ) -> V:
        """Request all votes of all models concurrently, and return the aggregate of the readable ones.

        Args:
            subject: identifies the verdict, for the tally.
            models: the names of the models that vote.
            request_vote: requests and parses one vote; raises Unscored if the vote is unreadable.
            aggregate: returns the verdict of the votes; raises Unscored if they decide nothing.

        Raises:
            Unscored: no vote is readable, or the votes decide nothing.
        """
        if self.votes == len(models) == 1:
            return await request_vote(Voter(models[0], self.first_sample))
        samples = range(self.first_sample, self.first_sample + self.votes)
        voters = [Voter(model, sample) for model in models for sample in samples]
        votes: list[V] = []
        unreadable: list[Unscored] = []
        for outcome in await gather_results(map(request_vote, voters)):
            if isinstance(outcome, Unscored) and not isinstance(outcome, Planned):
                unreadable.append(outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                votes.append(outcome)
        if not votes:
            raise Unscored(f"none of {len(voters)} votes could be obtained: {unreadable[0]}")
        verdict = aggregate(votes)
        minority = sum(vote != verdict for vote in votes)
        record_tally(subject, Tally(1, int(len(set(votes)) > 1), len(votes), minority, len(unreadable)))
        return verdict


def majority(votes: Sequence[float]) -> float:
    """Return 1.0 if most of the votes, each 1.0 or 0.0, are 1.0, and 0.0 if most are 0.0.

    Raises:
        Unscored: as many are 1.0 as are 0.0.

    >>> majority([1.0, 0.0, 1.0])
    1.0
    """
    yes = sum(votes)
    if 2 * yes == len(votes):
        raise Unscored(f"the judge's votes are tied: {yes:g} yes, {yes:g} no")
    return float(2 * yes > len(votes))


class JudgePrompt(NamedTuple):
    """The prompt of a method of the judge.

    Attributes:
        template: the name of the template.
        renderer: the name of the method of `Prompts` that fills the template.
        blank: arguments of that method with empty texts: the prompt then has only the instructions.
    """

    template: str
    renderer: str
    blank: tuple[str | list[str], ...]

    def render(self, prompts: Prompts, *texts: str | list[str]) -> str:
        """Return the prompt with these texts."""
        prompt: str = getattr(prompts, self.renderer)(*texts)
        return prompt


PROMPTS: Final[Mapping[str, JudgePrompt]] = {
    "compare": JudgePrompt("same_answer", "same_answer", ("", [], "")),
    "grade": JudgePrompt("graded_answer", "graded_answer", ("", [], "")),
    "relevant": JudgePrompt("relevance", "relevance", ("", "")),
    "sufficient": JudgePrompt("sufficiency", "sufficiency", ("", [])),
    "prefer": JudgePrompt("preference", "preference", ("", "", "")),
    "support": JudgePrompt("nugget_support", "support", ("", [], "")),
    **{
        f"rate {criterion}": JudgePrompt(criterion, "rating", (criterion, "", [], []))
        for criterion in CRITERIA
    },
}
"""The prompts by method; the method "rate" has one for each criterion."""

MAX_QUOTED_LENGTH: Final = 2000
"""At most this many characters of an unreadable rating are quoted in the request that repeats it."""


@dataclass(frozen=True)
class LLMJudge:
    """A judge that asks a model.

    Each method raises Unscored if the reply has no verdict; with several votes, if no reply has one.

    Attributes:
        gateway: sends the requests.
        server: the server of the models.
        model: the name of the model.
        max_tokens: the maximum length of a reply, or None for the server's default.
        voting: how many votes decide a verdict.
        prompts: the prompts.
        parameters: the user's parameters of requests; they replace the judge's own.
        other_models: the names of further models at the same server, which vote too.
    """

    gateway: Gateway
    server: Server
    model: str
    max_tokens: int | None = None
    voting: Voting = field(default_factory=Voting)
    prompts: Prompts = DEFAULT_PROMPTS
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    other_models: tuple[str, ...] = ()

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return 1.0 if the prediction states what a reference states, otherwise 0.0 (LLM-retEval, step 3).

        Of several votes the majority decides. The result is unscored if a reply states neither yes nor no, and if votes
        are tied.
        """
        texts = _comparison_texts(question, references, prediction)
        return await self._decide("compare", texts, parse_yes_no, majority)

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return (grade - 1) / 4 for a grade from 1, nothing of a reference or a contradiction, to 5, all of it.

        Of several votes the median counts.
        """
        texts = _comparison_texts(question, references, prediction)
        return await self._decide("grade", texts, parse_grade, median)

    async def relevant(self, question: str, passage: str) -> float:
        """Return 1.0 for yes, 0.0 for no; votes and unscored results are as in `compare`."""
        texts = {"question": question, "passage": passage}
        return await self._decide("relevant", texts, parse_yes_no, majority)

    async def sufficient(self, question: str, passages: Sequence[str]) -> JudgeVerdict:
        """Return 1.0 for yes, 0.0 for no, with the reasons; votes and unscored results are as in `compare`.

        Of several votes the reasons are those of the first vote that agrees with the verdict.
        """
        texts: dict[str, str | list[str]] = {"question": question, "passages": list(passages)}
        prompt, request_vote = self._prepare_vote("sufficient", texts, parse_explained_yes_no)
        value, nearest = await self._decide_explained(prompt, request_vote, majority)
        return JudgeVerdict(value, nearest[1])

    async def support(self, question: str, nuggets: Sequence[str], passage: str) -> tuple[float, ...]:
        """Return the labels of the nuggets; unscored if the reply is not a list of one label for each nugget.

        Of several votes the median counts, nugget by nugget.
        """
        texts: dict[str, str | list[str]] = {"question": question, "nuggets": list(nuggets), "text": passage}
        return await self._decide("support", texts, partial(parse_support, n=len(nuggets)), _median_labels)

    async def nuggets(self, question: str, sources: Sequence[str]) -> tuple[Nugget, ...]:
        """Propose the facts of a good answer, from reference answers or passages; unscored if the reply has none."""
        prompt = self.prompts.nuggets(question, sources)
        parts = LazyParts(
            lambda: {
                "instructions": self.prompts.nuggets("", []),
                "question": str(question),
                **_conversation(question),
                "sources": "\n".join(sources),
            }
        )
        voter = Voter(self.model, self.voting.first_sample)
        reply = await self._request_answer(self._build_request(prompt, parts, voter))
        return parse_nuggets(reply)[:MAX_NUGGETS]

    async def prefer(self, question: str, first: str, second: str) -> Preference:
        """Return 1 if the first answer is better, 2 if the second is, 0 if neither is; with the reasons.

        Of several votes the preference of more than half counts, otherwise 0.
        """
        texts = {"question": question, "first answer": first, "second answer": second}
        prompt, request_vote = self._prepare_vote("prefer", texts, parse_explained_preference)
        aggregate = partial(majority_or, tie=0.0)
        better, nearest = await self._decide_explained(prompt, request_vote, aggregate)
        # If opposite votes make a tie, no vote explains it.
        return Preference(int(better), nearest[1] if nearest[0] == better else "")

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """Return a grade from 1 to 5 with its explanation.

        Of several votes the median counts, with the explanation of the nearest vote. The request names the format of
        the reply. After a reply that is not a rating the request is repeated once, with the reason.
        """
        prompt = self.prompts.rating(criterion, question, rated, against)
        parts = LazyParts(
            lambda: {
                "instructions of the judge": self._instructions(f"rate {criterion}"),
                "question": str(question),
                **_conversation(question),
                "rated": "\n".join(rated),
                "held against": "\n".join(against),
            }
        )

        async def request_vote(voter: Voter) -> Rating:
            request = self._build_request(prompt, parts, voter, response_format=RATING_FORMAT)
            return await self._request_rating(request)

        grade, nearest = await self._decide_explained(prompt, request_vote, median)
        return Rating(grade, nearest[1])

    @property
    def model_names(self) -> frozenset[str]:
        """The names of all models that vote."""
        return frozenset(self._models)

    def repetition(self, n: int) -> "LLMJudge":
        """Return this judge with the n-th set of samples."""
        return replace(self, voting=replace(self.voting, first_sample=n * self.voting.votes))

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return the models, their server and parameters, and the digest of the method's prompt."""
        api = {} if self.server.api == "chat" else {"api": self.server.api}
        addresses = {self.gateway.address(model, self.server.base_url): None for model in self._models}
        return {
            "": f"{', '.join(self._models)} at {', '.join(addresses)}",
            **api,
            "votes": self.voting.votes,
            "max_tokens": self.max_tokens,
            **describe_parameters(self.parameters),
            f"prompt to {method}": digest(self._instructions(method))[:12],
        }

    def template(self, method: str) -> str:
        """Return the template of a method's prompt."""
        return self.prompts.template(PROMPTS[method].template)

    def _instructions(self, method: str) -> str:
        """Return the prompt of a method without texts."""
        return PROMPTS[method].render(self.prompts, *PROMPTS[method].blank)

    async def _decide(
        self,
        method: str,
        texts: Mapping[str, str | list[str]],
        parse: Callable[[str], V],
        aggregate: Callable[[Sequence[V]], V],
    ) -> V:
        """Request the votes of a method on these texts, and return their aggregate."""
        prompt, request_vote = self._prepare_vote(method, texts, parse)
        return await self.voting.decide(prompt, self._models, request_vote, aggregate)

    def _prepare_vote(
        self, method: str, texts: Mapping[str, str | list[str]], parse: Callable[[str], V]
    ) -> tuple[str, Callable[[Voter], Awaitable[V]]]:
        """Return the prompt of a method with these texts, and a function that requests and parses one vote on it."""
        prompt = PROMPTS[method].render(self.prompts, *texts.values())
        parts = LazyParts(
            lambda: {
                "instructions of the judge": self._instructions(method),
                **{
                    name: str(text) if isinstance(text, str) else "\n".join(text)
                    for name, text in texts.items()
                },
                **_conversation(texts["question"]),
            }
        )

        async def request_vote(voter: Voter) -> V:
            return parse(await self._request_answer(self._build_request(prompt, parts, voter)))

        return prompt, request_vote

    async def _decide_explained(
        self,
        prompt: str,
        request_vote: Callable[[Voter], Awaitable[tuple[float, str]]],
        aggregate: Callable[[Sequence[float]], float],
    ) -> tuple[float, tuple[float, str]]:
        """Decide by votes with explanations; return the verdict and the first vote that is nearest to it."""
        votes: dict[Voter, tuple[float, str]] = {}

        async def request_value(voter: Voter) -> float:
            votes[voter] = await request_vote(voter)
            return votes[voter][0]

        verdict = await self.voting.decide(prompt, self._models, request_value, aggregate)
        nearest = min(sorted(votes), key=lambda voter: abs(votes[voter][0] - verdict))
        return verdict, votes[nearest]

    async def _request_rating(self, request: Request) -> Rating:
        """Return a rating; repeat the request once if the reply is not a rating. A plan counts both requests."""
        reply, answer = await self._request_reply(request)
        try:
            return parse_rating(answer)
        except ValueError as error:
            # An unreadable reply may be very long, so only its beginning is sent.
            messages = (
                *request.messages,
                {"role": "assistant", "content": reply.text[:MAX_QUOTED_LENGTH]},
                {"role": "user", "content": repair_prompt(str(error))},
            )
            parts = {**request.parts, "reply to repair": reply.text}
        answer = await self._request_answer(replace(request, messages=messages, parts=parts))
        try:
            return parse_rating(answer)
        except ValueError as error:
            raise unreadable_reply(f"not a rating in the second attempt either ({error})", answer) from None

    @cached_property
    def _models(self) -> tuple[str, ...]:
        return self.model, *self.other_models

    @cached_property
    def _default_parameters(self) -> dict[str, Any]:
        return self._parameters()

    def _parameters(self, **more: Any) -> dict[str, Any]:
        limit = {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        return merge_parameters({"temperature": self.voting.temperature, **limit, **more}, self.parameters)

    def _build_request(
        self, prompt: str, parts: Mapping[str, str], voter: Voter, **parameters: Any
    ) -> Request:
        return Request(
            base_url=self.server.base_url,
            api=self.server.api,
            model=voter.model,
            messages=({"role": "user", "content": prompt},),
            parameters=self._parameters(**parameters) if parameters else self._default_parameters,
            sample=voter.sample,
            parts=parts,
        )

    async def _request_answer(self, request: Request) -> str:
        """Send a request; return the reply without its reasoning, and raise Planned for a placeholder."""
        reply, answer = await self._request_reply(request)
        if is_placeholder(reply.text):
            raise Planned("the judge is not called in a plan")
        return answer

    async def _request_reply(self, request: Request) -> tuple[Reply, str]:
        """Send a request; return the reply and its text without reasoning, both placeholders in a plan.

        Raises:
            Unscored: the reply has no text besides its reasoning.
        """
        reply = await self.gateway.get_reply_for_score(self.server, request)
        answer = reply.answer
        if not answer:
            raise Unscored(f"the judge's reply is empty{empty_reason(reply)}")
        return reply, answer


def _median_labels(votes: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """Return the median of each label; the lower one of an even number of votes."""
    return tuple(map(median_low, zip(*votes, strict=True)))


def _conversation(question: object) -> dict[str, str]:
    history = history_of(question)
    return {"conversation": conversation_text(history)} if history else {}


def _comparison_texts(
    question: str, references: Sequence[str], prediction: str
) -> dict[str, str | list[str]]:
    # Each reference is on one line. Repeated references, such as equal samples of one answer, are listed once.
    listed = list(dict.fromkeys(" ".join(reference.split()) for reference in references))
    return {"question": question, "references": listed, "answer": prediction}
