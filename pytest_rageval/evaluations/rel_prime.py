"""Rel'-recall: how much of what its prompt held did the generator give, in answers and in citations?

`rel_recall.*` are over Rel', what was relevant and in the prompt; `rel.*` over
Rel, all that is known to be relevant. The prompt holds the first k retrieved
passages, by rank or in random order, and asks for all answers with citations.

Source: Garigliotti (2024), "On the Relevant Set of Contexts for Evaluating
Retrieval-Augmented Generation Systems"; see `pytest_rageval.measures.rel_prime`.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Any, Final, cast

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.citations import cited, listed
from pytest_rageval.answers.text import containment
from pytest_rageval.errors import NoGroundTruth, Undefined, UnusableRanking
from pytest_rageval.evaluations.context import NO_GOLD, NO_REFERENCES, Pipeline, Terms
from pytest_rageval.evaluations.ranking import not_comparable
from pytest_rageval.evaluations.score_def import ScoreDef
from pytest_rageval.evaluations.scoring import score_each
from pytest_rageval.measures.gold_matching import GoldMatch
from pytest_rageval.measures.rel_prime import Recall, RelPrime, rel_prime
from pytest_rageval.model import Example, Ranking
from pytest_rageval.scores import Evidence, Outcome, Score

__all__ = ["SCORES", "pooled_notes"]

NO_RELEVANT = "no relevant passage was in the prompt"
NOT_SHOWN = "no wanted answer occurs in a relevant passage of the prompt"
NOT_SHOWN_AT_ALL = "no wanted answer occurs in a passage of the prompt"
NOTHING_CITED = "nothing was cited"


async def evaluate_answer_recall(run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
    """Score the share of the wanted answers that the output lists; `rel_recall`: of those it was shown.

    Wanted are the answers of the example's `answer_set`, or its `answers` as one
    answer. It was shown those that occur in a relevant passage of the prompt, or
    in any passage of it where gold passages are not known.

    Unscored: an example without these. `rel_recall` is undefined for one whose
    prompt showed none of them: then the generator is not asked.
    """

    async def score(example: Example) -> tuple[float, Evidence]:
        if not example.wanted:
            raise NoGroundTruth(NO_REFERENCES)
        prompt = await _prompt(run, example, terms)
        if terms.spec.name == "rel_recall" and not prompt.shown:
            raise Undefined(prompt.why_not_shown)
        answer = await run.cited_answer(example.question, terms.k, terms.order)
        found = prompt.held_against(answer)
        counts = {
            "parametric_answers": found.parametric,
            "hallucinated_citations": found.hallucinated,
            **prompt.counts,
        }
        expected = tuple(aliases[0] for aliases in example.wanted)
        evidence = Evidence(prompt.ranking, answer, expected, "wanted", counts=counts)
        return _recall(found.answers, terms), evidence

    return await score_each(examples, score)


async def evaluate_citation_recall(run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
    """Score the share of the relevant passages that the output cites; `rel_recall`: of those in the prompt.

    Unscored: an example without gold passages. `rel_recall` is undefined for one
    whose prompt had none of them: then the generator is not asked.
    """

    async def score(example: Example) -> tuple[float, Evidence] | Outcome:
        prompt = await _prompt_with_gold(run, example, terms)
        if terms.spec.name == "rel_recall" and not prompt.available:
            # What was not shown cannot be cited: the factorisation is of all examples.
            nothing = Evidence(prompt.ranking, sizes=_sizes(Recall(len(prompt.relevant), 0, 0, 0)))
            return Outcome(example, None, undefined=NO_RELEVANT, evidence=nothing)
        found, evidence = await _cited(run, example, terms, prompt)
        return _recall(found.citations, terms), replace(evidence, sizes=_sizes(found.citations))

    return await score_each(examples, score)


async def evaluate_citation_precision(
    run: Pipeline, examples: Sequence[Example], terms: Terms
) -> list[Outcome]:
    """Score the share of the cited passages that are relevant; it is the same over Rel and Rel'.

    A citation of no passage of the prompt is one of a passage that is not relevant.

    Unscored: an example without gold passages. Undefined where nothing was cited.
    """

    async def score(example: Example) -> tuple[float, Evidence]:
        prompt = await _prompt_with_gold(run, example, terms)
        found, evidence = await _cited(run, example, terms, prompt)
        if found.citation_precision is None:
            raise Undefined(NOTHING_CITED)
        return found.citation_precision, evidence

    return await score_each(examples, score)


async def evaluate_coverage(run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
    """Score the share of the relevant passages that are in the prompt, |Rel'| / |Rel|: the retriever's.

    It is that of passages, not of answers, and no generator is asked. As long as
    nothing beyond the prompt is cited, `rel.citation` of an example is its
    coverage times its `rel_recall.citation`.

    Unscored: an example without gold passages.
    """

    async def score(example: Example) -> tuple[float, Evidence]:
        prompt = await _prompt_with_gold(run, example, terms)
        return prompt.available / len(prompt.relevant), Evidence(prompt.ranking, counts=prompt.counts)

    return await score_each(examples, score)


@dataclass(frozen=True, slots=True)
class _Prompt:
    """One example, and what of it the prompt shows.

    Attributes:
        ranking: the passages, in the order of the prompt.
        relevant: names of the relevant passages; none where they are not known.
        unknown: why they are not known; None where they are.
        names: of each passage of the prompt: those of the relevant ones that it is or is a part of, or its own.
        wanted: the answers that are right, each as its aliases.
        shown: positions of those in a relevant passage of the prompt, or in any where none are known.
        seen: positions of those in any passage of the prompt.
        counts: relevant passages by what they were found by, where that was an overlap.
    """

    ranking: Ranking
    relevant: frozenset[Hashable]
    unknown: str | None
    names: tuple[tuple[Hashable, ...], ...]
    wanted: Sequence[Sequence[str]]
    shown: frozenset[int]
    seen: frozenset[int]
    counts: Mapping[str, int]

    @property
    def available(self) -> int:
        """How many relevant passages are in the prompt."""
        return len(self.relevant.intersection(chain.from_iterable(self.names)))

    @property
    def why_not_shown(self) -> str:
        """Why no wanted answer was there to be found."""
        if not self.relevant:
            return NOT_SHOWN_AT_ALL
        return NOT_SHOWN if self.available else NO_RELEVANT

    def held_against(self, answer: str) -> RelPrime:
        """What the generator gave, compared with what it was shown."""
        given = listed(answer, self.wanted).found
        citations = cited(answer, len(self.names))
        # A passage with several names stands for as many, one after the other.
        last = list(accumulate(map(len, self.names), initial=0))
        supports = [
            at for position in citations.positions for at in range(last[position - 1] + 1, last[position] + 1)
        ]
        others = [
            position if position < 1 else position - len(self.names) + last[-1]
            for position in citations.hallucinated
        ]
        # "The passages [1] and [2] do not say": names what it read, and supports nothing by it.
        nothing = not given and abstains(answer)
        return rel_prime(
            relevant=self.relevant,
            prompt=list(chain.from_iterable(self.names)),
            cited=() if nothing else supports + others,
            wanted=range(len(self.wanted)),
            shown=self.shown,
            listed=given,
            seen=self.seen,
        )


async def _prompt(run: Pipeline, example: Example, terms: Terms) -> _Prompt:
    ranking = await run.shown(example.question, terms.k, terms.order)
    match = GoldMatch(ranking, example.relevant, run.match_share)
    unknown = not_comparable(match) if example.relevant else NO_GOLD
    held = [()] * len(ranking) if unknown else match.positions
    wanted = example.wanted
    readable = [
        passage.text for passage, gold in zip(ranking, held, strict=True) if gold or unknown is not None
    ]
    return _Prompt(
        ranking,
        frozenset()
        if unknown
        else frozenset(("gold", position) for position in range(len(example.relevant))),
        unknown,
        tuple(
            tuple(("gold", position) for position in gold) or (("other", passage.identity),)
            for passage, gold in zip(ranking, held, strict=True)
        ),
        wanted,
        _occurring(wanted, readable),
        _occurring(wanted, [passage.text for passage in ranking]),
        {} if unknown else match.counts,
    )


async def _prompt_with_gold(run: Pipeline, example: Example, terms: Terms) -> _Prompt:
    """The prompt of an example whose relevant passages are known.

    Raises:
        NoGroundTruth: they are not.
        UnusableRanking: the ranking cannot be held against them.
    """
    if not example.relevant:
        # Looked at before anything is asked.
        raise NoGroundTruth(NO_GOLD)
    prompt = await _prompt(run, example, terms)
    if prompt.unknown is not None:
        raise UnusableRanking(prompt.unknown)
    return prompt


def _occurring(wanted: Sequence[Sequence[str]], texts: Sequence[str]) -> frozenset[int]:
    return frozenset(
        position
        for position, aliases in enumerate(wanted)
        if any(containment(text, aliases) for text in texts)
    )


async def _cited(run: Pipeline, example: Example, terms: Terms, prompt: _Prompt) -> tuple[RelPrime, Evidence]:
    answer = await run.cited_answer(example.question, terms.k, terms.order)
    found = prompt.held_against(answer)
    return found, Evidence(
        prompt.ranking, answer, counts={"hallucinated_citations": found.hallucinated, **prompt.counts}
    )


def _sizes(citations: Recall) -> dict[str, int]:
    """Of the relevant passages, those shown, and those cited; no other relevant ones can be cited."""
    return {"relevant": citations.relevant, "shown": citations.available, "found": citations.found_available}


def _recall(recall: Recall, terms: Terms) -> float:
    """Over Rel' or Rel, by the score's family; that it is defined has been looked at."""
    return cast("float", recall.over_rel_prime if terms.spec.name == "rel_recall" else recall.over_rel)


def pooled_notes(score: Score | None) -> dict[str, Any]:
    """The sizes of the sets, summed, and the shares, None where undefined, as the report's key `pooled`."""
    sizes: Counter[str] = Counter()
    for outcome in score.outcomes if score is not None else ():
        sizes.update(outcome.evidence.sizes)
    if not sizes:
        return {}
    recall = Recall(sizes["relevant"], sizes["shown"], sizes["found"], sizes["found"])
    shares = {
        "coverage": recall.coverage,
        "recall_over_rel_prime": recall.over_rel_prime,
        "recall_over_rel": recall.over_rel,
    }
    return {"pooled": {**sizes, **shares}}


SCORES: Final = (
    ScoreDef("rel_recall.answer", evaluate_answer_recall, {"cite"}),
    ScoreDef("rel_recall.citation", evaluate_citation_recall, {"cite"}, notes=pooled_notes),
    ScoreDef("rel.answer", evaluate_answer_recall, {"cite"}),
    ScoreDef("rel.citation", evaluate_citation_recall, {"cite"}, notes=pooled_notes),
    ScoreDef("rel.citation_precision", evaluate_citation_precision, {"cite"}),
    ScoreDef("rel.coverage", evaluate_coverage, asks=frozenset()),
)
