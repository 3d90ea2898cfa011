"""Builds the entries with the details of every question of a test: its retrieved passages, and its evidence by score.

Reports that show only the questions that explain a verdict do not need these entries. And the entry with the time,
tokens, calls and cost of a test's retrievals.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple, cast

from pytest_rageval.core.data import Example, Gold, Ranking
from pytest_rageval.core.document import EvaluatedQuestion, ExampleEntry, RetrievalEntry
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.gate.comparison import BaselineExample, Comparison
from pytest_rageval.lib.spool import Spool, spooled_list
from pytest_rageval.models.budget import count_tokens
from pytest_rageval.models.prompts import numbered_list
from pytest_rageval.reports.questions import context_entry, expected_entry, restore_answer, steps_entry
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.stats.intervals import Quantile


class Retrieval(NamedTuple):
    """A ranking with its number of tokens."""

    ranking: Ranking
    tokens: int | None  # estimated, of the documents in a prompt; None if one has no text


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
    if retrieval is None or ranking is retrieval.ranking:
        return retrieval is not None
    longest = retrieval.ranking.documents[: len(ranking)]
    return [document.identity for document in ranking] == [document.identity for document in longest]


def common_items(mappings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the union of several mappings, without the keys that have different values in two of them."""
    values: dict[str, list[Any]] = {}
    for mapping in mappings:
        for name, value in mapping.items():
            values.setdefault(name, []).append(value)
    return {
        name: first for name, (first, *others) in values.items() if all(first == other for other in others)
    }


def longest_retrievals(scores: Iterable[Score]) -> dict[str, Retrieval]:
    rankings: dict[str, Ranking] = {}
    for score in scores:
        for outcome in score.outcomes:
            ranking, best = outcome.evidence.ranking, rankings.get(outcome.example.id)
            # A score of latency repeats a retrieval whose time was not measured. Prefer the ranking with a time.
            if ranking is not None and (best is None or _preference(ranking) > _preference(best)):
                rankings[outcome.example.id] = ranking
    return {name: retrieval_from_ranking(ranking) for name, ranking in rankings.items()}


def _preference(ranking: Ranking) -> tuple[int, bool]:
    """Return a key by which longer rankings, then rankings with a time, are greater."""
    return ranking.k, ranking.seconds is not None


def retrieval_from_ranking(ranking: Ranking) -> Retrieval:
    if ranking.textless:
        return Retrieval(ranking, None)
    texts = [document.text for document in ranking]
    return Retrieval(ranking, count_tokens(numbered_list(texts)) if texts else 0)


def retrieval_entry(retrievals: Collection[Retrieval], retriever: str = "") -> RetrievalEntry | None:
    """Return the key `retrieval` of a test: latency, tokens, calls and cost at the largest cut-off.

    None is returned if there are no retrievals. Latencies are over the questions during whose retrieval no other
    retrieval ran; they are None if there is no such question. `retriever` is the class of the retriever, and by what it
    was recognised; empty for a function.
    """
    if not retrievals:
        return None
    k = max(retrieval.ranking.k for retrieval in retrievals)
    longest = [retrieval for retrieval in retrievals if retrieval.ranking.k == k]
    rankings = [retrieval.ranking for retrieval in longest]
    tokens = [retrieval.tokens for retrieval in longest if retrieval.tokens is not None]
    seconds = _known_values(rankings, lambda ranking: ranking.seconds)
    costs = _known_values(rankings, lambda ranking: ranking.cost)
    return {
        "k": k,
        "questions": len(rankings),
        "timed": len(seconds),
        "latency_p50": Quantile(0.5).compute(seconds) if seconds else None,
        "latency_p95": Quantile(0.95).compute(seconds) if seconds else None,
        "context_tokens": fmean(tokens) if tokens else None,
        "calls": fmean(ranking.calls for ranking in rankings),
        "cost": fmean(costs) if costs else None,
        **({"retriever": retriever} if retriever else {}),
    }


def _known_values(rankings: Iterable[Ranking], get: Callable[[Ranking], float | None]) -> list[float]:
    return [value for ranking in rankings if (value := get(ranking)) is not None]


def retrieval_lines(tests: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield lines for each test: "test_a.py::test: a retrieval takes 12 ms (p50), 34 ms (p95), 1 call, …"."""
    for test in tests:
        if entry := test.get("retrieval"):
            yield f"{test['nodeid']}: a retrieval takes {_costs_text(entry)}"
            if "retriever" in entry:
                yield f"{test['nodeid']}: the retriever is {entry['retriever']}"


def _costs_text(entry: Mapping[str, Any]) -> str:
    calls = entry["calls"]
    parts = [f"{calls:.3g} call{'' if calls == 1 else 's'}"]
    if entry["timed"]:
        over = (
            "" if entry["timed"] == entry["questions"] else f" over {entry['timed']} of {entry['questions']}"
        )
        p50, p95 = _duration_text(entry["latency_p50"]), _duration_text(entry["latency_p95"])
        parts.insert(0, f"{p50} (p50), {p95} (p95){over}")
    if entry["context_tokens"] is not None:
        parts.append(f"{entry['context_tokens']:.0f} tokens of context at {entry['k']}")
    if entry["cost"] is not None:
        parts.append(f"{entry['cost']:.2g} USD")
    return ", ".join(parts)


def _duration_text(seconds: float) -> str:
    """Return a duration in seconds, or in milliseconds if it is below one second, with at least two digits."""
    value, unit = (seconds, "s") if seconds >= 1 else (1000 * seconds, "ms")
    two_digits = f"{value:.2g}"
    return f"{value:.0f} {unit}" if "e+" in two_digits else f"{two_digits} {unit}"
