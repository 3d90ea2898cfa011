"""How the commands format sizes, counts, texts and tables."""

import pytest

from pytest_rageval.cli.console import format_bytes, to_one_line


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (4096, "4.1 kB"),
        (2_500_000, "2.5 MB"),
        (3e9, "3.0 GB"),
        (4e12, "4000.0 GB"),
    ],
)
def test_sizes_have_a_unit_that_suits(number: float, shown: str) -> None:
    assert format_bytes(number) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("modèle 大", "modèle 大"),
        ("a\nb\x1b[0m", "a\\nb\\u001b[0m"),
        ("\ud83d", "\\ud83d"),
        (b"\xff", "b'\\xff'"),
    ],
)
def test_a_text_is_shown_on_one_line(text: str | bytes, shown: str) -> None:
    assert to_one_line(text) == shown
