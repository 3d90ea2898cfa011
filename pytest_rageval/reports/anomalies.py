"""Counts anomalies of rankings, such as duplicates or missing ids, and describes the counts as text.

The counts are the key `oddities` of a score's entry in the report.
"""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import TYPE_CHECKING, Final

from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.lib.foreign_values import id_key

if TYPE_CHECKING:
    from pytest_rageval.core.ranking import Ranking

ANOMALY_TEXTS: Final[Mapping[str, str]] = {
    "duplicates": "{n} duplicated document{s} counted once",
    "without_text": "{n} document{s} without text",
    "short": "{n} ranking{s} of fewer than k documents",
    "cut": "{n} ranking{s} of more than k documents, cut",
    "own_k_kept": "{n} ranking{s} cut at @k: the retriever's own k is larger, and was kept",
    "own_k_raised": "{n} ranking{s} asked for @k: the retriever's own k is smaller, and was replaced",
    "without_k": "{n} ranking{s} of a call without k: as many documents as the retriever returns when it ships",
    "without_history": "{n} question{s} retrieved without their history: the retriever does not take one",
    "failed": "{n} question{s} at which the retriever failed",
    "failed_otherwise": "{n} question{s} at which the generator, the judge or an added part failed",
    "ids_as_texts": "{n} ranking{s} of texts that are ids of gold passages: a string is a text; return "
    'documents such as {{"id": "doc-4", "text": "..."}}',
    "foreign_ids": "no id in {n} ranking{s} is that of any gold passage: are they ids of the same kind?",
}
"""The text for each count, by the name of the count. Reports have the counts in this order."""

MIN_RANKINGS: Final = 10  # in fewer rankings of a slice, a lack of gold ids may be chance
MAX_COMPARED: Final = 20  # rankings that are searched for an id that resembles one of a gold passage


def anomalies_entry(outcomes: Sequence[Outcome], *, of_slice: bool = False) -> dict[str, int]:
    """Return the counts above 0 by name: counts of documents, of rankings, and of questions without a ranking."""
    failed = [outcome.failed.cause for outcome in outcomes if outcome.failed is not None]
    failed_retrievals = failed.count("retriever")
    rankings = rankings_of(outcomes)
    own_k_surplus = [
        ranking.own_k - ranking.k
        for ranking in rankings
        if ranking.own_k is not None and not ranking.without_k
    ]
    counts = {
        "duplicates": sum([ranking.duplicates for ranking in rankings]),
        "without_text": sum([ranking.textless for ranking in rankings]),
        "short": sum([ranking.missing > 0 for ranking in rankings]),
        "cut": sum(
            [
                ranking.surplus > 0 and (ranking.own_k or 0) <= ranking.k and not ranking.without_k
                for ranking in rankings
            ]
        ),
        "own_k_kept": sum(surplus > 0 for surplus in own_k_surplus),
        "own_k_raised": sum(surplus < 0 for surplus in own_k_surplus),
        "without_k": sum([ranking.without_k for ranking in rankings]),
        "without_history": sum([ranking.without_history for ranking in rankings]),
        "failed": failed_retrievals,
        "failed_otherwise": len(failed) - failed_retrievals,
        "ids_as_texts": _count_ids_as_texts(outcomes),
        "foreign_ids": _count_foreign_ids(outcomes, MIN_RANKINGS if of_slice else 1),
    }
    return {name: counts[name] for name in ANOMALY_TEXTS if counts[name]}


def rankings_of(outcomes: Sequence[Outcome]) -> "list[Ranking]":
    return [ranking for outcome in outcomes if (ranking := outcome.evidence.ranking) is not None]


def _count_foreign_ids(outcomes: Sequence[Outcome], least: int) -> int:
    """Return the number of rankings with ids if none of the ids is the id of a gold passage, else 0.

    This happens, for example, if a framework creates new ids in every run. Then every score is 0. Gold passages that
    are matched by their span need no id. A count below `least` is 0.
    """
    for outcome in outcomes:
        ranking = outcome.evidence.ranking
        if ranking is not None and not outcome.example.gold_id_keys.isdisjoint(ranking.id_keys):
            # In general the first ranking has a gold id. Then the other rankings and gold passages need not be read.
            return 0
    gold = {name for outcome in outcomes for name in outcome.example.gold_id_keys}
    with_ids = 0
    for ranking in rankings_of(outcomes) if gold else ():
        ids = ranking.id_keys
        if not gold.isdisjoint(ids):
            return 0
        with_ids += bool(ids)
    return with_ids if with_ids >= least else 0


def _count_ids_as_texts(outcomes: Sequence[Outcome]) -> int:
    """Return the number of rankings in which the text of a document is the id of a gold passage.

    Such a retriever returns ids as strings, and a string is a text. The number is 0 if any document has an id.
    """
    count = 0
    gold: set[str] = set()
    for ranking in rankings_of(outcomes):
        if any(name is not None for name in ranking.ids):
            # In general the first ranking has ids. Then the other rankings need not be read.
            return 0
        gold = gold or {
            id_key(gold.id)
            for outcome in outcomes
            for gold in outcome.example.relevant
            if gold.id is not None
        }
        count += any(id_key(document.text) in gold for document in ranking)
    return count


def all_zero_reason(counts: Mapping[str, int]) -> str:
    """Return the anomaly that explains why every question scores 0; empty if the counts do not explain it."""
    return anomalies_text({name: counts[name] for name in ("ids_as_texts", "foreign_ids") if name in counts})


def all_zero_hint(score: Score) -> str:
    """Return the reason why every question scores 0, with a gold id and a retrieved id; may be empty."""
    reason = all_zero_reason(anomalies_entry(score.outcomes, of_slice=bool(score.slice)))
    pair = _most_similar_ids(score.outcomes) if reason else None
    return reason if pair is None else f"{reason} Gold {pair[0]!r:.80}, retrieved {pair[1]!r:.80}"


def _most_similar_ids(outcomes: Sequence[Outcome]) -> tuple[str, str] | None:
    pairs = (
        (gold.id, name)
        for outcome in islice(outcomes, MAX_COMPARED)
        if outcome.evidence.ranking is not None
        for gold in outcome.example.relevant
        for name in outcome.evidence.ranking.ids
        if gold.id is not None and name is not None
    )
    return max(pairs, key=lambda pair: SequenceMatcher(None, *pair).ratio(), default=None)


def anomalies_text(counts: Mapping[str, int]) -> str:
    """Return the counts as a line of text.

    >>> anomalies_text({"duplicates": 3, "cut": 1})
    '3 duplicated documents counted once, 1 ranking of more than k documents, cut'
    """
    return ", ".join(ANOMALY_TEXTS[name].format(n=n, s="" if n == 1 else "s") for name, n in counts.items())
