"""Nuggets that a text supports, labelled by a model or the user's judge; and nuggets that a model proposes."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from pytest_rageval.answers.judge import collect_tallies
from pytest_rageval.answers.judge.llm_judge import LLMJudge, Voting
from pytest_rageval.answers.judge.replies import parse_nuggets, parse_support
from pytest_rageval.answers.judge.user_judge import adapt_judge
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, Unscored
from pytest_rageval.core.evalset import Nugget
from pytest_rageval.core.outcome import Tally
from pytest_rageval.extensions.evalset_tools.generate import NUGGETS
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.scores.nuggets import SUPPORT
from tests.unit.answers.judge.scripted import ScriptedGateway

YES, PART, NO = 1.0, 0.5, 0.0


def _judge(gateway: ScriptedGateway, votes: int = 1) -> LLMJudge:
    return LLMJudge(gateway, RemoteServer("http://here/v1"), "j", 100, Voting(votes))


@pytest.mark.parametrize(
    "reply",
    [
        '["support", "partial_support", "not_support"]',
        "['support', 'partial_support', 'not_support']",
        "[support, partial_support, not_support]",
        '```json\n["support", "partial_support", "not_support"]\n```',
        '{"labels": ["support", "partial_support", "not_support"]}',
        'Labels: ["Support", "partial support",\n "NOT_SUPPORT",]',
        'By nuggets [1] to [3]:\n["support", "partial_support", "not_support"].',
        '["support", "partial_support", "not_support"]\nAgain: [support, partial_support, not_support]',
    ],
)
def test_labels_are_read(reply: str) -> None:
    assert parse_support(reply) == (YES, PART, NO)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("", "empty"),
        ("support", "not one list of labels"),
        ("[]", "not one list of labels"),
        ('["support", "maybe"]', "not one list of labels"),
        ('["support", ["support"]]', "1 label for 2 nuggets"),
        ('["support", "support"] or ["support", "not_support"]', "not one list of labels"),
        ('["support"]', "1 label for 2 nuggets"),
        ('["support", "support", "support"]', "3 labels for 2 nuggets"),
    ],
)
def test_other_replies_have_no_labels(reply: str, reason: str) -> None:
    with pytest.raises(Unscored, match=f"the judge's reply is {reason}"):
        asyncio.run(_judge(ScriptedGateway(reply)).ask(SUPPORT, "Q?", ["a", "b"], "T"))


def test_all_nuggets_are_labelled_in_one_request() -> None:
    gateway = ScriptedGateway('["support", "not_support"]')
    labels = asyncio.run(_judge(gateway).ask(SUPPORT, "How far?", ["5 km", "by bus"], "It is 5 km."))
    assert labels == (YES, NO)
    (request,) = gateway.requests
    assert request.messages[0]["content"] == DEFAULT_PROMPTS.fill(
        "nugget_support", "How far?", ["5 km", "by bus"], "It is 5 km."
    )
    assert request.parameters == {"temperature": 0.0, "max_tokens": 100}


def test_the_median_of_several_votes_counts_for_each_nugget() -> None:
    """The labels count as one verdict; here the votes were split, and one is lost."""
    replies = ('["support", "not_support"]', '["support", "support"]', '["not_support", "partial_support"]')
    judging = _judge(ScriptedGateway(*replies), 3).ask(SUPPORT, "Q?", ["a", "b"], "T")
    assert asyncio.run(collect_tallies(judging)) == ((YES, PART), Tally(1, 1, 3, 3))
    lost = _judge(ScriptedGateway(*replies[:2], "?"), 3).ask(SUPPORT, "Q?", ["a", "b"], "T")
    assert asyncio.run(collect_tallies(lost)) == ((YES, NO), Tally(1, 1, 2, 1, 1))


def _own(loop: BackgroundEventLoop, returned: object) -> Sequence[float]:
    judge = adapt_judge(SimpleNamespace(compare=print, support=lambda *_: returned), loop)
    return loop.run(judge.ask(SUPPORT, "How far?", ("5 km", "by bus"), "It is 5 km."))


@pytest.mark.parametrize(
    "returned", [["support", "not_support"], ("support", "not_support"), [True, False], [1, 0.0]]
)
def test_a_judge_of_the_users_labels(loop: BackgroundEventLoop, returned: object) -> None:
    assert _own(loop, returned) == (YES, NO)


@pytest.mark.parametrize(
    "returned", ["support", ["support", "yes"], [1, 0.3], [None, 1], {"5 km": "support"}, 1.0]
)
def test_anything_else_that_it_returns_is_an_error(loop: BackgroundEventLoop, returned: object) -> None:
    with pytest.raises(CallableError) as caught:
        _own(loop, returned)
    assert f"rageval_judge.support returned {returned!r} for 'How far?'" in str(caught.value)
    assert "Return a list with one of support, partial_support, not_support" in str(caught.value)


@pytest.mark.parametrize(
    ("returned", "reason"), [(None, "the judge gave no labels"), ([1], "gave 1 label for 2 nuggets")]
)
def test_without_a_label_for_each_a_question_is_unscored(loop, returned, reason):
    with pytest.raises(Unscored, match=reason):
        _own(loop, returned)


def test_a_judge_without_the_method_is_an_error(loop: BackgroundEventLoop) -> None:
    judge = adapt_judge(SimpleNamespace(compare=print), loop)
    with pytest.raises(CallableError) as caught:
        loop.run(judge.ask(SUPPORT, "Q?", ["a"], "T"))
    assert str(caught.value).startswith(
        "rageval_judge lacks the method support(question, nuggets, passage), which the scores nuggets.* and "
        "answer.nuggets need.\n"
    )


@pytest.mark.parametrize(
    "reply",
    [
        '[{"text": "a  b", "vital": true}, {"text": "c", "vital": false}]',
        '```json\n[{"text": "a b", "vital": true}, {"text": "c", "vital": false}]\n```',
        '{"nuggets": [{"text": "a b", "vital": true}, {"text": "c", "vital": false}]}',
        """[{"text": "a b", "vital": true}, "d", {"text": "e"}, {"text": " ", "vital": true},
        {"text": "c", "vital": false}, {"text": "a b", "vital": false}]""",
    ],
)
def test_proposed_nuggets_are_read(reply: str) -> None:
    assert parse_nuggets(reply) == (Nugget("a b"), Nugget("c", vital=False))


@pytest.mark.parametrize("reply", ["", "[]", "a, b", '["a"]', '{"text": "a", "vital": true}'])
def test_a_reply_without_nuggets(reply: str) -> None:
    with pytest.raises(Unscored, match="the judge's reply is not a list of nuggets"):
        parse_nuggets(reply)


def test_nuggets_are_asked_for_once() -> None:
    gateway = ScriptedGateway('[{"text": "5 km", "vital": true}]')
    assert asyncio.run(_judge(gateway).ask(NUGGETS, "How far?", ["It is 5 km."])) == (Nugget("5 km"),)
    (request,) = gateway.requests
    assert request.messages[0]["content"] == DEFAULT_PROMPTS.fill("nuggets", "How far?", ["It is 5 km."])
