"""The correlations of passage labels with answer quality, on four questions whose values a reader can check."""

import random
from itertools import product

import pytest

from pytest_rageval.core.errors import InputError, TooManyUnscoredError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.run.registry import resolve
from pytest_rageval.scores.annotator_agreement import (
    ANNOTATORS,
    MEASURES,
    Agreement,
    AgreementRequest,
    Association,
)


def _score(spec, *values):
    outcomes = [
        Outcome(Example(f"q{i}", "?"), value, None if value is not None else "a reason")
        for i, value in enumerate(values)
    ]
    return Score(spec, outcomes)


COMPARED = AgreementRequest(("erag", "gold"), ("p",), (3,), None)


def test_each_annotator_is_correlated_with_the_answers():
    scores = {
        COMPARED.answer_score_request(3): _score("answer.correct@3", 1, 1, 0, 0),
        # All four pairs that differ downstream are concordant: (4 - 0) / sqrt(4 · 4).
        COMPARED.label_score_request("erag", "p", 3): _score("erag.p@3", 1, 1, 0, 0),
        # Of the four pairs that differ downstream, two are concordant and two are discordant.
        COMPARED.label_score_request("gold", "p", 3): _score("provenance.p@3", 1, 0, 1, 0),
    }
    agreement = COMPARED.agreement(scores)
    assert agreement.of("erag", "p", 3) == Association("erag", "p", 3, 1.0, 1.0, 4)
    assert agreement.of("gold", "p", 3) == Association("gold", "p", 3, 0.0, 0.0, 4)


def test_recall_and_hit_are_equal_in_each_cell(world, example):
    """For each annotator and k, recall and hit have equal correlations, as in the paper's Table 1.

    Both measures are 1 if any of the k retrieved passages is labelled relevant, else 0. The gold passages of the seven
    questions are zero, one or two retrieved passages and, for some questions, one that was not retrieved.
    """
    rng = random.Random(0)
    examples = []
    for name in map(str, range(7)):
        retrieved = [f"{name} {letter}" for letter in "abcd"]
        world.rankings[name] = retrieved
        world.answers |= {text: rng.choice(["yes", "no"]) for text in retrieved}
        world.answers["|".join(retrieved)] = rng.choice(["yes", "no"])
        world.relevance |= {text: float(rng.random() < 0.4) for text in retrieved}
        gold = rng.sample(retrieved, int(name) % 3) + [f"{name} missed"] * (
            int(name) % 2 or not int(name) % 3
        )
        examples.append(
            example(name, *dict.fromkeys(gold), answers=("yes", f"{name} {rng.choice('abcxyz')}"))
        )
    compared = AgreementRequest(ANNOTATORS, ("recall", "hit"), (2, 4), "em")
    scores = {}
    for wanted in compared.score_requests:
        resolved, score = resolve(wanted)
        outcomes = world.loop.run(score.evaluate(world.run, examples, resolved))
        scores[wanted] = Score(wanted.spec, outcomes)
    agreement = compared.agreement(scores)
    taus = []
    for annotator, k in product(ANNOTATORS, (2, 4)):
        recall, hit = (agreement.of(annotator, measure, k) for measure in ("recall", "hit"))
        assert (recall.tau, recall.rho, recall.n) == (hit.tau, hit.rho, hit.n)
        taus.append(hit.tau)
    assert sum(tau is not None for tau in taus) >= 6


def test_only_questions_with_both_scores_count():
    compared = AgreementRequest(("contains",), ("p",), (1,), None)
    scores = {
        compared.answer_score_request(1): _score("answer.correct@1", 1, None, 0, 0),
        compared.label_score_request("contains", "p", 1): _score("contains.p@1", 1, 0, None, 0),
    }
    association = compared.agreement(scores).of("contains", "p", 1)
    assert (association.tau, association.rho) == pytest.approx((1, 1))
    assert association.n == 2


def test_what_cannot_be_had_is_missing_with_its_reason():
    error = TooManyUnscoredError("no gold passages")
    scores = {
        COMPARED.answer_score_request(3): _score("answer.correct@3", 1, 0),
        COMPARED.label_score_request("erag", "p", 3): _score("erag.p@3", 1, 0),
        COMPARED.label_score_request("gold", "p", 3): error,
    }
    agreement = COMPARED.agreement(scores)
    assert agreement.of("erag", "p", 3).n == 2
    with pytest.raises(TooManyUnscoredError):
        agreement.of("gold", "p", 3)
    with pytest.raises(InputError, match="did not compute gold, p at 5"):
        agreement.of("gold", "p", 5)
    with pytest.raises(TooManyUnscoredError):
        COMPARED.agreement({**scores, COMPARED.answer_score_request(3): error})


def test_the_best_measure_of_an_annotator():
    rows = [("p", 0.2), ("ndcg", 0.4), ("hit", None)]
    agreement = Agreement(None, tuple(Association("erag", m, 5, tau, tau, 9) for m, tau in rows), {})
    assert agreement.best("erag", 5).measure == "ndcg"
    with pytest.raises(InputError, match="no measure of erag has a tau at 1"):
        agreement.best("erag", 1)


def test_the_label_is_that_of_passages_and_of_answers():
    compared = AgreementRequest(ANNOTATORS, ("p",), (5,), "f1>=0.5")
    assert [tuple(wanted[:3]) for wanted in compared.score_requests] == [
        ("answer.correct@5", "f1>=0.5", None),
        ("erag.p@5", None, "f1>=0.5"),
        ("contains.p@5", None, None),
        ("provenance.p@5", None, None),
        ("relevance.p@5", None, None),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"annotators": ("rag",)},
            "there is no annotator 'rag'. There are: erag, contains, gold, relevance.",
        ),
        ({"measures": ("mpa",)}, "there is no measure of labels 'mpa'."),
        ({"measures": ()}, "no measure of labels is named."),
        ({"ks": ()}, "no cut-off is named."),
    ],
)
def test_unknown_names(given, message):
    words = {"annotators": ANNOTATORS, "measures": MEASURES, "ks": (1,), "label": None} | given
    with pytest.raises(InputError) as error:
        AgreementRequest(**words)
    assert str(error.value).startswith(f"agreement(): {message}")
