"""Sufficient context: do the first k passages contain enough for an answer? And which part lost each wrong answer.

Source: Joren et al. (2025), "Sufficient Context: A New Lens on Retrieval Augmented Generation Systems"; the prompt is
our own.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge_protocol import JudgeVerdict
from pytest_rageval.datatypes import Example
from pytest_rageval.evaluations.pipeline import Pipeline, ResolvedScore
from pytest_rageval.evaluations.scoring import ScoreDef, each_example
from pytest_rageval.measures.gold_matching import SHARE, GoldMatch
from pytest_rageval.scores import YES, Evidence, Outcome

__all__ = ["SCORES", "SUFFICIENT", "blamed", "strata"]

SUFFICIENT: Final = "sufficient"
RESULTS: Final = ("correct", "wrong", "abstained")


@each_example
async def evaluate_sufficient(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score whether the judge finds the first k passages together enough for an answer.

    Neither gold passages nor references are needed, and the generator is not asked. An empty ranking is 0, and no
    judge is asked.
    """
    ranking = await pipeline.readable(example, resolved.k)
    verdict = JudgeVerdict(0.0, "Nothing was retrieved.")
    if ranking:
        verdict = await pipeline.sufficient(example.full_question, ranking.documents)
    return verdict.value, Evidence(ranking, explanation=verdict.explanation)


def strata(context: Iterable[Outcome], answers: Iterable[Outcome]) -> dict[str, Any]:
    """How many answers are correct, wrong, or abstentions: with sufficient context, and with insufficient.

    Questions that lack one of the two verdicts are counted as `left_out`.
    """
    verdicts = {each.example.id: each.value for each in context}
    counts = {True: Counter[str](), False: Counter[str]()}
    left_out = 0
    for each in answers:
        verdict = verdicts.get(each.example.id)
        if verdict is None or each.value is None:
            left_out += 1
        else:
            counts[verdict >= YES][_result(each)] += 1
    named = {True: SUFFICIENT, False: "insufficient"}
    table = {named[key]: {name: found[name] for name in RESULTS} for key, found in counts.items()}
    return {**table, "left_out": left_out}


def _result(outcome: Outcome) -> str:
    if outcome.value is not None and outcome.value >= YES:
        return "correct"
    return "abstained" if abstains(outcome.evidence.answer or "") else "wrong"


def blamed(
    answers: Sequence[Outcome], context: Iterable[Outcome], match_share: float = SHARE
) -> list[Outcome]:
    """The outcomes of an answer score, each wrong one with the part that lost it, by the verdict on its context.

    With sufficient context it is the generator, with insufficient the retriever. What gold and reference answers say
    stands: "judge", where the answer is right; "distraction" and "generator", where all gold passages were there; and
    there it is not known, where nothing else is.
    """
    verdicts = {each.example.id: each for each in context}
    return [_blamed(each, verdicts.get(each.example.id), match_share) for each in answers]


def _blamed(outcome: Outcome, context: Outcome | None, match_share: float) -> Outcome:
    known = outcome.lost_by in {"judge", "distraction", "generator"}
    if known or context is None or context.value is None or outcome.value is None or outcome.value >= YES:
        return outcome
    if context.value >= YES:
        return replace(outcome, lost_by="generator")
    return replace(outcome, lost_by="not known" if _all_found(context, match_share) else "retriever")


def _all_found(context: Outcome, match_share: float) -> bool:
    """Whether all gold passages, of which there are some, are in the list that was judged."""
    gold, ranking = context.example.relevant, context.evidence.ranking
    return bool(gold) and ranking is not None and all(GoldMatch(ranking, gold, match_share).found)


SCORES: Final = (
    ScoreDef(
        SUFFICIENT,
        evaluate_sufficient,
        {"sufficient"},
        family="Sufficient context",
        definition="The judge's verdict whether the first k passages contain enough to answer the question.",
    ),
)
