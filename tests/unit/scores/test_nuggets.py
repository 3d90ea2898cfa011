"""Nugget scores of the retrieved passages and of the answer, and alpha-nDCG of rankings by nuggets."""

from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.core.errors import Planned
from pytest_rageval.core.evalset import Nugget
from pytest_rageval.scores.nuggets import alpha_ndcg, best_labels, lenient, strict

NUGGETS = (Nugget("one"), Nugget("two"), Nugget("three", vital=False), Nugget("four", vital=False))
OF_PASSAGES = ("nuggets.coverage@3", "nuggets.vital@3", "nuggets.ndcg@3")


@pytest.fixture
def found(world):
    """A world whose first two passages support the nugget "one" and whose third passage supports "three"."""
    world.rankings = {"q": ["p1", "p2", "p3"]}
    world.nuggets = {"p1": (1.0, 0.0, 0.0, 0.5), "p2": (1.0, 0.5, 0.0, 0.0), "p3": (0.0, 0.5, 1.0, 0.0)}
    return world


def test_the_share_that_one_of_the_passages_supports(found, example) -> None:
    coverage, vital, _ = (found.evaluate(spec, example("q", nuggets=NUGGETS))[0] for spec in OF_PASSAGES)
    assert (coverage.value, vital.value) == (0.5, 0.5)
    assert coverage.evidence.labels == (0.25, 0.25, 0.25)
    assert vital.evidence.labels == (0.5, 0.5, 0.0)
    assert coverage.evidence.remark == '2 nuggets not supported: "two" (in part), "four" (in part)'
    assert vital.evidence.remark == '1 nugget not supported: "two" (in part)'
    assert coverage.evidence.answer is None
    assert found.call_count("support") == 3
    assert not found.call_count("explain")


def test_alpha_ndcg_of_the_passages(found, example) -> None:
    (outcome,) = found.evaluate("nuggets.ndcg@3", example("q", nuggets=NUGGETS))
    expected = (1 + 0.5 / log2(3) + 1 / 2) / (1 + 1 / log2(3) + 0.5 / 2)
    assert outcome.value == pytest.approx(expected)
    assert found.call_count("support") == 3


def test_a_gold_passage_that_was_not_retrieved_is_of_the_ideal_ranking(found, example) -> None:
    found.nuggets["gold"] = (1.0, 1.0, 1.0, 1.0)
    (outcome,) = found.evaluate("nuggets.ndcg@1", example("q", "gold", "p1", nuggets=NUGGETS))
    assert outcome.value == pytest.approx(1 / 4)
    assert found.asked["support", "q", "one", "two", "three", "four", "gold"] == 1
    assert found.call_count("support") == 2
    assert outcome.evidence.labels == (0.25,)


def test_a_plan_counts_the_labels_of_a_missed_gold_passage(found, example) -> None:
    """A plan counts the label request for a missed gold passage although no retrieved passage has labels yet."""
    found.nuggets = dict.fromkeys(("p1", "p2", "p3", "gold"), Planned("not asked in a plan"))
    (outcome,) = found.evaluate("nuggets.ndcg@3", example("q", "gold", nuggets=NUGGETS))
    assert outcome.value is None
    assert found.call_count("support") == 4


def test_labels_are_asked_for_once(found, example) -> None:
    case = example("q", nuggets=NUGGETS)
    for spec in (*OF_PASSAGES, "nuggets.coverage@2"):
        found.evaluate(spec, case)
    found.rankings = {"q": ["p3", "p1"]}
    found.evaluate("nuggets.coverage@5", case)
    assert found.call_count("support") == 3


def test_the_vital_nuggets_of_the_long_answer(found, example) -> None:
    found.explained = {"p1|p2|p3": "A long answer."}
    found.nuggets["A long answer."] = (1.0, 0.5, 0.5, 0.0)
    (outcome,) = found.evaluate("answer.nuggets@3", example("q", nuggets=NUGGETS))
    assert outcome.value == 0.5
    assert outcome.evidence.beside == {"all_strict": 0.25, "vital": 0.75, "all": 0.5}
    assert outcome.evidence.answer == "A long answer."
    assert outcome.evidence.remark == '1 nugget not supported: "two" (in part)'
    assert (found.call_count("support"), found.call_count("explain")) == (1, 1)


def test_an_abstention_supports_nothing_and_no_judge_is_asked(found, example) -> None:
    (outcome,) = found.evaluate("answer.nuggets@3", example("q", nuggets=NUGGETS))
    assert (outcome.value, found.call_count("support")) == (0.0, 0)


@pytest.mark.parametrize("spec", OF_PASSAGES)
def test_where_nothing_was_retrieved_no_nugget_is_supported(world, example, spec: str) -> None:
    (outcome,) = world.evaluate(spec, example("q", nuggets=NUGGETS))
    assert (outcome.value, world.call_count("support")) == (0.0, 0)


@pytest.mark.parametrize("spec", ["nuggets.vital@3", "answer.nuggets@3"])
def test_without_a_vital_nugget_the_share_of_these_is_undefined(world, example, spec: str) -> None:
    (outcome,) = world.evaluate(spec, example("q", nuggets=(Nugget("one", vital=False),)))
    assert (outcome.value, outcome.undefined) == (None, "none of its nuggets is vital")
    assert not world.asked


def test_a_remark_names_five_nuggets(world, example) -> None:
    nuggets = tuple(Nugget(f"n{n}", vital=n > 3) for n in range(7))
    (outcome,) = world.evaluate("nuggets.coverage@1", example("q", nuggets=nuggets))
    assert outcome.evidence.remark == '7 nuggets not supported: "n4", "n5", "n6", "n0", "n1", 2 more'


A, B, AB, NONE = (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.0, 0.0)


@pytest.mark.parametrize(
    ("ranking", "missed", "k", "value"),
    [
        ([], [], 3, 0.0),
        ([NONE, NONE], [], 3, 0.0),
        ([(0.5, 0.5)], [], 3, 0.0),
        ([A, B], [], 2, 1.0),
        # A is at rank 2 instead of 1.
        ([NONE, A], [], 2, 1 / log2(3)),
        # A twice counts 1 + 1/2: 1 + 0.5 / log2(3) of 1 + 1 / log2(3) + 0.5 / 2.
        ([A, A, B], [], 3, (1 + 0.5 / log2(3) + 1 / 2) / (1 + 1 / log2(3) + 0.5 / 2)),
        # Only the first two ranks count, also in the ideal ranking.
        ([A, A, B], [], 2, (1 + 0.5 / log2(3)) / (1 + 1 / log2(3))),
        # A passage with both nuggets was missed: its gain is 2, then A or B has half its gain.
        ([A, B], [AB], 2, (1 + 1 / log2(3)) / (2 + 0.5 / log2(3))),
        ([NONE], [AB], 1, 0.0),
        # A third passage with A counts a quarter.
        ([A, A, A], [], 3, 1.0),
        ([AB, A, A], [B], 3, (2 + 0.5 / log2(3) + 0.25 / 2) / (2 + 0.5 / log2(3) + 0.5 / 2)),
    ],
)
def test_alpha_ndcg_by_hand(ranking, missed, k: int, value: float) -> None:
    """Gain, discount and ideal ranking as in Clarke et al. (2008)."""
    assert alpha_ndcg(ranking, missed, k) == pytest.approx(value)


def test_with_alpha_0_a_repeated_nugget_counts_whole() -> None:
    """With alpha = 0 the measure is nDCG whose gain is the number of nuggets."""
    value = (1 + 2 / log2(3)) / (2 + 1 / log2(3))
    assert alpha_ndcg([A, AB], [], 2, alpha=0.0) == pytest.approx(value)


LABELS = st.lists(st.tuples(*[st.sampled_from((0.0, 0.5, 1.0))] * 4), max_size=7)


@given(ranking=LABELS, missed=LABELS, k=st.integers(1, 9))
def test_it_lies_between_0_and_1(ranking, missed, k: int) -> None:
    """The greedy ideal ranking is not always optimal. The value is 0 if no nugget is supported."""
    value = alpha_ndcg(ranking, missed, k)
    assert 0 <= value <= 1
    assert (value > 0) == any(label == 1 for labels in ranking[:k] for label in labels)


@given(ranking=LABELS, k=st.integers(1, 9))
def test_a_passage_that_was_missed_never_helps(ranking, k: int) -> None:
    """The ideal ranking is greedy, so this holds only for a passage that supports all nuggets."""
    assert alpha_ndcg(ranking, [(1.0,) * 4], k) <= alpha_ndcg(ranking, [], k) + 1e-12


def test_shares_of_nuggets() -> None:
    """The best label of each nugget counts; partial support is 0 in `strict` and half in `lenient`."""
    best = best_labels([(1.0, 0.5, 0.0, 0.0), (0.0, 0.5, 0.5, 0.0)], 4)
    assert best == (1.0, 0.5, 0.5, 0.0)
    assert (strict(best), lenient(best)) == (0.25, 0.5)
    assert best_labels([], 2) == (0.0, 0.0)


def test_the_ideal_order_does_not_depend_on_the_ranking_under_test() -> None:
    """The first choice matters: after `c`, each other passage repeats one of its nuggets."""
    labels = {"c": (0, 1, 1, 0), "a": (1, 1, 0, 0), "b": (0, 0, 1, 1)}
    names = {"c": "x", "b": "y", "a": "z"}
    third = 1 / log2(3)
    for order, gained in (("abc", 2 + 2 * third), ("cab", 2 + 1.5 * third), ("bca", 2 + 1.5 * third)):
        ranking = [labels[name] for name in order]
        value = alpha_ndcg(ranking, [], 2, names=[names[name] for name in order])
        assert value == pytest.approx(gained / (2 + 2 * third))
