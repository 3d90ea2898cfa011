"""Run files as arrays: both readers find the same rankings and the same mistakes."""

import gzip
import random
from pathlib import Path

import numpy as np
import pytest

from pytest_rageval.errors import InputError
from pytest_rageval.retrievers import run_file
from pytest_rageval.retrievers.run_file import RunFile, _parse_decimals, read_run


def _both(monkeypatch: pytest.MonkeyPatch, path: Path) -> list[dict[str, tuple[list[str], list[float]]]]:
    """What is read without numpy, and by columns."""
    found = []
    for large in (2**60, 0):
        monkeypatch.setattr(run_file, "MIN_NUMPY_BYTES", large)
        run = read_run(path)
        found.append({topic: run.ranking(topic) for topic in run.topics})
    return found


def _lines(rng: random.Random, topics: int, *, score: str = "{:.2f}") -> list[str]:
    return [
        f"{topic} Q0 {document} 1 {score.format(rng.uniform(-2, 2))} me"
        for topic in range(topics)
        for document in rng.sample(range(1000), rng.randint(1, 40))
    ]


@pytest.mark.parametrize("score", ["{:.2f}", "{:.0f}", "{:e}", "{:.17f}"])
@pytest.mark.parametrize("at_once", [64, 2**21])
def test_columns_are_read_as_lines_are(
    score: str, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ties and unsorted scores, in blocks that end anywhere."""
    monkeypatch.setattr(run_file, "BLOCK_BYTES", at_once)
    path = tmp_path / "a.run"
    path.write_text("\n".join(_lines(random.Random(0), 30, score=score)))
    lines, columns = _both(monkeypatch, path)
    assert lines == columns
    assert list(lines) == list(columns)


@pytest.mark.parametrize(
    "content",
    [
        "a\tQ0\tx\t1\t2\tme\r\na  Q0 y 2 1 me\n",
        "a Q0 x 1 2 me\n\n  a Q0 y 2 1 me",
        "a Q0 x 1 2 me more\na Q0 y 2 1 me\n",
        "a Q0 é 1 2 me\na Q0 y\xa0z 2 1 me\n",
        "a Q0 x\x1c 1 2 me\na Q0 y 2 1 me\n",
        "b Q0 x 1 2 me\na Q0 x 2 1 me\nb Q0 y 2 3 me\n",
        f"a Q0 {'x' * 500} 1 2 me\n",
        "\ufeffa Q0 x 1 1_0 me\n",
    ],
    ids=["tabs", "blank lines", "seven columns", "Unicode", "other space", "mixed topics", "long id", "mark"],
)
def test_what_columns_do_not_have_is_read_by_lines(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their rankings do not depend on the size of the file."""
    path = tmp_path / "a.run"
    path.write_text(content, encoding="utf-8", newline="")
    lines, columns = _both(monkeypatch, path)
    assert lines == columns


def test_decimals_are_those_of_python() -> None:
    """To the last bit, and with the sign of zero."""
    rng = random.Random(2)
    for _ in range(200):
        digits = ["".join(rng.choices("0123456789", k=rng.randint(1, 13))) for _ in range(30)]
        points = [rng.randint(0, len(digit)) for digit in digits]
        cells = [
            rng.choice(("", "-")) + each[:at] + rng.choice(("", ".")) + each[at:]
            for each, at in zip(digits, points, strict=True)
        ]
        found = _parse_decimals(np.array([*cells, "-0", "-.0"], "S"))
        assert found is not None
        assert list(map(repr, found.tolist())) == [repr(float(cell)) for cell in [*cells, "-0", "-.0"]]


@pytest.mark.parametrize(
    "cell", ["-", ".", "-.", "1.2.3", "1-2", "--1", "1e5", "nan", "inf", "+1", "1_0", "1234567890123456"]
)
def test_other_numbers_are_left_to_python(cell: str) -> None:
    """Which takes some of them, and refuses others."""
    assert _parse_decimals(np.array(["1.5", cell], "S")) is None


def test_a_large_file_is_read_by_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a compressed one; the ids stay bytes until they are asked for."""
    path = tmp_path / "a.run.gz"
    path.write_bytes(gzip.compress("\n".join(_lines(random.Random(1), 9)).encode()))
    monkeypatch.setattr(run_file, "MIN_NUMPY_BYTES", 0)
    run: RunFile = read_run(path)
    assert not isinstance(run.document_ids, list)
    assert run.ranking("nothing") == ([], [])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a Q0 x 1 2 me\na y 2\n", r"a\.run line 2 is not a line of a run: 'a y 2'"),
        ("a Q0 x 1 2\nme a Q0 y 1 2 me\n", r"a\.run line 1 is not a line of a run: 'a Q0 x 1 2'"),
        ("a Q0 x 1 two me\n", r"a\.run line 1 is not a line of a run"),
        ("a Q0 x 1 nan me\n", r"a\.run line 1 is not a line of a run"),
        ("a Q0 x 1 1e39 me\n", r"a\.run line 1 is not a line of a run"),
        ("a Q0 x 1 2 me\na Q0 x 2 1 me\n", r"a\.run line 2: document x is listed twice for topic a\."),
    ],
)
def test_a_mistake_in_columns_is_named_with_its_line(
    content: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a small file."""
    path = tmp_path / "a.run"
    path.write_text(content)
    monkeypatch.setattr(run_file, "MIN_NUMPY_BYTES", 0)
    with pytest.raises(InputError, match=said):
        read_run(path)
