"""How much do the passages help this generator, and how much do they distract it?

Each retrieved passage is given to the generator alone, as for eRAG, and the judge says whether the passage is relevant,
as for `relevance.*`; the requests are shared. If the generator abstains, the passage counts 0. If it answers, a
relevant passage counts 1, and any other −⅓, since the generator should have abstained. The score is the logistic
function of the mean over the passages. It lies between σ(−⅓) = 0.417 and σ(1) = 0.731; 0.5 means that the list neither
helps nor distracts. A list without passages scores 0. No gold passages and no references are needed. Below the score
are the numbers of useful and distracting passages.
"""

from math import exp, fsum
from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.calls.gathering import gather_all, gather_two
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import YES_THRESHOLD, Evidence
from pytest_rageval.scores.definition import Family, Scored, ScoreDef, WorkedExample, each_example
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore
from pytest_rageval.scores.relevance import RELEVANT

DISTRACTION_VALUE: Final = -1 / 3
"""The value of a passage that is not relevant and from which the generator answers."""


@each_example
async def evaluate_udcg(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Unscored: an example with a passage that has no answer or no verdict.

    Source: Trappolini et al. (2025), "Redefining Retrieval Evaluation in the Era of LLMs", as their code computes it,
    except that an abstention replaces the probability of one.
    """
    ranking = await pipeline.ranking_with_texts(example, resolved.k)
    judged = await gather_all(
        gather_two(
            pipeline.ask(RELEVANT, example.full_question, passage.text),
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


FAMILY: Final = Family(
    "UDCG",
    __doc__,
    requests="1 answer and 1 verdict for each retrieved passage; kept by question and passage, and those of `erag.*` "
    "and `relevance.*`",
    source="Trappolini et al. (2025), as computed by their package; with an abstention as 0 or 1, not as a "
    "probability.",
    example=WorkedExample(
        text="The retriever returns `x`, `y`, `z`. The judge calls `y` and `z` relevant. From `x` and `y` alone the "
        "generator answers, from `z` it does not: `x` distracts and `y` helps.",
        k=3,
        record={"question": "Where is the company based?"},
        retrieved=("x", "y", "z"),
        says={"x": "Boston", "y": "Tulsa", "z": "no answer in the documents"},
        judge={"relevant": ["Passage y.", "Passage z."]},
    ),
)

SCORES: Final = (
    ScoreDef(
        "udcg",
        evaluate_udcg,
        {"generate", RELEVANT},
        (0.0, _logistic(1)),
        definition="The logistic function of the mean value of the first k passages. The value of a passage is 1 if it "
        "is relevant and the generator answers from it alone, -1/3 if the generator answers although it is not "
        "relevant, 0 if the generator abstains.",
        worked=(0.5553, "σ((−⅓ + 1 + 0) / 3) = σ(0.222)"),
        one_passage=True,
    ),
)
