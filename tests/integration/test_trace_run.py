"""Recorded traces as the retriever of a run (`TraceRun`)."""

from tests.trace_files import lines, phoenix

RECORDED = """
import pytest
from pytest_rageval import TraceRun

@pytest.fixture(scope="session")
def rageval_retriever():
    return TraceRun("spans.jsonl")
"""

GATE = '@pytest.mark.rageval_threshold("recall@2", {bounds})\ndef test_gate(): pass\n'


def spans(project, *numbers):
    traces = [
        phoenix(f"t{n}", question=f"What is the code of item-{n}?", passages=[(f"doc-{n}", "text", 1.0)])
        for n in numbers
    ]
    content = lines([span for trace in traces for span in trace])
    (project.path / "spans.jsonl").write_text(content, encoding="utf-8")


def test_a_question_that_was_not_recorded_is_unscored_with_the_reason(project):
    spans(project, 1, 2, 3)
    project.pytester.makeconftest(RECORDED)
    project.test(GATE.format(bounds="min=0.7"))
    project.run("--rageval=max_unscored=0.3", "--rageval-report=report.json", passed=1)
    (test,) = project.read()["tests"]
    (score,) = test["scores"]
    assert {example["id"]: example["score"] for example in score["examples"]} == {
        "q1": 1,
        "q2": 1,
        "q3": 1,
        "q4": None,
    }
    (unscored,) = (example["unscored"] for example in score["examples"] if example["score"] is None)
    assert (
        "not recorded for 'What is the code of item-4?': no trace has this question, in spans.jsonl"
        in unscored
    )
