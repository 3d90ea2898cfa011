"""Scores of each question under 31 variants of BM25, for three real data sets.

The data sets are MS MARCO (400 queries, each with a pool of about eight passages), XQuAD (1,190 questions, 240
paragraphs) and NQ (2,655 questions, whose gold passages are the corpus). The variants differ in the constants of BM25,
the tokens, or the length of the passages. The data is read from the folder that the environment variable
RAGEVAL_TEST_DATA names; by default from `shared/data` next to the project.
"""

import csv
import gzip
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from pytest_rageval.retrievers.bm25 import words
from pytest_rageval.scores.measures import Labelled, compute_measure

DATA = Path(os.environ.get("RAGEVAL_TEST_DATA") or Path(__file__).parents[2].parent / "shared" / "data")
DEPTH = 5

Array = NDArray[np.float64]


def _measure(name: str, k: int, labels: Array, ideal: Array) -> Array:
    rows = zip(labels.tolist(), ideal.tolist(), strict=True)
    return np.array(compute_measure(name, [Labelled.of(*row, k) for row in rows]))


MEASURES: dict[str, Callable[[Array, Array], Array]] = {
    f"{name}@{k}": partial(_measure, name, k) for name in ("hit", "map", "mrr", "ndcg") for k in (1, 3, 5)
}
"""Functions that compute ranking measures, by name and cut-off."""


@dataclass(frozen=True, slots=True)
class Collection:
    name: str
    questions: list[str]
    passages: list[str]
    gold: list[set[int]]
    pools: list[range] = field(default_factory=list)


def ms_marco(folder: Path) -> Collection:
    csv.field_size_limit(1 << 24)
    questions, passages, gold, pools = [], [], [], []
    with (folder / "ms_marco_qna_dataset.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            pool = json.loads(row["passages"])
            start = len(passages)
            selected = {start + i for i, passage in enumerate(pool) if passage["is_selected"]}
            if selected:
                passages += [passage["passage_text"] for passage in pool]
                questions.append(row["query"])
                gold.append(selected)
                pools.append(range(start, len(passages)))
    return Collection("MS MARCO", questions, passages, gold, pools)


def xquad(folder: Path) -> Collection:
    questions, passages, gold = [], [], []
    whole = json.loads((folder / "xquad.en.json").read_text(encoding="utf-8"))
    for article in whole["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                questions.append(question["question"])
                gold.append({len(passages)})
            passages.append(paragraph["context"])
    return Collection("XQuAD", questions, passages, gold)


def natural_questions(folder: Path) -> Collection:
    questions, gold = [], []
    index_of: dict[str, int] = {}
    with gzip.open(folder / "nq-open-oracle.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            questions.append(row["question"])
            gold.append({index_of.setdefault(row["ctxs"][0]["text"], len(index_of))})
    return Collection("NQ", questions, list(index_of), gold)


SETS: dict[str, tuple[str, Callable[[Path], Collection]]] = {
    "MS MARCO": ("ms_marco_400", ms_marco),
    "XQuAD": ("xquad_squad", xquad),
    "NQ": ("lost_in_the_middle", natural_questions),
}
"""The folder of each data set, and the function that reads it."""


def is_available(names: Iterable[str]) -> bool:
    return all((DATA / SETS[name][0]).is_dir() for name in names)


def stems(text: str) -> list[str]:
    return [word[:5] for word in words(text)]


def long_words(text: str) -> list[str]:
    return [word for word in words(text) if len(word) > 3]


def character_4_grams(text: str) -> list[str]:
    whole = " ".join(words(text))
    return [whole[i : i + 4] for i in range(len(whole) - 3)]


@cache
def scores(name: str) -> dict[str, Array]:
    folder, read = SETS[name]
    collection = read(DATA / folder)
    tables: dict[str, list[Array]] = {measure: [] for measure in MEASURES}
    ideal = np.zeros((len(collection.questions), max(map(len, collection.gold))))
    for row, gold in zip(ideal, collection.gold, strict=True):
        row[: len(gold)] = 1
    for matrix in _variants(collection):
        labels = _labels(matrix, collection)
        for measure, function in MEASURES.items():
            tables[measure].append(function(labels, ideal))
    return {measure: np.column_stack(columns) for measure, columns in tables.items()}


def _variants(collection: Collection) -> Iterator[Array]:
    for k1, b in product((0.3, 0.9, 1.5, 3.0), (0.0, 0.4, 0.75, 1.0)):
        yield _bm25(collection, words, k1=k1, b=b)
    for tokens, b in product((stems, long_words, character_4_grams), (0.0, 0.4, 0.75, 1.0)):
        yield _bm25(collection, tokens, k1=1.5, b=b)
    for share in (0.5, 0.7, 0.9):
        yield _bm25(collection, words, k1=1.5, b=0.75, share=share)


def _bm25(
    collection: Collection, tokens: Callable[[str], list[str]], *, k1: float, b: float, share: float = 1.0
) -> Array:
    """Return the scores of Okapi BM25 over the first `share` of the tokens of each passage."""
    counts, queries = _counts(collection.name, collection, tokens, share)
    length = counts.sum(axis=1)
    rows, columns = counts.nonzero()
    document_frequency = np.bincount(columns, minlength=counts.shape[1])
    idf = np.log1p((len(length) - document_frequency + 0.5) / (document_frequency + 0.5))
    tf = counts.data
    weights = idf[columns] * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length[rows] / length.mean()))
    return (queries @ csr_array((weights, (rows, columns)), shape=counts.shape).T).toarray()


_COUNTS_CACHE: dict[tuple[str, str, float], tuple[csr_array, csr_array]] = {}


def _counts(
    name: str, collection: Collection, tokens: Callable[[str], list[str]], share: float
) -> tuple[csr_array, csr_array]:
    key = (name, tokens.__name__, share)
    if key not in _COUNTS_CACHE:
        index_of: dict[str, int] = {}
        passages = [tokens(passage) for passage in collection.passages]
        passage_rows = [
            [index_of.setdefault(word, len(index_of)) for word in text[: int(len(text) * share)]]
            for text in passages
        ]
        question_rows = [
            [index_of[word] for word in tokens(question) if word in index_of]
            for question in collection.questions
        ]
        width = len(index_of)
        _COUNTS_CACHE[key] = _sparse(passage_rows, width), _sparse(question_rows, width)
    return _COUNTS_CACHE[key]


def _sparse(rows: list[list[int]], width: int) -> csr_array:
    columns = np.array([column for row in rows for column in row], dtype=int)
    lines = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    matrix = csr_array((np.ones(len(columns)), (lines, columns)), shape=(len(rows), width))
    matrix.sum_duplicates()
    return matrix


def _labels(matrix: Array, collection: Collection) -> Array:
    """Return which of the first `DEPTH` passages of each question are gold; ties are in the order of the passages."""
    labels = np.zeros((len(matrix), DEPTH))
    for i, row in enumerate(matrix):
        pool = collection.pools[i] if collection.pools else range(len(row))
        for gold in collection.gold[i]:
            rank = np.count_nonzero(row[pool.start : pool.stop] > row[gold])
            rank += np.count_nonzero(row[pool.start : gold] == row[gold])
            if rank < DEPTH:
                labels[i, rank] = 1
    return labels
