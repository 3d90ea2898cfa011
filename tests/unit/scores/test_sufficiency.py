"""Sufficient context: the judge's verdict on the retrieved passages, and the causes of wrong answers that follow."""

from dataclasses import replace

import pytest

from pytest_rageval.answers.judge.replies import parse_explained_yes_no
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS
from pytest_rageval.scores.sufficiency import blame_outcomes, stratify_answers


def test_the_first_k_passages_are_judged_together(world, example):
    """The first k passages get one verdict, which needs neither gold passages nor references nor the generator."""
    world.rankings["q"] = ["part one", "part two", "other"]
    world.enough["part one|part two"] = 1.0
    case = example("q")
    assert [world.evaluate(f"sufficient@{k}", case)[0].value for k in (1, 2, 3)] == [0.0, 1.0, 0.0]
    assert (world.call_count("sufficient"), world.call_count("generate")) == (3, 0)


def test_the_reasons_are_stored_with_the_verdict(world, example):
    world.rankings["q"] = ["part one"]
    case = example("q")
    (judged,) = world.evaluate("sufficient@1", case)
    assert judged.evidence.explanation == "It reads part one."
    (nothing,) = world.evaluate("sufficient@1", example("other"))
    assert nothing.evidence.explanation == "Nothing was retrieved."


def test_an_empty_ranking_is_insufficient_without_a_request(world, example):
    assert world.evaluate("sufficient@5", example("q"))[0].value == 0.0
    assert not world.call_count("sufficient")


def test_the_prompt_has_the_question_and_the_numbered_passages():
    prompt = DEFAULT_PROMPTS.fill("sufficiency", "How far?", ["5 km", "6 mi"])
    assert "Question: How far?\n" in prompt
    assert "\n[1] 5 km\n[2] 6 mi\n" in prompt
    assert prompt.index("sentences") < prompt.index('"Verdict: yes"')


@pytest.mark.parametrize(
    ("reply", "reasons"),
    [
        (
            "The seat is needed.\n Passage 1 names it.\n\n**Verdict: yes**",
            "The seat is needed. Passage 1 names it.",
        ),
        ("Verdict: no\nNo passage names the seat.", "No passage names the seat."),
        ("No: the seat is missing.", "No: the seat is missing."),
        ('{"explanation": "It is there.", "sufficient": true}', "It is there."),
        ('{"reasons": "It is there.", "verdict": "yes"}', "It is there."),
        ("yes", ""),
    ],
)
def test_its_reasons_are_the_rest_of_the_reply(reply, reasons):
    assert parse_explained_yes_no(reply).explanation == reasons


CORRECT, WRONG, ABSTAINED = (1.0, "Tulsa"), (0.0, "Boston"), (0.0, "no answer in the documents")


def _outcomes(example, values, answers=()):
    answer_column = [*answers, *[None] * (len(values) - len(answers))]
    return [
        Outcome(example(f"q{n}"), value, None if value is not None else "none", Evidence(answer=answer))
        for n, (value, answer) in enumerate(zip(values, answer_column, strict=True))
    ]


def test_answers_are_counted_by_their_context(example):
    answers = [CORRECT, WRONG, ABSTAINED, CORRECT, WRONG, WRONG, ABSTAINED, CORRECT, (None, None)]
    context = [1.0, 0.5, 1.0, 0.0, 0.0, 0.4, 0.0, None, 1.0]
    counts = stratify_answers(_outcomes(example, context), _outcomes(example, *zip(*answers, strict=True)))
    assert counts == {
        "sufficient": {"correct": 1, "wrong": 1, "abstained": 1},
        "insufficient": {"correct": 1, "wrong": 2, "abstained": 1},
        "left_out": 2,
    }


@pytest.mark.parametrize(
    ("verdict", "before", "value", "after"),
    [
        (1.0, None, 0.0, "generator"),
        (0.0, None, 0.0, "retriever"),
        (1.0, "retriever", 0.0, "generator"),
        (1.0, "not known", 0.0, "generator"),
        (0.0, "not known", 0.0, "retriever"),
        # LLM-retEval has determined these causes, so they are not changed.
        (0.0, "distraction", 0.0, "distraction"),
        (1.0, "distraction", 0.0, "distraction"),
        (0.0, "generator", 0.0, "generator"),
        (0.0, "judge", 0.0, "judge"),
        # The answer is right or unscored, or there is no verdict on the context.
        (0.0, None, 1.0, None),
        (1.0, None, None, None),
        (None, "retriever", 0.0, "retriever"),
    ],
)
def test_a_wrong_answer_is_lost_by_the_generator_only_with_sufficient_context(
    example, verdict, before, value, after
):
    """The verdict on the context sets the cause of a wrong answer, unless gold passages and references have set it."""
    (answer,) = _outcomes(example, [value])
    (blamed,) = blame_outcomes([replace(answer, lost_by=before)], _outcomes(example, [verdict]))
    assert blamed.lost_by == after


@pytest.mark.parametrize(
    ("retrieved", "before", "after"),
    [
        (["far", "p 1", "p 2"], None, "not known"),
        (["far", "p 1", "p 2"], "not known", "not known"),
        (["p 1", "far"], None, "retriever"),
        ([], None, "retriever"),
    ],
)
def test_a_retriever_that_found_all_gold_passages_lost_nothing(example, retrieved, before, after):
    case = example("q", "p 1", "p 2")
    ranking = Ranking("q", [Document(text) for text in retrieved])
    context = Outcome(case, 0.0, None, Evidence(ranking))
    (blamed,) = blame_outcomes([Outcome(case, 0.0, None, Evidence(ranking), lost_by=before)], [context])
    assert blamed.lost_by == after
