"""Prompts of the user that replace the package's prompts."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_rageval.answers.judge.llm_judge import LLMJudge
from pytest_rageval.answers.judge.tasks import COMPARE, GRADE
from pytest_rageval.core.errors import InputError
from pytest_rageval.models.generator import LLMGenerator
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS, build_prompts, read_templates
from pytest_rageval.models.prompts import CRITERIA, PLACEHOLDER, TEMPLATES, UNFENCED_PLACEHOLDERS
from pytest_rageval.models.server import RemoteServer
from pytest_rageval.scores import known_dependencies

GATEWAY: Any = SimpleNamespace(address=lambda _model, base_url: base_url)  # no reply is recorded elsewhere

SERVER = RemoteServer("http://here/v1")

METHODS = {
    "answer": lambda prompts: prompts.fill("answer", "Q1", ["T1"]),
    "citing": lambda prompts: prompts.fill("citing", "Q1", ["T1"]),
    "long_answer": lambda prompts: prompts.fill("long_answer", "Q1", ["T1"]),
    "question": lambda prompts: prompts.fill("question", "T1"),
    "same_answer": lambda prompts: prompts.fill("same_answer", "Q1", ["T1"], "T2"),
    "graded_answer": lambda prompts: prompts.fill("graded_answer", "Q1", ["T1"], "T2"),
    "relevance": lambda prompts: prompts.fill("relevance", "Q1", "T1"),
    "sufficiency": lambda prompts: prompts.fill("sufficiency", "Q1", ["T1"]),
    "preference": lambda prompts: prompts.fill("preference", "Q1", "T1", "T2"),
    "better_passages": lambda prompts: prompts.fill("better_passages", "Q1", ["T1"], ["T2"]),
    "hypothetical_passage": lambda prompts: prompts.hypothetical_passage("T1"),
    "search_queries": lambda prompts: prompts.search_queries("T1", 3),
    "better_query": lambda prompts: prompts.fill("better_query", "Q1", ["T1"]),
    "nugget_support": lambda prompts: prompts.fill("nugget_support", "Q1", ["T1"], "T2"),
    "nuggets": lambda prompts: prompts.fill("nuggets", "Q1", ["T1"]),
    "three_grades": lambda prompts: prompts.fill("three_grades", "Q1", ["T1"], ["T2"], ["T1"], ["T2"]),
    **{
        criterion: lambda prompts, criterion=criterion: prompts.fill(criterion, "Q1", ["T1"], ["T2"])
        for criterion in CRITERIA
    },
}


def test_every_template_has_its_method() -> None:
    assert METHODS.keys() == TEMPLATES.keys()


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_prompt_is_replaced_alone(name: str) -> None:
    prompts = build_prompts({name: TEMPLATES[name] + " Danke."}, "here")
    for other, ask in METHODS.items():
        assert ask(prompts) == ask(DEFAULT_PROMPTS) + (" Danke." if other == name else "")


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("mark", ["", "Mind {mark}.\n\n"])
def test_prompts_without_fences_differ_in_these_alone(name: str, mark: str) -> None:
    prompts = build_prompts({name: mark + TEMPLATES[name].replace("{mark}", "")}, "here")
    fenced, bare = METHODS[name](prompts), METHODS[name](prompts.without_fences())
    quotes = bool(mark) or not set(PLACEHOLDER.findall(TEMPLATES[name])) <= UNFENCED_PLACEHOLDERS
    assert bool(re.search("[0-9a-f]{12}", fenced)) == quotes
    assert not re.search("[0-9a-f]{12}", bare)
    assert "T1" in bare
    assert set(bare.splitlines()) <= set(fenced.splitlines())


def test_texts_may_hold_braces() -> None:
    assert "{passages} {x}" in DEFAULT_PROMPTS.fill("answer", "{passages} {x}", ["{question}"])


def test_what_replies_depend_on_names_the_prompt_in_force() -> None:
    """The identity of generators and judges changes with the prompt, so old baselines become stale."""
    worded = build_prompts({name: f"{text} Danke." for name, text in TEMPLATES.items()}, "here")
    for method in ("generate", "cite", "explain"):
        default_identity, worded_identity = (
            LLMGenerator(GATEWAY, SERVER, "m", prompts=prompts).identity(method)
            for prompts in (DEFAULT_PROMPTS, worded)
        )
        assert {name for name in default_identity if default_identity[name] != worded_identity[name]} == {
            f"prompt to {method}"
        }
    tasks = [ask for ask in known_dependencies() if not isinstance(ask, str)]
    for task in (COMPARE, GRADE, *tasks):
        default_identity, worded_identity = (
            LLMJudge(GATEWAY, SERVER, "m", prompts=prompts).identity(task)
            for prompts in (DEFAULT_PROMPTS, worded)
        )
        assert {name for name in default_identity if default_identity[name] != worded_identity[name]} == {
            f"prompt to {task.name}"
        }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "here gives NoneType, and not a dict of prompts by name.\nReturn"),
        (["answer"], "here gives list, and not a dict"),
        (
            {"same_answers": "x"},
            "here: there is no prompt 'same_answers'. Did you mean same_answer?\nThere are: answer, citing, ",
        ),
        ({7: "x"}, "here: there is no prompt 7.\nThere are: answer, "),
        ({"answer": 7}, "here: the prompt answer is int. Write it as text."),
        (
            {"answer": "{question}"},
            "here: the prompt answer lacks {passages}.\nIts placeholders are: {question}, {passages}.",
        ),
        (
            {"relevance": "{question} {passages} {passage}"},
            "here: the prompt relevance does not know {passages}.\nIts placeholders are: {question}, {passage}.",
        ),
    ],
)
def test_an_unusable_value_is_reported_with_the_allowed_ones(given: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        build_prompts(given, "here")
    assert str(caught.value).startswith(message)


def test_worked_examples_may_be_left_out() -> None:
    """A user's template without worked examples is used without them, as a zero-shot prompt."""
    prompts = build_prompts(
        {"hypothetical_passage": "Answer: {question}", "search_queries": "{n} for {question}:"}, "here"
    )
    assert prompts.hypothetical_passage("Q1") == "Answer: Q1"
    assert prompts.search_queries("Q1", 2) == "2 for Q1:"


def test_a_file_of_prompts(tmp_path: Path) -> None:
    path = tmp_path / "prompts.toml"
    path.write_text('answer = """\nFrage: {question}\n{passages}"""\n', encoding="utf-8")
    assert read_templates(path) == {"answer": "Frage: {question}\n{passages}"}
    path.write_text('answers = "x"', encoding="utf-8")
    with pytest.raises(InputError, match=r"prompts\.toml: there is no prompt 'answers'"):
        read_templates(path)


@pytest.mark.parametrize("content", [b"answer = ", b'answer = "\xff"'])
def test_a_file_that_is_not_toml(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "prompts.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"prompts\.toml are not TOML: .*\nWrite each as NAME"):
        read_templates(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_templates(tmp_path / "prompts.toml")
