"""Keyword search over the handbook with BM25."""

from __future__ import annotations

import re
from functools import lru_cache

from rank_bm25 import BM25Okapi

from support_bot.passages import Passage, read_handbook

COMMON_WORDS = (
    "a an and are as at be by can do does for from have how i if in is it me my of on"
    " or our that the to was we what when which who will with you your"
)
STOP_WORDS = frozenset(COMMON_WORDS.split())


def tokenize(text: str) -> list[str]:
    """Return the words to match on: lower-case, singular, without stop words."""
    words = re.findall(r"\w+", text.lower())
    return [singular(word) for word in words if word not in STOP_WORDS]


def singular(word: str) -> str:
    """Strip a plural ending, good enough for matching."""
    return re.sub(r"(?<=\w\w[^s])s$", "", word)


@lru_cache(maxsize=1)
def load_index() -> tuple[list[Passage], BM25Okapi]:
    """Build the index, on the first call only; a heading counts three times."""
    passages = read_handbook()
    documents = [tokenize(f"{p.heading} {p.heading} {p.text}") for p in passages]
    return passages, BM25Okapi(documents)


def search(query: str, k: int = 3) -> list[dict[str, str]]:
    """Return the ``k`` passages that best match ``query``, best first."""
    passages, index = load_index()
    scores = index.get_scores(tokenize(query))
    ranking = sorted(range(len(passages)), key=lambda i: scores[i], reverse=True)
    return [
        {"id": passages[i].id, "title": passages[i].heading, "text": passages[i].text} for i in ranking[:k]
    ]
