"""BEIR: a folder with corpus, queries and one file of judgements a split."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import COMPRESSED, Shape
from pytest_rageval.evalsets.formats.trec import read_qrels
from pytest_rageval.evalsets.records import Check

__all__ = ["read", "recognises"]

ENDINGS: Final = ("", *COMPRESSED)


def recognises(shape: Shape) -> bool:
    """By the names of the files."""
    return shape.folder and _find(shape.path, "queries.jsonl") is not None


def read(path: Path, *, split: str | None = None, texts: bool = True) -> Iterator[tuple[str, Any]]:
    """Records of the queries that are judged in a split.

    The corpus is gone through once for the texts of the gold passages (title and text with a space
    between, as BEIR joins them); these and the judgements are held in memory, the corpus is not.

    Args:
        path: of the folder: `queries.jsonl`, `qrels/*.tsv` and, for the texts, `corpus.jsonl`.
        split: name of the file in `qrels`; default: "test", or the only one.
        texts: False: gold by id alone, the corpus is left unread.

    Raises:
        InputError: a file is missing, a line has another form, or a judged query is not there.
    """
    queries, corpus = _find(path, "queries.jsonl"), _find(path, "corpus.jsonl")
    if queries is None:
        message = f"{path} has no queries.jsonl.\nA BEIR folder has queries.jsonl, corpus.jsonl and qrels/."
        raise InputError(message)
    qrels = _split(path, split)
    judged = read_qrels(qrels)
    found = (
        _texts(corpus, {document for grades in judged.values() for document in grades})
        if texts and corpus
        else {}
    )
    for place, value in json_records(queries):
        check = Check(place)
        record = dict(check.record(value, "_id", "text"))
        identifier = check.name(record.pop("_id"), "_id")
        grades = judged.pop(identifier, None)
        if grades is None:
            continue
        gold = [
            {"id": document, "text": found.get(document), "grade": grade}
            for document, grade in grades.items()
        ]
        question = check.text(record.pop("text"), "text")
        yield place, {**record, "id": identifier, "question": question, "gold": gold}
    if judged:
        message = (
            f"{queries.name} lacks {len(judged)} queries that {qrels.name} judges: {', '.join(sorted(judged)[:8])}.\n"
            "Are these the queries of these qrels?"
        )
        raise InputError(message)


def _texts(corpus: Path, wanted: set[str]) -> dict[str, str]:
    found = {}
    for place, value in json_records(corpus):
        check = Check(place)
        record = check.record(value, "_id", "text")
        identifier = check.name(record["_id"], "_id")
        if identifier in wanted:
            title = record.get("title") or ""
            text = record["text"]
            if not isinstance(title, str) or not isinstance(text, str):
                check.fail('"title" or "text" is no text', "Give strings.")
            if title.strip() or text.strip():
                found[identifier] = f"{title} {text}".strip()
    return found


def _split(path: Path, split: str | None) -> Path:
    there = {file.name.split(".")[0]: file for file in sorted((path / "qrels").glob("*.tsv*"))}
    if split is None and (len(there) == 1 or "test" in there):
        return there.get("test") or next(iter(there.values()))
    if split not in there:
        asked = "" if split is None else f" {split!r}"
        message = (
            f"{path / 'qrels'} has no such split{asked}. There are: {', '.join(there) or 'none'}.\n"
            'Name one: split="…".'
        )
        raise InputError(message)
    return there[split]


def _find(folder: Path, name: str) -> Path | None:
    return next((file for ending in ENDINGS if (file := folder / f"{name}{ending}").is_file()), None)
