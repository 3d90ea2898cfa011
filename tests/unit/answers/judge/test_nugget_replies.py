"""Nuggets that a text supports, labelled by a model or the user's judge; and nuggets that a model proposes."""

import asyncio

import pytest

from pytest_rageval.answers.judge import collect_tallies
from pytest_rageval.core.errors import Unscored
from pytest_rageval.core.evalset import Nugget
from pytest_rageval.core.outcome import Tally
from pytest_rageval.extensions.evalset_tools.generate import NUGGETS
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS
from pytest_rageval.scores.nuggets import SUPPORT
from tests.unit.answers.judge.scripted import ScriptedGateway, llm_judge

YES, PART, NO = 1.0, 0.5, 0.0


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
        asyncio.run(llm_judge(ScriptedGateway(reply)).ask(SUPPORT, "Q?", ["a", "b"], "T"))


def test_all_nuggets_are_labelled_in_one_request() -> None:
    gateway = ScriptedGateway('["support", "not_support"]')
    labels = asyncio.run(llm_judge(gateway, 100).ask(SUPPORT, "How far?", ["5 km", "by bus"], "It is 5 km."))
    assert labels == (YES, NO)
    (request,) = gateway.requests
    assert request.messages[0]["content"] == DEFAULT_PROMPTS.fill(
        "nugget_support", "How far?", ["5 km", "by bus"], "It is 5 km."
    )
    assert request.parameters == {"temperature": 0.0, "max_tokens": 100}


def test_the_median_of_several_votes_counts_for_each_nugget() -> None:
    """The labels count as one verdict; here the votes were split, and one is lost."""
    replies = ('["support", "not_support"]', '["support", "support"]', '["not_support", "partial_support"]')
    judging = llm_judge(ScriptedGateway(*replies), votes=3).ask(SUPPORT, "Q?", ["a", "b"], "T")
    assert asyncio.run(collect_tallies(judging)) == ((YES, PART), Tally(1, 1, 3, 3))
    lost = llm_judge(ScriptedGateway(*replies[:2], "?"), votes=3).ask(SUPPORT, "Q?", ["a", "b"], "T")
    assert asyncio.run(collect_tallies(lost)) == ((YES, NO), Tally(1, 1, 2, 1, 1))


def test_nuggets_are_asked_for_once() -> None:
    gateway = ScriptedGateway('[{"text": "5 km", "vital": true}]')
    assert asyncio.run(llm_judge(gateway, 100).ask(NUGGETS, "How far?", ["It is 5 km."])) == (Nugget("5 km"),)
    (request,) = gateway.requests
    assert request.messages[0]["content"] == DEFAULT_PROMPTS.fill("nuggets", "How far?", ["It is 5 km."])
