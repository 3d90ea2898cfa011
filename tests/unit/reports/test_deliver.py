"""One report, to its file or to its address."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.config import Address
from pytest_rageval.reports import deliver


def test_the_text_of_a_writer_is_the_file(tmp_path: Path) -> None:
    """Folders are made; half of a surrogate pair is escaped as in JSON."""
    path = tmp_path / "new" / "results.txt"
    assert deliver(lambda document: f"é\ud800{document['n']}", {"n": 1}, path) == str(path)
    assert path.read_text(encoding="utf-8") == r"é\ud8001"


def test_the_parts_of_a_writer_are_the_file(tmp_path: Path) -> None:
    """One after the other; where one fails, the file of an earlier run stays as it is."""
    path = tmp_path / "results.txt"
    deliver(lambda document: map(str, document["n"]), {"n": [1, 2, 3]}, path)
    assert path.read_text(encoding="utf-8") == "123"
    with pytest.raises(ZeroDivisionError):
        deliver(lambda document: (str(1 / n) for n in document["n"]), {"n": [1, 0]}, path)
    assert path.read_text(encoding="utf-8") == "123"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("said", "shown"), [(None, "x:https://h/a"), ("", "x:https://h/a"), ("board 7", "board 7")]
)
def test_a_writer_of_a_scheme_sends_the_report_itself(said: str | None, shown: str) -> None:
    """What it returns is shown, else the address without its password."""
    calls = []

    def send(document: Mapping[str, Any], address: str) -> str | None:
        calls.append((document, address))
        return said

    assert deliver(send, {"n": 1}, Address("x:", "https://me:secret@h/a")) == shown
    assert calls == [({"n": 1}, "https://me:secret@h/a")]
