"""LLM-retEval, on numbers that can be checked by hand."""

import asyncio
import threading
from typing import Any

import pytest

from pytest_rageval.answers.judge import Verdict
from pytest_rageval.core.errors import Unscored
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.core.spec import Spec
from pytest_rageval.models.generator import adapt_generator
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.scores.llm_reteval import (
    ReferenceChecks,
    case_of,
    ceiling_text,
    evaluate_llm_reteval,
    lost_by,
    triage_notes,
)
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore

NOTHING = "no answer in the documents"
UNKNOWN_TEXT = (
    'a gold passage has no "text" for the generator to read, and no document of its id was retrieved'
)


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


def test_three_samples_are_drawn_from_the_relevant_gold_passages(world) -> None:
    """Each of three semi-gold answers is generated from all gold passages in set order, except those of grade 0."""
    gold = (Gold(text="a"), Gold(text="bad", grade=0), Gold(text="b", grade=2))
    world.evaluate("llm_reteval@1", Example("q", "q", gold=gold))
    assert {call for call in world.asked if call[:3] == ("generate", "q", "a|b")} == {
        ("generate", "q", "a|b", str(sample)) for sample in range(3)
    }


def test_the_judge_sees_each_semi_gold_answer_once_without_abstentions(world, example) -> None:
    world.rankings = {"q": ["x"]}
    world.answers = {"gold": ("Reno", NOTHING, "Reno")}
    world.evaluate("llm_reteval@1", example("q", "gold"))
    assert [call for call in world.asked if call[0] == "compare"] == [("compare", "q", "Reno", "x")]


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ((), "no gold passages"),
        ((Gold(text="a", grade=0),), "no gold passages"),
        ((Gold(id="d1"),), UNKNOWN_TEXT),
        ((Gold(text="a"), Gold(id="d1")), UNKNOWN_TEXT),
        ((Gold(source="a.md", start=0, end=3),), 'a gold passage has no "text" for the generator to read'),
        ((Gold(text="hopeless"),), "the generator abstains even with the gold passages"),
        ((Gold(text="empty"),), "the generator's reply is empty"),
        ((Gold(text="unclear"),), "the judge's reply is neither yes nor no: 'maybe'"),
    ],
)
def test_what_cannot_be_compared_is_unscored(world, gold: tuple[Gold, ...], reason: str) -> None:
    world.rankings = {"q": ["x"]}
    world.answers = {"hopeless": NOTHING, "empty": Unscored("the generator's reply is empty")}
    world.verdicts = {"x": Unscored("the judge's reply is neither yes nor no: 'maybe'")}
    (outcome,) = world.evaluate("llm_reteval@1", Example("q", "q", gold=gold))
    assert (outcome.value, outcome.unscored) == (None, reason)


@pytest.mark.parametrize("spec", ["llm_reteval@2", "judged.context_quality@2"])
def test_gold_by_id_has_the_text_of_the_retrieved_document(world, spec: str) -> None:
    """The text may come from the ranking of another question. A question whose gold has none costs nothing."""
    reno, elko = {"id": "d1", "text": "Reno"}, {"id": "d2", "text": "Elko"}
    world.rankings = {"q1": [elko], "q2": [reno, elko], "q3": [elko]}
    for texts in (("Elko",), ("Reno", "Elko")):
        world.ratings["context_quality", texts, ("Reno",)] = Verdict(3, "")
    gold_ids = {"q1": "d1", "q2": "d1", "q3": "d9"}
    examples = [Example(name, name, gold=(Gold(id=gold),)) for name, gold in gold_ids.items()]
    outcomes = world.evaluate(spec, *examples)
    assert [outcome.unscored for outcome in outcomes] == [None, None, UNKNOWN_TEXT]
    assert outcomes[2].cause == "retriever"  # which must not gain by losing the passage
    assert Score(spec, outcomes).counts == {"retrieved_gold_texts": 2}
    assert not [call for call in world.asked if call[1] == "q3" and call[0] != "retrieve"]
    if spec.startswith("llm"):
        assert [outcome.value for outcome in outcomes] == [0.0, 1.0, None]
        assert world.asked["generate", "q1", "Reno", "0"] == 1
    assert max(count for call, count in world.asked.items() if call[0] == "retrieve") == 1


def test_the_text_of_gold_depends_on_its_eval_set_and_the_cut_off_alone(world) -> None:
    """It is the same whatever else of a run was evaluated before."""
    world.rankings = {
        "q1": [{"id": "d2", "text": "Elko"}],
        "q2": [{"id": f"d{n}", "text": "Reno"} for n in (3, 1)],
    }
    both = [Example(name, name, gold=(Gold(id="d1"),)) for name in world.rankings]
    unscored = {
        (spec, len(examples)): world.evaluate(spec, *examples)[0].unscored
        for spec, examples in (("llm_reteval@2", both), ("llm_reteval@1", both), ("llm_reteval@2", both[:1]))
    }
    assert [*unscored.values()] == [None, UNKNOWN_TEXT, UNKNOWN_TEXT]


def test_an_id_with_several_texts_names_no_gold_passage(world) -> None:
    """Two chunks may have the id of their document: which of them is gold is not known."""
    world.rankings = {"q1": [{"id": "d1", "text": "Reno"}], "q2": [{"id": "d1", "text": "Elko"}]}
    outcomes = world.evaluate("llm_reteval@1", *(Example(q, q, gold=(Gold(id="d1"),)) for q in ("q1", "q2")))
    assert [outcome.unscored for outcome in outcomes] == [
        UNKNOWN_TEXT.replace("no document of its id was", "several documents of its id were")
    ] * 2


@pytest.mark.parametrize(("gold", "value"), [("hopeless", None), ("Reno", 0.0)])
def test_two_abstentions_are_no_agreement_and_one_is_0(world, example, gold, value) -> None:
    """The judge is not called, even if it would accept the abstention."""
    world.answers = {"hopeless": NOTHING}
    world.verdicts = {NOTHING: 1.0}
    (outcome,) = world.evaluate("llm_reteval@1", example("q", gold))
    assert outcome.value == value
    assert world.call_count("compare") == 0


def test_an_ideal_retriever_scores_1_though_answers_vary(world, example) -> None:
    """If exactly the gold passages are retrieved, the prediction is the first semi-gold answer and no fourth sample."""
    world.rankings = {"q": ["a", "b"]}
    world.answers = {"a|b": ("one", "two", "three")}
    assert world.evaluate("llm_reteval@5", example("q", "a", "b"))[0].value == 1.0
    assert world.call_count("generate") == 3


def test_the_evidence_shows_the_answers_with_gold(world, example) -> None:
    world.rankings = {"q": ["Elko"]}
    (outcome,) = world.evaluate("llm_reteval@1", example("q", "Reno"))
    evidence = outcome.evidence
    assert (evidence.answer, evidence.expected, evidence.expected_as) == ("Elko", ("Reno",), "with gold")


def test_an_example_given_up_early_does_not_stall_a_later_score(loop) -> None:
    finished = threading.Event()

    def search(_question: str, _k: int) -> list[str]:
        finished.wait(60)
        return ["Reno"]

    generator = adapt_generator(lambda _question, _passages: "Reno", loop)
    run = Pipeline(adapt_retriever(search, loop), generator, None)
    by_span = Example("q", "q", gold=(Gold(source="a.md", start=0, end=3),))

    async def evaluate() -> None:
        await evaluate_llm_reteval(run, [by_span], ResolvedScore(Spec("llm_reteval", None, 5), 5))
        finished.set()

    async def settle() -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    loop.run(evaluate())
    # The loop runs its pending tasks while no evaluation runs.
    loop.submit(settle()).result(60)
    assert loop.run(run.answer("q", 5)) == "Reno"


def test_the_ranking_measures_are_computed_without_further_requests(world, example):
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


GOLD = "The seat of Washoe County in the state of Nevada has been Reno ever since the railway came in 1868"


CUT = "Been Reno ever since the railway came in 1868, says the city"


def _one(world: Any, example: Example) -> tuple[float | None, float | None, str | None, str | None]:
    """Return the verdict, Recall@2, the case, and the cause of the lost question."""
    (outcome,) = world.evaluate("llm_reteval@2", example)
    return outcome.value, outcome.evidence.recall, outcome.case, outcome.lost_by


BOTH = {"answer_set": (("Reno", "Reno, Sparks"), ("Sparks", "Reno, Sparks"))}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        # The answer was in another passage.
        ((["Visit Reno"], "Reno", "Reno", ["Reno"]), (1.0, 0.0, "A", None)),
        # The other passage is a cut of the gold one: less than half of it, with a third of its shingles.
        (([CUT], "Reno", "Reno", ["Reno"]), (1.0, 0.0, "B", None)),
        # Another passage distracts: the answer from gold alone is right.
        ((["Visit Elko", GOLD], "Elko", "Reno", ["Reno"]), (0.0, 1.0, "C", "distraction")),
        # The generator cannot answer from gold either.
        ((["Visit Elko", GOLD], "Elko", "Ely", ["Reno"]), (0.0, 1.0, "C", "generator")),
        # The answers with gold are wrong.
        (([GOLD, "Visit Reno"], "Reno", ("Ely", "Elko", "Ely"), ["Reno"]), (0.0, 1.0, "D", "judge")),
        # Both answers are wrong in the same way.
        ((["Visit Ely"], "Ely", "Ely", ["Reno"]), (1.0, 0.0, "D", None)),
        # Gold alone gives no answer of the set.
        (([GOLD, "Visit Sparks"], "Reno, Sparks", "Ely", BOTH), (0.0, 1.0, "D", "judge")),
        # Of two right answers, gold alone gives the first, and the retrieved passages the second.
        (([GOLD, "Visit Sparks"], "Sparks", "Reno", ["Reno", "Sparks"]), (0.0, 1.0, "E", "judge")),
        # Both answers of the set are wanted: the retrieved passages give both, gold alone one.
        (([GOLD, "Visit Sparks"], "Reno, Sparks", "Reno", BOTH), (0.0, 1.0, "E", "judge")),
    ],
)
def test_what_was_found_and_answered_decides_the_case(world, example, case, expected) -> None:
    found, answer, from_gold, wanted = case
    world.rankings = {"q": found}
    world.answers = {"|".join(found): answer, GOLD: from_gold}
    wanted = wanted if wanted is BOTH else {"answers": tuple(wanted)}
    assert _one(world, example("q", GOLD, **wanted)) == expected


@pytest.mark.parametrize(
    ("from_gold", "references"),
    [
        ("Reno, of course", ("Reno",)),
        # Aliases of one right answer are not partial answers: this is no case E.
        ("Reno, Nevada", ("Reno", "Nevada")),
    ],
)
def test_f_both_are_right_and_the_comparison_is_negative(world, example, from_gold, references) -> None:
    world.rankings = {"q": [GOLD, "Visit Reno"]}
    world.answers = {f"{GOLD}|Visit Reno": "In Reno", GOLD: from_gold}
    world.compare = _finds(*references)
    assert _one(world, example("q", GOLD, answers=references)) == (0.0, 1.0, "F", "judge")


@pytest.mark.parametrize(
    ("ranking", "expected"),
    [
        (["Visit Elko", GOLD], (0.0, 0.5, "C", "retriever")),
        ([GOLD], (0.0, 0.5, "C", "retriever")),
        ([GOLD, "A second thing"], (0.0, 1.0, "C", "generator")),
    ],
)
def test_c_of_two_gold_passages(world, example, ranking, expected) -> None:
    world.rankings = {"q": ranking}
    world.answers = {"|".join(ranking[:2]): "Elko", f"A second thing|{GOLD}": "Reno"}
    assert _one(world, example("q", "A second thing", GOLD, answers=("Reno",))) == expected


def test_f_the_answers_differ_and_the_comparison_is_positive(world, example) -> None:
    """Gold is not retrieved, "Ely" is wrong, "Reno" from gold is right, but the comparator calls them equal: case F."""
    world.rankings = {"q": ["Visit Ely"]}
    world.answers = {"Visit Ely": "Ely", GOLD: "Reno"}

    async def compare(_question: str, references: tuple[str, ...], prediction: str) -> float:
        return float(prediction == "Reno" or "Nevada" not in references)

    world.compare = compare
    assert _one(world, example("q", GOLD, answers=("Nevada",))) == (1.0, 0.0, "F", None)


def _finds(*known: str) -> Any:
    async def compare(_question: str, references: tuple[str, ...], prediction: str) -> float:
        return float(any(reference in prediction for reference in references if reference in known))

    return compare


def test_refined_is_undefined_where_no_case_is_known(world, example) -> None:
    """Without references, refined Spearman is None if verdict and recall disagree on a question, else defined."""
    world.rankings = {"r1": ["g1"], "l1": ["x"], "a": ["Visit Reno"]}
    world.answers = {"Visit Reno": "Reno", "ga": "Reno"}
    examples = [example(name, gold) for name, gold in {"r1": "g1", "l1": "g3", "a": "ga"}.items()]
    outcomes: list[Outcome] = world.evaluate("llm_reteval@1", *examples)
    spearman = triage_notes(Score("llm_reteval@1", outcomes))["spearman"]
    assert (spearman["all"] is None, spearman["refined"]) == (False, None)
    agreeing = triage_notes(Score("llm_reteval@1", outcomes[:2]))["spearman"]
    assert agreeing == {"all": pytest.approx(1.0), "refined": pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("recall", "yes", "checks", "case", "by"),
    [
        (1.0, True, ReferenceChecks(correct=False, semi_gold_correct=False), None, None),
        (0.0, False, ReferenceChecks(), None, "retriever"),
        (1.0, False, ReferenceChecks(), None, "not known"),
        (1.0, False, ReferenceChecks(correct=False, semi_gold_correct=None), "C", "not known"),
        (1.0, False, ReferenceChecks(correct=True, semi_gold_correct=None, partly=False), None, "judge"),
        (0.5, False, ReferenceChecks(correct=True, semi_gold_correct=None, partly=False), None, "judge"),
        (1.0, False, ReferenceChecks(correct=True, semi_gold_correct=True, partly=None), None, "judge"),
        (1.0, False, ReferenceChecks(correct=True, semi_gold_correct=True, partly=False), "F", "judge"),
        (1.0, False, ReferenceChecks(correct=True, semi_gold_correct=False, partly=False), "D", "judge"),
        (0.0, True, ReferenceChecks(), None, None),
        (0.0, True, ReferenceChecks(correct=True, near_duplicate=True), "B", None),
        (0.0, True, ReferenceChecks(correct=False, semi_gold_correct=None), None, None),
        (0.0, True, ReferenceChecks(correct=False, semi_gold_correct=True), "F", None),
        (0.5, False, ReferenceChecks(), None, "retriever"),
        (0.5, False, ReferenceChecks(correct=False, semi_gold_correct=True), "C", "retriever"),
        (0.5, False, ReferenceChecks(correct=True, semi_gold_correct=True, partly=False), "F", "judge"),
    ],
)
def test_the_letter_and_the_loser(*, recall, yes, checks, case, by):
    """Without disagreement there is no case, and an unknown case or cause is not guessed."""
    assert case_of(checks, gold_retrieved=recall > 0, yes=yes) == case
    assert lost_by(case, checks, recall=recall, yes=yes, has_other_passages=True) == by


@pytest.mark.parametrize(
    ("ranking", "expected"),
    [(["Elko"], (0.0, 0.0, None, "retriever")), (["Elko", "gold"], (0.0, 1.0, None, "not known"))],
)
def test_without_references_only_the_retriever_can_be_named(world, example, ranking, expected):
    """Without references, the cause is "retriever" or "not known", and the judge gets no further request."""
    world.rankings = {"q": ranking}
    world.answers = {"gold": "Reno"}
    assert _one(world, example("q", "gold")) == expected
    assert world.call_count("compare") == 1


@pytest.mark.parametrize(("ranking", "comparisons"), [(["Elko"], 1), (["gold"], 1), (["Reno"], 2)])
def test_only_what_makes_a_difference_is_asked(world, example, ranking: list[str], comparisons: int) -> None:
    """No further comparison is requested if recall and verdict agree, and one if the prediction is right."""
    world.rankings = {"q": ranking}
    world.answers = {"gold": ("Reno", "Sparks", "Reno")}
    world.evaluate("llm_reteval@1", example("q", "gold", answers=("Reno",)))
    assert world.call_count("compare") == comparisons


def test_what_is_unscored_in_triage_leaves_the_score(world, example) -> None:
    world.rankings = {"q": ["Elko", "gold"]}
    world.answers = {"gold": "Reno"}

    async def compare(_question: str, references: tuple[str, ...], _prediction: str) -> float:
        if "Nevada" in references:
            reason = "the judge's reply is neither yes nor no"
            raise Unscored(reason)
        return 0.0

    world.compare = compare
    assert _one(world, example("q", "gold", answers=("Nevada",))) == (0.0, 1.0, None, "not known")


def test_recall_counts_the_relevant_gold_passages(world) -> None:
    world.rankings = {"q": ["a", "bad"]}
    gold = (Gold(text="a"), Gold(text="b"), Gold(text="bad", grade=0))
    assert _one(world, Example("q", "q", gold=gold))[1] == 0.5


def test_refined_spearman_by_hand(world, example) -> None:
    """Without the question of case A, verdicts and recall order the remaining four questions alike.

    All: verdicts 1 1 0 0 1, recall 1 1 0 0 0. Of two binary scores rho is phi: (2 * 2 - 1 * 0) / sqrt(3 * 2 * 2 * 3) =
    4 / 6.
    """
    world.rankings = {"r1": ["g1"], "r2": ["g2"], "l1": ["x"], "l2": ["y"], "a": ["Visit Reno"]}
    world.answers = {"Visit Reno": "Reno", "ga": "Reno"}
    questions = {"r1": "g1", "r2": "g2", "l1": "g3", "l2": "g4", "a": "ga"}
    examples = [example(name, gold, answers=("Reno",)) for name, gold in questions.items()]
    outcomes: list[Outcome] = world.evaluate("llm_reteval@1", *examples)
    entry = triage_notes(Score("llm_reteval@1", outcomes))
    assert entry["cases"] == {"A": 1}
    assert entry["spearman"] == {"all": pytest.approx(4 / 6), "refined": pytest.approx(1.0)}


def test_the_ceiling_is_how_often_the_generator_is_right_with_the_gold_passages(world, example) -> None:
    """Answers are compared by rules, so that no request is sent. Yes may be the same wrong answer."""
    world.rankings = {"right": ["Reno"], "wrong": ["Ely"], "silent": ["Elko"], "open": ["Ely"]}
    world.answers = {"Reno": ("Reno", "Reno", "Elko"), "gold": NOTHING}
    outcomes = world.evaluate(
        "llm_reteval@1",
        example("right", "Reno", answers=("Reno",)),
        example("wrong", "Ely", answers=("Reno",)),
        example("silent", "gold", answers=("Reno",)),
        example("open", "Ely"),
    )
    assert [outcome.value for outcome in outcomes] == [1.0, 1.0, None, 1.0]
    assert world.call_count("compare") == 3
    notes = triage_notes(Score("llm_reteval@1", outcomes, max_unscored=1.0))
    assert notes["ceiling"] == {"answers": 9, "right": 2, "yes": 2, "right_of_yes": 1}
    assert ceiling_text(notes) == (
        "the generator answers 22% right with the gold passages (2 of 9 answers); "
        "of 2 verdicts yes, the answer is right in 1"
    )


def test_without_references_there_is_no_ceiling(world, example) -> None:
    """Nothing says which answers are right, so the report has no ceiling."""
    world.rankings = {"q": ["Reno"]}
    assert "ceiling" not in triage_notes(
        Score("llm_reteval@1", world.evaluate("llm_reteval@1", example("q", "Reno")))
    )
