"""Unsupported parameters of a model, learned from the refusals of real servers."""

from typing import Any

import pytest

from pytest_rageval.models.sender import UnsupportedParams

SENT = {
    "temperature": 0.5,
    "max_tokens": 16,
    "stop": ["\n"],
    "seed": 7,
    "logit_bias": {"5": 1},
    "response_format": {"type": "json_object"},
    "n": 1,
    "user": "me",
}

# The form of `error.body` in the client library: the value of "error", or the whole body if there is none.
OPENAI_UNSUPPORTED_VALUE = {
    "message": "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) "
    "value is supported.",
    "type": "invalid_request_error",
    "param": "temperature",
    "code": "unsupported_value",
}
OPENAI_UNSUPPORTED_PARAMETER = {
    "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    "'max_completion_tokens' instead.",
    "type": "invalid_request_error",
    "param": "max_tokens",
    "code": "unsupported_parameter",
}
OLD_OPENAI = {
    "message": "Unrecognized request argument supplied: max_completion_tokens",
    "type": "invalid_request_error",
    "param": None,
    "code": None,
}
VLLM = {
    "object": "error",
    "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted',"
    " 'input': 7}]",
    "type": "BadRequestError",
    "param": None,
    "code": 400,
}
PYDANTIC = {
    "detail": [
        {
            "type": "extra_forbidden",
            "loc": ["body", "logit_bias"],
            "msg": "Extra inputs are not permitted",
            "input": {"5": 1},
        }
    ]
}
MISTRAL = {
    "object": "error",
    "message": {
        "detail": [
            {
                "type": "extra_forbidden",
                "loc": ["body", "seed"],
                "msg": "Extra inputs are not permitted",
                "input": 7,
            }
        ]
    },
    "type": "invalid_request_error",
    "param": None,
    "code": None,
}
GEMINI = {
    "code": 400,
    "message": 'Invalid JSON payload received. Unknown name "logit_bias": Cannot find field.',
    "status": "INVALID_ARGUMENT",
    "details": [
        {
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [
                {
                    "description": 'Invalid JSON payload received. Unknown name "logit_bias": Cannot find field.'
                }
            ],
        }
    ],
}
GROQ = {"message": "'logit_bias' : property 'logit_bias' is unsupported", "type": "invalid_request_error"}
ANTHROPIC = {
    "type": "invalid_request_error",
    "message": "`temperature` may only be set to 1 when thinking is enabled.",
}
NESTED_PARAM = {
    "message": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
    "param": "response_format.type",
    "code": None,
}
DEEPSEEK = {
    "message": "This response_format type is unavailable now",
    "type": "invalid_request_error",
    "param": None,
    "code": "invalid_request_error",
}


@pytest.mark.parametrize(
    ("refusal", "name"),
    [
        (OPENAI_UNSUPPORTED_VALUE, "temperature"),
        (VLLM, "seed"),
        (PYDANTIC, "logit_bias"),
        (MISTRAL, "seed"),
        (GEMINI, "logit_bias"),
        (GROQ, "logit_bias"),
        (ANTHROPIC, "temperature"),
        (NESTED_PARAM, "response_format"),
        (DEEPSEEK, "response_format"),
    ],
)
def test_a_refused_parameter_is_left_out(refusal: dict[str, Any], name: str) -> None:
    """The refused parameter is found in each server's error format and omitted; all other parameters are still sent."""
    dialect = UnsupportedParams()
    assert dialect.adapt(SENT) == (SENT, "")
    assert dialect.learn(SENT, refusal)
    sent, without = dialect.adapt(SENT)
    assert without == name
    assert sent == {other: value for other, value in SENT.items() if other != name}


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
    assert dialect.learn(dialect.adapt(SENT)[0], OPENAI_UNSUPPORTED_VALUE)
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
        # A value that is out of range is the user's to mend.
        {
            "message": "max_tokens is too large: 200000. This model supports at most 16384 completion tokens.",
            "type": "invalid_request_error",
            "param": "max_tokens",
            "code": None,
        },
        {
            "message": "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 5.",
            "type": "invalid_request_error",
            "param": "temperature",
            "code": "decimal_above_max_value",
        },
    ],
)
def test_a_refusal_that_names_no_unsupported_parameter_teaches_nothing(refusal: dict[str, Any]) -> None:
    """An English word counts as a name only in quotes."""
    dialect = UnsupportedParams()
    assert not dialect.learn(SENT, refusal)
    assert dialect.adapt(SENT) == (SENT, "")


def test_what_was_not_sent_is_not_learned() -> None:
    assert not UnsupportedParams().learn({"temperature": 0}, OPENAI_UNSUPPORTED_PARAMETER)
