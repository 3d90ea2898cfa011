"""The details of every question of a test: its retrieved passages, and the evidence of each of its scores.

Reports that show only the questions that explain a verdict do not need it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from pytest_rageval.datatypes import Example, Gold, Ranking
from pytest_rageval.gate.comparison import BaselineExample, Comparison
from pytest_rageval.measures.gold_matching import GoldMatch
from pytest_rageval.reports.document import EvaluatedQuestion, ExampleEntry
from pytest_rageval.reports.questions import answer_before, context_entry, expected_entry, steps_entry
from pytest_rageval.reports.retrieval import Retrieved
from pytest_rageval.scores import Outcome, Score
from pytest_rageval.spool import Spool, spooled_list

__all__ = ["common_items", "evaluated_questions", "explained_examples"]


def evaluated_questions(
    examples: Iterable[Example],
    found: Mapping[str, Retrieved],
    *,
    match_share: float,
    spool: Spool | None = None,
) -> list[EvaluatedQuestion]:
    """The questions that were evaluated, each with its right answers and what was retrieved at the largest cut-off.

    Args:
        examples: that were evaluated.
        found: what was retrieved, by example id; an example on which the retriever failed has nothing.
        match_share: the share of a gold passage that must be retrieved for it to count as found.
        spool: for the questions; None to have them in memory.
    """
    return spooled_list((_question(each, found.get(each.id), match_share) for each in examples), spool)


def _question(example: Example, found: Retrieved | None, match_share: float) -> EvaluatedQuestion:
    relevant = example.relevant
    shown = set() if found is None else {document.text for document in found.ranking}
    optional = {
        "tags": dict(example.tags),
        **context_entry(example),
        "references": [list(aliases) for aliases in example.wanted],
        "reference": example.reference,
        "gold": [gold.label for gold in relevant],
        "gold_texts": {gold.label: gold.text for gold in relevant if gold.text and gold.text not in shown},
    }
    question = {
        "id": example.id,
        "question": example.question,
        **{name: value for name, value in optional.items() if value},
        **({} if found is None else _retrieved(found, relevant, match_share)),
    }
    return cast("EvaluatedQuestion", question)


def _retrieved(found: Retrieved, relevant: Sequence[Gold], match_share: float) -> dict[str, Any]:
    """The passages that were retrieved, the ranks of the gold ones, and what the retrieval took."""
    ranking = found.ranking
    match = GoldMatch(ranking, relevant, match_share)
    ranks: dict[str, int | None] = {}
    for gold, rank in zip(relevant, match.ranks, strict=True):
        # Two gold passages may have one label: the better rank counts.
        known = [each for each in (ranks.get(gold.label), rank) if each is not None]
        ranks[gold.label] = min(known, default=None)
    passages = [
        {"document": document.label, "text": document.text, **({"gold": True} if gold else {})}
        for document, gold in zip(ranking, match.positions, strict=True)
    ]
    optional = {
        "gold_ranks": ranks or None,
        "retrieved": passages,
        "steps": steps_entry(ranking) or None,
        "seconds": ranking.seconds,
        "context_tokens": found.tokens,
    }
    return {name: value for name, value in optional.items() if value is not None}


def explained_examples(
    entries: Sequence[ExampleEntry],
    score: Score,
    comparison: Comparison | None,
    found: Mapping[str, Retrieved],
    *,
    spool: Spool | None = None,
) -> list[ExampleEntry]:
    """The examples of a score's entry, each with the evidence behind it, and its score in the baseline.

    Args:
        entries: the examples of the entry.
        score: with their outcomes.
        comparison: with the baseline, or None.
        found: what was retrieved at the largest cut-off, by example id.
        spool: for the examples; None to have them in memory.
    """
    outcomes = {outcome.example.id: outcome for outcome in score.outcomes}
    drops = {} if comparison is None else comparison.drops_by_id
    before: dict[str, BaselineExample] = {}
    if comparison is not None:
        lost = (outcome.example.id for outcome in comparison.lost)
        before = {name: comparison.before.examples[name] for name in (*drops, *lost)}
    explained = (
        cast(
            "ExampleEntry",
            {
                **entry,
                **_evidence(outcomes.get(entry["id"]), found.get(entry["id"])),
                **_before(outcomes.get(entry["id"]), before.get(entry["id"]), drops.get(entry["id"])),
            },
        )
        for entry in entries
    )
    return spooled_list(explained, spool)


def _evidence(outcome: Outcome | None, found: Retrieved | None) -> dict[str, Any]:
    if outcome is None:
        return {}
    evidence = outcome.evidence
    ranking, answer = evidence.ranking, evidence.answer
    optional = {
        "retrieved": [] if ranking is None or _is_beginning(ranking, found) else ranking.labels,
        "expected": expected_entry(evidence),
        "remark": evidence.remark,
        "alone": list(evidence.answers_alone),
    }
    return {
        **({} if ranking is None else {"k": len(ranking)}),
        **({} if answer is None else {"answer": answer}),
        **{name: value for name, value in optional.items() if value},
    }


def _before(outcome: Outcome | None, kept: BaselineExample | None, drop: float | None) -> dict[str, Any]:
    """The example in the baseline; ranking and answer only where they are others now."""
    if outcome is None or kept is None:
        return {}
    ranking, answer = outcome.evidence.ranking, outcome.evidence.answer
    # A drop of 0 may be a difference of rounding.
    is_same = not drop and outcome.value is not None
    then = {
        "before_retrieved": kept.get("ranking"),
        "before_answer": answer_before(kept.get("answer"), answer),
    }
    now = {"before_retrieved": None if ranking is None else ranking.labels, "before_answer": answer}
    return {
        "before": outcome.value if is_same else kept["score"],
        **{name: value for name, value in then.items() if value is not None and value != now[name]},
    }


def _is_beginning(ranking: Ranking, found: Retrieved | None) -> bool:
    """Return True if a ranking is a prefix of the longest one."""
    if found is None:
        return False
    longest = found.ranking.documents[: len(ranking)]
    return ranking is found.ranking or [each.identity for each in ranking] == [
        each.identity for each in longest
    ]


def common_items(each: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The items of dicts, without those whose value differs between two of them."""
    values: dict[str, list[Any]] = {}
    for items in each:
        for name, value in items.items():
            values.setdefault(name, []).append(value)
    return {
        name: first for name, (first, *others) in values.items() if all(first == other for other in others)
    }
