"""The generated answer against the reference answers: `answer.correct@5` and its like."""

from collections.abc import Sequence
from typing import Any, Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.comparators import MEASURES
from pytest_rageval.errors import NoGroundTruth
from pytest_rageval.evaluations.context import NO_REFERENCES, Pipeline, Terms, expected_of, references_of
from pytest_rageval.evaluations.scoring import ScoreDef, encoder_used, score_each
from pytest_rageval.model import Example
from pytest_rageval.scores import Evidence, Outcome

__all__ = ["SCORES", "answer_measure_score"]


async def evaluate_answer_correct(run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
    """Score whether the answer from the first k retrieved passages is right, by the comparator.

    Of an example's `answer_set`, every answer is wanted; without one, its
    `answers` are the references, any one of which is right, or its long-form
    `reference` where there are none. An abstention is wrong. An example with
    none of these is unscored.
    """

    async def score(example: Example) -> tuple[float, Evidence]:
        references = references_of(example)
        # Before anything is asked: an example that cannot be scored costs nothing.
        if not references and not example.answer_set:
            raise NoGroundTruth(NO_REFERENCES)
        answer = await run.answer(example.question, terms.k)
        correct = await run.correct(example, references, answer, terms.comparator)
        ranking = await run.ranking(example.question, terms.k)
        return correct, Evidence(ranking, answer, *expected_of(example))

    return await score_each(examples, score)


async def evaluate_answer_measure(run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
    """Score the answer from the first k retrieved passages by an answer measure.

    The references are as for `evaluate_answer_correct`, the best of them counts;
    an example that wants a set of answers is unscored, since these measures
    compare with one. An abstention is 0, whatever words it shares with a
    reference: "no answer in the documents" does not contain the answer "no".
    """
    measure = run.measures[terms.part]

    async def score(example: Example) -> tuple[float, Evidence]:
        references = references_of(example)
        if not references:
            several = "several answers are wanted, which this measure does not compare"
            raise NoGroundTruth(several if example.answer_set else NO_REFERENCES)
        answer = await run.answer(example.question, terms.k)
        ranking = await run.ranking(example.question, terms.k)
        value = 0.0 if abstains(answer) else measure(answer, references)
        return value, Evidence(ranking, answer, references)

    return await score_each(examples, score)


async def evaluate_answer_abstained(
    run: Pipeline, examples: Sequence[Example], terms: Terms
) -> list[Outcome]:
    """Score 1 where the generator declined to answer, 0 where it answered: a rate to keep low, or to expect."""

    async def score(example: Example) -> tuple[float, Evidence]:
        answer = await run.answer(example.question, terms.k)
        return float(abstains(answer)), Evidence(await run.ranking(example.question, terms.k), answer)

    return await score_each(examples, score)


def answer_measure_score(name: str) -> ScoreDef:
    """The score `answer.NAME` of an answer measure."""
    return ScoreDef(f"answer.{name}", evaluate_answer_measure, {"generate"}, settings=_encoder)


def _encoder(_run: Pipeline, terms: Terms) -> dict[str, Any]:
    return encoder_used({terms.part})


SCORES: Final = (
    ScoreDef("answer.correct", evaluate_answer_correct, {"generate", "compare"}, verdicts=True),
    *map(answer_measure_score, MEASURES),
    ScoreDef("answer.abstained", evaluate_answer_abstained, {"generate"}),
)
