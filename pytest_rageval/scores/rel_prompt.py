"""Rel and Rel' of one question: the relevant passages and wanted answers, those in the prompt, and recall over both.

Source: Garigliotti (2024), "On the Relevant Set of Contexts for Evaluating Retrieval-Augmented Generation Systems".
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, count
from typing import Final, NamedTuple

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.citations import parse_citations
from pytest_rageval.answers.overlap import containment
from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import NoGroundTruth, Planned, Undefined, UnusableRanking
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.scores.contains import contains_answer
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.scores.pipeline import NO_GOLD, NO_REFERENCES, Pipeline, ResolvedScore
from pytest_rageval.scores.ranking import incomparable_reason
from pytest_rageval.scores.relevance import judge_finds_relevant


@dataclass(frozen=True, slots=True)
class Recall:
    """Recall over Rel, the relevant items of a query, and over Rel', those in the prompt; Out is what was returned.

    Items are passages (Out are the cited passages) or answers (Out are the listed answers). `relevant` is |Rel|,
    `available` |Rel'|, `found` |Out ∩ Rel|, and `found_available` |Out ∩ Rel'|. The losses of the retriever and of the
    generator are separated by `over_rel = coverage · over_rel_prime + beyond`: coverage is the retriever's share, and
    beyond is 0 as long as the generator uses only the prompt. A share is None if its divisor is 0.

    >>> recall = Recall(relevant=8, available=4, found=3, found_available=3)
    >>> recall.over_rel, recall.coverage, recall.over_rel_prime
    (0.375, 0.5, 0.75)
    """

    relevant: int
    available: int
    found: int
    found_available: int

    @property
    def over_rel(self) -> float | None:
        """`|Out ∩ Rel| / |Rel|`."""
        return _share(self.found, self.relevant)

    @property
    def over_rel_prime(self) -> float | None:
        """`|Out ∩ Rel'| / |Rel'|`."""
        return _share(self.found_available, self.available)

    @property
    def coverage(self) -> float | None:
        """`|Rel'| / |Rel|`, the retriever's share."""
        return _share(self.available, self.relevant)

    @property
    def beyond(self) -> float | None:
        """`|(Out ∩ Rel) - Rel'| / |Rel|`, found although not in the prompt."""
        return _share(self.found - self.found_available, self.relevant)


@dataclass(frozen=True, slots=True)
class RelPrime:
    """The result of one query.

    The precision is `|Out ∩ Rel| / |Out|` of the cited passages; None if no passage is cited. A hallucinated citation
    is in Out and not relevant. The precision over Rel' is the same: a cited passage that is relevant was in the prompt.
    """

    answers: Recall
    citations: Recall
    citation_precision: float | None
    parametric: int  # listed wanted answers that occur in no passage of the prompt: from the model's memory
    hallucinated: int  # citations that refer to no passage of the prompt


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


NO_RELEVANT = "no relevant passage was in the prompt"  # reason why recall over Rel' is undefined

POOL_DEPTH: Final = {"contains": 100, "judge": 20}
"""The default number of retrieved passages that are labelled for scores over Rel. The judge is called for each."""

OVER_REL: Final = frozenset({"rel.citation", "rel.coverage"})
"""The scores in which relevant passages beyond the prompt count."""


@dataclass(frozen=True, slots=True)
class RelPrompt:
    """The prompt of one example. Passages have names, and wanted answers positions."""

    ranking: Ranking  # the passages, in the order of the prompt
    relevant: frozenset[Hashable]  # empty if the relevant passages are not known
    unknown_reason: str | None  # why they are not; None if they are
    # For each passage, the names of the relevant ones that it is or is a part of, or else a name of its own.
    passage_names: tuple[tuple[Hashable, ...], ...]
    wanted: Sequence[Sequence[str]]
    available_answers: frozenset[int]  # in a relevant passage; if these are not known, in any passage
    answers_in_prompt: frozenset[int]  # in any passage
    counts: Mapping[str, int]  # of relevant passages that were found by an overlap, by its kind
    rel_is_known: bool  # whether `relevant` includes relevant passages beyond the prompt

    def check_has_relevant(self, resolved: ResolvedScore) -> None:
        if not self.relevant:
            raise Undefined(f"none of the first {_pool_depth(resolved)} retrieved passages is relevant")

    @property
    def available_passages(self) -> int:
        return len(self.relevant.intersection(chain.from_iterable(self.passage_names)))

    @property
    def no_answer_reason(self) -> str:
        if self.unknown_reason is not None:
            return "no wanted answer occurs in a passage of the prompt"
        if not self.available_passages:
            return NO_RELEVANT
        return "no wanted answer occurs in a relevant passage of the prompt"

    def compare(self, answer: str, listed: frozenset[int]) -> RelPrime:
        """Compare an answer with the prompt; `listed` are the positions of the wanted answers that it lists."""
        citations = parse_citations(answer, len(self.passage_names))
        cited = set(chain.from_iterable(self.passage_names[place - 1] for place in citations.positions))
        hallucinated = len(citations.hallucinated)
        # An abstention such as "The passages [1] and [2] do not say" mentions passages, but does not cite them.
        if not listed and abstains(answer):
            cited, hallucinated = set(), 0
        # A cited passage that is relevant was in the prompt.
        found, listed_available = len(cited & self.relevant), len(listed & self.available_answers)
        return RelPrime(
            Recall(len(self.wanted), len(self.available_answers), len(listed), listed_available),
            Recall(len(self.relevant), self.available_passages, found, found),
            citation_precision=_share(found, len(cited) + hallucinated),
            parametric=len(listed - self.answers_in_prompt),
            hallucinated=hallucinated,
        )


class _Relevant(NamedTuple):
    """The names of the relevant passages, and for each passage of the prompt, those that it is or is a part of."""

    names: frozenset[Hashable]
    in_prompt: Sequence[tuple[Hashable, ...]]
    unknown_reason: str | None = None
    counts: Mapping[str, int] = {}
    rel_is_known: bool = True


async def rel_prompt(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> RelPrompt:
    ranking = await pipeline.prompt_ranking(example, resolved.k, resolved.order)
    if resolved.relevance.by == "gold":
        relevant = _relevant_by_gold(pipeline, example.with_lowest_grade(resolved.relevance.grade), ranking)
    else:
        relevant = await _relevant_by_labels(pipeline, example, resolved, ranking)
    texts = [passage.text for passage in ranking]
    pairs = list(zip(ranking, relevant.in_prompt, strict=True))
    relevant_texts = [passage.text for passage, names in pairs if names or relevant.unknown_reason]
    return RelPrompt(
        ranking,
        relevant.names,
        relevant.unknown_reason,
        tuple(names or (passage.identity,) for passage, names in pairs),
        example.wanted,
        _occurring_answers(example.wanted, relevant_texts),
        _occurring_answers(example.wanted, texts),
        relevant.counts,
        relevant.rel_is_known,
    )


def _relevant_by_gold(pipeline: Pipeline, example: Example, ranking: Ranking) -> _Relevant:
    match = GoldMatch(ranking, example.relevant, pipeline.match_share)
    unknown_reason = incomparable_reason(match) if example.relevant else NO_GOLD
    if unknown_reason is not None:
        return _Relevant(frozenset(), [()] * len(ranking), unknown_reason)
    return _Relevant(frozenset(range(len(example.relevant))), match.positions, counts=match.counts)


async def _relevant_by_labels(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore, ranking: Ranking
) -> _Relevant:
    """Label the passages of the prompt and, for a score over Rel, the passages of the pool."""
    passages = {passage.identity: passage for passage in ranking}
    rel_is_known = resolved.spec.measure in OVER_REL
    if rel_is_known:
        pool = await pipeline.ranking_with_texts(example, _pool_depth(resolved))
        passages = {passage.identity: passage for passage in pool} | passages

    async def is_relevant(passage: Document) -> bool:
        if resolved.relevance.by == "contains":
            return contains_answer(example, passage)
        try:
            return await judge_finds_relevant(pipeline, example, passage)
        except Planned:
            # A plan has no verdicts yet. It counts all requests that may follow if the passage is relevant.
            return True

    labels = await gather_all(map(is_relevant, passages.values()))
    names = frozenset(compress(passages, labels))
    in_prompt = [(passage.identity,) if passage.identity in names else () for passage in ranking]
    return _Relevant(names, in_prompt, rel_is_known=rel_is_known)


def _pool_depth(resolved: ResolvedScore) -> int:
    relevance = resolved.relevance
    return max(resolved.k, relevance.depth or POOL_DEPTH[relevance.by])


async def prompt_with_relevant(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> RelPrompt:
    """Return the prompt of an example; raise Unscored if the relevant passages are not known."""
    # Checked before the first request, so that an example that cannot be scored costs nothing.
    if resolved.relevance.by == "gold" and not example.with_lowest_grade(resolved.relevance.grade).relevant:
        raise NoGroundTruth(NO_GOLD)
    if resolved.relevance.by == "contains" and not example.wanted:
        raise NoGroundTruth(NO_REFERENCES)
    prompt = await rel_prompt(pipeline, example, resolved)
    if prompt.unknown_reason is not None:
        raise UnusableRanking(prompt.unknown_reason)
    return prompt


def _occurring_answers(wanted: Sequence[Sequence[str]], texts: Sequence[str]) -> frozenset[int]:
    occurs = (any(containment(text, aliases) for text in texts) for aliases in wanted)
    return frozenset(compress(count(), occurs))
