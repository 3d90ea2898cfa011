"""Is the answer right?

If there are several references, the best match counts. An abstention ("the documents do not say") scores 0, except for
`answer.abstained`. Text is compared in the normal form of SQuAD: lower case, without punctuation and English articles.
With an `answer_set`, `answer.correct` requires every answer; the other scores leave such a question unscored.

ROUGE, BLEU and METEOR need the extra `overlap`, BERTScore and cosine the extra `dense`.
"""

from collections.abc import Mapping
from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.comparators import MEASURES, Measure, measure_fingerprint
from pytest_rageval.core.data import Example
from pytest_rageval.core.errors import NoGroundTruth
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.scores.definition import REFERENCES, Family, ScoreDef, WorkedExample, each_example
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

BY_ENCODER: Final = "by the packaged encoder"

MEASURE_TEXTS: Final[Mapping[str, tuple[str, tuple[float, str]]]] = {
    "em": (
        "Exact match: 1 if the answer equals a reference, else 0.",
        (0.0, '"within" is not in the reference'),
    ),
    "f1": (
        "The harmonic mean of precision and recall of the words that answer and reference have in common.",
        (0.8571, "precision ¾, recall 1: 2 · ¾ / 1¾"),
    ),
    "token_recall": ("The share of the reference's words that the answer has too.", (1.0, "3 of 3 words")),
    "containment": (
        "1 if the words of a reference occur in the answer, in order and without gaps, else 0.",
        (1.0, '"five working days" occurs'),
    ),
    "rouge1": ("ROUGE-1: F1 of the common words.", (0.8571, "3 of 4 and 3 of 3 words")),
    "rouge2": ("ROUGE-2: F1 of the common pairs of neighbouring words.", (0.8, "2 of 3 and 2 of 2 pairs")),
    "rougeL": (
        "ROUGE-L: F1 by the longest common subsequence of words.",
        (0.8571, "3 words in the same order"),
    ),
    "bleu": (
        (
            "BLEU of the sentence: the geometric mean of the precisions of 1 to 4 words in a row, with a penalty for "
            "short answers."
        ),
        (0.5946, "precisions ¾, ⅔, ½ and a smoothed ½"),
    ),
    "meteor": (
        "METEOR: mostly recall of words and stems, with a penalty for words out of order; without synonyms.",
        (0.9498, "precision ¾, recall 1, one run of words"),
    ),
    "bertscore": (
        "BERTScore, F1: each token is matched with the most similar token of the other text.",
        (0.8669, BY_ENCODER),
    ),
    "bertscore_p": ("BERTScore, precision: over the tokens of the answer.", (0.801, BY_ENCODER)),
    "bertscore_r": ("BERTScore, recall: over the tokens of the reference.", (0.9445, BY_ENCODER)),
    "cosine": (
        "The cosine of the embeddings of answer and reference; negative values count as 0.",
        (0.8532, BY_ENCODER),
    ),
}
"""The definitions of the built-in answer measures by name, each with its value in the worked example."""


def answer_measure_score(name: str) -> ScoreDef:
    """Return the definition of the score `answer.NAME` for an answer measure."""
    measure = MEASURES.get(name)
    definition, worked = MEASURE_TEXTS.get(name, ("", (0.0, "")))
    return ScoreDef(
        f"answer.{name}",
        evaluate_answer_measure,
        {"generate"},
        settings=lambda pipeline, resolved: measure_fingerprint(pipeline.measures, {resolved.part}),
        family=FAMILY,
        definition=definition or (measure.definition if isinstance(measure, Measure) else ""),
        worked=worked,
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
        worked=(1.0, "the verdict is yes"),
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
        worked=(0.0, "it answers"),
    ),
)
