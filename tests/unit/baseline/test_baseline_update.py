"""Changes that an update makes to the baseline."""

import re
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.baseline import Baseline, baseline_entry
from pytest_rageval.baseline.entries import BaselineEntry
from pytest_rageval.baseline.update import BaselineUpdate, ScoreChange, compute_update, score_changes
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
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
def test_the_questions_of_both_are_compared(before, after, change):
    changes = score_changes({"t": _entry(before)}, {"t": _entry(after)})
    assert changes == ([] if change is None else [ScoreChange("t", "recall@5", *change)])


def test_the_largest_drop_is_first() -> None:
    drops = {"t1": 0.9, "t2": 0.1, "t3": 0.5}
    before = {name: _entry({"a": 1.0}) for name in drops} | {"gone": _entry({"a": 1.0})}
    after = {name: _entry({"a": value}) for name, value in drops.items()} | {"new": _entry({"a": 0.0})}
    after["t1"]["scores"] |= _entry({"a": 0.0}, "mrr@5")["scores"]
    assert [moved.nodeid for moved in score_changes(before, after)] == ["t2", "t3", "t1"]


def test_another_question_of_the_same_name_is_not_compared() -> None:
    other = _entry({"a": 0.0})
    other["questions"] = {"a": example("a", question="another").digest}
    assert score_changes({"t": _entry({"a": 1.0})}, {"t": other}) == []


def test_what_no_question_has_any_more_is_moved() -> None:
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


def _judged(
    values: Values, ranking: str = "kb-1", fingerprint: str = "judge 1", repeats: int = 1
) -> BaselineEntry:
    outcomes = [
        Outcome(example(name), value, evidence=Evidence(Ranking("q", (Document("a text", ranking),))))
        for name, value in values.items()
    ]
    score = Score("answer.em@1", outcomes, repeats=[outcomes] * (repeats - 1))
    examples = tuple(outcome.example for outcome in outcomes)
    scores = {"answer.em@1": (score, {"judge": fingerprint})}
    return baseline_entry(examples, scores, averaged=scores, spool=Spool())


def _updates(*entries: BaselineEntry) -> list[BaselineUpdate]:
    updates, before = [], {}
    for entry in entries:
        updates.append(compute_update(before, {"t": entry}, unfinished=(), failed={}, complete=True))
        before = updates[-1].tests
    return updates


def _stored(update: BaselineUpdate, name: str = "a") -> tuple[float | None, int | None]:
    stored = update.tests["t"]["scores"]["answer.em@1"]["examples"][name]
    return stored["score"], stored.get("runs")


def test_a_score_of_models_is_the_mean_of_the_last_runs() -> None:
    """The first five runs have equal weight; later ones replace a fifth of the mean."""
    scores = [1.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    stored = [_stored(update) for update in _updates(*(_judged({"a": value}) for value in scores))]
    means = [1.0, 1 / 2, 2 / 3, 3 / 4, 3 / 5, 3 / 5 * 4 / 5]
    assert [score for score, _ in stored] == pytest.approx(means)
    assert [runs for _, runs in stored] == [1, 2, 3, 4, 5, 5]


@pytest.mark.parametrize(("score", "stored"), [(1.0, (1.0, 1)), (0.0, (0.5, 2))])
def test_an_answer_that_may_be_a_cached_one_is_no_further_run(score, stored):
    """The same answer with the score of the mean says nothing new."""
    assert _stored(_updates(_judged({"a": 1.0}), _judged({"a": score}))[-1]) == stored


@pytest.mark.parametrize("second", [{"ranking": "kb-2"}, {"fingerprint": "judge 2"}, {"repeats": 3}])
def test_what_is_not_comparable_begins_anew(second: dict[str, Any]) -> None:
    assert _stored(_updates(_judged({"a": 1.0}), _judged({"a": 0.0}, **second))[-1]) == (0.0, 1)


def test_a_question_begins_anew_on_its_own() -> None:
    """A question without a score, or with another text, leaves the others averaged."""
    other = _judged({"a": 0.0, "b": 0.0, "c": None, "d": 0.0})
    other["questions"]["d"] = "another"
    update = _updates(_judged({"a": 1.0, "b": None, "c": 1.0, "d": 1.0}), other)[-1]
    assert [_stored(update, name) for name in "abcd"] == [(0.5, 2), (0.0, 1), (None, 1), (0.0, 1)]


def test_a_score_of_rankings_is_not_averaged() -> None:
    """It does not vary from run to run: the last run counts, and no key says so."""
    update = compute_update(
        {"t": _entry({"a": 1.0})}, {"t": _entry({"a": 0.0})}, unfinished=(), failed={}, complete=True
    )
    stored = update.tests["t"]["scores"]["recall@5"]
    assert (stored["examples"]["a"]["score"], "runs" in stored["examples"]["a"]) == (0.0, False)
    assert "lowered" not in stored


def test_a_baseline_that_was_only_ever_raised_is_named() -> None:
    """After five updates that raised a score and none that lowered it, the score is named; one lower run ends it."""
    rising = [_judged({f"q{n}": float(n < top) for n in range(9)}) for top in (2, 3, 4, 5, 6, 7)]
    updates = _updates(*rising, _judged(dict.fromkeys([f"q{n}" for n in range(9)], 0.0)))
    named = [update.only_raised for update in updates]
    assert named == [[], [], [], [], [], [("t", "answer.em@1")], []]


def test_means_are_read_as_they_were_written(tmp_path: Path) -> None:
    """The number of runs is in the file, and a file without it counts as one run."""
    update = _updates(*(_judged({"a": value}) for value in (1.0, 0.0, 0.0)))[-1]
    path = tmp_path / "rageval_baseline.json"
    Baseline(update.tests).write(path)
    assert Baseline.read(path).tests == update.tests
    before = Baseline.read(path).score("t", "answer.em@1", (0.0, 1.0))
    assert before.fewest_runs == 3
    path.write_text(re.sub(r'"runs": 3, ', "", path.read_text(encoding="utf-8")), encoding="utf-8")
    old = Baseline.read(path)
    again = compute_update(old.tests, {"t": _judged({"a": 1.0})}, unfinished=(), failed={}, complete=True)
    assert _stored(again) == (pytest.approx((1 / 3 + 1) / 2), 2)
