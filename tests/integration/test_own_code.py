"""`rageval_llm` and `cached`: the user's own code uses the cache, the limits and the budget."""

import pytest

pytestmark = pytest.mark.slow

GATE = '@pytest.mark.rageval_threshold("answer.em@1", min=0.9)\ndef test_gate(): pass\n'

SYNC = """
@pytest.fixture(scope="session")
def rageval_generator(rageval_llm):
    def generate(question, passages):
        prompt = question + " " + " ".join(passage.text for passage in passages)
        return rageval_llm.complete([{"role": "user", "content": prompt}], temperature=0).text
    return generate
"""

ASYNC = """
@pytest.fixture(scope="session")
def rageval_generator(rageval_llm):
    async def generate(question, passages):
        reply = await rageval_llm.acomplete(f"{question} {passages[0]}", model="m7")
        return reply.text
    return generate
"""

CACHED = """
CALLS = []

@pytest.fixture(scope="session")
def rageval_generator(rageval_llm):
    def generate(question, passages):
        CALLS.append(question)
        return passages[0].text.split()[-1].rstrip(".")
    yield rageval_llm.cached(generate, version="VERSION")
    print("calls:", len(CALLS))
"""

PLAIN = """
@pytest.fixture(scope="session")
def rageval_generator():
    return lambda question, passages: passages[0].text.split()[-1].rstrip(".")
"""


def _with(project, code):
    source = (project.path / "conftest.py").read_text(encoding="utf-8").partition("\n# own\n")[0]
    project.pytester.makeconftest(source + "\n# own\n" + code)


@pytest.mark.parametrize("generator", [SYNC, ASYNC])
def test_a_generator_of_the_users_is_cached_through_the_client(project, llm, generator):
    project.use(llm)
    _with(project, generator)
    project.test(GATE)
    project.run(
        "--rageval=max_calls=2", errors=1, shows="--rageval max_calls=2 is reached: 2 calls were made."
    )
    project.run(passed=1)
    assert len(llm.requests) == 4
    project.run("--rageval-replay", passed=1)
    assert len(llm.requests) == 4


def test_the_client_asks_from_a_test_too(project, llm):
    """A test can call `rageval_llm` in its own thread and in its own event loop; equal requests are sent once."""
    project.use(llm)
    project.test(
        "import asyncio\n"
        "def test_own(rageval_llm):\n"
        "    reply = rageval_llm.complete('item-1 has the code c1x', max_tokens=5)\n"
        "    assert (reply.text, reply.finish_reason) == ('c1x', 'stop')\n"
        "    assert asyncio.run(rageval_llm.acomplete('item-1 has the code c1x', max_tokens=5)) == reply\n"
        "    rageval_llm.complete('item-1 has the code c1x', max_tokens=5, sample=1)\n"
    )
    project.run(passed=1)
    assert [body["max_tokens"] for body in llm.requests] == [5, 5]


def test_what_does_not_belong_to_a_request_is_refused(project, llm):
    project.use(llm)
    project.test("def test_own(rageval_llm):\n    rageval_llm.complete('hello', n=3)\n")
    project.run(
        shows="*InputError: rageval_llm.complete() does not take 'n': ask with sample=0, 1, 2 * instead."
    )


def test_a_cached_function_is_called_once_for_a_version(project):
    project.test(GATE)
    for version, calls in (("1", 4), ("1", 0), ("2", 4)):
        _with(project, CACHED.replace("VERSION", version))
        result = project.run("-s", passed=1, shows=f"*calls: {calls}")
        result.stdout.no_fnmatch_line("*your own function*")


def test_workers_call_a_cached_function_once(project):
    (project.path / "calls").write_text("", encoding="utf-8")
    _with(
        project,
        CACHED.replace("VERSION", "1").replace(
            "CALLS.append(question)", f"open({str(project.path / 'calls')!r}, 'a').write(question + chr(10))"
        ),
    )
    project.test("".join(GATE.replace("test_gate", f"test_{n}") for n in range(4)))
    project.run_process("-n", "2", passed=4)
    assert len((project.path / "calls").read_text(encoding="utf-8").splitlines()) == 4


def test_without_a_version_results_are_cached_for_the_run_and_the_report_says_so(project):
    _with(project, PLAIN)
    project.test(GATE)
    project.run(
        shows="4 × answers of rageval_generator, your own function, are cached within this run only *cached caches*"
    )


def test_a_test_caches_a_function_of_its_own(project):
    project.test(
        "def test_own(rageval):\n"
        "    calls = []\n"
        "    def expensive(document):\n"
        "        calls.append(document)\n"
        "        return {'words': len(document.text.split())}\n"
        "    count = rageval.cached(expensive, version='1')\n"
        "    found = rageval.retrieve('What is the code of item-1?', k=2)\n"
        "    assert count(found[0]) == count(found[0]) == {'words': 8}\n"
        "    assert len(calls) <= 1\n"
    )
    project.run(passed=1)
    project.run(passed=1)


def test_a_recorded_function_replays(project):
    _with(project, CACHED.replace("VERSION", "1"))
    project.test(GATE)
    project.run("--rageval-cassette=tape.jsonl", "--rageval-record", passed=1)
    replay = ("--rageval-cassette=tape.jsonl", "--rageval=cache_dir=empty", "--rageval-replay")
    project.run(*replay, passed=1)
    _with(project, CACHED.replace("VERSION", "2"))
    project.run(*replay, errors=1, shows="A result of *generate@2 is in neither the cache nor a cassette, *")


def test_what_only_the_users_own_code_asks_is_in_the_report_and_in_the_plan(project, llm):
    project.use(llm)
    _with(
        project,
        """
@pytest.fixture(scope="session")
def warmed(rageval_llm):
    return rageval_llm.complete("item-2 has the code c2x").text
""",
    )
    project.test(
        "def test_own(rageval_llm, warmed):\n    assert rageval_llm.complete('item-1 has the code c1x').text\n"
    )
    project.run("--rageval-plan", skipped=1, shows=["in total", "*2 * 0 * 2 *"])
    assert not llm.requests
    project.run("--rageval-report=out.json", passed=1, shows="2 replies: 0 cached, 2 live, *")


def test_what_is_asked_is_frozen(project, llm):
    project.use(llm)
    llm.latency_s = 0.1
    project.test(
        "import asyncio\n"
        "def test_own(rageval_llm):\n"
        "    async def main():\n"
        "        messages = [{'role': 'user', 'content': 'item-1 has the code c1x'}]\n"
        "        asking = [asyncio.ensure_future(rageval_llm.acomplete(messages, seed=n)) for n in range(3)]\n"
        "        await asyncio.sleep(0)\n"
        "        messages[0]['content'] = 'item-2 has the code c2x'\n"
        "        return [reply.text for reply in await asyncio.gather(*asking)]\n"
        "    assert asyncio.run(main()) == ['c1x'] * 3\n"
    )
    project.run("--rageval=concurrency=1", passed=1)


def test_a_plan_needs_no_workers(project, llm):
    """--rageval-plan with workers is a usage error, since workers would count shared requests several times."""
    project.use(llm)
    project.test(GATE)
    result = project.run_process("--rageval-plan", "-n2")
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*--rageval-plan sends no requests and needs no workers: add -n0."])
