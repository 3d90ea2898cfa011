"""Splitting a text into words, in any script."""

import pytest

from pytest_rageval.retrievers.bm25 import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" .,!? ", []),
        ("The CAT sat.", ["the", "cat", "sat"]),
        ("kb-112, v2.0", ["kb", "112", "v2", "0"]),
        ("it’s don't", ["it", "s", "don", "t"]),
        ("Größe STRASSE Straße", ["grösse", "strasse", "strasse"]),
        ("ﬁve ｋｇ ①", ["five", "kg", "1"]),
        ("cafe\u0301", ["café"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("Привет, мир", ["привет", "мир"]),
        ("東京都 is 大", ["東", "京", "都", "is", "大"]),
        ("カタ", ["カ", "タ"]),
        ("snake_case", ["snake", "case"]),
        ("a\tb\u00a0c\nd", ["a", "b", "c", "d"]),
    ],
)
def test_words_of_many_scripts(text: str, expected: list[str]) -> None:
    assert words(text) == expected
