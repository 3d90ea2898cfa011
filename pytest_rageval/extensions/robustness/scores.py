"""Does the retriever find the same for a question with typos, without accents, as keywords?

Eval sets have clean questions, users do not. `perturb="typos,case"` of the marker names changes of each question; see
[Robustness](../how-to/robustness.md). Each changed question is one more retrieval. The scores are means over the
perturbations, with the value of each, and of the question as it is, below the score. A perturbation that leaves a
question as it is does not count for it; a question that none changes is undefined. `robust.rbo` compares with the
ranking of the question as it is, and needs no gold passages.

`perturb` is part of the question: with other perturbations all questions are edited ones for the baseline. So give
robustness a test of its own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final

from pytest_rageval.core.data import Example
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.extensions.robustness.perturbations import PERTURB, perturbations_of
from pytest_rageval.run.registry import resolve
from pytest_rageval.scores.definition import GOLD, Family, ScoreDef, WorkedExample, score_with_progress
from pytest_rageval.scores.pipeline import Evaluation, Pipeline, ResolvedScore
from pytest_rageval.stats.rank_overlap import rank_biased_overlap

UNPERTURBED: Final = "unperturbed"
RBO: Final = "rbo"


def _evaluation(measure: str, combine: Callable[[Iterable[float]], float] = fmean) -> Evaluation:
    """Return the evaluation of a measure on perturbed questions; `combine` makes one value of those of an example."""

    async def evaluate(
        pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
    ) -> list[Outcome]:
        if not any(PERTURB in example.added for example in examples):
            raise InputError(
                f"{resolved.spec} needs to know how questions are changed.\n"
                f'Write rageval_evalset("…", {PERTURB}="typos,case").'
            )
        changes = [(each, *change) for each in examples for change in perturbations_of(each, pipeline.seed)]
        # No id of an eval set begins with a line break, so that these are different ones.
        changed = [
            replace(example, id=f"\n{number}\n{example.id}", question=question)
            for number, (example, _, question) in enumerate(changes)
        ]
        origins = {new.id: old for new, (old, *_) in zip(changed, changes, strict=True)}
        if measure == RBO:
            outcomes = await _overlaps(pipeline, [*examples, *changed], origins, resolved.k)
        else:
            plain, score = resolve(ScoreRequest(f"{measure}@{resolved.k}"))
            outcomes = await score.evaluate(pipeline, [*examples, *changed], plain)
        by_example: defaultdict[str, list[tuple[str, Outcome]]] = defaultdict(list)
        for (example, name, _), outcome in zip(changes, outcomes[len(examples) :], strict=True):
            by_example[example.id].append((name, outcome))
        return [
            _combined(outcome, by_example[outcome.example.id], combine)
            for outcome in outcomes[: len(examples)]
        ]

    return evaluate


async def _overlaps(
    pipeline: Pipeline, examples: Sequence[Example], origins: Mapping[str, Example], k: int
) -> list[Outcome]:
    """Score each example by the overlap of its ranking with that of the example that it was made of, or of itself."""

    async def score(example: Example) -> tuple[float, Evidence]:
        ranking = await pipeline.ranking(example, k)
        original = await pipeline.ranking(origins.get(example.id, example), k)
        before, now = ([[each.identity] for each in one] for one in (original, ranking))
        return rank_biased_overlap(before, now), Evidence(ranking)

    return await score_with_progress(pipeline, examples, score)


def _combined(
    plain: Outcome, changed: Sequence[tuple[str, Outcome]], combine: Callable[[Iterable[float]], float]
) -> Outcome:
    """Return the outcome of an example from those of its question as it is, and of its changed questions."""
    lacking = next(
        (each for each in (plain, *(outcome for _, outcome in changed)) if each.value is None), None
    )
    if lacking is not None:
        return replace(lacking, example=plain.example)
    if not changed:
        return Outcome(plain.example, None, undefined="no perturbation changes the question")
    values: defaultdict[str, list[float]] = defaultdict(list, {UNPERTURBED: [plain.value or 0.0]})
    for name, outcome in changed:
        values[name].append(outcome.value or 0.0)
    name, worst = min(changed, key=lambda each: each[1].value or 0.0)
    is_worse = (worst.value or 0.0) < (plain.value or 0.0)
    evidence = replace(
        (worst if is_worse else plain).evidence,
        beside={each: fmean(items) for each, items in values.items()},
        remark=f"{name}: {worst.example.question}" if is_worse else "",
    )
    return Outcome(plain.example, combine(outcome.value or 0.0 for _, outcome in changed), None, evidence)


FAMILY: Final = Family(
    "Robustness",
    __doc__,
    requests="none.",
    source="our own; rank-biased overlap: Webber et al. (2010), extrapolated, with p = 0.9.",
    example=WorkedExample(
        text="The only perturbation is a variant of the question. For it the retriever returns `a`, `c`, `d`, and for "
        "the question `c`, `a`, `d`. The gold passage is `c`.",
        k=3,
        record={
            "question": "Where is the company based?",
            "gold": [{"id": "c"}],
            "perturb": "variants",
            "variants": ["The company is where?"],
        },
        retrieved=("c", "a", "d"),
        others={"The company is where?": ("a", "c", "d")},
    ),
)


def _score(
    name: str, evaluate: Evaluation, definition: str, worked: tuple[float, str], *needs: str
) -> ScoreDef:
    return ScoreDef(
        f"robust.{name}",
        evaluate,
        settings=lambda pipeline, _: {"seed": pipeline.seed},
        family=FAMILY,
        definition=definition,
        worked=worked,
        needs=needs,
    )


SCORES: Final = (
    *(
        _score(name, _evaluation(name), f"The mean of `{name}@k` over the perturbations.", worked, GOLD)
        for name, worked in {
            "recall": (1.0, "`c` is there"),
            "hit": (1.0, "`c` is there"),
            "mrr": (0.5, "`c` is at rank 2"),
            "ndcg": (0.6309, "1 / log₂ 3"),
        }.items()
    ),
    _score(
        "worst",
        _evaluation("recall", min),
        "The lowest `recall@k` of all perturbations.",
        (1.0, "`c` is there"),
        GOLD,
    ),
    _score(
        RBO,
        _evaluation(RBO),
        "The mean rank-biased overlap of the ranking with that of the question as it is.",
        (0.9, "the agreement is 0 at rank 1, and 1 from rank 2 on: 0.1 · 0 + 0.9"),
    ),
)
