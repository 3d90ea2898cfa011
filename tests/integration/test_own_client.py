"""The fixture `rageval_client`: a user's own client for model calls."""

import importlib.util
import json

import pytest

from tests.llm_server import Cut

GATE = """
@pytest.mark.rageval_threshold("answer.correct@1", min=0.9)
def test_gate():
    pass
"""

CLIENT = """
import asyncio
import sys
from pathlib import Path

sys.path.insert(0, {root!r})
from tests.llm_server import clerk

CALLS = Path(__file__).with_name("calls.txt")

async def ask(model, messages, **parameters):
    with CALLS.open("a") as file:
        print(model, *sorted(parameters), file=file)
    return {{
        "model": "served-" + model,
        "choices": [{{"message": {{"content": clerk(messages[-1]["content"])}}, "finish_reason": "stop"}}],
        "usage": {{"prompt_tokens": 3, "completion_tokens": 1}},
    }}

@pytest.fixture(scope="session")
def rageval_client():
    return {value}
"""


@pytest.fixture
def own(project, request):
    def write(value="ask"):
        root = str(request.config.rootpath)
        project.add(CLIENT.format(root=root, value=value))

    def calls():
        file = project.path / "calls.txt"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    project.client, project.calls = write, calls
    project.test(GATE)
    return project


def test_generator_and_judge_ask_it(own):
    own.client()
    own.ini(rageval_model="m1", rageval_judge_model="j1")
    plan = own.run("--rageval-plan")
    assert not own.calls()
    plan.stdout.fnmatch_lines(["*≤ 8 *0 *≤ 8 *"])
    own.run("--rageval-report=out.json", "--rageval-cassette=tape.jsonl", "--rageval-record", passed=1)
    assert sorted(set(own.calls())) == ["j1 temperature", "m1 temperature"]
    assert len(own.calls()) == 8
    own.run(passed=1)
    own.run("--rageval-cassette=tape.jsonl", "--rageval=cache_dir=other", "--rageval-replay", passed=1)
    assert len(own.calls()) == 8
    report = (own.path / "out.json").read_text(encoding="utf-8")
    assert json.loads(report)["llm"]["live"] == 8
    assert "client:conftest.ask" in report
    assert "served-m1" in report


def test_a_role_may_have_a_client_and_the_other_a_server(own, llm):
    own.client('{"judge": ask}')
    own.use(llm)
    own.run(passed=1)
    assert own.calls() == ["m1 temperature"] * 4
    assert len(llm.requests) == 4


def test_your_own_code_can_call_the_model(own):
    own.client()
    own.ini(rageval_model="m1")
    own.test(
        "def test_it(rageval_llm):\n    assert rageval_llm.complete('item-1 has the code c1x').text == 'c1x'\n"
    )
    own.run(passed=1)
    assert own.calls() == ["m1"]


def test_without_a_model_the_error_says_what_to_name(own):
    own.client()
    own.run(
        errors=1,
        shows=[
            "The fixture rageval_client is defined, but no model is named.",
            "Name one, as the client names it, with --rageval-model NAME or in the ini file.",
        ],
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("42", "rageval_client is int, which cannot be called."),
        ("{'both': ask}", "rageval_client is a mapping with 'both'."),
        ("lambda prompt: prompt", "rageval_client is *, and is called with these arguments by name: *"),
        (
            "lambda model, messages, **_: 'yes'",
            "rageval_client (conftest.*) returned str 'yes', and not a chat *",
        ),
    ],
)
def test_what_cannot_be_used_is_one_error_without_our_frames(own, value, message):
    own.client(value)
    own.ini(rageval_model="m1")
    result = own.run(errors=1, shows=message)
    result.stdout.no_fnmatch_line("*pytest_rageval/*")


LIBRARIES = {
    "any_llm": (
        "import any_llm\nfrom functools import partial\n",
        'partial(any_llm.acompletion, provider="openai", api_base={url!r}, api_key="sk-nobody")',
        "client:any_llm.acompletion",
    ),
    "litellm": (
        "import litellm\nfrom functools import partial\n",
        'partial(litellm.acompletion, api_base={url!r}, api_key="sk-nobody", custom_llm_provider="openai")',
        "client:litellm.acompletion",
    ),
    "openai": (
        "import openai\n",
        'openai.AsyncOpenAI(base_url={url!r}, api_key="sk-nobody").chat.completions.create',
        "{url}",
    ),
}


@pytest.mark.parametrize(
    "library",
    [
        pytest.param(name, marks=[pytest.mark.slow, *([pytest.mark.long] if name == "any_llm" else [])])
        for name in LIBRARIES
    ],
)
def test_libraries_as_they_are(project, llm, library, monkeypatch):
    """The async functions of any-llm, LiteLLM and OpenAI can be used as the client without an adapter."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import_lines, value, address = (text.replace("{url!r}", repr(llm.url)) for text in LIBRARIES[library])
    source = (project.path / "conftest.py").read_text(encoding="utf-8")
    client = f"@pytest.fixture(scope='session')\ndef rageval_client():\n    return {value}\n"
    project.pytester.makeconftest(f"{import_lines}{source}\n{client}")
    project.test(GATE)
    project.ini(rageval_model="m1")
    original_model = llm.model
    llm.model = lambda prompt: Cut(original_model(prompt), "stop")
    project.run_process("--rageval-report=out.json", passed=1)
    assert len(llm.requests) == 8
    report = (project.path / "out.json").read_text(encoding="utf-8")
    assert address.replace("{url}", llm.url) in report
    assert "sk-nobody" not in report
