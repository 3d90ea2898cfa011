"""LLM-retEval, on numbers that can be checked by hand."""

import asyncio
import threading

import pytest

from pytest_rageval.core.data import Example, Gold
from pytest_rageval.core.errors import Unscored
from pytest_rageval.core.outcome import Score
from pytest_rageval.core.spec import Spec
from pytest_rageval.models.generator import adapt_generator
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.scores.llm_reteval import evaluate_llm_reteval
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore

NOTHING = "no answer in the documents"


def test_a_worked_example(world, example) -> None:
    """Three of five questions score 1, so the mean is 3/5.

    found: the gold passage is retrieved. elsewhere: another passage gives the same answer. second: the answer equals
    that of the third semi-gold sample. lost: the answer is different. silent: the generator abstains.
    """
    world.rankings = {
        "found": ["Reno"],
        "elsewhere": ["Reno too"],
        "second": ["May 3"],
        "lost": ["Elko"],
        "silent": [],
    }
    world.answers = {"Reno too": "Reno", "in May": ("May", "in May", "May 3")}
    outcomes = world.evaluate(
        "llm_reteval@5",
        example("found", "Reno"),
        example("elsewhere", "Reno"),
        example("second", "in May"),
        example("lost", "Ely"),
        example("silent", "Ely"),
    )
    assert [outcome.value for outcome in outcomes] == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert Score("llm_reteval@5", outcomes) == 3 / 5


def test_only_the_first_k_are_read(world, example) -> None:
    """A gold passage at rank 2 does not help at k = 1."""
    world.rankings = {"q": ["Elko", "Reno"]}
    world.answers = {"Elko|Reno": "Reno"}
    assert world.evaluate("llm_reteval@1", example("q", "Reno"))[0].value == 0.0
    assert world.evaluate("llm_reteval@2", example("q", "Reno"))[0].value == 1.0


@pytest.mark.parametrize(
    ("comparator", "values", "cases"),
    [
        ("graded", [0.5, 0.25], [None, "C"]),
        ("graded>=0.75", [0.0, 0.0], ["C", "C"]),
        ("graded>=0.25", [1.0, 1.0], [None, None]),
    ],
)
def test_a_grade_of_three_is_a_yes_to_triage(world, example, comparator: str, values, cases) -> None:
    """If gold is retrieved, grade 3 agrees with recall and grade 2 does not, unless the comparator has a threshold."""
    world.rankings = {"three": ["in Nevada", "gold"], "two": ["out west", "gold"]}
    world.answers = {"in Nevada|gold": "in Nevada", "out west|gold": "out west", "gold": "Reno"}
    world.grades = {"in Nevada": 0.5, "out west": 0.25, "Reno": 1.0}
    examples = [example(name, "gold", answers=("Reno, Nevada",)) for name in ("three", "two")]
    outcomes = world.evaluate("llm_reteval@2", *examples, comparator=comparator)
    assert [outcome.value for outcome in outcomes] == values
    assert [outcome.case for outcome in outcomes] == cases
    assert world.call_count("compare") == 0


def test_graded_verdicts_are_cached(world, example) -> None:
    """A graded verdict of the comparator is the score."""
    world.rankings = {"q": ["partly"]}
    world.verdicts = {"partly": 0.25}
    assert world.evaluate("llm_reteval@1", example("q", "Reno"))[0].value == 0.25


def test_three_samples_are_drawn_from_the_relevant_gold_passages(world) -> None:
    """Each of three semi-gold answers is generated from all gold passages in set order, except those of grade 0."""
    gold = (Gold(text="a"), Gold(text="bad", grade=0), Gold(text="b", grade=2))
    world.evaluate("llm_reteval@1", Example("q", "q", gold=gold))
    assert {call for call in world.asked if call[:3] == ("generate", "q", "a|b")} == {
        ("generate", "q", "a|b", str(sample)) for sample in range(3)
    }


def test_the_judge_sees_each_semi_gold_answer_once_without_abstentions(world, example) -> None:
    """The references are the distinct semi-gold answers that are no abstentions."""
    world.rankings = {"q": ["x"]}
    world.answers = {"gold": ("Reno", NOTHING, "Reno")}
    world.evaluate("llm_reteval@1", example("q", "gold"))
    assert [call for call in world.asked if call[0] == "compare"] == [("compare", "q", "Reno", "x")]


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ((), "no gold passages"),
        ((Gold(text="a", grade=0),), "no gold passages"),
        ((Gold(id="d1"),), 'a gold passage has no "text" for the generator to read'),
        ((Gold(text="a"), Gold(id="d1")), 'a gold passage has no "text" for the generator to read'),
        ((Gold(text="hopeless"),), "the generator abstains even with the gold passages"),
        ((Gold(text="empty"),), "the generator's reply is empty"),
        ((Gold(text="unclear"),), "the judge's reply is neither yes nor no: 'maybe'"),
    ],
)
def test_what_cannot_be_compared_is_unscored(world, gold: tuple[Gold, ...], reason: str) -> None:
    """An example is unscored if it has no gold text, no semi-gold answer, no generator reply, or no verdict."""
    world.rankings = {"q": ["x"]}
    world.answers = {"hopeless": NOTHING, "empty": Unscored("the generator's reply is empty")}
    world.verdicts = {"x": Unscored("the judge's reply is neither yes nor no: 'maybe'")}
    (outcome,) = world.evaluate("llm_reteval@1", Example("q", "q", gold=gold))
    assert (outcome.value, outcome.unscored) == (None, reason)


def test_two_abstentions_are_no_agreement(world, example) -> None:
    """If the generator abstains with and without gold, the example has no score and the judge is not called."""
    world.answers = {"hopeless": NOTHING}
    world.verdicts = {NOTHING: 1.0}
    (outcome,) = world.evaluate("llm_reteval@1", example("q", "hopeless"))
    assert outcome.value is None
    assert world.call_count("compare") == 0


def test_an_abstention_where_gold_gave_an_answer_is_0_without_asking_the_judge(world, example) -> None:
    """If only the prediction abstains, the score is 0 and the judge is not called."""
    world.verdicts = {NOTHING: 1.0}
    (outcome,) = world.evaluate("llm_reteval@1", example("q", "Reno"))
    assert outcome.value == 0.0
    assert world.call_count("compare") == 0


def test_an_example_without_gold_costs_nothing(world, example) -> None:
    """An example without gold passages is unscored before any request is sent."""
    world.evaluate("llm_reteval@1", example("q"))
    assert not world.asked


def test_an_ideal_retriever_scores_1_though_answers_vary(world, example) -> None:
    """If exactly the gold passages are retrieved, the prediction is the first semi-gold answer and no fourth sample."""
    world.rankings = {"q": ["a", "b"]}
    world.answers = {"a|b": ("one", "two", "three")}
    assert world.evaluate("llm_reteval@5", example("q", "a", "b"))[0].value == 1.0
    assert world.call_count("generate") == 3


def test_the_evidence_shows_the_answers_with_gold(world, example) -> None:
    """The evidence has the prediction and the semi-gold answers."""
    world.rankings = {"q": ["Elko"]}
    (outcome,) = world.evaluate("llm_reteval@1", example("q", "Reno"))
    evidence = outcome.evidence
    assert (evidence.answer, evidence.expected, evidence.expected_as) == ("Elko", ("Reno",), "with gold")


def test_an_example_given_up_early_does_not_stall_a_later_score(loop) -> None:
    """If an example becomes unscored while a request is pending, another score can still get the request's result."""
    finished = threading.Event()

    def search(_question: str, _k: int) -> list[str]:
        finished.wait(60)
        return ["Reno"]

    generator = adapt_generator(lambda _question, _passages: "Reno", loop)
    run = Pipeline(adapt_retriever(search, loop), generator, None)
    by_id = Example("q", "q", gold=(Gold(id="d1"),))

    async def evaluate() -> None:
        await evaluate_llm_reteval(run, [by_id], ResolvedScore(Spec("llm_reteval", None, 5), 5))
        finished.set()

    async def settle() -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    loop.run(evaluate())
    # The loop runs its pending tasks while no evaluation runs.
    asyncio.run_coroutine_threadsafe(settle(), loop._loop).result(60)
    assert loop.run(run.answer("q", 5)) == "Reno"


def test_the_ranking_measures_are_computed_without_further_requests(world, example):
    """The evidence has recall, precision and F1 with the values of their own scores, without further requests."""
    world.rankings = {"q": ["x", "a"], "r": ["b"], "none": ["x"]}
    examples = [example("q", "a", "c", answers=("a",)), example("r", "b", answers=("b",)), example("none")]
    outcomes = world.evaluate("llm_reteval@2", *examples)
    requests = world.asked.total()
    for name in ("recall@2", "precision@2", "f1@2"):
        values = [outcome.value for outcome in world.evaluate(name, *examples)]
        assert [outcome.evidence.beside.get(name) for outcome in outcomes] == values
    assert outcomes[0].evidence.beside == {"recall@2": 0.5, "precision@2": 0.5, "f1@2": 0.5}
    assert world.asked.total() == requests
    # Examples with equal values share one dict: a dict per example would be a tenth of the memory.
    world.rankings["s"] = ["b"]
    of_r, of_s = world.evaluate("llm_reteval@2", examples[1], example("s", "b", answers=("b",)))
    assert of_r.evidence.beside is of_s.evidence.beside
