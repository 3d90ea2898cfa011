"""Which scores there are."""

from typing import Any

import pytest

from pytest_rageval.errors import InputError
from pytest_rageval.evaluations.answer import (
    evaluate_answer,
    evaluate_answer_abstained,
    evaluate_answer_correct,
)
from pytest_rageval.evaluations.arena import evaluate_arena
from pytest_rageval.evaluations.context import ScoreRequest, Terms
from pytest_rageval.evaluations.llm_reteval import evaluate_llm_reteval
from pytest_rageval.evaluations.passage_labels import evaluate_contains, evaluate_erag, evaluate_relevance
from pytest_rageval.evaluations.ranking import evaluate_ranking
from pytest_rageval.evaluations.registry import ASKED, EVALUATIONS, Registry, evaluation_of
from pytest_rageval.measures import passage_labels as usefulness
from pytest_rageval.measures.ranking import MEASURES
from pytest_rageval.measures.spec import Spec

KNOWN = {
    "recall@5": evaluate_ranking,
    "precision@5": evaluate_ranking,
    "f1@5": evaluate_ranking,
    "map@5": evaluate_ranking,
    "mrr@5": evaluate_ranking,
    "ndcg@5": evaluate_ranking,
    "hit@5": evaluate_ranking,
    "llm_reteval@5": evaluate_llm_reteval,
    "answer.correct@5": evaluate_answer_correct,
    "answer.em@5": evaluate_answer,
    "answer.f1@5": evaluate_answer,
    "answer.rougeL@5": evaluate_answer,
    "answer.bertscore_p@5": evaluate_answer,
    "answer.abstained@5": evaluate_answer_abstained,
    "arena.win@5": evaluate_arena,
    "arena.win_tie@5": evaluate_arena,
    "erag.ndcg@5": evaluate_erag,
    "contains.p@5": evaluate_contains,
    "relevance.hit@5": evaluate_relevance,
}


@pytest.mark.parametrize(("text", "evaluate"), KNOWN.items())
def test_a_known_score_is_found(text: str, evaluate: object) -> None:
    """By its name without the cut-off."""
    assert evaluation_of(ScoreRequest(text)) == (Terms(Spec.parse(text), 5), evaluate)


def test_every_ranking_measure_is_a_score() -> None:
    """None is defined and then forgotten."""
    assert MEASURES.keys() <= EVALUATIONS.keys()


def test_every_measure_of_passages_is_a_score() -> None:
    """For each annotator."""
    names = {
        f"{annotator}.{part}"
        for annotator in ("erag", "contains", "relevance")
        for part in usefulness.MEASURES
    }
    assert names == {
        name for name in EVALUATIONS if name.partition(".")[0] in {"erag", "contains", "relevance"}
    }


@pytest.mark.parametrize("text", ["bleu@5", "recal@5", "answer@5", "answer.xyz@5", "recall.f1@5", "nonsense"])
def test_an_unknown_score_lists_the_known_ones(text: str) -> None:
    """All of them, by the names that can be typed."""
    with pytest.raises(InputError) as caught:
        evaluation_of(ScoreRequest(text))
    first, known = str(caught.value).split("\n")
    assert first.startswith(f"There is no score {text.partition('@')[0]!r}.")
    assert known == f"There are: {', '.join(EVALUATIONS)}."


@pytest.mark.parametrize(
    ("text", "meant"),
    [("recal@5", "recall"), ("llm_retval@5", "llm_reteval"), ("answer.corect@5", "answer.correct")],
)
def test_a_misspelt_score_gets_a_hint(text: str, meant: str) -> None:
    """The nearest name is suggested."""
    with pytest.raises(InputError, match=rf"Did you mean {meant}\?"):
        evaluation_of(ScoreRequest(text))


@pytest.mark.parametrize("text", ["recall", "answer.f1"])
def test_a_missing_cut_off_shows_how_to_write_it(text: str) -> None:
    """How many documents count must be said."""
    with pytest.raises(InputError, match=rf"'{text}' has no cut-off") as caught:
        evaluation_of(ScoreRequest(text))
    assert f"Write {text}@5" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("recall@3", "comparator"),
        ("answer.f1@3", "comparator"),
        ("answer.abstained@3", "comparator"),
        ("contains.p@3", "comparator"),
        ("relevance.p@3", "comparator"),
        ("rel.answer@3", "comparator"),
        ("recall@3", "label"),
        ("llm_reteval@3", "label"),
        ("answer.correct@3", "label"),
        ("contains.p@3", "label"),
        ("recall@3", "order"),
        ("rel.coverage@3", "order"),
        ("erag.p@3", "order"),
    ],
)
def test_a_word_that_would_do_nothing_is_refused(text: str, word: str) -> None:
    """With the scores that know it, which do."""
    with pytest.raises(InputError) as caught:
        evaluation_of(ScoreRequest(text, **{word: "x"}))
    message = str(caught.value)
    assert message.startswith(f"{text!r} knows no {word}='x'. These scores do: ")
    for name in message.partition("These scores do: ")[2].removesuffix(".").split(", "):
        assert getattr(evaluation_of(ScoreRequest(f"{name}@3", **{word: "x"}))[0], word) == "x"


def test_a_score_of_another_plugin_gets_every_word() -> None:
    """Nobody knows which of them it reads."""
    registry = Registry()
    registry.add_score("house", lambda *_: None)
    wanted = ScoreRequest("house@3", comparator="em", label="f1", order="random")
    assert evaluation_of(wanted, registry.scores)[0].label == "f1"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            {"asks": ["generate", "judge"]},
            "nobody can be asked 'judge'.\nThere are: cite, compare, explain, generate,",
        ),
        ({"scale": (1, 1)}, "scale=(1, 1) is no lowest and highest value, such as (0, 1)."),
    ],
)
def test_what_an_added_score_says_of_itself_is_looked_at(words: dict[str, Any], told: str) -> None:
    """A word misspelt would leave a baseline valid that is not."""
    with pytest.raises(InputError) as caught:
        Registry().add_score("house", lambda *_: None, **words)
    assert str(caught.value).startswith(f"add_score('house'): {told}")


def test_of_every_built_in_score_it_is_known_what_it_asks() -> None:
    """Else it would seem to know every word, and every change would make its baseline stale."""
    assert set(EVALUATIONS.values()) <= ASKED.keys()


class _Comparator:
    def compare(self, *_: object) -> float:
        return 1.0


@pytest.mark.parametrize(
    "name", ["house-rules", "and", "OR", "not", "2nd", "f1>=0.5", "a b", "größer", "", None]
)
def test_a_name_that_no_expression_can_hold_is_refused(name: object) -> None:
    """As a comparator and as an answer measure, at once and not when somebody writes it."""
    for add, thing in (("add_comparator", _Comparator()), ("add_answer_measure", lambda _p, _r: 1.0)):
        with pytest.raises(InputError, match="can be no part of an expression"):
            getattr(Registry(), add)(name, thing)


def test_one_name_is_one_thing() -> None:
    """A comparator and an answer measure share the names that expressions are made of."""
    first, second = Registry(), Registry()
    first.add_comparator("both", _Comparator())
    second.add_answer_measure("both", lambda _p, _r: 1.0)
    with pytest.raises(InputError, match="There is a comparator 'both' already"):
        first.add_answer_measure("both", lambda _p, _r: 1.0)
    with pytest.raises(InputError, match="There is a comparator 'both' already"):
        second.add_comparator("both", _Comparator())
    assert "answer.both" not in first.scores


def test_an_async_answer_measure_is_refused() -> None:
    """Measures are computed where nothing can be awaited; a comparator may be async."""

    async def measure(_prediction: str, _references: object) -> float:
        return 1.0

    with pytest.raises(InputError, match=r"async.*\n.*add_comparator"):
        Registry().add_answer_measure("slow", measure)


def test_a_comparator_compares() -> None:
    """What cannot is told when it is added."""
    with pytest.raises(InputError, match="builtin_function_or_method lacks the method compare"):
        Registry().add_comparator("house", print)
