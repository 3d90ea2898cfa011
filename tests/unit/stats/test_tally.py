"""How far the votes on verdicts agree."""

from pytest_rageval.stats.agreement import Tally


def test_tallies_add_up_to_rates() -> None:
    """Of four verdicts one is split; of eleven votes one differs from its verdict."""
    tally = sum([Tally(1, 1, 3, 1), Tally(1, 0, 2, 0, 1), Tally(2, 0, 6)], Tally())
    assert tally == Tally(verdicts=4, split=1, votes=11, minority=1, unread=1)
    assert (tally.flip_rate, tally.minority_rate) == (1 / 4, 1 / 11)


def test_without_verdicts_nothing_flips() -> None:
    """Zero of zero is 0."""
    assert (Tally().flip_rate, Tally().minority_rate) == (0.0, 0.0)
