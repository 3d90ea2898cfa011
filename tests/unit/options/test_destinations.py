"""Parsing the destinations of reports."""

from pathlib import Path

import pytest

from pytest_rageval.options.parsers import Address, destination_kind, parse_destination


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("results.json", Path("results.json")),
        ("out/otlp:x.md", Path("out/otlp:x.md")),
        ("./otlp:x.md", Path("otlp:x.md")),
        (r"C:\out\results.json", Path(r"C:\out\results.json")),
        ("otlp:", Address("otlp:", "")),
        ("OTLP:http://h:4318", Address("otlp:", "http://h:4318")),
        ("mlflow:support bot:1", Address("mlflow:", "support bot:1")),
    ],
)
def test_a_scheme_makes_an_address_and_anything_else_a_file(text: str, expected: Path | Address) -> None:
    assert parse_destination(text) == expected


def test_the_kind_is_the_suffix_or_the_scheme() -> None:
    assert destination_kind(Path("out.v1/results.json")) == ".json"
    assert destination_kind(Address("otlp:", "http://h/results.json")) == "otlp:"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("otlp:", "otlp:"),
        ("mlflow:a?b", "mlflow:a?b"),
        ("otlp:https://me:secret@h:4318/v1", "otlp:https://h:4318/v1"),
        ("otlp:https://h/v1?api_key=secret", "otlp:https://h/v1"),
        ("otlp:https://me:secret@[h/v1", "otlp:***"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    assert str(parse_destination(address)) == shown
