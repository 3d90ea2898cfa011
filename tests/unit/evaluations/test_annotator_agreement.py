"""The annotator table, on four questions whose correlations a reader can check."""

import pytest

from pytest_rageval.errors import InputError, TooManyUnscoredError
from pytest_rageval.evaluations.label_agreement import (
    ANNOTATORS,
    MEASURES,
    Agreement,
    AgreementRequest,
    Association,
)
from pytest_rageval.model import Example
from pytest_rageval.scores import Outcome, Score


def _score(spec, *values):
    outcomes = [
        Outcome(Example(f"q{i}", "?"), value, None if value is not None else "a reason")
        for i, value in enumerate(values)
    ]
    return Score(spec, outcomes)


COMPARED = AgreementRequest(("erag", "gold"), ("p",), (3,), None)


def test_each_annotator_is_correlated_with_the_answers():
    """Pairs of questions: concordant less discordant, over those tied in neither (tau-b)."""
    scores = {
        COMPARED.downstream(3): _score("answer.correct@3", 1, 1, 0, 0),
        # Alike in every pair that differs downstream: (4 - 0) / sqrt(4 · 4).
        COMPARED.labelled("erag", "p", 3): _score("erag.p@3", 1, 1, 0, 0),
        # Of the four pairs that differ downstream: two as there, two the other way round.
        COMPARED.labelled("gold", "p", 3): _score("precision@3", 1, 0, 1, 0),
    }
    agreement = COMPARED.agreement(scores)
    assert agreement.of("erag", "p", 3) == Association("erag", "p", 3, 1.0, 1.0, 4)
    assert agreement.of("gold", "p", 3) == Association("gold", "p", 3, 0.0, 0.0, 4)


def test_recall_of_gold_is_normalised_within_the_retrieved():
    """As that of the other annotators: of what is labelled all is retrieved, so that recall and hit are equal."""
    compared = AgreementRequest(("gold",), ("recall", "hit"), (3,), None)
    recall, hit = (compared.labelled("gold", measure, 3) for measure in ("recall", "hit"))
    assert recall == hit
    scores = {compared.downstream(3): _score("answer.correct@3", 1, 0), hit: _score("hit@3", 1, 0)}
    assert compared.agreement(scores).of("gold", "recall", 3).tau == 1.0


def test_only_questions_with_both_scores_count():
    """A question without one is in neither list; n says how many are left."""
    compared = AgreementRequest(("contains",), ("p",), (1,), None)
    scores = {
        compared.downstream(1): _score("answer.correct@1", 1, None, 0, 0),
        compared.labelled("contains", "p", 1): _score("contains.p@1", 1, 0, None, 0),
    }
    association = compared.agreement(scores).of("contains", "p", 1)
    assert (association.tau, association.rho) == pytest.approx((1, 1))
    assert association.n == 2


def test_what_cannot_be_had_is_missing_with_its_reason():
    """The other annotators are unharmed; without answers there is nothing to agree with."""
    error = TooManyUnscoredError("no gold passages")
    scores = {
        COMPARED.downstream(3): _score("answer.correct@3", 1, 0),
        COMPARED.labelled("erag", "p", 3): _score("erag.p@3", 1, 0),
        COMPARED.labelled("gold", "p", 3): error,
    }
    agreement = COMPARED.agreement(scores)
    assert agreement.of("erag", "p", 3).n == 2
    with pytest.raises(TooManyUnscoredError):
        agreement.of("gold", "p", 3)
    with pytest.raises(InputError, match="was not asked for gold, p at 5"):
        agreement.of("gold", "p", 5)
    with pytest.raises(TooManyUnscoredError):
        COMPARED.agreement({**scores, COMPARED.downstream(3): error})


def test_the_best_measure_of_an_annotator():
    """By tau; one without a tau is none."""
    rows = [("p", 0.2), ("ndcg", 0.4), ("hit", None)]
    agreement = Agreement(None, tuple(Association("erag", m, 5, tau, tau, 9) for m, tau in rows), {})
    assert agreement.best("erag", 5).measure == "ndcg"
    with pytest.raises(InputError, match="no measure of erag has a tau at 1"):
        agreement.best("erag", 1)


def test_the_label_is_that_of_passages_and_of_answers():
    """One function E scores the answers from a passage and from all; the others have labels of their own."""
    compared = AgreementRequest(ANNOTATORS, ("p",), (5,), "f1>=0.5")
    assert [tuple(wanted[:3]) for wanted in compared.wanted] == [
        ("answer.correct@5", "f1>=0.5", None),
        ("erag.p@5", None, "f1>=0.5"),
        ("contains.p@5", None, None),
        ("precision@5", None, None),
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
    """Before anything is asked."""
    words = {"annotators": ANNOTATORS, "measures": MEASURES, "ks": (1,), "label": None} | given
    with pytest.raises(InputError) as error:
        AgreementRequest(**words)
    assert str(error.value).startswith(f"agreement(): {message}")
