"""Builds the entries with the details of every question of a test: its retrieved passages, and its evidence by score.

Reports that show only the questions that explain a verdict do not need these entries. And the entry with the time,
tokens, calls and cost of a test's retrievals.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TypeVar, cast

from pytest_rageval.baseline.entries import BaselineExample
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.core.ranking import Ranking, texts_of
from pytest_rageval.gate.comparison import Comparison
from pytest_rageval.lib.spool import Spool, SpooledList, spooled_list
from pytest_rageval.models.budget import count_tokens
from pytest_rageval.models.prompts import numbered_list
from pytest_rageval.reports.document import EvaluatedQuestion, ExampleEntry, RetrievalEntry, TestEntry
from pytest_rageval.reports.questions import context_entry, expected_entry, restore_answer, steps_entry
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.stats.intervals import Quantile

T = TypeVar("T")


class Retrievals:
    """The longest ranking of each question of some scores, by id; and rankings of questions without a score."""

    def __init__(self, scores: Iterable[Score]) -> None:
        self.rankings: dict[str, Ranking] = {}
        self.unscored: Mapping[str, Ranking] = {}
        self._tokens: dict[str, int | None] = {}
        self._read: tuple[str | None, Ranking | None] = None, None
        for score in scores:
            for outcome in score.outcomes:
                ranking, best = outcome.evidence.ranking, self.rankings.get(outcome.example.id)
                # A score of latency repeats a retrieval whose time was not measured. Prefer the ranking with a time.
                if ranking is not None and (best is None or _preference(ranking) > _preference(best)):
                    self.rankings[outcome.example.id] = ranking

    @property
    def k(self) -> int:
        """The largest cut-off; 0 without a ranking."""
        return max((ranking.k for ranking in self.rankings.values()), default=0)

    def of(self, name: str) -> Ranking | None:
        """Return the ranking of a question. Its documents are in memory until another question is asked for."""
        if name != self._read[0]:
            self._read = name, _in_memory(self._ranking(name))
        return self._read[1]

    def _ranking(self, name: str) -> Ranking | None:
        return self.rankings[name] if name in self.rankings else self.unscored.get(name)

    def of_outcome(self, outcome: Outcome) -> Ranking | None:
        """Return the ranking of a score with its documents in memory; the same object as `of` if it is the longest."""
        ranking, name = outcome.evidence.ranking, outcome.example.id
        return self.of(name) if ranking is self.rankings.get(name) else _in_memory(ranking)

    def tokens(self, name: str) -> int | None:
        """Return the estimated tokens of a question's documents in a prompt; None if one of them has no text."""
        if name not in self._tokens:
            # Without the other details of a question, its documents are not created for their texts.
            ranking = self._ranking(name) if name != self._read[0] else self._read[1]
            texts = numbered_list(texts_of(ranking.documents)) if ranking else ""
            self._tokens[name] = None if ranking and ranking.textless else count_tokens(texts)
        return self._tokens[name]

    def entry(self, retriever: str = "") -> RetrievalEntry | None:
        """Return the key `retrieval` of a test: latency, tokens, calls and cost at the largest cut-off.

        None is returned if there are no retrievals. Latencies are over the questions during whose retrieval no other
        retrieval ran; they are None if there is no such question. `retriever` is the class of the retriever, and by
        what it was recognised; empty for a function.
        """
        if not self.rankings:
            return None
        k = self.k
        longest = {name: ranking for name, ranking in self.rankings.items() if ranking.k == k}
        rankings = list(longest.values())
        tokens = [count for name in longest if (count := self.tokens(name)) is not None]
        seconds = [ranking.seconds for ranking in rankings if ranking.seconds is not None]
        costs = [ranking.cost for ranking in rankings if ranking.cost is not None]
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


def _in_memory(ranking: Ranking | None) -> Ranking | None:
    return None if ranking is None else replace(ranking, documents=tuple(ranking.documents))


def _preference(ranking: Ranking) -> tuple[int, bool]:
    return ranking.k, ranking.seconds is not None


class ExplainedScore:
    """The examples of a score's entry, each extended by its evidence and by its outcome in the baseline."""

    def __init__(
        self,
        entries: Iterable[ExampleEntry],
        score: Score,
        comparison: Comparison | None,
        retrievals: Retrievals,
        spool: Spool,
    ) -> None:
        self._entries = iter(entries)
        self._next = next(self._entries, None)
        self._outcomes = {outcome.example.id: outcome for outcome in score.outcomes}
        self._before = {} if comparison is None else comparison.before.examples
        self._drops: dict[str, float | None] = {}
        if comparison is not None:
            self._drops = {
                **dict.fromkeys([each.example.id for each in comparison.lost]),
                **comparison.drops_by_id,
            }
        self._retrievals = retrievals
        self._spool = spool
        self._places = array("q")

    def add(self, name: str | None = None) -> None:
        """Store the next examples as long as they are of this question; None: all that are left."""
        while (entry := self._next) is not None and name in {None, entry["id"]}:
            id_ = entry["id"]
            if (outcome := self._outcomes.get(id_)) is not None:
                ranking = self._retrievals.of_outcome(outcome)
                added = _evidence_keys(outcome, ranking, self._retrievals.of(id_))
                if id_ in self._drops:
                    added |= _baseline_keys(outcome, ranking, self._before[id_], self._drops[id_])
                entry = cast("ExampleEntry", {**entry, **added})
            self._places.append(self._spool.put(entry))
            self._next = next(self._entries, None)

    @property
    def examples(self) -> list[ExampleEntry]:
        self.add()
        return SpooledList(self._spool, self._places)


def explained_questions(
    examples: Iterable[Example],
    scores: Sequence[ExplainedScore],
    retrievals: Retrievals,
    *,
    match_share: float,
    spool: Spool,
) -> list[EvaluatedQuestion]:
    """Return an entry for each question: its text, right answers and gold passages, and its longest ranking.

    The examples of the scores are stored too: question by question, so that its documents are read once.
    """

    def entries() -> Iterator[EvaluatedQuestion]:
        for example in examples:
            yield _question(example, retrievals, match_share)
            for score in scores:
                score.add(example.id)

    return spooled_list(entries(), spool)


def _question(example: Example, retrievals: Retrievals, match_share: float) -> EvaluatedQuestion:
    ranking, relevant = retrievals.of(example.id), example.relevant
    texts = {gold.label: gold.text for gold in relevant if gold.text}
    if texts and ranking is not None:
        retrieved = {document.text for document in ranking}
        texts = {label: text for label, text in texts.items() if text not in retrieved}
    optional = {
        "tags": dict(example.tags),
        **context_entry(example),
        "references": [list(aliases) for aliases in example.wanted],
        "reference": example.reference,
        "gold": [gold.label for gold in relevant],
        "gold_texts": texts,
    }
    question = {
        "id": example.id,
        "question": example.question,
        **{name: value for name, value in optional.items() if value},
    }
    if ranking is not None:
        tokens = retrievals.tokens(example.id)
        question |= _retrieval_keys(ranking, tokens, relevant, match_share)
    return cast("EvaluatedQuestion", question)


def _retrieval_keys(
    ranking: Ranking, tokens: int | None, relevant: Sequence[Gold], match_share: float
) -> dict[str, object]:
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
        "context_tokens": tokens,
    }
    return {name: value for name, value in optional.items() if value is not None}


def _evidence_keys(outcome: Outcome, ranking: Ranking | None, longest: Ranking | None) -> dict[str, object]:
    """Return the keys of an example with its evidence; `retrieved` only if it is no prefix of the longest ranking."""
    evidence = outcome.evidence
    answer = evidence.answer
    optional = {
        "retrieved": [] if ranking is None or _is_prefix(ranking, longest) else ranking.labels,
        "expected": expected_entry(evidence),
        "remark": evidence.remark,
        "alone": list(evidence.answers_alone),
    }
    return {
        **({} if ranking is None else {"k": len(ranking)}),
        **({} if answer is None else {"answer": answer}),
        **{name: value for name, value in optional.items() if value},
    }


def _is_prefix(ranking: Ranking, longest: Ranking | None) -> bool:
    if longest is None or ranking is longest:
        return longest is not None
    beginning = longest.documents[: len(ranking)]
    return [document.identity for document in ranking] == [document.identity for document in beginning]


def _baseline_keys(
    outcome: Outcome, ranking: Ranking | None, before: BaselineExample, drop: float | None
) -> dict[str, object]:
    """Return the keys of an example about the baseline; ranking and answer only if they have changed since."""
    answer = outcome.evidence.answer
    # If the drop is 0, the scores may still differ by a rounding error. Then the present score is reported for both.
    is_same = not drop and outcome.value is not None
    then = {
        "before_retrieved": before.get("ranking"),
        "before_answer": restore_answer(before.get("answer"), answer),
    }
    now = {"before_retrieved": None if ranking is None else ranking.labels, "before_answer": answer}
    return {
        "before": outcome.value if is_same else before["score"],
        **{name: value for name, value in then.items() if value is not None and value != now[name]},
    }


def common_items(mappings: Iterable[Mapping[str, T]]) -> dict[str, T]:
    """Return the union of several mappings, without the keys that have different values in two of them."""
    values: dict[str, list[T]] = {}
    for mapping in mappings:
        for name, value in mapping.items():
            values.setdefault(name, []).append(value)
    return {
        name: first for name, (first, *others) in values.items() if all(first == other for other in others)
    }


def retrieval_lines(tests: Iterable[TestEntry]) -> Iterator[str]:
    """Yield lines for each test: "test_a.py::test: a retrieval takes 12 ms (p50), 34 ms (p95), 1 call, …"."""
    for test in tests:
        if entry := test.get("retrieval"):
            yield f"{test['nodeid']}: a retrieval takes {_costs_text(entry)}"
            if "retriever" in entry:
                yield f"{test['nodeid']}: the retriever is {entry['retriever']}"


def _costs_text(entry: RetrievalEntry) -> str:
    calls = entry["calls"]
    parts = [f"{calls:.3g} call{'' if calls == 1 else 's'}"]
    p50, p95 = entry["latency_p50"], entry["latency_p95"]
    if p50 is not None and p95 is not None:
        over = (
            "" if entry["timed"] == entry["questions"] else f" over {entry['timed']} of {entry['questions']}"
        )
        parts.insert(0, f"{_duration_text(p50)} (p50), {_duration_text(p95)} (p95){over}")
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
