"""LlamaIndex: `LabelledRagDataset`, and `EmbeddingQAFinetuneDataset`, the pairs that embeddings are trained with."""

from collections import defaultdict
from pathlib import Path
from typing import Any

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.files import json_nested_members, json_records
from pytest_rageval.evalsets.records import Check, Records, check_records


def read_llama_index(path: Path) -> Records:
    """Yield records with the reference contexts as gold passages, by text, and the reference answer as `reference`.

    The id is the record's number, from 1. Who wrote question and answer is kept under `extra`.
    """
    for number, (check, record) in enumerate(check_records(json_records(path), "query"), 1):
        answer = record.pop("reference_answer", None)
        texts = check.texts(record.pop("reference_contexts", None), "reference_contexts")
        record |= {
            "id": number,
            "question": check.text(record.pop("query"), "query"),
            "gold": [{"text": text} for text in dict.fromkeys(texts)],
            "reference": answer or None,
        }
        yield check.place, record


def read_llama_index_pairs(path: Path) -> Records:
    """Yield records of the queries, with the relevant documents as gold passages, by id and text.

    The corpus is not held in memory: the file is read a second time for the texts of gold passages.
    """
    queries: dict[str, Any] = {}
    relevant: dict[str, list[str]] = {}
    for part, key, value in json_nested_members(path):
        check = Check(f"{path.name} {part} {key[:80]}")
        if part == "queries":
            queries[key] = check.text(value, part)
        elif part == "relevant_docs":
            relevant[key] = list(
                dict.fromkeys(check.name(each, part, i) for i, each in enumerate(check.array(value)))
            )
    if unknown := sorted(relevant.keys() - queries.keys()):
        raise InputError(f"{path.name} has relevant_docs of queries that it lacks: {', '.join(unknown[:8])}.")
    wanted = {each for documents in relevant.values() for each in documents}
    texts: defaultdict[str, str | None] = defaultdict(lambda: None)
    texts |= {
        key: value for part, key, value in json_nested_members(path) if part == "corpus" and key in wanted
    }
    for identifier, question in queries.items():
        gold = [{"id": each, "text": texts[each] or None} for each in relevant.get(identifier, ())]
        yield f"{path.name} queries {identifier[:80]}", {"id": identifier, "question": question, "gold": gold}
