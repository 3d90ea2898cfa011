"""Stability of the judge's verdicts: changed verdicts and split votes."""

from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome, Tally
from pytest_rageval.extensions.calibration.command import Flips, count_changed_verdicts, count_split_votes


def outcomes(*values: float | None) -> list[Outcome]:
    return [
        Outcome(Example(str(n), "?"), value, None if value is not None else "no")
        for n, value in enumerate(values)
    ]


def test_changed_verdicts_are_those_had_both_times_and_not_the_same() -> None:
    """A verdict is changed if both runs have one and they differ; the rate has Wilson's interval."""
    flips = count_changed_verdicts(outcomes(1, 1, 0, None, 0.5), outcomes(1, 0, 0, 1, None))
    assert flips == Flips(3, 1, ("1",))
    rate = flips.rate
    assert rate is not None
    assert rate.low < rate.value == 1 / 3 < rate.high


def test_nothing_to_compare_has_no_rate() -> None:
    assert count_changed_verdicts(outcomes(None), outcomes(1)).rate is None


def test_split_votes() -> None:
    """A verdict is split if its votes differ; verdicts without a vote are not counted."""
    split, agreed = Tally(1, 1, 3, 1), Tally(1, 0, 3, 0)
    voted = [
        Outcome(Example(name, "?"), 1.0, None, Evidence(votes=tally))
        for name, tally in (("a", split), ("b", agreed), ("c", Tally()))
    ]
    assert count_split_votes(voted) == Flips(2, 1, ("a",))
    assert count_split_votes(outcomes(1, 0)) is None
