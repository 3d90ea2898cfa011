"""A plan: the requests that a run would send are counted and not sent."""

import asyncio
from typing import Any

import pytest

from pytest_rageval.models.budget import prompt_tokens
from pytest_rageval.models.messages import REPLY_PLACEHOLDER, Reply, Request
from pytest_rageval.models.prices import Price, Prices
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.sources import PlanSource
from pytest_rageval.models.usage import Usage

SERVER = RemoteServer("http://127.0.0.1:9/v1")
PRICE = Price(2.0, 8.0)
PRICES = Prices({("", "m"): PRICE, ("", "capped"): Price(2.0, 8.0, 40), ("", "input only"): Price(2.0, 0)})


@pytest.fixture
def plan() -> PlanSource:
    return PlanSource(PRICES, Usage())


def _request(content: Any, model: str = "m", **parameters: Any) -> Request:
    return Request("http://u/v1", model, ({"role": "user", "content": content},), parameters)


def _obtain(plan: PlanSource, request: Request) -> Reply:
    return asyncio.run(plan.obtain(SERVER, request))


def test_a_request_is_counted_and_not_sent(plan: PlanSource) -> None:
    request = _request("Which code does item-7 have?", max_tokens=16)
    reply = _obtain(plan, request)
    tokens = prompt_tokens(request.messages)
    assert REPLY_PLACEHOLDER.fullmatch(reply.text)
    assert plan.usage == Usage(live=1, tokens_in=tokens, tokens_out=16, cost_usd=PRICE.cost(tokens, 16))


def test_every_reply_has_a_mark_of_its_own(plan: PlanSource) -> None:
    one, other = _obtain(plan, _request("one")), _obtain(plan, _request("other"))
    assert one.text != other.text


def test_the_same_request_is_paid_once(plan: PlanSource) -> None:
    request = _request("one", max_tokens=16)
    assert plan.planned_reply(request) is None
    assert _obtain(plan, request) == plan.planned_reply(request)
    assert (plan.usage.live, plan.usage.tokens_out) == (1, 16)


def test_what_is_made_of_a_reply_depends_on_it(plan: PlanSource) -> None:
    """A prompt with a placeholder reply counts as dependent, and as long as the longest reply would make it."""
    answer = _obtain(plan, _request("one", max_tokens=500))
    before = plan.usage.tokens_in
    judged = _request(f"Is {answer.text} right?", max_tokens=1)
    _obtain(plan, judged)
    assert (plan.usage.live, plan.usage.dependent) == (2, 1)
    assert plan.usage.tokens_in - before == prompt_tokens(judged.messages) + 500


def test_what_depends_on_several_replies_counts_once(plan: PlanSource) -> None:
    marks = [_obtain(plan, _request(text, max_tokens=100)).text for text in ("a", "b")]
    before = plan.usage.tokens_in
    judged = _request([{"type": "text", "text": " ".join(marks)}], max_tokens=1)
    _obtain(plan, judged)
    assert plan.usage.dependent == 1
    assert plan.usage.tokens_in - before == prompt_tokens(judged.messages) + 200


def test_a_mark_that_is_not_ours_is_a_text(plan: PlanSource) -> None:
    """Text that only looks like a placeholder adds no tokens and makes the request no dependent one."""
    request = _request(f"What is ⟪reply {'0' * 15}⟫?", max_tokens=1)
    _obtain(plan, request)
    assert plan.usage.dependent == 0
    assert plan.usage.tokens_in == prompt_tokens(request.messages)


@pytest.mark.parametrize(
    ("model", "parameters", "expected"),
    [
        ("m", {}, {"unbounded": 1, "unpriced": 1, "tokens_out": 0}),
        ("capped", {}, {"unbounded": 0, "unpriced": 0, "tokens_out": 40}),
        ("input only", {}, {"unbounded": 1, "unpriced": 0, "tokens_out": 0}),
        ("mystery", {"max_tokens": 9}, {"unbounded": 0, "unpriced": 1, "tokens_out": 9}),
        ("m", {"max_completion_tokens": 9}, {"unbounded": 0, "unpriced": 0, "tokens_out": 9}),
    ],
)
def test_requests_of_unknown_cost_are_counted(plan, model, parameters, expected):
    _obtain(plan, _request("x", model, **parameters))
    assert {name: getattr(plan.usage, name) for name in expected} == expected
    assert (plan.usage.cost_usd == 0) == bool(expected["unpriced"])
