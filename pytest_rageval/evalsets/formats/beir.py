"""BEIR: a folder with the corpus, the queries, and one file of relevance judgements (qrels) for each split."""

from pathlib import Path

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.corpus import beir_text, find_beir_file
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.evalsets.format import Shape
from pytest_rageval.evalsets.formats.trec import read_qrels
from pytest_rageval.evalsets.records import Records, check_records
from pytest_rageval.lib.foreign_values import id_key


def recognises(shape: Shape) -> bool:
    """Return True for a folder with a file `queries.jsonl`, compressed or not."""
    return shape.folder and find_beir_file(shape.path, "queries.jsonl") is not None


def read(path: Path, *, split: str | None = None, texts: bool = True) -> Records:
    """Yield records of the queries that have judgements in a split.

    Args:
        path: path of the folder with `queries.jsonl`, `qrels/*.tsv` and optionally `corpus.jsonl`, for the texts of the
            gold passages (title and text with a space between them). The corpus is not held in memory.
        split: name of a file in `qrels`, without its suffix; default: "test", or the only file.
        texts: True to add the texts of the gold passages; False to use only their ids and not read the corpus.
    """
    queries, corpus = find_beir_file(path, "queries.jsonl"), find_beir_file(path, "corpus.jsonl")
    if queries is None:
        raise InputError(
            f"{path} has no queries.jsonl.\nA BEIR folder has queries.jsonl, corpus.jsonl and qrels/."
        )
    qrels = _qrels_file(path, split)
    judged = read_qrels(qrels)
    gold_texts: dict[str, str] = {}
    if texts and corpus:
        documents = {id_key(document) for grades in judged.values() for document in grades}
        for check, record in check_records(json_records(corpus), "_id", "text"):
            name = id_key(check.name(record["_id"], "_id"))
            if name in documents and (text := beir_text(record, check)):
                gold_texts[name] = text
    for check, record in check_records(json_records(queries), "_id", "text"):
        identifier = check.name(record.pop("_id"), "_id")
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
            f"{queries.name} lacks {len(judged)} queries that {qrels.name} judges: {', '.join(sorted(judged)[:8])}.\n"
            "Are these the queries of these qrels?"
        )


def _qrels_file(path: Path, split: str | None) -> Path:
    files = {file.name.split(".")[0]: file for file in sorted((path / "qrels").glob("*.tsv*"))}
    if split is None and (len(files) == 1 or "test" in files):
        return files.get("test") or next(iter(files.values()))
    if split not in files:
        name = "" if split is None else f" {split!r}"
        raise InputError(
            f"{path / 'qrels'} has no such split{name}. There are: {', '.join(files) or 'none'}.\n"
            'Name one: split="…".'
        )
    return files[split]
