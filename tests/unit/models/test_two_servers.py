"""Two servers in one run: each has its own policy, key, budget and usage."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import BudgetError, ServerError
from pytest_rageval.models.budget import Limits
from pytest_rageval.models.client import RequestPolicy
from pytest_rageval.models.gateway import Gateway, GatewaySettings
from pytest_rageval.models.messages import Reply, Request
from pytest_rageval.models.prices import Price, Prices
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.models.usage import Usage
from tests.unit.models.scripted import Answer, ScriptedServer, completion

JUDGE = "tool.rageval.models.judge"


def _request(server: RemoteServer, text: object, model: str = "m") -> Request:
    return Request(server.base_url, model, ({"role": "user", "content": str(text)},), {"max_tokens": 5})


def _ask(gateway: Gateway, *server_requests: tuple[RemoteServer, Request]) -> list[Any]:
    async def main() -> list[Any]:
        try:
            asking = (gateway.get_reply(server, request) for server, request in server_requests)
            return await asyncio.wait_for(asyncio.gather(*asking, return_exceptions=True), 120)
        finally:
            await gateway.close()

    return asyncio.run(main())


@pytest.fixture
def gateway(tmp_path: Path):
    prices = tmp_path / "prices.toml"
    prices.write_text("[m]\ninput = 1000\noutput = 1000\n", encoding="utf-8")

    def make(**options: Any) -> Gateway:
        return Gateway(
            GatewaySettings(
                tmp_path / "cache",
                prices=prices,
                **{"policy": RequestPolicy(timeout_s=30, retries=0), **options},
            )
        )

    return make


def test_each_server_has_its_own_policy(gateway) -> None:
    with (
        ScriptedServer(Answer(body=completion(), delay_s=0.02)) as wide,
        ScriptedServer(Answer(body=completion(), delay_s=0.02)) as narrow,
    ):
        wide.together = 12
        servers = [
            RemoteServer(wide.url, policy=RequestPolicy(concurrency=12, timeout_s=30)),
            RemoteServer(narrow.url, policy=RequestPolicy(concurrency=2, timeout_s=30), role="judge"),
        ]
        _ask(gateway(), *((server, _request(server, n)) for n in range(24) for server in servers))
    assert (wide.most_in_flight, narrow.most_in_flight) == (12, 2)


def test_two_keys_at_one_address_are_two_servers(gateway) -> None:
    def answer(_: object) -> Answer:
        return Answer(body=completion())

    with ScriptedServer(answer) as server:
        mine, theirs = RemoteServer(server.url, "key-1"), RemoteServer(server.url, "key-2", role="judge")
        new_gateway = gateway()
        _ask(new_gateway, (mine, _request(mine, 1)), (theirs, _request(theirs, 2)))
    assert server.keys == {"Bearer key-1", "Bearer key-2"}
    assert new_gateway.usage.servers.keys() == {server.url, f"{server.url} (judge)"}
    assert new_gateway.usage.live == 2


def test_servers_with_the_same_settings_are_one() -> None:
    same = [RemoteServer("http://a/v1", "k", policy=RequestPolicy(concurrency=2)) for _ in range(2)]
    assert len({*same}) == 1
    others = [
        RemoteServer("http://a/v1", "k"),
        RemoteServer("http://a/v1", "l"),
        RemoteServer("http://b/v1", "k"),
        RemoteServer("http://a/v1?sig=1", "k"),
        RemoteServer("http://a/v1", "k", api="responses"),
        RemoteServer("http://a/v1", "k", limits=Limits(3)),
        RemoteServer("http://a/v1", key_command=("a",)),
    ]
    assert len({*same, *others}) == 1 + len(others)
    assert same[0] != "http://a/v1"


def test_what_is_asked_is_counted_by_server(gateway) -> None:
    with ScriptedServer() as one, ScriptedServer() as other:
        first, second = RemoteServer(one.url), RemoteServer(other.url, role="judge")
        new_gateway = gateway()
        _ask(new_gateway, *((first, _request(first, n)) for n in range(3)), (second, _request(second, 1)))
    counted = new_gateway.usage.servers
    assert counted[one.url] == Usage(live=3, tokens_in=30, tokens_out=6, cost_usd=pytest.approx(0.036))
    assert counted[f"{other.url} (judge)"] == Usage(live=1, tokens_in=10, tokens_out=2, cost_usd=0.012)
    assert new_gateway.usage.cost_usd == pytest.approx(0.048)


def test_a_plan_counts_by_server_too(gateway) -> None:
    first, second = RemoteServer("http://a/v1"), RemoteServer("http://b/v1", role="judge")
    new_gateway = gateway(mode="plan")
    _ask(new_gateway, (first, _request(first, 1)), (first, _request(first, 2)), (second, _request(second, 1)))
    assert {name: usage.live for name, usage in new_gateway.usage.servers.items()} == {
        "http://a/v1": 2,
        "http://b/v1 (judge)": 1,
    }


@pytest.mark.parametrize(
    ("limits", "expected_message"),
    [
        (
            Limits(max_calls=2, table=JUDGE),
            r"max_calls = 2 in \[tool.rageval.models.judge\] is reached: 2 calls",
        ),
        (
            Limits(max_cost=0.03, table=JUDGE),
            r"max_cost = 0.03 in \[tool.rageval.models.judge\] is reached: 0.0240 USD are spent",
        ),
    ],
)
def test_a_limit_of_one_server_stops_that_server(gateway, limits: Limits, expected_message: str) -> None:
    with ScriptedServer() as one, ScriptedServer() as other:
        free, limited = RemoteServer(one.url), RemoteServer(other.url, role="judge", limits=limits)
        new_gateway = gateway(
            limits=Limits(max_calls=7), run="r", policy=RequestPolicy(concurrency=1, timeout_s=30, retries=0)
        )
        outcomes = _ask(new_gateway, *((limited, _request(limited, n)) for n in range(4)))
        assert [type(outcome) for outcome in outcomes] == [Reply, Reply, BudgetError, BudgetError]
        with pytest.raises(BudgetError, match=expected_message):
            raise outcomes[2]
        # A new gateway of the same run, as in another process.
        new_gateway = gateway(
            limits=Limits(max_calls=7), run="r", policy=RequestPolicy(concurrency=1, timeout_s=30, retries=0)
        )
        outcomes = _ask(
            new_gateway, (limited, _request(limited, "more")), *((free, _request(free, n)) for n in range(7))
        )
    assert [type(outcome) for outcome in outcomes] == [BudgetError, *5 * [Reply], *2 * [BudgetError]]
    assert "--rageval max_calls=7 is reached" in str(outcomes[-1])
    assert (len(one.requests), len(other.requests)) == (5, 2)


def test_one_model_at_two_servers_keeps_its_names_apart(gateway) -> None:
    with (
        ScriptedServer(Answer(body=completion("from one", model="m-1"))) as one,
        ScriptedServer(Answer(body=completion("from other", model="m-2"))) as other,
    ):
        first, second = RemoteServer(one.url), RemoteServer(other.url)
        new_gateway = gateway()
        replies = _ask(new_gateway, (first, _request(first, 1)), (second, _request(second, 1)))
    assert [reply.text for reply in replies] == ["from one", "from other"]
    assert new_gateway.served == {("m", one.url): {"m-1"}, ("m", other.url): {"m-2"}}


@pytest.mark.parametrize(
    ("server", "expected_message"),
    [
        (
            RemoteServer(),
            r"api.openai.com/v1: OPENAI_API_KEY is empty.*\n.*--rageval-base-url or OPENAI_BASE_URL",
        ),
        (RemoteServer(role="judge", key_name="RAGEVAL_JUDGE_API_KEY"), "RAGEVAL_JUDGE_API_KEY is empty"),
        (
            RemoteServer("http://127.0.0.1:9/v1", role="judge", key_name="THEIRS", needs_key=True),
            r"127.0.0.1:9/v1: THEIRS is empty.*\n.*--rageval judge_base_url=URL",
        ),
    ],
)
def test_a_missing_key_is_an_error_before_any_request(gateway, server, expected_message):
    (error,) = _ask(gateway(policy=RequestPolicy(retries=4)), (server, _request(server, 1)))
    assert isinstance(error, ServerError)
    with pytest.raises(ServerError, match=expected_message):
        raise error
    (planned,) = _ask(gateway(mode="plan"), (server, _request(server, 1)))
    assert isinstance(planned, Reply)


def test_usage_by_server_adds_up_over_tests_and_processes() -> None:
    """The usage of each server is added and subtracted like the totals; a server without requests is left out."""
    before, after = Usage(), Usage()
    for usage, calls in ((before, 1), (after, 3)):
        for counted_usage in usage.with_server("http://a/v1"):
            for _ in range(calls):
                counted_usage.count_live(10, 2, 0.5)
    for counted_usage in after.with_server("http://b/v1"):
        counted_usage.count_live(1, 1, None)
    difference = after - before
    assert {
        name: (counted_usage.live, counted_usage.cost_usd)
        for name, counted_usage in difference.servers.items()
    } == {"http://a/v1": (2, 1.0), "http://b/v1": (1, 0.0)}
    assert (before - before).servers == {}
    restored = Usage.from_dict(difference.to_dict())
    assert (restored, restored.servers) == (difference, difference.servers)
    assert (restored + before).servers["http://a/v1"].live == 3


def test_prices_are_not_found_by_the_role_of_a_server() -> None:
    assert Prices({("http://a/v1", "m"): Price(1, 1)}).get(
        RemoteServer("http://a/v1", role="judge").base_url, "m"
    )
