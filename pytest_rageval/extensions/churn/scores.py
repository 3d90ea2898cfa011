"""How far is each ranking from that of the baseline?

These need neither gold passages nor a model: they say what a change moved, not whether it is better. `rbo` is the
rank-biased overlap of the ranking now with that of the baseline, in which the first ranks weigh most. In the baseline
it is 1. So `max_drop=0.1` allows a mean overlap of 0.9, tested as any drop is, and `max_lost=0` allows no other ranking
at all. `churn` has a `max` alone; it takes the rankings from a score of the test with the same cut-off that is in the
baseline, such as `rbo`. A question that is new or edited is undefined. [No labels yet](../how-to/no-labels.md) is a
guide.
"""

from typing import Final

from pytest_rageval.core.data import Example
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.scores.definition import Family, ScoreDef, WorkedExample, each_example
from pytest_rageval.scores.pipeline import Evaluation, Pipeline, ResolvedScore


def _of_itself(value: float) -> Evaluation:
    """Return the evaluation of a ranking against itself, as in an update; `comparison` compares with the baseline."""

    @each_example
    async def evaluate(
        pipeline: Pipeline, example: Example, resolved: ResolvedScore
    ) -> tuple[float, Evidence]:
        return value, Evidence(await pipeline.ranking(example, resolved.k))

    return evaluate


FAMILY: Final = Family(
    "Rankings against those of the baseline",
    __doc__,
    requests="none",
    source="Webber, Moffat and Zobel (2010), extrapolated (equation 32), with p = 0.9.",
    example=WorkedExample(
        text="In the baseline the retriever returned `a`, `b`, `c`; now it returns `a`, `c`, `d`.",
        k=3,
        record={"question": "Where is the company based?"},
        retrieved=(),
    ),
)

SCORES: Final = (
    ScoreDef(
        "rbo",
        _of_itself(1.0),
        family=FAMILY,
        definition="The rank-biased overlap of the first k with the first k in the baseline.",
        worked=(0.685, "the agreements are 1, ½, ⅔: 0.1 · (1 + 0.9 · ½ + 0.81 · ⅔) + 0.729 · ⅔"),
        needs=("a baseline",),
    ),
    ScoreDef(
        "churn",
        _of_itself(0.0),
        family=FAMILY,
        definition="The share of the first k in the baseline that are no longer among the first k.",
        worked=(1 / 3, "`b`, of 3"),
        needs=("a baseline",),
        is_cost=True,
    ),
)
