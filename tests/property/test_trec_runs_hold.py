"""A run file is read alike by blocks and by lines, which name what is wrong."""

import tempfile
from pathlib import Path
from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as st

from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.baseline_retrievers import trec_run

SPACES = (" ", "  ", "\t")
TOPICS = st.sampled_from(("301", "301.0", "q1", "é"))
DOCUMENTS = st.sampled_from(("d1", "d2", "d3", "d4", "d5", "東京", "a\xa0b", "1.0"))
SCORES = st.sampled_from(("1", "0.5", "-2e3", "1_0", "3.4028235677973362e+38", "0.50000000001"))
WELL_FORMED = st.tuples(
    st.sampled_from(SPACES),
    st.sampled_from(("\n", "\r\n")),
    st.lists(st.tuples(TOPICS, DOCUMENTS, SCORES), unique_by=lambda line: line[1], min_size=1),
    st.sampled_from(("", "\n")),
    st.sampled_from(("", "\ufeff")),
)
MISTAKES = st.text(st.sampled_from(" \t\n\r\x00\x0b\x1c\x85\xa0\ufeffax1"), max_size=4) | st.sampled_from(
    (
        "nan",
        "inf",
        "1e39",
        "-3.4028235677973366e+38",
        "\t\t",
        "\n301 Q0 d1 1 1 me\n",
        "\n301 Q0 d1 1 1 me t\nd",
    )
)
Parts = tuple[str, str, list[tuple[str, str, str]], str, str]


def _text(space: str, end: str, lines: list[tuple[str, str, str]], last: str, beginning: str) -> str:
    written = [
        space.join((topic, "Q0", document, "1", score, "me and you" if space == "\t" else "me"))
        for topic, document, score in lines
    ]
    return beginning + end.join(written) + last


def _read(content: bytes, block: int) -> tuple[object, object]:
    """Return what is read by blocks, and what by lines: the scores in order, or the message."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(trec_run, "BLOCK_BYTES", block):
        path = Path(folder) / "a.run"
        path.write_bytes(content)
        by_block = trec_run._scores_of_blocks(path)
        try:
            by_line = trec_run._scores_of_lines(path)
        except InputError as error:
            return by_block, str(error)
    return [
        None if each is None else [(topic, [*of.items()]) for topic, of in each.items()]
        for each in (by_block, by_line)
    ]


@given(WELL_FORMED, st.integers(1, 200))
def test_a_file_without_mistakes_is_read_by_blocks(parts: Parts, block: int) -> None:
    by_block, by_line = _read(_text(*parts).encode(), block)
    assert by_block == by_line
    assert by_block is not None


LINE = " ", "\n", [("301", "d1", "1")], "\n", ""
LINES = " ", "\n", [("301", "d1", "1"), ("301", "d2", "1")], "\n", ""


@given(WELL_FORMED, st.integers(1, 200), MISTAKES, st.integers(0, 300), st.integers(0, 6))
@example(LINE, 99, " \0\nQ0 d2 1 1 me", 16, 0)
@example(LINES, 99, "nan", 29, 1)
@example(LINES, 1, "\ufeff", 17, 0)
def test_what_is_read_by_blocks_is_what_is_read_by_lines(
    parts: Parts, block: int, mistake: str, place: int, removed: int
) -> None:
    """If the lines have a mistake, nothing is read by blocks."""
    text = _text(*parts)
    place %= len(text) + 1
    by_block, by_line = _read((text[:place] + mistake + text[place + removed :]).encode(), block)
    assert by_block is None or by_block == by_line
