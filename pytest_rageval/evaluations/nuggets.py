"""Nuggets, the facts that a good answer states: which of them do the passages support, and which the answer?

`nuggets.*` are of the first k retrieved passages, `answer.nuggets` of the long answer from them. A judge labels all
nuggets of a question in one request for each passage or answer: support, partial_support or not_support.

Source: Pradeep et al. (2024), "Initial Nugget Evaluation Results for the TREC 2024 RAG Track with the AutoNuggetizer
Framework"; Ju et al. (2025), "Controlled Retrieval-augmented Context Evaluation for Long-form RAG" (CRUX).
"""

from collections.abc import Sequence
from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge_protocol import PARTIAL_SUPPORT
from pytest_rageval.concurrency.gathering import gather_all
from pytest_rageval.datatypes import Example, Ranking, excerpt
from pytest_rageval.errors import NoGroundTruth, Undefined
from pytest_rageval.evaluations.pipeline import Pipeline, ResolvedScore, texts_of
from pytest_rageval.evaluations.scoring import NUGGETS, ScoreDef, each_example
from pytest_rageval.measures.gold_matching import GoldMatch
from pytest_rageval.measures.nuggets import alpha_ndcg, best_labels, lenient, strict
from pytest_rageval.plural import counted
from pytest_rageval.scores import Evidence

__all__ = ["SCORES"]

Labels = Sequence[float]

NAMED: Final = 5
"""How many of the nuggets without support a remark names."""


@each_example
async def evaluate_coverage(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the share of all nuggets that one of the first k passages supports; an empty ranking is 0.

    Unscored: an example without nuggets; one with a passage without readable labels.
    """
    ranking, labels = await _labelled(pipeline, example, resolved)
    best = best_labels(labels, len(example.nuggets))
    return strict(best), _evidence(example, best, ranking, labels)


@each_example
async def evaluate_vital(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the share of the vital nuggets alone; undefined where there are none, else as for all."""
    _check(example, vital=True)
    ranking, labels = await _labelled(pipeline, example, resolved)
    best = best_labels(labels, len(example.nuggets))
    return strict(_vital(example, best)), _evidence(example, best, ranking, labels, vital=True)


@each_example
async def evaluate_ndcg(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score alpha-nDCG with the nuggets as subtopics; 0 where no passage supports one; unscored as for coverage.

    The ideal ranking is built from the retrieved passages and from gold passages with text that were not retrieved.
    These are labelled too.
    """
    _check(example)
    ranking = await pipeline.readable(example, resolved.k)
    found = GoldMatch(ranking, example.relevant, pipeline.match_share).found
    missed = [gold.text for gold, hit in zip(example.relevant, found, strict=True) if not hit]
    texts = [*texts_of(ranking), *(text for text in missed if text is not None)]
    # All at once, so that a plan counts all.
    every = await _labels(pipeline, example, texts)
    labels = every[: len(ranking)]
    value = alpha_ndcg(labels, every[len(ranking) :], resolved.k)
    return value, _evidence(example, best_labels(labels, len(example.nuggets)), ranking, labels)


@each_example
async def evaluate_answer(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the share of the vital nuggets that the long answer supports, "vital strict" of the TREC 2024 RAG Track.

    The other scores of AutoNuggetizer are reported with it. An abstention supports nothing, and no judge is asked.
    Undefined where no nugget is vital. Unscored: an example without nuggets; an answer without readable labels.
    """
    # Before anything is asked: an example that cannot be scored costs nothing.
    _check(example, vital=True)
    answer = await pipeline.long_answer(example, resolved.k)
    ranking = await pipeline.ranking(example, resolved.k)
    (labels,) = (
        [(0.0,) * len(example.nuggets)] if abstains(answer) else await _labels(pipeline, example, [answer])
    )
    vital = _vital(example, labels)
    others = {"all_strict": strict(labels), "vital": lenient(vital), "all": lenient(labels)}
    remark = _remark(example, labels, vital=True)
    return strict(vital), Evidence(ranking, answer, beside=others, remark=remark)


async def _labelled(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[Ranking, list[Labels]]:
    """The ranking, and of each passage the labels of the nuggets."""
    _check(example)
    ranking = await pipeline.readable(example, resolved.k)
    return ranking, await _labels(pipeline, example, texts_of(ranking))


async def _labels(pipeline: Pipeline, example: Example, texts: Sequence[str]) -> list[Labels]:
    nuggets = [nugget.text for nugget in example.nuggets]
    return await gather_all(pipeline.supported(example.full_question, nuggets, text) for text in texts)


def _check(example: Example, *, vital: bool = False) -> None:
    if not example.nuggets:
        raise NoGroundTruth("no nuggets")
    if vital and not any(nugget.vital for nugget in example.nuggets):
        raise Undefined("none of its nuggets is vital")


def _vital(example: Example, labels: Labels) -> list[float]:
    return [label for nugget, label in zip(example.nuggets, labels, strict=True) if nugget.vital]


def _evidence(
    example: Example, best: Labels, ranking: Ranking, labels: Sequence[Labels], *, vital: bool = False
) -> Evidence:
    """What a report shows: for each passage the share of nuggets that it supports, and the unsupported nuggets.

    Of the vital ones alone where only these count.
    """
    counted_labels = [_vital(example, each) for each in labels] if vital else labels
    shares = tuple(map(strict, counted_labels))
    return Evidence(ranking, labels=shares, remark=_remark(example, best, vital=vital))


def _remark(example: Example, labels: Labels, *, vital: bool) -> str:
    """The nuggets that are not supported, vital ones first; of the vital ones alone where only these count."""
    lacking = [
        (not nugget.vital, f"{excerpt(nugget.text)}{' (in part)' if label == PARTIAL_SUPPORT else ''}")
        for nugget, label in zip(example.nuggets, labels, strict=True)
        if label < 1 and (nugget.vital or not vital)
    ]
    if not lacking:
        return ""
    named = [text for _, text in sorted(lacking, key=lambda each: each[0])]
    more = [f"{len(named) - NAMED} more"] if len(named) > NAMED else []
    return f"{counted(len(named), 'nugget')} not supported: {', '.join([*named[:NAMED], *more])}"


SCORES: Final = tuple(
    ScoreDef(name, evaluate, asks, family="Nuggets", definition=definition, needs=(NUGGETS,))
    for name, evaluate, asks, definition in (
        (
            "nuggets.coverage",
            evaluate_coverage,
            {"support"},
            "The share of the nuggets that the judge finds in one of the first k.",
        ),
        (
            "nuggets.vital",
            evaluate_vital,
            {"support"},
            "The share of the vital nuggets that the judge finds in one of the first k.",
        ),
        (
            "nuggets.ndcg",
            evaluate_ndcg,
            {"support"},
            "alpha-nDCG with the nuggets as subtopics: a nugget counts half as much each time that it is repeated.",
        ),
        (
            "answer.nuggets",
            evaluate_answer,
            {"explain", "support"},
            "The share of the vital nuggets that the judge finds in the long answer: AutoNuggetizer's vital strict.",
        ),
    )
)
