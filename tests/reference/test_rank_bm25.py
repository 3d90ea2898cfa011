"""Our BM25 scores equal those of rank_bm25 with the same tokens."""

import gzip
import json
import random

import pytest
from rank_bm25 import BM25Okapi

from pytest_rageval.retrievers.bm25 import BM25Retriever, words

pytestmark = pytest.mark.slow

CORPUS = [
    "The cat sat on the mat with another cat.",
    "A dog ran home; the dog was tired.",
    "Birds sing at dawn.",
    "",
    "The cat and the dog are friends, birds are not.",
    "Größe: 5 kg, 東京",
]
QUERIES = ["cat", "the dog", "DAWN birds!", "grösse 東", "zebra", "", "cat cat dog"]


def _check(corpus: list[str], queries: list[str]) -> None:
    theirs = BM25Okapi([words(text) for text in corpus])
    search = BM25Retriever({"id": n, "text": text} for n, text in enumerate(corpus))
    for query in queries:
        expected = dict(enumerate(theirs.get_scores(words(query)).tolist()))
        ours = {int(document.id or -1): document.score for document in search(query, len(corpus))}
        assert ours == expected
        # Ties are in corpus order.
        ranking = sorted(expected, key=lambda n: (-expected[n], n))
        assert list(ours) == ranking
        for k in (1, 2, 5):
            assert [document.id for document in search(query, k)] == [str(n) for n in ranking[:k]]


def test_scores_of_a_small_corpus() -> None:
    """Scores of every document and query are bit-identical, and documents are sorted by score."""
    _check(CORPUS, QUERIES)


def test_scores_of_real_passages(data) -> None:
    """The same holds for 500 real passages and 40 questions."""
    with gzip.open(data("lost_in_the_middle") / "nq-open-oracle.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line, _ in zip(lines, range(500), strict=False)]
    _check([record["ctxs"][0]["text"] for record in records], [record["question"] for record in records[:40]])


def test_scores_of_corpora_of_few_words() -> None:
    """The same holds where most words are in most documents, so that weights are negative."""
    rng = random.Random(0)
    negative = 0
    for _ in range(200):
        corpus = [" ".join(rng.choices("abcd", k=rng.randrange(1, 6))) for _ in range(rng.randrange(1, 8))]
        _check(corpus, ["a", "b c", "d d a"])
        negative += BM25Retriever(corpus)("a b c d", 1)[0].score < 0
    assert negative
