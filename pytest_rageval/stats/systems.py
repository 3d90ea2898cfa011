"""Comparison of several systems: the best one, ratings from pairwise battles, and the judge's position bias."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, log
from statistics import fmean
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_rageval.stats.drops import Drops, joint_drop_test
from pytest_rageval.stats.intervals import ROUNDING, Z95, Estimate, share

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Battle",
    "PositionBias",
    "Standing",
    "UnratableError",
    "against_best",
    "bradley_terry",
    "first_place_share",
    "position_bias",
]

ALPHA: Final = 0.05  # drawn p-values are on the right side of this level
BASE: Final = 1000.0  # the mean of all ratings
POINTS: Final = 400.0 / log(10)  # points for a unit of log odds: 400 points multiply the odds by 10
PART: Final = 50  # number of bootstrap samples that are drawn at once
CONVERGED: Final = 1e-8  # a Newton step this small leaves an error of its square
STEPS: Final = 200
"""Most Newton steps. A few suffice, and one more for each factor e between the odds of two systems."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A system compared with the best one.

    Attributes:
        mean: of its scores.
        n: number of its scores.
        best: whether no mean is higher.
        shared: number of examples with a score of this system and of the best.
        p_value: of "its true mean is not below that of the best", corrected; None for the best.
        common: over the shared examples, its mean and that of the best; None where each has all of these, or none.
    """

    mean: float
    n: int
    best: bool
    shared: int
    p_value: float | None
    common: tuple[float, float] | None = None


def against_best(systems: Sequence[Mapping[str, float]], *, seed: int = 0) -> list[Standing | None]:
    """Compare each system with the one of the highest mean, over the examples that both have.

    The same data choose the best system and test it, so any ordered pair could have been compared. The p-value of each
    one-sided test (`pytest_rageval.stats.drops`) is therefore multiplied by the m (m - 1) pairs of m systems
    (Bonferroni). The probability that any system is called worse than one that is no better is then at most the level.
    For two systems it is the two-sided test.

    Args:
        systems: the scores of each by example; examples without a score are left out. Of several highest means the
            first is the best.
        seed: of the draws, where sign patterns are drawn.

    Returns:
        One a system, in the same order; None for a system without a score.

    >>> one, other = against_best([{"a": 1, "b": 1, "c": 1, "d": 0}, {"a": 0, "b": 0, "c": 0, "d": 0}])
    >>> one.best, other.p_value  # 2 × mid-p 1/2^4
    (True, 0.125)
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
        if mean < highest - ROUNDING:
            largest = max(1.0, *map(abs, drops)) if drops else 1.0
            test = joint_drop_test([Drops(drops, largest=largest)], alpha=ALPHA / pairs, seed=seed)
            p_value = min(1.0, pairs * test.scores[0].p_value)
        differ = shared and not len(shared) == len(scores) == len(best)
        common = (fmean(own for own, _ in shared), fmean(other for _, other in shared)) if differ else None
        standings.append(Standing(mean, len(scores), p_value is None, len(shared), p_value, common))
    return standings


class Battle(NamedTuple):
    """Two systems' answers to one question, compared; `score` is of `first`, in [0, 1]: 1 won, 0.5 tied, 0 lost."""

    first: str
    second: str
    score: float


class UnratableError(ValueError):
    """No finite ratings explain these battles."""


def bradley_terry(
    battles: Iterable[Battle], *, questions: Iterable[str] = (), seed: int = 0
) -> dict[str, Estimate]:
    """Bradley-Terry ratings on an Elo scale, by maximum likelihood over all battles at once.

    Under the model, a system rated r expects `1 / (1 + 10^((s - r) / 400))` of the score against one rated s. A tie
    is half a win for each.

    Args:
        battles: of at least two systems. Where all are against one system, as those of the arena are against the
            reference, a rating measures its system against that one (400 log10 of the odds apart from it). The
            distance of two others is then what the model predicts for battles between them, not what was observed.
        questions: of the battles, one each. Those on one question are weighted together, since they have answers in
            common. Without questions, all battles are taken to be independent.
        seed: the same seed and battles, in any order, give the same intervals.

    Returns:
        System → rating in points, the best first. The mean of all ratings is 1000, so that only differences between
        systems of one call are meaningful. The interval is the rating ± 1.96 standard errors, from the spread of
        2,000 weighted (Bayesian) bootstrap samples of the questions, or of the battles. Weights are never zero, so each
        sample has ratings if the whole has. Where all battles were ties the interval has no width.

    Raises:
        UnratableError: no ratings have the highest likelihood, because some systems won every battle against the
            others, without a tie, or never met them. The distance between the two groups is then unbounded; no prior
            is assumed to bound it.
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

    from pytest_rageval.stats.bootstrap import RESAMPLES  # noqa: PLC0415

    fought = list(map(_oriented, battles))
    outcomes = sorted(Counter(fought).items())
    names = sorted({name for (first, second, _), _ in outcomes for name in (first, second)})
    place = {name: i for i, name in enumerate(names)}
    # A row for each kind of outcome: the share of the win that it gives to one system over another.
    shares = np.zeros((len(outcomes), len(names), len(names)))
    for row, ((first, second, score), _) in enumerate(outcomes):
        shares[row, place[first], place[second]] = score
        shares[row, place[second], place[first]] = 1 - score
    counts = np.array([count for _, count in outcomes], dtype=float)
    wins = np.tensordot(counts, shares, 1)
    _require_ratable(names, wins)
    rng = np.random.default_rng(seed)
    if asked := list(questions):
        places = {outcome: column for column, (outcome, _) in enumerate(outcomes)}
        together = Counter(zip(asked, map(places.__getitem__, fought), strict=True))
        rows = {question: row for row, question in enumerate(sorted({question for question, _ in together}))}
        table = np.zeros((len(rows), len(outcomes)))
        for (question, column), count in together.items():
            table[rows[question], column] = count
        # In parts: the weights of 16,000 questions in all samples are 256 MB.
        parts = (rng.exponential(size=(PART, len(rows))) @ table for _ in range(0, RESAMPLES, PART))
        weights = np.concatenate(list(parts))
    else:
        # The sum of n exponential weights, one a battle, is a gamma variable of shape n.
        weights = rng.gamma(counts, size=(RESAMPLES, len(counts)))
    margins = Z95 * POINTS * _strengths(np.tensordot(weights, shares, 1)).std(axis=0, ddof=1)
    ratings = BASE + POINTS * _strengths(wins[None])[0]
    rated = {
        name: Estimate(rating, rating - margin, rating + margin)
        for name, rating, margin in zip(names, ratings.tolist(), margins.tolist(), strict=True)
    }
    return dict(sorted(rated.items(), key=lambda item: -item[1].value))


def _oriented(battle: Battle) -> Battle:
    """The same battle from the side of the system whose name sorts first."""
    first, second, score = battle
    if first == second or not 0 <= score <= 1:
        raise ValueError(f"a battle is of two systems and its score is in [0, 1], not {battle}")
    return Battle(first, second, score) if first < second else Battle(second, first, 1 - score)


def _require_ratable(names: list[str], wins: "NDArray[np.float64]") -> None:
    """Raise unless every system beats every other one, directly or through others (Ford's condition)."""
    import numpy as np  # noqa: PLC0415 - as above

    if len(names) < 2:  # noqa: PLR2004 - a battle is of two
        raise UnratableError("there are no battles to rate systems by")
    beats = (wins > 0) | np.eye(len(names), dtype=bool)
    for via in range(len(names)):
        beats |= beats[:, via, None] & beats[via]
    # Only systems of this group beat the least beaten system.
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


def _strengths(wins: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Log strengths of mean 0 that maximise the likelihood, samples × systems.

    `wins` are samples × systems × systems: in each sample the wins of row against column.
    """
    import numpy as np  # noqa: PLC0415 - as above

    systems = wins.shape[-1]
    total = wins + wins.swapaxes(1, 2)
    strengths = np.zeros(wins.shape[:2])
    for _ in range(STEPS):
        expected = 1 / (1 + np.exp(strengths[:, None, :] - strengths[:, :, None]))
        missed = expected.swapaxes(1, 2)  # 1 - expected, to full precision also where it is tiny
        slope = (wins * missed - wins.swapaxes(1, 2) * expected).sum(axis=2)
        curvature = -total * expected * missed
        curvature[:, range(systems), range(systems)] -= curvature.sum(axis=2)
        # Equal strengths for all change nothing; a constant in that direction makes it regular.
        scale = np.trace(curvature, axis1=1, axis2=2)[:, None, None] / systems**2
        step = np.linalg.solve(curvature + scale, slope[:, :, None])[:, :, 0]
        # The likelihood of such a model always rises along a Newton step that moves no two systems apart by more than
        # 1 (Bach 2010, "Self-concordant analysis for logistic regression").
        moved = np.ptp(step, axis=1, keepdims=True)
        strengths += step / np.maximum(1, moved)
        if moved.max() < CONVERGED:
            break
    centred: NDArray[np.float64] = strengths - strengths.mean(axis=1, keepdims=True)
    return centred


@dataclass(frozen=True, slots=True)
class PositionBias:
    """The effect on verdicts of swapping the two answers.

    Attributes:
        flips: share of pairs whose verdict changed, in [0, 1], with Wilson's interval.
        first: share of the flips in which an answer did better in the first place than in the second, with Wilson's
            interval: 0.5 without bias. None without a flip.
        p_value: of the exact two-sided sign test that flips go either way equally often; 1 without a flip.
    """

    flips: Estimate
    first: Estimate | None
    p_value: float


def position_bias(verdicts: Sequence[tuple[float, float]]) -> PositionBias | None:
    """Compare the verdicts on pairs of answers that were judged in both orders.

    Each is the score of one of the answers when shown first and when shown second: 1 won, 0.5 tied, 0 lost, or any
    numbers in that order. None without pairs. A judge without position bias may flip often, by chance; then flips go
    either way.

    Source: the sign test, Dixon and Mood (1946), "The statistical sign test".

    >>> bias = position_bias([(1, 0)] * 6 + [(1, 1)] * 4)
    >>> bias.flips.value, bias.first.value, bias.p_value
    (0.6, 1.0, 0.03125)
    """
    if not verdicts:
        return None
    first = sum(when_first > when_second for when_first, when_second in verdicts)
    flips = first + sum(when_first < when_second for when_first, when_second in verdicts)
    # Of a split of so many fair coins at least as uneven.
    tail = sum(comb(flips, k) for k in range(min(first, flips - first) + 1))
    return PositionBias(
        flips=share(flips, len(verdicts)),
        first=share(first, flips) if flips else None,
        p_value=min(1.0, 2 * tail / (1 << flips)),
    )


def first_place_share(wins: int, losses: int) -> Estimate | None:
    """How often the answer in the first place won, where each pair was judged in one order only; ties are left out.

    With Wilson's interval; None where all were ties. Without bias it is 0.5, if the order was random. A bias that turns
    verdicts into ties is not seen here; judging in both orders shows it.

    >>> first_place_share(15, 5).value
    0.75
    """
    decided = wins + losses
    return share(wins, decided) if decided else None
