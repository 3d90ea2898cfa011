"""The arena scores: two systems compared with the references by a judge, and their ratings."""

import re
from math import log10

import pytest

from tests.batch_server import BatchServer
from tests.llm_server import clerk

pytestmark = pytest.mark.slow

SYSTEMS = """
@pytest.fixture(scope="session", params=["good", "bad"])
def rageval_retriever(request):
    return search if request.param == "good" else lambda query, k: search("item-9", k)
"""

GATE = (
    "@pytest.mark.rageval_threshold('arena.win@1', min=0)\n"
    "@pytest.mark.rageval_threshold('arena.win_tie@1', min=0, by='topic')\n"
    "def test_arena(): pass\n"
)


class Arena:
    """Generator: states the item's code from the passages. Judge: prefers an answer with that code, else the reference.

    For item-1 the judge always prefers the first place; for item-2 it always replies with a tie.
    """

    def __call__(self, prompt: str) -> str:
        if "Answer 1:\n" not in prompt:
            return self.explain(prompt)
        item = re.search(r"item-(\d+)\?", prompt)[1]
        first, second = (re.search(rf"^Answer {n}:\n<.*>\n(.*)$", prompt, re.MULTILINE)[1] for n in (1, 2))
        if item in {"1", "2"}:
            return f"I looked at both. <rating>{2 - int(item)}</rating>"
        better = 1 if self.merit(first, item) > self.merit(second, item) else 2
        return f"Answer {better} says more. <rating>{better}</rating>"

    @staticmethod
    def explain(prompt: str) -> str:
        match = re.search(r"the code (c\d+x)", prompt)
        return f"In short, it is {match[1]}." if match else clerk(prompt)

    @staticmethod
    def merit(answer: str, item: str) -> int:
        """Return 2 for an answer with the right code, 1 for the reference, 0 for another answer."""
        return 2 if f"it is c{item}x" in answer else int("long story" in answer)


@pytest.fixture
def arena(project, llm):
    llm.model = Arena()
    project.use(llm)
    project.evalset(4, reference="That is a long story.")
    return project


def _scores(project) -> tuple[dict[str, list[dict]], list[dict]]:
    report = project.read()
    return {test["nodeid"].partition("[")[2]: test["scores"] for test in report["tests"]}, report["ratings"]


def test_systems_are_scored_and_rated(arena):
    arena.add(SYSTEMS)
    arena.test(GATE)
    line = (
        "    arena.win@1: no answer 0.0% (0 of 4); 25.0% of 4 verdicts changed with the order, 100.0% of these for "
        "the first place (p = 1); answers won by length against the reference: as long 100.0% of 2 *"
    )
    arena.run("--rageval=both_orders=true", "--rageval-report=report.json", passed=2, shows=line)
    by_system, ratings = _scores(arena)
    assert [score["mean"] for score in by_system["bad]"]] == [0.0, 0.5]
    assert [score["mean"] for score in by_system["good]"]] == [0.5, 1.0]
    slices = by_system["bad]"][1]["by"]["slices"]
    assert {entry["value"]: entry["mean"] for entry in slices} == {"odd": 0.5, "even": 0.5}
    assert by_system["good]"][0]["examples"][0]["places"] == {"first": 1.0, "second": 0.0}
    (table,) = ratings
    apart = 400 * log10(3)
    assert {row["system"]: row["rating"] for row in table["systems"]} == pytest.approx(
        {"good@1": 1000 + apart, "reference": 1000, "bad@1": 1000 - apart}, abs=1e-4
    )


def test_battles_of_a_single_system_are_warned_of(arena):
    arena.test(GATE)
    warning = (
        "warning: test_it.py::test_arena: --rageval arena_pairs=N does nothing: this test has one system*"
    )
    arena.run("-q", "--rageval=arena_pairs=4", shows=warning)
    arena.run("--rageval=both_orders=true", "-q").stdout.no_fnmatch_line("*arena-pairs*")
    calls = "    rageval.score('arena.win@1')\n    rageval.score('arena.win@2')\n"
    arena.test(f"def test_arena(rageval):\n{calls}")
    arena.run("--rageval=arena_pairs=4").stdout.no_fnmatch_line("*does nothing*")


def test_each_answer_is_judged_once_in_one_order_or_in_both(arena, llm):
    """The second order costs one request per question; the first order's verdicts come from the cache."""
    arena.test(GATE)
    request_counts = []
    for options in ((), ("--rageval=both_orders=true",), ("--rageval=both_orders=true", "--rageval=seed=3")):
        arena.run(*options, passed=1)
        request_counts.append(len(llm.requests))
        llm.requests.clear()
    assert request_counts == [4 + 4, 4, 0]


def test_an_abstention_loses_without_being_judged(arena, llm):
    arena.lose(3)
    llm.model = lambda prompt: "I couldn't find an answer." if "item-3?" in prompt else Arena()(prompt)
    arena.test("def test_own(rageval): rageval.score('arena.win@1')\n")
    arena.run(shows=["    arena.win@1: no answer 25.0% (1 of 4); *", "    *, 1 no answer"])
    assert len(llm.requests) == 4 + 3


def test_worked_examples_are_an_option(arena, llm):
    llm.model = lambda prompt: "<rating>1</rating>" if "Answer 1:\n" in prompt else "It is long."
    arena.test("def test_own(rageval): rageval.score('arena.win@1')\n")
    arena.run(passed=1)
    llm.requests.clear()
    arena.run("--rageval=arena_examples=true", passed=1)
    prompts = [body["messages"][0]["content"] for body in llm.requests]
    assert [prompt.count("Answer 1:\n") for prompt in prompts] == [4] * 4
    llm.requests.clear()
    own = 'preference = "Answer 1:\\n{question} {first} {second}"\n'
    (arena.path / "own.toml").write_text(own, encoding="utf-8")
    arena.run("--rageval=arena_examples=true", "--rageval=prompts=own.toml", passed=1)
    assert len(llm.requests) == 4
    assert all(body["messages"][0]["content"].startswith("Answer 1:\nWhat") for body in llm.requests)


def test_three_models_judge_together(arena, llm):
    ratings = {"a": "1", "b": "2", "c": "1"}

    def votes(prompt: str) -> str:
        if "Answer 1:\n" not in prompt:
            return "It is long."
        ratings["c"] = "0" if "item-4?" in prompt else "1"
        return f"<rating>{ratings[llm.requests[-1]['model']]}</rating>"

    llm.model = votes
    arena.test("def test_own(rageval): assert rageval.score('arena.win@1') == 0.5\n")
    options = ("--rageval-judge-model=a,b,c", "--rageval=concurrency=1")
    arena.run("--rageval-plan", *options, shows=["in total", "* ≤ 16 *"])
    arena.run(
        *options,
        passed=1,
        shows=[
            "*: flip rate 100.0% (4 of 4 verdicts), minority 41.7% (5 of 12 votes)",
            "generator m1 at *, judged by a, b, c together",
        ],
    )


@pytest.mark.parametrize(("options", "max_requests"), [((), 8), (("--rageval=both_orders=true",), 12)])
def test_battles_are_planned(arena, llm, options, max_requests):
    arena.test(GATE)
    arena.run("--rageval-plan", *options, shows=["in total", f"* ≤ {max_requests} * 0 * ≤ {max_requests} *"])
    assert not llm.requests


THREE = """
@pytest.fixture(scope="session", params=["good", "bad", "even"])
def rageval_retriever(request):
    def found(query, k):
        wrong = request.param == "bad" or (request.param == "even" and int(query[-2]) % 2)
        return search("item-9" if wrong else query, k)
    return found
"""


@pytest.fixture
def three(arena):
    """Three systems and a judge for all of them; the third system finds the passages of the even ones of six items."""
    arena.add(THREE)
    arena.evalset(6, reference="That is a long story.")
    arena.test(GATE)
    return arena


def _pairs(project) -> dict[tuple[str, str], tuple[int, int, int]]:
    _, (table,) = _scores(project)
    return {
        (pair["system"], pair["opponent"]): (pair["wins"], pair["ties"], pair["losses"])
        for pair in table["pairs"]
        if pair["battles"]
    }


def test_systems_battle_each_other(three, llm):
    options = ("--rageval=both_orders=true", "--rageval-report=report.json")
    three.run(*options, passed=3)
    assert all("pairs" not in table for table in _scores(three)[1])
    requests_before = len(llm.requests)
    line = "    3 pairs of systems with 6 battles each"
    three.run(*options, "--rageval=arena_pairs=18", shows=line)
    # Each question has one right and one wrong answer; the judge compares them once in each order.
    assert len(llm.requests) - requests_before == 2 * 6
    assert _pairs(three) == {
        ("bad@1", "reference"): (0, 2, 4),
        ("even@1", "reference"): (2, 2, 2),
        ("good@1", "reference"): (4, 2, 0),
        # The judge replies with a tie for item-1 and item-2.
        ("bad@1", "good@1"): (0, 2, 4),
        ("bad@1", "even@1"): (0, 4, 2),
        ("even@1", "good@1"): (0, 4, 2),
    }
    (table,) = _scores(three)[1]
    assert [row["system"] for row in table["systems"]] == ["good@1", "even@1", "reference", "bad@1"]
    assert [row["battles"] for row in table["systems"]] == [18, 18, 18, 18]


def test_systems_battle_by_answers_of_the_same_temperature(three, llm):
    options = ("--rageval=temperature=0", "--rageval-report=report.json")
    three.run(*options, "--rageval=arena_pairs=18", passed=3)
    assert sum(_pairs(three)["bad@1", "good@1"]) == 6
    answering = [request for request in llm.requests if "Answer 1:" not in request["messages"][0]["content"]]
    assert {request["temperature"] for request in answering} == {0.0}


def test_each_eval_set_has_all_battles(three):
    three.evalset(3, "few.jsonl", reference="That is a long story.")
    mark = "pytest.mark.rageval_evalset('{}.jsonl')".format
    three.test(
        "@pytest.mark.rageval_threshold('arena.win@1', min=0)\n@pytest.mark.parametrize('n', [\n"
        f"    pytest.param(1, marks={mark('evals')}), pytest.param(2, marks={mark('few')})])\n"
        "def test_arena(n): pass\n"
    )
    three.run("--rageval=arena_pairs=9", "--rageval-report=report.json", passed=6)
    for table in _scores(three)[1]:
        between = [pair for pair in table["pairs"] if pair["opponent"] != "reference"]
        assert [pair["battles"] for pair in between] == [3, 3, 3]


def test_battles_between_systems_are_planned(three, llm):
    three.run("--rageval-plan", "--rageval=arena_pairs=7", shows=["in total", "* ≤ 41 *"])
    assert not llm.requests
    three.run("--rageval=arena_pairs=7", shows="41 replies: *")


def test_a_score_in_the_body_lets_systems_battle(three):
    three.test("def test_own(rageval): rageval.score('arena.win@1')\n")
    three.run("--rageval=arena_pairs=18", "--rageval-report=report.json", passed=3)
    assert sum(_pairs(three)["bad@1", "good@1"]) == 6


def test_systems_of_different_processes_have_no_battles(three):
    options = ("--rageval=arena_pairs=18", "--rageval-report=report.json", "-n2")
    three.run_process(
        *options,
        "--dist=load",
        shows="    no battles of *@1 and *@1*, or no process had the answers of both (*--dist loadfile)",
    )
    three.run_process(*options, "--dist=loadfile", shows="*3 pairs of systems with 6 battles each")


def test_battles_without_a_verdict_are_counted(three, llm):
    llm.model = lambda prompt: "Both." if prompt.count("In short") == 2 else Arena()(prompt)
    three.run(
        "--rageval=arena_pairs=18",
        "--rageval-report=report.json",
        passed=3,
        shows="    12 × unscored: the judge's reply is not one rating of 0, 1 or 2 in a tag: 'Both.'",
    )


def test_a_budget_that_ends_in_battles_is_an_error_beside_the_scores(three):
    three.run()
    three.run(
        "--rageval=arena_pairs=18",
        "--rageval=max_calls=2",
        "--rageval-report=report.json",
        passed=1,
        errors=2,
        shows="*The battles between systems: *",
    )
    assert all(scores[0]["mean"] is not None for scores in _scores(three)[0].values())


def test_a_run_in_shards_has_no_battles(three):
    result = three.run("--rageval=arena_pairs=18", "--rageval-shard=1/2", "--rageval-report=s.json")
    result.stderr.fnmatch_lines(["*--rageval arena_pairs=N needs the answers of all systems*leave one out.*"])


@pytest.mark.long
def test_battles_come_in_batches(project):
    with BatchServer() as server:
        server.model = Arena()
        project.use(server)
        project.add(THREE)
        project.evalset(6, reference="That is a long story.")
        project.test(GATE)
        options = (
            *("--rageval=arena_pairs=18", "--rageval-judge-model=a,b,c", "--rageval=both_orders=true"),
            "--rageval-report=report.json",
        )
        project.run_process(*options, "--rageval=cache_dir=live", passed=3)
        expected, request_count = _scores(project), len(server.live)
        server.live.clear()
        project.run_process(*options, "--rageval-batch", passed=3)
        assert _scores(project) == expected
        # A live run leaves out the third vote if the first two agree; a batch cannot know, and contains it.
        verdicts = 18 * 2
        assert sum(map(len, server.uploads)) == request_count + verdicts
        assert not server.live
