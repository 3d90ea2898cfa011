"""Measures over labels of the retrieved passages: eRAG and two other annotators.

- `erag.*`: the label is how right the generator's answer is from that passage alone;
- `contains.*`: 1 where a reference answer occurs in the passage;
- `relevance.*`: 1 where the judge says that the passage is relevant.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from pytest_rageval.answers.overlap import containment
from pytest_rageval.errors import NoGroundTruth
from pytest_rageval.evaluations.context import (
    NO_REFERENCES,
    Pipeline,
    Terms,
    expected_of,
    gather_all,
    references_of,
)
from pytest_rageval.evaluations.scoring import REFERENCES, ScoreDef, score_in_turn
from pytest_rageval.model import Document, Example
from pytest_rageval.scores import YES, Evidence, Outcome

__all__ = ["PARTS", "SCORES"]

ERAG: Final = {
    "p": "The mean label of the first k.",
    "recall": "The share of the useful retrieved passages that are among the first k.",
    "map": "Average precision by the labels.",
    "mrr": "One divided by the rank of the first useful passage.",
    "ndcg": "nDCG with the labels as gains.",
    "hit": "The highest label among the first k.",
}
CONTAINS: Final = {
    "p": "The share of the first k that contain an answer.",
    "recall": "The share of the retrieved passages with an answer that are among the first k.",
    "map": "Average precision by the labels.",
    "mrr": "One divided by the rank of the first passage with an answer.",
    "ndcg": "nDCG by the labels.",
    "hit": "1 where any of the first k contains an answer.",
}
RELEVANCE: Final = {
    "p": "The share of the first k that are relevant.",
    "recall": "The share of the relevant retrieved passages that are among the first k.",
    "map": "Average precision by the labels.",
    "mrr": "One divided by the rank of the first relevant passage.",
    "ndcg": "nDCG by the labels.",
    "hit": "1 where any of the first k is relevant.",
}
"""Definitions, by measure."""

PARTS: Final = tuple(ERAG)
"""The measures of `measures.ranking.LABEL_MEASURES`, which brings numpy."""


class Label(NamedTuple):
    """How useful a passage is, in [0, 1], and the generator's answer from it alone, where that was asked."""

    value: float
    answer: str | None = None


Annotator = Callable[[Example, Document], Awaitable[Label]]


async def evaluate_erag(run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
    """Label each passage by the answer that the generator gives from it alone.

    The label is the comparison of that answer with the references, or with the best of an `answer_set`, by `label`
    or, without it, by the comparator; an abstention is 0. Where labels may lie between 0 and 1, only `p`, `hit` and
    `ndcg` are defined. An empty ranking is 0.

    Unscored: an example without reference answers; one for which a passage has no answer or label.

    Raises:
        InputError: the measure needs labels of 0 and 1, and the comparison gives grades.
    """
    comparator = _label_of(terms)

    async def annotate(example: Example, passage: Document) -> Label:
        answer = await run.answer_from(example.asked, [passage])
        return Label(await run.helpful(example, answer, comparator), answer)

    return await _scored(
        run, examples, terms, annotate, known=_has_references, graded=run.comparison(comparator).graded
    )


async def evaluate_contains(run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
    """Label each passage 1 where a reference answer occurs in it, in normal form; nothing is asked.

    Unscored: an example without `answers` or `answer_set`. A long-form `reference` occurs in no passage.
    """

    async def annotate(example: Example, passage: Document) -> Label:
        return Label(max(containment(passage.text, aliases) for aliases in example.wanted))

    return await _scored(run, examples, terms, annotate, known=lambda example: bool(example.wanted))


async def evaluate_relevance(run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
    """Label each passage 1 where the judge says that it is relevant to the question, by a grade from 0.5 on.

    Raises:
        CallableError: the judge has no method `relevant`.
    """

    async def annotate(example: Example, passage: Document) -> Label:
        return Label(float(await run.relevant(example.asked, passage) >= YES))

    return await _scored(run, examples, terms, annotate, known=_has_references)


def _has_references(example: Example) -> bool:
    return bool(references_of(example) or example.answer_set)


async def _scored(  # noqa: PLR0913 - what an annotator is
    run: Pipeline,
    examples: Sequence[Example],
    terms: Terms,
    annotate: Annotator,
    *,
    known: Callable[[Example], bool],
    graded: bool = False,
) -> list[Outcome]:
    """Label the passages of all examples with known references, and score the rankings by the labels."""
    from pytest_rageval.measures.ranking import NEED_BINARY, usefulness  # noqa: PLC0415 - with numpy

    # A measure that is defined for labels between 0 and 1 takes those of each annotator.
    graded = graded or terms.part not in NEED_BINARY
    # Before anything is asked: this checks that the measure is defined for such labels.
    usefulness(terms.part, {}, terms.k, graded=graded)
    labels: dict[str, dict[str, float]] = {}

    async def label(example: Example) -> tuple[float, Evidence]:
        if not known(example):
            raise NoGroundTruth(NO_REFERENCES)
        ranking = await run.readable(example, terms.k)
        found = await gather_all(annotate(example, passage) for passage in ranking)
        named = (f"{rank}. {passage.label}" for rank, passage in enumerate(ranking, 1))
        values = tuple(label.value for label in found)
        labels[example.id] = dict(zip(named, values, strict=True))
        alone = tuple(label.answer for label in found if label.answer is not None)
        return 0.0, Evidence(ranking, None, *expected_of(example), labels=values, answers_alone=alone)

    outcomes = await score_in_turn(run, examples, label)
    scores = usefulness(terms.part, labels, terms.k, graded=graded).tolist()
    by_example = dict(zip(labels, scores, strict=True))
    return [
        outcome if outcome.value is None else replace(outcome, value=by_example[outcome.example.id])
        for outcome in outcomes
    ]


def _label_of(terms: Terms) -> str | None:
    return terms.label or terms.comparator


def _erag(part: str) -> ScoreDef:
    asks = {"generate", "compare", "label"}
    return ScoreDef(
        f"erag.{part}",
        evaluate_erag,
        asks,
        comparisons=lambda _run, terms: {"comparator": _label_of(terms)},
        family="eRAG",
        definition=ERAG[part],
        needs=(REFERENCES,),
    )


SCORES: Final = (
    *map(_erag, PARTS),
    *(
        ScoreDef(
            f"contains.{part}",
            evaluate_contains,
            frozenset(),
            family="Passages that contain an answer",
            definition=definition,
            needs=(REFERENCES,),
        )
        for part, definition in CONTAINS.items()
    ),
    *(
        ScoreDef(
            f"relevance.{part}",
            evaluate_relevance,
            {"relevant"},
            family="Passages that a judge calls relevant",
            definition=definition,
            needs=(REFERENCES,),
        )
        for part, definition in RELEVANCE.items()
    ),
)
