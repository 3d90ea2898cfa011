"""Ratings equal those in Table 6 of RAG-QA Arena (Han et al. 2024), computed from the results in its Table 3."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest

from pytest_rageval.stats.systems import Battle, bradley_terry

pytestmark = pytest.mark.slow

QUESTIONS = 16_099
"""The number of questions of the test set (Table 2); each system battles the reference on all questions."""


class Published(NamedTuple):
    """A row of Table 3, W and W+T overall, and of Table 6: the ratings of columns A, B and C."""

    win: float
    win_tie: float
    ratings: tuple[int, int, int]


SYSTEMS = {
    "GPT-4o": Published(36.9, 41.0, (1066, 1081, 1085)),
    "GPT-4-turbo": Published(34.4, 39.1, (1050, 1058, 1065)),
    "GPT-4-0125-preview": Published(28.9, 33.7, (1008, 1005, 1008)),
    "Mixtral-8x22b": Published(34.5, 38.8, (1049, 1059, 1063)),
    "Mixtral-8x7b": Published(27.5, 31.0, (991, 991, 987)),
    "Llama-3-70b": Published(21.7, 25.2, (939, 931, 930)),
    "Llama-3-8b": Published(20.4, 23.5, (924, 910, 903)),
    "Command R+": Published(21.1, 25.8, (938, 931, 924)),
    "Command R": Published(11.1, 15.2, (816, 802, 796)),
    "Qwen1.5-110b-chat": Published(33.4, 37.8, (1041, 1047, 1052)),
    "Qwen1.5-32b-chat": Published(32.8, 37.1, (1036, 1034, 1037)),
}
REFERENCE = (1144, 1145, 1146)
COLUMNS = {"B": (1, 700), "C": (2, 1400)}
"""The index of a column, and the number of questions on which all pairs of systems battle."""

MARGINS = {"A": (1, 4, 8), "B": (1, 3, 5), "C": (1, 2, 4)}
"""Half widths of the published intervals: of the reference, and the smallest and largest of the systems."""


def _against_reference() -> list[Battle]:
    battles = []
    for name, row in SYSTEMS.items():
        won, lost = round(QUESTIONS * row.win / 100), round(QUESTIONS * (100 - row.win_tie) / 100)
        tied = QUESTIONS - won - lost
        battles += [Battle(name, "reference", 1)] * won + [Battle(name, "reference", 0)] * lost
        battles += [Battle(name, "reference", 0.5)] * tied
    return battles


def _expected(ratings: np.ndarray, others: np.ndarray | float) -> np.ndarray:
    return 1 / (1 + 10 ** ((others - ratings) / 400))


def _shares(column: str) -> tuple[np.ndarray, int]:
    """Return the win share of each system in battles with other systems, and the number of its battles.

    The results of these battles were not published, but follow from the published ratings: at maximum
    likelihood, each system's expected results equal its actual results, and the results against the reference
    are in Table 3.
    """
    place, n = COLUMNS[column]
    ratings = np.array([row.ratings[place] for row in SYSTEMS.values()])
    had = np.array([(row.win + row.win_tie) / 200 for row in SYSTEMS.values()])
    total = n * (_expected(ratings[:, None], ratings[None, :]).sum(axis=1) - 0.5)
    total += QUESTIONS * (_expected(ratings, REFERENCE[place]) - had)
    battles = n * (len(SYSTEMS) - 1)
    return total / battles, battles


def _between(column: str) -> list[Battle]:
    """Return battles of all pairs in which each system wins its share, as predicted by fitted ratings."""
    shares, _ = _shares(column)
    _, n = COLUMNS[column]
    strengths = np.zeros(len(SYSTEMS))
    for _ in range(2000):
        expected = (_expected(strengths[:, None], strengths[None, :]).sum(axis=1) - 0.5) / (len(SYSTEMS) - 1)
        strengths += 400 * (shares - expected)
    battles = []
    for first, second in combinations(range(len(SYSTEMS)), 2):
        names = list(SYSTEMS)[first], list(SYSTEMS)[second]
        won = round(n * float(_expected(strengths[first], strengths[second])))
        battles += [Battle(*names, 1)] * won + [Battle(*names, 0)] * (n - won)
    return battles


def _check(battles: list[Battle], column: str, place: int) -> None:
    found = bradley_terry(battles)
    wanted = {name: row.ratings[place] for name, row in SYSTEMS.items()} | {"reference": REFERENCE[place]}
    # The mean of the published ratings is 1000 but for their rounding.
    shift = sum(wanted.values()) / len(wanted) - 1000
    assert {name: rating.value + shift for name, rating in found.items()} == pytest.approx(wanted, abs=1.5)
    of_reference, least, most = MARGINS[column]
    margins = {name: rating.high - rating.value for name, rating in found.items()}
    assert margins.pop("reference") == pytest.approx(of_reference, abs=1)
    assert least - 1 <= min(margins.values()) <= max(margins.values()) <= most + 1


def test_column_a_follows_from_table_3() -> None:
    """Battles against the reference alone give the ratings of column A, up to rounding, and its interval widths."""
    _check(_against_reference(), "A", 0)


@pytest.mark.parametrize("column", COLUMNS)
def test_published_ratings_fit_the_published_results_of_the_reference(column: str) -> None:
    place, _ = COLUMNS[column]
    ratings = np.array([row.ratings[place] for row in SYSTEMS.values()])
    lost = sum((row.win + row.win_tie) / 200 for row in SYSTEMS.values())
    assert _expected(ratings, REFERENCE[place]).sum() == pytest.approx(lost, abs=0.01)
    shares, _ = _shares(column)
    assert shares.mean() == pytest.approx(0.5, abs=0.001)
    assert 0.2 < shares.min() < shares.max() < 0.7


def test_columns_b_and_c_are_of_the_same_systems() -> None:
    """The shares implied by columns B and C differ only by sampling error and rounding."""
    (b, _), (c, _) = map(_shares, COLUMNS)
    assert b == pytest.approx(c, abs=0.02)


@pytest.mark.parametrize("column", COLUMNS)
def test_columns_b_and_c_follow_from_joined_battles(column: str) -> None:
    """Table 3 with 700 or 1400 battles of each pair gives the ratings of columns B and C, with narrower intervals."""
    place, n = COLUMNS[column]
    between = _between(column)
    assert len(between) == n * 55
    _check(_against_reference() + between, column, place)
