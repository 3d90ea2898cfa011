"""Sufficient context and UDCG in a run: their requests, and their results in the reports."""

import json

import pytest

from tests.llm_server import clerk

JUDGED = "Decide whether passages are enough"
RELEVANT = "Decide whether a passage is relevant"


def reader(prompt):
    if prompt.startswith(JUDGED):
        has_code = clerk(prompt) != "no answer in the documents"
        return f"A code is needed.\nVerdict: {'yes' if has_code else 'no'}"
    if prompt.startswith(RELEVANT):
        return "yes" if clerk(prompt) != "no answer in the documents" else "no"
    answer = clerk(prompt)
    return "c20x" if answer == "c2x" else answer


def gate(*specs):
    marks = "".join(f"@pytest.mark.rageval_threshold('{spec}', min=0)\n" for spec in specs)
    return f"{marks}def test_gate(): pass\n"


def report(project, *arguments):
    result = project.run("--rageval-report=r.json", *arguments)
    (test,) = project.read("r.json")["tests"]
    return result, test


def judged(project, llm):
    llm.model = reader
    project.use(llm)
    project.ini(rageval_model="m1", rageval_judge_model="m2")


def test_a_failure_shows_why_the_context_is_not_enough(project, llm):
    judged(project, llm)
    project.lose(3)
    project.test(gate("sufficient@3").replace("min=0", "min=1"))
    result, test = report(project, "-vv", "--rageval-report=r.html")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*1 of 4 questions is below 1", "  q3 *", "*judge*A code is needed."])
    (score,) = test["scores"]
    assert {example["explanation"] for example in score["examples"]} == {"A code is needed."}
    assert [question["judge"] for question in score["questions"]["listed"]] == ["A code is needed."]
    assert "A code is needed." in (project.path / "r.html").read_text(encoding="utf-8")


def test_questions_alone_are_an_eval_set(project, llm):
    """An eval set of questions without answers and gold is enough for `sufficient`, with one request per question."""
    judged(project, llm)
    lines = [json.dumps({"id": f"q{n}", "question": f"What is the code of item-{n}?"}) for n in range(1, 5)]
    (project.path / "evals.jsonl").write_text("\n".join(lines), encoding="utf-8")
    project.lose(3)
    project.test(gate("sufficient@3"))
    result, test = report(project)
    result.assert_outcomes(passed=1)
    (score,) = test["scores"]
    assert [example["score"] for example in score["examples"]] == [1.0, 1.0, 0.0, 1.0]
    assert len(llm.requests) == 4
    assert "strata" not in score
    assert "warnings" not in test["evalset"]


@pytest.mark.slow
def test_answers_are_shown_by_their_context(project, llm):
    judged(project, llm)
    project.lose(3)
    project.test(
        gate("sufficient@3", "llm_reteval@1", "answer.correct@3").replace("ct@3', min=0", "ct@3', min=1")
    )
    result, test = report(project, "--rageval-report=r.md", "--rageval-report=r.html")
    result.assert_outcomes(failed=1)
    scores = {entry["spec"]: entry for entry in test["scores"]}
    assert scores["sufficient@3"]["strata"] == [
        {
            "score": "answer.correct@3",
            "sufficient": {"correct": 2, "wrong": 1, "abstained": 0},
            "insufficient": {"correct": 0, "wrong": 0, "abstained": 1},
            "left_out": 0,
        }
    ]
    text = "answer.correct@3 by context: sufficient 2 of 3 correct, 1 wrong, 0 abstained; insufficient 0 of 1 correct"
    assert "lost by generator 1, retriever 1" in " ".join(str(result.stdout).split())
    result.stdout.fnmatch_lines([f"*sufficient@3: {text}*"])
    for name in ("r.md", "r.html"):
        written = (project.path / name).read_text(encoding="utf-8")
        assert " by context: sufficient" in " ".join(written.split())
    lost = {example["id"]: example.get("lost_by") for example in scores["answer.correct@3"]["examples"]}
    assert lost == {"q1": None, "q2": "generator", "q3": "retriever", "q4": None}


@pytest.mark.slow
def test_udcg_beside_erag_pays_once(project, llm):
    """UDCG shares the answers of eRAG and the labels of relevance: it adds one label request per passage."""
    judged(project, llm)
    project.test(gate("erag.p@2"))
    report(project)
    alone = len(llm.requests)
    project.test(gate("erag.p@2", "relevance.p@2", "udcg@2"))
    _, test = report(project)
    assert len(llm.requests) == alone + 8
    assert sum(prompt.startswith(RELEVANT) for prompt in llm.prompts) == 8
    udcg = next(entry for entry in test["scores"] if entry["spec"] == "udcg@2")
    # From the other passage the generator abstains.
    assert udcg["mean"] == pytest.approx(1 / (1 + 2.718281828459045**-0.5))
    assert udcg["counts"] == {"useful": 4, "distracting": 0}


def test_a_plan_counts_them(project, llm):
    judged(project, llm)
    project.test(gate("sufficient@2", "udcg@2"))
    project.run("--rageval-plan", shows=["test_it.py::test_gate", "* 20 * 0 * 20 *"])
    assert not llm.requests
