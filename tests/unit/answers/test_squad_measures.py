"""Exact match, token F1, token recall and containment, as SQuAD defines them and in other scripts."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.answers.overlap import containment, exact_match, normalize, token_f1, token_recall
from pytest_rageval.lib.normal_forms import fold


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
    """The normal form is lower case without ASCII punctuation and articles, unless the text has nothing else."""
    assert normalize(answer) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("\u00abBonjour\u00bb", "bonjour"),
        ("\u201eJa\u201c, \u201cyes\u201d \u2026", "ja yes"),
        ("\u00bfQu\u00e9? \u00a1Hola!", "qu\u00e9 hola"),
        ("\u6771\u4eac\u3001\u4eac\u90fd\u3002", "\u6771\u4eac\u4eac\u90fd"),
        ("\u061f\u0646\u0639\u0645", "\u0646\u0639\u0645"),
        ("it\u2019s", "its"),
        ("dogs\u2019 tails", "dogs tails"),
        ("\u2018often damaging\u2019", "\u2018often damaging\u2019"),
        ("\u2018it\u2019s\u2019", "\u2018its\u2019"),
        ("1990\u201395", "199095"),
        ("Who \u2013  Adventure", "who \u2013 adventure"),
        ("\u2013 first item", "first item"),
        ("yes \u2013", "yes"),
        ("\u22125 \u00b0C", "5 \u00b0c"),
        ("\u00a35", "\u00a35"),
        ("\u0f56\u0f7c\u0f51\u0f0b\u0f66\u0f90\u0f51", "\u0f56\u0f7c\u0f51 \u0f66\u0f90\u0f51"),
    ],
)
def test_punctuation_of_every_script(answer: str, expected: str) -> None:
    """Punctuation of every script is removed, except spaced dashes and single quotes, which SQuAD keeps."""
    assert normalize(answer) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("\uff22\uff45\uff59\uff4f\uff4e\uff43e\u0301", "beyonc\u00e9"),
        ("Stra\u00dfe", "strasse"),
        ("\ufb01ve", "five"),
        ("\u0661\u0669\u0667\u0664", "1974"),
        ("\u0e5212", "212"),
        ("\uff83\uff9e\uff70\uff80", "\u30c7\u30fc\u30bf"),
        ("10\u00b2", "10\u00b2"),
        ("1\u00bd", "1\u00bd"),
        ("\u2103", "\u00b0c"),
        ("zero\u200bwidth\u00ad", "zerowidth"),
        ("\u2764\ufe0f", "\u2764"),
        ("\u039f\u0394\u039f\u03a3", "\u03bf\u03b4\u03bf\u03c3"),
    ],
)
def test_one_form_of_each_character(answer: str, expected: str) -> None:
    """Case, width, ligatures, digits and composition are unified; superscripts and fractions are not."""
    assert normalize(answer) == expected


@pytest.mark.parametrize(
    "answer",
    [
        "\u041c\u043e\u0441\u043a\u0432\u0430",
        "\u0623\u062d\u0645\u062f",
        "\u0939\u093f\u0928\u094d\u0926\u0940",
        "\ud55c\uad6d",
        "\u0e44\u0e17\u0e22",
        "\U00020000",
        "\N{GRINNING FACE}",
        "\u061f",
        "\u3002",
        "\u200b",
    ],
)
def test_no_answer_is_emptied(answer: str) -> None:
    """No text becomes empty: letters, marks and symbols stay, as does punctuation if there is nothing else."""
    assert normalize(answer)
    assert exact_match(answer, [answer]) == token_f1(answer, [answer]) == 1.0


@given(st.text(alphabet=st.characters(min_codepoint=1)))
def test_letters_and_digits_survive(answer: str) -> None:
    """If a text has letters or digits that cannot be part of an article, its normal form has some."""
    if any(unicodedata.category(c)[0] in "LN" and not set(fold(c)) <= set("anthe") for c in answer):
        assert any(unicodedata.category(c)[0] in "LN" for c in normalize(answer))


@pytest.mark.parametrize(
    ("prediction", "references", "expected"),
    [
        ("the Beatles", ["The Fab Four", "Beatles"], 1.0),
        ("Beatles band", ["Beatles"], 0.0),
        ("16 years", ["16 Years."], 1.0),
        ("A", ["The"], 0.0),
        ("", [], 0.0),
        ("1974 \u5e74\u3002", ["\uff11\uff19\uff17\uff14\u5e74"], 1.0),
        ("\u6771\u4eac", ["\u4eac\u90fd"], 0.0),
    ],
)
def test_exact_match(prediction: str, references: list[str], expected: float) -> None:
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
        # Shared: one of two ideographs; two of three kana; a consonant with its vowel sign and tone.
        ("\u6771\u4eac", ["\u4eac\u90fd"], 1 / 2),
        ("\u3055\u304f\u3089", ["\u3055\u304f"], 4 / 5),
        ("\u0e17\u0e35\u0e48\u0e19\u0e35\u0e48", ["\u0e17\u0e35\u0e48"], 2 / 3),
        ("\u0e17\u0e35\u0e48", ["\u0e17\u0e35\u0e49"], 0.0),
        # Korean words are separated by spaces.
        ("\uc11c\uc6b8 \uc2dc", ["\uc11c\uc6b8"], 2 / 3),
        # The reference has no ideographs: the run of ideographs counts as one wrong word.
        ("Yuan \u5927\u5143\u901a\u5236", ["Yuan"], 2 / 3),
        ("Yuan\u5927\u5143", ["Yuan"], 2 / 3),
        ("iPhone\u624b\u673a", ["iPhone \u624b"], 4 / 5),
    ],
)
def test_token_f1(prediction: str, references: list[str], expected: float) -> None:
    assert token_f1(prediction, references) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("prediction", "references", "expected"),
    [
        ("It was the Beatles, of course", ["Fab Four", "the Beatles"], 1.0),
        ("a party", ["art"], 0.0),
        ("new hotels in york", ["New York"], 0.0),
        ("New York City", ["new york"], 1.0),
        ("York", ["New York"], 0.0),
        ("\u65e5\u672c\u306e\u9996\u90fd\u306f\u6771\u4eac\u3067\u3059", ["\u6771\u4eac"], 1.0),
        ("\u6771\u90fd\u4eac", ["\u6771\u4eac"], 0.0),
        ("iPhone\u624b\u673a", ["iphone"], 1.0),
        ("\u0e19\u0e35\u0e48", ["\u0e19\u0e35"], 0.0),
        ("anything", [""], 0.0),
        ("", [""], 0.0),
        ("", ["x"], 0.0),
        ("cat", [], 0.0),
    ],
)
def test_containment(prediction: str, references: list[str], expected: float) -> None:
    """A reference is contained if its tokens are adjacent in the prediction; a blank reference never is."""
    assert containment(prediction, references) == expected


@given(prediction=st.text(), references=st.lists(st.text(), max_size=3))
def test_what_is_equal_is_contained(prediction: str, references: list[str]) -> None:
    if prediction.strip() and exact_match(prediction, references):
        assert containment(prediction, references) == 1.0


@pytest.mark.parametrize(
    ("prediction", "references", "expected"),
    [
        ("It takes about eleven minutes.", ["eleven minutes"], 1.0),
        ("eleven hours", ["eleven minutes"], 1 / 2),
        ("a cat and a cat", ["the cat, the cat, the cat"], 2 / 3),
        ("cat", ["dog", "the cat"], 1.0),
        ("東京", ["東京都"], 2 / 3),
        ("", ["dog"], 0.0),
        ("dog", ["..."], 0.0),
        ("dog", [], 0.0),
    ],
)
def test_token_recall(prediction: str, references: list[str], expected: float) -> None:
    """The share of the tokens of the best reference that the prediction has, as often as both have it."""
    assert token_recall(prediction, references) == pytest.approx(expected, abs=1e-15)
