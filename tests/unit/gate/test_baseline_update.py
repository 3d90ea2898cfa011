"""Changes that an update makes to the baseline."""

import pytest

from pytest_rageval.gate.baseline import BaselineEntry, baseline_entry
from pytest_rageval.gate.baseline_update import ScoreChange, compute_update, score_changes
from pytest_rageval.lib.spool import Spool
from tests.unit.gate.scored import Values, example, score_of


def _entry(values: Values, name: str = "recall@5") -> BaselineEntry:
    score = score_of(values)
    return baseline_entry(
        tuple(outcome.example for outcome in score.outcomes), {name: (score, {})}, spool=Spool()
    )


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ({"a": 1.0, "b": 0.5}, {"a": 0.0, "b": 1.0}, (0.75, 0.5, 2, 1, 1)),
        # The means are equal, but the questions differ.
        ({"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}, (0.5, 0.5, 2, 1, 1)),
        # New, removed and unscored questions are not compared; questions that lost their score are counted.
        (
            {"a": 1.0, "gone": 1.0, "b": None, "c": 1.0},
            {"a": 0.5, "new": 0.0, "b": 1.0, "c": None},
            (1, 0.5, 1, 1, 0, 1),
        ),
        ({"a": 1.0, "b": 0.0}, {"a": 1.0, "b": None}, (1.0, 1.0, 1, 0, 0, 1)),
        ({"a": 1.0}, {"a": 1.0 - 1e-13}, None),
        ({"a": 1.0}, {"b": 0.0}, None),
    ],
)
def test_the_questions_of_both_are_compared(
    before: Values, after: Values, change: tuple[float, ...] | None
) -> None:
    """Only questions scored in both entries are compared, and a score without a change is not listed."""
    changes = score_changes({"t": _entry(before)}, {"t": _entry(after)})
    assert changes == ([] if change is None else [ScoreChange("t", "recall@5", *change)])


def test_the_largest_drop_is_first() -> None:
    """Changes of tests and scores in both baselines are listed, the largest drop first."""
    drops = {"t1": 0.9, "t2": 0.1, "t3": 0.5}
    before = {name: _entry({"a": 1.0}) for name in drops} | {"gone": _entry({"a": 1.0})}
    after = {name: _entry({"a": value}) for name, value in drops.items()} | {"new": _entry({"a": 0.0})}
    after["t1"]["scores"] |= _entry({"a": 0.0}, "mrr@5")["scores"]
    assert [moved.nodeid for moved in score_changes(before, after)] == ["t2", "t3", "t1"]


def test_another_question_of_the_same_name_is_not_compared() -> None:
    """A question whose text was edited under the same id is not compared."""
    other = _entry({"a": 0.0})
    other["questions"] = {"a": example("a", question="another").digest}
    assert score_changes({"t": _entry({"a": 1.0})}, {"t": other}) == []


def test_what_no_question_has_any_more_is_moved() -> None:
    """If no question is scored in both entries, the change counts the lost scores and has no means."""
    (change,) = score_changes({"t": _entry({"a": 1.0, "b": None})}, {"t": _entry({"a": None, "b": 1.0})})
    assert (change.n, change.lost, change.is_lower) == (0, 1, True)


@pytest.mark.parametrize(
    ("after", "failed", "is_kept"),
    [
        ({"a": 0.0, "b": 1.0}, ["recall@5"], True),
        ({"a": None, "b": 1.0}, ["recall@5"], True),
        ({"a": 0.0, "b": 1.0}, ["mrr@5"], False),
        ({"a": 0.0, "b": 1.0}, [], False),
        ({"a": 1.0, "b": 1.0}, ["recall@5"], False),
    ],
)
def test_a_score_out_of_its_bounds_is_not_lowered(after: Values, failed: list[str], *, is_kept: bool) -> None:
    """A test with a failed score that would get lower keeps its old entry, with all scores and questions."""
    before, entry = _entry({"a": 1.0, "b": 0.5}), _entry(after)
    entry["scores"] |= _entry(after, "hit@5")["scores"]
    update = compute_update({"t": before}, {"t": entry}, unfinished=(), failed={"t": failed}, complete=True)
    assert update.kept == ({"t": "recall@5 would be lower, and out of bounds"} if is_kept else {})
    assert update.tests == {"t": before if is_kept else entry}


@pytest.mark.parametrize(("complete", "written"), [(True, {"ran"}), (False, {"ran", "gone"})])
def test_a_full_run_removes_tests_that_no_longer_exist(written: set[str], *, complete: bool) -> None:
    before = {name: _entry({"a": 1.0}) for name in ("ran", "gone")}
    entries = {"ran": _entry({"a": 0.5})}
    update = compute_update(before, entries, unfinished=(), failed={}, complete=complete)
    assert update.tests.keys() == written
    assert update.not_run == ["gone"]
    assert [change.nodeid for change in update.changes] == ["ran"]
    assert entries == {"ran": _entry({"a": 0.5})}


@pytest.mark.parametrize("unfinished", [(), ("t",)])
def test_an_unfinished_test_keeps_its_entry_if_it_did_not_reach_a_score(unfinished: tuple[str, ...]) -> None:
    """An entry with scores of two runs would be the state of neither: all of its scores are kept."""
    before, entry = _entry({"a": 1.0}), _entry({"a": 0.5})
    before["scores"] |= _entry({"a": 1.0}, "mrr@5")["scores"]
    update = compute_update({"t": before}, {"t": entry}, unfinished=unfinished, failed={}, complete=True)
    assert update.tests == {"t": before if unfinished else entry}
    assert update.kept == ({"t": "this run has no mrr@5"} if unfinished else {})
    assert update.dropped == ([] if unfinished else [("t", "mrr@5")])
