"""`--rageval early_stop=true`: models are called for few questions, and the report states for how many."""

import json

import pytest

pytestmark = pytest.mark.slow

UPDATE = "--rageval-update-baseline"
STOP = "--rageval=early_stop=true"
ASKING = '@pytest.mark.rageval_threshold("answer.em@1", max_drop=0.02)\ndef test_gate(): pass\n'
N = 200

# A retriever with another passage for some questions: with the same text, or with a text without the code.
CHANGED = """
CORPUS |= {{f"doc-{{n}}": f"Of all things, item-{{n}} has the code c{{n}}x." for n in range(1, 201)}}
OTHERS = {others}
WRONG = {wrong}

def search(query, k):
    wanted = int(query.split("item-")[1].rstrip("?"))
    name = f"other-{{wanted}}" if wanted in OTHERS else f"doc-{{wanted}}"
    return [{{"id": name, "text": "Nothing." if wanted in WRONG else CORPUS[f"doc-{{wanted}}"]}}][:k]
"""


@pytest.fixture
def gated(project, llm):
    project.use(llm)
    project.evalset(N)
    project.original = (project.path / "conftest.py").read_text(encoding="utf-8")
    project.test(ASKING)
    project.ini(rageval_model="m1", rageval_concurrency="4")
    change(project)
    project.run(UPDATE, STOP, passed=1)
    # An update requests an answer to every question.
    assert len(llm.requests) == N
    llm.requests.clear()
    return project


def change(project, others=range(0), wrong=range(0)):
    project.pytester.makeconftest(project.original + CHANGED.format(others=others, wrong=wrong))


def report(project):
    document = project.read()
    [[entry]] = [test["scores"] for test in document["tests"]]
    return entry


def fresh(project, *arguments):
    return project.run(STOP, "--rageval-refresh", "--rageval-report=report.json", *arguments)


def test_without_a_change_no_request_is_sent(gated, llm):
    fresh(gated).assert_outcomes(passed=1)
    assert llm.requests == []
    entry = report(gated)
    assert (entry["mean"], entry["verdict"], entry["baseline"]["drop"]) == (1.0, "pass", 0)
    counts = {"asked": 0, "changed": 0, "unchanged": 200, "not_asked": 0, "drop": 0.0, "verdict": None}
    assert entry["early_stop"] == counts


def test_a_clear_regression_is_red_after_few_requests(gated, llm):
    change(gated, others=range(1, 151), wrong=range(1, 101))
    result = fresh(gated)
    result.assert_outcomes(failed=1)
    evaluated = report(gated)["early_stop"]["asked"]
    assert len(llm.requests) == evaluated < 150 / 4
    stopped = f"stopped early: {evaluated} of 150 changed questions evaluated (50 unchanged)"
    text = " ".join(result.stdout.str().split())
    assert f"answer.em@1: {stopped}: drop about 0." in text
    why = "with at least 99% probability a drop is significant with all questions (level 0.05)"
    assert f", allowed 0.02: {why}" in text
    assert f" of {evaluated} questions got worse, 0 better" in text
    entry = report(gated)
    assert (entry["mean"], entry["baseline"], entry["verdict"]) == (None, None, "fail")
    assert entry["early_stop"] == entry["early_stop"] | {
        "changed": 150,
        "unchanged": 50,
        "not_asked": 150 - evaluated,
        "drop": pytest.approx(0.5, abs=0.3),
        "verdict": "fail",
    }
    states = [example.get("early_stop") for example in entry["examples"]]
    counts = [states.count(state) for state in (None, "unchanged", "not asked")]
    assert counts == [evaluated, 50, 150 - evaluated]


def test_requests_are_those_of_a_full_run(gated, llm):
    change(gated, others=range(1, 151), wrong=range(1, 101))
    fresh(gated)
    first = len(llm.requests)
    gated.run(failed=1)
    # The replies for unchanged questions were cached by the baseline's run.
    assert len(llm.requests) < first + 150
    requests = [json.dumps(body, sort_keys=True) for body in llm.requests]
    assert len(set(requests)) == len(requests)


def test_two_workers_ask_the_same(gated, llm):
    change(gated, others=range(1, 151), wrong=range(1, 101))
    fresh(gated)
    alone, prompts = report(gated), sorted(llm.prompts)
    llm.requests.clear()
    gated.run_process("-n2", STOP, "--rageval-refresh", "--rageval-report=report.json")
    assert report(gated) == alone
    assert sorted(llm.prompts) == prompts


def test_a_plan_counts_all_questions_and_says_so(gated):
    change(gated, others=range(1, 151), wrong=range(1, 101))
    line = "--rageval early_stop=true may evaluate fewer questions: the plan counts all."
    gated.run("--rageval-plan", STOP, shows=line)


def test_replies_that_were_not_used_stay_recorded(gated):
    recorded = ("--rageval-cassette=replies.jsonl", "--rageval-record")
    gated.run(*recorded)
    before = (gated.path / "replies.jsonl").read_text(encoding="utf-8")
    line = "unused replies are not dropped: this was not a full run (--rageval early_stop=true)"
    gated.run(STOP, *recorded, "--rageval-drop-unused", shows=line)
    assert (gated.path / "replies.jsonl").read_text(encoding="utf-8") == before


def test_a_canary_asks_about_unchanged_questions(gated, llm):
    """A canary detects changed texts under the same ids, which look like unchanged rankings; the test is an error."""
    change(gated, wrong=range(1, 151))
    fresh(gated).assert_outcomes(passed=1)
    assert llm.requests == []
    result = fresh(gated, "--rageval=canary=20")
    result.assert_outcomes(errors=1)
    assert len(llm.requests) == 20
    assert report(gated)["canary"]["questions"] == 20


def test_a_canary_that_fails_shows_no_mean_that_is_not_known(gated):
    change(gated, others=range(151, 155), wrong=range(1, 151))
    result = fresh(gated, "--rageval=canary=20")
    result.assert_outcomes(errors=1)
    entry = report(gated)
    assert (entry["verdict"], entry["mean"], entry["early_stop"]["not_asked"]) == ("error", None, 4)
