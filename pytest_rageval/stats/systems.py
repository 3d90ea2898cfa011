"""Comparison of several systems: the best one, Bradley-Terry ratings from battles, position bias of a judge."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, log
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_rageval.stats.intervals import SCORE_TOLERANCE, Z95, Estimate, proportion
from pytest_rageval.stats.paired_tests import PairedDrops, drop_p_values

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALPHA: Final = 0.05  # the level at which random sign patterns settle whether a p-value is above or below it
MEAN_RATING: Final = 1000.0  # the mean of all ratings
POINTS_PER_LOG_ODDS: Final = 400.0 / log(10)  # 400 points multiply the odds by 10
BOOTSTRAP_BATCH: Final = 50  # number of bootstrap samples that are drawn at a time
STEP_TOL: Final = 1e-8  # the Newton iteration ends at a step this small; the remaining error is of its square
MAX_ITER: Final = 200
"""Maximum number of Newton steps. A few suffice, plus one for each factor e between the odds of two systems."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The result of comparing a system with the best system.

    The p-value, corrected for multiple testing, is that of the null hypothesis that the system's true mean is not below
    that of the best system; None for the best. `common` has the means of both over the shared examples; None if there
    are none, or if both systems have scores of the same examples.
    """

    mean: float
    n: int  # number of the system's scores
    best: bool  # whether no other system has a higher mean
    shared: int  # number of examples with a score of this system and of the best system
    p_value: float | None
    common: tuple[float, float] | None = None


def compare_with_best(systems: Sequence[Mapping[str, float]], *, seed: int = 0) -> list[Standing | None]:
    """Compare each system with the system of the highest mean, over the examples that have a score of both.

    The same data select the best system and test it, so any ordered pair could have been compared. The p-value of each
    one-sided test (`pytest_rageval.stats.paired_tests`) is therefore multiplied by the number m (m - 1) of ordered
    pairs of m systems (Bonferroni). For two systems this is the two-sided test.

    A system is a mapping of its scores by example id, without examples that have no score; its standing is None if it
    has none. Of several systems with the highest mean, the first is the best.

    >>> one, other = compare_with_best([{"a": 1, "b": 1, "c": 1, "d": 0}, {"a": 0, "b": 0, "c": 0, "d": 0}])
    >>> one.best, round(other.p_value, 3)
    (True, 0.145)
    """
    means = [sum(scores.values()) / len(scores) if scores else None for scores in systems]
    known = [mean for mean in means if mean is not None]
    if not known:
        return [None] * len(systems)
    highest = max(known)
    best = systems[means.index(highest)]
    pairs = len(known) * (len(known) - 1)
    standings: list[Standing | None] = []
    for scores, mean in zip(systems, means, strict=True):
        if mean is None:
            standings.append(None)
            continue
        shared = [(score, best[example]) for example, score in scores.items() if example in best]
        drops = [other - score for score, other in shared]
        p_value = None
        if mean < highest - SCORE_TOLERANCE:
            largest = max(1.0, *map(abs, drops)) if drops else 1.0
            test = drop_p_values([PairedDrops(drops, largest=largest)], alpha=ALPHA / pairs, seed=seed)
            p_value = min(1.0, pairs * test.p_values[0])
        differ = shared and not len(shared) == len(scores) == len(best)
        common = (fmean(own for own, _ in shared), fmean(other for _, other in shared)) if differ else None
        standings.append(Standing(mean, len(scores), p_value is None, len(shared), p_value, common))
    return standings


class Battle(NamedTuple):
    """The comparison of two systems' answers to one question.

    `score` is the result of the system `first`, in [0, 1]: 1 won, 0.5 tied, 0 lost.
    """

    first: str
    second: str
    score: float


class UnratableError(ValueError):
    """The likelihood of these battles has no maximum at finite ratings."""


def bradley_terry(
    battles: Iterable[Battle], *, questions: Iterable[str] = (), seed: int = 0
) -> dict[str, Estimate]:
    """Bradley-Terry ratings on an Elo scale, by maximum likelihood over all battles.

    Under the model, the expected score of a system with rating r against a system with rating s is
    `1 / (1 + 10^((s - r) / 400))`. A tie is half a win for both.

    If all battles are against the same system, as those of the arena are against the reference, a rating measures the
    odds against that system (the distance is 400 log10 of the odds). The distance between two other systems is then a
    prediction of the model, not an observation. `questions` has the question of each battle: battles on the same
    question are weighted together, since they have answers in common. If empty, battles are assumed to be independent.

    The result has the rating in points by system, the best first. The mean of all ratings is 1000, so only differences
    between systems of the same call are meaningful. The interval is the rating ± 1.96 standard errors, from the
    standard deviation of 2,000 Bayesian bootstrap samples of the questions, or of the battles; the order of the battles
    does not matter. Weights are never zero, so each sample has ratings if the data has. If all battles were ties the
    interval has zero width.

    Raises:
        UnratableError: the likelihood has no maximum, because a group of systems won every battle against the rest,
            without a tie, or never met the rest. The distance between the two groups is then unbounded, and no prior
            is assumed to limit it.
        ValueError: a score is outside [0, 1], or a system battles itself.

    Source: Bradley and Terry (1952), "Rank analysis of incomplete block designs: I"; when ratings exist: Ford (1957),
    "Solution of a ranking problem from binary comparisons"; the bootstrap: Rubin (1981), "The Bayesian bootstrap".
    Ties and the Elo scale as in RAG-QA Arena (Han et al. 2024).

    >>> nine = [Battle("a", "b", 1)] * 9 + [Battle("a", "b", 0)]
    >>> {name: round(rating.value, 2) for name, rating in bradley_terry(nine).items()}
    {'a': 1190.85, 'b': 809.15}
    """
    # Imported late: the other functions need no numpy.
    import numpy as np  # noqa: PLC0415

    from pytest_rageval.stats.bootstrap import N_RESAMPLES  # noqa: PLC0415

    oriented = list(map(_orient, battles))
    outcomes = sorted(Counter(oriented).items())
    names = sorted({name for (first, second, _), _ in outcomes for name in (first, second)})
    index_of = {name: i for i, name in enumerate(names)}
    # A matrix per distinct outcome: the share of the win of the row's system over the column's.
    shares = np.zeros((len(outcomes), len(names), len(names)))
    for row, ((first, second, score), _) in enumerate(outcomes):
        shares[row, index_of[first], index_of[second]] = score
        shares[row, index_of[second], index_of[first]] = 1 - score
    counts = np.array([count for _, count in outcomes], dtype=float)
    wins = np.tensordot(counts, shares, 1)
    _require_ratable(names, wins)
    rng = np.random.default_rng(seed)
    if question_of := list(questions):
        columns = {outcome: column for column, (outcome, _) in enumerate(outcomes)}
        cells = Counter(zip(question_of, map(columns.__getitem__, oriented), strict=True))
        rows = {question: row for row, question in enumerate(sorted({question for question, _ in cells}))}
        table = np.zeros((len(rows), len(outcomes)))
        for (question, column), count in cells.items():
            table[rows[question], column] = count
        # In batches, since the weights of 16,000 questions in all samples would take 256 MB.
        batches = (
            rng.exponential(size=(BOOTSTRAP_BATCH, len(rows))) @ table
            for _ in range(0, N_RESAMPLES, BOOTSTRAP_BATCH)
        )
        weights = np.concatenate(list(batches))
    else:
        # The sum of n exponential weights, one per battle, is a gamma variable of shape n.
        weights = rng.gamma(counts, size=(N_RESAMPLES, len(counts)))
    margins = Z95 * POINTS_PER_LOG_ODDS * _log_strengths(np.tensordot(weights, shares, 1)).std(axis=0, ddof=1)
    ratings = MEAN_RATING + POINTS_PER_LOG_ODDS * _log_strengths(wins[None])[0]
    estimates = {
        name: Estimate(rating, rating - margin, rating + margin)
        for name, rating, margin in zip(names, ratings.tolist(), margins.tolist(), strict=True)
    }
    return dict(sorted(estimates.items(), key=lambda item: -item[1].value))


def _orient(battle: Battle) -> Battle:
    """Return the battle from the side of the system whose name sorts first."""
    first, second, score = battle
    if first == second or not 0 <= score <= 1:
        raise ValueError(f"a battle is of two systems and its score is in [0, 1], not {battle}")
    return Battle(first, second, score) if first < second else Battle(second, first, 1 - score)


def _require_ratable(names: list[str], wins: "NDArray[np.float64]") -> None:
    """Raise `UnratableError` unless every system beats every other, directly or indirectly (Ford's condition)."""
    import numpy as np  # noqa: PLC0415 - as above

    if len(names) < 2:  # noqa: PLR2004 - a battle is of two systems
        raise UnratableError("there are no battles to rate systems by")
    # The transitive closure, by Warshall's algorithm.
    beats = (wins > 0) | np.eye(len(names), dtype=bool)
    for via in range(len(names)):
        beats |= beats[:, via, None] & beats[via]
    # The systems that beat the least beaten system: no other system beats any of them.
    top = beats[:, beats.sum(axis=0).argmin()]
    if top.all():
        return
    met = (wins + wins.T)[top][:, ~top].any()
    above, below = (
        ", ".join(name for name, chosen in zip(names, group, strict=True) if chosen) for group in (top, ~top)
    )
    raise UnratableError(
        f"no finite ratings: {above} {'won every battle against' if met else 'never met'} {below}. "
        "Add battles, or rate the two groups apart"
    )


def _log_strengths(wins: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Log strengths with mean 0 that maximise the likelihood, by Newton's method; an array of samples × systems.

    `wins` is an array of samples × systems × systems: the wins of the row's system over the column's.
    """
    import numpy as np  # noqa: PLC0415 - as above

    systems = wins.shape[-1]
    total = wins + wins.swapaxes(1, 2)
    strengths = np.zeros(wins.shape[:2])
    for _ in range(MAX_ITER):
        expected = 1 / (1 + np.exp(strengths[:, None, :] - strengths[:, :, None]))
        complement = expected.swapaxes(1, 2)  # 1 - expected, in full precision even if it is tiny
        gradient = (wins * complement - wins.swapaxes(1, 2) * expected).sum(axis=2)
        information = -total * expected * complement
        information[:, range(systems), range(systems)] -= information.sum(axis=2)
        # The likelihood does not change if all strengths change equally, so the matrix is singular in this direction.
        # Adding a constant to all its entries makes it regular.
        scale = np.trace(information, axis1=1, axis2=2)[:, None, None] / systems**2
        step = np.linalg.solve(information + scale, gradient[:, :, None])[:, :, 0]
        # The likelihood of this model always rises along a Newton step that changes no difference of two systems by
        # more than 1 (Bach 2010, "Self-concordant analysis for logistic regression").
        step_size = np.ptp(step, axis=1, keepdims=True)
        strengths += step / np.maximum(1, step_size)
        if step_size.max() < STEP_TOL:
            break
    centred: NDArray[np.float64] = strengths - strengths.mean(axis=1, keepdims=True)
    return centred


@dataclass(frozen=True, slots=True)
class PositionBias:
    """How the order of the two answers affects verdicts.

    `flips` is the share of pairs whose verdict changed when the order was swapped, `first` that of the flips in which
    the answer did better in the first place: 0.5 without bias, None without a flip. `p_value` is of the exact two-sided
    sign test of the null hypothesis that flips in both directions are equally likely.
    """

    flips: Estimate
    first: Estimate | None
    p_value: float


def position_bias(verdicts: Sequence[tuple[float, float]]) -> PositionBias | None:
    """Compare the verdicts on pairs of answers that were judged in both orders; None without pairs.

    A judge without position bias may flip verdicts at random; flips in both directions are then equally likely.

    Each pair has the score of one of its answers when shown first, and its score when shown second: 1 won, 0.5 tied, 0
    lost, or any numbers of which higher ones are better.

    Source: the sign test, Dixon and Mood (1946), "The statistical sign test".

    >>> bias = position_bias([(1, 0)] * 6 + [(1, 1)] * 4)
    >>> bias.flips.value, bias.first.value, bias.p_value
    (0.6, 1.0, 0.03125)
    """
    if not verdicts:
        return None
    first = sum(when_first > when_second for when_first, when_second in verdicts)
    flips = first + sum(when_first < when_second for when_first, when_second in verdicts)
    # The number of outcomes of the fair coins, in one tail, that are at least as uneven as the observed split.
    tail = sum(comb(flips, k) for k in range(min(first, flips - first) + 1))
    return PositionBias(
        flips=proportion(flips, len(verdicts)),
        first=proportion(first, flips) if flips else None,
        p_value=min(1.0, 2 * tail / (1 << flips)),
    )
