"""Parameters that a server refuses, with the error messages of real servers.

Attack: a request has parameters that a model does not accept. Servers word the refusal differently, some repeat the
message of another server, and some use another name for the parameter. Promise: after one refusal, the parameter is
left out, or sent under its other name, and the reply states it. A value that is out of range is for the user to
correct: the example is unscored after one request, with the server's message as reason, and nothing is left out.

`tests/data/refusals.jsonl` has the responses.
"""

import asyncio
from typing import Any

import pytest

from pytest_rageval.core.errors import RagevalError, Unscored
from pytest_rageval.models.client import Client
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.rate_limits import Limiter
from pytest_rageval.models.sender import Sender
from pytest_rageval.models.server import RemoteServer
from tests.unit.models.refusals import SENT, refusals
from tests.unit.models.scripted import Answer, ScriptedServer


def ask(answer: Any) -> tuple[Reply, list[dict[str, Any]]]:
    request = Request("u", "m", ({"role": "user", "content": "Why?"},), SENT)

    async def main(url: str) -> Reply:
        sender = Sender(Client(RemoteServer(url, "sk-nobody"), timeout_s=30), Limiter(1), 30, 0)
        try:
            return await sender.send(request)
        finally:
            await sender.client.close()

    with ScriptedServer(answer) as server:
        try:
            return asyncio.run(main(server.url)), server.requests
        except Unscored as unscored:
            raise Unscored(f"{len(server.requests)} requests: {unscored}") from None


@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 422])
@refusals("left out")
def test_what_is_refused_is_left_out(refusal: Any, name: str, status: int) -> None:
    reply, sent = ask(lambda body: Answer(status, refusal) if name in body else "fine")
    assert (reply.text, reply.without) == ("fine", name)
    parameters = [{key: body[key] for key in body if key in SENT} for body in sent]
    assert parameters == [SENT, {key: value for key, value in SENT.items() if key != name}]


def test_a_parameter_that_no_provider_takes_is_no_unknown_model() -> None:
    """OpenRouter's 404 for a refused parameter is not taken for an unknown model.

    If it names no parameter, nothing is left out.
    """
    refusal = {
        "error": {
            "message": "No endpoints found that support the provided 'logit_bias' value. To learn more about provider "
            "routing, visit: https://openrouter.ai/docs/provider-routing"
        }
    }
    reply, sent = ask(lambda body: Answer(404, refusal) if "logit_bias" in body else "fine")
    assert (reply.without, len(sent)) == ("logit_bias", 2)
    unnamed = {"error": {"message": "No endpoints found that can handle the requested parameters."}}
    with pytest.raises(
        Unscored, match=r"^1 requests: the server answered 404: No endpoints found that can handle"
    ):
        ask(lambda _: Answer(404, unnamed))


@refusals("renamed")
def test_a_bound_is_sent_under_its_other_name(refusal: Any, name: str) -> None:
    """A refused `max_tokens` is sent under its other name and never left out, because it limits the cost."""
    reply, sent = ask(lambda body: Answer(400, refusal) if name in body else "fine")
    assert (reply.text, reply.without) == ("fine", "")
    assert [body.get("max_completion_tokens") for body in sent] == [None, 16]


@refusals("out of range")
def test_a_wrong_value_is_the_users_to_mend(refusal: Any, name: None) -> None:  # noqa: ARG001
    with pytest.raises((Unscored, RagevalError), match=r"^1 requests: the server answered 400: \S"):
        ask(lambda _: Answer(400, refusal))
