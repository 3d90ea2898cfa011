"""Which grade does a judge give the answer, or the passages?

The scale goes from 1 to 5, so write `min=3.5`. Each grade comes with a short explanation, shown in failures and in the
JSON report. After a reply that is not a grade, the request is repeated once; then the question is unscored.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from statistics import median
from typing import Any, Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge import MAX_GRADE, MIN_GRADE, JudgeTask, Verdict
from pytest_rageval.answers.judge.replies import RATING_FORMAT, RATINGS_FORMAT, parse_rating, parse_ratings
from pytest_rageval.answers.judge.tasks import explained, read_explained
from pytest_rageval.core.errors import NoGroundTruth
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.core.ranking import texts_of
from pytest_rageval.lib.foreign_values import as_number
from pytest_rageval.models.prompts import CRITERIA, RATING_INSTRUCTION, RATINGS_INSTRUCTION
from pytest_rageval.scores.definition import (
    GOLD_TEXTS,
    REFERENCES,
    Family,
    Scored,
    ScoreDef,
    WorkedExample,
    each_example,
)
from pytest_rageval.scores.pipeline import (
    NO_REFERENCES,
    Pipeline,
    ResolvedScore,
    references_of,
    retrieved_gold_texts,
)

GRADES: Final = (float(MIN_GRADE), float(MAX_GRADE))


ALLOWED: Final = (
    f"Return a grade from {MIN_GRADE} to {MAX_GRADE}, or (grade, explanation), or None for no rating."
)


def _grade(value: object) -> float | None:
    # A bool is rejected: True would be 1, the worst grade.
    grade = None if isinstance(value, bool) else as_number(value)
    return grade if grade is not None and MIN_GRADE <= grade <= MAX_GRADE else None


RATE: Final[Mapping[str, JudgeTask[Verdict]]] = {
    criterion: JudgeTask(
        name=f"rate {criterion}",
        template=criterion,
        texts=("question", "rated*", "held against*"),
        parse=parse_rating,
        vote=partial(explained, median),
        read=partial(read_explained, number_of=_grade, allowed=ALLOWED, what="rating"),
        call="rate(criterion, question, rated, against), which the scores judged.* need",
        returns="a grade from 1 to 5, and why",
        decides="A rating from 1 to 5",
        instead="leave out the scores judged.*",
        response_format=RATING_FORMAT,
        instruction=RATING_INSTRUCTION,
    )
    for criterion in CRITERIA
}
"""By criterion: the grade of an answer, or of the retrieved passages, held against references or passages."""


RATE_TOGETHER: Final = JudgeTask(
    name="rate together",
    template="three_grades",
    texts=("question", "answer*", "references*", "passages*", "gold*"),
    parse=parse_ratings,
    vote=lambda votes: tuple(explained(median, each) for each in zip(*votes, strict=True)),
    read=lambda _: (),  # a judge of the user's is called for each grade
    call="rate",
    returns="a grade from 1 to 5, and why",
    decides="A rating from 1 to 5",
    instead="leave out the scores judged.*",
    response_format=RATINGS_FORMAT,
    instruction=RATINGS_INSTRUCTION,
)
"""The grades by all criteria, in their order, in one request: `--rageval grades_together=true`."""


def _asks_together(pipeline: Pipeline) -> AbstractSet[str | JudgeTask[Any]]:
    """Return what a grade depends on besides if all are in one request, which has the answer."""
    return {"generate", RATE_TOGETHER} if pipeline.grades_together else frozenset()


async def _rate(  # noqa: PLR0913, PLR0917 - what is rated
    pipeline: Pipeline,
    example: Example,
    k: int,
    criterion: str,
    rated: Sequence[str],
    against: Sequence[str],
) -> Verdict:
    """Return the grade by a criterion, in a request of its own or, if it can be, in that of all criteria."""
    references = _references(example)
    if pipeline.grades_together and references and not retrieved_gold_texts(example):
        ranking, answer = await pipeline.ranking_and_answer(example, k)
        with suppress(NoGroundTruth):
            gold = texts_of(await pipeline.gold.get(example, k))
            if ranking and not abstains(answer):
                texts = [answer], references, texts_of(ranking), gold
                ratings = await pipeline.ask(RATE_TOGETHER, example.full_question, *texts)
                return ratings[CRITERIA.index(criterion)]
    return await pipeline.ask(RATE[criterion], example.full_question, rated, against)


def _references(example: Example) -> tuple[str, ...]:
    """Return the references, any one of which is right; the answers of an `answer_set` are joined to one."""
    if example.answer_set:
        return ("; ".join(aliases[0] for aliases in example.answer_set),)
    return references_of(example)


@each_example
async def evaluate_correctness(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Unscored: an example without reference answers; an example without a rating."""
    references = _references(example)
    # Checked before the first request, so that an example that cannot be scored costs nothing.
    if not references:
        raise NoGroundTruth(NO_REFERENCES)
    ranking, answer = await pipeline.ranking_and_answer(example, resolved.k)
    rating = Verdict(MIN_GRADE, "The generator gives no answer.")
    if not abstains(answer):
        rating = await _rate(pipeline, example, resolved.k, "correctness", [answer], references)
    return rating.value, Evidence(ranking, answer, references, explanation=rating.explanation)


@each_example
async def evaluate_faithfulness(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    ranking, answer = await pipeline.ranking_and_answer(example, resolved.k)
    if abstains(answer):
        rating = Verdict(MAX_GRADE, "The generator gives no answer, and so states nothing.")
    elif not ranking:
        rating = Verdict(MIN_GRADE, "Nothing was retrieved that could support it.")
    else:
        rating = await _rate(pipeline, example, resolved.k, "faithfulness", [answer], texts_of(ranking))
    return rating.value, Evidence(ranking, answer, explanation=rating.explanation)


@each_example
async def evaluate_context_quality(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Rate whether the first k retrieved passages have the key facts of the gold passages.

    The generator is called only for grades in one request. An empty ranking is 1, without a call of the judge.
    Unscored: an example without gold passages, or with a gold passage without text.
    """
    gold = texts_of(await pipeline.gold.get(example, resolved.k))
    ranking = await pipeline.ranking_with_texts(example, resolved.k)
    rating = Verdict(MIN_GRADE, "Nothing was retrieved.")
    if ranking:
        rating = await _rate(pipeline, example, resolved.k, "context_quality", texts_of(ranking), gold)
    counts = retrieved_gold_texts(example)
    return rating.value, Evidence(ranking, explanation=rating.explanation, counts=counts)


FAMILY: Final = Family(
    "Grades from 1 to 5",
    __doc__,
    requests="1 answer (except `judged.context_quality`), 1 grade; with `--rageval grades_together=true` 1 request for "
    "the three grades of an answer",
    source='The scores of Gülsoy, "Benchmarking Retrieval-Supported Large Language Models for Open-Domain Question '
    'Answering"; our own prompts.',
    example=WorkedExample(
        text="The judge gives the grade 4.",
        k=1,
        record={
            "question": "How long does a refund take?",
            "answers": ["five working days"],
            "gold": [{"id": "g", "text": "Refunds take five working days."}],
        },
        retrieved=("x",),
        says={"x": "about a week"},
        judge={"rate": 4},
    ),
)

_graded: Final = partial(ScoreDef, scale=GRADES, asks_more=_asks_together, worked=(4.0, "the grade"))

SCORES: Final = (
    _graded(
        "judged.correctness",
        evaluate_correctness,
        {"generate", RATE["correctness"]},
        definition="The correctness of the answer, judged by the references. An abstention is 1.",
        needs=(REFERENCES,),
    ),
    _graded(
        "judged.faithfulness",
        evaluate_faithfulness,
        {"generate", RATE["faithfulness"]},
        definition="Whether the retrieved passages support the answer. An abstention is 5; an answer without any "
        "retrieved passage is 1.",
    ),
    _graded(
        "judged.context_quality",
        evaluate_context_quality,
        {RATE["context_quality"]},
        definition="Whether the retrieved passages contain the key facts of the gold passages.",
        needs=(GOLD_TEXTS,),
    ),
)
