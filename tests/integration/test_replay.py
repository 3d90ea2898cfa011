"""`--rageval-replay`: no request is sent, and a missing reply is explained."""

import socket

import pytest

from tests.llm_server import clerk

pytestmark = pytest.mark.slow

GATE = '@pytest.mark.rageval_threshold("llm_reteval@1", min=0.9)\ndef test_gate(): pass\n'


def _record(project, llm, *arguments):
    project.use(llm)
    project.test(GATE)
    project.run(*arguments, passed=1)
    llm.requests.clear()


def test_a_replay_opens_no_socket(project, llm, monkeypatch):
    _record(project, llm)
    opened = []
    real = socket.socket.connect
    monkeypatch.setattr(socket.socket, "connect", lambda self, to: (opened.append(to), real(self, to))[1])
    project.run("--rageval-replay", passed=1)
    project.lose(2)
    project.run("--rageval-replay", errors=1)
    assert not opened
    assert not llm.requests
    # The same run without --rageval-replay opens a socket, which shows that the spy works.
    project.run()
    assert opened


def test_a_missing_reply_names_the_passage_that_changed(project, llm):
    _record(project, llm)
    project.lose(2)
    project.run(
        "--rageval-replay",
        shows=[
            "A reply of m1 is in neither the cache nor a cassette, and --rageval-replay sends no requests.",
            "The nearest recorded request differs in: passage 1 (other text).",
            "Run once without --rageval-replay to request it *",
            "It affects 1 example: q2.",
        ],
    )


def test_different_misses_have_different_messages(project, llm):
    _record(project, llm)
    project.lose(2)
    records = (project.path / "evals.jsonl").read_text(encoding="utf-8")
    (project.path / "evals.jsonl").write_text(
        records.replace("of item-4?", "now of item-4?"), encoding="utf-8"
    )
    result = project.run(
        "--rageval-replay",
        shows=[
            "The nearest recorded request differs in: passage 1 (other text).",
            "It affects 1 example: q2.",
        ],
    )
    result.stdout.fnmatch_lines(
        ["The nearest recorded request differs in: question (other text).", "It affects 1 example: q4."]
    )


def test_a_replay_needs_no_key_and_no_server(project, llm, monkeypatch):
    _record(project, llm, "--rageval-cassette=tape.jsonl.gz", "--rageval-record")
    monkeypatch.delenv("OPENAI_API_KEY")
    project.run("--rageval-replay", "--rageval-cassette=tape.jsonl.gz", "--rageval=cache_dir=empty", passed=1)
    assert not llm.requests


def test_refresh_asks_once_for_every_test_and_worker(project, llm):
    project.use(llm)
    tests = GATE + GATE.replace("test_gate", "test_again")
    parametrized = '\n@pytest.fixture(params=[1, 2], scope="session")\ndef rageval_retriever(request):\n'
    project.change('\n@pytest.fixture(scope="session")\ndef rageval_retriever():\n', parametrized)
    project.test(tests)
    project.run(passed=4)
    assert len(llm.requests) == 16
    project.run("--rageval-refresh", passed=4)
    assert len(llm.requests) == 32
    project.run_process("--rageval-refresh", "-n", "2", passed=4)
    assert len(llm.requests) == 48
    llm.model = lambda prompt: clerk(prompt) if "Answer to check" in prompt else "something new"
    project.run("--rageval-refresh", shows="16 replies: *")
    assert len(llm.requests) > 48


def test_a_baseline_is_compared_in_a_replay_at_another_address(project, llm, monkeypatch):
    """The fingerprint has the address that the replies were recorded at; without the recorded file, that of the run."""
    project.evalset(12)
    project.gate("llm_reteval@1 max_drop=0.02")
    project.use(llm)
    project.run("--rageval-cassette=tape.jsonl", "--rageval-record", "--rageval-update-baseline", passed=1)
    baseline = (project.path / "rageval_baseline.json").read_bytes()
    replay = ("--rageval-replay", "--rageval-cassette=tape.jsonl", "--rageval=cache_dir=empty")
    monkeypatch.delenv("OPENAI_API_KEY")
    for other in ("http://other.test/v1", None, llm.url):
        if other:
            monkeypatch.setenv("OPENAI_BASE_URL", other)
        else:
            monkeypatch.delenv("OPENAI_BASE_URL")
        for early_stop in ((), ("--rageval=early_stop=true",)):
            project.run(*replay, *early_stop, passed=1)
        project.run(*replay, "--rageval-update-baseline", passed=1)
        assert (project.path / "rageval_baseline.json").read_bytes() == baseline
    monkeypatch.setenv("OPENAI_BASE_URL", "http://other.test/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    recorded = ("--rageval-cassette=tape.jsonl", "--rageval=cache_dir=empty")
    project.run(*recorded, passed=1)
    monkeypatch.setenv("OPENAI_BASE_URL", llm.url.replace("127.0.0.1", "localhost"))
    project.run(*recorded, "--rageval-refresh", errors=1, shows="*was made with other settings*")


ANSWER = """
@pytest.mark.rageval_threshold("answer.em@1", max_drop=0.02)
@pytest.mark.rageval_threshold("recall@1", max_drop=0.02)
def test_gate(): pass
"""
# A slow retriever: answers are generated while others are retrieved.
COMPLETE = """
import os
import time

import httpx2

def complete(question, passages):
    time.sleep(0.05)
    prompt = question + " " + " ".join(passages) + os.environ.get("PROMPT", "")
    body = {"model": "m1", "messages": [{"role": "user", "content": prompt}]}
    reply = httpx2.post(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json=body).raise_for_status()
    return reply.json()["choices"][0]["message"]["content"]
"""
GENERATOR = """
@pytest.fixture(scope="session")
def rageval_generator():
    return lambda question, passages: complete(question, [each.text for each in passages])
"""
APPLICATION = """
from types import SimpleNamespace

from pytest_rageval import capture

del rageval_retriever
STORE = SimpleNamespace(search=search)

@pytest.fixture(scope="session")
def rageval_application():
    def ask(question):
        return complete(question, [each["text"] for each in STORE.search(question, 1)])
    with capture(STORE, "search"):
        yield ask
"""
WITHOUT_CAPTURE = """
del rageval_retriever

@pytest.fixture(scope="session")
def rageval_application():
    def ask(question):
        found = search(question, 1)
        return complete(question, [each["text"] for each in found]), found
    return ask
"""
RECORDED_IDS = "question* without a recorded reply are those of the baseline: the prompt, the model, *"
OTHER_PASSAGES = "For 1 question without a recorded reply the retriever returned other passages than in the *"
SAME_PASSAGES = f"The retrieved ids of 12 {RECORDED_IDS}"
PASS = "The scores of the rankings pass; the replies to 12 questions are to record."
UNKNOWN = (
    "What was retrieved for 1 question is not known, since the application answers and retrieves in one call: "
    'rageval.capture(index, "search") gives their rankings (docs/how-to/application.md).'
)
WORDS = "message 1 (user) ('a few words.', now 'one short sentence.')"


@pytest.mark.parametrize("code", [GENERATOR, APPLICATION], ids=["generator", "application"])
@pytest.mark.parametrize(
    "case",
    [
        ("retriever", ["It affects 1 example: q2.", OTHER_PASSAGES, "*recall@1 * 0.917 (*"]),
        ("prompt", ["It affects 12 examples: q1, *", SAME_PASSAGES, "*recall@1 * 1.000 (*"]),
    ],
)
def test_a_missing_reply_of_the_application_says_what_changed_and_leaves_the_ranking_scores(
    project, llm, monkeypatch, code, case
):
    change, lines = case
    project.use(llm)
    project.evalset(12)
    project.test(ANSWER)
    project.pytester.makeconftest(
        (project.path / "conftest.py").read_text(encoding="utf-8") + COMPLETE + code
    )
    gateway = "--rageval=gateway=true"
    project.run(gateway, "--rageval-update-baseline", passed=1)
    if change == "prompt":
        monkeypatch.setenv("PROMPT", " Be brief.")
    else:
        project.lose(2)
    result = project.run(gateway, "--rageval-replay", errors=1)
    for line in lines:
        result.stdout.fnmatch_lines([line])
    if code is APPLICATION and change == "prompt":
        result.stdout.fnmatch_lines([PASS])
    else:
        result.stdout.no_fnmatch_line("*scores of the rankings pass*")


SWALLOWED = WITHOUT_CAPTURE.replace(
    "        return complete", "        with suppress(Exception):\n            return complete"
)
SWALLOWED = "from contextlib import suppress\n" + SWALLOWED.replace(
    "    return ask", "        return '', found\n    return ask"
)


@pytest.mark.parametrize("code", [WITHOUT_CAPTURE, SWALLOWED], ids=["raised", "swallowed"])
def test_without_capture_the_rankings_of_missing_replies_are_not_compared(project, llm, code):
    project.use(llm)
    project.evalset(12)
    project.test(ANSWER)
    conftest = (project.path / "conftest.py").read_text(encoding="utf-8")
    project.pytester.makeconftest(conftest + COMPLETE + code)
    gateway = "--rageval=gateway=true"
    project.run(gateway, "--rageval-update-baseline", passed=1)
    project.lose(2)
    result = project.run(
        gateway,
        "--rageval-replay",
        errors=1,
        shows=[
            "It affects 1 example: q2.",
            UNKNOWN,
        ],
    )
    result.stdout.no_fnmatch_line("*of the baseline:*")
    result.stdout.no_fnmatch_line("*scores of the rankings pass*")


def test_a_missing_reply_names_the_words_of_the_prompt_that_changed(project, llm, monkeypatch):
    project.use(llm)
    project.test(ANSWER)
    conftest = (project.path / "conftest.py").read_text(encoding="utf-8")
    project.pytester.makeconftest(conftest + COMPLETE + APPLICATION)
    monkeypatch.setenv("PROMPT", " Answer in a few words.")
    options = "--rageval=gateway=true", "--rageval-cassette=tape.jsonl"
    record = "--rageval-record", "--rageval=record_prompts=true", "--rageval-update-baseline"
    project.run(*options, *record, passed=1)
    monkeypatch.setenv("PROMPT", " Answer in one short sentence.")
    project.run(
        *options,
        "--rageval-replay",
        "--rageval=cache_dir=empty",
        shows=[
            f"The nearest recorded request differs in: {WORDS}.",
            "*",
            "It affects 4 examples: q1, q2, q3, q4.",
        ],
    )


def test_a_missing_reply_of_the_application_is_an_error_of_ranking_scores_alone(project, llm, monkeypatch):
    project.use(llm)
    project.test('@pytest.mark.rageval_threshold("recall@1", min=0.5)\ndef test_gate(): pass\n')
    conftest = (project.path / "conftest.py").read_text(encoding="utf-8")
    project.pytester.makeconftest(conftest + COMPLETE + APPLICATION)
    project.run("--rageval=gateway=true", passed=1)
    monkeypatch.setenv("PROMPT", " Be brief.")
    result = project.run(
        "--rageval=gateway=true", "--rageval-replay", errors=1, shows="It affects 4 examples: q1, q2, q3, q4."
    )
    result.stdout.fnmatch_lines(["*pass *recall@1 * 1.000 *"])
    result.stdout.fnmatch_lines(
        ["warning: *4 questions without a recorded reply: the rankings are of the searches *"]
    )
