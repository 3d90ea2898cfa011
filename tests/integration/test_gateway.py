"""Model calls inside the user's application, through the gateway: cached, limited, counted and replayed."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

import pytest

pytest.importorskip("uvicorn", reason="the extra gateway is not installed")
pytest.importorskip("starlette", reason="the extra gateway is not installed")

from pytest_rageval.cli import main
from tests.openai_server import OpenAIServer

GATE = '@pytest.mark.rageval_threshold("answer.em@1", min=0.9)\ndef test_gate(): pass\n'

# The client is created at import, before any fixture; environment variables direct it to the gateway.
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
    with OpenAIServer() as server:
        yield server


@pytest.fixture
def application(project, monkeypatch, upstream):
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
    return project.read("out.json")["llm"]


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


# Its import takes a tenth of the time of a client library's.
PLAIN_HTTP = """
import os
import httpx2

@pytest.fixture(scope="session")
def rageval_generator():
    def generate(question, passages):
        prompt = question + " " + " ".join(passage.text for passage in passages)
        response = httpx2.post(
            os.environ["OPENAI_BASE_URL"] + "/chat/completions",
            json={"model": "m1", "messages": [{"role": "user", "content": prompt}]},
            headers={"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
        )
        return response.json()["choices"][0]["message"]["content"]
    return generate
"""


@pytest.fixture(scope="session")
def llama_index(tmp_path_factory):
    """A folder with LlamaIndex's OpenAI client, which requires an earlier `openai` than other packages of the tests."""
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    folder = tmp_path_factory.mktemp("llama_index")
    with suppress(PackageNotFoundError):
        version("llama-index-llms-openai")
        return folder
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
    command = [*install, "llama-index-llms-openai>=0.8"]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("no package index can be reached")
    return folder


CASES = [
    "openai",
    pytest.param("openai streams", marks=[pytest.mark.slow, pytest.mark.long]),
    pytest.param("langchain", marks=[pytest.mark.slow, pytest.mark.long]),
    pytest.param("llamaindex", marks=[pytest.mark.slow, pytest.mark.long]),
]


@pytest.fixture(params=CASES)
def client(request, monkeypatch):
    name = request.param
    if name == "langchain":
        pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    if name == "llamaindex":
        monkeypatch.setenv("PYTHONPATH", str(request.getfixturevalue("llama_index")))
    # An async client that is not closed ends only with its process.
    return CLIENTS[name], name != "openai"


@pytest.mark.slow
def test_a_second_run_asks_nothing_and_a_replay_needs_no_server(application, upstream, client, monkeypatch):
    code, alone = client
    project = application(code, rageval_gateway="true", rageval_cassette="replies.jsonl")
    run = project.run_process if alone else project.run
    run("--rageval-report=out.json", "--rageval-record").assert_outcomes(passed=1)
    assert len(upstream.requests) == 4
    assert upstream.keys == {"Bearer sk-secret-of-the-user"}
    assert _usage(project)["live"] == 4
    assert "secret" not in (project.path / "replies.jsonl").read_text(encoding="utf-8")
    run("--rageval-report=out.json").assert_outcomes(passed=1)
    assert len(upstream.requests) == 4
    assert (_usage(project)["live"], _usage(project)["failed"]) == (0, 0)
    upstream.stop()
    # On a build server neither the key nor the address is set.
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name)
    result = run("--rageval-replay", "--rageval=cache_dir=empty", "--rageval-report=out.json")
    result.assert_outcomes(passed=1)
    assert _usage(project)["live"] == 0


@pytest.mark.slow
def test_workers_pay_once(application, upstream, monkeypatch):
    """Each worker has its own gateway, which calls the real server and not the controller's gateway."""
    upstream.latency_s = 0.3
    project = application(PLAIN_HTTP, rageval_gateway="true", rageval_cassette="replies.jsonl")
    project.test("".join(GATE.replace("test_gate", f"test_{number}") for number in range(4)))
    project.run_process("-n", "2", "--rageval-record", "--rageval-report=out.json", passed=4)
    assert len(upstream.requests) == 4
    assert _usage(project)["live"] == 4
    assert list(_usage(project)["servers"]) == [upstream.url]
    upstream.stop()
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name)
    project.run_process("-n", "2", "--rageval-replay", "--rageval=cache_dir=empty", passed=4)


@pytest.mark.slow
def test_a_client_that_bypasses_the_gateway_is_warned_of(application, upstream):
    """Its replies are neither cached nor counted, and a replay would send live requests. Also with -q."""
    direct = f'openai.OpenAI(base_url="{upstream.url}", max_retries=0)'
    project = application(OPENAI.replace("openai.OpenAI(max_retries=0)", direct), rageval_gateway="true")
    for arguments in ((), ("-q",), ("-q", "--rageval-record", "--rageval-cassette=replies.jsonl")):
        result = project.run(*arguments)
        assert result.ret == 0
        result.stdout.fnmatch_lines(["warning: *no request of your application came to it*"])
    result_with_gateway = application(rageval_gateway="true").run("--rageval-refresh")
    result_with_gateway.stdout.fnmatch_lines(["4 replies: 0 cached, 4 live, *"])
    result_with_gateway.stdout.no_fnmatch_line("*your own function*")
    result_with_gateway.stdout.no_fnmatch_line("*came to it*")


PLAIN = """
def ask(n):
    messages = [{"role": "user", "content": f"item-{n} has the code c{n}x. What is the code of item-{n}?"}]
    return CLIENT.chat.completions.create(model="m1", messages=messages).choices[0].message.content

from conftest import CLIENT

def test_one(): assert ask(1) == "c1x"
def test_two():
    if ask(2) != "c2x": pytest.skip("it does not answer")
    assert ask(3) == "c3x"
def test_three(): assert ask(4)
def test_four(): pass
"""


def test_a_plan_counts_tests_that_only_call_the_application(application, upstream):
    project = application(rageval_gateway="true")
    project.test(PLAIN)
    plan = project.run("--rageval-plan", skipped=4)
    assert not upstream.requests
    rows = plan.outlines
    assert rows[rows.index("in total") + 1].split()[:3] == ["3", "0", "3"]
    plan.stdout.fnmatch_lines(
        [
            "2 tests could not be planned to the end; requests after these places are not counted:",
            "  test_it.py::test_one: line *, AssertionError*",
            "  test_it.py::test_two: line *, Skipped: it does not answer",
        ]
    )
    project.run(passed=4)
    assert len(upstream.requests) == 4


CALLING = """
import os
import openai

def test_own(rageval_gateway):
    client = openai.OpenAI(base_url=rageval_gateway.url, api_key="of the application", max_retries=0)
    messages = [{"role": "user", "content": "item-1 has the code c1x. What is the code of item-1?"}]
    for _ in range(2):
        reply = client.chat.completions.create(model="m1", messages=messages)
    assert reply.choices[0].message.content == "c1x"
    assert "OPENAI_API_BASE" not in os.environ
"""


def test_the_fixture_alone_leaves_the_environment_as_it_is(application, upstream):
    project = application(code="")
    project.test(CALLING)
    project.run("--rageval-report=out.json", passed=1)
    assert len(upstream.requests) == 1
    assert _usage(project)["live"] == 1


def _environment():
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


def test_the_environment_is_restored_after_a_run(application, upstream):
    project = application(rageval_gateway="true")
    before = _environment()
    project.run(passed=1)
    assert _environment() == before
    # A run that ends with a usage error.
    assert project.run("-o", "rageval_modle=m1").ret == 4
    assert _environment() == before
    assert len(upstream.requests) == 4


def test_a_usage_error_comes_before_the_conftest_that_needs_the_gateway(application, monkeypatch):
    """Without the gateway its client has no key: that error would hide the one of the option."""
    project = application(rageval_gateway="true")
    monkeypatch.delenv("OPENAI_API_KEY")
    result = project.run("--rageval-drop-unused")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["ERROR: *Only a run with --rageval-record uses --rageval-drop-unused*"])
    result.stderr.no_fnmatch_line("*conftest*")


def test_prompts_in_the_ini_file_are_recorded_by_the_runs_that_record(application, monkeypatch):
    """In a run that does not record, the key is neither an error, nor does it write prompts to the cache."""
    cassette = "--rageval-cassette=tape.jsonl"
    project = application(rageval_gateway="true", rageval_record_prompts="true", rageval_model="m1")
    project.run(passed=1)
    cached = project.path.glob(".rageval_cache/**/*.*")
    assert not any(b"What is the code" in path.read_bytes() for path in cached)
    project.run(cassette, "--rageval-record", passed=1)
    assert "What is the code" in (project.path / "tape.jsonl").read_text(encoding="utf-8")
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("CI", "true")
    project.run(cassette, "--rageval-replay", "--rageval=cache_dir=empty", passed=1)


def test_the_settings_do_not_name_the_gateway_as_the_users_server(application, monkeypatch, capsys):
    project = application(rageval_gateway="true")
    monkeypatch.chdir(project.path)
    for url in (os.environ["OPENAI_BASE_URL"], ""):
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        assert main(["settings", "--json"]) == 0
        rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
        assert rows["base_url"]["value"] == url
        assert rows["base_url"]["source"] == ("environment (OPENAI_BASE_URL)" if url else "default")


FALLBACK = """
import openai

CLIENT = openai.OpenAI(max_retries=0)

@pytest.fixture(scope="session")
def rageval_generator():
    def generate(question, passages):
        messages = [{"role": "user", "content": question}]
        try:
            return CLIENT.chat.completions.create(model="m1", messages=messages).choices[0].message.content
        except openai.OpenAIError:
            return "c1x"
    return generate
"""

CONCURRENT_FALLBACK = (
    FALLBACK.replace("openai.OpenAI(", "openai.AsyncOpenAI(")
    .replace("def generate", "async def generate")
    .replace("return CLIENT.chat.completions.create(", "return (await CLIENT.chat.completions.create(")
    .replace("messages=messages).", "messages=messages)).")
)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--rageval-replay", "*--rageval-replay sends no requests*"),
        ("--rageval=max_calls=0", "*max_calls=0 is reached*"),
    ],
)
@pytest.mark.parametrize(
    "asynchronous", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.long])]
)
def test_what_the_application_says_without_its_model_is_not_scored(
    application, upstream, option, message, asynchronous
):
    project = application(CONCURRENT_FALLBACK if asynchronous else FALLBACK, rageval_gateway="true")
    gate = '@pytest.mark.rageval_threshold("answer.{0}@1", min=0.1)\ndef test_{0}(): pass\n\n'.format
    project.test(gate("em") + gate("f1"))
    # An async client that is not closed ends only with its process.
    result = (project.run_process if asynchronous else project.run)(option)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines([message])
    assert not upstream.requests
    affected = {line for line in result.outlines if "It affects" in line}
    assert affected == {"It affects 4 examples: q1, q2, q3, q4."}


def test_a_client_of_the_users_own_does_not_ask_the_gateway(application, upstream):
    code = "import openai\n\n@pytest.fixture(scope='session')\ndef rageval_client():\n"
    project = application(
        f"{code}    return openai.AsyncOpenAI().chat.completions.create\n", rageval_gateway="true"
    )
    project.run(
        "--rageval-model=m1",
        errors=1,
        shows=["*The gateway would send requests to itself*", "*base_url of your client*"],
    )
    assert not upstream.requests


@pytest.mark.slow
def test_a_call_before_the_session_is_an_error(application, upstream):
    """A model call while a conftest is imported is an error, not a hang, since such a call cannot be counted."""
    early = 'CLIENT.chat.completions.create(model="m1", messages=[{"role": "user", "content": "early"}])\n'
    head, _, rest = OPENAI.partition("@pytest.fixture")
    project = application(f"{head}{early}@pytest.fixture{rest}", rageval_gateway="true")
    result = project.run_process()
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*this call came while a conftest or a plugin was imported*"])
    assert not upstream.requests


@pytest.mark.slow
@pytest.mark.usefixtures("upstream")
def test_no_key_is_in_any_file_or_output(application):
    project = application(OPENAI.replace('model="m1"', 'model=["m1"]'), rageval_gateway="true")
    options = ("--showlocals", "--rageval-report=out.json", "-vv", "--log-level=DEBUG")
    result = project.run(*options, "--rageval-cassette=replies.jsonl", "--rageval-record", errors=1)
    application(rageval_gateway="true")
    project.run(*options, "--rageval-cassette=replies.jsonl", "--rageval-record", passed=1)
    texts = [str(result.stdout), str(result.stderr)]
    files = [path for path in project.path.rglob("*") if path.is_file()]
    assert any(path.name == "replies.sqlite" for path in files)
    assert not [path for path in files if b"sk-secret" in path.read_bytes()]
    assert "sk-secret" not in "".join(texts)


COMMAND = """
import sys
import openai

stream = openai.OpenAI().chat.completions.create(
    model="m1", messages=[{"role": "user", "content": "item-1 has the code c1x. What is item-1?"}], stream=True
)
print("".join(part.choices[0].delta.content or "" for part in stream))
sys.exit(3)
"""


def _command(folder, *arguments, **env):
    (folder / "app.py").write_text(COMMAND, encoding="utf-8")
    command = [sys.executable, "-m", "pytest_rageval", "gateway", *arguments, "--", sys.executable, "app.py"]
    where = {"cwd": folder, "env": {**os.environ, **env}}
    return subprocess.run(command, **where, check=False, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_the_model_calls_of_a_command_are_cached_and_replayed(tmp_path, upstream):
    record = ("--cassette=replies.jsonl", "--record")
    done = _command(tmp_path, *record, OPENAI_BASE_URL=upstream.url, OPENAI_API_KEY="sk-secret-of-the-user")
    assert (done.returncode, done.stdout) == (3, "c1x\n")
    assert "1 reply: 0 cached, 1 live, 7 tokens in, 3 out" in done.stderr
    assert "1 reply used, 1 of them new" in done.stderr
    assert upstream.keys == {"Bearer sk-secret-of-the-user"}
    upstream.stop()
    done = _command(tmp_path, "--replay", "--cassette=replies.jsonl", "--cache-dir=empty")
    assert (done.returncode, done.stdout) == (3, "c1x\n")
    assert "1 reply: 1 cached, 0 live" in done.stderr
    done = _command(tmp_path, "--replay", "--cache-dir=nothing")
    assert done.returncode == 1
    assert "is in neither the cache nor a cassette" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
def test_a_signal_is_passed_on_to_the_command(tmp_path):
    code = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); print(1, flush=True); time.sleep(60)"
    command = [sys.executable, "-m", "pytest_rageval", "gateway", "--", sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"1\n"
        process.terminate()
        assert process.wait(60) == 7


def test_a_command_that_cannot_be_run_is_named(command):
    for words, message in ((), "No command is named"), (("no-such",), "cannot be run"):
        done = command("gateway", "--", *words)
        assert (done.status, message in done.err) == (2, True)
