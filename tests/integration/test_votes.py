"""`--rageval judge_votes=N`: each verdict is the majority of several votes, and the flip rate is reported."""

from collections import Counter

import pytest

from tests.llm_server import clerk

GATE = (
    "@pytest.mark.rageval_threshold('answer.correct@1', min=0.9)\n"
    "@pytest.mark.rageval_threshold('llm_reteval@1', min=0.9)\n"
    "def test_gate(): pass\n"
)


class Waverer:
    """Answer as the clerk; vote on item-1 as the arguments say in turn, and on other items with the first vote."""

    def __init__(self, *votes: str) -> None:
        self.votes = votes
        self.asked: Counter[str] = Counter()

    def __call__(self, prompt: str) -> str:
        if "Answer to " not in prompt:
            return clerk(prompt)
        self.asked[prompt] += 1
        return self.votes[self.asked[prompt] - 1] if "item-1?" in prompt else self.votes[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("votes", "line", "value"),
    [
        (("yes", "no", "yes"), "flip rate 25.0% (1 of 4 verdicts), minority 11.1% (1 of 9 votes)", 1.0),
        (("yes", "no", "no"), "flip rate 25.0% (1 of 4 verdicts), minority 11.1% (1 of 9 votes)", 0.0),
        (
            ("yes", "well", "yes"),
            "flip rate 0.0% (0 of 4 verdicts), minority 0.0% (0 of 8 votes), 1 vote not read",
            1.0,
        ),
        (("yes", "well", "no"), "flip rate 0.0% (0 of 3 verdicts), minority 0.0% (0 of 6 votes)", None),
    ],
)
def test_the_majority_counts_and_the_flip_rate_is_reported(project, llm, votes, line, value):
    llm.model = Waverer(*votes)
    project.use(llm)
    project.ini(rageval_model="m1", rageval_judge_votes="3", rageval_max_unscored="0.5")
    # References and answers with gold are the same texts, so both scores use the same verdict.
    project.test(GATE.replace("0.9", "0.7"))
    result = project.run(
        "--rageval-report=report.json",
        passed=1,
        shows="generator m1 at * (temperature 0.5), answers judged by m1 in 3 votes",
    )
    assert f"    answer.correct@1, llm_reteval@1: {line}" in result.outlines
    scores = project.read()["tests"][0]["scores"]
    first = scores[0]["examples"][0]
    assert first["score"] == value
    if value is None:
        assert first["unscored"] == "the judge's votes are tied: 1 yes, 1 no"
        assert "judge_votes" not in first
    else:
        assert first["judge_votes"]["votes"] + first["judge_votes"]["unread"] == 3
    drawn = [body["temperature"] for body in llm.requests if "Answer to check" in str(body["messages"])]
    # Three votes on item-1, whose first two differ; on each of the others the first two agree.
    assert drawn == [0.5] * 9


@pytest.mark.slow
def test_each_vote_is_cached(project, llm):
    """Five votes send only the two requests that three votes did not: none of both has a majority before.

    A single vote has temperature 0, and is a new request.
    """
    llm.model = Waverer("yes", "no", "yes", "no", "no")
    project.use(llm)
    project.evalset(1)
    project.test("def test_own(rageval):\n    print('score', float(rageval.score('answer.correct@1')))\n")
    request_counts = []
    for votes in (3, 5, 3, 5):
        llm.requests.clear()
        project.run("-s", f"--rageval=judge_votes={votes}", shows=f"*score {float(votes == 3)}*")
        request_counts.append(len(llm.requests))
    assert request_counts == [1 + 3, 2, 0, 0]
    llm.requests.clear()
    llm.model = clerk
    project.run("--rageval=judge_votes=1").stdout.no_fnmatch_line("*flip rate*")
    assert [body["temperature"] for body in llm.requests] == [0.0]


def test_votes_are_planned_and_within_the_budget(project, llm):
    project.use(llm)
    project.test("def test_own(rageval): rageval.score('answer.correct@1')\n")
    votes = "--rageval=judge_votes=3"
    project.run("--rageval-plan", votes, shows=["in total", "* ≤ 16 * 0 * ≤ 16 *"])
    assert not llm.requests
    project.run(
        votes, "--rageval=max_calls=10", shows="*--rageval max_calls=10 is reached: 10 calls were made.*"
    )
    assert len(llm.requests) == 10
    project.run(votes, passed=1)
    # Two votes that agree are the majority of three.
    assert len(llm.requests) == 12
    project.run(votes, "--rageval-replay", passed=1)


def test_a_judge_of_the_users_is_asked_once(project):
    project.add(
        "ASKED = []\n"
        "class Judge:\n"
        "    def compare(self, *asked):\n"
        "        ASKED.append(asked)\n"
        "        return True\n"
        "@pytest.fixture(scope='session')\n"
        "def rageval_judge():\n"
        "    yield Judge()\n"
        "    print('asked', len(ASKED), 'times')\n"
        "@pytest.fixture(scope='session')\n"
        "def rageval_generator(): return lambda question, passages: str(passages[0])\n"
    )
    project.test("def test_own(rageval): assert rageval.score('answer.correct@1') == 1\n")
    result = project.run("-s", "--rageval=judge_votes=3", passed=1, shows="*asked 4 times*")
    result.stdout.no_fnmatch_line("*flip rate*")
