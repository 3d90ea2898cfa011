"""The registry of built-in scores and of those that plugins add."""

from dataclasses import replace
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.spec import ScoreRequest, Spec
from pytest_rageval.run.registry import Registry, resolve
from pytest_rageval.scores import SCORES
from pytest_rageval.scores.measures import LABEL_MEASURES, MEASURES
from pytest_rageval.scores.pipeline import ResolvedScore


@pytest.mark.parametrize("name", ["recall", "llm_reteval", "answer.rougeL", "arena.win_tie", "relevance.hit"])
def test_a_known_score_is_found(name: str) -> None:
    resolved, score = resolve(ScoreRequest(f"{name}@5"))
    assert (resolved, score.name) == (ResolvedScore(Spec.parse(f"{name}@5"), 5), name)


def test_every_score_has_a_name_of_its_own() -> None:
    assert len(set(SCORES)) == len(SCORES)


def test_every_ranking_measure_is_a_score() -> None:
    assert MEASURES.keys() <= SCORES.keys()


def test_every_measure_of_passages_is_a_score() -> None:
    annotators = {"erag", "contains", "relevance", "provenance"}
    names = {f"{annotator}.{part}" for annotator in annotators for part in LABEL_MEASURES}
    assert names == {name for name in SCORES if name.rpartition(".")[0] in annotators}


@pytest.mark.parametrize("text", ["bleu@5", "recal@5", "answer@5", "answer.xyz@5", "recall.f1@5", "nonsense"])
def test_an_unknown_score_says_where_the_known_ones_are(text: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(ScoreRequest(text))
    first, known = str(caught.value).split("\n")
    assert first.startswith(f"There is no score {text.partition('@')[0]!r}.")
    assert known.endswith("`rageval scores` lists the built-in scores.")
    assert sum(name in known for name in SCORES) < 15


def test_an_unknown_score_lists_similar_ones_and_those_of_plugins() -> None:
    own = replace(SCORES["recall"], name="own.recall")
    with pytest.raises(InputError) as caught:
        resolve(ScoreRequest("recal@5"), {**SCORES, "own.recall": own})
    known = str(caught.value).split("\n")[1]
    assert known.startswith("Similar names: recall, ")
    assert known.endswith("`rageval scores` lists the built-in scores; other plugins add own.recall.")


@pytest.mark.parametrize(
    ("text", "meant"),
    [("recal@5", "recall"), ("llm_retval@5", "llm_reteval"), ("answer.corect@5", "answer.correct")],
)
def test_a_misspelt_score_gets_a_hint(text: str, meant: str) -> None:
    with pytest.raises(InputError, match=rf"Did you mean {meant}\?"):
        resolve(ScoreRequest(text))


@pytest.mark.parametrize("text", ["recall", "answer.f1"])
def test_a_missing_cut_off_shows_how_to_write_it(text: str) -> None:
    with pytest.raises(InputError, match=rf"'{text}' has no cut-off") as caught:
        resolve(ScoreRequest(text))
    assert f"Write {text}@5" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("recall@3", "comparator"),
        ("answer.f1@3", "comparator"),
        ("answer.abstained@3", "comparator"),
        ("contains.p@3", "comparator"),
        ("relevance.p@3", "comparator"),
        ("rel.citation@3", "comparator"),
        ("recall@3", "label"),
        ("llm_reteval@3", "label"),
        ("answer.correct@3", "label"),
        ("contains.p@3", "label"),
        ("llm_reteval@3", "order"),
        ("answer.correct@3", "order"),
        ("judged.correctness@3", "order"),
        ("arena.win@3", "order"),
        ("recall@3", "relevant"),
        ("contains.p@3", "relevant"),
        ("answer.correct@3", "relevant"),
    ],
)
def test_a_word_that_would_do_nothing_is_refused(text: str, word: str) -> None:
    """A keyword without effect raises InputError, which names scores that accept the keyword."""
    value = "contains" if word == "relevant" else "x"
    with pytest.raises(InputError) as caught:
        resolve(ScoreRequest(text, **{word: value}))
    message = str(caught.value)
    assert message.startswith(f"{text!r} does not take {word}={value!r}. These scores do: ")
    for name in message.partition("These scores do: ")[2].removesuffix(".").split(", "):
        assert getattr(resolve(ScoreRequest(f"{name}@3", **{word: value}))[0], word) == value


@pytest.mark.parametrize(
    "text",
    [
        "recall@3",
        "steps.recall@3",
        "contains.p@3",
        "relevance.p@3",
        "erag.p@3",
        "udcg@3",
        "nuggets.ndcg@3",
        "rel.coverage@3",
    ],
)
def test_an_order_that_changes_nothing_is_accepted(text: str) -> None:
    """Scores without a prompt of several passages accept and ignore `order`, so that one grid serves all scores."""
    resolved, score = resolve(ScoreRequest(text, order="random"))
    assert (resolved.order, score.ignores) == ("rank", {"order"})


def test_the_judge_that_labels_passages_is_one_of_the_models() -> None:
    assert resolve(ScoreRequest("rel.coverage@3"))[1].models == ()
    assert resolve(ScoreRequest("rel.coverage@3", relevant="contains"))[1].models == ()
    assert resolve(ScoreRequest("rel.coverage@3", relevant="judge@9"))[1].models == ("judge",)


def test_a_score_of_another_plugin_gets_every_word() -> None:
    registry = Registry()
    registry.add_score("house", lambda *_: None)
    wanted = ScoreRequest("house@3", comparator="em", label="f1", order="random")
    assert resolve(wanted, registry.scores)[0].label == "f1"


def test_the_sizes_of_an_added_score_are_pooled() -> None:
    registry = Registry()
    registry.add_score("house", lambda *_: None)
    sizes = Evidence(sizes={"relevant": 4, "shown": 2, "found": 1})
    score = Score("house@3", [Outcome(Example("q", "?"), 0.5, None, sizes)])
    assert registry.scores["house"].notes(score)["pooled"]["recall_over_rel"] == 0.25


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            {"asks": ["generate", "judge"]},
            "unknown asks: 'judge'.\nIt can be: cite, compare, explain, generate,",
        ),
        ({"scale": (1, 1)}, "scale=(1, 1) must be the lowest and the highest value, such as (0, 1)."),
    ],
)
def test_the_declaration_of_an_added_score_is_checked(words: dict[str, Any], message: str) -> None:
    """An invalid declaration raises InputError: a misspelt request could leave a stale baseline valid."""
    with pytest.raises(InputError) as caught:
        Registry().add_score("house", lambda *_: None, **words)
    assert str(caught.value).startswith(f"add_score('house'): {message}")


def test_the_requests_of_every_built_in_score_are_known() -> None:
    """Without them it would accept every keyword and depend on every setting."""
    assert not any(score.asks_all for score in SCORES.values())


class _Comparator:
    def compare(self, *_: object) -> float:
        return 1.0


@pytest.mark.parametrize(
    "name", ["house-rules", "and", "OR", "not", "2nd", "f1>=0.5", "a b", "größer", "", None]
)
def test_a_name_that_an_expression_cannot_contain_is_refused(name: object) -> None:
    for add, thing in (("add_comparator", _Comparator()), ("add_answer_measure", lambda _p, _r: 1.0)):
        with pytest.raises(InputError, match="cannot be used in an expression"):
            getattr(Registry(), add)(name, thing)


def test_one_name_is_one_thing() -> None:
    """A comparator and an answer measure cannot have the same name, because expressions use both."""
    first, second = Registry(), Registry()
    first.add_comparator("both", _Comparator())
    second.add_answer_measure("both", lambda _p, _r: 1.0)
    with pytest.raises(InputError, match="There is a comparator 'both' already"):
        first.add_answer_measure("both", lambda _p, _r: 1.0)
    with pytest.raises(InputError, match="There is a comparator 'both' already"):
        second.add_comparator("both", _Comparator())
    assert "answer.both" not in first.scores


def test_an_async_answer_measure_is_refused() -> None:
    async def measure(_prediction: str, _references: object) -> float:
        return 1.0

    with pytest.raises(InputError, match=r"async.*\n.*add_comparator"):
        Registry().add_answer_measure("slow", measure)


def test_a_comparator_compares() -> None:
    with pytest.raises(InputError, match="builtin_function_or_method lacks the method compare"):
        Registry().add_comparator("house", print)
