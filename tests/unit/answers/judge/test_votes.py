"""Verdicts by several votes, and the tally of votes behind a result."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from itertools import product
from statistics import median

import pytest

from pytest_rageval.answers.judge import collect_tallies, record_tally
from pytest_rageval.answers.judge.llm_judge import Voter, Voting
from pytest_rageval.answers.judge.tasks import majority
from pytest_rageval.core.errors import Planned, ReplyPending, ServerError, Unscored
from pytest_rageval.core.outcome import Tally
from pytest_rageval.stats.agreement import majority as majority_or


def _decided(votes: Sequence[float | Exception], aggregate=majority) -> tuple[float, Tally]:
    async def vote(voter: Voter) -> float:
        ballot = votes[voter.sample]
        if isinstance(ballot, Exception):
            raise ballot
        return ballot

    return asyncio.run(collect_tallies(Voting(len(votes)).decide("q", ["j"], vote, aggregate)))


PREFERENCE = partial(majority_or, tie=0.0)
LOST = Unscored("the judge's reply is neither yes nor no: 'maybe'")


@pytest.mark.parametrize(
    ("aggregate", "votes", "verdict", "tally"),
    [
        (majority, [1.0, 1.0, 1.0], 1.0, Tally(1, 0, 3, 0)),
        (majority, [1.0, 0.0, 1.0], 1.0, Tally(1, 1, 3, 1)),
        (majority, [0.0, 1.0, 0.0, 1.0, 0.0], 0.0, Tally(1, 1, 5, 2)),
        (majority, [0.0, LOST, 0.0], 0.0, Tally(1, 0, 2, 0, 1)),
        (majority, [LOST, 1.0, LOST], 1.0, Tally(1, 0, 1, 0, 2)),
        (majority, [LOST, 1.0, 0.0, 1.0, LOST], 1.0, Tally(1, 1, 3, 1, 2)),
        (median, [1.0, 0.5, 0.25], 0.5, Tally(1, 1, 3, 2)),
        (median, [0.75, 0.75, 0.0], 0.75, Tally(1, 1, 3, 1)),
        (median, [0.25, LOST, 0.5], 0.375, Tally(1, 1, 2, 2, 1)),
        (median, [0.25, LOST, 0.25], 0.25, Tally(1, 0, 2, 0, 1)),
        (PREFERENCE, [2.0, 2.0, 2.0], 2.0, Tally(1, 0, 3, 0)),
        (PREFERENCE, [2.0, 1.0, 2.0], 2.0, Tally(1, 1, 3, 1)),
        (PREFERENCE, [2.0, 1.0, 0.0], 0.0, Tally(1, 1, 3, 2)),
        (PREFERENCE, [2.0, 1.0, LOST], 0.0, Tally(1, 1, 2, 2, 1)),
        (PREFERENCE, [1.0, 1.0, 2.0, 2.0, 0.0], 0.0, Tally(1, 1, 5, 4)),
    ],
)
def test_the_votes_that_can_be_read_decide(aggregate, votes, verdict: float, tally: Tally) -> None:
    """Of yes and no, most votes decide; of grades, the median; a preference needs more than half of the votes."""
    assert _decided(votes, aggregate) == (verdict, tally)


@pytest.mark.parametrize(
    ("votes", "why"),
    [
        ([1.0, LOST, 0.0], "the judge's votes are tied: 1 yes, 1 no"),
        ([LOST, LOST, LOST], f"none of 3 votes could be obtained: {LOST}"),
        ([LOST], str(LOST)),
    ],
)
def test_without_a_majority_there_is_no_verdict(votes, why: str) -> None:
    with pytest.raises(Unscored) as caught:
        _decided(votes)
    assert str(caught.value) == why


@pytest.mark.parametrize("error", [Planned("not asked"), ServerError("no server")])
def test_other_errors_end_the_voting_when_all_have_voted(error: Exception) -> None:
    """Other errors are raised after all votes ended: a plan counts every vote, and paid replies are stored."""
    samples: list[int] = []

    async def vote(voter: Voter) -> float:
        if voter.sample == 0:
            raise error
        await asyncio.sleep(0)
        samples.append(voter.sample)
        return 1.0

    with pytest.raises(type(error)):
        asyncio.run(Voting(3).decide("q", ["j"], vote, majority))
    assert samples == [1, 2]


@pytest.mark.parametrize("n", [3, 5])
@pytest.mark.parametrize("aggregate", [majority, PREFERENCE], ids=["majority", "preference"])
def test_votes_stop_when_the_majority_is_certain(n: int, aggregate) -> None:
    """Whatever the votes are, the verdict is that of all of them, and the last one asked was needed."""
    values = (1.0, 0.0, LOST) if aggregate is majority else (1.0, 2.0, 0.0, LOST)

    @cache
    def decide(votes: tuple[float | Exception, ...], **options: bool) -> tuple[float | str, int]:
        asked = []

        async def vote(voter: Voter) -> float:
            asked.append(voter)
            ballot = votes[voter.sample]
            if isinstance(ballot, Exception):
                raise ballot
            return ballot

        try:
            return asyncio.run(Voting(n).decide("q", ["j"], vote, aggregate, **options)), len(asked)
        except Unscored as unscored:
            return str(unscored), len(asked)

    counts: Counter[int] = Counter()
    for votes in product(values, repeat=n):
        verdict, asked = decide(votes, by_majority=True)
        assert verdict == decide(votes)[0], votes
        counts[asked] += 1
        if asked < n:
            others = {decide((*votes[:asked], *rest))[0] for rest in product(values, repeat=n - asked)}
            assert others == {verdict}, votes
    assert min(counts) == n // 2 + 1


@pytest.mark.parametrize(
    ("error", "measuring"), [(Planned("not asked"), False), (ReplyPending(), False), (None, True)]
)
def test_a_plan_a_batch_and_a_measurement_have_all_votes(error, measuring):
    """A plan counts an upper bound, and a batch that lacks a vote would take another day."""
    samples: list[int] = []

    async def vote(voter: Voter) -> float:
        samples.append(voter.sample)
        if error is not None:
            raise error
        return 1.0

    voting = Voting(3, all_votes=measuring).decide("q", ["j"], vote, majority, by_majority=True)
    with pytest.raises(type(error)) if error is not None else contextlib.nullcontext():
        asyncio.run(voting)
    assert samples == [0, 1, 2]


def test_a_single_vote_is_the_verdict_without_a_tally() -> None:
    assert _decided([1.0]) == (1.0, Tally())
    assert [Voting(n).temperature for n in (1, 3)] == [0.0, 0.5]


@pytest.mark.parametrize("votes", [1, 3])
def test_several_models_vote_together(votes: int) -> None:
    """Several models vote as often each as a single model would, and the majority of all votes decides."""
    voters: list[Voter] = []

    async def vote(voter: Voter) -> float:
        voters.append(voter)
        return float(voter.model != "b")

    verdict = asyncio.run(
        collect_tallies(Voting(votes, first_sample=5).decide("q", ["a", "b", "c"], vote, majority))
    )
    assert verdict == (1.0, Tally(1, 1, 3 * votes, votes))
    assert voters == [(model, 5 + n) for model in "abc" for n in range(votes)]


def test_votes_are_counted_for_what_rests_on_them() -> None:
    async def inner() -> str:
        async def decide(question: str) -> None:
            record_tally(question, Tally(1, 0, 3))

        await asyncio.gather(decide("a"), decide("b"), decide("a"))
        return "done"

    async def outer() -> Tally:
        result, votes = await collect_tallies(inner())
        assert result == "done"
        assert votes == Tally(2, 0, 6)
        record_tally("c", Tally(1, 1, 3, 1))
        return votes

    assert asyncio.run(collect_tallies(outer()))[1] == Tally(1, 1, 3, 1)
