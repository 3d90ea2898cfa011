"""BM25 compared with a shuffled retriever on MS MARCO and NQ: `python tests/benchmarks/real_data.py [N]`.

The data is read from the folder that the environment variable RAGEVAL_TEST_DATA names, by default from `shared/data`
next to the project. In MS MARCO each query searches its own pool of up to ten passages, and the gold passages are those
with `is_selected`. In NQ each query searches the gold passages of all queries. Ranking measures are computed for all
queries; LLM-retEval and answer correctness, with the embedded model, for the first N (default: 60) of each data set.
"""

import ast
import csv
import gzip
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.evalset import EvalSet
from pytest_rageval.core.ranking import Document
from pytest_rageval.core.settings import Settings
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.evalsets import from_records
from pytest_rageval.extensions.embeddings.dense import PooledRetriever
from pytest_rageval.retrievers.bm25 import BM25Retriever
from pytest_rageval.run.default_components import DefaultGenerator, DefaultJudge
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session

DATA = Path(os.environ.get("RAGEVAL_TEST_DATA") or Path(__file__).parents[2].parent / "shared" / "data")
Search = Callable[[str, int], list[Document]]

RANKING = [f"{name}@{k}" for name in ("recall", "precision", "f1", "map", "mrr", "ndcg") for k in (1, 3, 5)]
ANSWERS = ["recall@3", "llm_reteval@3", "answer.correct@3"]


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


def ms_marco() -> tuple[EvalSet, Search, Search]:
    """Return the eval set of 400 queries, BM25 over the pool of each query, and a retriever that shuffles the pool."""
    evalset, pools = ms_marco_pools()

    def shuffled(query: str, k: int) -> list[Document]:
        return random.Random(query).sample(pools[query], min(k, len(pools[query])))

    return evalset, PooledRetriever(pools, BM25Retriever), shuffled


def nq_open() -> tuple[EvalSet, Search, Search]:
    """Return the eval set of 2,655 queries, BM25 over all gold passages, and a retriever of random passages."""
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
    documents = list(corpus.values())

    def shuffled(query: str, k: int) -> list[Document]:
        return random.Random(query).sample(documents, k)

    return from_records(records, name="nq_open"), BM25Retriever(documents), shuffled


def table(session: Session, evalset: EvalSet, systems: dict[str, Search], specs: list[str]) -> None:
    """Print the scores, with one column per system."""
    components = {
        name: Components(search, DefaultGenerator(session.models), DefaultJudge(session.models))
        for name, search in systems.items()
    }
    scores = {}
    for name, system_components in components.items():
        began = time.perf_counter()
        results = session.score(system_components, evalset, [ScoreRequest(spec) for spec in specs])
        scores[name] = {request.spec: result for request, result in results.items()}
        say(f"{evalset.name}, {len(evalset)} examples, {name}: {time.perf_counter() - began:.1f} s")
    for spec in specs:
        cells = []
        for result in (scores[name][spec] for name in systems):
            if isinstance(result, RagevalError):
                raise result
            cells.append(f"{result:.3f} (n {result.n}, unscored {result.unscored})")
        say(f"  {spec:18}" + "   ".join(cells))


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    with tempfile.TemporaryDirectory() as temporary:
        bench = Session(Settings(model="embedded", cache_dir=Path(temporary), max_unscored=0.2))
        for load in (ms_marco, nq_open):
            whole, bm25, shuffled = load()
            table(bench, whole, {"bm25": bm25, "shuffled": shuffled}, RANKING)
            subset = EvalSet(f"{whole.name}, first {first}", whole.examples[:first])
            table(bench, subset, {"bm25": bm25, "shuffled": shuffled}, ANSWERS)
        bench.close()
