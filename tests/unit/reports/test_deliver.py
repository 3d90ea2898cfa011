"""Delivery of one report to a file or an address."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.options.parsers import Address
from pytest_rageval.reports import deliver


def test_the_text_of_a_writer_is_the_file(tmp_path: Path) -> None:
    """The text is written to a file; missing folders are created, and an unpaired surrogate is escaped as in JSON."""
    path = tmp_path / "new" / "results.txt"
    assert deliver(lambda document: f"é\ud800{document['n']}", {"n": 1}, path) == str(path)
    assert path.read_text(encoding="utf-8") == r"é\ud8001"


def test_the_parts_of_a_writer_are_the_file(tmp_path: Path) -> None:
    path = tmp_path / "results.txt"
    deliver(lambda document: map(str, document["n"]), {"n": [1, 2, 3]}, path)
    assert path.read_text(encoding="utf-8") == "123"
    with pytest.raises(ZeroDivisionError):
        deliver(lambda document: (str(1 / n) for n in document["n"]), {"n": [1, 0]}, path)
    assert path.read_text(encoding="utf-8") == "123"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("returned", "shown"), [(None, "x:https://h/a"), ("", "x:https://h/a"), ("board 7", "board 7")]
)
def test_a_writer_of_a_scheme_sends_the_report_itself(returned: str | None, shown: str) -> None:
    calls = []

    def send(document: Mapping[str, Any], address: str) -> str | None:
        calls.append((document, address))
        return returned

    assert deliver(send, {"n": 1}, Address("x:", "https://me:secret@h/a")) == shown
    assert calls == [({"n": 1}, "https://me:secret@h/a")]
