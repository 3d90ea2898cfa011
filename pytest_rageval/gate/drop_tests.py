"""The significance tests of the drops of one test's scores, which share one error rate."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from math import ceil, fsum, log2, nan
from typing import Final

from pytest_rageval.datatypes import Example
from pytest_rageval.errors import InputError
from pytest_rageval.gate.drops import Compared, DropTest
from pytest_rageval.stats.paired_tests import PairedDrops, drop_interval, joint_drop_test
from pytest_rageval.stats.power import (
    design_effect,
    detectable_drop,
    examples_needed,
    intraclass_correlation,
)

__all__ = ["GOLD", "drop_tests", "question_clusters"]

GOLD: Final = ("gold.source", "gold.id")  # as `cluster`: the files of the gold passages, or their ids

TIMES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""By how many times a set is enlarged to find the size that excludes a drop."""


def drop_tests(parts: Sequence[Compared], *, tests: int = 1, apart: int = 0) -> list[DropTest]:
    """Test the drops of the scores of one test.

    They are tested jointly, which takes their correlation into account
    (`pytest_rageval.stats.paired_tests.joint_drop_test`): all thresholds of the test keep their level together, and
    among the tests of a run the level is divided (Bonferroni). Scores by clusters are tested apart from others, each
    kind at its share of the level. So is each threshold whose questions are asked until its verdict is clear, since
    which of them are left for this test depends on what was seen. A `strict` threshold is tested alone at its own
    level: it can only pass wrongly, and does not do so more often beside others.

    Args:
        parts: scores of the same eval set, or of slices of it.
        tests: number of the run's tests that share the level.
        apart: number of further shares of the level, for thresholds whose questions are asked until it is clear.

    Raises:
        InputError: no example has what `cluster` names.
    """
    results: dict[int, DropTest] = {}
    groups: defaultdict[str | None, list[int]] = defaultdict(list)
    for i, part in enumerate(parts):
        if part.threshold.strict:
            results[i] = _exclusion(part)
        elif part.level is not None:
            [results[i]] = _jointly([part], None, [part.level])
        else:
            groups[part.threshold.cluster].append(i)
    for cluster, members in groups.items():
        shares = tests * (len(groups) + apart)
        levels = [parts[i].threshold.alpha / shares for i in members]
        joint = _jointly([parts[i] for i in members], cluster, levels)
        results |= dict(zip(members, joint, strict=True))
    return [results[i] for i in range(len(parts))]


def _jointly(parts: Sequence[Compared], cluster: str | None, levels: Sequence[float]) -> list[DropTest]:
    examples = {each.id: each for part in parts for each in part.comparison.examples}
    clusters = None if cluster is None else question_clusters(examples.values(), cluster)
    columns = []
    for part in parts:
        drop_of = part.comparison.drop_of
        columns.append(PairedDrops([drop_of.get(name, nan) for name in examples], part.beyond, part.largest))
    shared = _shared_gold(examples.values()) if clusters is None else clusters
    cluster_of = dict(zip(examples, shared, strict=True))
    # Thresholds of one test nearly always have one alpha. A p-value does not depend on the alpha of others.
    joints = {
        alpha: joint_drop_test(columns, alpha=alpha, clusters=clusters, seed=parts[0].seed)
        for alpha in set(levels)
    }
    results = []
    for i, (part, alpha) in enumerate(zip(parts, levels, strict=True)):
        found = joints[alpha].scores[i]
        own = [cluster_of[each.id] for each in part.comparison.examples]
        effect = _design_effect(part.comparison.drops, own, unknown=float(cluster is not None))
        detectable, needed = _power(part, joints[alpha].level, 1.0 if cluster is None else effect)
        results.append(
            DropTest(
                part.comparison,
                found.p_value,
                alpha,
                (found.low, found.high),
                part.beyond,
                detectable,
                needed,
                # The smallest p-value is 1/2^(n + 1): the observed one of all sign patterns, which counts half.
                least=ceil(log2(1 / alpha)) - 1,
                clusters=None if cluster is None else len(set(own)),
                design_effect=effect,
                skewed=found.needs_symmetry,
                settled=joints[alpha].settled,
            )
        )
    return results


def _design_effect(drops: Sequence[float], clusters: Sequence[Hashable], *, unknown: float) -> float:
    """The design effect; `unknown` is the correlation where too few examples changed to estimate it."""
    if len(set(clusters)) == len(clusters):
        return 1.0
    correlation = intraclass_correlation(drops, clusters)
    sizes = list(Counter(clusters).values())
    return max(1.0, design_effect(sizes, unknown if correlation is None else correlation))


def _power(part: Compared, alpha: float, effect: float) -> tuple[float | None, int | None]:
    """The drop that is detected at 80% power, and the number of examples needed."""
    drops, max_drop = part.comparison.drops, part.threshold.max_drop or 0.0
    # What a question of the baseline loses where it loses everything, on average over such losses.
    outcomes = part.comparison.outcomes
    heights = [
        drop + (outcome.value or 0.0) - part.scale[0] for outcome, drop in zip(outcomes, drops, strict=True)
    ]
    whole = fsum(heights)
    loss = fsum(height**2 for height in heights) / whole if whole > 0 else None
    bounds = {"alpha": alpha, "max_drop": max_drop, "beyond": part.beyond, "design_effect": effect}
    return detectable_drop(drops, loss=loss, **bounds), examples_needed(drops, **bounds)


def _exclusion(part: Compared) -> DropTest:
    """The test of "the drop is `max_drop` or more", and how many such examples would exclude it."""
    # Imported late: nothing else in the gate always needs numpy.
    from pytest_rageval.stats.noninferiority import noninferiority_p_value  # noqa: PLC0415

    drops, margin, alpha = part.comparison.drops, part.threshold.max_drop or 0.0, part.threshold.alpha
    p_value = noninferiority_p_value(drops, margin, largest=part.largest)
    enough = (
        times
        for times in TIMES
        if noninferiority_p_value(drops * times, margin, largest=part.largest) <= alpha
    )
    times = next(enough, None)
    return DropTest(
        part.comparison,
        p_value,
        alpha,
        drop_interval(drops, alpha=alpha, largest=part.largest),
        margin,
        needed=None if times is None else times * len(drops),
    )


def _shared_gold(examples: Iterable[Example]) -> list[Hashable]:
    """Clusters by the files of gold passages; by their ids where they have no files."""
    examples = list(examples)
    for by in GOLD:
        with suppress(InputError):
            return question_clusters(examples, by)
    return [example.id for example in examples]


def question_clusters(examples: Iterable[Example], by: str) -> list[Hashable]:
    """The cluster of each example: examples that share a value of a tag, or a file of gold passages.

    Args:
        examples: of an eval set.
        by: name of a tag; or "gold.source" or "gold.id". Where examples have several values, those that are
            linked by a chain of shared ones are one cluster. An example without a value is a cluster of its own.

    Raises:
        InputError: no example has such a value.
    """
    # Examples by their places: a tuple for each name and value takes as much memory as the examples.
    root: list[int] = []
    first: dict[str, int] = {}

    def top(place: int) -> int:
        while root[place] != place:
            # Path halving, so that a topic of 100,000 questions is not a chain of that many steps.
            root[place] = place = root[root[place]]
        return place

    for place, example in enumerate(examples):
        root.append(place)
        for value in _cluster_values(example, by):
            other = first.setdefault(value, place)
            if other != place:
                root[top(place)] = top(other)
    if not first:
        what = f"gold passage with a {by.removeprefix('gold.')}" if by in GOLD else f"tag {by!r}"
        raise InputError(
            f"cluster={by!r}: no example has a {what}.\n"
            f'Name a tag of the eval set, or "{GOLD[0]}" or "{GOLD[1]}" for what the gold passages share.'
        )
    return [*map(top, range(len(root)))]


def _cluster_values(example: Example, by: str) -> Iterable[str]:
    if by in GOLD:
        found = (getattr(gold, by.removeprefix("gold.")) for gold in example.gold)
        return [value for value in found if value is not None]
    value = example.tags.get(by)
    return [str(each) for each in (value if isinstance(value, list) else [value]) if each is not None]
