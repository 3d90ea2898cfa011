"""Which commit is judged next, and when a verdict is sure."""

import random
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.extensions.bisect.search import Measured, State, decide, first_bad
from pytest_rageval.gate.verdict import BaselineLookup
from tests.unit.gate.scored import before_of, example, rule_on, threshold_of

HISTORY: dict[str, Sequence[str]] = {
    **{child: (parent,) for parent, child in pairwise([f"c{n:02}" for n in range(31)])},
    # A branch of four commits, which the 18th merges.
    "c10": ("c07",),
    "c14": ("c09",),
    "c18": ("c17", "c13"),
}
CONTAINED: dict[str, frozenset[str]] = {"c00": frozenset()}
for _commit, _parents in HISTORY.items():
    CONTAINED[_commit] = frozenset({_commit}).union(*(CONTAINED[parent] for parent in _parents))


def judge_of(
    guilty: str, broken: Sequence[str] = (), judged: list[str] | None = None
) -> Callable[[str, int], State]:
    def judge(commit: str, left: int) -> State:
        assert left > 1
        if judged is not None:
            judged.append(commit)
        if commit in broken:
            return "skipped"
        return "bad" if guilty in CONTAINED[commit] else "good"

    return judge


@pytest.mark.parametrize("guilty", HISTORY)
def test_the_first_bad_commit_is_found_in_a_history_with_a_merge(guilty: str) -> None:
    judged: list[str] = []
    assert first_bad(HISTORY, judge_of(guilty, judged=judged)) == [guilty]
    assert len(judged) == len(set(judged)) <= 6


def test_a_commit_that_cannot_be_judged_remains_only_where_it_could_be_the_first() -> None:
    assert first_bad(HISTORY, judge_of("c21", ["c15", "c24"])) == ["c21"]
    assert first_bad(HISTORY, judge_of("c21", ["c19", "c20"])) == ["c19", "c20", "c21"]
    assert first_bad({"c01": ["c00"]}, judge_of("c01")) == ["c01"]


def test_a_stretch_that_cannot_be_built_is_left_quickly() -> None:
    """Judging its commits one after another would take a step for each of them."""
    commits = [f"c{n:03}" for n in range(201)]
    line = {child: (parent,) for parent, child in pairwise(commits)}
    judged: list[str] = []

    def judge(commit: str, _: int) -> State:
        judged.append(commit)
        return "skipped" if "c080" <= commit <= "c120" else "bad" if commit >= "c150" else "good"

    assert first_bad(line, judge) == ["c150"]
    assert len(judged) < 20


@pytest.mark.parametrize(
    ("first", "again", "state", "unsure"),
    [
        (Measured("pass", 0.0), None, "good", False),
        (Measured("fail", 0.3), None, "bad", False),
        (Measured("fail", 0.02), None, "bad", False),
        (Measured("inconclusive", 0.05), None, "good", True),
        (Measured("error"), None, "skipped", False),
        (Measured(None), None, "skipped", False),
        (Measured("fail", 0.3, varies=True), None, "bad", False),
        (Measured("fail", None, varies=True), None, "bad", False),
        (Measured("inconclusive", 0.05, varies=True), Measured("fail", 0.2, varies=True), "bad", True),
        (
            Measured("inconclusive", 0.05, varies=True),
            Measured("inconclusive", 0.1, varies=True),
            "good",
            True,
        ),
        (Measured("fail", 0.05, varies=True), Measured("fail", 0.05, varies=True), "good", True),
        (Measured("fail", 0.2, varies=True), Measured("fail", 0.2, varies=True), "bad", True),
        (Measured("fail", 0.05, varies=True), Measured("fail", 0.2, varies=True), "bad", True),
        (Measured("inconclusive", 0.05, varies=True), Measured(None), "skipped", True),
    ],
)
def test_an_unsure_verdict_is_measured_once_more(first, again, state, unsure):
    scores = [first] if again is None else [first, again]
    repeated: list[bool] = []

    def measure(more: bool) -> Measured:  # noqa: FBT001 - as `decide` calls it
        repeated.append(more)
        return scores[len(repeated) - 1]

    assert decide(measure, 0.3) == (state, unsure)
    assert repeated == [False, True][: len(scores)]


IDS = [f"q{n}" for n in range(60)]
EXAMPLES = {name: example(name) for name in IDS}


class History:
    """A history of 30 commits, of which one loses a share of 60 questions; a judge flips a share of its verdicts.

    Each commit changes the passages of 30% of the questions, so that the judge is asked about them again.
    """

    def __init__(self, seed: int, lost: float, flipped: float) -> None:
        self.seed, self.flipped = seed, flipped
        rng = random.Random(seed)
        self.guilty = rng.choice([*HISTORY])
        # If its parent could not be judged, no search could tell the two apart.
        others = [commit for commit in HISTORY if commit not in {self.guilty, "c30", *HISTORY[self.guilty]}]
        self.broken = rng.choice(others)
        self.right = {name for name in IDS if rng.random() < 0.85}
        self.victims = set(rng.sample(sorted(self.right), round(lost * len(IDS))))
        self.changes = {
            name: {commit for commit in HISTORY if rng.random() < 0.3}
            | ({self.guilty} if name in self.victims else set())
            for name in IDS
        }
        # A baseline that is written at every merge is a mean of about five runs.
        before = {name: sum(self.verdict("c00", name, run) for run in range(5)) / 5 for name in IDS}
        self.baseline = BaselineLookup({}, before_of(before), deterministic=not flipped)
        self.threshold = threshold_of("recall@5", max_drop=0.02)

    def verdict(self, commit: str, name: str, sample: int) -> float:
        lost = self.guilty in CONTAINED[commit] and name in self.victims
        passages = sorted(self.changes[name] & CONTAINED[commit])
        flip = random.Random(f"{self.seed} {passages} {name} {sample}").random() < self.flipped
        return float((name in self.right and not lost) != flip)

    def measure(self, commit: str, repeats: int) -> Measured:
        runs = [
            [Outcome(EXAMPLES[name], self.verdict(commit, name, sample)) for name in IDS]
            for sample in range(repeats)
        ]
        score = Score("recall@5", runs[0], repeats=runs[1:])
        result = rule_on(score, self.threshold, self.baseline)
        return Measured(result.verdict.status, result.comparison.drop, varies=self.flipped > 0)

    def found(self) -> list[str]:
        drop_at_bad = self.measure("c30", 1).drop

        def judge(commit: str, _: int) -> State:
            if commit == self.broken:
                return "skipped"
            return decide(lambda more: self.measure(commit, 3 if more else 1), drop_at_bad).state

        return first_bad(HISTORY, judge)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    ("lost", "flipped", "least"), [(0.2, 0, 100), (0.2, 0.03, 100), (0.1, 0, 100), (0.1, 0.03, 90)]
)
def test_the_verdicts_of_the_gate_find_the_right_commit(lost: float, flipped: float, least: int) -> None:
    histories = [History(seed, lost, flipped) for seed in range(100)]
    assert sum(history.found() == [history.guilty] for history in histories) >= least
