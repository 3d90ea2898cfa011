"""31 variants of BM25 over three real sets: the scores of each question under each.

MS MARCO (400 queries, a pool of about eight passages each), XQuAD (1,190 questions, 240 paragraphs) and NQ
(2,655 questions, the gold passages of all). A variant is BM25 with other constants, other words or shorter passages.
The data is looked for in the folder named by RAGEVAL_TEST_DATA, else in `shared/data` beside the project.
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

from pytest_rageval.measures.ranking import hit, map_, mrr, ndcg
from pytest_rageval.retrievers.bm25 import words

DATA = Path(os.environ.get("RAGEVAL_TEST_DATA") or Path(__file__).parents[2].parent / "shared" / "data")
DEPTH = 5

Array = NDArray[np.float64]

MEASURES: dict[str, Callable[[Array, Array], Array]] = {
    f"{name}@{k}": partial(measure, k=k)
    for name, measure in {"hit": hit, "map": map_, "mrr": mrr, "ndcg": ndcg}.items()
    for k in (1, 3, 5)
}
"""Ranking measures, with their cut-offs."""


@dataclass(frozen=True, slots=True)
class Collection:
    """Questions, passages, and which of them answer which question.

    Attributes:
        gold: by question, the positions of the passages that answer it.
        pools: by question, the positions of those that it searches; empty where it searches all.
    """

    name: str
    questions: list[str]
    passages: list[str]
    gold: list[set[int]]
    pools: list[range] = field(default_factory=list)


def ms_marco(folder: Path) -> Collection:
    """Queries with at least one selected passage."""
    csv.field_size_limit(1 << 24)
    questions, passages, gold, pools = [], [], [], []
    with (folder / "ms_marco_qna_dataset.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            pool = json.loads(row["passages"])
            start = len(passages)
            right = {start + i for i, passage in enumerate(pool) if passage["is_selected"]}
            if right:
                passages += [passage["passage_text"] for passage in pool]
                questions.append(row["query"])
                gold.append(right)
                pools.append(range(start, len(passages)))
    return Collection("MS MARCO", questions, passages, gold, pools)


def xquad(folder: Path) -> Collection:
    """Each question's paragraph is its gold."""
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
    """Each question's oracle passage is its gold."""
    questions, gold = [], []
    at: dict[str, int] = {}
    with gzip.open(folder / "nq-open-oracle.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            questions.append(row["question"])
            gold.append({at.setdefault(row["ctxs"][0]["text"], len(at))})
    return Collection("NQ", questions, list(at), gold)


SETS: dict[str, tuple[str, Callable[[Path], Collection]]] = {
    "MS MARCO": ("ms_marco_400", ms_marco),
    "XQuAD": ("xquad_squad", xquad),
    "NQ": ("lost_in_the_middle", natural_questions),
}
"""Folder of each set, and what reads it."""


def at_hand(names: Iterable[str]) -> bool:
    """Whether the data of these sets is there."""
    return all((DATA / SETS[name][0]).is_dir() for name in names)


def plain(text: str) -> list[str]:
    """Its words."""
    return words(text)


def stems(text: str) -> list[str]:
    """The first five letters of its words."""
    return [word[:5] for word in words(text)]


def long_words(text: str) -> list[str]:
    """Its words of four letters and more."""
    return [word for word in words(text) if len(word) > 3]


def grams(text: str) -> list[str]:
    """Its runs of four letters."""
    whole = " ".join(words(text))
    return [whole[i : i + 4] for i in range(len(whole) - 3)]


@cache
def scores(name: str) -> dict[str, Array]:
    """By measure, the scores of a set: questions × variants."""
    folder, read = SETS[name]
    collection = read(DATA / folder)
    tables: dict[str, list[Array]] = {measure: [] for measure in MEASURES}
    ideal = np.zeros((len(collection.questions), max(map(len, collection.gold))))
    for row, right in zip(ideal, collection.gold, strict=True):
        row[: len(right)] = 1
    for matrix in _variants(collection):
        labels = _labels(matrix, collection)
        for measure, function in MEASURES.items():
            tables[measure].append(function(labels, ideal))
    return {measure: np.column_stack(columns) for measure, columns in tables.items()}


def _variants(collection: Collection) -> Iterator[Array]:
    """Scores of all passages for all questions, a variant each."""
    for k1, b in product((0.3, 0.9, 1.5, 3.0), (0.0, 0.4, 0.75, 1.0)):
        yield _bm25(collection, plain, k1=k1, b=b)
    for tokens, b in product((stems, long_words, grams), (0.0, 0.4, 0.75, 1.0)):
        yield _bm25(collection, tokens, k1=1.5, b=b)
    for share in (0.5, 0.7, 0.9):
        yield _bm25(collection, plain, k1=1.5, b=0.75, share=share)


def _bm25(
    collection: Collection, tokens: Callable[[str], list[str]], *, k1: float, b: float, share: float = 1.0
) -> Array:
    """Okapi BM25 over the first share of each passage's words."""
    counts, queries = _counts(collection.name, collection, tokens, share)
    length = counts.sum(axis=1)
    rows, columns = counts.nonzero()
    held = np.bincount(columns, minlength=counts.shape[1])
    idf = np.log1p((len(length) - held + 0.5) / (held + 0.5))
    tf = counts.data
    weights = idf[columns] * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length[rows] / length.mean()))
    return (queries @ csr_array((weights, (rows, columns)), shape=counts.shape).T).toarray()


_COUNTED: dict[tuple[str, str, float], tuple[csr_array, csr_array]] = {}


def _counts(
    name: str, collection: Collection, tokens: Callable[[str], list[str]], share: float
) -> tuple[csr_array, csr_array]:
    """Passages × words, and questions × words: how often each occurs."""
    key = (name, tokens.__name__, share)
    if key not in _COUNTED:
        at: dict[str, int] = {}
        passages = [tokens(passage) for passage in collection.passages]
        rows = [
            [at.setdefault(word, len(at)) for word in text[: int(len(text) * share)]] for text in passages
        ]
        asked = [[at[word] for word in tokens(question) if word in at] for question in collection.questions]
        _COUNTED[key] = _sparse(rows, len(at)), _sparse(asked, len(at))
    return _COUNTED[key]


def _sparse(rows: list[list[int]], width: int) -> csr_array:
    columns = np.array([column for row in rows for column in row], dtype=int)
    lines = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    matrix = csr_array((np.ones(len(columns)), (lines, columns)), shape=(len(rows), width))
    matrix.sum_duplicates()
    return matrix


def _labels(matrix: Array, collection: Collection) -> Array:
    """Which of the first passages of each question are gold; of equal ones the earlier comes first."""
    labels = np.zeros((len(matrix), DEPTH))
    for i, row in enumerate(matrix):
        pool = collection.pools[i] if collection.pools else range(len(row))
        for at in collection.gold[i]:
            rank = np.count_nonzero(row[pool.start : pool.stop] > row[at])
            rank += np.count_nonzero(row[pool.start : at] == row[at])
            if rank < DEPTH:
                labels[i, rank] = 1
    return labels
