"""The search for the first bad commit in a history with merges, and the decision on one commit."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Final, Literal, NamedTuple

State = Literal["good", "bad", "skipped"]

SURE: Final = 0.75  # share of what BAD lost from which on a failure of a score of models is sure at once
LIKELY: Final = 0.5  # the same with more repeats


class Measured(NamedTuple):
    """A score at a commit.

    Attributes:
        verdict: that of the gate; None if there is no score.
        drop: what the score lost since the baseline; None without a comparison, as for `min`.
        varies: whether models took part, so that more repeats say more.
    """

    verdict: str | None
    drop: float | None = None
    varies: bool = False


class Decision(NamedTuple):
    state: State
    unsure: bool


def decide(measure: Callable[[bool], Measured], drop_at_bad: float | None) -> Decision:
    """Decide on a commit by the verdict on its score.

    An inconclusive verdict is unsure, and good. With models, so is a failure that lost less than `SURE` of what BAD
    lost, as that may be their noise. An unsure score of models is measured once more, with more repeats, and is bad if
    it lost `LIKELY` of what BAD lost: the noise that is left is about as likely to hide a loss as to show one.

    `measure` returns the score; its argument is whether to repeat the requests to models more often.
    """

    def lost(score: Measured) -> float | None:
        """Return which share of what BAD lost is lost, if that says more than the verdict."""
        if not score.varies or score.drop is None or drop_at_bad is None or drop_at_bad <= 0:
            return None
        return score.drop / drop_at_bad

    score = measure(False)  # noqa: FBT003 - a flag of the caller's function
    share, is_bad = lost(score), score.verdict == "fail"
    unsure = score.verdict == "inconclusive" or (is_bad and share is not None and share < SURE)
    if unsure and score.varies:
        score = measure(True)  # noqa: FBT003
        share = lost(score)
        is_bad = score.verdict == "fail" if share is None else share >= LIKELY
    if score.verdict in {None, "error"}:
        return Decision("skipped", unsure)
    return Decision("bad" if is_bad else "good", unsure)


def first_bad(history: Mapping[str, Sequence[str]], judge: Callable[[str, int], State]) -> list[str]:
    """Return the first bad commit; if commits before it cannot be judged, these too, oldest first.

    A commit that can be judged halves the commits that are left, in a history with merges too.

    Args:
        history: the commits after the good one up to the bad one, each with its parents; a parent comes before its
            children, and the bad commit is the last one. Parents outside of it are good.
        judge: judges a commit; its second argument is the number of commits that are left.
    """
    commits = list(history)
    places = {commit: place for place, commit in enumerate(commits)}
    # The commits that each commit contains, as the bits of a number.
    contained: list[int] = []
    for place, commit in enumerate(commits):
        parents = (contained[places[parent]] for parent in history[commit] if parent in places)
        contained.append(reduce(or_, parents, 1 << place))
    bad = len(commits) - 1
    left, skipped, skips = contained[bad], 0, 0

    def imbalance(place: int) -> int:
        return abs(2 * (contained[place] & left).bit_count() - left.bit_count())

    while candidates := [place for place in range(bad) if (left & ~skipped) >> place & 1]:
        # Commits that cannot be built are often neighbours: after each, the next candidate lies further away.
        place = sorted(candidates, key=imbalance)[min(2**skips, len(candidates)) - 1]
        state = judge(commits[place], left.bit_count())
        skips = skips + 1 if state == "skipped" else 0
        if state == "skipped":
            skipped |= 1 << place
        elif state == "bad":
            bad, left = place, left & contained[place]
        else:
            left &= ~contained[place]
    return [commit for place, commit in enumerate(commits) if left >> place & 1]
