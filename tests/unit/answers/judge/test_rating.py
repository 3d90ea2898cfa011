"""Ratings: a grade from 1 to 5 with an explanation."""

import asyncio
import json

import pytest

from pytest_rageval.answers.judge import Verdict
from pytest_rageval.answers.judge.llm_judge import MAX_QUOTED_LENGTH
from pytest_rageval.answers.judge.replies import RATING_FORMAT, parse_rating
from pytest_rageval.core.errors import Unscored
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS, repair_prompt
from pytest_rageval.models.prompts import CRITERIA, RATING_INSTRUCTION
from pytest_rageval.scores.judged import RATE
from pytest_rageval.scores.sufficiency import ENOUGH
from tests.unit.answers.judge.scripted import ScriptedGateway, llm_judge


def said(grade: object, explanation: object = "So it is.") -> str:
    return json.dumps({"explanation": explanation, "grade": grade})


@pytest.mark.parametrize(
    "reply",
    [said(4, "The year\nis missing."), f"\n{said(4, ' The year is missing. ')} "],
)
def test_a_reply_that_is_a_json_object_is_a_rating(reply: str) -> None:
    assert parse_rating(reply) == (4.0, "The year is missing.")


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("4", "it is not a JSON object"),
        ("Grade: 4", "it is not a JSON object"),
        (f"{said(4)} {said(5)}", "it is not a JSON object"),
        (said(4)[:-3], "it is not a JSON object"),
        ("[" * 100_000, "it is not a JSON object"),
        (f"```json\n{said(4)}\n```\n```json\n{said(5)}\n```", "it is not a JSON object"),
        ('{"grade": 4, "grade": 5, "explanation": "Good."}', "it is not a JSON object"),
        (f"[{said(4)}]", "it is not a JSON object"),
        (said(0), '"grade" is 0, and not a whole number from 1 to 5'),
        (said(6), '"grade" is 6, and not a whole number from 1 to 5'),
        (said(4.5), '"grade" is 4.5, and not a whole number from 1 to 5'),
        (said("4.5"), '"grade" is "4.5", and not a whole number from 1 to 5'),
        (
            '{"grade": 7, "score": 4, "explanation": "Good."}',
            '"grade" is 7, and not a whole number from 1 to 5',
        ),
        ('{"grade": 5, "score": 4, "explanation": "Good."}', "it has different grades"),
        (f"Grade: 3\n{said(4)}", "it has different grades"),
        (said(grade=True), '"grade" is true, and not a whole number from 1 to 5'),
        ('{"explanation": "Good."}', '"grade" is null, and not a whole number from 1 to 5'),
        (said(4, " "), '"explanation" is not a text'),
        (said(4, ["Good."]), '"explanation" is not a text'),
        ('{"grade": 4}', '"explanation" is not a text'),
    ],
)
def test_any_other_reply_is_not_a_verdict(reply: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole text is compared
        parse_rating(reply)
    assert str(caught.value) == why


def _rate(gateway: ScriptedGateway, votes: int = 1) -> Verdict:
    return asyncio.run(
        llm_judge(gateway, 100, votes=votes).ask(RATE["correctness"], "How far?", ["five"], ["5 km"])
    )


def test_a_rating_is_asked_for_in_its_form() -> None:
    gateway = ScriptedGateway(said(4))
    assert _rate(gateway) == (4.0, "So it is.")
    (request,) = gateway.requests
    assert request.messages[0]["content"] == DEFAULT_PROMPTS.fill(
        "correctness", "How far?", ["five"], ["5 km"]
    )
    assert request.parameters == {"temperature": 0.0, "max_tokens": 100, "response_format": RATING_FORMAT}
    schema = RATING_FORMAT["json_schema"]["schema"]
    assert list(schema["properties"]) == ["explanation", "grade"] == schema["required"]


def test_a_reply_that_is_none_is_repaired_once() -> None:
    """If a reply is invalid, a second request has that reply and the reason; its cache key is another one."""
    gateway = ScriptedGateway("4, say", said(4))
    assert _rate(gateway).value == 4
    first, second = gateway.requests
    assert second.messages == (
        *first.messages,
        {"role": "assistant", "content": "4, say"},
        {"role": "user", "content": repair_prompt("it is not a JSON object", RATING_INSTRUCTION)},
    )
    assert second.parameters == first.parameters
    assert second.key != first.key


def test_a_reply_without_end_is_not_repeated_whole() -> None:
    gateway = ScriptedGateway("no" * MAX_QUOTED_LENGTH, said(4))
    _rate(gateway)
    assert len(gateway.requests[1].messages[1]["content"]) == MAX_QUOTED_LENGTH


def test_after_one_repair_there_is_no_rating() -> None:
    gateway = ScriptedGateway("4", said(9), said(5))
    with pytest.raises(Unscored) as caught:
        _rate(gateway)
    assert str(caught.value) == (
        'the judge\'s reply is not a rating in the second attempt either ("grade" is 9, and not a whole number '
        "from 1 to 5): "
        '\'{"explanation": "So it is.", "grade": 9}\''
    )
    assert len(gateway.requests) == 2


def test_silence_is_not_repaired() -> None:
    gateway = ScriptedGateway(" ")
    with pytest.raises(Unscored, match="the judge's reply is empty"):
        _rate(gateway)
    assert len(gateway.requests) == 1


@pytest.mark.parametrize(
    ("replies", "rating"),
    [
        ((said(2, "Bad."), said(5, "Good."), said(4, "Fair.")), (4.0, "Fair.")),
        # One vote is lost: the median is between the other two, and the first of these explains it.
        ((said(2, "Bad."), said(5, "Good."), "?", "?"), (3.5, "Bad.")),
    ],
)
def test_the_median_of_several_votes_counts(replies: tuple[str, ...], rating: Verdict) -> None:
    assert _rate(ScriptedGateway(*replies), votes=3) == rating


def test_of_several_votes_on_a_context_the_first_of_most_gives_the_reasons() -> None:
    """The explanation is that of the first vote of the majority: the minority would contradict the verdict."""
    judge = llm_judge(
        ScriptedGateway("All is there.\nVerdict: yes", "A year.\nVerdict: no", "A date.\nVerdict: no"),
        votes=3,
    )
    assert asyncio.run(judge.ask(ENOUGH, "When?", ["it was early"])) == (0.0, "A year.")


@pytest.mark.parametrize("criterion", CRITERIA)
def test_each_criterion_has_its_prompt_and_its_identity(criterion: str) -> None:
    prompt = DEFAULT_PROMPTS.fill(criterion, "How {far}?", ["five {answer}"], ["5 km"])
    assert "Question: How {far}?\n" in prompt
    assert prompt.index("5 km") != prompt.index("five {answer}")
    assert [line[0] for line in prompt.splitlines() if line[1:3] == ": "] == ["5", "4", "3", "2", "1"]
    identity = llm_judge(ScriptedGateway()).identity(RATE[criterion])
    assert f"prompt to rate {criterion}" in identity
    others = [
        llm_judge(ScriptedGateway()).identity(RATE[other]).values()
        for other in CRITERIA
        if other != criterion
    ]
    assert all(list(identity.values()) != list(other) for other in others)
