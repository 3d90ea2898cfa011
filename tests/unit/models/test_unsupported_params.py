"""Unsupported parameters of a model, learned from the refusals of real servers."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_rageval.models.chat_apis import error_body
from pytest_rageval.models.sender import UnsupportedParams
from tests.unit.models.refusals import SENT, refusals

OPENAI_UNSUPPORTED_PARAMETER = {
    "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    "'max_completion_tokens' instead.",
    "type": "invalid_request_error",
    "param": "max_tokens",
    "code": "unsupported_parameter",
}
OLD_OPENAI = {"message": "Unrecognized request argument supplied: max_completion_tokens"}
VLLM = {
    "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted'}]"
}


def _error(body: Any) -> Mapping[str, object]:
    """Return the error of a response as the client reads it."""
    return error_body(body.get("error", body) if isinstance(body, dict) else body) or {
        "message": json.dumps(body)
    }


@refusals("left out")
def test_a_refused_parameter_is_left_out(refusal: Any, name: str) -> None:
    """The refused parameter is found in each server's error format and omitted; all other parameters are still sent."""
    dialect = UnsupportedParams()
    assert dialect.adapt(SENT) == (SENT, "")
    assert dialect.learn(SENT, _error(refusal))
    sent, without = dialect.adapt(SENT)
    assert without == name
    assert sent == {other: value for other, value in SENT.items() if other != name}


@refusals("out of range")
def test_a_value_that_is_out_of_range_is_the_users_to_mend(refusal: Any, name: None) -> None:  # noqa: ARG001
    dialect = UnsupportedParams()
    assert not dialect.learn(SENT, _error(refusal))
    assert dialect.adapt(SENT) == (SENT, "")


RENAMED = {"max_completion_tokens" if name == "max_tokens" else name: value for name, value in SENT.items()}
BOTH = {"max_tokens": 16, "max_completion_tokens": 16}


@pytest.mark.parametrize(
    ("sent", "refusal", "adapted"),
    [
        (SENT, OPENAI_UNSUPPORTED_PARAMETER, (RENAMED, "")),
        (SENT, {**OPENAI_UNSUPPORTED_PARAMETER, "param": None}, (RENAMED, "")),
        ({"max_completion_tokens": 16}, OLD_OPENAI, ({"max_tokens": 16}, "")),
        # Where both names are sent, the refused one is left out, since the other has the same meaning.
        (BOTH, OPENAI_UNSUPPORTED_PARAMETER, ({"max_completion_tokens": 16}, "max_tokens")),
    ],
)
def test_the_limit_of_tokens_has_another_name(sent, refusal, adapted) -> None:
    """Requests that are in flight together teach the same."""
    dialect = UnsupportedParams()
    for _ in range(16):
        assert dialect.learn(sent, refusal)
    assert dialect.adapt(sent) == adapted
    assert dialect.adapt(adapted[0]) == (adapted[0], "")


@pytest.mark.parametrize("first_name", ["max_tokens", "max_completion_tokens"])
def test_one_name_after_the_other_is_not_tried_for_ever(first_name: str) -> None:
    """If both names are refused, the refusal stands, since a reply without a limit could cost any amount."""
    dialect = UnsupportedParams()
    tried = []
    for expected in (True, False):
        sent, without = dialect.adapt({first_name: 16})
        (name,) = sent
        tried.append(name)
        assert without == ""
        refusal = {"message": f"Unsupported parameter: '{name}'", "param": name}
        assert dialect.learn(sent, refusal) is expected
    assert tried[0] == first_name
    assert set(tried) == {"max_tokens", "max_completion_tokens"}


def test_several_refused_parameters_are_listed() -> None:
    dialect = UnsupportedParams()
    assert dialect.learn(SENT, VLLM)
    refusal = {"message": "Unsupported value: 'temperature' does not support 0.5", "param": "temperature"}
    assert dialect.learn(dialect.adapt(SENT)[0], refusal)
    assert dialect.adapt(SENT)[1] == "temperature seed"
    assert dialect.adapt({"seed": 1, "top_p": 0.5}) == ({"top_p": 0.5}, "seed")


@pytest.mark.parametrize("name", ["tools", "tool_choice"])
def test_tools_are_never_left_out(name: str) -> None:
    """Tools are never omitted, since the request would mean something else: the refusal stands."""
    dialect = UnsupportedParams()
    sent = {**SENT, "tools": [{"type": "function"}], "tool_choice": "auto"}
    refusal = {"message": f"'{name}' is not supported with this model", "param": name}
    assert not dialect.learn(sent, refusal)
    assert dialect.adapt(sent) == (sent, "")


@pytest.mark.parametrize(
    "refusal",
    [
        {},
        {"message": "Bad Request"},
        {"message": "Invalid 'messages[0].content': too long", "param": "messages[0].content"},
        {"message": "you may only stop here", "param": None},
        {"message": "the user may n times", "param": ""},
        {"message": "unknown field 'top_k'", "param": "top_k"},
        {"message": "'temperature_scale' is odd; max_tokens_total too"},
        {"message": None, "param": 7, "detail": None},
    ],
)
def test_a_refusal_that_names_no_unsupported_parameter_teaches_nothing(refusal: dict[str, Any]) -> None:
    """An English word counts as a name only in quotes."""
    dialect = UnsupportedParams()
    assert not dialect.learn(SENT, refusal)
    assert dialect.adapt(SENT) == (SENT, "")


def test_what_was_not_sent_is_not_learned() -> None:
    assert not UnsupportedParams().learn({"temperature": 0}, OPENAI_UNSUPPORTED_PARAMETER)
