"""Servers differ in parameters that they refuse and in replies that they cut or withhold; the run reports both."""

import pytest

from tests.llm_server import Cut, Fault, clerk

pytestmark = pytest.mark.slow

GATE = '@pytest.mark.rageval_threshold("answer.em@1", min=0.9)\ndef test_gate(): pass\n'


def _refusing(name, message="Unsupported value: '{}' does not support what you sent with this model."):
    def refuse(body):
        return Fault(400, message=message.format(name)) if name in body else None

    return refuse


def test_a_refused_parameter_is_left_out_and_named(project, llm):
    project.use(llm)
    project.evalset(20)
    llm.refuse = _refusing("temperature")
    project.test(GATE)
    result = project.run("--rageval=concurrency=2", "--rageval-report=out.json", passed=1)
    remark = "20 × m1 refuses temperature: sent without it"
    result.stdout.fnmatch_lines([remark])
    assert len(llm.paid) == 20
    assert len(llm.requests) <= 22
    report = project.read("out.json")
    assert report["llm"]["remarks"] == {remark.partition(" × ")[2]: 20}
    project.run(shows=["20 replies: 20 cached, 0 live", remark])


def test_a_prompt_that_is_too_long_is_unscored_with_its_length(project, llm):
    project.use(llm)
    project.evalset(20)
    message = (
        "This model's maximum context length is 10 tokens. However, your messages resulted in 99 tokens."
    )
    llm.model = lambda prompt: Fault(400, message=message) if "item-7 " in prompt else clerk(prompt)
    project.test(GATE)
    project.run("--rageval-report=out.json", passed=1)
    report = project.read("out.json")
    (score,) = report["tests"][0]["scores"]
    (unscored,) = [example for example in score["examples"] if example["unscored"]]
    assert unscored["id"] == "q7"
    assert unscored["unscored"].startswith(
        "1 passage of 39 characters: the prompt is longer than m1 can read (This model's maximum context"
    )
    assert len(llm.requests) == 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Cut("", "stop"), "the generator's reply is empty"),
        (Cut("", "length"), "the generator's reply is empty: the token limit was reached before any text"),
        (Cut("", "content_filter"), "the generator's reply is empty: a content filter withheld it"),
        (
            Cut("", "stop", "I can't help with that."),
            "the generator's reply is empty: the model refused, \"I can't help with that.\"",
        ),
    ],
)
def test_a_reply_without_text_is_unscored_with_its_reason(project, llm, reply, reason):
    project.use(llm)
    llm.model = lambda _: reply
    project.test(GATE)
    for _ in range(2):
        project.run(shows=f"  4 × {reason} (q1, q2, q3, …)")
    assert len(llm.requests) == 8


def test_a_truncated_reply_is_cached_and_counted(project, llm):
    project.use(llm)
    llm.model = lambda prompt: Cut(clerk(prompt))
    project.test(GATE)
    for _ in range(2):
        project.run(shows="4 replies were cut by the token limit")
    assert len(llm.requests) == 4


def test_a_key_that_the_server_repeats_is_written_nowhere(project, llm):
    project.use(llm)
    project.evalset(20)

    def leak(prompt):
        if "item-3 " in prompt:
            return Fault(400, message="bad request with key sk-secret")
        return f"{clerk(prompt)} sk-secret" if "item-4 " in prompt else clerk(prompt)

    llm.model = leak
    project.test(GATE.replace("0.9", "0.1"))
    result = project.run(
        "--rageval-cassette=tape.jsonl",
        "--rageval-record",
        "--rageval=record_prompts=true",
        "--rageval-report=out.json",
        "-vv",
        passed=1,
    )
    assert llm.keys == {"Bearer sk-secret"}
    assert "sk-secret" not in str(result.stdout) + str(result.stderr)
    written = [path for path in project.path.rglob("*") if path.is_file()]
    assert {path.name for path in written} >= {"tape.jsonl", "out.json", "replies.sqlite"}
    assert not [path for path in written if b"sk-secret" in path.read_bytes()]
    assert b"***" in (project.path / "tape.jsonl").read_bytes()
