"""Rel'-recall: how much of the relevant content of the prompt does the generator use, in answers and citations?

`rel_recall.*` are over Rel', what was relevant and in the prompt; `rel.*` over Rel, all that is known to be relevant.
The prompt holds the first k passages, by rank or in random order, and asks for all answers with citations.
Relevant are the gold passages or, where a threshold says so, those that a wanted answer occurs in, or that the judge
calls relevant. Such labels are known only for retrieved passages: what counts as retrieved beside the prompt, for the
scores over Rel, are the first passages of a longer ranking (`POOL`), as a test collection pools its runs.

Source: Garigliotti (2024), "On the Relevant Set of Contexts for Evaluating
Retrieval-Augmented Generation Systems"; see `pytest_rageval.measures.rel_prime`.
"""

from collections import Counter
from collections.abc import Awaitable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, compress, count, product
from typing import Any, Final, NamedTuple, cast

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.citations import ListedAnswers, match_listed_answers, parse_citations
from pytest_rageval.answers.comparators import highest, lowest
from pytest_rageval.answers.overlap import containment
from pytest_rageval.concurrency.gathering import gather_all
from pytest_rageval.datatypes import Document, Example, Ranking
from pytest_rageval.errors import NoGroundTruth, Planned, Undefined, UnusableRanking, is_placeholder
from pytest_rageval.evaluations.passage_labels import called_relevant, contains_answer
from pytest_rageval.evaluations.pipeline import NO_GOLD, NO_REFERENCES, Evaluation, Pipeline, ResolvedScore
from pytest_rageval.evaluations.ranking import not_comparable
from pytest_rageval.evaluations.scoring import GOLD, MATCH, REFERENCES, ScoreDef, each_example
from pytest_rageval.measures.gold_matching import GoldMatch
from pytest_rageval.measures.rel_prime import Recall, RelPrime, rel_prime
from pytest_rageval.scores import YES, Evidence, Outcome, Score

__all__ = ["SCORES", "pooled_notes"]

NO_RELEVANT = "no relevant passage was in the prompt"

POOL: Final = {"contains": 100, "judge": 20}
"""How many retrieved passages are labelled for scores over Rel. The judge is asked about each."""

OVER_REL: Final = frozenset({"rel.citation", "rel.coverage"})
"""The scores that relevant passages beyond the prompt count in."""

OTHERS = 5
"""How many items that equal no reference are named."""

MOST_COMPARED: Final = 100
"""Items of one answer that a comparator compares, of those that equal no alias; a runaway output has thousands."""


@each_example
async def evaluate_answer_recall(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the share of the wanted answers that the output lists; `rel_recall`: of those in the prompt.

    Wanted are the answers of the `answer_set`, or the `answers` as one. One is in the prompt where it occurs in a
    relevant passage of it, or in any passage where gold passages are not known. An item that equals no alias counts
    where the comparator finds that it and an alias say the same: see `_with_same`.

    Unscored: an example without wanted answers. `rel_recall` is undefined, and nothing is asked, where the prompt
    holds none of them.
    """
    if not example.wanted:
        raise NoGroundTruth(NO_REFERENCES)
    prompt = await _prompt(pipeline, example, resolved)
    if resolved.spec.name == "rel_recall" and not prompt.shown:
        raise Undefined(prompt.why_not_shown)
    answer = await pipeline.cited_answer(example, resolved.k, resolved.order)
    listing = match_listed_answers(answer, example.wanted)
    if listing.matched or not abstains(answer):
        listing = await _with_same(pipeline, example, resolved, answer, listing)
    found, evidence = _result(prompt, answer, listing)
    counts = {"parametric_answers": found.parametric, **evidence.counts}
    evidence = replace(
        evidence,
        expected=_first_aliases(example),
        expected_as="wanted",
        counts=counts,
        remark=_others_text(listing.unmatched),
        sizes=_sizes(found.answers),
    )
    return _recall(found.answers, resolved), evidence


@each_example
async def evaluate_citation_recall(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence] | Outcome:
    """Score the share of the relevant passages that the output cites; `rel_recall`: of those in the prompt.

    Unscored: an example whose relevant passages are not known. `rel_recall` is undefined, and nothing is asked, where
    the prompt holds none of them; `rel` where labels find none.
    """
    prompt = await _prompt_with_relevant(pipeline, example, resolved)
    if resolved.spec.name == "rel_recall" and not prompt.available:
        # Counted in the pooled shares: a passage that was not shown cannot be cited.
        sizes = _sizes(Recall(len(prompt.relevant), 0, 0, 0)) if prompt.knows_rel else {}
        return Outcome(example, None, undefined=NO_RELEVANT, evidence=Evidence(prompt.ranking, sizes=sizes))
    prompt.check_any(resolved)
    found, evidence = await _cited(pipeline, example, resolved, prompt)
    sizes = _sizes(found.citations) if prompt.knows_rel else {}
    return _recall(found.citations, resolved), replace(evidence, sizes=sizes)


@each_example
async def evaluate_citation_precision(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the share of the cited passages that are relevant; it is the same over Rel and Rel'.

    A citation of a passage that is not in the prompt is not relevant. Unscored: an example whose relevant passages are
    not known. Undefined where nothing was cited.
    """
    prompt = await _prompt_with_relevant(pipeline, example, resolved)
    found, evidence = await _cited(pipeline, example, resolved, prompt)
    if found.citation_precision is None:
        raise Undefined("nothing was cited")
    return found.citation_precision, evidence


@each_example
async def evaluate_coverage(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the share of the relevant passages that are in the prompt, |Rel'| / |Rel|: the retriever's part.

    No generator is asked. Where nothing beyond the prompt is cited, `rel.citation` is the coverage times
    `rel_recall.citation`. Unscored: an example whose relevant passages are not known. Undefined where labels find none.
    """
    prompt = await _prompt_with_relevant(pipeline, example, resolved)
    prompt.check_any(resolved)
    return prompt.available / len(prompt.relevant), Evidence(prompt.ranking, counts=prompt.counts)


@each_example
async def evaluate_answer_coverage(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the share of the wanted answers that are in the prompt, as `evaluate_answer_recall` has it.

    No generator is asked. Where only these are listed, `rel.answer` is this coverage times `rel_recall.answer`.
    Unscored: an example without wanted answers.
    """
    if not example.wanted:
        raise NoGroundTruth(NO_REFERENCES)
    prompt = await _prompt(pipeline, example, resolved)
    share = len(prompt.shown) / len(example.wanted)
    return share, Evidence(prompt.ranking, None, _first_aliases(example), "wanted", counts=prompt.counts)


@dataclass(frozen=True, slots=True)
class _Prompt:
    """The prompt of one example.

    Attributes:
        ranking: the passages, in the order of the prompt.
        relevant: names of the relevant passages; empty where they are not known.
        unknown: why they are not known; None where they are.
        names: of each passage of the prompt: those of the relevant ones that it is or is a part of, or its own.
        wanted: the answers that are right, each as its aliases.
        shown: positions of those in a relevant passage of the prompt, or in any where none are known.
        seen: positions of those in any passage of the prompt.
        counts: relevant passages that were found by an overlap, by its kind.
        knows_rel: whether relevant passages beyond the prompt are among those known.
    """

    ranking: Ranking
    relevant: frozenset[Hashable]
    unknown: str | None
    names: tuple[tuple[Hashable, ...], ...]
    wanted: Sequence[Sequence[str]]
    shown: frozenset[int]
    seen: frozenset[int]
    counts: Mapping[str, int]
    knows_rel: bool

    def check_any(self, resolved: ResolvedScore) -> None:
        """Raise Undefined where no passage that was labelled is relevant."""
        if not self.relevant:
            raise Undefined(f"none of the first {_pool(resolved)} retrieved passages is relevant")

    @property
    def available(self) -> int:
        """How many relevant passages are in the prompt."""
        return len(self.relevant.intersection(chain.from_iterable(self.names)))

    @property
    def why_not_shown(self) -> str:
        """Why no wanted answer is in the prompt."""
        if self.unknown is not None:
            return "no wanted answer occurs in a passage of the prompt"
        if not self.available:
            return NO_RELEVANT
        return "no wanted answer occurs in a relevant passage of the prompt"

    def compared(self, answer: str, listed_answers: frozenset[int]) -> RelPrime:
        """The generator's answer, compared with the prompt; the positions of the wanted answers that it lists."""
        citations = parse_citations(answer, len(self.names))
        # A passage with several names counts once for each, one after the other.
        last = list(accumulate(map(len, self.names), initial=0))
        supports = [
            at for position in citations.positions for at in range(last[position - 1] + 1, last[position] + 1)
        ]
        others = [
            position if position < 1 else position - len(self.names) + last[-1]
            for position in citations.hallucinated
        ]
        # "The passages [1] and [2] do not say" names passages, and supports nothing by them.
        abstained = not listed_answers and abstains(answer)
        return rel_prime(
            relevant=self.relevant,
            prompt=list(chain.from_iterable(self.names)),
            cited=() if abstained else supports + others,
            wanted=range(len(self.wanted)),
            shown=self.shown,
            listed=listed_answers,
            seen=self.seen,
        )


class _Relevant(NamedTuple):
    """The relevant passages of an example, as of `_Prompt`, and those that each passage of the prompt is or holds."""

    names: frozenset[Hashable]
    in_prompt: Sequence[tuple[Hashable, ...]]
    unknown: str | None = None
    counts: Mapping[str, int] = {}
    knows_rel: bool = True


async def _prompt(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> _Prompt:
    ranking = await pipeline.shown(example, resolved.k, resolved.order)
    if resolved.relevant == "gold":
        relevant = _by_gold(pipeline, example, ranking)
    else:
        relevant = await _by_labels(pipeline, example, resolved, ranking)
    texts = [passage.text for passage in ranking]
    pairs = list(zip(ranking, relevant.in_prompt, strict=True))
    relevant_texts = [passage.text for passage, found in pairs if found or relevant.unknown]
    return _Prompt(
        ranking,
        frozenset(("relevant", name) for name in relevant.names),
        relevant.unknown,
        tuple(
            tuple(("relevant", name) for name in found) or (("other", passage.identity),)
            for passage, found in pairs
        ),
        example.wanted,
        _occurring(example.wanted, relevant_texts),
        _occurring(example.wanted, texts),
        relevant.counts,
        relevant.knows_rel,
    )


def _by_gold(pipeline: Pipeline, example: Example, ranking: Ranking) -> _Relevant:
    match = GoldMatch(ranking, example.relevant, pipeline.match_share)
    unknown = not_comparable(match) if example.relevant else NO_GOLD
    if unknown is not None:
        return _Relevant(frozenset(), [()] * len(ranking), unknown)
    return _Relevant(frozenset(range(len(example.relevant))), match.positions, counts=match.counts)


async def _by_labels(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore, ranking: Ranking
) -> _Relevant:
    """The relevant ones of the prompt and, for a score over Rel, of those retrieved beyond it."""
    passages = {passage.identity: passage for passage in ranking}
    knows_rel = resolved.spec.measure in OVER_REL
    if knows_rel:
        beyond = await pipeline.readable(example, _pool(resolved))
        passages = {passage.identity: passage for passage in beyond} | passages

    async def is_relevant(passage: Document) -> bool:
        if resolved.relevance.by == "contains":
            return contains_answer(example, passage)
        try:
            return await called_relevant(pipeline, example, passage)
        except Planned:
            # Where a verdict is not there yet, a plan counts what may follow from it.
            return True

    labels = await gather_all(map(is_relevant, passages.values()))
    names = frozenset(compress(passages, labels))
    in_prompt = [(each.identity,) if each.identity in names else () for each in ranking]
    return _Relevant(names, in_prompt, knows_rel=knows_rel)


def _pool(resolved: ResolvedScore) -> int:
    """The number of retrieved passages that are labelled: never fewer than the prompt has."""
    by, depth = resolved.relevance
    return max(resolved.k, depth or POOL[by])


async def _prompt_with_relevant(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> _Prompt:
    """The prompt of an example whose relevant passages are known; raises Unscored where it is none."""
    # Before anything is asked: an example that cannot be scored costs nothing.
    if resolved.relevant == "gold" and not example.relevant:
        raise NoGroundTruth(NO_GOLD)
    if resolved.relevance.by == "contains" and not example.wanted:
        raise NoGroundTruth(NO_REFERENCES)
    prompt = await _prompt(pipeline, example, resolved)
    if prompt.unknown is not None:
        raise UnusableRanking(prompt.unknown)
    return prompt


def _occurring(wanted: Sequence[Sequence[str]], texts: Sequence[str]) -> frozenset[int]:
    """The positions of those answers that occur in a text."""
    found = (any(containment(text, aliases) for text in texts) for aliases in wanted)
    return frozenset(compress(count(), found))


async def _cited(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore, prompt: _Prompt
) -> tuple[RelPrime, Evidence]:
    answer = await pipeline.cited_answer(example, resolved.k, resolved.order)
    return _result(prompt, answer, match_listed_answers(answer, example.wanted))


def _result(prompt: _Prompt, answer: str, listing: ListedAnswers) -> tuple[RelPrime, Evidence]:
    found = prompt.compared(answer, listing.matched)
    counts = {"hallucinated_citations": found.hallucinated, **prompt.counts}
    citations = parse_citations(answer, len(prompt.names))
    remark = "" if citations.positions or citations.hallucinated else "cited nothing"
    return found, Evidence(prompt.ranking, answer, counts=counts, remark=remark)


def _comparator(pipeline: Pipeline, resolved: ResolvedScore) -> str:
    """The comparator of list items: the threshold's; else the run's where it is free; else canonical comparison.

    A judge would be asked about each item and each wanted answer, so only a threshold can name one.
    """
    if resolved.comparator is not None:
        return resolved.comparator
    of_run = pipeline.comparison(None)
    return of_run.text if of_run.names <= {"canonical", *pipeline.measures} else "canonical"


async def _with_same(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore, answer: str, listing: ListedAnswers
) -> ListedAnswers:
    """The listing, in which an item that equals no alias counts for the answers that say the same.

    The comparator must find that the item says what one of the aliases says, and that an alias says what the item
    says: "Rocky II" says "Rocky", but not the other way round. A plan takes an unknown answer for as many items as
    answers are wanted.
    """
    comparator, question, wanted = _comparator(pipeline, resolved), example.full_question, example.wanted
    items = listing.unmatched[:MOST_COMPARED]
    if is_placeholder(answer):
        items = tuple(f"{answer} {n}" for n in range(len(wanted)))

    async def says(aliases: Sequence[str], text: str) -> float:
        return float(await pipeline.same(question, aliases, text, comparator) >= YES)

    def both_ways(item: str, aliases: Sequence[str]) -> Iterator[Awaitable[float]]:
        # Most items match none of the expected answers; one comparison with all of them shows that.
        yield says([*chain.from_iterable(wanted)], item)
        yield says(aliases, item)
        yield highest(says([item], alias) for alias in aliases)

    pairs = list(product(items, enumerate(wanted)))
    same = await gather_all(lowest(both_ways(item, aliases)) for item, (_, aliases) in pairs)
    choices = dict(listing.candidates)
    for (item, (position, _)), value in zip(pairs, same, strict=True):
        if value:
            choices[item] = (*choices.get(item, ()), position)
    return ListedAnswers(choices)


def _others_text(items: Sequence[str]) -> str:
    """The items of an answer that are not wanted."""
    if not items:
        return ""
    named = ", ".join(map(repr, items[:OTHERS])) + (", …" if len(items) > OTHERS else "")
    return f"item {named} equals no reference" if len(items) == 1 else f"items {named} equal no reference"


def _first_aliases(example: Example) -> tuple[str, ...]:
    return tuple(aliases[0] for aliases in example.wanted)


def _sizes(recall: Recall) -> dict[str, int]:
    """What is relevant, of this what was shown, and of this what was found; and what was found without being shown."""
    sizes = {"relevant": recall.relevant, "shown": recall.available, "found": recall.found_available}
    beyond = recall.found - recall.found_available
    return {**sizes, "beyond": beyond} if beyond else sizes


def _recall(recall: Recall, resolved: ResolvedScore) -> float:
    """The recall over Rel' or Rel, by the score's family, where it is defined."""
    return cast("float", recall.over_rel_prime if resolved.spec.name == "rel_recall" else recall.over_rel)


def pooled_notes(score: Score | None) -> dict[str, Any]:
    """The sizes of the sets, summed, and the shares, None where undefined, as the report's key `pooled`.

    `questions` are those that are summed: of what is undefined and not asked, no sizes may be known.
    """
    # A score of 0 is false, as a number is.
    outcomes = () if score is None else score.outcomes
    known = [outcome.evidence.sizes for outcome in outcomes if outcome.evidence.sizes]
    if not known:
        return {}
    sizes: Counter[str] = Counter()
    for each in known:
        sizes.update(each)
    recall = Recall(sizes["relevant"], sizes["shown"], sizes["found"] + sizes["beyond"], sizes["found"])
    shares = {
        "coverage": recall.coverage,
        "recall_over_rel_prime": recall.over_rel_prime,
        "recall_over_rel": recall.over_rel,
    }
    return {"pooled": {"questions": len(known), **sizes, **shares}}


FAMILY: Final = "Rel'-recall: answers and citations"


def _rel(  # noqa: PLR0913 - what a score is
    name: str, evaluate: Evaluation, asks: set[str], definition: str, *, needs: str = GOLD, pair: str = ""
) -> ScoreDef:
    return ScoreDef(
        name,
        evaluate,
        asks,
        comparisons=lambda run, resolved: {"comparator": _comparator(run, resolved)},
        notes=pooled_notes,
        family=FAMILY,
        definition=definition,
        needs=(needs,),
        takes_relevant=True,
        pair=pair,
    )


SCORES: Final = (
    _rel(
        "rel_recall.answer",
        evaluate_answer_recall,
        {"cite", MATCH},
        "Of the wanted answers that occur in relevant passages of the prompt, the share that the generator lists.",
        needs=REFERENCES,
        pair="rel.answer",
    ),
    _rel(
        "rel_recall.citation",
        evaluate_citation_recall,
        {"cite"},
        "Of the relevant passages in the prompt, the share that is cited.",
        pair="rel.citation",
    ),
    _rel(
        "rel.answer",
        evaluate_answer_recall,
        {"cite", MATCH},
        "Of all wanted answers, the share that the generator lists.",
        needs=REFERENCES,
    ),
    _rel(
        "rel.citation",
        evaluate_citation_recall,
        {"cite"},
        "Of all relevant passages, the share that is cited.",
    ),
    _rel(
        "rel.citation_precision",
        evaluate_citation_precision,
        {"cite"},
        "Of the cited passages, the share that is relevant; undefined where nothing is cited.",
    ),
    _rel(
        "rel.coverage",
        evaluate_coverage,
        set(),
        "Of all relevant passages, the share in the prompt: the retriever's part. No generator is asked.",
    ),
    _rel(
        "rel.answer_coverage",
        evaluate_answer_coverage,
        set(),
        "Of all wanted answers, the share that occurs in relevant passages of the prompt: the retriever's part. No "
        "generator is asked.",
        needs=REFERENCES,
    ),
)
