"""Replies: their form as text, and their answer without the reasoning."""

import json
from typing import Any

import pytest

from pytest_rageval.models.messages import Reply, empty_reason, without_reasoning

REPLY = Reply("c7 – „ja“\n", "m-2024", "length", 12, 3)


def test_a_reply_and_its_readable_line_are_inverse() -> None:
    assert REPLY.dumps() == (
        '{"finish_reason": "length", "model": "m-2024", "text": "c7 – „ja“\\n", "tokens_in": 12, "tokens_out": 3}'
    )
    record = json.loads(REPLY.dumps())
    assert Reply.from_record(record) == Reply.from_record({**record, "cost": 1}) == REPLY


@pytest.mark.parametrize("name", ["text", "model", "finish_reason", "tokens_in", "tokens_out"])
def test_a_field_of_another_kind_or_a_missing_one_is_named(name: str) -> None:
    record = json.loads(REPLY.dumps())
    for value in (None, [], 1.5):
        with pytest.raises(ValueError, match=f"'{name}' is .*, expected (str|int)"):
            Reply.from_record(record | {name: value})
    del record[name]
    with pytest.raises(ValueError, match=f"'{name}' is None"):
        Reply.from_record(record)


@pytest.mark.parametrize(
    ("line", "expected_message"), [("[]", "found list"), ('"x"', "found str"), ("{", "Expecting")]
)
def test_anything_but_an_object_is_refused(line: str, expected_message: str) -> None:
    with pytest.raises(ValueError, match=expected_message):
        Reply.from_record(json.loads(line))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Tulsa", "Tulsa"),
        (" Tulsa\n", "Tulsa"),
        ("", ""),
        ("<think>It is Tulsa.</think>Tulsa", "Tulsa"),
        ("\n<think>\nIs it Rome?\n</think>\n\nTulsa\n", "Tulsa"),
        ("<THINKING>a</THINKING> Tulsa", "Tulsa"),
        ("<thought>a</thought>Tulsa", "Tulsa"),
        ('<reasoning effort="high" n="1">a</reasoning >Tulsa', "Tulsa"),
        ("[THINK]a[/THINK]Tulsa", "Tulsa"),
        ("<seed:think>a</seed:think>Tulsa", "Tulsa"),
        ("<think></think>Tulsa", "Tulsa"),
        ("<think>a</think>\n<think>b</think>Tulsa", "Tulsa"),
        ("<think>a <think>b</think> c</think> Tulsa", "Tulsa"),
        ("It is Tulsa, not Rome.\n</think>\n\nTulsa", "Tulsa"),
        ("◁think▷It is Tulsa.◁/think▷Tulsa", "Tulsa"),
        ("It is Tulsa.◁/think▷Tulsa", "Tulsa"),
        ("◁think▷It is", ""),
        (
            "<|channel|>analysis<|message|>Rome?<|end|><|start|>assistant<|channel|>final<|message|>Tulsa<|return|>",
            "Tulsa",
        ),
        ("<|start|>assistant<|channel|>final<|message|>Tulsa<|end|>", "Tulsa"),
        ("<|channel|>final <|constrain|>json<|message|>{}", "{}"),
        ("<|channel|>analysis<|message|>Is it Rome?<|end|>Tulsa", "Tulsa"),
        ("<|channel|>analysis<|message|>a<|end|><|channel|>commentary<|message|>b<|end|>", ""),
        ("<|channel|>analysis<|message|>Is it Rome?", ""),
        ("analysisWe need one word.assistantfinalTulsa", "Tulsa"),
        ("analysisWe need one", ""),
        ("analysis of the text: Tulsa", "analysis of the text: Tulsa"),
        ("Analysis\nIt is Tulsa", "Analysis\nIt is Tulsa"),
        ("Its head is <|channel|>final<|message|>", "Its head is <|channel|>final<|message|>"),
        ("<think>It is Tulsa", ""),
        ("<think>", ""),
        ("</think>", ""),
        ("<think>a</think>", ""),
        ("Tulsa <think>or Rome?</think>", "Tulsa <think>or Rome?</think>"),
        ('It ends with "</think>".', 'It ends with "</think>".'),
        ("`</think>` ends it.", "`</think>` ends it."),
        ('<think>a</think>"Tulsa"', '"Tulsa"'),
        ("<think>a</think>```json\n{}\n```", "```json\n{}\n```"),
        ("<think>It ends with `</think>`, too.</think>Tulsa", "Tulsa"),
        ('<think>Say "Tulsa"</think>Tulsa', "Tulsa"),
        ("<thinker>Rodin</thinker>", "<thinker>Rodin</thinker>"),
        ("< think >a", "< think >a"),
        ("<b>Tulsa</b>", "<b>Tulsa</b>"),
        ("I think it is Tulsa", "I think it is Tulsa"),
    ],
)
def test_the_answer_is_the_text_after_the_reasoning(text: str, answer: str) -> None:
    """Reasoning in tags at the beginning is removed; tags that are quoted or within the answer stay."""
    assert without_reasoning(text) == Reply(text).answer == answer
    assert Reply.from_record(json.loads(Reply(text).dumps())).text == text


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(""), ""),
        (Reply("<think>a"), ": it holds reasoning and no answer"),
        (Reply("<think>a", finish_reason="length"), ": the token limit was reached while it was reasoning"),
        (Reply("", finish_reason="length"), ": the token limit was reached before any text"),
        (
            Reply("", finish_reason="length", apart=True),
            ": the token limit was reached while it was reasoning",
        ),
        (Reply("", refusal="I  will\nnot."), ": the model refused, 'I will not.'"),
    ],
)
def test_why_a_reply_has_no_answer(reply: Reply, reason: str) -> None:
    assert empty_reason(reply) == reason


def test_a_line_that_is_nested_without_end_is_no_reply() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match=r"'text' is .*, expected str"):
        Reply.from_record({"text": deep})
    while deep:
        deep = deep.pop()
