"""MS MARCO and NQ, and retrievers over their passages, for the benchmarks.

The data is read from the folder that the environment variable RAGEVAL_TEST_DATA names, by default from `shared/data`
next to the project. In MS MARCO each query searches its own pool of up to ten passages, and the gold passages are those
with `is_selected`. In NQ each query searches the gold passages of all queries.
"""

import ast
import csv
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

from pytest_rageval.core.evalset import EvalSet
from pytest_rageval.core.ranking import Document
from pytest_rageval.evalsets import from_records
from pytest_rageval.extensions.embeddings.dense import PooledRetriever
from pytest_rageval.retrievers.bm25 import BM25Retriever

DATA = Path(os.environ.get("RAGEVAL_TEST_DATA") or Path(__file__).parents[2].parent / "shared" / "data")
Search = Callable[[str, int], list[Document]]


def ms_marco_pools() -> tuple[EvalSet, dict[str, list[Document]]]:
    """Return the eval set of 400 queries, and the pool of passages of each query."""
    csv.field_size_limit(1 << 24)
    pools: dict[str, list[Document]] = {}
    records = []
    with (DATA / "ms_marco_400" / "ms_marco_qna_dataset.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            passages = json.loads(row["passages"])
            documents = [
                Document(p["passage_text"], f"{row['query_id']}-{i}") for i, p in enumerate(passages)
            ]
            pools[row["query"]] = documents
            gold = [
                {"id": document.id, "text": document.text}
                for document, passage in zip(documents, passages, strict=True)
                if passage["is_selected"]
            ]
            answers = [answer for answer in ast.literal_eval(row["answers"]) if answer.strip()]
            record = {"id": row["query_id"], "question": row["query"], "answers": answers, "gold": gold}
            records.append((f"query {row['query_id']}", record))
    return from_records(records, name="ms_marco_400"), pools


def ms_marco() -> tuple[EvalSet, Search]:
    """Return the eval set of 400 queries, and BM25 over the pool of each query."""
    evalset, pools = ms_marco_pools()
    return evalset, PooledRetriever(pools, BM25Retriever)


def nq_open() -> tuple[EvalSet, Search]:
    corpus: dict[str, Document] = {}
    records = []
    with gzip.open(DATA / "lost_in_the_middle" / "nq-open-oracle.jsonl.gz", "rt", encoding="utf-8") as file:
        for number, line in enumerate(file):
            row = json.loads(line)
            text = row["ctxs"][0]["text"]
            document = corpus.setdefault(text, Document(text, f"p{len(corpus)}"))
            record = {
                "id": f"nq{number}",
                "question": row["question"],
                "answers": row["answers"],
                "gold": [{"id": document.id, "text": text}],
            }
            records.append((f"record {number}", record))
    return from_records(records, name="nq_open"), BM25Retriever(list(corpus.values()))


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201
