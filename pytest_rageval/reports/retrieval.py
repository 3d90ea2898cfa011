"""The time, tokens, calls and cost of a test's retrievals, collected while its scores are computed."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from statistics import fmean
from typing import Any, NamedTuple

from pytest_rageval.datatypes import Ranking
from pytest_rageval.llm.budget import count_tokens
from pytest_rageval.prompts.templates import numbered_list
from pytest_rageval.reports.document import RetrievalEntry
from pytest_rageval.scores import Score
from pytest_rageval.stats.intervals import Quantile

__all__ = ["Retrieved", "retrieval_entry", "retrieval_lines", "retrieved", "with_tokens"]


class Retrieved(NamedTuple):
    """A ranking, and the estimated tokens of its documents in a prompt; None where one of them has no text."""

    ranking: Ranking
    tokens: int | None


def retrieved(scores: Iterable[Score]) -> dict[str, Retrieved]:
    """Return the ranking of each example of these scores by the example's id, at the largest cut-off."""
    found: dict[str, Ranking] = {}
    for score in scores:
        for outcome in score.outcomes:
            ranking, known = outcome.evidence.ranking, found.get(outcome.example.id)
            # A score of latency asks again where the first call has no time; the other scores do not.
            if ranking is not None and (known is None or _worth(ranking) > _worth(known)):
                found[outcome.example.id] = ranking
    return {name: with_tokens(ranking) for name, ranking in found.items()}


def _worth(ranking: Ranking) -> tuple[int, bool]:
    return ranking.k, ranking.seconds is not None


def with_tokens(ranking: Ranking) -> Retrieved:
    """The ranking, with its tokens counted."""
    if ranking.textless:
        return Retrieved(ranking, None)
    texts = [document.text for document in ranking]
    return Retrieved(ranking, count_tokens(numbered_list(texts)) if texts else 0)


def retrieval_entry(found: Collection[Retrieved]) -> RetrievalEntry | None:
    """The costs of the rankings of the largest cut-off; None where there are no rankings.

    Times are of the questions at which no other retrieval ran meanwhile; None without any.
    """
    if not found:
        return None
    k = max(each.ranking.k for each in found)
    longest = [each for each in found if each.ranking.k == k]
    rankings = [each.ranking for each in longest]
    tokens = [each.tokens for each in longest if each.tokens is not None]
    seconds = _known(rankings, lambda ranking: ranking.seconds)
    costs = _known(rankings, lambda ranking: ranking.cost)
    return {
        "k": k,
        "questions": len(rankings),
        "timed": len(seconds),
        "latency_p50": Quantile(0.5).compute(seconds) if seconds else None,
        "latency_p95": Quantile(0.95).compute(seconds) if seconds else None,
        "context_tokens": fmean(tokens) if tokens else None,
        "calls": fmean(ranking.calls for ranking in rankings),
        "cost": fmean(costs) if costs else None,
    }


def _known(rankings: Iterable[Ranking], value: Callable[[Ranking], float | None]) -> list[float]:
    return [found for ranking in rankings if (found := value(ranking)) is not None]


def retrieval_lines(tests: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each test: "test_a.py::test: a retrieval takes 0.012 s (p50), 0.034 s (p95), 1 call, …"."""
    for test in tests:
        if entry := test.get("retrieval"):
            yield f"{test['nodeid']}: a retrieval takes {_text(entry)}"


def _text(entry: Mapping[str, Any]) -> str:
    calls = entry["calls"]
    parts = [f"{calls:.3g} call{'' if calls == 1 else 's'}"]
    if entry["timed"]:
        of = "" if entry["timed"] == entry["questions"] else f" over {entry['timed']} of {entry['questions']}"
        parts.insert(0, f"{entry['latency_p50']:.2g} s (p50), {entry['latency_p95']:.2g} s (p95){of}")
    if entry["context_tokens"] is not None:
        parts.append(f"{entry['context_tokens']:.0f} tokens of context at {entry['k']}")
    if entry["cost"] is not None:
        parts.append(f"{entry['cost']:.2g} USD")
    return ", ".join(parts)
