"""Scripts other than Latin, and texts without content words."""

import pytest

from pytest_rageval.answers.canonical import matches_any

_TOKYO = "\u6771\u4eac"
_KYOTO = "\u4eac\u90fd"
_MOSCOW = "\u041c\u043e\u0441\u043a\u0432\u0430"


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        (f"\u65e5\u672c\u306e\u9996\u90fd\u306f{_TOKYO}\u3067\u3059", _TOKYO, True),
        (_KYOTO, _TOKYO, False),
        (f"{_MOSCOW}.", _MOSCOW.upper(), True),
        ("\u041b\u043e\u043d\u0434\u043e\u043d", _MOSCOW, False),
        ("\u0391\u0398\u0397\u039d\u0391", "\u0391\u03b8\u03ae\u03bd\u03b1", True),
        ("\u0967\u0968", "12", True),
        ("1974\u5e74", "1974", True),
        ("\uff11\uff12 cats", "12 cats", True),
        ("\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u093f\u0928\u094d\u0926\u0941", False),
    ],
)
def test_letters_of_every_script_stay(prediction: str, reference: str, *, expected: bool) -> None:
    assert matches_any(prediction, [reference]) is expected


@pytest.mark.parametrize(
    ("prediction", "reference", "expected"),
    [
        ("", "six months", False),
        (" \n", "six months", False),
        ("", "", False),
        ("...", "...", True),
        ("?", "!", False),
        ("\N{GRINNING FACE}", "\N{GRINNING FACE}", True),
        ("\N{GRINNING FACE}", "\N{WINKING FACE}", False),
        ("six months", "", False),
        ("The Who", "The Who", True),
        ("they", "The Who", False),
    ],
)
def test_texts_without_content_words_are_compared_literally(prediction, reference, *, expected):
    """A blank prediction never matches; symbols and function words must be identical."""
    assert matches_any(prediction, [reference]) is expected
