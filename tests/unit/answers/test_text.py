"""Exact match and token F1, as SQuAD defines them."""

import pytest

from pytest_rageval.answers.text import exact_match, normalize, token_f1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The  Beatles!", "beatles"),
        ("an apple a day", "apple day"),
        ("Theatre", "theatre"),
        ("U.S.A.", "usa"),
        ("state-of-the-art", "stateoftheart"),
        ("1,200", "1200"),
        ("caf\u00e9 \u2014 bar", "caf\u00e9 \u2014 bar"),
        ("\ta\u00a0b\n", "b"),
        ("The", "the"),
        ("?!", "?!"),
        ("", ""),
    ],
)
def test_the_normal_form(answer: str, expected: str) -> None:
    """Lower case, no ASCII punctuation, no articles; what consists of nothing else stays."""
    assert normalize(answer) == expected


@pytest.mark.parametrize(
    ("prediction", "references", "expected"),
    [
        ("the Beatles", ["The Fab Four", "Beatles"], 1.0),
        ("Beatles band", ["Beatles"], 0.0),
        ("16 years", ["16 Years."], 1.0),
        ("A", ["The"], 0.0),
        ("", [], 0.0),
    ],
)
def test_exact_match(prediction: str, references: list[str], expected: float) -> None:
    """Equal in normal form to any of the references."""
    assert exact_match(prediction, references) == expected


@pytest.mark.parametrize(
    ("prediction", "references", "expected"),
    [
        ("eleven minutes", ["about eleven minutes"], 2 * (1 * 2 / 3) / (1 + 2 / 3)),
        ("red red blue", ["red blue blue"], 2 / 3),
        ("red", ["blue", "red green", "green red yellow"], 2 / 3),
        ("The cat", ["cat"], 1.0),
        ("dog", ["cat"], 0.0),
        ("", ["cat"], 0.0),
        ("cat", [], 0.0),
    ],
)
def test_token_f1(prediction: str, references: list[str], expected: float) -> None:
    """Tokens count as often as both have them; the best reference counts."""
    assert token_f1(prediction, references) == pytest.approx(expected, abs=1e-15)
