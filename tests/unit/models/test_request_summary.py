"""Request summaries: the parts of a request, and what changed since it was recorded."""

import json
from dataclasses import replace
from typing import Any

import pytest

from pytest_rageval.models.messages import Request
from pytest_rageval.models.summaries import describe_differences, find_nearest, request_summary

SECRET = "The launch code is 0000."
ASKED = Request(
    "http://here/v1",
    "m1",
    ({"role": "user", "content": f"Which code? {SECRET}"},),
    {"temperature": 0.5, "max_tokens": 16},
    parts={"question": "Which code?", "passage 1": SECRET, "passage 2": "Other.", "prompt": "p1"},
)


def _with(part: str, text: str) -> Request:
    return replace(ASKED, parts={**ASKED.parts, part: text})


def test_an_outline_names_what_a_request_is_made_of() -> None:
    outline = request_summary(ASKED)
    assert outline["base_url"] == "http://here/v1"
    assert outline["model"] == "m1"
    assert outline["parameters"] == {"max_tokens": 16, "temperature": 0.5}
    assert outline["sample"] == 0
    assert list(outline["parts"]) == list(ASKED.parts)
    assert all(len(part) == 12 for part in outline["parts"].values())
    assert len(set(outline["parts"].values())) == 4


def test_no_text_of_a_prompt_is_in_an_outline() -> None:
    assert SECRET not in json.dumps(request_summary(ASKED))
    bare = replace(ASKED, parts={})
    assert SECRET not in json.dumps(request_summary(bare))
    assert request_summary(bare, prompts=True)["messages"] == [dict(message) for message in ASKED.messages]


def test_an_outline_is_json() -> None:
    outline = request_summary(replace(ASKED, parameters={"stop": ["\ud83d"], "n": None}), prompts=True)
    assert json.loads(json.dumps(outline)) == outline


def test_a_long_parameter_is_a_hash() -> None:
    schemas = [{"type": "json_schema", "json_schema": {"name": "a" * 50, "n": n}} for n in (1, 2)]
    one, other = (
        request_summary(replace(ASKED, parameters={"response_format": schema})) for schema in schemas
    )
    assert one["parameters"]["response_format"].startswith("sha256:")
    assert one["parameters"] != other["parameters"]


def test_without_parts_the_messages_are_the_parts() -> None:
    messages = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"})
    outline = request_summary(replace(ASKED, messages=messages, parts={}))
    assert list(outline["parts"]) == ["message 1 (system)", "message 2 (user)"]


def test_the_same_request_has_no_difference() -> None:
    same = replace(ASKED, parameters=dict(reversed(ASKED.parameters.items())))
    assert describe_differences(request_summary(same), request_summary(ASKED)) == []


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (replace(ASKED, model="m2"), ["model: m1, now m2"]),
        (replace(ASKED, base_url="http://there/v1"), ["base_url: http://here/v1, now http://there/v1"]),
        (replace(ASKED, sample=3), ["sample: 0, now 3"]),
        (
            replace(ASKED, parameters={"temperature": 0.6, "seed": 1}),
            ["temperature: 0.5, now 0.6", "seed: not given, now 1", "max_tokens: 16, now not given"],
        ),
        (_with("question", "Which code"), ["question (other text)"]),
        (_with("passage 3", "More."), ["passage 3 (new)"]),
        (
            replace(ASKED, parts={name: ASKED.parts[name] for name in ("question", "passage 1", "prompt")}),
            ["passage 2 (gone)"],
        ),
    ],
)
def test_a_difference_says_what_changed(now: Request, expected: list[str]) -> None:
    assert sorted(describe_differences(request_summary(now), request_summary(ASKED))) == sorted(expected)


def test_the_nearest_is_that_with_the_same_question() -> None:
    other_question = request_summary(_with("question", "Which day?"))
    other_passages = request_summary(
        replace(ASKED, parts={**ASKED.parts, "passage 1": "A.", "passage 2": "B."}, model="m2")
    )
    recorded = [other_question, other_passages]
    assert find_nearest(request_summary(ASKED), recorded) is other_passages
    assert find_nearest(request_summary(ASKED), recorded[::-1]) is other_passages


def test_of_two_near_ones_the_one_with_less_that_is_different() -> None:
    more = request_summary(_with("passage 3", "More."))
    same = request_summary(replace(ASKED, parts={**ASKED.parts}))
    assert find_nearest(request_summary(ASKED), [more, same]) is same


def test_nothing_is_near_without_a_common_part() -> None:
    stranger = request_summary(replace(ASKED, parts={"question": "Who?", "passage 1": "Nobody."}))
    assert find_nearest(request_summary(ASKED), [stranger]) is None
    assert find_nearest(request_summary(ASKED), []) is None


@pytest.mark.parametrize(
    "odd", [{}, {"parts": 7}, {"parts": {"question": {}}}, {"parameters": None, "model": []}, {"later": 1}]
)
def test_an_outline_of_another_version_does_no_harm(odd: dict[str, Any]) -> None:
    assert find_nearest(request_summary(ASKED), [odd]) is None
    assert (
        "model: not given, now m1" in describe_differences(request_summary(ASKED), odd)
        or odd.get("model") == []
    )
