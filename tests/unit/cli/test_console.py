"""How the commands format sizes, counts, texts and tables."""

import pytest

from pytest_rageval import cli
from pytest_rageval.cli.console import format_bytes, format_count, format_table, to_one_line
from pytest_rageval.core.errors import InputError


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
    """Sizes are formatted with units that are powers of 1000."""
    assert format_bytes(number) == shown


@pytest.mark.parametrize(
    ("number", "noun", "shown"),
    [
        (1, "reply", "1 reply"),
        (0, "reply", "0 replies"),
        (5000, "entry", "5,000 entries"),
        (2, "fault", "2 faults"),
    ],
)
def test_numbers_of_things_are_english(number: int, noun: str, shown: str) -> None:
    """The noun after a count is singular for 1, otherwise plural."""
    assert format_count(number, noun) == shown


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
    """Control characters and invalid characters are escaped; letters of all scripts are not."""
    assert to_one_line(text) == shown


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    """Columns are as wide as their longest cell; text is left-aligned, numbers are right-aligned."""
    assert format_table(["name", "n"], [["a", "1,000"], ["long name", "1"]]) == (
        "name           n\na          1,000\nlong name      1"
    )


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        (["evalset", "generate"], "raise --rageval max_calls=7", "raise --max-calls=7"),
        (["evalset", "generate"], "try --rageval flex=true", "try --flex"),
        (
            ["evalset", "generate"],
            "name --rageval-model, --rageval-cassette FILE",
            "name --model, --cassette FILE",
        ),
        (["evalset", "generate"], "--rageval retries=N (pytest --rageval-replay)", None),
        (["judge"], "--rageval-judge-model or --rageval judge_base_url=URL", "--model or --base-url=URL"),
        (["judge"], "--rageval-model", None),
        (["diff"], "--rageval max_calls=7", None),
    ],
)
def test_a_message_names_the_options_of_the_command(
    command: list[str],
    text: str,
    expected: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A message of a shared part names options as pytest does; a command that has them names its own."""

    def refuse(_: object) -> int:
        raise InputError(text)

    monkeypatch.setattr(cli, "resolve_name", lambda _: refuse)
    required = {
        "generate": ["--corpus", "c", "--n", "1", "--out", "o"],
        "judge": ["l", "--model", "m"],
        "diff": ["a"],
    }
    assert cli.main([*command, *required[command[-1]]]) == 2
    assert capsys.readouterr().err == f"{expected or text}\n"
