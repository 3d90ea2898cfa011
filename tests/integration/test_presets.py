"""A preset in a run: its requests, header and report."""

import pytest

from tests.llm_server import clerk

pytestmark = pytest.mark.slow

JUDGING = "You check predictions."
GATE = '@pytest.mark.rageval_threshold("{spec}", min=0)\ndef test_gate(): pass\n'


def test_a_preset_of_llm_reteval(project, llm):
    llm.model = lambda prompt: "Yes" if prompt.startswith(JUDGING) else clerk(prompt)
    project.use(llm)
    project.test(GATE.format(spec="llm_reteval"))
    project.run(
        "--rageval=preset=alinejad2024",
        "--rageval-report=report.json",
        passed=1,
        shows=[
            "rageval: preset alinejad2024 sets temperature 0.5; * prompts answer, same_answer. It does not set: *",
            "generator m1 at * (temperature 0.5), answers judged by m1*",
        ],
    )
    report = project.read()
    assert report["settings"]["preset"] == "alinejad2024"
    (test,) = report["tests"]
    assert [score["spec"] for score in test["scores"]] == ["llm_reteval@1", "llm_reteval@5", "llm_reteval@10"]
    answered = [prompt for prompt in llm.prompts if "at most 5 tokens" in prompt]
    judged = [prompt for prompt in llm.prompts if prompt.startswith(JUDGING)]
    assert len(answered) + len(judged) == len(llm.prompts) > 0


def test_prompts_of_the_user_come_first(project, llm):
    project.use(llm)
    (project.path / "prompts.toml").write_text('answer = "Mine: {question} {passages}"', encoding="utf-8")
    project.test(GATE.format(spec="answer.em"))
    project.run(
        "--rageval=preset=alinejad2024", "--rageval=prompts=prompts.toml", "--rageval=cutoffs=1", passed=1
    )
    assert all(prompt.startswith("Mine: ") for prompt in llm.prompts)
