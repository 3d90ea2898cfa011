"""Tests whether the scores of one test dropped, with a common error rate for all of them."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import repeat
from math import ceil, fsum, log, log2, nan
from typing import Final, NamedTuple

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.policy import NOTABLE_DESIGN_EFFECT
from pytest_rageval.gate.comparison import Comparison
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.stats.intervals import SCORE_TOLERANCE, UNIT
from pytest_rageval.stats.paired_tests import PairedDrops, drop_interval, joint_drop_test
from pytest_rageval.stats.power import (
    MIN_CHANGES,
    design_effect,
    detectable_drop,
    examples_needed,
    intraclass_correlation,
)

MIN_CLUSTERS: Final = 20
"""With fewer clusters the test of a drop has little power, and its level is only approximate."""


class DropTestInput(NamedTuple):
    """A score, perhaps of a slice, whose drop is to be tested.

    `scale` has the lowest and the highest value of an example. `level` is the level of the test, for a threshold with
    early stop whose questions were all evaluated; else it is computed.
    """

    threshold: Threshold
    comparison: Comparison
    scale: tuple[float, float] = UNIT
    seed: int = 0
    level: float | None = None

    @property
    def largest(self) -> float:
        """The largest possible difference of an example; a score without a declared scale may exceed its scale."""
        return max([self.scale[1] - self.scale[0], 2 * self.beyond, *map(abs, self.comparison.drops)])

    @property
    def beyond(self) -> float:
        """The mean drop under the null hypothesis: `max_drop` with the burden "beyond", else 0."""
        return (self.threshold.max_drop or 0.0) if self.threshold.policy.burden == "beyond" else 0.0


@dataclass(frozen=True, slots=True)
class DropTestResult:
    """The result of a test of a drop.

    Attributes:
        p_value: the p-value of the null hypothesis that the mean drop is at most `beyond`, adjusted for the thresholds
            that are tested jointly. With the burden "exclude" the null hypothesis is that the drop is at least
            `max_drop`.
        alpha: the level that the p-value is compared with: the threshold's alpha divided by its number of shares.
        interval: the confidence interval of the true drop; it agrees with the test.
        detectable_drop: the drop that this number of examples detects at 80% power; None with the burden "exclude".
        examples_needed: the number of examples that would detect the observed drop at 80% power; with the burden
            "exclude", that would exclude a drop of `max_drop`. None if no number would, or more than 32 times as many.
        min_examples: the smallest number of examples, or clusters, that can show a drop if all of them get worse; with
            the burden "exclude", that can exclude one if nothing changed.
        cluster: what makes examples a cluster: a tag, "gold.source" or "gold.id"; None if they are independent.
        design_effect: the variance factor of clusters or, without clusters, of examples that share gold passages.
        needs_symmetry: True if the result is significant only under the assumption that losses and gains are of similar
            size.
        settled: False if the p-value is too close to alpha for 1,000,000 random draws.
        with_lost: the result if the examples that had a score and have none now had the lowest one.
        all_wrong: the result if all examples had the lowest score; None with the burden "exclude", or if so many can
            lose that the test would be significant without doubt.
    """

    comparison: Comparison
    p_value: float
    alpha: float
    interval: tuple[float, float]
    beyond: float = 0.0
    detectable_drop: float | None = None
    examples_needed: int | None = None
    min_examples: int | None = None
    cluster: str | None = None
    n_clusters: int | None = None
    design_effect: float = 1.0
    needs_symmetry: bool = False
    settled: bool = True
    with_lost: "DropTestResult | None" = None
    all_wrong: "DropTestResult | None" = None

    @property
    def significant(self) -> bool:
        return self.p_value <= self.alpha


SOURCE: Final = "gold.source"
GOLD_CLUSTERS: Final = (SOURCE, "gold.id")
"""The values of `cluster` that are not tags: clusters by the files of the gold passages, or by their ids."""

ENLARGEMENTS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""The factors by which a set is enlarged to find the number of examples that excludes a drop."""

MANY_EXAMPLES: Final = 1000
MANY_LOSSES: Final = 0.2
"""If the share of so many examples is lost and none gains, a drop is significant at every level that occurs."""


def run_drop_tests(
    inputs: Sequence[DropTestInput], *, family_size: int = 1, extra_alpha_shares: int = 0
) -> list[DropTestResult]:
    """Test the drops of the scores of one eval set, or of slices of it, at one of `family_size` shares of the level.

    The drops are tested jointly, which takes the correlations of the scores into account
    (`pytest_rageval.stats.paired_tests.joint_drop_test`). All thresholds of the test together keep their level, and the
    level is divided among the tests of the run (Bonferroni). There are three exceptions:

    - Scores with the same `cluster` are tested jointly, and separately from other scores; each group has an equal share
      of the level.
    - A threshold with early stop is tested alone, at its own share of the level, because the data decides whether it
      reaches this test. `extra_alpha_shares` is the number of such shares in this test.
    - A threshold with the burden "exclude" is tested alone at its own undivided level. A wrong decision is a pass,
      whose probability does not depend on other thresholds.

    The same tests are repeated for two worst cases: what the examples without a score may hide, and a retriever that
    finds nothing, which the threshold must be able to detect.

    Raises:
        InputError: no example has the tag or the gold passages that `cluster` names.
    """
    clusters = [test_input.threshold.policy.fixed_cluster for test_input in inputs]
    automatic = _automatic_cluster(inputs)
    for i, test_input in enumerate(inputs):
        if test_input.threshold.policy.cluster == "auto" and test_input.level is None:
            clusters[i] = automatic

    def run_on(comparisons: Mapping[int, Comparison], *, power: bool = False) -> dict[int, DropTestResult]:
        replaced = [inputs[i]._replace(comparison=comparison) for i, comparison in comparisons.items()]
        tested = _run_tests(
            replaced,
            [clusters[i] for i in comparisons],
            alpha_shares=(family_size, extra_alpha_shares),
            power=power,
        )
        return dict(zip(comparisons, tested, strict=True))

    comparisons = {i: test_input.comparison for i, test_input in enumerate(inputs)}
    results = run_on(comparisons, power=True)
    # The scores of a test are tested jointly, so all of them are in their worst case.
    with_lost = (
        run_on({i: comparison.with_lost for i, comparison in comparisons.items()})
        if any(comparison.lost for comparison in comparisons.values())
        else {}
    )
    all_wrong = run_on(
        {i: comparisons[i].all_wrong for i in comparisons if not _surely_shows_a_drop(inputs[i], clusters[i])}
    )
    return [
        replace(
            result,
            with_lost=with_lost.get(i) if result.comparison.lost else None,
            all_wrong=all_wrong.get(i),
        )
        for i, result in results.items()
    ]


def _automatic_cluster(inputs: Sequence[DropTestInput]) -> str | None:
    """Return "gold.source" if questions about one file depend on each other, and there are enough files; else None."""
    # Other tests have no clusters, and perhaps all of the questions with a file.
    inputs = [
        test_input
        for test_input in inputs
        if test_input.threshold.policy.cluster == "auto"
        and not test_input.threshold.policy.strict
        and test_input.level is None
    ]
    examples = {example.id: example for test_input in inputs for example in test_input.comparison.examples}
    try:
        cluster_of = dict(zip(examples, question_clusters(examples.values(), SOURCE), strict=True))
    except InputError:
        return None
    for test_input in inputs:
        own = [cluster_of[example.id] for example in test_input.comparison.examples]
        if (
            len(set(own)) >= MIN_CLUSTERS
            and sum(map(bool, test_input.comparison.drops)) >= MIN_CHANGES
            and _design_effect(test_input.comparison.drops, own, default_correlation=0)
            >= NOTABLE_DESIGN_EFFECT
        ):
            return SOURCE
    return None


def _surely_shows_a_drop(test_input: DropTestInput, cluster: str | None) -> bool:
    """Whether the test need not be run to know that it would be significant if all examples had the lowest score."""
    comparison, threshold = test_input.comparison, test_input.threshold
    if threshold.policy.strict or cluster is not None or comparison.n < MANY_EXAMPLES:
        return threshold.policy.strict
    old_values = [
        drop + (outcome.value or 0.0)
        for outcome, drop in zip(comparison.outcomes, comparison.drops, strict=True)
    ]
    losable = sum(value > comparison.lowest + SCORE_TOLERANCE for value in old_values)
    return (
        losable > MANY_LOSSES * comparison.n and comparison.mean - comparison.lowest > 2 * test_input.beyond
    )


def _run_tests(
    inputs: Sequence[DropTestInput],
    clusters: Sequence[str | None],
    *,
    alpha_shares: tuple[int, int],
    power: bool,
) -> list[DropTestResult]:
    """Run the tests; with `power`, also compute what they can detect. `alpha_shares` are those of `run_drop_tests`."""
    family_size, extra_alpha_shares = alpha_shares
    results: dict[int, DropTestResult] = {}
    groups: defaultdict[str | None, list[int]] = defaultdict(list)
    for i, test_input in enumerate(inputs):
        if test_input.threshold.policy.strict:
            results[i] = _test_exclusion(test_input)
        elif test_input.level is not None:
            [results[i]] = _test_jointly([test_input], None, [test_input.level], power=power)
        else:
            groups[clusters[i]].append(i)
    for cluster, members in groups.items():
        shares = family_size * (len(groups) + extra_alpha_shares)
        levels = [inputs[i].threshold.policy.alpha / shares for i in members]
        joint = _test_jointly([inputs[i] for i in members], cluster, levels, power=power)
        results |= dict(zip(members, joint, strict=True))
    return [results[i] for i in range(len(inputs))]


def _test_jointly(
    inputs: Sequence[DropTestInput], cluster: str | None, levels: Sequence[float], *, power: bool
) -> list[DropTestResult]:
    examples = {example.id: example for test_input in inputs for example in test_input.comparison.examples}
    clusters = None if cluster is None else question_clusters(examples.values(), cluster)
    columns = [
        PairedDrops(
            [*map(test_input.comparison.drops_by_id.get, examples, repeat(nan))],
            test_input.beyond,
            test_input.largest,
        )
        for test_input in inputs
    ]
    # The thresholds of a test nearly always have the same alpha. A p-value does not depend on the alpha of others.
    joint_results = {
        alpha: joint_drop_test(columns, alpha=alpha, clusters=clusters, seed=inputs[0].seed)
        for alpha in set(levels)
    }
    shared = _shared_gold_clusters(examples.values()) if clusters is None else clusters
    cluster_of = dict(zip(examples, shared, strict=True))
    results = []
    for i, (test_input, alpha) in enumerate(zip(inputs, levels, strict=True)):
        result = joint_results[alpha].scores[i]
        own_clusters = [cluster_of[example.id] for example in test_input.comparison.examples]
        effect = _design_effect(
            test_input.comparison.drops, own_clusters, default_correlation=float(cluster is not None)
        )
        factor = 1.0 if cluster is None else effect
        detectable, needed = _power(test_input, joint_results[alpha].level, factor) if power else (None, None)
        results.append(
            DropTestResult(
                test_input.comparison,
                result.p_value,
                alpha,
                (result.low, result.high),
                test_input.beyond,
                detectable,
                needed,
                # If all n examples are lost, the p-value of a 0/1 score is 1/2^n.
                min_examples=ceil(log2(1 / alpha)),
                cluster=cluster,
                n_clusters=None if cluster is None else len(set(own_clusters)),
                design_effect=effect,
                needs_symmetry=result.needs_symmetry,
                settled=joint_results[alpha].settled,
            )
        )
    return results


def _design_effect(
    drops: Sequence[float], clusters: Sequence[Hashable], *, default_correlation: float
) -> float:
    """Return the design effect, at least 1; by default for too few changes to estimate the correlation."""
    if len(set(clusters)) == len(clusters):
        return 1.0
    correlation = intraclass_correlation(drops, clusters)
    sizes = list(Counter(clusters).values())
    return max(1.0, design_effect(sizes, default_correlation if correlation is None else correlation))


def _power(test_input: DropTestInput, alpha: float, design_effect: float) -> tuple[float | None, int | None]:
    """Return the drop that is detected at 80% power, and the number of examples needed for the observed drop."""
    drops, max_drop = test_input.comparison.drops, test_input.threshold.max_drop or 0.0
    # A loss is assumed to be the whole score that a question has in the baseline, on average over such losses.
    pairs = zip(test_input.comparison.outcomes, drops, strict=True)
    old_scores = array("d", (drop + (outcome.value or 0.0) - test_input.scale[0] for outcome, drop in pairs))
    total = fsum(old_scores)
    loss = fsum(score**2 for score in old_scores) / total if total > 0 else None
    parameters = {
        "alpha": alpha,
        "max_drop": max_drop,
        "beyond": test_input.beyond,
        "design_effect": design_effect,
    }
    return detectable_drop(drops, loss=loss, **parameters), examples_needed(drops, **parameters)


def _test_exclusion(test_input: DropTestInput) -> DropTestResult:
    """Test the null hypothesis that the drop is `max_drop` or more, and find how many such examples would reject it."""
    # Imported late: it is the only module of the gate that always needs numpy.
    from pytest_rageval.stats.noninferiority import noninferiority_p_value  # noqa: PLC0415

    drops, threshold, largest = test_input.comparison.drops, test_input.threshold, test_input.largest
    margin, alpha = threshold.max_drop or 0.0, threshold.policy.alpha
    p_value = noninferiority_p_value(drops, margin, largest=largest)
    sufficient = (
        factor
        for factor in ENLARGEMENTS
        if noninferiority_p_value(drops * factor, margin, largest=largest) <= alpha
    )
    factor = next(sufficient, None)
    return DropTestResult(
        test_input.comparison,
        p_value,
        alpha,
        drop_interval(drops, alpha=alpha, largest=largest),
        margin,
        examples_needed=None if factor is None else factor * len(drops),
        # If nothing changed, the p-value is (1 - margin / largest)^n.
        min_examples=ceil(log(alpha) / log(1 - margin / largest)),
    )


def _shared_gold_clusters(examples: Iterable[Example]) -> list[Hashable]:
    """Return the clusters by files of gold passages; without files by their ids, without ids one per example."""
    examples = list(examples)
    for by in GOLD_CLUSTERS:
        with suppress(InputError):
            return question_clusters(examples, by)
    return [example.id for example in examples]


def question_clusters(examples: Iterable[Example], by: str) -> list[Hashable]:
    """Return the cluster of each example: examples that share a value of a tag, or a gold passage, are one cluster.

    `by` is the name of a tag, or "gold.source" or "gold.id". An example may have several values. Examples that are
    linked by a chain of shared values are one cluster. An example without a value is a cluster of its own.

    Raises:
        InputError: no example has such a value.
    """
    # Union-find over the indices of examples: a tuple per name and value would take as much memory as the examples.
    parent: list[int] = []
    first_with_value: dict[str, int] = {}

    def find_root(index: int) -> int:
        while parent[index] != index:
            # Path halving, so that a tag of 100,000 questions is not a chain of as many steps.
            parent[index] = index = parent[parent[index]]
        return index

    for index, example in enumerate(examples):
        parent.append(index)
        for value in _cluster_values(example, by):
            other = first_with_value.setdefault(value, index)
            if other != index:
                parent[find_root(index)] = find_root(other)
    if not first_with_value:
        what = f"gold passage with a {by.removeprefix('gold.')}" if by in GOLD_CLUSTERS else f"tag {by!r}"
        raise InputError(
            f"The policy's cluster {by!r}: no example has a {what}.\n"
            f'Name a tag of the eval set, or "{GOLD_CLUSTERS[0]}" or "{GOLD_CLUSTERS[1]}" for what the gold passages '
            "share."
        )
    return [*map(find_root, range(len(parent)))]


def _cluster_values(example: Example, by: str) -> Iterable[str]:
    if by in GOLD_CLUSTERS:
        values = (getattr(gold, by.removeprefix("gold.")) for gold in example.gold)
        return [value for value in values if value is not None]
    tag = example.tags.get(by)
    return [str(value) for value in (tag if isinstance(tag, list) else [tag]) if value is not None]
