"""What was odd about the rankings of a score, counted: reports say it where there is something to say."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pytest_rageval.scores import Outcome

__all__ = ["oddities_entry", "oddities_text"]

WORDS: Final[Mapping[str, str]] = {
    "duplicates": "{n} duplicated document{s} counted once",
    "without_text": "{n} document{s} without text",
    "short": "{n} ranking{s} of fewer than k documents",
    "cut": "{n} ranking{s} of more than k documents, cut",
    "failed": "{n} question{s} at which the retriever failed",
    "failed_otherwise": "{n} question{s} at which the generator, the judge or an added part failed",
    "foreign_ids": "no id in {n} ranking{s} is that of any gold passage: are they ids of the same kind?",
}
"""How each is told, in this order."""

FEWEST: Final = 10
"""So many rankings without an id of the gold passages are no bad luck; of a slice of five they may be."""


def oddities_entry(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """The counts above 0, by name: of documents, of rankings, and of questions without a ranking."""
    outcomes = list(outcomes)
    counts: Counter[str] = Counter(foreign_ids=_foreign(outcomes))
    for outcome in outcomes:
        if outcome.failed is not None:
            counts["failed" if outcome.failed.part == "rageval_retriever" else "failed_otherwise"] += 1
        ranking = outcome.evidence.ranking
        if ranking is not None:
            counts["duplicates"] += ranking.duplicates
            counts["without_text"] += ranking.textless
            counts["short"] += ranking.missing > 0
            counts["cut"] += ranking.surplus > 0
    return {name: counts[name] for name in WORDS if counts[name]}


def _foreign(outcomes: Sequence[Outcome]) -> int:
    """How many rankings have ids, where these and the gold passages' have none in common.

    So they do where a framework makes up new ids in every run, and the gold names files, say: every
    score is 0, and stays it. Gold passages that are found by their span need no id.
    """
    gold = {gold.id for outcome in outcomes for gold in outcome.example.relevant if gold.span is None}
    rankings = [outcome.evidence.ranking or () for outcome in outcomes]
    ids = [{document.id for document in ranking} - {None} for ranking in rankings]
    with_ids = sum(map(bool, ids))
    return with_ids if with_ids >= FEWEST and gold - {None} and gold.isdisjoint(set().union(*ids)) else 0


def oddities_text(counts: Mapping[str, int]) -> str:
    """The counts in a line; empty where there are none.

    >>> oddities_text({"duplicates": 3, "cut": 1})
    '3 duplicated documents counted once, 1 ranking of more than k documents, cut'
    """
    return ", ".join(WORDS[name].format(n=n, s="" if n == 1 else "s") for name, n in counts.items())
