"""Near-duplicate detection on real passages: cuts and versions are found, other passages on the topic are not."""

import csv
import gzip
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from pytest_rageval.scores.near_duplicates import DUPLICATE_THRESHOLD, near_duplicate, shingle_overlap

pytestmark = pytest.mark.slow

Data = Callable[[str], Path]


@pytest.fixture(scope="module")
def articles(data: Data) -> list[list[str]]:
    text = (data("xquad_squad") / "xquad.en.json").read_text(encoding="utf-8")
    return [[part["context"] for part in article["paragraphs"]] for article in json.loads(text)["data"]]


def test_paragraphs_of_one_article_are_different(articles: list[list[str]]) -> None:
    """All 480 pairs of paragraphs of one article have an overlap of at most 0.109."""
    shares = [shingle_overlap(a, b) for paragraphs in articles for a, b in combinations(paragraphs, 2)]
    assert len(shares) == 480
    assert max(shares) == pytest.approx(0.109, abs=5e-4)


def test_two_cuts_that_overlap_by_half_are_found(articles: list[list[str]]) -> None:
    """Two halves of a paragraph that overlap by half are near duplicates, for 240 paragraphs."""
    shares = []
    for words in (paragraph.split() for paragraphs in articles for paragraph in paragraphs):
        half = len(words) // 2
        shares.append(
            shingle_overlap(" ".join(words[:half]), " ".join(words[round(half / 2) : round(half / 2) + half]))
        )
    assert len(shares) == 240
    assert min(shares) == pytest.approx(0.364, abs=5e-4)
    assert min(shares) >= DUPLICATE_THRESHOLD


def test_a_long_answer_is_found_in_the_passage_it_was_cut_from(data: Data) -> None:
    """In 2,655 questions, the annotated long answer is a near duplicate of the matched passage of another edition."""
    with gzip.open(data("lost_in_the_middle") / "nq-open-oracle.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    pairs = [(record["ctxs"][0]["text"], record["nq_annotated_gold"]["long_answer"]) for record in records]
    assert all(near_duplicate(*pair) for pair in pairs)
    strangers = zip(pairs, pairs[1:] + pairs[:1], strict=True)
    assert sum(near_duplicate(a, other) for (a, _), (other, _) in strangers if a != other) == 0


def test_web_passages_of_one_query_fall_into_two_groups(data: Data) -> None:
    """Of 12,417 pairs, the fewest have an overlap near the threshold, and most have almost none."""
    csv.field_size_limit(1 << 24)
    path = data("ms_marco_400") / "ms_marco_qna_dataset.csv"
    with path.open(encoding="utf-8", newline="") as file:
        pools = [[p["passage_text"] for p in json.loads(row["passages"])] for row in csv.DictReader(file)]
    shares = [shingle_overlap(a, b) for pool in pools for a, b in combinations(pool, 2)]
    groups = [sum(n / 20 <= share < (n + 1) / 20 for share in shares) for n in range(21)]
    assert len(shares) == 12_417
    assert groups.index(min(groups)) == 6  # from 0.30 to 0.35
    assert sum(share >= DUPLICATE_THRESHOLD for share in shares) == 965
