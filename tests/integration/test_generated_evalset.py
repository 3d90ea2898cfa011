"""`rageval evalset generate` against a real server: what it writes, checks, caches and pays for."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.cli import main
from pytest_rageval.evalsets import load
from tests.llm_server import Cut, Fault, LLMServer, Said, clerk
from tests.unit.cli.folders import Done

pytestmark = pytest.mark.slow

Generate = Callable[..., Done]


def author(prompt: str) -> Said:
    if prompt.startswith("Write a question"):
        passage = prompt.rpartition("Passage:\n")[2]
        item = re.search(r"(item-\d+) has the code (\w+)", passage)
        return f"What is the code of {item[1]}?\nAnswer: {item[2]}" if item else "I cannot."
    return clerk(prompt)


def is_question(prompt: str) -> bool:
    return prompt.startswith("Write a question")


@pytest.fixture
def llm() -> Iterator[LLMServer]:
    with LLMServer(author) as server:
        yield server


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """Six files of four passages each; a blank line and the length of the passages separate them."""
    folder = tmp_path / "docs"
    folder.mkdir()
    for n in range(6):
        parts = [
            f"Of all\r\nthings, item-{n}{m} has the code c{n}{m}x. {'And so it goes on. ' * 50}"
            for m in range(4)
        ]
        (folder / f"{n}.md").write_text("\r\n\r\n".join(parts), encoding="utf-8", newline="")
    return folder


@pytest.fixture
def generate(llm: LLMServer, docs: Path, command: Callable[..., Done]) -> Generate:
    def run(n: int, *arguments: str) -> Done:
        words = ("--corpus", docs.name, "--n", str(n), "--out", "out.jsonl", "--model", "m1")
        return command("evalset", "generate", *words, "--base-url", llm.url, *arguments)

    return run


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_what_is_generated_is_clean_and_loads(generate, llm, docs, tmp_path, capsys):
    done = generate(12)
    assert done.out.startswith("out.jsonl: 12 candidates for review, of 6 files, from 12 passages\n")
    assert done.out.endswith(f" replies: 0 cached, {len(llm.paid)} live\n")
    assert (done.status, done.err) == (0, "")
    evalset = load(tmp_path / "out.jsonl")
    assert len(evalset) == 12
    for example in evalset:
        source = example.tags["source"]
        text = (docs / source).read_text(encoding="utf-8")
        (gold,), (answer,) = example.gold, example.answers
        assert text[gold.start : gold.end] == gold.text
        assert gold.source == source
        for span in example.extra["answer_spans"]:
            assert text[span["start"] : span["end"]] == answer
        assert example.extra["self_check"] == {"with_gold": answer, "without": "no answer in the documents"}
        assert example.extra["written_by"] == example.extra["compared_by"] == "m1"
    assert {example.tags["source"] for example in evalset} == {f"{n}.md" for n in range(6)}
    assert main(["evalset", "check", "out.jsonl", "--corpus", "docs"]) == 0
    assert "12 examples, 0 errors" in capsys.readouterr().out
    assert len(llm.paid) == len({json.dumps(body, sort_keys=True) for body in llm.paid})


def test_prompts_of_a_file_write_and_check(generate: Generate, llm: LLMServer, tmp_path: Path) -> None:
    source = "question = 'Write a question, bitte.\\nPassage:\\n{passage}'\nanswer = 'Frage: {question} {passages}'"
    (tmp_path / "prompts.toml").write_text(source, encoding="utf-8")
    generate(2, "--prompts", "prompts.toml")
    beginnings = {prompt.partition(":")[0].partition(".")[0] for prompt in llm.prompts}
    assert {"Write a question, bitte", "Frage"} <= beginnings
    built_in = ("Write a question that", "Answer a question")
    assert not any(prompt.startswith(built_in) for prompt in llm.prompts)


def test_every_reply_is_paid_once(generate: Generate, llm: LLMServer, tmp_path: Path) -> None:
    generate(3)
    first, paid = (tmp_path / "out.jsonl").read_bytes(), len(llm.paid)
    assert generate(3, "--force").status == 0
    assert generate(3, "--force", "--replay").status == 0
    assert (tmp_path / "out.jsonl").read_bytes() == first
    assert len(llm.paid) == paid
    assert generate(3, "--force", "--seed", "1").status == 0
    assert (tmp_path / "out.jsonl").read_bytes() != first


def test_nothing_may_be_asked(generate: Generate, llm: LLMServer, tmp_path: Path) -> None:
    done = generate(3, "--replay")
    assert (done.status, done.out) == (2, "")
    assert done.err
    assert not llm.requests
    assert not (tmp_path / "out.jsonl").exists()


def _wrong(prompt: str) -> Said:
    return "c999x" if "\n[1] " in prompt else author(prompt)


def _knowing(prompt: str) -> Said:
    item = re.search(r"item-(\d+)\?", prompt)
    return f"c{item[1]}x" if "\n(none)\n" in prompt and item else author(prompt)


def _repeating(prompt: str) -> Said:
    if is_question(prompt):
        return "Which words?\nAnswer: And so it goes on"
    if "Answer to check" in prompt:
        return author(prompt)
    return "And so it goes on" if "\n[1] " in prompt else "no answer in the documents"


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (lambda prompt: "I'd rather not." if is_question(prompt) else author(prompt),
         "the reply is not a question and an answer"),
        (lambda prompt: "" if is_question(prompt) else author(prompt),
         "no question was written: the reply is empty"),
        (lambda prompt: Cut("") if is_question(prompt) else author(prompt),
         "no question was written: the reply is empty: the token limit was reached before any text"),
        (_wrong, "the generator has another answer from the passage"),
        (_knowing, "the generator has the answer without the passage"),
        (lambda prompt: "perhaps" if "Answer to check" in prompt else author(prompt),
         "the self-check has no result"),
    ],
)  # fmt: skip
def test_a_question_that_fails_the_checks_is_rejected(generate, llm, tmp_path, model, why):
    llm.model = model
    done = generate(2, "--keep-rejected", "no.jsonl")
    assert done.status == 1
    lines = done.out.splitlines()
    assert lines[0] == "No candidates from 8 passages, out.jsonl was not written."
    assert lines[1] == "8 questions rejected:"
    assert lines[2].startswith(f"  8 × {why}")
    assert done.err == "2 were asked for, and the passages that were drawn are used up.\n"
    assert not (tmp_path / "out.jsonl").exists()
    rejected = read(tmp_path / "no.jsonl")
    assert len(rejected) == 8
    assert all(record["rejected"].startswith(why) for record in rejected)


def test_the_same_question_is_asked_once(generate: Generate, llm: LLMServer) -> None:
    llm.model = _repeating
    done = generate(2)
    assert done.status == 1
    assert done.out.startswith("out.jsonl: 1 candidate for review, of 1 file, from 8 passages\n")
    assert "  7 × the same question as one before\n" in done.out


def test_other_passages_replace_those_of_rejected_questions(generate: Generate, llm: LLMServer) -> None:
    llm.model = lambda prompt: _wrong(prompt) if re.search(r"item-[012]\d", prompt) else author(prompt)
    done = generate(6)
    assert done.status == 0
    assert done.out.startswith("out.jsonl: 6 candidates for review, of 3 files, from ")
    assert " × the generator has another answer from the passage\n" in done.out


def test_an_exhausted_budget_ends_the_run_and_the_next_run_continues(generate, llm, tmp_path):
    done = generate(4, "--max-calls", "7")
    assert done.status == 1
    assert done.err.startswith("--max-calls=7 is reached: 7 calls were made.")
    assert len(llm.paid) == 7
    assert generate(4, "--force").status == 0
    assert len(read(tmp_path / "out.jsonl")) == 4
    assert len(llm.paid) == len({json.dumps(body, sort_keys=True) for body in llm.paid})


def test_a_server_that_refuses_the_key(generate: Generate, llm: LLMServer, tmp_path: Path) -> None:
    llm.model = lambda _: Fault(401)
    done = generate(2)
    assert (done.status, done.out) == (2, "")
    assert "401" in done.err
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("n", ["0", "-1", "x"])
def test_no_number(generate: Generate, n: str) -> None:
    done = generate(1, "--n", n)
    assert (done.status, "not a number of questions" in done.err) == (2, True)


def test_nothing_to_ask_about(generate: Generate, docs: Path) -> None:
    for path in docs.iterdir():
        path.write_text("# Heading\n")
    done = generate(1)
    assert (done.status, done.err) == (2, "docs has no passage to ask about, of five words or more.\n")


def test_options_have_the_names_of_tests_too(generate: Generate, llm: LLMServer) -> None:
    """The command accepts --rageval-model, since error messages name options by their pytest names."""
    assert generate(1, "--rageval-model", "m2").status == 0
    assert {body["model"] for body in llm.requests} == {"m2"}


def test_parameters_and_the_judges_server_are_those_of_the_options(generate, llm):
    with LLMServer(author) as other:
        options = [
            '--parameters={"seed": 7}',
            '--judge-parameters={"seed": 8}',
            "--judge-base-url",
            other.url,
        ]
        done = generate(2, *options)
    assert done.status == 0, done.err
    assert {body["seed"] for body in llm.requests} == {7}
    assert {body["seed"] for body in other.requests} == {8}
    assert {"Answer to check:" in prompt for prompt in other.prompts} == {True}
