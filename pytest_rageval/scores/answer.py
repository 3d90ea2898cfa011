"""Scores of the generated answer against the reference answers, such as `answer.correct@5` and `answer.f1@5`."""

from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.comparators import MEASURES, Measure, measure_fingerprint
from pytest_rageval.core.data import Example
from pytest_rageval.core.errors import NoGroundTruth
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.scores.definition import REFERENCES, ScoreDef, each_example
from pytest_rageval.scores.pipeline import NO_REFERENCES, Pipeline, ResolvedScore, expected_of, references_of


@each_example
async def evaluate_answer_correct(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score whether the answer from the first k retrieved passages is right, by the comparator.

    A right answer has every answer of the `answer_set` or, without an `answer_set`, any one of the references
    (`references_of`). An abstention is wrong. Unscored: an example that has neither.
    """
    references = references_of(example)
    # Checked before the first request, so that an example that cannot be scored costs nothing.
    if not references and not example.answer_set:
        raise NoGroundTruth(NO_REFERENCES)
    ranking, answer = await pipeline.ranking_and_answer(example, resolved.k)
    correct = await pipeline.correctness(example, answer, resolved.comparator)
    return correct, Evidence(ranking, answer, *expected_of(example))


@each_example
async def evaluate_answer_measure(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score the answer from the first k retrieved passages by an answer measure.

    The reference with the highest value counts. An abstention is 0, even if it has words in common with a reference:
    "no answer in the documents" does not contain the answer "no". Unscored: an example without references; an example
    with an `answer_set`.
    """
    measure = pipeline.measures[resolved.part]
    references = references_of(example)
    if not references:
        has_set = "several answers are wanted, which this measure does not compare"
        raise NoGroundTruth(has_set if example.answer_set else NO_REFERENCES)
    ranking, answer = await pipeline.ranking_and_answer(example, resolved.k)
    value = 0.0 if abstains(answer) else measure(answer, references)
    return value, Evidence(ranking, answer, references)


@each_example
async def evaluate_answer_abstained(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    """Score 1 if the generator declined to answer, 0 if it answered."""
    ranking, answer = await pipeline.ranking_and_answer(example, resolved.k)
    return float(abstains(answer)), Evidence(ranking, answer)


FAMILY: Final = "Answers against references"


def answer_measure_score(name: str) -> ScoreDef:
    """Return the definition of the score `answer.NAME` for an answer measure."""
    measure = MEASURES.get(name)
    return ScoreDef(
        f"answer.{name}",
        evaluate_answer_measure,
        {"generate"},
        settings=lambda pipeline, resolved: measure_fingerprint(pipeline.measures, {resolved.part}),
        family=FAMILY,
        definition=measure.definition if isinstance(measure, Measure) else "",
        needs=(REFERENCES,),
        extra=measure.extra if isinstance(measure, Measure) else None,
    )


SCORES: Final = (
    ScoreDef(
        "answer.correct",
        evaluate_answer_correct,
        {"generate", "compare"},
        corrected_by="answers",
        family=FAMILY,
        definition="The judge's verdict whether the answer says the same as a reference answer.",
        needs=(REFERENCES,),
    ),
    *map(answer_measure_score, MEASURES),
    ScoreDef(
        "answer.abstained",
        evaluate_answer_abstained,
        {"generate"},
        family=FAMILY,
        definition="1 if the generator declines to answer, else 0. "
        "Bound it with `max`, or with `min` on questions that have no answer.",
    ),
)
