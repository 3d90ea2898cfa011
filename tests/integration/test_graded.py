"""The comparator "graded": a model grades from 1 to 5 how much of a reference an answer contains."""

import re

from tests.llm_server import clerk

GATE = (
    "@pytest.mark.rageval_threshold('answer.correct@1', min=0.5, comparator='graded')\n"
    "@pytest.mark.rageval_threshold('answer.correct@1', min=0.3, comparator='graded>=1')\n"
    "@pytest.mark.rageval_threshold('answer.correct@1', min=0.2, comparator='graded and em')\n"
    "def test_gate(): pass\n"
)


def grader(prompt: str) -> str:
    checked = re.search(r"^Answer to grade:\n<.*>\nc(\d)x$", prompt, re.MULTILINE)
    return ("5", "**4**", "2/5: no main point", "good")[int(checked[1]) - 1] if checked else clerk(prompt)


def test_grades_are_scored_from_0_to_1(project, llm):
    """The mean is (1 + .75 + .25) / 3 for grades and 1/3 with a threshold; an unreadable reply is unscored."""
    llm.model = grader
    project.use(llm)
    project.ini(rageval_model="m1", rageval_max_unscored="0.25")
    project.test(GATE)
    project.run(
        passed=1,
        shows=[
            "  pass * answer.correct@1 by graded * 0.667 *3 of 4*",
            "  inconclusive * answer.correct@1 by graded>=1 * 0.333 *3 of 4*",
            "  pass * answer.correct@1 by graded and em * 0.667 *3 of 4*",
        ],
    )
    # Four answers and a grade for each; the three ways to compare share them.
    assert len(llm.requests) == 8
    project.run(
        "--rageval-replay",
        "--rageval=max_unscored=0.2",
        shows="  1 × the judge's reply is not a grade from 1 to 5: 'good' (q4)",
    )
    assert len(llm.requests) == 8


def test_grades_are_planned(project, llm):
    project.use(llm)
    project.test("def test_own(rageval): rageval.score('answer.correct@1', comparator='graded')\n")
    project.run("--rageval-plan", shows=["in total", "* ≤ 8 * 0 * ≤ 8 *"])
    assert not llm.requests


def test_labels_that_grade_are_refused_where_the_measure_needs_yes_and_no(project, llm):
    """For a measure that needs yes or no, "graded" labels are an error before any request; "graded>=0.25" is valid."""
    llm.model = grader
    project.use(llm)
    project.test(
        "def test_own(rageval):\n"
        "    assert rageval.score('erag.hit@1', label='graded>=0.25') == 1\n"
        "    rageval.score('erag.map@1', label='graded')\n"
    )
    project.evalset(3)
    project.run(failed=1)
    assert len(llm.requests) == 6
