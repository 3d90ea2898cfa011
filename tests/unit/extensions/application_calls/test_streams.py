"""The events of a stored answer."""

from typing import Any

import pytest

from pytest_rageval.extensions.application_calls.events import split_into_events
from pytest_rageval.models.proxied_request import CHAT, RESPONSES, Sink, _StreamAssembler, proxied_reply
from tests.unit.models.test_proxied_request import CALL, choice, completion

ANSWERS = {
    "text": completion(choice(content="The answer  is\n\n42. ")),
    "empty": completion(choice(content="", finish_reason="length")),
    "tool calls": completion(choice(tool_calls=[CALL, {**CALL, "id": "call_2"}], finish_reason="tool_calls")),
    "text and a call": completion(choice(content="I look.", tool_calls=[CALL])),
    "refusal": completion(choice(refusal="I will not.")),
    "reasoning": completion(choice(content="no", reasoning_content="It differs.\nSo no.")),
    "choices": completion(choice(content="a b"), choice(1, content="c", finish_reason="length")),
    "fingerprint": completion(choice(content="a"), system_fingerprint="fp", service_tier="default"),
    "log probabilities": completion(
        choice(content="a") | {"logprobs": {"content": [{"token": "a", "logprob": -0.5}], "refusal": None}}
    ),
}  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_the_stream_of_an_answer_adds_up_to_the_answer(answer: dict[str, Any]) -> None:
    stream = _StreamAssembler(CHAT, Sink(lambda _: None))
    for event in split_into_events(CHAT, answer, usage=True):
        stream.add(event)
    assert stream.is_complete
    assert stream.answer == answer
    assert proxied_reply(CHAT, stream.answer) == proxied_reply(CHAT, answer)


def test_a_stream_of_responses_adds_up_to_the_response() -> None:
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}"}
    call["status"] = "completed"
    text = {"type": "output_text", "text": "a b", "annotations": []}
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    reasoning = {"type": "reasoning", "id": "r", "summary": []}
    usage = {"input_tokens": 7, "output_tokens": 3}
    output = [reasoning, call, message]
    answer = {"id": "r", "model": "m", "status": "completed", "output": output, "usage": usage}
    stream, names = _StreamAssembler(RESPONSES, Sink(lambda _: None)), []
    for event in split_into_events(RESPONSES, answer, usage=False):
        stream.add(event)
        names.append(event.name)
    assert stream.is_complete
    assert stream.answer == answer
    assert names[0] == "response.created"
    assert names[-1] == "response.completed"
    assert names.count("response.output_item.done") == 3
    reply = proxied_reply(RESPONSES, answer)
    assert (reply.tokens_in, reply.tokens_out, reply.finish_reason) == (7, 3, "stop")
