"""What a judge thinks of an answer and of what it was written from, as grades from 1 to 5: `judged.correctness@5`.

Three criteria: whether the answer is correct by the references, whether the
retrieved passages support it, and whether these hold the key facts of the gold
ones. Each grade has a short explanation, which failures and reports show.

Source: the judge's three scores in Gülsoy, "Benchmarking Retrieval-Supported Large Language Models for
Open-Domain Question Answering"; the prompts are our own.
"""

from collections.abc import Sequence
from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge_protocol import HIGHEST, LOWEST, Rating
from pytest_rageval.errors import NoGroundTruth
from pytest_rageval.evaluations.context import NO_REFERENCES, Pipeline, Terms, gold_passages, references_of
from pytest_rageval.evaluations.scoring import ScoreDef, score_each
from pytest_rageval.model import Example
from pytest_rageval.scores import Evidence, Outcome

__all__ = ["SCORES"]

GRADES: Final = (float(LOWEST), float(HIGHEST))


async def evaluate_correctness(run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
    """Rate the answer from the first k retrieved passages by the reference answers.

    Any one of the references is right; of an `answer_set` all answers are
    wanted, and together they are the one reference. An abstention is 1, and no
    judge is asked. Unscored: an example without reference answers; one for
    which the judge gave no rating.
    """

    async def score(example: Example) -> tuple[float, Evidence]:
        references = references_of(example)
        if example.answer_set:
            # All of them are wanted: together they are the one reference.
            references = ("; ".join(aliases[0] for aliases in example.answer_set),)
        # Before anything is asked: an example that cannot be scored costs nothing.
        if not references:
            raise NoGroundTruth(NO_REFERENCES)
        answer = await run.answer(example.question, terms.k)
        ranking = await run.ranking(example.question, terms.k)
        rating = Rating(LOWEST, "The generator gives no answer.")
        if not abstains(answer):
            rating = await run.rated("correctness", example.question, [answer], references)
        return rating.grade, Evidence(ranking, answer, references, explanation=rating.explanation)

    return await score_each(examples, score)


async def evaluate_faithfulness(run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
    """Rate how far the first k retrieved passages support the answer that was written from them.

    No judge is asked where there is nothing to weigh: an abstention states
    nothing that would need support and is 5; an answer from no passages is 1.
    """

    async def score(example: Example) -> tuple[float, Evidence]:
        answer = await run.answer(example.question, terms.k)
        ranking = await run.readable(example.question, terms.k)
        if abstains(answer):
            rating = Rating(HIGHEST, "The generator gives no answer, and so states nothing.")
        elif not ranking:
            rating = Rating(LOWEST, "Nothing was retrieved that could support it.")
        else:
            texts = [passage.text for passage in ranking]
            rating = await run.rated("faithfulness", example.question, [answer], texts)
        return rating.grade, Evidence(ranking, answer, explanation=rating.explanation)

    return await score_each(examples, score)


async def evaluate_context_quality(run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
    """Rate whether the first k retrieved passages hold the key facts of the gold passages.

    The generator is not asked. An empty ranking is 1, and no judge is asked.
    Unscored: an example without gold passages or without their text.
    """

    async def score(example: Example) -> tuple[float, Evidence]:
        gold = [passage.text for passage in gold_passages(example)]
        ranking = await run.readable(example.question, terms.k)
        rating = Rating(LOWEST, "Nothing was retrieved.")
        if ranking:
            texts = [passage.text for passage in ranking]
            rating = await run.rated("context_quality", example.question, texts, gold)
        return rating.grade, Evidence(ranking, explanation=rating.explanation)

    return await score_each(examples, score)


SCORES: Final = (
    ScoreDef("judged.correctness", evaluate_correctness, {"generate", "rate correctness"}, GRADES),
    ScoreDef("judged.faithfulness", evaluate_faithfulness, {"generate", "rate faithfulness"}, GRADES),
    ScoreDef("judged.context_quality", evaluate_context_quality, {"rate context_quality"}, GRADES),
)
