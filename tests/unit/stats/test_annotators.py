"""Several annotators: their kappas and their majority."""

import pytest

from pytest_rageval.stats.agreement import cohen_kappa, fleiss_kappa, majority, pairwise_kappa


def test_pairwise_kappa_is_a_mean() -> None:
    """Over all three pairs of three people; of two, it is Cohen's."""
    a, b, c = [1, 1, 0, 0, 1], [1, 0, 0, 0, 1], [1, 1, 1, 0, 1]
    pairs = [cohen_kappa(a, b), cohen_kappa(a, c), cohen_kappa(b, c)]
    assert pairwise_kappa([a, b, c]) == pytest.approx(sum(k.value for k in pairs if k) / 3, abs=1e-15)
    assert pairwise_kappa([a, b]) == pairs[0].value if pairs[0] else False


@pytest.mark.parametrize("annotators", [[], [[1, 0]], [[1, 1], [1, 1]], [[], []]])
def test_pairwise_kappa_without_a_defined_pair_is_none(annotators: list[list[int]]) -> None:
    """Nobody, one person, or people who only ever say one thing."""
    assert pairwise_kappa(annotators) is None


def test_an_undefined_pair_is_left_out() -> None:
    """Two who always say 1 do not hide that both agree with a third no more than by chance."""
    assert pairwise_kappa([[1, 1, 1], [1, 1, 1], [1, 0, 1]]) == 0


def test_fleiss_kappa_of_the_published_example() -> None:
    """Fleiss (1971) as tabulated widely: 14 raters, 10 subjects, 5 categories, kappa 0.210."""
    rows = """0 0 0 0 14/0 2 6 4 2/0 0 3 5 6/0 3 9 2 0/2 2 8 1 1/7 7 0 0 0/3 2 6 3 0/2 5 3 2 2/6 5 2 1 0/0 2 2 3 7"""
    items = [
        [category for category, count in enumerate(map(int, row.split())) for _ in range(count)]
        for row in rows.split("/")
    ]
    assert fleiss_kappa(items) == pytest.approx(0.210, abs=5e-4)


def test_fleiss_kappa_does_not_tell_people_apart() -> None:
    """The order of an item's labels is of no account."""
    assert fleiss_kappa([[1, 0, 1], [0, 0, 1]]) == fleiss_kappa([[0, 1, 1], [1, 0, 0]])


@pytest.mark.parametrize("items", [[], [[1, 1], [1, 1]]])
def test_fleiss_kappa_without_two_labels_is_none(items: list[list[int]]) -> None:
    """Chance alone agrees fully."""
    assert fleiss_kappa(items) is None


@pytest.mark.parametrize("items", [[[1]], [[]], [[1, 0], [1, 0, 1]]])
def test_unequal_or_single_labels_are_refused(items: list[list[int]]) -> None:
    """Every item has as many labels as the others, and two to compare."""
    with pytest.raises(ValueError, match="same number of labels"):
        fleiss_kappa(items)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([1, 1, -1], 1),
        ([-1, -1, -1], -1),
        ([0, 0, 1], 0),
        ([1, -1, 0], 0),
        ([1, -1], 0),
        ([1, 1, -1, 0], 0),
        ([1], 1),
    ],
)
def test_majority(labels: list[int], expected: int) -> None:
    """More than half decide; otherwise it is a tie, also where a label is merely the most frequent."""
    assert majority(labels, tie=0) == expected


def test_no_labels_have_no_majority() -> None:
    """That is no tie."""
    with pytest.raises(ValueError, match="no labels"):
        majority([], tie=0)
