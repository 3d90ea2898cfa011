"""A model as judge."""

import asyncio

import pytest

from pytest_rageval.answers.judge import LLMJudge, parse_yes_no
from pytest_rageval.errors import Unscored
from pytest_rageval.llm.reply import Reply
from pytest_rageval.llm.request import Request
from pytest_rageval.llm.servers import RemoteServer


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("yes", 1.0),
        ("no", 0.0),
        (" YES\n", 1.0),
        ("No.", 0.0),
        ("Yes!", 1.0),
        ("**Yes.**", 1.0),
        ("`no`", 0.0),
        ('"Yes"', 1.0),
        ("(no)", 0.0),
        ("Yes, it names the same year.", 1.0),
        ("No, though yes would be fair.", 0.0),
        ("no - the year differs", 0.0),
        ("Yes. The year\nmatches.", 1.0),
        ("No: 1962", 0.0),
        ("Yes\n\nThe answers agree.", 1.0),
    ],
)
def test_a_reply_that_begins_with_yes_or_no(reply: str, verdict: float) -> None:
    """The first word is the verdict, whatever is around and behind it."""
    assert parse_yes_no(reply) == verdict


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "  ",
        "maybe",
        "Answer: yes",
        "I think yes",
        "The answer is no",
        "yesterday",
        "nothing",
        "not right",
        "No-one knows",
        "yes/no",
        "1",
        "да",
    ],
)
def test_any_other_reply_is_no_verdict(reply: str) -> None:
    """A verdict is never looked for in the middle."""
    with pytest.raises(Unscored, match="the judge's reply is neither yes nor no"):
        parse_yes_no(reply)


def test_the_reason_shows_the_beginning_of_the_reply() -> None:
    """On one line, of at most sixty characters."""
    with pytest.raises(Unscored) as caught:
        parse_yes_no("well,\n" + "it depends " * 50)
    assert str(caught.value).startswith("the judge's reply is neither yes nor no: 'well, it depends")
    assert str(caught.value).endswith("…'")
    assert len(str(caught.value).partition(": ")[2]) == 62


class _Door:
    """Says yes, and notes what was asked."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def ask(self, _server: object, request: Request) -> Reply:
        self.requests.append(request)
        return Reply("Yes")


def test_the_judge_is_asked_without_chance_and_with_each_reference_once() -> None:
    """Temperature 0; repeated samples of one answer add nothing to the prompt."""
    door = _Door()
    judge = LLMJudge(door, RemoteServer("http://here/v1"), "j")
    assert asyncio.run(judge.compare("How far?", ["5 km", "5 miles", "5 km"], "five km")) == 1.0
    (request,) = door.requests
    assert (request.model, request.parameters) == ("j", {"temperature": 0.0})
    assert request.messages[0]["content"].count("- 5 km\n") == 1
