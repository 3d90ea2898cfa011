"""BEIR and MTEB: a folder with the corpus, the queries, and relevance judgements (qrels) for each split.

The files are those of BEIR's archives, JSON lines and tables, or those of Hugging Face, also as Parquet.
"""

import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, Final

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.corpus import BEIR_SUFFIXES, beir_files, texts_by_id
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.trec import read_qrels
from pytest_rageval.evalsets.records import Records, check_records
from pytest_rageval.lib.foreign_values import id_key

QRELS_FOLDERS: Final = ("qrels", "default", "data")
"""Folders with the judgements: of BEIR, and of MTEB on Hugging Face."""

SPLIT: Final = re.compile(r"(?P<split>.+?)(?:-\d{5}-of-\d{5})?\.")


def recognises(shape: Shape) -> bool:
    """Return True for a folder with a file `queries.jsonl`, compressed or not, or another file of the queries."""
    return shape.folder and bool(beir_files(shape.path, "queries"))


def read(path: Path, *, split: str | None = None, texts: bool = True) -> Records:
    """Yield records of the queries that have judgements in a split.

    Args:
        path: path of the folder with `queries.jsonl`, `qrels/*.tsv` and optionally `corpus.jsonl`, for the texts of the
            gold passages (title and text with a space between them). The corpus is not held in memory. In place of each
            file there may be a folder of this name with files of JSON lines or Parquet.
        split: name of a file in `qrels`, without its suffix; default: "test", or the only file.
        texts: True to add the texts of the gold passages; False to use only their ids and not read the corpus.
    """
    queries = beir_files(path, "queries")
    if not queries:
        raise InputError(
            f"{path} has no queries.jsonl.\nA BEIR folder has queries.jsonl, corpus.jsonl and qrels/."
        )
    qrels = _qrels_files(path, split)
    judged = _read_judgements(qrels)
    gold_texts: dict[str, str] = {}
    if texts and beir_files(path, "corpus"):
        gold_texts = texts_by_id(path, {document for grades in judged.values() for document in grades})
    for check, record in check_records(chain.from_iterable(map(json_records, queries)), "text"):
        key = "_id" if "_id" in record else "id"
        check.record(record, key)
        identifier = check.name(record.pop(key), key)
        grades = judged.pop(identifier, None)
        if grades is None:
            continue
        record |= {
            "id": identifier,
            "question": check.text(record.pop("text"), "text"),
            "gold": [
                {"id": document, "text": gold_texts.get(id_key(document)), "grade": grade}
                for document, grade in grades.items()
            ],
        }
        yield check.place, record
    if judged:
        raise InputError(
            f"{queries[0].name} lacks {len(judged)} queries that {qrels[0].name} judges: "
            f"{', '.join(sorted(judged)[:8])}.\nAre these the queries of these qrels?"
        )


def _qrels_files(path: Path, split: str | None) -> list[Path]:
    folder = next((path / name for name in QRELS_FOLDERS if (path / name).is_dir()), path / QRELS_FOLDERS[0])
    files: dict[str, list[Path]] = {}
    for file in sorted(folder.glob("*")):
        if (".tsv" in file.suffixes or file.name.endswith(BEIR_SUFFIXES)) and (
            matched := SPLIT.match(file.name)
        ):
            files.setdefault(matched["split"], []).append(file)
    if split is None and (len(files) == 1 or "test" in files):
        return files.get("test") or next(iter(files.values()))
    if split not in files:
        name = "" if split is None else f" {split!r}"
        raise InputError(
            f"{folder} has no such split{name}. There are: {', '.join(files) or 'none'}.\n"
            'Name one: split="…".'
        )
    return files[split]


def _read_judgements(files: Iterable[Path]) -> dict[str, dict[str, int]]:
    """Return the grade of each judged document, by query, from tables (see `read_qrels`), JSON lines or Parquet."""
    judged: dict[str, dict[str, int]] = {}
    for file in files:
        if ".tsv" in file.suffixes:
            for query, grades in read_qrels(file).items():
                # Some folders have the same judgements as JSON lines, which are read first.
                documents = judged.setdefault(query, {})
                other = next(
                    (name for name in grades if documents.get(name, grades[name]) != grades[name]), ""
                )
                if other:
                    raise InputError(
                        f"{file.name}: the grade of {other[:80]} for {query[:80]} is {grades[other]}, and "
                        f"{documents[other]} in another file of this split.\nTake one of them out."
                    )
                documents |= grades
            continue
        for check, row in check_records(json_records(file), "query-id", "corpus-id", "score"):
            documents = judged.setdefault(check.name(row["query-id"], "query-id"), {})
            document = check.name(row["corpus-id"], "corpus-id")
            if document in documents:
                check.fail(f"{document[:80]} is judged twice for this query", "Take one of them out.")
            score: Any = row["score"]
            documents[document] = check.natural(
                0 if type(score) in (int, float) and score < 0 else score, "score"
            )
    return judged
