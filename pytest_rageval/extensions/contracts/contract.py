"""Is each gold passage where its question requires it?

A mean hides the questions that matter most. A gold passage with a `max_rank` must be found at this rank or above:
`"gold": [{"id": "kb-112", "max_rank": 2}]`. With `min=1.0` each question must keep its contract. With `max_lost=0` none
that kept it in the baseline may break it. Questions without a `max_rank` are undefined.
"""

from typing import Final

from pytest_rageval.core.errors import InputError, Undefined
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.evalsets.records import Check
from pytest_rageval.scores.definition import GOLD, Family, ScoreDef, WorkedExample, each_example
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore
from pytest_rageval.scores.ranking import retrieve_and_match

MAX_RANK: Final = "max_rank"


def check_max_rank(value: object, check: Check, *keys: str | int) -> None:
    if check.natural(value, *keys) == 0:
        check.fail(f'"gold"[{keys[1]}] "{MAX_RANK}" is 0, and the first rank is 1', "Give 1 or more.")


@each_example
async def evaluate_contract(
    pipeline: Pipeline, example: Example, resolved: ResolvedScore
) -> tuple[float, Evidence]:
    if all(gold.added is None for gold in example.relevant):
        raise Undefined(f"no gold passage has a {MAX_RANK}")
    ranking, match = await retrieve_and_match(pipeline, example, resolved)
    broken = []
    for gold, rank in zip(example.gold, match.ranks, strict=True):
        limit = int((gold.added or {}).get(MAX_RANK, 0)) if gold.grade else 0
        if limit > resolved.k:
            raise InputError(
                f"{resolved.spec}: {gold.label} has {MAX_RANK} {limit}, and only {resolved.k} documents count.\n"
                f"Write {resolved.spec.name}@{limit}."
            )
        if limit and (rank is None or rank > limit):
            where = f"not among the first {resolved.k}" if rank is None else f"at rank {rank}"
            broken.append(f"{gold.label} must be among the first {limit}, and is {where}")
    return float(not broken), Evidence(ranking, counts=match.counts, remark="; ".join(broken))


SCORES: Final = (
    ScoreDef(
        "contract",
        evaluate_contract,
        family=Family(
            "The contract of a question",
            __doc__,
            requests="none",
            source="our own.",
            example=WorkedExample(
                text="The gold passage `a` must be the first. The retriever returns `c`, `a`, `d`.",
                k=3,
                record={"question": "Where is the company based?", "gold": [{"id": "a", MAX_RANK: 1}]},
                retrieved=("c", "a", "d"),
            ),
        ),
        definition="1 if each gold passage with a `max_rank` is found at this rank or above, else 0.",
        worked=(0.0, "`a` is at rank 2"),
        needs=(GOLD,),
    ),
)
