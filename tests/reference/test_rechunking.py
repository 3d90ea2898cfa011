"""One eval set by source span, with a corpus cut at 120, 240 and 480 words: the labels stay right.

48 Wikipedia articles, each a file of five paragraphs, and 1,190 questions. Gold is the sentence around the
answer, or the paragraph. The expected labels are counted character by character.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_rageval.core.evalset import Gold
from pytest_rageval.core.ranking import Document, Ranking, Span
from pytest_rageval.options import DEFAULT_MATCH_SHARE
from pytest_rageval.retrievers.bm25 import BM25Retriever
from pytest_rageval.scores.gold_matching import GoldMatch, overlap

pytestmark = pytest.mark.slow

CHUNKS = (120, 240, 480)
KINDS = ("sentence", "paragraph")
_END_OF_SENTENCE = re.compile(r"[.!?][\"”)]?\s+(?=[A-Z“\"(])")


class Asked(NamedTuple):
    question: str
    gold: dict[str, Gold]


class Corpus(NamedTuple):
    files: dict[str, str]
    asked: list[Asked]

    def chunks(self, size: int, step: int | None = None) -> list[Document]:
        return [
            Document(text[start:end], span=Span(name, start, end))
            for name, text in self.files.items()
            for start, end in _cuts(text, size, step or size)
        ]


def _cuts(text: str, size: int, step: int) -> Iterator[tuple[int, int]]:
    words = [match.span() for match in re.finditer(r"\S+", text)]
    for first in range(0, len(words), step):
        yield words[first][0], words[min(first + size, len(words)) - 1][1]
        if first + size >= len(words):
            break


@pytest.fixture(scope="module")
def corpus(data: Callable[[str], Path]) -> Corpus:
    text = (data("xquad_squad") / "xquad.en.json").read_text(encoding="utf-8")
    files: dict[str, str] = {}
    asked = []
    for article in json.loads(text)["data"]:
        name, whole = f"{article['title']}.txt", "\n\n".join(p["context"] for p in article["paragraphs"])
        files[name] = whole
        offset = 0
        for paragraph in article["paragraphs"]:
            context = paragraph["context"]
            ends = [0, *(match.end() for match in _END_OF_SENTENCE.finditer(context)), len(context)]
            for qa in paragraph["qas"]:
                start = qa["answers"][0]["answer_start"]
                end = start + len(qa["answers"][0]["text"])
                first = max(place for place in ends if place <= start)
                last = min(place for place in ends if place >= end)
                gold = {
                    "sentence": _gold(
                        name, whole, offset + first, offset + first + len(context[first:last].rstrip())
                    ),
                    "paragraph": _gold(name, whole, offset, offset + len(context)),
                }
                asked.append(Asked(qa["question"], gold))
            offset += len(context) + 2
    return Corpus(files, asked)


def _gold(name: str, whole: str, start: int, end: int) -> Gold:
    return Gold(source=name, start=start, end=end, text=whole[start:end])


def _by_text(gold: Gold) -> Gold:
    return Gold(text=gold.text)


def _characters(document: Document, gold: Gold) -> set[int]:
    if document.span.source != gold.source:
        return set()
    return set(range(document.span.start, document.span.end)).intersection(range(gold.start, gold.end))


def _brute(documents: list[Document], gold: Gold) -> list[int]:
    """Return labels with a 1 at the rank at which at least half of the characters are retrieved."""
    held, labels = set(), []
    for document in documents:
        before = len(held) >= DEFAULT_MATCH_SHARE * (gold.end - gold.start)
        held |= _characters(document, gold)
        labels.append(int(not before and len(held) >= DEFAULT_MATCH_SHARE * (gold.end - gold.start)))
    return labels


@pytest.mark.parametrize(
    ("kind", "size", "pairs", "unlike"),
    [
        ("sentence", 120, 4687, 6),
        ("sentence", 240, 2544, 1),
        ("sentence", 480, 1560, 1),
        ("paragraph", 120, 1375, 1),
        ("paragraph", 240, 750, 0),
        ("paragraph", 480, 460, 0),
    ],
)
def test_the_share_of_gold_in_a_chunk_follows_from_its_characters(corpus, kind, size, pairs, unlike):
    """Overlap by span equals the share of characters, and overlap by text gives the same verdict.

    In 9 of 11,376 pairs the text differs: half of the passage is cut off in a run of less than 8 words, or a
    passage with figures and marks splits differently by letters than by characters.
    """
    golds = {asked.gold[kind] for asked in corpus.asked}
    chunks = corpus.chunks(size)
    of_one_file = [(chunk, gold) for gold in golds for chunk in chunks if chunk.span.source == gold.source]
    assert len(of_one_file) == pairs
    wrong = 0
    for chunk, gold in of_one_file:
        share = len(_characters(chunk, gold)) / (gold.end - gold.start)
        parts, evidence = overlap(chunk, gold)
        assert evidence == "span"
        assert sum(end - start for start, end in parts) == pytest.approx(share, abs=1e-12)
        bare = overlap(Document(chunk.text), _by_text(gold))
        wrong += (sum(end - start for start, end in bare.parts) >= DEFAULT_MATCH_SHARE) != (
            share >= DEFAULT_MATCH_SHARE
        )
    assert wrong == unlike


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [30, *CHUNKS])
@pytest.mark.parametrize("overlapping", [False, True])
def test_rankings_are_labelled_as_their_characters_say(corpus, size, kind, overlapping):
    """Labels of BM25 rankings (k = 5) equal a count of characters, also for short and for overlapping chunks."""
    documents = corpus.chunks(size, size // 2 if overlapping else size)
    search = BM25Retriever(documents)
    same_by_text = 0
    asked = corpus.asked[::5]
    for question, gold in asked:
        found = search(question, 5)
        expected = _brute(found, gold[kind])
        assert GoldMatch(Ranking.of(question, found), [gold[kind]]).labels == expected
        bare = GoldMatch(Ranking.of(question, [Document(d.text) for d in found]), [_by_text(gold[kind])])
        same_by_text += bare.labels == expected
    assert same_by_text >= 0.97 * len(asked)


@pytest.fixture(scope="module")
def retrieved(corpus: Corpus) -> dict[int, list[list[Document]]]:
    searches = {size: BM25Retriever(corpus.chunks(size)) for size in CHUNKS}
    return {size: [search(question, 8) for question, _ in corpus.asked] for size, search in searches.items()}


def _recall(found: list[list[Document]], gold: list[Gold], k: int) -> float:
    rankings = (Ranking.of("q", documents, k) for documents in found)
    labels = (GoldMatch(ranking, [passage]).labels for ranking, passage in zip(rankings, gold, strict=True))
    return sum(map(sum, labels)) / len(gold)


@pytest.mark.parametrize(
    ("kind", "recalls"), [("sentence", (0.956, 0.984, 0.985)), ("paragraph", (0.904, 0.955, 0.977))]
)
def test_recall_is_comparable_over_the_chunkings(corpus, retrieved, kind, recalls):
    """Recall@5 of BM25 rises with the number of words in five chunks, and is the same by text."""
    gold = [asked.gold[kind] for asked in corpus.asked]
    texts = [_by_text(passage) for passage in gold]
    for size, recall in zip(CHUNKS, recalls, strict=True):
        bare = [[Document(document.text) for document in documents] for documents in retrieved[size]]
        assert _recall(retrieved[size], gold, 5) == pytest.approx(recall, abs=5e-4)
        assert _recall(bare, texts, 5) == pytest.approx(recall, abs=2e-3)


@pytest.mark.parametrize(
    ("kind", "recalls"), [("sentence", (0.969, 0.979, 0.969)), ("paragraph", (0.924, 0.952, 0.955))]
)
def test_recall_of_as_many_words_is_nearly_the_same(corpus, retrieved, kind, recalls):
    """Recall of the first 960 words is similar: eight chunks of 120, four of 240, two of 480.

    A paragraph has about 120 words; cut in two, both halves compete with other chunks.
    """
    gold = [asked.gold[kind] for asked in corpus.asked]
    found = [_recall(retrieved[size], gold, 960 // size) for size in CHUNKS]
    assert found == pytest.approx(recalls, abs=5e-4)
