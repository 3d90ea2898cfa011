"""Malformed replies: empty, nested without end, truncated, with wrong types.

Attack: a server sends an arbitrary body in place of a chat completion, or a model writes an arbitrary text in place
of a verdict. Promise: only the example of this reply is unscored, with a readable reason, and the other examples of
the run are scored. Malformed metadata of a reply (usage, the model's name) does not make the reply unscored.
"""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.llm_server import Fault

DEEP = 100_000
"""Levels of nesting that exceed the stack of any interpreter."""

NEARLY = 900
"""Levels of nesting that can be parsed, but that exceed the stack of a recursive function over the result."""


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def completion(content: str = '"fine"', **parts: str) -> bytes:
    parts = {
        "message": f'{{"role": "assistant", "content": {content}{parts.pop("more", "")}}}',
        "finish_reason": '"stop"',
        "usage": '{"prompt_tokens": 10, "completion_tokens": 2}',
        "model": '"m-2024"',
    } | parts
    choice = f'{{"index": 0, "finish_reason": {parts["finish_reason"]}, "message": {parts["message"]}}}'
    body = f'{{"model": {parts["model"]}, "choices": [{choice}], "usage": {parts["usage"]}}}'
    return body.encode("utf-8", "surrogateescape")


def error(status: int, body: bytes) -> Fault:
    return Fault(status, body=body)


def not_understood(why: str = "") -> str:
    return re.escape(f"the server's reply was not understood ({why}" + (")" if why else ""))


EMPTY = r"the generator's reply is empty"

MALFORMED: dict[str, tuple[bytes | Fault, str]] = {
    # Not JSON
    "nothing": (b"", not_understood("it is empty")),
    "blanks": (b" \n\t", not_understood("it is empty")),
    "an HTML page": (b"<html><body>Welcome to our proxy</html>", not_understood("it is not JSON") + r".*Welcome"),
    "half a body": (completion()[:60], not_understood("it is not JSON")),
    "fewer bytes than promised": (
        Fault(200, {"content-length": "5000", "connection": "close"}, body=completion()[:60]),
        "the connection broke off: ",
    ),
    "no gzip": (Fault(200, {"content-encoding": "gzip"}, body=completion()), "the connection broke off: "),
    "two objects": (completion() * 2, not_understood("it is not JSON")),
    "a stream of events": (b"data: " + completion() + b"\n\ndata: [DONE]\n\n", not_understood("it is not JSON")),
    "Latin-1": (completion('"caf\udce9"'), not_understood("it is not UTF-8")),
    "bytes": (b"\x00\xff\xfe\x80" * 20, not_understood()),
    "a number of 5,000 digits": (completion(usage=f'{{"prompt_tokens": {"9" * 5000}}}'), not_understood()),
    # Nested without end
    "an array in an array": (nested(DEEP).encode(), not_understood("it is nested too deeply")),
    "unclosed": (b'{"a":' * DEEP, not_understood("it is nested too deeply")),
    "nested content": (completion(nested(DEEP)), not_understood("it is nested too deeply")),
    "nested content, parsed": (completion(nested(NEARLY)), not_understood()),
    "nested tool calls": (
        completion("null", more=f', "tool_calls": {nested(DEEP)}'),
        not_understood("it is nested too deeply"),
    ),
    "nested refusal": (completion("null", more=f', "refusal": {nested(NEARLY)}'), not_understood()),
    "nested usage": (completion(usage=nested(DEEP)), not_understood("it is nested too deeply")),
    "a nested error": (error(400, b'{"error": ' + nested(DEEP).encode() + b"}"), r"the server answered 400: "),
    "a nested error, parsed": (
        error(400, b'{"error": {"param": ' + nested(NEARLY).encode() + b"}}"),
        r"the server answered 400: ",
    ),
    "a nested validation error": (
        error(422, b'{"detail": ' + nested(NEARLY).encode() + b"}"),
        r"the server answered 422: ",
    ),
    "a nested message of an error": (
        error(400, b'{"error": {"message": ' + nested(NEARLY).encode() + b"}}"),
        r"the server answered 400: ",
    ),
    # JSON, but no completion
    "null": (b"null", not_understood("it is not an object") + r": 'null'"),
    "a list": (b"[]", not_understood("it is not an object")),
    "a text": (b'"fine"', not_understood("it is not an object")),
    "a number": (b"7", not_understood("it is not an object")),
    "an error with status 200": (
        b'{"error": {"message": "upstream is down", "code": 502}}',
        not_understood("it has no choices") + r".*upstream is down",
    ),
    "no choices": (b'{"model": "m"}', not_understood("it has no choices")),
    "choices null": (b'{"choices": null}', not_understood("it has no choices")),
    "choices empty": (b'{"choices": []}', not_understood("it has no choices")),
    "choices an object": (b'{"choices": {"0": {}}}', not_understood("it has no choices")),
    "choices a text": (b'{"choices": "fine"}', not_understood("it has no choices")),
    "a choice null": (b'{"choices": [null]}', not_understood("its choice has no message")),
    "a choice a number": (b'{"choices": [7]}', not_understood("its choice has no message")),
    "a choice without message": (b'{"choices": [{"text": "fine"}]}', not_understood("its choice has no message")),
    "message null": (completion(message="null"), not_understood("its choice has no message")),
    "message a text": (completion(message='"fine"'), not_understood("its choice has no message")),
    "message a list": (completion(message="[{}]"), not_understood("its choice has no message")),
    "broken off": (completion(finish_reason='"error"'), not_understood("it broke off")),
    "no reason and no text": (completion("null", finish_reason="null"), not_understood("it broke off")),
    # Wrong types
    "content a number": (completion("5"), not_understood("its content is a number")),
    "content true": (completion("true"), not_understood("its content is true or false")),
    "content an object": (completion('{"text": "fine"}'), not_understood("its content is an object")),
    "content a list of numbers": (completion("[5]"), not_understood("a part of its content is not an object")),
    "content a list of lists": (completion('[["fine"]]'), not_understood("a part of its content is not an object")),
    "a part that is a number": (completion('[{"type": "text", "text": 5}]'), not_understood("its text is a number")),
    "refusal a number": (completion(more=', "refusal": 5'), not_understood("its refusal is a number")),
    "tool calls a text": (completion(more=', "tool_calls": "f"'), not_understood("its tool_calls is a text")),
    "finish reason a number": (completion(finish_reason="7"), not_understood("its finish_reason is a number")),
    # Empty replies
    "content empty": (completion('""'), EMPTY),
    "content blank": (completion('" \\n\\t"'), EMPTY),
    "content null": (completion("null"), EMPTY),
    "content missing": (completion(message='{"role": "assistant"}'), EMPTY),
    "content an empty list": (completion("[]"), EMPTY),
    "a picture": (completion('[{"type": "image_url", "image_url": {"url": "x"}}]'), EMPTY),
    "cut before it began": (completion('""', finish_reason='"length"'), rf"{EMPTY}: the token limit was reached"),
    "withheld": (completion("null", finish_reason='"content_filter"'), rf"{EMPTY}: a content filter withheld it"),
    "refused": (completion("null", more=', "refusal": "I will not."'), rf"{EMPTY}: the model refused, 'I will not.'"),
    "reasoning in a field alone": (completion("null", more=', "reasoning_content": "The code is fine"'), EMPTY),
    "reasoning in a part alone": (completion('[{"type": "reasoning", "text": "fine"}]'), EMPTY),
    "reasoning alone": (completion('"<think>The code is"'), rf"{EMPTY}: it holds reasoning and no answer"),
    # Errors of every kind
    "400 without a body": (error(400, b""), r"the server answered 400"),
    "400 with HTML": (error(400, b"<html>Bad Request</html>"), r"the server answered 400"),
    "400 with a list": (error(400, b'[{"error": {"message": "no"}}]'), r"the server answered 400"),
    "400 with null": (error(400, b"null"), r"the server answered 400"),
    "400 with a number": (error(400, b"7"), r"the server answered 400"),
    "400 with Latin-1": (error(400, b'{"error": {"message": "caf\xe9"}}'), r"the server answered 400: caf"),
    "400 with a text": (error(400, b'{"error": "no such thing"}'), r"the server answered 400: .*no such thing"),
    "400 with messages": (error(400, b'{"error": {"message": ["a", "b"]}}'), r"the server answered 400: .*a"),
    "400 without a message": (error(400, b'{"error": {"message": null}}'), r"the server answered 400"),
    "418": (error(418, b'{"error": {"message": "a teapot"}}'), r"the server answered 418: a teapot"),
    "500 with HTML": (error(500, b"<html>Oops</html>"), r"the server answered 500"),
    "500, nested": (error(500, b'{"error": ' + nested(NEARLY).encode() + b"}"), r"the server answered 500"),
}  # fmt: skip

HARMLESS: dict[str, bytes] = {
    "no usage": completion(usage="null"),
    "usage a text": completion(usage='"10 tokens"'),
    "usage a list": completion(usage="[10, 2]"),
    "usage a number": completion(usage="12"),
    "usage of texts": completion(usage='{"prompt_tokens": "10", "completion_tokens": "many"}'),
    "usage negative": completion(usage='{"prompt_tokens": -10, "completion_tokens": -1e300}'),
    "usage true": completion(usage='{"prompt_tokens": true, "completion_tokens": false}'),
    "usage huge": completion(usage=f'{{"prompt_tokens": {2**70}, "completion_tokens": 1e400}}'),
    "usage NaN": completion(usage='{"prompt_tokens": NaN, "completion_tokens": -Infinity}'),
    "usage nested": completion(usage='{"prompt_tokens": [[10]], "completion_tokens": {"n": 2}}'),
    "model null": completion(model="null"),
    "model a number": completion(model="7"),
    "model a list": completion(model='["m"]'),
    "reasoning in a field": completion(more=', "reasoning_content": "It is no.", "reasoning": "no"'),
    "reasoning in a part": completion(
        '[{"type": "thinking", "thinking": [{"type": "text", "text": "no"}]}, {"type": "text", "text": "fine"}]'
    ),
    "reasoning in a tag": completion('"<think>It is no.</think>\\n\\nfine"'),
    "a mark of byte order": b"\xef\xbb\xbf" + completion(),
    "an unknown field": completion(more=', "annotations": [{"x": [1]}], "audio": null'),
    "a field twice": completion('"other", "content": "fine"'),
    "half a surrogate pair in the model's name": completion(model='"m \\ud83d"'),
}


def outcomes(project: Any, *arguments: str) -> dict[str, tuple[float | None, str | None]]:
    result = project.run(
        "--rageval=max_unscored=1", "--rageval=retries=0", "--rageval-report=out.json", *arguments
    )
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert "RecursionError" not in result.stdout.str() + result.stderr.str()
    report = project.read("out.json")
    (score,) = report["tests"][0]["scores"]
    return {example["id"]: (example["score"], example["unscored"]) for example in score["examples"]}


def run_all(
    project: Any, llm: Any, replies: Sequence[bytes | Fault]
) -> dict[str, tuple[float | None, str | None]]:
    def model(prompt: str) -> str | Fault:
        number = int(re.findall(r"code of item-(\d+)", prompt)[-1])
        reply = replies[(number - 1) // 2]
        if number % 2 == 0:
            return "fine"
        return reply if isinstance(reply, Fault) else Fault(200, body=reply)

    llm.model = model
    project.use(llm)
    project.evalset(2 * len(replies), answers=["fine"])
    project.gate("answer.em@1 min=0.9")
    return outcomes(project)


@pytest.mark.slow
def test_a_malformed_reply_is_one_unscored_example(project, llm):
    by_id = run_all(project, llm, [reply for reply, _ in MALFORMED.values()])
    odd = {}
    for number, (name, (_, reason)) in enumerate(MALFORMED.items()):
        score, unscored = by_id[f"q{2 * number + 1}"]
        if score is not None or not re.match(reason, unscored or ""):
            odd[name] = (score, unscored)
        assert by_id[f"q{2 * number + 2}"] == (1.0, None), name
    assert not odd
    print(f"{len(MALFORMED)} malformed replies, each of them one unscored example")


def test_what_only_counts_or_describes_takes_no_reply_away(project, llm):
    """A reply with an invalid usage or an invalid model name is scored, because the reply was paid for."""
    by_id = run_all(project, llm, list(HARMLESS.values()))
    odd = {name: by_id[f"q{2 * n + 1}"] for n, name in enumerate(HARMLESS)}
    assert {name: outcome for name, outcome in odd.items() if outcome != (1.0, None)} == {}
    assert len(llm.requests) == 2 * len(HARMLESS)
    print(f"{len(HARMLESS)} odd replies, all of them scored")


VERDICTS: dict[str, str] = {
    "a nested verdict": '{"verdict": ' + nested(DEEP) + "}",
    "a nested verdict, parsed": '{"verdict": ' + nested(NEARLY) + "}",
    "unclosed": '{"yes": ' * DEEP,
    "in a fence": "```json\n" + nested(DEEP) + "\n```",
    "a grade": '{"explanation": "x", "grade": ' + nested(DEEP) + "}",
    "a grade, parsed": '{"explanation": "x", "grade": ' + nested(NEARLY) + "}",
    "a grade without end": '{"explanation": "x", "grade": ' + "9" * 5000 + "}",
    "an explanation": '{"grade": 3, "explanation": ' + nested(NEARLY) + "}",
    "a null grade": '{"grade": null, "explanation": "x"}',
    "NaN": '{"grade": NaN, "explanation": "x"}',
    "a list": "[1, 2, 3]",
    "a number": "7",
    "blanks": " \n",
    "reasoning without end": "<think>Well, " * 1000,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "sound", "reason"),
    [
        ("llm_reteval@1", "yes", "the judge's reply is (neither yes nor no: |empty)"),
        (
            "judged.correctness@1",
            '{"explanation": "Right.", "grade": 5}',
            "the judge's reply is (not a rating in the second attempt either|empty)",
        ),
    ],
)
def test_a_malformed_verdict_is_one_unscored_example(project, llm, spec, sound, reason):
    texts = list(VERDICTS.values())

    def model(prompt: str) -> str:
        if "Answer to check:" not in prompt and "Answer to rate:" not in prompt:
            return texts[0] if prompt.startswith("Your reply cannot be read") else "fine"
        number = int(re.findall(r"code of item-(\d+)", prompt)[-1])
        return texts[number - 1] if number <= len(texts) else sound

    llm.model = model
    project.use(llm)
    project.evalset(len(texts) + 2)
    project.test(f'@pytest.mark.rageval_threshold("{spec}", min=1)\ndef test_gate(): pass\n')
    by_id = outcomes(project)
    for number in range(1, len(texts) + 1):
        score, unscored = by_id[f"q{number}"]
        assert score is None
        assert re.match(reason, unscored or ""), unscored
    for number in (1, 2):
        assert by_id[f"q{len(texts) + number}"][0] in {1.0, 5.0}
