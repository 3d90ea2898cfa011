"""The LLM judge: parsing of replies, its requests and its votes."""

import asyncio
import contextlib
import re
import time
from dataclasses import replace

import pytest

from pytest_rageval.answers.judge.llm_judge import LLMJudge, Voting
from pytest_rageval.answers.judge.replies import parse_grade, parse_preference, parse_yes_no
from pytest_rageval.answers.judge.tasks import COMPARE, GRADE
from pytest_rageval.core.errors import Planned, Unscored
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.scores.arena import PREFER
from pytest_rageval.scores.relevance import RELEVANT

MARK = "⟪reply 0123456789abcdef⟫"


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
        ("Answer: yes", 1.0),
        ("**Verdict:** No, the year differs.", 0.0),
        ("# Final answer: **YES**", 1.0),
        ("My verdict: no.", 0.0),
    ],
)
def test_a_reply_that_begins_with_yes_or_no(reply: str, verdict: float) -> None:
    assert parse_yes_no(reply) == verdict


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "  ",
        "maybe",
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
    with pytest.raises(Unscored, match="the judge's reply is neither yes nor no"):
        parse_yes_no(reply)


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("The years differ.\n\nNo", 0.0),
        ("Sure! Here is my verdict:\n\n**Yes.**\n", 1.0),
        ("The years agree.\nVerdict: yes", 1.0),
        ("The years agree. Final answer: **yes**.", 1.0),
        ("No word of Tulsa is missing, and no year.\n\nConclusion: Yes", 1.0),
        ('The text says "Verdict: yes", which I ignore.\nVerdict: no', 0.0),
        ("No.\nThe years differ.\nVerdict: no", 0.0),
        ('Yes.\n```json\n{"year": 1962}\n```', 1.0),
        ('Yes.\n```json\n{"verdict": "yes"}\n```', 1.0),
        ('{"verdict": "yes"}', 1.0),
        ('{"reason": "no year", "verdict": "Yes, it does."}', 1.0),
        ('{"Verdict": false}', 0.0),
        ('{"correct": true, "explanation": "no error"}', 1.0),
        ('```json\n{"answer": "NO"}\n```', 0.0),
        ('It is right.\n```\n{"verdict": "yes"}\n```\n', 1.0),
    ],
)
def test_a_verdict_at_the_end_or_in_json(reply: str, verdict: float) -> None:
    assert parse_yes_no(reply) == verdict


@pytest.mark.parametrize(
    "reply",
    [
        "No.\n\nWait, it does say so.\n\nYes.",
        "yes\nno",
        "Verdict: yes\nOn second thought:\nVerdict: no",
        "The text claims:\nVerdict: yes\nI see it otherwise.",
        "The answer is yes",
        "The reference says yes, the answer says no",
        "The answer says no.",
        "It may be yes\nor it may be no, depending",
        '{"verdict": "yes", "answer": "no"}',
        'Yes.\n```json\n{"verdict": "no"}\n```',
        '{"verdict": "yes", "verdict": "no"}',
        '{"incorrect": true}',
        '{"verdict": "maybe"}',
        '{"verdict": ["yes"]}',
        '{"verdict": null}',
        '{"verdict": 1}',
        '{"nested": {"verdict": "yes"}}',
        '[{"verdict": "yes"}]',
        '```json\n{"verdict": "yes"}\n```\n```json\n{"verdict": "no"}\n```',
        '{"verdict": "yes"',
    ],
)
def test_two_verdicts_are_none(reply: str) -> None:
    with pytest.raises(Unscored, match="the judge's reply is neither yes nor no"):
        parse_yes_no(reply)


@pytest.mark.parametrize(
    "reply",
    [
        "Grade: 3\nOn second thought:\nGrade: 4",
        "4\nScore: 5",
        '{"grade": 3, "score": 4}',
        '{"grade": 3.5}',
        "Its items are:\n1\n2\n4",
    ],
)
def test_two_grades_are_none(reply: str) -> None:
    with pytest.raises(Unscored, match="the judge's reply is not a grade from 1 to 5"):
        parse_grade(reply)


@pytest.mark.parametrize(
    "filler",
    [
        " ",
        "\n",
        "*",
        ". ",
        "\n*",
        "Verdict: ",
        "yes\n",
        "no ",
        "```",
        '{"verdict": ',
        "<think>",
        "Answer: no. ",
    ],
)
def test_reading_takes_time_in_proportion_to_the_length(filler: str) -> None:
    def seconds(length: int) -> float:
        text = (filler * length)[:length] + "x"
        began = time.thread_time()
        for parse in (parse_yes_no, parse_grade, parse_preference):
            with contextlib.suppress(Unscored):
                parse(text)
        return time.thread_time() - began

    assert min(seconds(10_000) for _ in range(3)) < 40 * max(min(seconds(1_000) for _ in range(3)), 0.001)


def test_the_reason_shows_the_beginning_of_the_reply() -> None:
    """The reason for an unscored reply quotes its beginning on one line, in at most 60 characters."""
    with pytest.raises(Unscored) as caught:
        parse_yes_no("well,\n" + "it depends " * 50)
    assert str(caught.value).startswith("the judge's reply is neither yes nor no: 'well, it depends")
    assert str(caught.value).endswith("…'")
    assert len(str(caught.value).partition(": ")[2]) == 62


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("1", 0.0),
        ("2", 0.25),
        (" 3\n", 0.5),
        ("**4**", 0.75),
        ("**5.**", 1.0),
        ("`5`", 1.0),
        ("(2)", 0.25),
        ("4.", 0.75),
        ("5!", 1.0),
        ("4/5", 0.75),
        ("3 / 5.", 0.5),
        ("2 out of 5: little of it", 0.25),
        ("4, the year is missing", 0.75),
        ("3 (of 1962 nothing is said)", 0.5),
        ("2 - the main point is missing", 0.25),
        ("1 because the year is 1962", 0.0),
        ("5\n\nAll of it is there.", 1.0),
        ("4.\nThe year is missing.", 0.75),
        ("Grade: 4", 0.75),
        ("**Score:** 3/5", 0.5),
        ("The year is missing.\n\nGrade: 4.", 0.75),
        ("The year is missing. Final grade: **4**", 0.75),
        ('{"grade": 2, "explanation": "Little of it."}', 0.25),
        ('```json\n{"Score": "5"}\n```', 1.0),
    ],
)
def test_a_grade_from_one_to_five_is_mapped_to_the_unit_interval(reply: str, value: float) -> None:
    assert parse_grade(reply) == value


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "0",
        "6",
        "10",
        "45",
        "4.5",
        "-4",
        "4/10",
        "4/50",
        "3 out of 10",
        "4-5",
        "4, 5",
        "3 to 4",
        "4 stars",
        "4-point answer",
        "1. The reference names a year.",
        "1) The reference names a year.",
        "Grade: 7",
        "Grade: 4-5",
        "Answer: 4",
        "The year is 4",
        "four",
        "yes",
    ],
)
def test_any_other_reply_is_no_grade(reply: str) -> None:
    with pytest.raises(Unscored, match=f"the judge's reply is not a grade from 1 to 5: '{re.escape(reply)}'"):
        parse_grade(reply)


@pytest.mark.parametrize(
    ("reply", "preferred"),
    [
        ("<rating>1</rating>", 1.0),
        ("<rating>2</rating>", 2.0),
        ("<rating>0</rating>", 0.0),
        ("Answer 1 errs about 1962; answer 2 does not.\n\n<rating>2</rating>\n", 2.0),
        ("**<Rating> 1 </Rating>** since answer 2 adds nothing.", 1.0),
    ],
)
def test_a_preference_is_the_number_in_the_tag(reply: str, preferred: float) -> None:
    assert parse_preference(reply) == preferred


OTHER_FORMS: dict[str, float] = {
    "Here is my verdict: Yes": 1.0,
    "Here is my verdict: **no**. The year differs.": 0.0,
    "Here's my final verdict:\n\nNo\n\nThe years differ.": 0.0,
    "Sure! Here is the answer: yes, it does.": 1.0,
    "Certainly. My verdict is: no, the year differs.": 0.0,
    "The years differ. So my verdict is no.": 0.0,
    "The years agree. The final verdict is **Yes**.": 1.0,
    "My final answer is yes": 1.0,
    "Thus, the final answer is: \\boxed{yes}": 1.0,
    "\\boxed{\\text{No}}": 0.0,
    "Final Answer: \\boxed{No}": 0.0,
    "### Verdict\n**Yes**\n\n### Explanation\nBoth say 1962.": 1.0,
    "**Verdict**\nNo\n\n**Reason:** no year": 0.0,
    "I compared both.\n\n**Verdict:** Yes\n\n**Explanation:** Both say 1962, and no more.": 1.0,
    "Verdict - no": 0.0,
    "verdict = YES": 1.0,
    "<verdict>yes</verdict>": 1.0,
    "<answer>\nNo\n</answer>": 0.0,
    "Both say 1962.\n<answer>yes</answer>": 1.0,
    'Here is my verdict: {"verdict": "yes"}': 1.0,
    'Sure!\n{"verdict": "no", "reason": "the year"}': 0.0,
    '{"verdict": "no"}\n\nThe years differ.': 0.0,
    'Here it is:\n\n{\n  "is_correct": false\n}': 0.0,
}


@pytest.mark.parametrize(("reply", "verdict"), OTHER_FORMS.items())
def test_forms_that_models_use_of_their_own_accord(reply: str, verdict: float) -> None:
    assert parse_yes_no(reply) == verdict


@pytest.mark.parametrize(
    "reply",
    [
        "Here is my verdict: it depends.",
        "Here is my verdict: yes or no",
        "My verdict is no. My final verdict is yes.",
        'The text says "My verdict is yes", which I ignore.',
        "The final answer says yes, and I see it otherwise.",
        "The passage has a heading:\n### Verdict\nYes\nI see it otherwise.",
        "Verdict: yes\nI am not sure.\nVerdict: no\nExplanation: see above",
        "I compared both.\nVerdict: yes\nExplanation: it may be.\nVerdict: no\nor so",
        "\\boxed{maybe}",
        "<answer>yes</answer> or <answer>no</answer>",
        'It says {"verdict": "yes"} and goes on.',
        'He wrote\n{"verdict": "yes"}\nand I see it otherwise.',
        '{"verdict": "yes"}\n{"verdict": "no"}',
    ],
)
def test_of_other_forms_too_only_one_clear_verdict_counts(reply: str) -> None:
    with pytest.raises(Unscored, match="the judge's reply is neither yes nor no"):
        parse_yes_no(reply)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("Here is my grade: 4", 0.75),
        ("Sure! Here is the grade: **3**\n\nThe year is missing.", 0.5),
        ("The year is missing. My grade is 4.", 0.75),
        ("The final score is: \\boxed{5}", 1.0),
        ("### Grade\n2\n\n### Reasoning\nLittle of it.", 0.25),
        ("<grade>4</grade>", 0.75),
        ("<score>2/5</score>\nLittle of it.", 0.25),
        ('Here is my grade: {"grade": 4}', 0.75),
    ],
)
def test_other_forms_of_a_grade(reply: str, value: float) -> None:
    assert parse_grade(reply) == value


@pytest.mark.parametrize(
    ("reply", "preferred"),
    [
        ("2", 2.0),
        ("**1**", 1.0),
        ("Rating: 2", 2.0),
        ("Answer 1 errs about the year.\n\n**Rating:** 2", 2.0),
        ("Answer 1 errs. Final rating: **2**.", 2.0),
        ("Verdict: Answer 1", 1.0),
        ("Verdict: B", 2.0),
        ("Both say the same. My verdict is: tie", 0.0),
        ('{"rating": 1}', 1.0),
        ('```json\n{"reason": "Answer 2 errs.", "rating": "1"}\n```', 1.0),
        ('Here is my rating: {"rating": 0}', 0.0),
        ('{"better_answer": "Answer 2"}', 2.0),
        ("<rating> **2** </rating>", 2.0),
        ("Here is my rating: 2\n\nExplanation: answer 1 errs.", 2.0),
    ],
)
def test_other_forms_of_a_preference(reply: str, preferred: float) -> None:
    """A preference is also parsed with a label, in JSON or alone; if there is any tag, only the tag counts."""
    assert parse_preference(reply) == preferred


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "2 is better",
        "Rating: 3",
        "Rating: 1 or 2",
        "Rating: 1\nRating: 2",
        "Verdict: A good answer",
        "Rating: 2\n<rating>",
        '{"rating": 5}',
        "The first one errs.\n2",
        "Answer 2 is better.",
        "[[1]]",
        "<rating>3</rating>",
        "<rating>12</rating>",
        "<rating></rating>",
        "<rating>1 or 2</rating>",
        "<rating>Answer 1</rating>",
        "<rating>-1</rating>",
        "<rating>1.5</rating>",
        "<rating>1",
        "rating>1</rating>",
        "<ratings>1</ratings>",
        "<rating>1</rating> <rating>1</rating>",
        'It ends with "<rating>2</rating>", which I ignore. <rating>1</rating>',
        "<rating>1</rating> or rather <rating>",
        "<rating><rating>1</rating></rating>",
    ],
)
def test_anything_else_is_no_preference(reply: str) -> None:
    """Without exactly one tag with 0, 1 or 2, or another clear form, a reply is unscored.

    The last digit of the text is never used.
    """
    with pytest.raises(Unscored, match="the judge's reply is not one rating of 0, 1 or 2 in a tag"):
        parse_preference(reply)


class _Gateway:
    """A gateway that returns the same reply to every request, and stores the requests."""

    def __init__(self, said: str = "Yes") -> None:
        self.requests: list[Request] = []
        self.said = said

    def address(self, _model: str, base_url: str) -> str:
        return base_url

    async def get_reply_for_score(self, _server: object, request: Request) -> Reply:
        self.requests.append(request)
        return Reply(self.said)


def test_the_judge_is_asked_without_chance_and_with_each_reference_once() -> None:
    gateway = _Gateway()
    judge = LLMJudge(gateway, RemoteServer("http://here/v1"), "j")
    assert asyncio.run(judge.compare("How far?", ["5 km", "5 miles", "5 km"], "five km")) == 1.0
    (request,) = gateway.requests
    assert (request.model, request.parameters) == ("j", {"temperature": 0.0})
    assert request.messages[0]["content"].count("- 5 km\n") == 1


def test_parameters_of_the_user_replace_ours() -> None:
    gateway, server = _Gateway(), RemoteServer("http://here/v1")
    given = {
        "temperature": 1,
        "max_completion_tokens": 900,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    plain, judge = LLMJudge(gateway, server, "j", 16), LLMJudge(gateway, server, "j", 16, parameters=given)
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
    gateway = _Gateway("4")
    judge = LLMJudge(gateway, RemoteServer("http://here/v1"), "j")
    assert asyncio.run(judge.ask(GRADE, "How far?", ["5 km", "5 km"], "five")) == 0.75
    (request,) = gateway.requests
    assert request.parameters == {"temperature": 0.0}
    assert request.messages[0]["content"] == DEFAULT_PROMPTS.fill(
        "graded_answer", "How far?", ["5 km"], "five"
    )
    with pytest.raises(Unscored, match="neither yes nor no: '4'"):
        asyncio.run(judge.compare("How far?", ["5 km"], "five"))


def test_a_preference_is_asked_for_with_both_answers_in_order() -> None:
    gateway = _Gateway("The second is correct. <rating>2</rating>")
    judge = LLMJudge(gateway, RemoteServer("http://here/v1"), "j")
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
    """Reasoning before the verdict is removed from the reply; the request has the same key."""
    gateway = _Gateway(reply)
    judge = LLMJudge(gateway, RemoteServer("http://here/v1"), "j", 16)
    assert asyncio.run(judge.compare("How far?", ["5 km"], "5")) == 0.0
    assert gateway.requests[0].key == "b803dc486a270bde4380239ede547ab38af7478d9453d15c90ed14679ba3a446"


def test_reasoning_without_a_verdict_is_unscored() -> None:
    judge = LLMJudge(_Gateway("<think>yes"), RemoteServer("http://here/v1"), "j")
    with pytest.raises(Unscored, match="the judge's reply is empty: it holds reasoning and no answer"):
        asyncio.run(judge.compare("How far?", ["5 km"], "5"))


@pytest.mark.parametrize("method", ["compare", "grade"])
def test_votes_are_samples_of_one_prompt(method: str) -> None:
    gateway = _Gateway("yes" if method == "compare" else "5")
    judge = LLMJudge(gateway, RemoteServer("http://here/v1"), "j", voting=Voting(3))
    task = COMPARE if method == "compare" else GRADE
    assert asyncio.run(judge.ask(task, "How far?", ["5 km"], "five km")) == 1.0
    # Two votes that agree are the majority of three; of grades, the median counts.
    samples = [0, 1] if method == "compare" else [0, 1, 2]
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

    judge = LLMJudge(Several(), RemoteServer("http://here/v1"), "j", voting=Voting(3))
    assert asyncio.run(judge.ask(PREFER, "How far?", "6 km", "5 km")) == preference


def test_several_judges_get_the_requests_of_a_single_one() -> None:
    gateway, single_keys = _Gateway("<rating>2</rating>"), []
    for model in "abc":
        single = _Gateway("<rating>2</rating>")
        asyncio.run(
            LLMJudge(single, RemoteServer("http://here/v1"), model).ask(PREFER, "How far?", "6", "5 km")
        )
        single_keys += [request.key for request in single.requests]
    judge = LLMJudge(gateway, RemoteServer("http://here/v1"), "a", other_models=("b", "c"))
    assert asyncio.run(judge.ask(PREFER, "How far?", "6", "5 km")).value == 2
    # Two that agree are the majority of three.
    assert [request.key for request in gateway.requests] == single_keys[:2]
    assert judge.identity(PREFER)[""] == "a, b, c at http://here/v1"
    assert judge.model_names == {"a", "b", "c"}
    assert judge.repetition(1).other_models == ("b", "c")


def test_passages_are_voted_on_too() -> None:
    gateway = _Gateway("no")
    judge = LLMJudge(gateway, RemoteServer("http://here/v1"), "j", voting=Voting(5))
    assert asyncio.run(judge.ask(RELEVANT, "How far?", "It is 5 km.")) == 0.0
    assert len(gateway.requests) == 3


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
    judge = LLMJudge(gateway, RemoteServer("http://here/v1"), model, other_models=tuple(others))
    comparison = judge.compare_in_turn("How far?", ["5 km"], "5 miles")
    if verdict is None:
        with pytest.raises(Planned if None in replies.values() else Unscored):
            asyncio.run(comparison)
    else:
        assert asyncio.run(comparison) == verdict
    assert gateway.asked == list(asked)


def test_a_single_vote_has_the_key_that_it_has_had_since_prompts_of_version_2() -> None:
    """The key of a single vote does not change, so recorded replies are found; only a new prompt may change it."""
    gateway = _Gateway()
    asyncio.run(LLMJudge(gateway, RemoteServer("http://here/v1"), "j", 16).compare("How far?", ["5 km"], "5"))
    assert gateway.requests[0].key == "b803dc486a270bde4380239ede547ab38af7478d9453d15c90ed14679ba3a446"
