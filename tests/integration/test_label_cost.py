"""What eRAG's labels cost against answers is a line below a test with scores of both."""

import pytest

from tests.llm_server import clerk

pytestmark = pytest.mark.slow

SCORES = """
@pytest.mark.rageval_threshold("erag.p@3", min=0)
@pytest.mark.rageval_threshold("erag.ndcg@3", min=0)
@pytest.mark.rageval_threshold("answer.correct@3", min=0)
@pytest.mark.rageval_threshold("answer.em@3", min=0)
def test_both(): pass

@pytest.mark.rageval_threshold("erag.p@3", min=0)
def test_labels(): pass
"""


OWN = """
@pytest.fixture(scope="session")
def rageval_generator():
    said = []
    yield lambda question, passages: said.append(question) or "c1x"
    print("the generator was asked", len(said), "times")
"""


def test_the_cost_is_that_of_the_servers_replies(project, llm):
    """It has each reply once, though scores share them; cached replies cost what they did when they were sent."""
    llm.model = clerk
    project.use(llm)
    project.test(SCORES)
    first = project.run("--rageval-report=report.json", passed=2)
    whole = [body for body in llm.paid if _prompt(body).count("has the code") == 3]
    verdicts = [body for body in llm.paid if "Answer to check" in _prompt(body)]
    labels = [body for body in llm.paid if body not in (*whole, *verdicts)]
    assert (len(labels), len(whole), len(verdicts)) == (12, 4, 4)
    line = (
        f"cost, cached replies included: eRAG labels @3 16 requests, {_tokens(*labels, *verdicts):,} tokens; "
        f"end to end @3 8 requests, {_tokens(*whole, *verdicts):,} tokens"
    )
    assert f"    {line}" in first.outlines
    assert any(text.startswith("20 replies: 0 cached, 20 live, ") for text in first.outlines)
    [both, alone] = project.read()["tests"]
    assert (both["notes"], "notes" in alone) == ([line], False)
    again = project.run()
    assert {f"    {line}", "20 replies: 20 cached, 0 live"} <= {*again.outlines}
    assert len(llm.paid) == 20


def test_the_users_own_code_has_no_known_cost_and_is_called_once(project):
    project.test(SCORES)
    project.add(OWN)
    result = project.run("-s", passed=2)
    assert "the generator was asked 16 times" in result.stdout.str()
    assert "cost, cached" not in result.stdout.str()


def _prompt(body):
    return body["messages"][-1]["content"]


def _tokens(*bodies):
    return sum(len(_prompt(body)) // 4 + 1 for body in bodies)
