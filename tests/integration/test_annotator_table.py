"""`rageval.agreement()`: the table of annotators that a run prints and reports."""

import pytest

pytestmark = pytest.mark.slow

CONFTEST = """
@pytest.fixture(scope="session")
def rageval_generator():
    # Returns the code of the first passage, so several passages help only if the right one comes first.
    return lambda question, passages: next(iter(passages)).text.split()[-1].rstrip(".")
"""

TEST = """
def test_annotators(rageval):
    agreement = rageval.agreement(ks=(1, 2), measures=("p", "mrr"))
    assert agreement.of("erag", "p", 2).tau == 1
    assert agreement.best("gold", 2).measure == "p"
"""


def test_the_table_is_shown_and_reported(project):
    project.lose(1, 3)
    project.add(CONFTEST)
    project.test(TEST)
    project.run(
        "--rageval-report=report.json",
        passed=1,
        shows=[
            "test_it.py::test_annotators  (evals.jsonl, 4)",
            "    agreement with answer.correct, Kendall's tau and Spearman's rho",
            "                        k = 1        k = 2",
            "    erag p          1.00 1.00    1.00 1.00",
            "    erag mrr        1.00 1.00    1.00 1.00",
            "    contains p *",
            "    gold p          1.00 1.00    1.00 1.00",
            "    no relevance mrr, relevance p: * no model as judge.",
        ],
    )
    table = project.read()["tests"][0]["agreement"][0]
    assert table["rows"][0] == {"annotator": "erag", "measure": "p", "k": 1, "tau": 1.0, "rho": 1.0, "n": 4}
    assert {row["annotator"] for row in table["missing"]} == {"relevance"}


def test_a_plan_counts_it(project, llm):
    """The plan counts 4 answers at k = 1, 4 at k = 2, and 4 for the second passage."""
    project.use(llm)
    project.test(TEST + "    rageval.answer('What is the code of item-1?', 3)\n")
    result = project.run("--rageval-plan", skipped=1)
    answers, verdicts, relevance, own = 4 + 4 + 4, 4 + 4 + 4, 8, 1
    result.stdout.fnmatch_lines([f"*≤ {answers + verdicts + relevance + own} *"])
    assert not llm.requests


def test_generators_are_side_by_side(project):
    project.lose(1, 3)
    first = "return lambda question, passages: next(iter(passages)).text.split()[-1].rstrip('.')"
    last = "return lambda question, passages: list(passages)[-1].text.split()[-1].rstrip('.')"
    project.add(
        "@pytest.fixture(scope='session', params=['first', 'last'])\ndef rageval_generator(request):\n"
        f"    if request.param == 'first':\n        {first}\n    {last}\n"
    )
    project.test(
        "def test_annotators(rageval): rageval.agreement(annotators=('erag', 'gold'), measures=('p',), ks=(1, 2))\n"
    )
    result = project.run("--rageval-report=report.md", passed=2)
    table = [
        "test_it.py::test_annotators: agreement with answer.correct at k = 1 by system",
        "                first         last",
        "  erag p    1.00 1.00    1.00 1.00",
        "  gold p    1.00 1.00    1.00 1.00",
        "test_it.py::test_annotators: agreement with answer.correct at k = 2 by system",
        "                first         last",
        "  erag p    1.00 1.00    *",
    ]
    result.stdout.fnmatch_lines(table)
    assert "\n".join(table[:4]) in (project.path / "report.md").read_text()
