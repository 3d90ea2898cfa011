"""Layout of text in lines that fit a terminal."""

from unicodedata import east_asian_width

import pytest

from pytest_rageval.reports.layout import field_lines, wrap_text


def _columns(line: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in line)


@pytest.mark.parametrize(
    "text",
    [
        "如何在不联系客服的情况下重置我的密码以及更改与我的帐户关联的电子邮件地址？" * 3,
        "返品はいつまでできますか " * 12,
        "반품은 언제까지 할 수 있나요 " * 12,
        "🎉 party 🎉🎉 " * 20,
        "How very long " * 30,
    ],
)
def test_lines_fit_whatever_the_script(text: str) -> None:
    """Wide characters count as two columns, and a script without spaces is broken between characters."""
    lines = wrap_text(f"  q1  1.00 → 0.00  {text}", 6)
    assert max(map(_columns, lines)) <= 80
    assert all(_columns(line) > 60 for line in lines[:-1])
    assert lines[0].startswith(f"  q1  1.00 → 0.00  {text[:4]}")
    assert all(line.startswith("      ") for line in lines[1:])
    assert "".join("".join(lines).split()) == "".join(f"q1 1.00 → 0.00 {text}".split())


def test_a_word_that_is_too_long_stays_whole() -> None:
    """A word that is longer than a line is not broken, because it may be a URL to be copied."""
    assert wrap_text(f"  q1  {'a' * 100} b", 6) == ["  q1", f"      {'a' * 100}", "      b"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b[1;1HPASSED", r"\u001b[2J\u001b[1;1HPASSED"),
        ("NUL 日本\x00", r"NUL 日本\u0000"),
        ("one\ttwo\r\nthree", "one two three"),
        ("naïve 👩‍👩‍👧 co\u00adop", "naïve 👩‍👩‍👧 co\u00adop"),
    ],
)
def test_controls_are_measured_as_they_are_printed(text: str, shown: str) -> None:
    """Control characters are escaped, other unusual characters are kept, and whitespace becomes one space."""
    assert list(field_lines("answer", [text])) == [f"      answer      {shown}"]
