"""Measures over labels of the retrieved passages, by eRAG and by three other annotators.

The label of a passage is:

- `erag.*`: how right the generator's answer from that passage alone is;
- `contains.*`: 1 if a reference answer occurs in the passage;
- `relevance.*`: 1 if the judge calls the passage relevant;
- `provenance.*`: 1 if the passage is a gold passage or a part of one.

`udcg` combines the judge's verdicts with the answers from each passage alone.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from math import exp, fsum
from typing import Final, NamedTuple

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.overlap import containment
from pytest_rageval.core.concurrency.gathering import gather_all, gather_two
from pytest_rageval.core.data import Document, Example, Ranking
from pytest_rageval.core.errors import NoGroundTruth
from pytest_rageval.core.outcome import YES_THRESHOLD, Evidence, Outcome
from pytest_rageval.scores.definition import GOLD, REFERENCES, ScoreDef, each_example, score_with_progress
from pytest_rageval.scores.pipeline import NO_REFERENCES, Pipeline, ResolvedScore, expected_of, references_of
from pytest_rageval.scores.ranking import retrieve_and_match

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
    "hit": "1 if any of the first k contains an answer, else 0.",
}
RELEVANCE: Final = {
    "p": "The share of the first k that are relevant.",
    "recall": "The share of the relevant retrieved passages that are among the first k.",
    "map": "Average precision by the labels.",
    "mrr": "One divided by the rank of the first relevant passage.",
    "ndcg": "nDCG by the labels.",
    "hit": "1 if any of the first k is relevant, else 0.",
}
PROVENANCE: Final = {
    "p": "The share of the first k that are gold passages, or parts of one.",
    "recall": "The share of the retrieved gold passages that are among the first k.",
    "map": "Average precision by the labels.",
    "mrr": "One divided by the rank of the first gold passage.",
    "ndcg": "nDCG by the labels.",
    "hit": "1 if any of the first k is a gold passage, or a part of one, else 0.",
}
"""The definitions of the scores of each annotator, by measure."""

DISTRACTION_VALUE: Final = -1 / 3
"""The value, in UDCG, of a passage that is not relevant and from which the generator answers."""

LABEL_MEASURE_NAMES: Final = tuple(ERAG)
"""The names in `measures.ranking.LABEL_MEASURES`, available without the import of numpy."""


ExpectedAnswers = tuple[tuple[str, ...], str]
"""The fields `expected` and `expected_as` of `Evidence`."""

NO_ANSWERS: Final[ExpectedAnswers] = (), "reference"


class Label(NamedTuple):
    """The label of a passage.

    Attributes:
        value: how useful the passage is, in [0, 1].
        answer: the generator's answer from the passage alone; None if no answer was generated.
    """

    value: float
    answer: str | None = None


Annotator = Callable[[Example, Document], Awaitable[Label]]
"""Labels one passage of an example."""

LabelledRanking = tuple[Ranking, Sequence[Label], ExpectedAnswers]
"""A ranking with the label of each passage, and the answers that the labels are based on."""

LabelRanking = Callable[[Example], Awaitable[LabelledRanking]]
"""Retrieves the ranking of an example and labels all its passages."""


async def evaluate_erag(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Label each passage by the answer that the generator gives from that passage alone.

    The label is the agreement of that answer with one of the references, or with the best of an `answer_set`. It is
    computed by `label` or, without it, by the comparator. The label of an abstention is 0. If labels may lie between 0
    and 1, only `p`, `hit` and `ndcg` are defined. An empty ranking scores 0.

    Unscored: an example without reference answers; an example with a passage that has no answer or no label.

    Raises:
        InputError: the measure needs labels of 0 and 1, and the comparator returns grades.
    """
    comparator = _label_comparator(resolved)

    async def annotate(example: Example, passage: Document) -> Label:
        answer = await pipeline.answer_from(example.full_question, [passage])
        return Label(await pipeline.partial_correctness(example, answer, comparator), answer)

    label_ranking = _label_each_passage(pipeline, resolved, annotate, _has_references)
    return await _score_by_labels(
        pipeline, examples, resolved, label_ranking, graded=pipeline.comparison(comparator).graded
    )


async def evaluate_contains(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Label each passage 1 if a reference answer occurs in it, in normal form. No model is called.

    Unscored: an example without `answers` or `answer_set`, because a long-form `reference` occurs in no passage.
    """

    async def annotate(example: Example, passage: Document) -> Label:
        return Label(float(contains_answer(example, passage)))

    label_ranking = _label_each_passage(pipeline, resolved, annotate, lambda example: bool(example.wanted))
    return await _score_by_labels(pipeline, examples, resolved, label_ranking)


async def evaluate_relevance(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Label each passage 1 if the judge calls it relevant to the question: with a verdict of at least 0.5.

    Raises:
        CallableError: the judge has no method `relevant`.
    """

    async def annotate(example: Example, passage: Document) -> Label:
        return Label(float(await judge_finds_relevant(pipeline, example, passage)))

    label_ranking = _label_each_passage(
        pipeline, resolved, annotate, _has_references, expected=lambda _: NO_ANSWERS
    )
    return await _score_by_labels(pipeline, examples, resolved, label_ranking)


async def evaluate_provenance(
    pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
) -> list[Outcome]:
    """Label each passage 1 if it is a relevant gold passage, or a part of one that is found. No model is called.

    As in the paper, only retrieved passages count: `provenance.recall`, unlike `recall`, ignores gold passages that
    were not retrieved. Unscored: an example without gold passages; an example with a gold passage that no retrieved
    document can be compared with.
    """

    async def label_ranking(example: Example) -> LabelledRanking:
        ranking, match = await retrieve_and_match(pipeline, example, resolved)
        return ranking, [Label(float(bool(positions))) for positions in match.positions], NO_ANSWERS

    return await _score_by_labels(pipeline, examples, resolved, label_ranking)


def contains_answer(example: Example, passage: Document) -> bool:
    """Return True if a wanted answer occurs in a passage, in normal form."""
    return any(containment(passage.text, aliases) for aliases in example.wanted)


async def judge_finds_relevant(pipeline: Pipeline, example: Example, passage: Document) -> bool:
    """Return True if the judge calls a passage relevant to the question: with a verdict of at least 0.5."""
    return await pipeline.relevant(example.full_question, passage) >= YES_THRESHOLD


@each_example
async def evaluate_udcg(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the first k passages by their effect: a relevant passage can help the generator, any other can distract it.

    The value of a passage from which the generator abstains is 0. If the generator answers from the passage alone, the
    value is 1 if the judge calls the passage relevant, and -1/3 if not. The score is the logistic function of the mean
    value. An empty ranking scores 0.

    Unscored: an example with a passage that has no answer or no verdict.

    Source: Trappolini et al. (2025), "Redefining Retrieval Evaluation in the Era of LLMs", as their code computes it,
    except that an abstention replaces the probability of one.
    """
    ranking = await pipeline.ranking_with_texts(example, resolved.k)
    judged = await gather_all(
        gather_two(
            pipeline.relevant(example.full_question, passage),
            pipeline.answer_from(example.full_question, [passage]),
        )
        for passage in ranking
    )
    answers = tuple(answer for _, answer in judged)
    # Whether each passage from which the generator answers is relevant.
    answered = [relevance >= YES_THRESHOLD for relevance, answer in judged if not abstains(answer)]
    labels = tuple(float(relevance >= YES_THRESHOLD and not abstains(answer)) for relevance, answer in judged)
    counts = {"useful": sum(answered), "distracting": len(answered) - sum(answered)}
    evidence = Evidence(ranking, labels=labels, answers_alone=answers, counts=counts)
    if not judged:
        return 0.0, evidence
    values = (1 if is_relevant else DISTRACTION_VALUE for is_relevant in answered)
    return _logistic(fsum(values) / len(judged)), evidence


def _logistic(x: float) -> float:
    return 1 / (1 + exp(-x))


def _has_references(example: Example) -> bool:
    return bool(references_of(example) or example.answer_set)


def _label_each_passage(
    pipeline: Pipeline,
    resolved: ResolvedScore,
    annotate: Annotator,
    can_label: Callable[[Example], bool],
    expected: Callable[[Example], ExpectedAnswers] = expected_of,
) -> LabelRanking:
    """Return a function that labels the passages of a ranking independently of each other.

    Args:
        pipeline: retrieves.
        resolved: the score.
        annotate: labels one passage.
        can_label: whether an example has the references that the labels need.
        expected: returns the answers that the labels are based on.
    """

    async def label_ranking(example: Example) -> LabelledRanking:
        if not can_label(example):
            raise NoGroundTruth(NO_REFERENCES)
        ranking = await pipeline.ranking_with_texts(example, resolved.k)
        labels = await gather_all(annotate(example, passage) for passage in ranking)
        return ranking, labels, expected(example)

    return label_ranking


async def _score_by_labels(
    pipeline: Pipeline,
    examples: Sequence[Example],
    resolved: ResolvedScore,
    label_ranking: LabelRanking,
    *,
    graded: bool = False,
) -> list[Outcome]:
    """Label the passages of all examples, and score the rankings by the labels."""
    from pytest_rageval.scores.measures.ranking import BINARY_ONLY_MEASURES, usefulness  # noqa: PLC0415 - with numpy

    # A measure that is defined for labels between 0 and 1 accepts binary labels too.
    graded = graded or resolved.part not in BINARY_ONLY_MEASURES
    # Checks before the first request that the measure is defined for such labels.
    usefulness(resolved.part, {}, resolved.k, graded=graded)
    values_by_id: dict[str, dict[str, float]] = {}

    async def label_example(example: Example) -> tuple[float, Evidence]:
        ranking, labels, expected = await label_ranking(example)
        names = (f"{rank}. {passage.label}" for rank, passage in enumerate(ranking, 1))
        values = tuple(label.value for label in labels)
        values_by_id[example.id] = dict(zip(names, values, strict=True))
        alone = tuple(label.answer for label in labels if label.answer is not None)
        return 0.0, Evidence(ranking, None, *expected, labels=values, answers_alone=alone)

    outcomes = await score_with_progress(pipeline, examples, label_example)
    scores = usefulness(resolved.part, values_by_id, resolved.k, graded=graded).tolist()
    scores_by_id = dict(zip(values_by_id, scores, strict=True))
    return [
        outcome if outcome.value is None else replace(outcome, value=scores_by_id[outcome.example.id])
        for outcome in outcomes
    ]


def _label_comparator(resolved: ResolvedScore) -> str | None:
    return resolved.label or resolved.comparator


def _erag(part: str) -> ScoreDef:
    asks = {"generate", "compare", "label"}
    return ScoreDef(
        f"erag.{part}",
        evaluate_erag,
        asks,
        comparisons=lambda _pipeline, resolved: {"comparator": _label_comparator(resolved)},
        family="eRAG",
        definition=ERAG[part],
        needs=(REFERENCES,),
        one_passage=True,
    )


SCORES: Final = (
    *map(_erag, LABEL_MEASURE_NAMES),
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
        definition="The logistic function of the mean value of the first k passages. The value of a passage is 1 if it "
        "is relevant and the generator answers from it alone, -1/3 if the generator answers although it is not "
        "relevant, 0 if the generator abstains.",
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
