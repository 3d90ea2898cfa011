"""Builds the entries with the details of every question of a test: its retrieved passages, and its evidence by score.

Reports that show only the questions that explain a verdict do not need these entries.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from pytest_rageval.core.data import Example, Gold, Ranking
from pytest_rageval.core.document import EvaluatedQuestion, ExampleEntry
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.gate.comparison import BaselineExample, Comparison
from pytest_rageval.lib.spool import Spool, spooled_list
from pytest_rageval.reports.questions import context_entry, expected_entry, restore_answer, steps_entry
from pytest_rageval.reports.retrieval import Retrieval
from pytest_rageval.scores.gold_matching import GoldMatch


def evaluated_questions(
    examples: Iterable[Example],
    retrievals: Mapping[str, Retrieval],
    *,
    match_share: float,
    spool: Spool,
) -> list[EvaluatedQuestion]:
    """Return an entry for each question: its text, right answers and gold passages, and its longest ranking."""
    return spooled_list(
        (_question(example, retrievals.get(example.id), match_share) for example in examples), spool
    )


def _question(example: Example, retrieval: Retrieval | None, match_share: float) -> EvaluatedQuestion:
    relevant = example.relevant
    retrieved_texts = set() if retrieval is None else {document.text for document in retrieval.ranking}
    optional = {
        "tags": dict(example.tags),
        **context_entry(example),
        "references": [list(aliases) for aliases in example.wanted],
        "reference": example.reference,
        "gold": [gold.label for gold in relevant],
        "gold_texts": {
            gold.label: gold.text for gold in relevant if gold.text and gold.text not in retrieved_texts
        },
    }
    question = {
        "id": example.id,
        "question": example.question,
        **{name: value for name, value in optional.items() if value},
        **({} if retrieval is None else _retrieval_keys(retrieval, relevant, match_share)),
    }
    return cast("EvaluatedQuestion", question)


def _retrieval_keys(retrieval: Retrieval, relevant: Sequence[Gold], match_share: float) -> dict[str, Any]:
    ranking = retrieval.ranking
    match = GoldMatch(ranking, relevant, match_share)
    ranks: dict[str, int | None] = {}
    for gold, rank in zip(relevant, match.ranks, strict=True):
        # Two gold passages may have the same label: the better rank counts.
        label_ranks = [known for known in (ranks.get(gold.label), rank) if known is not None]
        ranks[gold.label] = min(label_ranks, default=None)
    passages = [
        {"document": document.label, "text": document.text, **({"gold": True} if gold else {})}
        for document, gold in zip(ranking, match.positions, strict=True)
    ]
    optional = {
        "gold_ranks": ranks or None,
        "retrieved": passages,
        "steps": steps_entry(ranking) or None,
        "seconds": ranking.seconds,
        "context_tokens": retrieval.tokens,
    }
    return {name: value for name, value in optional.items() if value is not None}


def explained_examples(
    entries: Sequence[ExampleEntry],
    score: Score,
    comparison: Comparison | None,
    retrievals: Mapping[str, Retrieval],
    *,
    spool: Spool,
) -> list[ExampleEntry]:
    """Return the examples of a score's entry, each extended by its evidence and by its outcome in the baseline."""
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
                **_evidence_keys(outcomes.get(entry["id"]), retrievals.get(entry["id"])),
                **_baseline_keys(outcomes.get(entry["id"]), before.get(entry["id"]), drops.get(entry["id"])),
            },
        )
        for entry in entries
    )
    return spooled_list(explained, spool)


def _evidence_keys(outcome: Outcome | None, retrieval: Retrieval | None) -> dict[str, Any]:
    """Return the keys of an example with its evidence; `retrieved` only if it is no prefix of the longest ranking."""
    if outcome is None:
        return {}
    evidence = outcome.evidence
    ranking, answer = evidence.ranking, evidence.answer
    optional = {
        "retrieved": [] if ranking is None or _is_prefix(ranking, retrieval) else ranking.labels,
        "expected": expected_entry(evidence),
        "remark": evidence.remark,
        "alone": list(evidence.answers_alone),
    }
    return {
        **({} if ranking is None else {"k": len(ranking)}),
        **({} if answer is None else {"answer": answer}),
        **{name: value for name, value in optional.items() if value},
    }


def _baseline_keys(
    outcome: Outcome | None, baseline_example: BaselineExample | None, drop: float | None
) -> dict[str, Any]:
    """Return the keys of an example about the baseline; ranking and answer only if they have changed since."""
    if outcome is None or baseline_example is None:
        return {}
    ranking, answer = outcome.evidence.ranking, outcome.evidence.answer
    # If the drop is 0, the scores may still differ by a rounding error. Then the present score is reported for both.
    is_same = not drop and outcome.value is not None
    then = {
        "before_retrieved": baseline_example.get("ranking"),
        "before_answer": restore_answer(baseline_example.get("answer"), answer),
    }
    now = {"before_retrieved": None if ranking is None else ranking.labels, "before_answer": answer}
    return {
        "before": outcome.value if is_same else baseline_example["score"],
        **{name: value for name, value in then.items() if value is not None and value != now[name]},
    }


def _is_prefix(ranking: Ranking, retrieval: Retrieval | None) -> bool:
    if retrieval is None:
        return False
    longest = retrieval.ranking.documents[: len(ranking)]
    return ranking is retrieval.ranking or [document.identity for document in ranking] == [
        document.identity for document in longest
    ]


def common_items(mappings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the union of several mappings, without the keys that have different values in two of them."""
    values: dict[str, list[Any]] = {}
    for mapping in mappings:
        for name, value in mapping.items():
            values.setdefault(name, []).append(value)
    return {
        name: first for name, (first, *others) in values.items() if all(first == other for other in others)
    }
