"""Reports the time, tokens, calls and cost of the retrievals of a test, from the rankings in its scores."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from statistics import fmean
from typing import Any, NamedTuple

from pytest_rageval.core.data import Ranking
from pytest_rageval.core.document import RetrievalEntry
from pytest_rageval.core.outcome import Score
from pytest_rageval.models.budget import count_tokens
from pytest_rageval.models.prompts import numbered_list
from pytest_rageval.stats.intervals import Quantile


class Retrieval(NamedTuple):
    """A ranking with its number of tokens."""

    ranking: Ranking
    tokens: int | None  # estimated, of the documents in a prompt; None if one has no text


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
