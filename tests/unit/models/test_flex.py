"""The flex tier: sent outside the cache key, omitted for models without it, and priced by the tier in the reply."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.models import sender as sender_module
from pytest_rageval.models.budget import Budget, Limits
from pytest_rageval.models.gateway import Gateway, GatewaySettings
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.prices import Price, Prices
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.sources import PlanSource
from pytest_rageval.models.usage import Usage
from pytest_rageval.options.resolution import resolve_options
from tests.unit.models.scripted import Answer, ScriptedServer, completion, error

ASKED = Request("u", "m", ({"role": "user", "content": "Why?"},), {"temperature": 0.5, "max_tokens": 16})
PRICE = Price(2.0, 8.0, tiers={"flex": Price(1.0, 4.0)})
PRICES = Prices({("", "m"): PRICE, ("", "no flex"): Price(2.0, 8.0), ("", "free"): Price(0, 0)})
NO_FLEX = Answer(400, error("Flex processing is not available for this model.", param="service_tier"))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_module, "FIRST_DELAY_S", 0.005)


def _ask(
    folder: Path, server: ScriptedServer, *requests: Request, **options: Any
) -> tuple[list[Reply], Usage]:
    async def main() -> tuple[list[Reply], Usage]:
        gateway = Gateway(GatewaySettings(folder, **options))
        remote = RemoteServer(server.url, flex=True)
        try:
            return [await gateway.get_reply(remote, request) for request in requests], gateway.usage
        finally:
            await gateway.close()

    return asyncio.run(main())


def _priced(folder: Path) -> Path:
    file = folder / "prices.toml"
    file.write_text("[m]\ninput = 2\noutput = 8\nflex_input = 1\nflex_output = 4\n", encoding="utf-8")
    return file


def test_the_tier_is_sent_and_is_no_part_of_the_key(tmp_path: Path) -> None:
    with ScriptedServer(Answer(body=completion(service_tier="flex"))) as server:
        _, usage = _ask(tmp_path / "cache", server, ASKED, ASKED, prices=_priced(tmp_path))
    assert [body.get("service_tier") for body in server.requests] == ["flex"]
    assert usage.cost_usd == pytest.approx((10 * 1 + 2 * 4) / 1e6)
    assert not usage.remarks


def test_a_model_without_the_tier_is_asked_without_it(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Answer | str:
        return NO_FLEX if "service_tier" in body else "fine"

    other = Request("u", "m", ({"role": "user", "content": "Why not?"},))
    with ScriptedServer(answer) as server:
        replies, usage = _ask(tmp_path / "cache", server, ASKED, other, prices=_priced(tmp_path))
    assert ["service_tier" in body for body in server.requests] == [True, False, False]
    assert [reply.without for reply in replies] == ["", ""]
    assert usage.cost_usd == pytest.approx(2 * (10 * 2 + 2 * 8) / 1e6)
    assert usage.remarks == {"m answered outside the flex tier, at the usual price": 2}


def test_another_refusal_leaves_the_tier(tmp_path: Path) -> None:
    refusal = Answer(400, error("Unsupported value: 'temperature'", param="temperature"))

    def answer(body: dict[str, Any]) -> Answer:
        return refusal if "temperature" in body else Answer(body=completion(service_tier="flex"))

    with ScriptedServer(answer) as server:
        [reply], _ = _ask(tmp_path / "cache", server, ASKED)
    assert [body.get("service_tier") for body in server.requests] == ["flex", "flex"]
    assert reply.without == "temperature"


def test_a_server_without_resources_is_asked_again(tmp_path: Path) -> None:
    busy = Answer(429, error("Resource unavailable", code="resource_unavailable"))
    with ScriptedServer(busy, busy, Answer(body=completion(service_tier="flex"))) as server:
        [reply], _ = _ask(tmp_path / "cache", server, ASKED)
    assert reply.text == "fine"
    assert [body["service_tier"] for body in server.requests] == ["flex"] * 3


def test_the_users_own_tier_stays(tmp_path: Path) -> None:
    request = Request("u", "m", ASKED.messages, {"service_tier": "priority"})
    with ScriptedServer("fine") as server:
        _ask(tmp_path / "cache", server, request)
    assert [body["service_tier"] for body in server.requests] == ["priority"]


@pytest.mark.parametrize(
    ("model", "tier", "price"),
    [
        ("m", "flex", 1.0),
        ("m", "default", 2.0),
        ("m", "", 2.0),
        ("no flex", "flex", 2.0),
        ("free", "flex", 0.0),
    ],
)
def test_a_reply_costs_what_its_tier_does(model: str, tier: str, price: float) -> None:
    budget = Budget(Limits(), PRICES, "r")
    request = Request("u", model, ASKED.messages)
    assert budget.cost(request, Reply("", tokens_in=10**6, tier=tier)) == price


def test_a_plan_has_the_cost_in_the_tier() -> None:
    plan = PlanSource(PRICES, Usage(), ["flex"])
    server = RemoteServer("http://127.0.0.1:9/v1")
    for model in ("m", "no flex", "free", "unpriced"):
        asyncio.run(plan.obtain(server, Request("u", model, ASKED.messages, {"max_tokens": 16})))
    usage = plan.usage
    half = PlanSource(PRICES, Usage(), ["flex"])
    asyncio.run(half.obtain(server, Request("u", "m", ASKED.messages, {"max_tokens": 16})))
    assert usage.cost_at["flex"] == pytest.approx(half.usage.cost_usd / 2)
    assert usage.unpriced_at["flex"] == 2
    assert usage.unpriced == 1
    plain = usage.to_dict()
    # The usage can be sent to another process, as xdist does.
    assert all(type(value) in {int, float, dict} for value in plain.values())
    assert Usage.from_dict(plain) == usage


@pytest.mark.parametrize(
    ("given", "timeout", "patience"),
    [({}, 60.0, 300.0), ({"flex": "true"}, 900.0, 3600.0), ({"flex": "true", "timeout": "30"}, 30.0, 3600.0)],
)
def test_the_tier_is_waited_for(given, timeout, patience, tmp_path):
    settings = resolve_options(given, {}, {}, invoked_in=tmp_path, root=tmp_path)
    assert (settings.generator.server.timeout, settings.patience) == (timeout, patience)
