"""The anchor: pinned scores that baseline updates do not change, and the bound on the total drop below them."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.baseline import Baseline, anchor_entry, baseline_entry
from pytest_rageval.baseline.entries import AnchorPin, BaselineEntry, BaselineScore
from pytest_rageval.baseline.update import compute_update, updated_anchors
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.outcome import Score
from pytest_rageval.gate.judge import evaluate_thresholds
from pytest_rageval.gate.threshold import level_shares
from pytest_rageval.gate.verdict import BaselineLookup, ThresholdInput, ThresholdResult
from pytest_rageval.lib.spool import Spool
from pytest_rageval.reports.failures import Room, failure_lines
from pytest_rageval.reports.notes import comparisons_entry
from pytest_rageval.stats.sequential import anchor_alpha
from tests.unit.gate.scored import Values, before_of, numbered, plain, ranked, score_of, threshold_of

COMMIT = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"
PIN = AnchorPin(COMMIT, "2026-11-22")
ALL = numbered(100, 0)


def _entry(values: Values) -> BaselineEntry:
    score = score_of(values)
    examples = tuple(outcome.example for outcome in score.outcomes)
    entry: BaselineEntry = plain(baseline_entry(examples, {"recall@5": (score, {})}, spool=Spool()))
    return entry


def _anchor(values: Values, updates: int = 7, fingerprint: dict[str, Any] | None = None) -> BaselineScore:
    return replace(before_of(values, fingerprint=fingerprint), pin=PIN._replace(updates=updates))


def _ruling(
    now: Values,
    *,
    before: Values | None = None,
    anchor: BaselineScore | None,
    tests: int = 1,
    lookup: dict[str, Any] | None = None,
    **words: Any,
) -> ThresholdResult:
    words = {"max_drop": 0.5, "max_total_drop": 0.05} | words
    baseline = BaselineLookup(
        {}, before_of(now if before is None else before), anchor=anchor, **(lookup or {})
    )
    [ruling] = evaluate_thresholds(
        [ThresholdInput(score_of(now), threshold_of("recall@5", **words), baseline)], family_size=tests
    )
    assert isinstance(ruling, ThresholdResult)
    return ruling


@pytest.mark.parametrize(
    ("pin", "text"),
    [
        (PIN, "pinned at 1a2b3c4"),
        (AnchorPin(COMMIT, "2026-11-22", 1), "pinned at 1a2b3c4, 1 update ago"),
        (AnchorPin(COMMIT, "2026-11-22", 7), "pinned at 1a2b3c4, 7 updates ago"),
        (AnchorPin(None, "2026-11-22", 2), "pinned on 2026-11-22, 2 updates ago"),
    ],
)
def test_an_anchor_says_when_it_was_pinned(pin: AnchorPin, text: str) -> None:
    assert str(pin) == text


def test_an_anchor_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "rageval_baseline.json"
    outcome = ranked("q1", 0.5, ["kb-1"], "an answer")
    score = Score("recall@5", [outcome])
    entry = baseline_entry((outcome.example,), {"recall@5": (score, {"generator": "m1"})}, spool=Spool())
    Baseline({"t": entry}).write(path)
    assert "anchors" not in json.loads(path.read_text(encoding="utf-8"))
    Baseline({"t": entry}, anchors={"t": anchor_entry(entry, AnchorPin(None, "2026-11-22", 3))}).write(path)
    baseline = Baseline.read(path)
    anchor, before = baseline.anchor_score("t", "recall@5", None), baseline.score("t", "recall@5", None)
    assert before is not None
    assert anchor.pin == AnchorPin(None, "2026-11-22", 3)
    assert (anchor.questions, anchor.fingerprint) == (before.questions, before.fingerprint)
    assert dict(anchor.examples["q1"]) == {"score": 0.5, "under": before.fingerprint_digest}
    assert (before.pin, dict(before.examples["q1"])["answer"]) == (None, "an answer")
    assert baseline.anchor_score("t", "mrr@5", None) is baseline.anchor_score("u", "recall@5", None) is None
    with pytest.raises(
        InputError, match=r"question q1 in recall@5 of t has the score 0.5, and the score goes from 1"
    ):
        baseline.anchor_score("t", "recall@5", (1.0, 5.0))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda anchors: anchors["t"].pop("questions"),
        lambda anchors: anchors["t"].pop("date"),
        lambda anchors: anchors["t"].pop("updates"),
        lambda anchors: anchors["t"].update(updates=-1),
        lambda anchors: anchors["t"].update(updates="7"),
        lambda anchors: anchors["t"].update(commit=7),
        lambda anchors: anchors["t"]["scores"]["recall@5"]["examples"]["q0"].update(score="1"),
        lambda anchors: anchors.update(t=[]),
    ],
)
def test_an_anchor_of_another_form_is_an_error(tmp_path, spoil):
    path, entry = tmp_path / "rageval_baseline.json", _entry({"q0": 1.0})
    anchors: dict[str, Any] = {"t": copy.deepcopy(anchor_entry(entry, PIN))}
    for spoilt in (False, True):
        if spoilt:
            spoil(anchors)
        document = {"schema": 1, "tests": {"t": entry}, "anchors": anchors}
        path.write_text(json.dumps(document), encoding="utf-8")
        if not spoilt:
            assert Baseline.read(path).anchors == anchors
    with pytest.raises(
        InputError, match=r"is not a baseline of this package: .*the anchor of t\b.*\.\nRestore it"
    ):
        Baseline.read(path)


def test_an_update_keeps_anchors_and_counts_itself_where_a_score_moved() -> None:
    before = {name: _entry({"a": 1.0}) for name in ("moved", "same", "gone", "other")}
    anchors = {name: anchor_entry(_entry({"a": 1.0}), PIN._replace(updates=3)) for name in before}
    entries = {"moved": _entry({"a": 0.5}), "same": _entry({"a": 1.0}), "new": _entry({"a": 1.0})}
    update = compute_update(before, entries, unfinished=(), failed={}, complete=False)
    after = updated_anchors(anchors, update, written=entries, complete=False)
    assert {name: anchor["updates"] for name, anchor in after.items()} == {
        "moved": 4,
        "same": 3,
        "gone": 3,
        "other": 3,
    }
    assert after["moved"]["scores"] == anchors["moved"]["scores"]
    update = compute_update(before, entries, unfinished=(), failed={}, complete=True)
    assert updated_anchors(anchors, update, written=entries, complete=True).keys() == {"moved", "same"}


def test_pinning_replaces_the_anchors_of_the_tests_that_ran() -> None:
    before = {name: _entry({"a": 1.0}) for name in ("ran", "other")}
    anchors = {name: anchor_entry(_entry({"a": 1.0}), PIN._replace(updates=3)) for name in before}
    entries = {"ran": _entry({"a": 0.5})}
    update = compute_update(before, entries, unfinished=(), failed={}, complete=False)
    after = updated_anchors(
        anchors, update, written=entries, pin=AnchorPin(None, "2027-01-01"), complete=False
    )
    assert after == {
        "ran": anchor_entry(entries["ran"], AnchorPin(None, "2027-01-01")),
        "other": anchors["other"],
    }


@pytest.mark.parametrize(
    ("lost", "words", "status", "reason"),
    [
        (
            4,
            {},
            "pass",
            (
                "fell from the anchor's 1.000 (pinned at 1a2b3c4, 7 updates ago) to 0.960 (allowed 0.05): 4 of 100 "
                "questions worse, 0 better"
            ),
        ),
        (
            6,
            {"alpha": 0.02},
            "inconclusive",
            "(allowed 0.05): 6 of 100 *; look at q94, *. Chance alone: about 1 in 200 *`git log -p` of *",
        ),
        (
            6,
            {"alpha": 0.02, "inconclusive": "fail"},
            "fail",
            "; inconclusive is set to fail. Several updates *`git log -p` of *",
        ),
        (
            12,
            {},
            "fail",
            (
                "(allowed 0.05): 12 of 100 questions worse, 0 better. Chance alone: fewer than 1 in 1,000 comparisons. "
                "Several updates of the baseline lowered it: `git log -p` of its file shows which. Fix that, or accept "
                "it: `rageval baseline pin`"
            ),
        ),
        (30, {"burden": "beyond"}, "fail", ". With a true drop of 0.05, chance alone: fewer *"),
    ],
)
def test_the_total_drop_is_bounded_below_the_anchor(lost, words, status, reason):
    """max_total_drop compares with the anchor although the score equals its baseline."""
    ruling = _ruling(numbered(100 - lost, lost), anchor=_anchor(ALL), **words)
    assert ruling.verdict.status == status
    parts = [part for part in reason.split("*") if part]
    places = [ruling.verdict.reason.find(part) for part in parts]
    assert -1 not in places, ruling.verdict.reason
    assert places == sorted(places)


@pytest.mark.parametrize(("updates", "tests"), [(0, 1), (0, 4), (9, 1), (19, 2)])
def test_the_level_is_spent_over_updates(updates: int, tests: int) -> None:
    ruling = _ruling(numbered(90, 10), anchor=_anchor(ALL, updates), tests=tests, max_drop=0.02)
    assert ruling.drop is not None
    assert ruling.anchor.alpha == pytest.approx(anchor_alpha(0.05 / tests, updates + 1))
    assert ruling.drop.alpha == 0.05 / level_shares(tests)


def test_a_bound_within_the_noise_of_runs_is_pointed_out_once() -> None:
    """The noise warning of `min` is given once, although the anchor is compared too."""
    again = score_of(numbered(90, 10)).outcomes
    score = Score("recall@5", score_of(numbered(94, 6)).outcomes, repeats=[again])
    threshold = threshold_of("recall@5", min=0.91, max_drop=0.5, max_total_drop=0.09)
    before = replace(before_of(ALL), runs=2)
    lookup = BaselineLookup({}, before, anchor=replace(_anchor(ALL), runs=2))
    [ruling] = evaluate_thresholds([ThresholdInput(score, threshold, lookup)])
    assert isinstance(ruling, ThresholdResult)
    assert [warning.partition(" is a coin toss")[0] for warning in ruling.verdict.warnings] == [
        "min 0.91",
        "max_total_drop (0.910)",
    ]


def test_both_drops_are_named_where_both_are_too_large() -> None:
    ruling = _ruling(numbered(70, 30), before=numbered(90, 10), anchor=_anchor(ALL), max_drop=0.02)
    assert ruling.verdict.status == "fail"
    first, _, second = ruling.verdict.reason.partition("; ")
    assert first.startswith("fell from 0.900 to 0.700 (allowed 0.02): 20 of 100 questions worse")
    assert second.startswith(
        "fell from the anchor's 1.000 (pinned at 1a2b3c4, 7 updates ago) to 0.700 (allowed 0.05): 30 of 100"
    )


def test_a_strict_threshold_on_the_last_drop_is_none_on_the_total_one() -> None:
    ruling = _ruling(ALL, anchor=_anchor(ALL), max_drop=0.1, strict=True)
    assert ruling.anchor is not None
    assert ruling.anchor.min_examples is not None
    assert ruling.verdict.status == "pass"


NO_ANCHOR = (
    "1.000 has no anchor yet for max_total_drop to compare with; on the commit to compare with, "
    "`rageval baseline pin` pins one"
)


def test_without_an_anchor_the_run_says_how_to_pin_one() -> None:
    verdict = _ruling(ALL, anchor=None).verdict
    same = "is 1.000 as before: 0 of 100 questions worse, 0 better"
    assert (verdict.status, verdict.reason, verdict.warnings) == (
        "pass",
        f"{same}; {NO_ANCHOR}",
        (NO_ANCHOR,),
    )
    verdict = _ruling(ALL, anchor=None, lookup={"required": True}).verdict
    assert verdict.status == "error"
    assert verdict.reason.startswith(f"recall@5: {same}; {NO_ANCHOR} (--rageval require_baseline=true")
    verdict = _ruling(
        numbered(96, 4), before=ALL, anchor=None, max_drop=0.02, alpha=0.01, lookup={"required": True}
    ).verdict
    assert verdict.status == "error"
    verdict = _ruling(ALL, anchor=None, max_drop=0.02).verdict
    assert verdict.status == "pass"
    assert verdict.reason.endswith(f"is 1.000 as before: 0 of 100 questions worse, 0 better; {NO_ANCHOR}")


def test_an_anchor_under_other_settings_is_an_error_and_hides_no_failure() -> None:
    anchor = _anchor(ALL, fingerprint={"generator": "m1"})
    verdict = _ruling(ALL, anchor=anchor).verdict
    assert (verdict.status, verdict.reason) == (
        "error",
        (
            "recall@5: the anchor (pinned at 1a2b3c4, 7 updates ago) was made with other settings; only the retriever "
            "may differ. Changed since:\n  generator: m1 in the anchor, nothing now\nGo back to what it was, or pin a "
            "new anchor on the commit to compare with: --rageval-update-baseline --rageval-pin-baseline."
        ),
    )
    verdict = _ruling(numbered(70, 30), before=ALL, anchor=anchor, max_drop=0.02).verdict
    assert verdict.status == "fail"
    assert verdict.reason.startswith("fell from 1.000 to 0.700")
    assert "the anchor (pinned at" in verdict.warnings[-1]


@pytest.mark.parametrize(
    ("lost", "allowed", "pinning", "expected_warning"),
    [
        (0, 0.05, False, None),
        (4, 0.05, False, None),
        (4, None, False, None),
        (6, 0.05, False, "Chance alone: about 1 in 200 comparisons; it is kept, and --rageval-pin-"),
        (12, 0.2, False, "(allowed 0.2): 12 of 100 questions worse, 0 better"),
        (12, None, False, "to 0.880: 12 of 100 questions worse"),
        (12, 0.05, True, "; it is replaced"),
    ],
)
def test_an_update_that_goes_below_the_anchor_says_so(lost, allowed, expected_warning, *, pinning):
    lookup = {"updating": True, "pinning": pinning}
    words = {"max_drop": 0.02, "max_total_drop": allowed}
    ruling = _ruling(numbered(100 - lost, lost), anchor=_anchor(ALL), lookup=lookup, **words)
    assert (ruling.verdict.status, ruling.verdict.reason) == (
        "pass",
        f"{1 - lost / 100:.3f} is the new baseline",
    )
    if expected_warning is None:
        assert not ruling.verdict.warnings
        return
    (warning,) = ruling.verdict.warnings
    fell = "fell from the anchor's 1.000 (pinned at 1a2b3c4, 7 updates ago) to"
    assert warning.startswith(f"the new baseline is below the anchor: {fell} {1 - lost / 100:.3f}")
    assert expected_warning in warning


def test_an_update_under_other_settings_says_that_the_anchor_is_kept() -> None:
    anchor = _anchor(ALL, fingerprint={"generator": "m1"})
    for pinning in (False, True):
        ruling = _ruling(ALL, anchor=anchor, lookup={"updating": True, "pinning": pinning})
        assert ruling.verdict.status == "pass"
        warnings = [
            warning
            for warning in ruling.verdict.warnings
            if warning.startswith("the anchor is kept, and cannot be")
        ]
        assert len(warnings) == (not pinning)


def test_new_questions_missing_in_the_anchor_are_reported() -> None:
    now = numbered(120, 0)
    (warning,) = _ruling(now, anchor=_anchor(ALL)).verdict.warnings
    assert warning == (
        "a drop since the anchor among 20 of 120 examples would not be seen; 20 have no score in the anchor (new, "
        "edited, or unscored then): write the anchor again on the commit to compare with, --rageval-update-baseline "
        "--rageval-pin-baseline"
    )


def test_the_failure_lists_what_got_worse_since_the_anchor() -> None:
    ruling = _ruling(numbered(80, 20), before=numbered(81, 19), anchor=_anchor(ALL), max_drop=0.02)
    text = " ".join(" ".join(failure_lines([ruling], Room(20))).split())
    assert text.startswith("recall@5 fell from the anchor's 1.000 (pinned at ")
    assert ": 20 of 100 questions worse, 0 better" in text
    entry = comparisons_entry(ruling)["anchor"]
    assert (entry["commit"], entry["date"], entry["updates"]) == (COMMIT, "2026-11-22", 7)
    assert (entry["mean"], round(entry["drop"], 3), len(entry["worse"])) == (1.0, 0.2, 20)
    ruling = _ruling(numbered(50, 50), before=ALL, anchor=_anchor(ALL), max_drop=0.02)
    lines = failure_lines([ruling], Room(20))
    assert lines[0].startswith("recall@5 fell from 1.000 to 0.500 (allowed 0.02): 50 of 100 questions worse")
