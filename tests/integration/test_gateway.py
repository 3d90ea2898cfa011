"""Model calls inside the user's application, through the gateway: kept, limited, counted and replayed."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("starlette", reason="the extra gateway is not installed")

from tests.openai_server import OpenAIServer

GATE = '@pytest.mark.rageval_threshold("answer.em@1", min=0.9)\ndef test_gate(): pass\n'

# Made at import, before any fixture, as applications do; the environment leads it to the gateway.
OPENAI = """
import openai

CLIENT = openai.OpenAI(max_retries=0)

@pytest.fixture(scope="session")
def rageval_generator():
    def generate(question, passages):
        prompt = question + " " + " ".join(passage.text for passage in passages)
        messages = [{"role": "user", "content": prompt}]
        return CLIENT.chat.completions.create(model="m1", messages=messages).choices[0].message.content
    return generate
"""


@pytest.fixture
def upstream() -> Iterator[OpenAIServer]:
    """A running server with the scripted model."""
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def application(project, monkeypatch, upstream):
    """A project whose generator asks a model by a client of its own."""

    def write(code=OPENAI, **ini):
        source = (project.path / "conftest.py").read_text(encoding="utf-8").partition("\n# own\n")[0]
        project.pytester.makeconftest(source + "\n# own\n" + code)
        project.test(GATE)
        project.ini(**ini)
        monkeypatch.setenv("OPENAI_BASE_URL", upstream.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-user")
        return project

    return write


def _usage(project):
    return json.loads((project.path / "out.json").read_text(encoding="utf-8"))["llm"]


CLIENTS = {
    "openai": OPENAI,
    "openai streams": """
import openai

CLIENT = openai.AsyncOpenAI(max_retries=0)

@pytest.fixture(scope="session")
def rageval_generator():
    async def generate(question, passages):
        prompt = question + " " + " ".join(passage.text for passage in passages)
        messages = [{"role": "user", "content": prompt}]
        stream = await CLIENT.chat.completions.create(model="m1", messages=messages, stream=True)
        return "".join([part.choices[0].delta.content or "" async for part in stream])
    return generate
""",
    "langchain": """
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI

CHAIN = ChatPromptTemplate.from_messages([("user", "{question} {context}")]) | ChatOpenAI(model="m1")

@pytest.fixture(scope="session")
def rageval_generator():
    def generate(question, passages):
        given = {"question": question, "context": " ".join(map(str, passages))}
        whole = CHAIN.invoke(given).content
        assert "".join(part.content for part in CHAIN.stream(given)) == whole
        return whole
    return generate
""",
    "llamaindex": """
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai import OpenAI

LLM = OpenAI(model="gpt-4o-mini")

@pytest.fixture(scope="session")
def rageval_generator():
    def generate(question, passages):
        messages = [ChatMessage(role="user", content=question + " " + " ".join(map(str, passages)))]
        whole = LLM.chat(messages).message.content
        assert "".join(part.delta for part in LLM.stream_chat(messages)) == whole
        return whole
    return generate
""",
}


@pytest.fixture(scope="session")
def llama_index(tmp_path_factory):
    """A folder with LlamaIndex's OpenAI client, which asks for an earlier `openai` than this package does."""
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    folder = tmp_path_factory.mktemp("llama_index")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
    if subprocess.run(
        [*install, "llama-index-llms-openai>=0.8"], check=False, capture_output=True
    ).returncode:
        pytest.skip("no package index can be reached")
    return folder


CASES = [
    "openai",
    pytest.param("openai streams", marks=pytest.mark.slow),
    pytest.param("langchain", marks=pytest.mark.slow),
    pytest.param("llamaindex", marks=pytest.mark.slow),
]


@pytest.fixture(params=CASES)
def client(request, monkeypatch):
    """The code of a generator with a client of its own."""
    name = request.param
    if name == "langchain":
        pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    if name == "llamaindex":
        monkeypatch.setenv("PYTHONPATH", str(request.getfixturevalue("llama_index")))
    return CLIENTS[name]


def test_a_second_run_asks_nothing_and_a_replay_needs_no_server(application, upstream, client, monkeypatch):
    """A client made when the conftest is imported is led to the gateway; the cassette has what it needs in CI."""
    project = application(client, rageval_gateway="true", rageval_cassette="replies.jsonl")
    project.run_process("--rageval-report=out.json", "--rageval-record").assert_outcomes(passed=1)
    assert len(upstream.requests) == 4
    assert upstream.keys == {"Bearer sk-secret-of-the-user"}
    assert _usage(project)["live"] == 4
    assert "secret" not in (project.path / "replies.jsonl").read_text(encoding="utf-8")
    project.run_process("--rageval-report=out.json").assert_outcomes(passed=1)
    assert len(upstream.requests) == 4
    assert (_usage(project)["live"], _usage(project)["failed"]) == (0, 0)
    upstream.stop()
    # As on a build server: no key, and another address.
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name)
    result = project.run_process("--rageval-replay", "--rageval-cache-dir=empty", "--rageval-report=out.json")
    result.assert_outcomes(passed=1)
    assert _usage(project)["live"] == 0
