"""Ratings from 1 to 5 with explanations, by a model on a local HTTP server."""

import json
import re
from collections import Counter

import pytest

from tests.llm_server import Fault, clerk

GATE = (
    "@pytest.mark.rageval_threshold('judged.correctness@1', min=3.5)\n"
    "@pytest.mark.rageval_threshold('judged.faithfulness@1', min=4)\n"
    "@pytest.mark.rageval_threshold('judged.context_quality@1', min=3)\n"
    "def test_gate(): pass\n"
)


def rating(grade, why="So it is."):
    return json.dumps({"explanation": why, "grade": grade})


def rater(prompt):
    if prompt.startswith("Rate how correct"):
        number = int(re.search(r"Answer to rate:\n<.*>\nc(\d)x", prompt)[1])
        return rating((5, 4, 2, 1)[number - 1], f"Reason {number}.")
    if prompt.startswith("Rate how faithful"):
        return rating(5)
    return rating(3) if prompt.startswith("Rate how good") else clerk(prompt)


def test_means_are_on_the_scale_from_1_to_5(project, llm):
    llm.model = rater
    project.use(llm)
    project.test(GATE)
    project.run(
        "-vv",
        "--rageval-report=r.json",
        failed=1,
        shows=[
            "judged.correctness@1: 3.000 is below the minimum 3.5: 2 of 4 questions are below",
            "judged.correctness@1 = 3.000 (95% interval *, n = 4)",
            "  q4  1                     What is the code of item-4?",
            "      answer      c4x",
            "      reference   c4x",
            "      judge       Reason 4.",
            "  pass * judged.faithfulness@1 * 5.000 *",
            "  pass * judged.context_quality@1 * 3.000 *",
        ],
    )
    # Each question needs an answer and three ratings, whose requests have a JSON schema.
    ratings = [body for body in llm.requests if "response_format" in body]
    assert (len(llm.requests), len(ratings)) == (16, 12)
    assert {body["response_format"]["json_schema"]["name"] for body in ratings} == {"rating"}
    (test,) = project.read("r.json")["tests"]
    correctness, faithfulness, _ = test["scores"]
    assert [example["score"] for example in correctness["examples"]] == [5.0, 4.0, 2.0, 1.0]
    assert correctness["examples"][0]["explanation"] == "Reason 1."
    assert correctness["scale"] == [1, 5]
    low, high = correctness["ci95"]
    assert 1 <= low < 3 < high <= 5
    low, high = faithfulness["ci95"]
    assert 1 < low < high == 5


def ratings(*grades):
    names = ("correctness", "faithfulness", "context_quality")
    return json.dumps({"explanation": "So they are.", **dict(zip(names, grades, strict=True))})


def test_the_grades_of_a_question_may_be_requested_together(project, llm):
    """One request has all grades; a reply without one of them is repaired in the same form."""

    def rate(prompt):
        if prompt.startswith("Your reply cannot be read"):
            return ratings(1, 5, 2)
        if not prompt.startswith("Give an answer"):
            return clerk(prompt)
        number = int(re.search(r"Answer to rate:\n<.*>\nc(\d)x", prompt)[1])
        return '{"explanation": "None.", "grade": 3}' if number == 4 else ratings(5, 4, number)

    llm.model = rate
    project.use(llm)
    project.test(GATE)
    together = "--rageval=grades_together=true"
    project.run(together, "--rageval-report=r.json", failed=1)
    (test,) = project.read("r.json")["tests"]
    assert [[example["score"] for example in score["examples"]] for score in test["scores"]] == [
        [5, 5, 5, 1],
        [4, 4, 4, 5],
        [1, 2, 3, 2],
    ]
    asked = [body for body in llm.requests if "response_format" in body]
    assert (len(llm.requests), len(asked)) == (9, 5)
    assert {body["response_format"]["json_schema"]["name"] for body in asked} == {"ratings"}
    repair = next(body["messages"][-1]["content"] for body in asked if len(body["messages"]) > 1)
    assert repair.startswith('Your reply cannot be read: "correctness" is null')
    assert '"context_quality": 4}, say.' in repair
    assert "rate together" in test["prompts"]
    # The grade of the passages depends on the answer too, which is in the request.
    assert "generator" in {**test["fingerprint"], **test["scores"][2]["fingerprint"]}
    project.run(together, "--rageval-replay", "--rageval=judge_votes=1", failed=1)
    # Apart, each grade has a request of its own again.
    llm.model = rater
    project.run(failed=1)
    assert len([body for body in llm.requests if "response_format" in body]) == 5 + 12


@pytest.mark.slow
def test_votes_on_grades_together_differ_in_grades_alone(project, llm):
    said = Counter()

    def rate(prompt):
        if not prompt.startswith("Give an answer"):
            return clerk(prompt)
        said[prompt] += 1
        last = 2 if "item-1?" in prompt and said[prompt] == 2 else 4
        return ratings(4, 4, last).replace("So", f"{said[prompt]}: so")

    llm.model = rate
    project.use(llm)
    project.test(GATE)
    project.run(
        "--rageval=grades_together=true",
        "--rageval=judge_votes=3",
        passed=1,
        shows="*flip rate 25.0% (1 of 4 verdicts), minority 8.3% (1 of 12 votes)",
    )


def test_where_not_all_can_be_graded_each_has_its_own_request(project, llm):
    """An example without answers has no correctness, and a user's judge grades by one criterion at a time."""
    llm.model = rater
    project.use(llm)
    path = project.path / "evals.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines = (json.dumps({**each, "answers": []} if each["id"] == "q1" else each) for each in records)
    path.write_text("\n".join(lines), encoding="utf-8")
    llm.model = lambda prompt: ratings(4, 4, 4) if prompt.startswith("Give an answer") else rater(prompt)
    project.test(GATE)
    project.run("--rageval=grades_together=true", "--rageval=max_unscored=0.3", passed=1)
    names = [
        body["response_format"]["json_schema"]["name"] for body in llm.requests if "response_format" in body
    ]
    assert Counter(names) == {"ratings": 3, "rating": 2}


@pytest.mark.parametrize(
    "refusal",
    [
        {
            "message": "'response_format' of type 'json_schema' is not supported with this model.",
            "param": None,
        },
        {"message": "This response_format type is unavailable now", "param": None},
    ],
)
def test_a_server_that_knows_no_schema_is_asked_without(project, llm, refusal):
    llm.model = rater
    llm.refuse = lambda body: Fault(400, body={"error": refusal}) if "response_format" in body else None
    project.use(llm)
    project.gate("judged.faithfulness@1 min=5")
    project.run(passed=1, shows="4 × m1 refuses response_format: sent without it")


def test_a_reply_that_cannot_be_parsed_is_repaired_once_and_cached(project, llm):
    """An unreadable rating is requested once more, and both replies are cached."""

    def mumble(prompt):
        if "cannot be read" in prompt:
            return rating(4)
        answer = re.search(r"Answer to rate:\n<.*>\nc(\d)x", prompt)
        return clerk(prompt) if answer is None else "Four!" if answer[1] != "1" else rating(4)

    llm.model = mumble
    project.use(llm)
    project.gate("judged.correctness@1 min=4")
    project.run(passed=1)
    # Four answers, four ratings and three repair requests.
    assert len(llm.requests) == 11
    repaired = [body["messages"] for body in llm.requests if len(body["messages"]) > 1]
    assert {tuple(message["role"] for message in messages) for messages in repaired} == {
        ("user", "assistant", "user")
    }
    project.run("--rageval-replay", passed=1)
    llm.model = lambda prompt: clerk(prompt) if not prompt.startswith(("Rate", "Your reply")) else "Four!"
    project.run(
        "--rageval-refresh",
        errors=1,
        shows="  4 × the judge's reply is not a rating in the second attempt either (*): 'Four!' (*",
    )


def test_ratings_are_planned_with_their_repairs(project, llm):
    llm.model = lambda prompt: "Well." if prompt.startswith("Rate") else clerk(prompt)
    project.use(llm)
    project.test(GATE)
    project.run(
        "--rageval-plan",
        shows=[
            "in total",
            "* ≤ 28 * 0 * ≤ 28 *",
            "* of the live requests are an upper bound: *, the repair of a rating).",
        ],
    )
    assert not llm.requests
    project.run()
    assert len(llm.requests) == 28


def test_a_baseline_records_what_a_rating_depends_on(project, llm):
    llm.model = rater
    project.use(llm)
    project.evalset(3)
    project.gate("judged.context_quality@1 max_drop=0.1")
    project.run("--rageval-update-baseline", passed=1)
    baseline = project.read("rageval_baseline.json")
    (test,) = baseline["tests"].values()
    fingerprint = test["scores"]["judged.context_quality@1"]["fingerprint"]
    assert {"judge", "judge votes", "judge prompt to rate context_quality"} <= fingerprint.keys()
    assert "generator" not in fingerprint
    project.run("--rageval-judge-model=m2", errors=1, shows="  judge: m1 at * in the baseline, m2 at * now")
