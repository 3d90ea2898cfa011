"""The arena's notes below its score: abstentions and position bias."""

import json
from typing import Any

import pytest

from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome, Places, Score
from pytest_rageval.reports.terminal import note_lines
from tests.unit.reports.entries import score_entry


def _score(*places: Places, declined: int = 0) -> Score:
    answered = [
        Outcome(Example(f"q{n}", "?"), 1.0, None, Evidence(counts={"no_answer": 0}, places=place))
        for n, place in enumerate(places)
    ]
    silent = [
        Outcome(Example(f"s{n}", "?"), 0.0, None, Evidence(counts={"no_answer": 1})) for n in range(declined)
    ]
    return Score("arena.win@5", [*answered, *silent, Outcome(Example("u", "?"), None, "unread")])


FIRST_WON, SECOND_WON, TIED = Places(first=1.0), Places(first=0.0), Places(first=0.5)
ALSO_FIRST_WON = Places(second=0.0)


def _note(entry: dict[str, Any]) -> str:
    name = "arena.win@5: no answer"
    (line,) = (line for line in note_lines({"scores": [entry]}) if line.startswith(name))
    return line.removeprefix("arena.win@5: ")


def test_in_one_order_the_wins_of_the_first_place_are_counted() -> None:
    score = _score(FIRST_WON, FIRST_WON, ALSO_FIRST_WON, SECOND_WON, TIED, declined=3)
    entry = score_entry(score, None, None)
    bias = entry["arena"]["position_bias"]
    assert (bias["orders"], bias["verdicts"], bias["first_place"]) == (1, 4, 0.75)
    assert entry["arena"]["no_answer_ratio"] == 3 / 8
    assert _note(json.loads(json.dumps(entry))) == (
        "no answer 37.5% (3 of 8); the first place won 75.0% of 4 decided verdicts (95% interval 30.1% to 95.4%)"
    )


@pytest.mark.parametrize(
    ("places", "line"),
    [
        (
            [Places(1.0, 0.0)] * 6 + [Places(1.0, 1.0)] * 4,
            "60.0% of 10 verdicts changed with the order, 100.0% of these for the first place (p = 0.031)",
        ),
        (
            [Places(0.5, 0.0), Places(0.0, 1.0), Places(0.0, 0.0), Places(0.5, 0.5)],
            "50.0% of 4 verdicts changed with the order, 50.0% of these for the first place (p = 1)",
        ),
        ([Places(1.0, 1.0)], "0.0% of 1 verdicts changed with the order"),
        ([TIED], "the judge preferred no answer, so its position bias is not known"),
    ],
)
def test_in_both_orders_the_changes_are_counted(places: list[Places], line: str) -> None:
    entry = score_entry(_score(*places), None, None)
    assert _note(entry) == f"no answer 0.0% (0 of {len(places)}); {line}"


def test_an_examples_verdicts_are_by_place() -> None:
    judged, _, abstained = score_entry(_score(Places(1.0, 0.0), declined=1), None, None)["examples"]
    assert judged["places"] == {"first": 1.0, "second": 0.0}
    assert "places" not in abstained


def test_other_scores_tell_nothing(score: Score) -> None:
    entry = score_entry(score, None, None)
    assert "arena" not in entry
    assert not any("no answer" in note for note in note_lines({"scores": [entry]}))
