"""Reading the corpus of an eval set."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.ranking import Document, Span
from pytest_rageval.evalsets.corpus import read_corpus


def lines(path: Path, *records: Any) -> Path:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("record", "document"),
    [
        ({"id": "p1", "text": "abc"}, Document("abc", "p1", span=Span("p1", 0, 3))),
        ({"id": 7, "text": "abc"}, Document("abc", "7", span=Span("7", 0, 3))),
        ({"text": "abc", "source": "a.md", "start": 5}, Document("abc", span=Span("a.md", 5, 8))),
        (
            {"id": "p", "text": "abc", "source": "a.md", "start": 5, "end": 20},
            Document("abc", "p", span=Span("a.md", 5, 20)),
        ),
        ({"id": "p", "text": "abc", "source": "a.md"}, Document("abc", "p")),
        ({"_id": "d", "title": "T", "text": "abc"}, Document("T abc", "d", span=Span("d", 0, 5))),
        ({"_id": "d", "title": "", "text": ""}, Document("", "d")),
    ],
)
def test_a_passage(tmp_path: Path, record: dict[str, Any], document: Document) -> None:
    assert list(read_corpus(lines(tmp_path / "c.jsonl", record))) == [document]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": "p"}, r'c\.jsonl line 1: "text" is missing'),
        ({"text": "abc"}, 'neither "id" nor "source"'),
        ({"id": "p", "text": ""}, '"text"'),
        ({"id": "p", "text": "a", "source": "a.md", "start": "3"}, '"start" is'),
        ({"id": "p", "text": "a", "source": "a.md", "start": 3, "end": 3}, '"end" is 3'),
        ({"_id": "p", "text": ["a"]}, "not a text"),
        ([], "an object"),
    ],
)
def test_a_line_that_is_not_a_passage_is_an_error(tmp_path: Path, record: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(read_corpus(lines(tmp_path / "c.jsonl", record)))


def test_a_folder_of_files(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "b" / "x.MD").write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    (tmp_path / "a.txt").write_bytes("Größe".encode())
    (tmp_path / "a.py").write_bytes(b"no")
    (tmp_path / ".git" / "c.txt").write_bytes(b"no")
    assert list(read_corpus(tmp_path)) == [
        Document("Größe", "a.txt", span=Span("a.txt", 0, 5)),
        Document("one\ntwo", "b/x.MD", span=Span("b/x.MD", 0, 7)),
    ]


def test_a_beir_folder(tmp_path: Path) -> None:
    (tmp_path / "readme.md").write_bytes(b"no")
    with gzip.open(tmp_path / "corpus.jsonl.gz", "wt") as file:
        file.write('{"_id": "d", "text": "abc"}\n')
    assert [document.id for document in read_corpus(tmp_path)] == ["d"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (None, "no such file"),
        ({}, "no corpus"),
        ({"": b"\n"}, "no passages"),
        ({"a.txt": b"Gr\xf6\xdfe"}, "not UTF-8"),
    ],
)
def test_a_path_that_is_not_a_corpus_is_an_error(tmp_path: Path, files: Any, message: str) -> None:
    path = tmp_path / "corpus"
    if files is not None and "" not in files:
        path.mkdir()
    for name, content in (files or {}).items():
        (path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_corpus(path))


def test_it_streams(tmp_path: Path) -> None:
    """The first passage is yielded before the second line, which is invalid, is parsed."""
    path = lines(tmp_path / "c.jsonl", {"id": "p", "text": "abc"}, {"id": "q"})
    assert next(read_corpus(path)).id == "p"
