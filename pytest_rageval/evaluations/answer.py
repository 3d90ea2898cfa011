"""The generated answer against the reference answers: `answer.correct@5` and its like."""

from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.comparators import MEASURES
from pytest_rageval.errors import NoGroundTruth
from pytest_rageval.evaluations.context import NO_REFERENCES, Pipeline, Terms, expected_of, references_of
from pytest_rageval.evaluations.scoring import ScoreDef, each_example, encoder_used
from pytest_rageval.model import Example
from pytest_rageval.scores import Evidence

__all__ = ["SCORES", "answer_measure_score"]


@each_example
async def evaluate_answer_correct(run: Pipeline, example: Example, terms: Terms) -> tuple[float, Evidence]:
    """Score whether the answer from the first k retrieved passages is right, by the comparator.

    Wanted is every answer of the `answer_set`, or any one of the references (`references_of`); an example with none
    of these is unscored. An abstention is wrong.
    """
    references = references_of(example)
    # Before anything is asked: an example that cannot be scored costs nothing.
    if not references and not example.answer_set:
        raise NoGroundTruth(NO_REFERENCES)
    answer = await run.answer(example.question, terms.k)
    correct = await run.correct(example, answer, terms.comparator)
    ranking = await run.ranking(example.question, terms.k)
    return correct, Evidence(ranking, answer, *expected_of(example))


@each_example
async def evaluate_answer_measure(run: Pipeline, example: Example, terms: Terms) -> tuple[float, Evidence]:
    """Score the answer from the first k retrieved passages by an answer measure.

    The best of the references counts; an example that wants a set of answers is unscored. An abstention is 0,
    whatever words it shares with a reference: "no answer in the documents" does not contain the answer "no".
    """
    measure = run.measures[terms.part]
    references = references_of(example)
    if not references:
        several = "several answers are wanted, which this measure does not compare"
        raise NoGroundTruth(several if example.answer_set else NO_REFERENCES)
    answer = await run.answer(example.question, terms.k)
    ranking = await run.ranking(example.question, terms.k)
    value = 0.0 if abstains(answer) else measure(answer, references)
    return value, Evidence(ranking, answer, references)


@each_example
async def evaluate_answer_abstained(run: Pipeline, example: Example, terms: Terms) -> tuple[float, Evidence]:
    """Score 1 where the generator declined to answer, 0 where it answered: a rate to keep low, or to expect."""
    answer = await run.answer(example.question, terms.k)
    return float(abstains(answer)), Evidence(await run.ranking(example.question, terms.k), answer)


def answer_measure_score(name: str) -> ScoreDef:
    """The score `answer.NAME` of an answer measure."""
    return ScoreDef(
        f"answer.{name}",
        evaluate_answer_measure,
        {"generate"},
        settings=lambda _run, terms: encoder_used({terms.part}),
    )


SCORES: Final = (
    ScoreDef("answer.correct", evaluate_answer_correct, {"generate", "compare"}, verdicts=True),
    *map(answer_measure_score, MEASURES),
    ScoreDef("answer.abstained", evaluate_answer_abstained, {"generate"}),
)
