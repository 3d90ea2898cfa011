"""Agents that search several times: a scripted agent on questions in MuSiQue format, with scores computed by hand."""

import json

import pytest

pytestmark = pytest.mark.slow

# Five two-hop questions. The paragraphs A1 and B1 support question 1, A2 and B2 support question 2, and so on.
SET = [
    {
        "id": f"2hop__{n}",
        "question": f"Question {n}?",
        "paragraphs": [
            {"idx": 0, "title": "X", "paragraph_text": f"Noise about {n}.", "is_supporting": False},
            {"idx": 1, "title": "A", "paragraph_text": f"Ann {n} lives upstairs.", "is_supporting": True},
            {"idx": 2, "title": "B", "paragraph_text": f"Bob {n} sells tea.", "is_supporting": True},
        ],
        "question_decomposition": [],
        "answer": f"answer {n}",
        "answer_aliases": [],
        "answerable": True,
    }
    for n in range(1, 6)
]

# For each question: the documents that each step finds, the final documents, and the expected scores.
#
#   n  found in the first 5 of a step  final         calls  recall@5  steps.recall@5  full_recall@5
#   1  A1 in 1, B1 in 2                A1, B1        2      1         1               1
#   2  A2 in 1, B2 in 2                B2            2      1/2       1               0
#   3  A3 in 1; B3 at rank 6 of 2      A3            2      1/2       1/2             0
#   4  A4 in 1, nothing in 2 and 3     nothing       3      0         1/2             0
#   5  a plain list                    A5 at rank 5  1      1/2       1/2             0
#
#   means                                            2      0.5       0.7             0.2
AGENT = """
import pytest
from pytest_rageval import Retrieval, Step

def a(n): return f"Ann {n} lives upstairs."
def b(n): return f"Bob {n} sells tea."
def noise(count): return [f"Some other passage, number {i}." for i in range(count)]

SCRIPT = {
    1: Retrieval([a(1), b(1)], [Step("who", [*noise(2), a(1)]), Step("where", [b(1)])], tokens=120, cost=0.001),
    2: Retrieval([b(2)], [Step("who", [a(2)]), Step("where", [*noise(4), b(2)])]),
    3: Retrieval([a(3)], [Step("who", [a(3), a(3)]), Step("where", [*noise(5), b(3)])]),
    4: Retrieval([], [Step("who", [a(4)]), Step("where", []), Step("when", noise(1))]),
    5: [*noise(4), a(5), b(5)],
}

def found(query):
    return SCRIPT[int(query.split()[1].rstrip("?"))]
"""
SYNC = """
@pytest.fixture(scope="session")
def rageval_retriever():
    return lambda query, k: found(query)
"""
ASYNC = """
@pytest.fixture(scope="session")
def rageval_retriever():
    async def search(query, k):
        return found(query)
    return search
"""


@pytest.fixture
def questions(project):
    """Return the project with an eval set in the format in which MuSiQue publishes its questions."""
    (project.path / "evals.jsonl").write_text("\n".join(map(json.dumps, SET)) + "\n", encoding="utf-8")
    return project


@pytest.mark.parametrize("fixture", [SYNC, ASYNC])
def test_a_scripted_agent_has_the_values_computed_by_hand(questions, fixture):
    questions.pytester.makeconftest(AGENT + fixture)
    questions.test(
        """
@pytest.mark.rageval_threshold("retrieval.calls", max=2)
@pytest.mark.rageval_threshold("recall@5", min=0.5, max=0.5)
def test_values(rageval):
    def values(spec):
        return [outcome.value for outcome in rageval.score(spec).outcomes]
    assert values("recall@5") == [1, 0.5, 0.5, 0, 0.5]
    assert values("steps.recall@5") == [1, 1, 0.5, 0.5, 0.5]
    assert values("full_recall@5") == [1, 0, 0, 0, 0]
    assert values("retrieval.calls") == values("retrieval.calls@5") == [2, 2, 2, 3, 1]
    assert values("steps.recall@1") == [0.5, 0.5, 0.5, 0.5, 0]
    ranking = rageval.retrieve("Question 1?", 5)
    assert [step.query for step in ranking.steps] == ["who", "where"]
    assert (ranking.tokens, ranking.cost, ranking.calls) == (120, 0.001, 2)
"""
    )
    questions.run(passed=1, shows="  pass     retrieval.calls *2.000  ≤ 2 *")


def test_a_failure_shows_the_steps(questions):
    questions.pytester.makeconftest(AGENT + SYNC)
    questions.gate("full_recall@5 min=0.9")
    questions.run(
        "-vv",
        "--rageval-report=report.json",
        "--rageval-report=report.html",
        failed=1,
        shows=[
            "  2hop__2  0 * Question 2?",
            '*retrieved * "Bob 2 sells tea."',
            '*step 1 * who: "Ann 2 lives upstairs."',
            '*step 2 * where: "Some other passage, number 0.", *',
            "  2hop__4  0 * Question 4?",
            "*step 2 * where: (nothing)",
        ],
    )
    report = questions.read()
    listed = report["tests"][0]["scores"][0]["questions"]["listed"]
    assert listed[0]["steps"][0] == {"query": "who", "retrieved": ['"Ann 2 lives upstairs."']}
    assert "steps" not in listed[-1]
    assert "step 1" in (questions.path / "report.html").read_text(encoding="utf-8")


def test_calls_take_the_largest_cutoff_of_the_test(questions):
    questions.pytester.makeconftest(
        AGENT
        + """
ASKED = []

@pytest.fixture(scope="session")
def rageval_retriever():
    def search(query, k):
        ASKED.append(k)
        return found(query)
    return search
"""
    )
    questions.test(
        "@pytest.mark.rageval_threshold('retrieval.calls', max=2)\n"
        "@pytest.mark.rageval_threshold('recall@2', min=0)\n"
        "@pytest.mark.rageval_threshold('recall@7', min=0)\n"
        "def test_gate():\n    from conftest import ASKED\n    assert sorted(ASKED) == [2] * 5 + [7] * 5\n"
    )
    questions.run(passed=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("Retrieval('a')", "returned str for 'Question 1?'.*"),
        ("Retrieval([], steps='who')", "returned str as steps for 'Question 1?'.*"),
        ("Retrieval([], steps=[['a']])", "returned list as step 1 for 'Question 1?'.*"),
        ("Retrieval([], steps=[Step('who', None)])", "returned NoneType in step 1 for 'Question 1?'.*"),
        (
            "Retrieval([], steps=[Step('who', [{}])])",
            "returned for 'Question 1?' in step 1, at rank 1, a document*",
        ),
        ("Retrieval([], cost='a lot')", "returned cost='a lot' for 'Question 1?'.*"),
        ("Retrieval([], tokens=-1)", "returned tokens=-1 for 'Question 1?'.*"),
    ],
)
def test_what_cannot_be_read_is_named(questions, returned, message):
    questions.pytester.makeconftest(
        f"{AGENT}\n@pytest.fixture(scope='session')\ndef rageval_retriever():\n    return lambda query, k: {returned}\n"
    )
    questions.gate("recall@5 min=0")
    questions.run(errors=1, shows=f"rageval_retriever {message}")
