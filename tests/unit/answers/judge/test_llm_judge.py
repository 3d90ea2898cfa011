"""The LLM judge: parsing of replies, its requests and its votes."""

import asyncio
from dataclasses import replace

import pytest

from pytest_rageval.answers.judge.llm_judge import LLMJudge
from pytest_rageval.answers.judge.replies import parse_yes_no
from pytest_rageval.answers.judge.tasks import COMPARE, GRADE
from pytest_rageval.core.errors import Planned, Unscored
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.scores.arena import PREFER
from pytest_rageval.scores.relevance import RELEVANT
from tests.unit.answers.judge.scripted import SERVER, ScriptedGateway, llm_judge

MARK = "⟪reply 0123456789abcdef⟫"


def test_the_reason_shows_the_beginning_of_the_reply() -> None:
    """The reason for an unscored reply quotes its beginning on one line, in at most 60 characters."""
    with pytest.raises(Unscored) as caught:
        parse_yes_no("well,\n" + "it depends " * 50)
    assert str(caught.value).startswith("the judge's reply is neither yes nor no: 'well, it depends")
    assert str(caught.value).endswith("…'")
    assert len(str(caught.value).partition(": ")[2]) == 62


def test_the_judge_is_asked_without_chance_and_with_each_reference_once() -> None:
    gateway = ScriptedGateway("Yes")
    judge = llm_judge(gateway)
    assert asyncio.run(judge.compare("How far?", ["5 km", "5 miles", "5 km"], "five km")) == 1.0
    (request,) = gateway.requests
    assert (request.model, request.parameters) == ("j", {"temperature": 0.0})
    assert request.messages[0]["content"].count("- 5 km\n") == 1


def test_parameters_of_the_user_replace_ours() -> None:
    gateway = ScriptedGateway("Yes")
    given = {
        "temperature": 1,
        "max_completion_tokens": 900,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    plain, judge = llm_judge(gateway, 16), llm_judge(gateway, 16, parameters=given)
    for either in (plain, judge):
        assert asyncio.run(either.compare("How far?", ["5 km"], "5")) == 1.0
    assert [request.parameters for request in gateway.requests] == [
        {"temperature": 0.0, "max_tokens": 16},
        given,
    ]
    assert len({request.key for request in gateway.requests}) == 2
    extra = {
        "temperature": 1,
        "max_completion_tokens": 900,
        "chat_template_kwargs": '{"enable_thinking": false}',
    }
    assert judge.identity(COMPARE) == {**plain.identity(COMPARE), **extra}
    assert plain.identity(COMPARE).keys() == {"", "votes", "max_tokens", "prompt to compare"}
    other = replace(plain, server=RemoteServer("http://here/v1", api="responses"))
    assert other.identity(COMPARE) == {**plain.identity(COMPARE), "api": "responses"}


def test_a_grade_is_asked_for_by_a_prompt_of_its_own() -> None:
    gateway = ScriptedGateway("4")
    judge = llm_judge(gateway)
    assert asyncio.run(judge.ask(GRADE, "How far?", ["5 km", "5 km"], "five")) == 0.75
    (request,) = gateway.requests
    assert request.parameters == {"temperature": 0.0}
    assert request.messages[0]["content"] == DEFAULT_PROMPTS.fill(
        "graded_answer", "How far?", ["5 km"], "five"
    )
    with pytest.raises(Unscored, match="neither yes nor no: '4'"):
        asyncio.run(judge.compare("How far?", ["5 km"], "five"))


def test_a_preference_is_asked_for_with_both_answers_in_order() -> None:
    gateway = ScriptedGateway("The second is correct. <rating>2</rating>")
    judge = llm_judge(gateway)
    assert asyncio.run(judge.ask(PREFER, "How far?", "6 km", "5 km")) == (2, "The second is correct.")
    (request,) = gateway.requests
    assert request.parameters == {"temperature": 0.0}
    assert request.messages[0]["content"] == DEFAULT_PROMPTS.fill("preference", "How far?", "6 km", "5 km")
    assert (request.parts["first answer"], request.parts["second answer"]) == ("6 km", "5 km")
    assert "prompt to prefer" in judge.identity(PREFER)


@pytest.mark.parametrize(
    "reply",
    ["<think>Yes? The year differs.</think>\n\nno", "Yes? No.\n</think>\nNo.", " <Think>\n</Think>no"],
)
def test_reasoning_is_no_verdict(reply: str) -> None:
    gateway = ScriptedGateway(reply)
    judge = llm_judge(gateway, 16)
    assert asyncio.run(judge.compare("How far?", ["5 km"], "5")) == 0.0
    assert gateway.requests[0].key == "b803dc486a270bde4380239ede547ab38af7478d9453d15c90ed14679ba3a446"


def test_reasoning_without_a_verdict_is_unscored() -> None:
    judge = llm_judge(ScriptedGateway("<think>yes"))
    with pytest.raises(Unscored, match="the judge's reply is empty: it holds reasoning and no answer"):
        asyncio.run(judge.compare("How far?", ["5 km"], "5"))


@pytest.mark.parametrize(
    ("task", "texts", "reply", "samples"),
    [
        # Two votes that agree are the majority of three; of grades, the median counts.
        (COMPARE, (["5 km"], "five km"), "yes", [0, 1]),
        (GRADE, (["5 km"], "five km"), "5", [0, 1, 2]),
        (RELEVANT, ("It is 5 km.",), "yes", [0, 1]),
    ],
)
def test_votes_are_samples_of_one_prompt(task, texts, reply: str, samples: list[int]) -> None:
    gateway = ScriptedGateway(reply)
    assert asyncio.run(llm_judge(gateway, votes=3).ask(task, "How far?", *texts)) == 1.0
    assert [request.sample for request in gateway.requests] == samples
    assert len({request.key for request in gateway.requests}) == len(samples)
    assert {request.messages[0]["content"] for request in gateway.requests} == {
        gateway.requests[0].messages[0]["content"]
    }
    assert all(request.parameters == {"temperature": 0.5} for request in gateway.requests)


@pytest.mark.parametrize(
    ("replies", "preference"),
    [
        (("Far. <rating>1</rating>", "Near. <rating>2</rating>", "So. <rating>2</rating>"), (2, "Near.")),
        # One vote is lost and the other two differ: the result is a tie, which neither vote explains.
        (("Far. <rating>1</rating>", "Near. <rating>2</rating>", "?"), (0, "")),
    ],
)
def test_the_reasons_of_a_preference_are_those_of_a_vote_for_it(replies, preference):
    class Several:
        async def get_reply_for_score(self, _server: object, request: Request) -> Reply:
            return Reply(replies[request.sample])

    judge = llm_judge(Several(), votes=3)
    assert asyncio.run(judge.ask(PREFER, "How far?", "6 km", "5 km")) == preference


def test_several_judges_get_the_requests_of_a_single_one() -> None:
    gateway, single_keys = ScriptedGateway("<rating>2</rating>"), []
    for model in "abc":
        single = ScriptedGateway("<rating>2</rating>")
        asyncio.run(LLMJudge(single, SERVER, model).ask(PREFER, "How far?", "6", "5 km"))
        single_keys += [request.key for request in single.requests]
    judge = LLMJudge(gateway, SERVER, "a", other_models=("b", "c"))
    assert asyncio.run(judge.ask(PREFER, "How far?", "6", "5 km")).value == 2
    # Two that agree are the majority of three.
    assert [request.key for request in gateway.requests] == single_keys[:2]
    assert judge.identity(PREFER)[""] == "a, b, c at http://here/v1"
    assert judge.model_names == {"a", "b", "c"}
    assert judge.repetition(1).other_models == ("b", "c")


class _Models:
    """A gateway whose models have fixed replies; None is a placeholder of a plan."""

    def __init__(self, **replies: str | None) -> None:
        self.replies = replies
        self.asked: list[str] = []

    async def get_reply_for_score(self, _server: object, request: Request) -> Reply:
        self.asked.append(request.model)
        return Reply(self.replies[request.model] or MARK)


@pytest.mark.parametrize(
    ("replies", "asked", "verdict"),
    [
        ({"a": "no", "b": "yes"}, "a", 0.0),
        ({"a": "yes", "b": "no"}, "ab", 0.0),
        ({"a": "yes", "b": "yes"}, "ab", 1.0),
        ({"a": "yes"}, "a", 1.0),
        ({"a": "yes", "b": "yes", "c": "no"}, "ab", 1.0),
        ({"a": "yes", "b": "no", "c": "yes"}, "abc", 1.0),
        ({"a": "perhaps", "b": "no", "c": "yes"}, "ab", 0.0),
        ({"a": "yes", "b": "perhaps"}, "ab", None),
        ({"a": None, "b": "no", "c": None}, "abc", None),
    ],
)
def test_models_are_asked_in_turn_until_two_in_a_row_agree(replies, asked, verdict):
    """Rules that refuse the answer come first, so that the first no is the second in a row; a plan counts all."""
    gateway = _Models(**replies)
    model, *others = replies
    judge = LLMJudge(gateway, SERVER, model, other_models=tuple(others))
    comparison = judge.compare_in_turn("How far?", ["5 km"], "5 miles")
    if verdict is None:
        with pytest.raises(Planned if None in replies.values() else Unscored):
            asyncio.run(comparison)
    else:
        assert asyncio.run(comparison) == verdict
    assert gateway.asked == list(asked)
