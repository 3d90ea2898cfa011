"""`--rageval-repeat N`: the spread of a score over repeated calls of generator and judge."""

import re
from collections import Counter

import pytest

from pytest_rageval.baseline import Baseline
from tests.llm_server import clerk

pytestmark = pytest.mark.slow

# With one request at a time the server's answers are in the order of the runs.
REPEAT = ("--rageval-repeat=3", "--rageval=concurrency=1")
GATE = '@pytest.mark.rageval_threshold("{spec}", {bounds})\ndef test_gate(): pass\n'

COUNTED = """
ASKED = []

@pytest.fixture(scope="session")
def rageval_retriever():
    def counted(query, k):
        ASKED.append(query)
        return search(query, k)
    yield counted
    print("the retriever was asked", len(ASKED), "times")
"""

OWN = """
@pytest.fixture(scope="session")
def rageval_generator():
    said = []
    def generate(question, passages):
        said.append(question)
        return f"answer {len(said)}"
    yield generate
    print("the generator was asked", len(said), "times")

class Judge:
    asked = 0
    def compare(self, question, references, prediction):
        Judge.asked += 1
        return Judge.asked <= 3  # an odd number: no two runs share it evenly, in whatever order they ask

@pytest.fixture(scope="session")
def rageval_judge():
    yield Judge()
    print("the judge was asked", Judge.asked, "times")
"""


class Waverer:
    """Answer as the clerk does, except that the question on item 1 gets the given answers in turn."""

    def __init__(self, *said: str) -> None:
        self.said = said
        self.asked: Counter[str] = Counter()

    def __call__(self, prompt: str) -> str:
        self.asked[prompt] += 1
        wavers = "item-1?" in prompt and "Answer to check" not in prompt
        return self.said[self.asked[prompt] - 1] if wavers else clerk(prompt)


def test_the_spread_of_the_runs_is_shown_with_the_interval(project, llm):
    """The spread of the runs is in the table and the report."""
    llm.model = Waverer("c1x", "wrong", "c1x", "wrong")
    project.use(llm)
    project.add(COUNTED)
    project.test(GATE.format(spec="answer.em@1", bounds="min=0.9"))
    warning = (
        "warning: test_it.py::test_gate: answer.em@1: min 0.9 is a coin toss: it is so close to 0.917, the mean of "
        "3 runs, that about 1 in 2 reruns would be on its other side; with a larger --rageval-repeat, fewer"
    )
    for live, arguments in ((12, REPEAT), (0, (*REPEAT, "-q"))):
        llm.requests.clear()
        result = project.run(*arguments, "-s", "--rageval-report=report.json", passed=1)
        assert len(llm.requests) == live
        assert warning in result.outlines
        # The retriever is called once for each question, whatever the number of runs.
        result.stdout.fnmatch_lines(["*the retriever was asked 4 times"])
        (test,) = project.read()["tests"]
        (score,) = test["scores"]
        # Means of 1, 0.75 and 1: a standard deviation of sqrt(1/48).
        assert (score["mean"], score["spread"], score["runs"]) == (11 / 12, pytest.approx(48**-0.5), 3)
        assert score["warnings"] == [warning.partition("answer.em@1: ")[2]]
    project.run(*REPEAT, shows="    answer.em@1: run-to-run spread 0.144 over 3 runs")

    llm.requests.clear()
    # A single run reuses the first of the three, and four runs reuse all three.
    project.run("--rageval=concurrency=1").stdout.no_fnmatch_line("*run-to-run*")
    assert not llm.requests
    project.run("--rageval-repeat=4", "--rageval=concurrency=1", shows="*spread 0.144 over 4 runs")
    assert len(llm.requests) == 4


def test_the_spread_is_in_the_failure(project, llm):
    """The failure shows the spread within eighty columns, and its verdict is on the mean of all runs."""
    llm.model = Waverer("wrong", "c1x", "c1x")
    project.use(llm)
    project.test(GATE.format(spec="answer.em@1", bounds="min=0.95"))
    project.run(
        "-v",
        *REPEAT,
        failed=1,
        shows=[
            "answer.em@1: 0.917 is below the minimum 0.95: *",
            "answer.em@1 = 0.917 (95% interval *, run-to-run spread 0.144 over 3",
            "  runs, n = 4)",
            "warning: test_it.py::test_gate: answer.em@1: min 0.95 is a coin toss: * about 1 in 3 reruns would be on *",
        ],
    )


def test_slices_have_a_spread_of_their_own(project, llm):
    """Each slice has its own spread: 0 for the even questions, and twice that of all questions for the odd ones."""
    llm.model = Waverer("c1x", "wrong", "c1x")
    project.use(llm)
    project.test(GATE.format(spec="answer.em@1", bounds='min=0.1, by="topic"'))
    project.test(
        "def test_own(rageval):\n"
        "    score = rageval.score('answer.em@1')\n"
        "    print('spread', score.where(topic='even').spread, round(score.where(topic='odd').spread, 4))\n"
        "    print('ranking', rageval.score('recall@1').spread)\n"
    )
    project.run(*REPEAT, "-s", shows=["*spread 0.0 0.2887", "ranking None"])


@pytest.mark.parametrize(
    ("spec", "options", "once"),
    [
        ("recall@1", (), 0),
        ("answer.em@1", (), 4),
        ("answer.correct@1", (), 4 + 4),
        # The first two of three votes are equal.
        ("answer.correct@1", ("--rageval=judge_votes=3",), 4 + 8),
        ("llm_reteval@1", (), 12 + 4),
        ("erag.p@2", ("--rageval=comparator=em",), 8),
        ("relevance.p@2", (), 8),
        ("rel.answer@1", (), 4),
        # A judge labels the passages of the prompt, or, for scores over Rel, the passages of the pool.
        ("rel_recall.citation@1 judge@2", (), 4 + 4),
        ("rel.citation@1 judge@2", (), 8 + 4),
        ("rel.coverage@1 judge@2", (), 8),
    ],
)
def test_generator_and_judge_are_asked_again(project, llm, spec, options, once):
    project.use(llm)
    spec, _, relevant = spec.partition(" ")
    project.test(GATE.format(spec=spec, bounds="min=0" + (f", relevant={relevant!r}" if relevant else "")))
    if spec.startswith("relevance") or relevant:
        llm.model = lambda _: "yes"
    options = ("--rageval-repeat=2", *options)
    plan = project.run("--rageval-plan", *options)
    assert not llm.requests
    project.run(*options, passed=1)
    assert len(llm.requests) == 2 * once
    if once:
        # Each prompt is sent twice: a cached reply of the first run would not be an independent second one.
        counts = Counter(llm.prompts)
        assert all(count % 2 == 0 for count in counts.values())
        planned = re.split(r" {2,}", plan.outlines[plan.outlines.index("in total") + 1].strip())[0]
        # Answers are judged right or wrong only if LLM-retEval disagrees with recall, which a plan cannot know.
        more = 2 * 12 if spec == "llm_reteval@1" else 0
        # The third vote is asked for if the first two differ.
        more += 2 * 4 if "--rageval=judge_votes=3" in options else 0
        assert int(planned.removeprefix("≤ ")) == 2 * once + more
    llm.requests.clear()
    project.run(*options, passed=1)
    project.run(*options, "--rageval-replay", passed=1)
    assert not llm.requests


def test_the_users_own_parts_are_simply_called_again(project):
    project.add(OWN)
    project.test(GATE.format(spec="answer.correct@1", bounds="min=0"))
    project.run(
        "--rageval-repeat=2",
        "-s",
        "--rageval-report=report.json",
        shows=["*the judge was asked 8 times", "*the generator was asked 8 times"],
    )
    (test,) = project.read()["tests"]
    assert test["scores"][0]["spread"] > 0


class Flipper:
    def __init__(self, *items: int) -> None:
        self.items = items
        self.asked: Counter[str] = Counter()

    def __call__(self, prompt: str) -> str:
        self.asked[prompt] += 1
        flips = self.asked[prompt] == 1 and any(f"item-{n}?" in prompt for n in self.items)
        return "wrong" if flips else clerk(prompt)


def _kept(project):
    tests = Baseline.read(project.path / "rageval_baseline.json").tests
    return tests["test_it.py::test_gate"]["scores"]["answer.em@1"]


def test_the_means_of_all_runs_are_compared_and_written(project, llm):
    """Means of .80, 1, 1, 1 and 1 against a baseline of 1.00: the mean dropped by 0.04, not by 0.20."""
    project.use(llm)
    project.evalset(20)
    project.test(GATE.format(spec="answer.em@1", bounds="max_drop=0.05"))
    project.run("--rageval-update-baseline", passed=1)
    single = (project.path / "rageval_baseline.json").read_bytes()
    assert "repeats" not in _kept(project)

    llm.model = Flipper(1, 2, 3, 4)
    project.run(
        "--rageval-refresh",
        "--rageval=concurrency=1",
        failed=1,
        shows="answer.em@1 fell from 1.000 to 0.800 *",
    )
    project.run(
        "--rageval-repeat=5",
        "--rageval=concurrency=1",
        passed=1,
        shows=[
            "    answer.em@1: baseline 1.000, drop 0.040 * 4 of 20 worse)",
            "    answer.em@1: run-to-run spread 0.089 over 5 runs",
            "warning: *: the baseline's scores are of 1 run and these of 5 runs: the baseline is the noisier side; *",
        ],
    )

    project.run("--rageval-update-baseline", "--rageval-repeat=5", passed=1)
    assert _kept(project)["repeats"] == 5
    assert [_kept(project)["examples"][name]["score"] for name in ("q1", "q5")] == [0.8, 1.0]
    same = project.run("--rageval-repeat=5", shows="    answer.em@1: baseline 0.960, no change")
    same.stdout.no_fnmatch_line("*noisier*")
    project.run("-q").stdout.no_fnmatch_line("*noisier*")

    llm.model = clerk
    project.run("--rageval-update-baseline", "--rageval-refresh", passed=1)
    assert (project.path / "rageval_baseline.json").read_bytes() == single


def test_a_question_without_an_answer_in_one_run_has_the_mean_of_the_others(project, llm):
    llm.model = Waverer("c1x", " ", "c1x")
    project.use(llm)
    project.test(GATE.format(spec="answer.em@1", bounds="min=0.9"))
    project.run(
        *REPEAT,
        "--rageval=max_unscored=0.3",
        "--rageval-report=report.json",
        passed=1,
        shows="*spread 0.000 over 3 runs; 1 has no score in some of them",
    )
    (test,) = project.read()["tests"]
    assert (test["scores"][0]["unscored"], test["scores"][0]["partly_scored"]) == (0, 1)
