"""Measures over labels of the retrieved passages: eRAG and three other annotators.

- `erag.*`: the label is how right the generator's answer is from that passage alone;
- `contains.*`: 1 where a reference answer occurs in the passage;
- `relevance.*`: 1 where the judge says that the passage is relevant;
- `provenance.*`: 1 where the passage is a gold passage or a part of one.

`udcg` puts the judge's labels and the answers from each passage alone together.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from math import exp, fsum
from typing import Final, NamedTuple

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.overlap import containment
from pytest_rageval.concurrency.gathering import gather_all, gather_two
from pytest_rageval.datatypes import Document, Example, Ranking
from pytest_rageval.errors import NoGroundTruth
from pytest_rageval.evaluations.pipeline import (
    NO_GOLD,
    NO_REFERENCES,
    Pipeline,
    ResolvedScore,
    expected_of,
    references_of,
)
from pytest_rageval.evaluations.ranking import comparable
from pytest_rageval.evaluations.scoring import GOLD, REFERENCES, ScoreDef, each_example, score_in_turn
from pytest_rageval.scores import YES, Evidence, Outcome

__all__ = ["PARTS", "SCORES", "called_relevant", "contains_answer"]

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
PROVENANCE: Final = {
    "p": "The share of the first k that are gold passages, or parts of one.",
    "recall": "The share of the retrieved gold passages that are among the first k.",
    "map": "Average precision by the labels.",
    "mrr": "One divided by the rank of the first gold passage.",
    "ndcg": "nDCG by the labels.",
    "hit": "1 where any of the first k is a gold passage, or a part of one.",
}
"""Definitions, by measure."""

DISTRACTION: Final = -1 / 3
"""What an answer from a passage that is not relevant counts, where one from a relevant passage counts 1."""

PARTS: Final = tuple(ERAG)
"""The measures of `measures.ranking.LABEL_MEASURES`, which brings numpy."""


Expected = tuple[tuple[str, ...], str]
NO_ANSWERS: Final[Expected] = (), "reference"


class Label(NamedTuple):
    """How useful a passage is, in [0, 1], and the generator's answer from it alone, where that was asked."""

    value: float
    answer: str | None = None


Annotator = Callable[[Example, Document], Awaitable[Label]]
Labelled = Callable[[Example], Awaitable[tuple[Ranking, Sequence[Label], Expected]]]
"""Retrieves, and labels all passages of the ranking; with the answers that the labels were made by."""


async def evaluate_erag(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Label each passage by the answer that the generator gives from it alone.

    The label is the comparison of that answer with the references, or with the best of an `answer_set`, by `label`
    or, without it, by the comparator; an abstention is 0. Where labels may lie between 0 and 1, only `p`, `hit` and
    `ndcg` are defined. An empty ranking is 0.

    Unscored: an example without reference answers; one for which a passage has no answer or label.

    Raises:
        InputError: the measure needs labels of 0 and 1, and the comparison gives grades.
    """
    comparator = _label_of(resolved)

    async def annotate(example: Example, passage: Document) -> Label:
        answer = await pipeline.answer_from(example.full_question, [passage])
        return Label(await pipeline.helpful(example, answer, comparator), answer)

    labelled = _each_passage(pipeline, resolved, annotate, _has_references)
    return await _scored(
        pipeline, examples, resolved, labelled, graded=pipeline.comparison(comparator).graded
    )


async def evaluate_contains(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Label each passage 1 where a reference answer occurs in it, in normal form; nothing is asked.

    Unscored: an example without `answers` or `answer_set`. A long-form `reference` occurs in no passage.
    """

    async def annotate(example: Example, passage: Document) -> Label:
        return Label(float(contains_answer(example, passage)))

    labelled = _each_passage(pipeline, resolved, annotate, lambda example: bool(example.wanted))
    return await _scored(pipeline, examples, resolved, labelled)


async def evaluate_relevance(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Label each passage 1 where the judge says that it is relevant to the question, by a grade from 0.5 on.

    Raises:
        CallableError: the judge has no method `relevant`.
    """

    async def annotate(example: Example, passage: Document) -> Label:
        return Label(float(await called_relevant(pipeline, example, passage)))

    labelled = _each_passage(pipeline, resolved, annotate, _has_references, expected=lambda _: NO_ANSWERS)
    return await _scored(pipeline, examples, resolved, labelled)


async def evaluate_provenance(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Label each passage 1 where it is a relevant gold passage, or a part of one that is found; nothing is asked.

    As in the paper, only what was retrieved counts: `recall`, unlike `recall@k`, does not see what was missed.
    Unscored: an example without gold passages; one with a gold passage that no retrieved document can be compared with.
    """

    async def labelled(example: Example) -> tuple[Ranking, Sequence[Label], Expected]:
        if not example.relevant:
            raise NoGroundTruth(NO_GOLD)
        ranking = await pipeline.ranking(example, resolved.k)
        match = comparable(ranking, example, pipeline.match_share)
        return ranking, [Label(float(bool(found))) for found in match.positions], NO_ANSWERS

    return await _scored(pipeline, examples, resolved, labelled)


def contains_answer(example: Example, passage: Document) -> bool:
    """Whether a wanted answer occurs in a passage, in normal form."""
    return any(containment(passage.text, aliases) for aliases in example.wanted)


async def called_relevant(pipeline: Pipeline, example: Example, passage: Document) -> bool:
    """Whether the judge says that a passage is relevant to the question, by a grade from 0.5 on."""
    return await pipeline.relevant(example.full_question, passage) >= YES


@each_example
async def evaluate_udcg(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the first k passages by what each does alone: a relevant one can help, any other can distract.

    A passage from which the generator abstains counts 0. One from which it answers counts 1 where the judge calls the
    passage relevant, and -1/3 where not. The score is the logistic function of the mean; an empty ranking is 0.

    Unscored: an example of which a passage has no answer or verdict.

    Source: Trappolini et al. (2025), "Redefining Retrieval Evaluation in the Era of LLMs", as their code computes it;
    in place of the probability that the generator abstains, whether it does.
    """
    ranking = await pipeline.readable(example, resolved.k)
    found = await gather_all(
        gather_two(
            pipeline.relevant(example.full_question, passage),
            pipeline.answer_from(example.full_question, [passage]),
        )
        for passage in ranking
    )
    answers = tuple(answer for _, answer in found)
    used = [relevant >= YES for relevant, answer in found if not abstains(answer)]
    labels = tuple(float(relevant >= YES and not abstains(answer)) for relevant, answer in found)
    counts = {"useful": sum(used), "distracting": len(used) - sum(used)}
    evidence = Evidence(ranking, labels=labels, answers_alone=answers, counts=counts)
    if not found:
        return 0.0, evidence
    return _logistic(fsum(1 if relevant else DISTRACTION for relevant in used) / len(found)), evidence


def _logistic(x: float) -> float:
    return 1 / (1 + exp(-x))


def _has_references(example: Example) -> bool:
    return bool(references_of(example) or example.answer_set)


def _each_passage(
    pipeline: Pipeline,
    resolved: ResolvedScore,
    annotate: Annotator,
    known: Callable[[Example], bool],
    expected: Callable[[Example], Expected] = expected_of,
) -> Labelled:
    """Label the passages of an example with known references one by one; `expected` are those that labels use."""

    async def labelled(example: Example) -> tuple[Ranking, Sequence[Label], Expected]:
        if not known(example):
            raise NoGroundTruth(NO_REFERENCES)
        ranking = await pipeline.readable(example, resolved.k)
        labels = await gather_all(annotate(example, passage) for passage in ranking)
        return ranking, labels, expected(example)

    return labelled


async def _scored(
    pipeline: Pipeline,
    examples: Sequence[Example],
    resolved: ResolvedScore,
    labelled: Labelled,
    *,
    graded: bool = False,
) -> list[Outcome]:
    """Label the passages of all examples, and score the rankings by the labels."""
    from pytest_rageval.measures.ranking import NEED_BINARY, usefulness  # noqa: PLC0415 - with numpy

    # A measure that is defined for labels between 0 and 1 takes those of each annotator.
    graded = graded or resolved.part not in NEED_BINARY
    # Before anything is asked: this checks that the measure is defined for such labels.
    usefulness(resolved.part, {}, resolved.k, graded=graded)
    labels: dict[str, dict[str, float]] = {}

    async def label(example: Example) -> tuple[float, Evidence]:
        ranking, found, expected = await labelled(example)
        named = (f"{rank}. {passage.label}" for rank, passage in enumerate(ranking, 1))
        values = tuple(label.value for label in found)
        labels[example.id] = dict(zip(named, values, strict=True))
        alone = tuple(label.answer for label in found if label.answer is not None)
        return 0.0, Evidence(ranking, None, *expected, labels=values, answers_alone=alone)

    outcomes = await score_in_turn(pipeline, examples, label)
    scores = usefulness(resolved.part, labels, resolved.k, graded=graded).tolist()
    by_example = dict(zip(labels, scores, strict=True))
    return [
        outcome if outcome.value is None else replace(outcome, value=by_example[outcome.example.id])
        for outcome in outcomes
    ]


def _label_of(resolved: ResolvedScore) -> str | None:
    return resolved.label or resolved.comparator


def _erag(part: str) -> ScoreDef:
    asks = {"generate", "compare", "label"}
    return ScoreDef(
        f"erag.{part}",
        evaluate_erag,
        asks,
        comparisons=lambda _run, resolved: {"comparator": _label_of(resolved)},
        family="eRAG",
        definition=ERAG[part],
        needs=(REFERENCES,),
        one_passage=True,
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
            corrected_by="passages",
            family="Passages that a judge calls relevant",
            definition=definition,
            needs=(REFERENCES,),
        )
        for part, definition in RELEVANCE.items()
    ),
    ScoreDef(
        "udcg",
        evaluate_udcg,
        {"generate", "relevant"},
        (0.0, _logistic(1)),
        family="UDCG",
        definition="The logistic function of the mean value of the first k passages: 1 where the generator answers "
        "from a relevant passage alone, -1/3 where it answers from any other, 0 where it abstains.",
        one_passage=True,
    ),
    *(
        ScoreDef(
            f"provenance.{part}",
            evaluate_provenance,
            frozenset(),
            family="Retrieved passages that are gold",
            definition=definition,
            needs=(GOLD,),
        )
        for part, definition in PROVENANCE.items()
    ),
)
