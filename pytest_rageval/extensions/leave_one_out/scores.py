"""On which passages does the answer depend, together with the others?

`erag.*` gives each passage to the generator alone, and so misses a passage that helps only with another one, as in a
question of two hops. Here one passage is left out instead. The *change* of a passage is the quality of the answer from
the first k passages, less that of the answer without this passage: above 0 the answer needs the passage, below 0 it is
better without it. The quality is that of `answer.correct`; `label="f1"` measures it by another comparison. The answer
without the only passage is one without any. A list without passages scores 0.

The change of a passage is 0 if another passage says the same: `needed` is low where passages repeat each other, and
only `harmful` is always a fault. With verdicts of yes or no, the answer to a question has needed passages only if it is
right, and harmful ones only if it is wrong. Two answers of a generator may differ by chance; `draws=5` takes the mean
of five.

Below the score is the agreement with `erag.*`: `alone`, the mean of the passages' labels there; `same sign`, the share
of the passages that are useful, with a value above 0, in both or in neither; and the mean, over the questions, of
Spearman's correlation of changes and labels, without the questions in which all changes or all labels are equal.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import chain
from statistics import fmean
from typing import Final

from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import NoGroundTruth
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.lib.text import join_first
from pytest_rageval.scores.definition import (
    REFERENCES,
    Family,
    Scored,
    ScoreDef,
    WorkedExample,
    each_example,
)
from pytest_rageval.scores.pipeline import (
    NO_REFERENCES,
    Evaluation,
    Pipeline,
    ResolvedScore,
    expected_of,
    has_references,
)
from pytest_rageval.stats.agreement import spearman_rho

MAX_NAMED: Final = 5  # passages of one kind in a remark

Answered = tuple[float, str]  # the quality of an answer, and the answer


def _evaluation(combine: Callable[[Sequence[float]], float]) -> Evaluation:
    @each_example
    async def evaluate(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
        """Unscored: an example without references; an example with an answer that is missing or has no verdict."""
        if not has_references(example):
            raise NoGroundTruth(NO_REFERENCES)
        ranking = await pipeline.ranking_with_texts(example, resolved.k)
        (whole, answer), without, alone = await _qualities(pipeline, example, resolved, ranking)
        changes = [whole - quality for quality, _ in without]
        labels = tuple(label for label, _ in alone)
        evidence = Evidence(
            ranking,
            answer,
            *expected_of(example),
            labels=labels,
            answers_alone=tuple(text for _, text in alone),
            beside=agreement(changes, labels),
            remark=_remark(ranking, changes),
        )
        return combine(changes) if changes else 0.0, evidence

    return evaluate


async def _qualities(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore, ranking: Ranking
) -> tuple[Answered, Sequence[Answered], Sequence[Answered]]:
    """Return what is answered from all passages, without each of them, and, as for `erag.*`, from each alone."""
    comparator, passages = resolved.label or resolved.comparator, tuple(ranking)
    question = example.full_question if ranking.question is None else ranking.question

    async def together(shown: Sequence[Document]) -> Answered:
        answer = await pipeline.answer_from(question, shown)
        return await pipeline.correctness(example, answer, comparator), answer

    async def alone(passage: Document) -> Answered:
        answer = await pipeline.answer_from(example.full_question, [passage])
        return await pipeline.partial_correctness(example, answer, comparator), answer

    without = (passages[:place] + passages[place + 1 :] for place in range(len(passages)))
    # All at once, so that a plan counts the requests for all of them.
    requests: chain[Awaitable[Answered]] = chain(map(together, (passages, *without)), map(alone, passages))
    whole, *others = await gather_all(requests)
    return whole, others[: len(passages)], others[len(passages) :]


def agreement(changes: Sequence[float], labels: Sequence[float]) -> dict[str, float]:
    """Return how far changes and eRAG's labels of the same passages agree; without passages nothing.

    >>> agreement([1, 0, 1, 0], [1, 0, 0, 0])
    {'alone': 0.25, 'same sign': 0.75, 'Spearman': 0.5773502691896258}
    """
    if not changes:
        return {}
    same = fmean((change > 0) == (label > 0) for change, label in zip(changes, labels, strict=True))
    rho = spearman_rho(changes, labels)
    return {
        "alone": fmean(labels),
        "same sign": same,
        **({} if rho is None else {"Spearman": rho}),
    }


def _remark(ranking: Ranking, changes: Sequence[float]) -> str:
    named = [f"{rank}. {passage.label}" for rank, passage in enumerate(ranking, 1)]
    kinds = {
        "needed": [name for name, change in zip(named, changes, strict=True) if change > 0],
        "harmful": [name for name, change in zip(named, changes, strict=True) if change < 0],
    }
    return "; ".join(f"{kind}: {join_first(names, MAX_NAMED)}" for kind, names in kinds.items() if names)


FAMILY: Final = Family(
    "Leave one passage out",
    __doc__,
    requests="1 answer and 1 verdict, shared with `answer.correct`; and for each retrieved passage 1 of both without "
    "it, and 1 of both from it alone, shared with `erag.*`. An abstention needs no verdict",
    source="our own; the labels of passages alone are those of eRAG.",
    example=WorkedExample(
        text="The answer takes two hops: `x` says that the company is Acme, `y` that Acme is in Tulsa, and `z` names "
        "another town. From all three, and without `z`, the generator answers right; without `x` or `y` it does not, "
        "nor from any passage alone. The changes are 1, 1, 0, and the labels of `erag.*` 0, 0, 0.",
        k=3,
        record={"question": "Where is the company based?", "answers": ["Tulsa"]},
        retrieved=("x", "y", "z"),
        says={
            "x y z": "Tulsa",
            "y z": "Reno",
            "x z": "Reno",
            "x y": "Tulsa",
            "x": "no answer in the documents",
            "y": "no answer in the documents",
            "z": "Reno",
        },
    ),
)


def _score(
    part: str,
    combine: Callable[[Sequence[float]], float],
    definition: str,
    worked: tuple[float, str],
    scale: tuple[float, float] = (0.0, 1.0),
) -> ScoreDef:
    return ScoreDef(
        f"erag.leave_one_out.{part}",
        _evaluation(combine),
        {"generate", "compare", "label"},
        scale,
        comparisons=lambda _pipeline, resolved: {"comparator": resolved.label or resolved.comparator},
        definition=definition,
        worked=worked,
        needs=(REFERENCES,),
        is_cost=part == "harmful",
    )


SCORES: Final = (
    _score(
        "mean", fmean, "The mean change over the passages.", (2 / 3, "(1 + 1 + 0) / 3"), scale=(-1.0, 1.0)
    ),
    _score(
        "needed",
        lambda changes: fmean(change > 0 for change in changes),
        "The share of the passages without which the answer is worse.",
        (2 / 3, "`x` and `y`, of 3"),
    ),
    _score(
        "harmful",
        lambda changes: fmean(change < 0 for change in changes),
        "The share of the passages without which the answer is better. Bound it with `max`.",
        (0.0, "none: the answer is right"),
    ),
)
