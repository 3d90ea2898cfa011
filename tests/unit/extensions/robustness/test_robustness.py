"""Perturbations and the scores over them. `RAGEVAL_DOCS=update` writes the examples of the guide again."""

import re
from random import Random
from statistics import fmean
from typing import Any

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.evalsets.records import example_from
from pytest_rageval.extensions.robustness.scores import PERTURBATIONS, WORD, perturbed
from tests.docs.pages import ROOT, UPDATE
from tests.unit.scores.conftest import World

PAGE = ROOT / "docs" / "how-to" / "robustness.md"
EXAMPLES = re.compile(r"(?<=test_robustness.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
QUESTIONS = (
    "How do I reset my password?",
    "Which café in Zürich accepts vouchers?",
    "Can I return a tablet after 30 days?",
    "Wer bezahlt die Rücksendung, wenn das Gerät defekt ist?",
    "¿Cuánto tarda el envío a España?",
    "Où puis-je télécharger ma facture ?",
    "what is the warranty of model X-200?",
    "Do you ship to Malmö, Sweden?",
    "Is there a discount for students (or teachers)?",
    "Why was order #4711 cancelled?",
)


@pytest.fixture
def world(loop: BackgroundEventLoop) -> World:
    return World(loop)


def test_ten_examples_of_each_are_in_the_guide() -> None:
    lines = []
    for name, function in PERTURBATIONS.items():
        lines += ["", f"### `{name}`", "", str(function.__doc__), "", "| question | perturbed |", "|---|---|"]
        lines += [f"| {question} | {perturbed(name, question, 0)} |" for question in QUESTIONS]
    page = PAGE.read_text(encoding="utf-8")
    written = EXAMPLES.sub(lambda _: "\n".join([*lines, "", ""]), page)
    if UPDATE:
        PAGE.write_text(written, encoding="utf-8")
    assert page == written or UPDATE


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_a_perturbation_depends_on_question_and_seed_alone(name: str) -> None:
    first = [perturbed(name, question, 0) for question in QUESTIONS]
    assert first == [perturbed(name, question, 0) for question in QUESTIONS]
    other = [perturbed(name, question, 1) for question in QUESTIONS]
    assert (first == other) == (name not in {"typos", "order"})
    # No letters, no words, no cases: nothing to change.
    assert {type(perturbed(name, text, 0)) for text in ("", "?", "東京", "1 2")} == {str}


def test_typos_are_in_one_of_five_words() -> None:
    question = " ".join(["returning"] * 50)
    words = perturbed("typos", question, 0).split()
    changed = [word for word in words if word != "returning"]
    assert (len(words), len(changed)) == (50, 10)
    assert all(word[0] == "r" and abs(len(word) - 9) <= 1 for word in changed)
    assert len(set(changed)) > 4
    for _ in range(200):
        rng = Random(_)
        assert PERTURBATIONS["typos"]("aaaa", rng) != "aaaa"


def test_what_a_perturbation_keeps() -> None:
    assert perturbed("typos", "a1234 up to", 0) == "a1234 up to"
    assert not WORD.findall("a1234 up to 12.5")
    assert perturbed("punctuation", "«Isn't 3.5 > 3,4?» ...", 0) == "Isn't 3.5 > 3,4"
    assert perturbed("stopwords", "Who is it?", 0) == "Who is it?"
    assert perturbed("diacritics", "がぎ 한국 Straße", 0) == "がぎ 한국 Strasse"
    assert perturbed("case", "abc", 0) == "ABC"
    assert perturbed("order", "a b", 0) == "b a"


def _example(**fields: object) -> Example:
    record = {"id": "q", "question": "Where is it?", "gold": [{"text": "gold one"}], **fields}
    return example_from(record, place="e.jsonl line 1")


def test_scores_are_means_over_the_perturbations(world: World) -> None:
    """Each perturbation has a ranking of its own; punctuation is unchanged in the third, and does not count."""
    example = _example(perturb="case, variants", variants=["Where?", "It is where?"])
    world.rankings |= {
        "Where is it?": ["gold one", "b", "c"],
        "where is it?": ["b", "gold one", "c"],
        "Where?": ["b", "c", "gold one"],
        "It is where?": ["b", "c", "d"],
    }
    values = {"mrr": [1 / 2, 1 / 3, 0], "recall": [1, 1, 0], "hit": [1, 1, 0]}
    for name, each in values.items():
        [outcome] = world.evaluate(f"robust.{name}@3", example)
        assert outcome.value == pytest.approx(fmean(each))
        assert outcome.example is example
    [outcome] = world.evaluate("robust.mrr@3", example)
    assert outcome.evidence.beside == {"unperturbed": 1.0, "case": 1 / 2, "variants": pytest.approx(1 / 6)}
    assert outcome.evidence.remark == "variants: It is where?"
    assert outcome.evidence.ranking.labels[-1] == '"d"'
    assert world.evaluate("robust.worst@3", example)[0].value == 0
    [outcome] = world.evaluate("robust.rbo@3", example)
    # Agreements 0, 1, 1; 0, 1/2, 1; and 0, 1/2, 2/3.
    overlaps = [0.9, 0.1 * (0.9 / 2 + 0.81) + 0.729, 0.1 * (0.9 / 2 + 0.81 * 2 / 3) + 0.729 * 2 / 3]
    assert outcome.value == pytest.approx(fmean(overlaps))
    assert outcome.evidence.beside["unperturbed"] == 1.0


def test_changed_questions_are_not_taken_for_others(world: World) -> None:
    world.rankings |= {"A b": ["one"], "a b": ["one"], "C d": ["two"], "c d": ["two"]}
    examples = [
        _example(id=name, question=text, perturb="case") for name, text in (("1\n1", "A b"), ("1", "C d"))
    ]
    outcomes = world.evaluate("robust.rbo@3", *examples)
    assert [outcome.evidence.beside["unperturbed"] for outcome in outcomes] == [1, 1]


def test_questions_that_have_no_score(world: World) -> None:
    world.rankings |= {"Where is it?": ["gold one"], "where is it?": ["gold one"]}
    [outcome] = world.evaluate("robust.recall@3", _example(perturb="diacritics"))
    assert (outcome.value, outcome.undefined) == (None, "no perturbation changes the question")
    world.rankings["?!"] = ["gold one"]
    [outcome] = world.evaluate("robust.recall@3", _example(question="?!", perturb="punctuation"))
    assert outcome.undefined == "no perturbation changes the question"
    [outcome] = world.evaluate("robust.recall@3", _example(perturb="case", gold=[]))
    assert (outcome.value, outcome.unscored) == (None, "no gold passages")
    with pytest.raises(InputError, match="needs to know how questions are changed"):
        world.evaluate("robust.recall@3", _example())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"perturb": "typo"}, "\"perturb\" has 'typo', which is no perturbation.\nThere are typos, case,"),
        ({"perturb": ["case", 3]}, '"perturb"[1] is 3, expected text'),
        ({"perturb": []}, '"perturb" is an empty list'),
        ({"variants": "Where?"}, "\"variants\" is the text 'Where?', expected a list"),
        ({"pertrub": "case"}, '"pertrub" is no field, and resembles "perturb"'),
    ],
)
def test_a_mistake_in_a_record_is_an_error(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"e.jsonl line 1: {message}")):
        _example(**fields)
