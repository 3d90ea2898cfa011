"""Is the answer right?

If there are several references, the best match counts. An abstention ("the documents do not say") scores 0, except for
`answer.abstained`. Text is compared in the normal form of SQuAD: lower case, without punctuation and English articles.
With an `answer_set`, `answer.correct` requires every answer; the other scores leave such a question unscored.

ROUGE, BLEU and METEOR need the extra `overlap`, BERTScore and cosine the extra `dense`.
"""

from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.comparators import MEASURES, Measure, measure_fingerprint
from pytest_rageval.core.errors import NoGroundTruth
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.scores.definition import REFERENCES, Family, Scored, ScoreDef, WorkedExample, each_example
from pytest_rageval.scores.pipeline import NO_REFERENCES, Pipeline, ResolvedScore, expected_of, references_of


@each_example
async def evaluate_answer_correct(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Unscored: an example without references and without an `answer_set`."""
    references = references_of(example)
    # Checked before the first request, so that an example that cannot be scored costs nothing.
    if not references and not example.answer_set:
        raise NoGroundTruth(NO_REFERENCES)
    ranking, answer = await pipeline.ranking_and_answer(example, resolved.k)
    correct = await pipeline.correctness(example, answer, resolved.comparator)
    return correct, Evidence(ranking, answer, *expected_of(example))


@each_example
async def evaluate_answer_measure(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Score the reference with the highest value.

    An abstention is 0, even if it has words in common with a reference: "no answer in the documents" does not contain
    the answer "no". Unscored: an example without references, or with an `answer_set`.
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
async def evaluate_answer_abstained(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    ranking, answer = await pipeline.ranking_and_answer(example, resolved.k)
    return float(abstains(answer)), Evidence(ranking, answer)


FAMILY: Final = Family(
    "Answers against references",
    __doc__,
    requests="1 answer; `answer.correct` also 1 verdict",
    source="Exact match and token F1: SQuAD (Rajpurkar et al., 2016). Containment: Chen et al. (2017). ROUGE: Lin "
    "(2004), by rouge-score. BLEU: Papineni et al. (2002), by sacreBLEU. METEOR: Lavie and Agarwal (2007), by NLTK. "
    "BERTScore: Zhang et al. (2020). Cosine: Reimers and Gurevych (2019).",
    example=WorkedExample(
        text='The reference is "five working days", the answer "within five working days". The judge says yes.',
        k=1,
        record={"question": "How long does a refund take?", "answers": ["five working days"]},
        retrieved=("x",),
        says={"x": "within five working days"},
    ),
)


def answer_measure_score(name: str) -> ScoreDef:
    measure = MEASURES.get(name)
    return ScoreDef(
        f"answer.{name}",
        evaluate_answer_measure,
        {"generate"},
        settings=lambda pipeline, resolved: measure_fingerprint(pipeline.measures, {resolved.part}),
        family=FAMILY,
        definition=measure.definition if isinstance(measure, Measure) else "",
        worked=measure.worked if isinstance(measure, Measure) else (0.0, ""),
        needs=(REFERENCES,),
        extra=measure.extra if isinstance(measure, Measure) else None,
    )


SCORES: Final = (
    ScoreDef(
        "answer.correct",
        evaluate_answer_correct,
        {"generate", "compare"},
        corrected_by="answers",
        definition="The judge's verdict whether the answer says the same as a reference answer.",
        worked=(1.0, "the verdict is yes"),
        needs=(REFERENCES,),
    ),
    *map(answer_measure_score, MEASURES),
    ScoreDef(
        "answer.abstained",
        evaluate_answer_abstained,
        {"generate"},
        definition="1 if the generator declines to answer, else 0. "
        "Bound it with `max`, or with `min` on questions that have no answer.",
        worked=(0.0, "it answers"),
    ),
)
