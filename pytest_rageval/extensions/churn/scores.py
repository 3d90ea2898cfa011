"""How far is each ranking from that of the baseline?

These need neither gold passages nor a model: they say what a change moved, not whether it is better. `rbo` is the
rank-biased overlap of the ranking now with that of the baseline, in which the first ranks weigh most. In the baseline
it is 1. So `max_drop=0.1` allows a mean overlap of 0.9, tested as any drop is, and `max_lost=0` allows no other ranking
at all. `churn` has a `max` alone; it takes the rankings from a score of the test with the same cut-off that is in the
baseline, such as `rbo`. A question that is new or edited is undefined. [No labels yet](../how-to/no-labels.md) is a
guide.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pytest_rageval.baseline.entries import BaselineScore
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.core.spec import Spec
from pytest_rageval.gate.comparison import is_comparable
from pytest_rageval.gate.verdict import ThresholdInput
from pytest_rageval.lib.text import join_first
from pytest_rageval.run.judged import JudgedTest
from pytest_rageval.scores.definition import Family, ScoreDef, WorkedExample, each_example
from pytest_rageval.scores.pipeline import Evaluation, Pipeline, ResolvedScore
from pytest_rageval.stats.agreement import rank_biased_overlap

MAX_NAMED: Final = 5  # documents in a remark

Numbered = Sequence[tuple[str, int]]
"""The labels of a ranking; of chunks with the label of one document, each has another number."""


def compared(test: JudgedTest, threshold_input: ThresholdInput) -> ThresholdInput | None:
    """Return the input with the score of the rankings now and in the baseline; None in an update."""
    score, threshold, baseline, _ = threshold_input
    spec = Spec.parse(threshold.spec)
    if threshold.max_total_drop is not None:
        raise InputError(
            f"{spec} compares with the rankings of the baseline, and the anchor of max_total_drop has none.\n"
            "Give another policy."
        )
    if baseline.updating or test.session.settings.update_baseline:
        return None
    before = baseline.before if threshold.uses_baseline else _rankings_of_another_score(test, spec)
    if before is None:
        return None
    measure = MEASURES[spec.name]
    outcomes = [_outcome(outcome, before, measure) for outcome in score.outcomes]
    return threshold_input._replace(score=test.session.score_of(threshold.request, outcomes))


def _rankings_of_another_score(test: JudgedTest, spec: Spec) -> BaselineScore:
    """Return a score of the test in the baseline that has rankings with the same cut-off: a cost is in no baseline."""
    baseline, nodeid = test.session.baseline, test.marked.nodeid
    entry = baseline.tests.get(nodeid)
    for name in () if entry is None else entry["scores"]:
        if Spec.parse(name.partition(" ")[0]).k == spec.k and (found := baseline.score(nodeid, name, None)):
            return replace(found, context={*test.record.received})
    raise InputError(
        f"{spec}: the baseline has no rankings of {spec.k} documents of this test to compare with.\n"
        "Run pytest --rageval-update-baseline on the commit to compare with. It writes them for a score "
        f'@{spec.k} with max_drop, such as rageval_threshold("rbo@{spec.k}", max_drop=0.1): the test needs one.'
    )


def _outcome(
    outcome: Outcome, before: BaselineScore, measure: Callable[[Numbered, Numbered], float]
) -> Outcome:
    ranking, example = outcome.evidence.ranking, outcome.example
    if ranking is None:
        return outcome
    then = before.examples[example.id].get("ranking") if is_comparable(example, before) else None
    if then is None:
        return Outcome(example, None, undefined="its question has no ranking in the baseline")
    old, new = _numbered(then), _numbered(ranking.labels)
    parts = {
        "left": [label for label, number in old if (label, number) not in new],
        "new": [label for label, number in new if (label, number) not in old],
    }
    remark = "; ".join(f"{word}: {join_first(labels, MAX_NAMED)}" for word, labels in parts.items() if labels)
    remark = remark or ("another order" if old != new else "")
    return replace(outcome, value=measure(old, new), evidence=replace(outcome.evidence, remark=remark))


def _numbered(labels: Sequence[str]) -> Numbered:
    seen = Counter[str]()
    numbered = []
    for label in labels:
        numbered.append((label, seen[label]))
        seen[label] += 1
    return numbered


def overlap(old: Numbered, new: Numbered) -> float:
    return rank_biased_overlap([[each] for each in old], [[each] for each in new])


def churn(old: Numbered, new: Numbered) -> float:
    return len({*old} - {*new}) / max(len(old), 1)


MEASURES: Final[Mapping[str, Callable[[Numbered, Numbered], float]]] = {"rbo": overlap, "churn": churn}


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
        definition="The rank-biased overlap of the first k with the first k in the baseline.",
        worked=(0.685, "the agreements are 1, ½, ⅔: 0.1 · (1 + 0.9 · ½ + 0.81 · ⅔) + 0.729 · ⅔"),
        needs=("a baseline",),
    ),
    ScoreDef(
        "churn",
        _of_itself(0.0),
        definition="The share of the first k in the baseline that are no longer among the first k.",
        worked=(1 / 3, "`b`, of 3"),
        needs=("a baseline",),
        is_cost=True,
    ),
)
