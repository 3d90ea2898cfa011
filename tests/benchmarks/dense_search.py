"""Dense search over 100,000 × 384, compared with a matrix product of numpy: `python tests/benchmarks/dense_search.py`.

The vectors are random and of length 1. Queries are in batches of 64, and each retrieves 10 documents. Texts are not
encoded. The script prints the minimum of seven runs; searches and products take turns.
"""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.extensions.embeddings.dense import BATCH, DenseRetriever
from pytest_rageval.extensions.embeddings.encoder import Vectors

PASSAGES, DIMENSIONS, K, RUNS = 100_000, 384, 10, 7


class VectorLookup:
    """An encoder of texts that are numbers: returns the vectors at these indices."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors

    def sentences(self, texts: Sequence[str]) -> list[Vectors]:
        return list(self._vectors[[int(text) for text in texts]])


def seconds(work: Callable[[], object]) -> float:
    """Return the duration of a call in seconds."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Print the times."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((PASSAGES + BATCH, DIMENSIONS), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    corpus, queries = vectors[:PASSAGES].copy(), vectors[PASSAGES:].copy()
    texts = [str(PASSAGES + n) for n in range(BATCH)]
    search = DenseRetriever(map(str, range(PASSAGES)), encoder=VectorLookup(vectors))
    ours, bare, single = [], [], []
    for _ in range(RUNS):
        ours.append(seconds(lambda: search.search_many(texts, K)))
        bare.append(seconds(lambda: queries @ corpus.T))
        single.append(seconds(lambda: search(texts[0], K)))
    search_ms, product_ms = min(ours) / BATCH * 1e3, min(bare) / BATCH * 1e3
    print(  # noqa: T201
        f"{PASSAGES:,} × {DIMENSIONS}, batches of {BATCH}: {search_ms:.2f} ms a query; "
        f"bare product {product_ms:.2f} ms, ratio {search_ms / product_ms:.2f}; alone {min(single) * 1e3:.1f} ms"
    )


if __name__ == "__main__":
    main()
