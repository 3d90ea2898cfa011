"""Searching a text for quotes, word for word."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.extensions.evalset_tools.quotes import QuoteIndex, SearchableText, _occurrences


@pytest.mark.parametrize(
    ("text", "quote", "matches"),
    [
        ("To be,\n or not\tto be.", "be, or  not", ["be,\n or not"]),
        ("Tulsa, Oklahoma; “Tulsa”.", "Tulsa", ["Tulsa", "Tulsa"]),
        ("the party", "art", []),
        ("party", "par", []),
        ("no where", "nowhere", []),
        ("nowhere", "no where", []),
        ("it is 3.5 m", "3", []),
        ("it is 3.5 m", "5", []),
        ("it is 3.5 m", "3.5", ["3.5"]),
        ("in 1962.", "1962", ["1962"]),
        ("in 1962, 7 men", "1962", ["1962"]),
        ("cafe\u0301s", "cafe", []),
        ("私は東京\nに住む", "東京に", ["東京\nに"]),
        ("京 東", "京東", ["京 東"]),
        ("iPhone手机", "iPhone", ["iPhone"]),
        ("a a a", "a a", ["a a", "a a"]),
        ("5 € a day", "€", ["€"]),
        ("abc", " \n", []),
        ("", "a", []),
    ],
)
def test_find(text: str, quote: str, matches: list[str]) -> None:
    places = SearchableText(text).find(quote)
    assert [text[start:end] for start, end in places] == matches
    assert dict(QuoteIndex([quote, "elsewhere"]).find_in(text)) == ({quote: places} if matches else {})


@given(st.lists(st.sampled_from(["a", "bc", "Ü", "手", "机", "3", "."]), min_size=1, max_size=12), st.data())
def test_every_run_of_words_is_found(words: list[str], data: st.DataObject) -> None:
    spaces = [data.draw(st.sampled_from([" ", "\n", "\t  "])) for _ in words]
    text = "".join(word + space for word, space in zip(words, spaces, strict=True))
    first = data.draw(st.integers(0, len(words) - 1))
    quote = " ".join(words[first : data.draw(st.integers(first + 1, len(words)))])
    pattern = r"(?=(?<!\S)(" + r"\s+".join(map(re.escape, quote.split())) + r")(?!\S))"
    wanted = {(match.start(1), match.end(1)) for match in re.finditer(pattern, text)}
    assert wanted
    assert wanted <= set(SearchableText(text).find(quote))
    assert dict(QuoteIndex([quote]).find_in(text))[quote] == SearchableText(text).find(quote)


HANDBOOK = (
    "# Baths\n\n## Season **tickets**\n\n- A `season` ticket costs 45 crowns, and -5 or 3.5 in *winter*.\n"
)


@pytest.mark.parametrize(
    ("quote", "match"),
    [
        (
            "Season tickets. A season ticket costs 45 crowns, and -5 or 3.5 in winter.",
            "Season **tickets**\n\n- A `season` ticket costs 45 crowns, and -5 or 3.5 in *winter",
        ),
        (
            "Season tickets: A season ticket costs 45 crowns",
            "Season **tickets**\n\n- A `season` ticket costs 45 crowns",
        ),
        ("A `season` ticket costs 45 crowns, and -5 or", "A `season` ticket costs 45 crowns, and -5 or"),
        ("tickets A season ticket costs 45 crowns, and 5 or 3.5", None),
        ("tickets A season ticket costs 45 crowns and -5 or 35", None),
        ("tickets A season ticket costs 45 crown", None),
        ("A season ticket costs 45 crowns and", None),
        ("a season ticket costs 45 crowns and -5 or", None),
    ],
)
def test_a_long_quote_is_found_in_other_punctuation(quote: str, match: str | None) -> None:
    places = SearchableText(HANDBOOK).find(quote)
    assert [HANDBOOK[start:end] for start, end in places] == ([] if match is None else [match])
    assert dict(QuoteIndex([quote]).find_in(HANDBOOK)) == ({quote: places} if match else {})
    assert SearchableText(HANDBOOK).contains(quote) == (match is not None)


def test_the_full_stop_of_a_quote_is_part_of_its_place() -> None:
    text = "*One* two three four five six seven eight.) Nine."
    for ending in ("", ".", ".)", ".) Nine"):
        quote = f"One two three four five six seven eight{ending}"
        ((start, end),) = SearchableText(text).find(quote)
        assert text[start:end] == f"One* two three four five six seven eight{ending}"


def test_a_quote_cut_within_a_word_is_not_found() -> None:
    text = SearchableText("Dogs ride along for two crowns.")
    assert text.contains("gs ride  along f")
    assert not text.find("gs ride along f")
    assert not text.contains("cats")


@given(st.text("ab", max_size=80), st.text("ab", min_size=1, max_size=6))
def test_a_text_that_repeats_itself_is_found_everywhere(text: str, wanted: str) -> None:
    everywhere = [offset for offset in range(len(text)) if text.startswith(wanted, offset)]
    assert list(_occurrences(wanted, text)) == everywhere
