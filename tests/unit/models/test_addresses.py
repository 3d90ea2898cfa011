"""The base URLs of providers: the path and the authorization of the requests that arrive."""

import asyncio
import re
from pathlib import Path

import pytest

from pytest_rageval.lib.secret import BaseURL
from pytest_rageval.models.client import Client
from pytest_rageval.models.messages import Request
from pytest_rageval.models.server import RemoteServer
from tests.llm_server import LLMServer

ASKED = Request("u", "m", ({"role": "user", "content": "Why?"},))
KEY, ENTRA = "planted-key", "eyJ0eXAiOiJKV1QifQ.eyJhdWQiOiJ4In0.c2ln"

RECIPES = {
    "Azure, v1": ("https://RESOURCE.openai.azure.com/openai/v1/", "/openai/v1/chat/completions"),
    "Azure, dated": (
        "https://RESOURCE.openai.azure.com/openai/deployments/DEPLOYMENT?api-version=2024-10-21",
        "/openai/deployments/DEPLOYMENT/chat/completions?api-version=2024-10-21",
    ),
    "Gemini": ("https://generativelanguage.googleapis.com/v1beta/openai/", "/v1beta/openai/chat/completions"),
    "Bedrock, runtime": (
        "https://bedrock-runtime.REGION.amazonaws.com/openai/v1",
        "/openai/v1/chat/completions",
    ),
    "Bedrock, mantle": ("https://bedrock-mantle.REGION.api.aws/v1", "/v1/chat/completions"),
    "Vertex AI": (
        "https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION/endpoints/openapi",
        "/v1/projects/PROJECT/locations/LOCATION/endpoints/openapi/chat/completions",
    ),
    "Ollama": ("http://localhost:11434/v1", "/v1/chat/completions"),
    "vLLM": ("http://localhost:8000/v1", "/v1/chat/completions"),
    "LiteLLM proxy": ("http://localhost:4000", "/chat/completions"),
    "OpenRouter": ("https://openrouter.ai/api/v1", "/api/v1/chat/completions"),
    "Anthropic": ("https://api.anthropic.com/v1/", "/v1/chat/completions"),
}


class Listening(LLMServer):
    """A server that records all request heads, and the header `api-key`, which Azure uses."""

    heads = b""

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        read = reader.readuntil

        async def readuntil(separator: bytes = b"\n") -> bytes:
            head = await read(separator)
            self.heads += head
            found = re.search(rb"(?im)^api-key: *(.*?)\r", head)
            self.api_keys.add(found[1].decode() if found else "")
            return head

        reader.readuntil = readuntil
        await super()._connection(reader, writer)


def _received(address: str, key: str | None) -> tuple[str, str, str]:
    async def main(url: str) -> None:
        client = Client(RemoteServer(url, key), timeout_s=30)
        await asyncio.wait_for(client.complete(ASKED, {}), 60)
        await client.close()

    with Listening() as server:
        server.api_keys = set()
        asyncio.run(main(re.sub("https?://[^/]*", server.url.removesuffix("/v1"), address)))
        (target,), (authorization,), (header,) = server.targets, server.keys, server.api_keys
    return target.removeprefix("POST "), authorization, header


@pytest.mark.parametrize("provider", RECIPES)
def test_requests_arrive_at_the_providers_path(provider: str) -> None:
    address, target = RECIPES[provider]
    sent = ("", KEY) if provider == "Azure, dated" else (f"Bearer {KEY}", "")
    assert _received(address, KEY) == (target, *sent)


@pytest.mark.parametrize("provider", ["Azure, v1", "Azure, dated"])
def test_a_token_of_entra_is_sent_as_one(provider: str) -> None:
    address, target = RECIPES[provider]
    assert _received(address, ENTRA) == (target, f"Bearer {ENTRA}", "")


@pytest.mark.parametrize("key", [KEY, None])
def test_what_the_environment_has_for_the_library_is_not_for_a_judge(monkeypatch, key):
    monkeypatch.setenv(
        "OPENAI_CUSTOM_HEADERS", "Authorization: Bearer planted-1\nX-Key: planted-2\nContent-Type: x"
    )
    monkeypatch.setenv("OPENAI_ORG_ID", "planted-3")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "planted-4")

    async def main(remote: RemoteServer) -> None:
        client = Client(remote, timeout_s=30)
        await asyncio.wait_for(client.complete(ASKED, {}), 60)
        await client.close()

    heads = {}
    for role in ("generator", "judge"):
        with Listening() as server:
            server.api_keys = set()
            asyncio.run(main(RemoteServer(server.url, key and "own-key", role=role)))
            assert server.keys == {
                f"Bearer {'own-key' if key else 'planted-1' if role == 'generator' else 'none'}"
            }
            heads[role] = server.heads.decode()
    assert all(f"planted-{n}" in heads["generator"] for n in (2, 3, 4))
    assert "planted" not in heads["judge"]


def test_every_address_here_is_on_the_page_of_models() -> None:
    """Every address of this module is on the page models.md in the same form, so that a reader can copy it."""
    page = Path(__file__).parents[3].joinpath("docs", "how-to", "models.md").read_text(encoding="utf-8")
    assert [address for address, _ in RECIPES.values() if f"`{address}`" not in page] == []


def test_the_deployment_is_part_of_the_name_of_a_server() -> None:
    """Two deployments, or two versions of the API, are different servers, since their replies may differ."""
    address, _ = RECIPES["Azure, dated"]
    names = {
        BaseURL.parse(text).public
        for text in (address, address.replace("/DEPLOYMENT?", "/OTHER?"), f"{address[:-1]}2")
    }
    assert len(names) == 3
