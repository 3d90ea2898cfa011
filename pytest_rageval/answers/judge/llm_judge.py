"""The LLM judge: asks a model for a verdict (yes or no), a grade, a rating with its reasons, or a preference.

A verdict may be decided by several votes of one model or of several models (`Voting`).
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from pytest_rageval.answers.judge import JudgeTask, Text, Verdict, record_tally
from pytest_rageval.answers.judge.replies import unreadable_reply
from pytest_rageval.answers.judge.tasks import COMPARE
from pytest_rageval.calls.gathering import gather_results
from pytest_rageval.core.errors import Planned, ReplyPending, Unscored
from pytest_rageval.core.evalset import conversation_text, history_of
from pytest_rageval.core.outcome import Tally
from pytest_rageval.lib.digests import digest
from pytest_rageval.models.client import Server
from pytest_rageval.models.gateway import Gateway
from pytest_rageval.models.messages import Reply, Request, empty_reason, is_placeholder
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS, Prompts, repair_prompt
from pytest_rageval.models.summaries import describe_parameters
from pytest_rageval.options.parsers import merge_parameters

V = TypeVar("V")

TEMPERATURE: Final = 0.5
"""The temperature of several votes. At 0, a deterministic server would return the same vote every time."""


class Voter(NamedTuple):
    """The source of one vote: a model and the number of the sample that is drawn from it."""

    model: str
    sample: int


@dataclass(frozen=True, slots=True)
class Voting:
    """How many votes decide a verdict, and how they are requested.

    One vote is drawn at temperature 0. Several are drawn at `TEMPERATURE` as samples 0, 1, 2 …, so that five votes
    share three with an earlier run of three.
    """

    votes: int = 1  # of each model; odd
    first_sample: int = 0
    all_votes: bool = False  # also when the majority is certain, to measure how often they differ

    @property
    def temperature(self) -> float:
        return 0.0 if self.votes == 1 else TEMPERATURE

    async def decide(
        self,
        subject: Hashable,
        models: Sequence[str],
        request_vote: Callable[[Voter], Awaitable[V]],
        aggregate: Callable[[Sequence[V]], V],
        *,
        by_majority: bool = False,
    ) -> V:
        """Request votes of all models concurrently, and return the aggregate of the readable ones.

        Unscored: no vote is readable (`request_vote` raises it), or the votes decide nothing (`aggregate` raises it).
        The votes are in the order of models and samples. The subject identifies the verdict, for the tally. If most
        votes decide, as many as can make the majority certain are requested at once, and further ones while it is not.
        """
        if self.votes == len(models) == 1:
            return await request_vote(Voter(models[0], self.first_sample))
        samples = range(self.first_sample, self.first_sample + self.votes)
        voters = [Voter(model, sample) for model in models for sample in samples]
        votes: dict[Voter, V] = {}
        unreadable: list[Unscored] = []
        left = voters
        while left:
            n = len(left)
            if by_majority and not self.all_votes:
                n = min(n, _votes_to_majority(list(map(_value, votes.values())), n))
            if not n:
                break
            asked, left = left[:n], left[n:]
            outcomes = await gather_results(map(request_vote, asked))
            if any(isinstance(outcome, Planned | ReplyPending) for outcome in outcomes):
                # A plan counts, and a batch contains, also the votes that may be needed.
                outcomes += await gather_results(map(request_vote, left))
                asked, left = [*asked, *left], []
            for voter, outcome in zip(asked, outcomes, strict=True):
                if isinstance(outcome, Unscored) and not isinstance(outcome, Planned):
                    unreadable.append(outcome)
                elif isinstance(outcome, BaseException):
                    raise outcome
                else:
                    votes[voter] = outcome
        if not votes:
            raise Unscored(f"none of {len(voters)} votes could be obtained: {unreadable[0]}")
        verdict = aggregate([votes[voter] for voter in sorted(votes)])
        values = list(map(_value, votes.values()))
        minority = sum(value != _value(verdict) for value in values)
        record_tally(subject, Tally(1, int(len(set(values)) > 1), len(values), minority, len(unreadable)))
        return verdict


def _votes_to_majority(values: Sequence[object], left: int) -> int:
    """Return how many of the votes that are left can make the majority certain; 0 if it is certain.

    >>> [_votes_to_majority(values, 5 - len(values)) for values in ([], [1, 1, 0], [1, 1, 0, 1])]
    [3, 1, 0]
    """
    most = max(Counter(values).values(), default=0)
    margin = most - (len(values) - most)
    return 0 if margin > left else (left - margin) // 2 + 1


def _value(vote: object) -> object:
    if isinstance(vote, Verdict):
        return vote.value
    return tuple(map(_value, vote)) if isinstance(vote, tuple) else vote


@lru_cache(maxsize=1 << 6)  # each request names them
def _instructions(task: JudgeTask[Any], prompts: Prompts) -> str:
    return task.prompt(prompts)


MAX_QUOTED_LENGTH: Final = 2000
"""At most this many characters of an unreadable rating are quoted in the request that repeats it."""


@dataclass(frozen=True)
class LLMJudge:
    """A judge that asks a model, and further models at the same server, which vote too.

    `max_tokens` is the maximum length of a reply, or None for the server's default. The user's `parameters` of requests
    replace the judge's own.
    """

    gateway: Gateway
    server: Server
    model: str
    max_tokens: int | None = None
    voting: Voting = field(default_factory=Voting)
    prompts: Prompts = DEFAULT_PROMPTS
    parameters: Mapping[str, object] = field(default_factory=dict, hash=False)
    other_models: tuple[str, ...] = ()

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        return await self.ask(COMPARE, question, references, prediction)

    async def compare_in_turn(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Decide `COMPARE` after rules have refused the prediction: ask one model after the other.

        The first model whose verdict is that before it decides, or else the last one.
        """
        before = 0.0
        for left, judge in zip(range(len(self._models) - 1, -1, -1), self.judges_in_turn, strict=True):
            try:
                verdict = await judge.compare(question, references, prediction)
            except Planned:
                # A plan counts the requests that may be needed.
                for other in self.judges_in_turn[len(self._models) - left :]:
                    with suppress(Planned):
                        await other.compare(question, references, prediction)
                raise
            except Unscored:
                if not left:
                    raise
                continue
            if verdict == before:
                break
            before = verdict
        return before

    async def ask(self, task: JudgeTask[V], question: str, *texts: Text) -> V:
        prepared = task.prepare(question, *texts)
        prompt = task.prompt(self.prompts, *prepared)
        parts = {
            "instructions of the judge": _instructions(task, self.prompts),
            **{
                name: str(text) if isinstance(text, str) else "\n".join(text)
                for name, text in zip(task.part_names, prepared, strict=True)
            },
            **({"conversation": conversation_text(history)} if (history := history_of(question)) else {}),
        }

        form = task.response_format

        async def request_vote(voter: Voter) -> V:
            request = Request(
                base_url=self.server.base_url,
                api=self.server.api,
                model=voter.model,
                messages=({"role": "user", "content": prompt},),
                parameters=self._parameters(response_format=form) if form else self._default_parameters,
                sample=voter.sample,
                parts=parts,
            )
            answer, verdict = await self._request_verdict(task, request)
            if problem := task.problem(verdict, *texts):
                raise unreadable_reply(problem, answer)
            return verdict

        return await self.voting.decide(
            (prompt, *self._models), self._models, request_vote, task.vote, by_majority=task.by_majority
        )

    def require(self, task: JudgeTask[Any]) -> None:
        """A model decides every task."""

    @property
    def model_names(self) -> frozenset[str]:
        return frozenset(self._models)

    def repetition(self, n: int) -> "LLMJudge":
        return replace(self, voting=replace(self.voting, first_sample=n * self.voting.votes))

    def identity(self, task: JudgeTask[Any]) -> Mapping[str, object]:
        api = {} if self.server.api == "chat" else {"api": self.server.api}
        addresses = {self.gateway.address(model, self.server.base_url): None for model in self._models}
        return {
            "": f"{', '.join(self._models)} at {', '.join(addresses)}",
            **api,
            "votes": self.voting.votes,
            "max_tokens": self.max_tokens,
            **describe_parameters(self.parameters),
            f"prompt to {task.name}": digest(task.prompt(self.prompts))[:12],
        }

    def template(self, task: JudgeTask[Any]) -> str:
        return self.prompts.template(task.template)

    async def _request_verdict(self, task: JudgeTask[V], request: Request) -> tuple[str, V]:
        """Return the text of a reply and its verdict; repeat the request once if it named a format that was missed."""
        if task.response_format is None:
            answer = await self._request_answer(request)
            return answer, task.parse(answer)
        # A placeholder has no verdict, so that a plan counts both requests.
        reply, answer = await self._request_reply(request)
        try:
            return answer, task.parse(answer)
        except ValueError as error:
            # An unreadable reply may be very long, so only its beginning is sent.
            messages = (
                *request.messages,
                {"role": "assistant", "content": reply.text[:MAX_QUOTED_LENGTH]},
                {"role": "user", "content": repair_prompt(str(error), task.instruction)},
            )
            parts = {**request.parts, "reply to repair": reply.text}
        answer = await self._request_answer(replace(request, messages=messages, parts=parts))
        try:
            return answer, task.parse(answer)
        except ValueError as error:
            raise unreadable_reply(f"not a rating in the second attempt either ({error})", answer) from None

    @cached_property
    def _models(self) -> tuple[str, ...]:
        return self.model, *self.other_models

    @cached_property
    def judges_in_turn(self) -> tuple["LLMJudge", ...]:
        """A judge for each of the models alone; its requests are those of the vote of all."""
        return tuple(replace(self, model=model, other_models=()) for model in self._models)

    @cached_property
    def _default_parameters(self) -> dict[str, object]:
        return self._parameters()

    def _parameters(self, **more: Any) -> dict[str, object]:
        limit = {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        return merge_parameters({"temperature": self.voting.temperature, **limit, **more}, self.parameters)

    async def _request_answer(self, request: Request) -> str:
        """Send a request; return the reply without its reasoning, and raise Planned for a placeholder."""
        reply, answer = await self._request_reply(request)
        if is_placeholder(reply.text):
            raise Planned("the judge is not called in a plan")
        return answer

    async def _request_reply(self, request: Request) -> tuple[Reply, str]:
        """Send a request; return the reply and its text without reasoning, both placeholders in a plan."""
        reply = await self.gateway.get_reply_for_score(self.server, request)
        answer = reply.answer
        if not answer:
            raise Unscored(f"the judge's reply is empty{empty_reason(reply)}")
        return reply, answer
