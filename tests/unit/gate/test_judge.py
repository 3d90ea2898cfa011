"""Evaluating a threshold on a score, its slices and its baseline."""

from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import pytest

from pytest_rageval.baseline import baseline_entry
from pytest_rageval.baseline.entries import AnchorPin, BaselineScore
from pytest_rageval.core.errors import InputError, TooManyUnscoredError
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.gate.judge import evaluate_thresholds
from pytest_rageval.gate.verdict import BaselineLookup, ThresholdInput, ThresholdResult
from pytest_rageval.lib.spool import Spool
from pytest_rageval.stats.mcnemar import mcnemar_p_value
from tests.unit.gate.scored import before_of, numbered, rule_on, score_of, threshold_of

NOTHING = BaselineLookup({}, None)
ALL = numbered(20, 0)


def _tagged(*examples: tuple[float | None, Any], tag: str = "topic", max_unscored: float = 1.0) -> Score:
    outcomes = [
        Outcome(
            Example(f"q{n}", f"q{n}", tags={} if value is None else {tag: value}),
            score,
            "no gold passages" if score is None else None,
        )
        for n, (score, value) in enumerate(examples)
    ]
    return Score("recall@5", outcomes, max_unscored=max_unscored)


def _by(score: Score, memory: BaselineLookup = NOTHING, alpha: float = 0.05, **words: Any) -> ThresholdResult:
    return rule_on(score, threshold_of("recall@5", by="topic", **words), memory, alpha=alpha)


def _ended(ruling: ThresholdResult) -> list[tuple[Any, str]]:
    return [(part.threshold.where["topic"], part.verdict.status) for part in ruling.slices]


def test_the_values_of_a_tag_have_a_ruling_each_the_worst_first() -> None:
    """Each tag value is a slice, the worst slice gives the verdict, and untagged examples are in no slice."""
    score = _tagged((1.0, "a"), (0.5, "b"), (0.9, "c"), (0.4, "c"), (0.0, None))
    ruling = _by(score, min=0.6)
    assert _ended(ruling) == [("b", "fail"), ("c", "pass"), ("a", "pass")]
    assert ruling.threshold.where == {"topic": "b"}
    assert ruling.score == 0.5
    assert ruling.verdict.reason == "0.500 is below the minimum 0.6"


@pytest.mark.parametrize(
    ("bounds", "order"),
    [
        ({"min": 0.1}, ["low", "middle", "high"]),
        ({"max": 0.95}, ["high", "middle", "low"]),
        ({"min": 0.0, "max": 0.95}, ["high", "low", "middle"]),
        ({"max_drop": 0.1}, ["low", "middle", "high"]),
    ],
)
def test_of_equal_verdicts_the_worst_is_closest_to_a_bound(bounds, order):
    score = _tagged((0.9, "high"), (0.2, "low"), (0.5, "middle"))
    ruling = _by(score, **bounds)
    assert [value for value, _ in _ended(ruling)] == order
    assert {status for _, status in _ended(ruling)} == {"pass"}


def test_an_error_is_worse_than_a_failure_and_that_than_doubt() -> None:
    values = (
        [(1.0, "fine")] * 10 + [(0.0, "lost")] * 10 + [(1.0, "doubt")] * 9 + [(0.0, "doubt"), (1.0, "edited")]
    )
    before = before_of({f"q{n}": 1.0 for n in range(30)})
    before = replace(before, questions={**before.questions, "q30": "another question"})
    ruling = _by(_tagged(*values), BaselineLookup({}, before), max_drop=0.02)
    assert _ended(ruling) == [
        ("edited", "error"),
        ("lost", "fail"),
        ("doubt", "inconclusive"),
        ("fine", "pass"),
    ]
    assert "of 1 example none is in the baseline" in ruling.verdict.reason


def test_the_values_of_a_tag_are_tested_together() -> None:
    """With one loss in each of four slices, each p-value is the chance that any slice loses as much: 0.71."""
    values = [(0.0 if n == 0 else 1.0, topic) for topic in "abcd" for n in range(6)]
    before = before_of({f"q{n}": 1.0 for n in range(24)})
    ruling = _by(_tagged(*values), BaselineLookup({}, before), alpha=0.04, max_drop=0.02)
    levels = [part.drop.alpha for part in ruling.slices if part.drop is not None]
    assert levels == [0.04] * 4
    assert [part.drop.p_value for part in ruling.slices if part.drop is not None] == [
        pytest.approx(1 - (1 - mcnemar_p_value(1, 0, 6)) ** 4, abs=0.02)
    ] * 4


def test_a_list_of_tags_puts_an_example_in_several_slices() -> None:
    """Each value of a tag's list is a slice; repeated values count once, and numbers stay numbers."""
    score = _tagged((1.0, ["a", "b"]), (0.0, ["b", "b"]), (0.5, 2), (0.25, []), (0.1, [None, "a"]))
    slices = {part.threshold.where["topic"]: part.score for part in _by(score, min=0.0).slices}
    assert slices == {"a": 0.55, "b": 0.5, 2: 0.5}


def test_slices_of_a_slice() -> None:
    outcomes = [
        Outcome(Example(f"q{n}", "?", tags={"topic": topic, "hops": hops}), float(n))
        for n, (topic, hops) in enumerate([("a", 1), ("a", 2), ("b", 2), ("c", 1)])
    ]
    ruling = _by(Score("recall@5", outcomes), where={"hops": 2}, min=0.0)
    assert [part.threshold.where for part in ruling.slices] == [
        {"hops": 2, "topic": "a"},
        {"hops": 2, "topic": "b"},
    ]


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (_tagged((1.0, "a"), tag="subject"), "no example has the tag by='topic'. They have: subject."),
        (_tagged((1.0, None)), "no example has the tag by='topic'. They have no tags."),
        (_tagged((1.0, [])), "no example has the tag by='topic'. They have: topic."),
    ],
)
def test_a_tag_that_nobody_has_is_an_error_that_lists_those_there_are(score: Score, message: str) -> None:
    with pytest.raises(InputError) as caught:
        _by(score, min=0.5)
    assert str(caught.value) == f"recall@5: {message}"


def test_a_slice_without_scores_is_an_error_beside_the_others() -> None:
    score = _tagged((1.0, "a"), (0.2, "b"), (None, "c"))
    ruling = _by(score, min=0.5)
    assert _ended(ruling) == [("c", "error"), ("b", "fail"), ("a", "pass")]
    assert ruling.score is None
    assert ruling.verdict.reason.startswith("recall@5 where topic='c': none of 1 example has a score:\n")
    with pytest.raises(TooManyUnscoredError):
        rule_on(score, threshold_of("recall@5", min=0.5, where={"topic": "c"}), NOTHING, alpha=0.05)
    with pytest.raises(InputError, match="No example has topic='d'"):
        rule_on(score, threshold_of("recall@5", min=0.5, where={"topic": "d"}), NOTHING, alpha=0.05)


@pytest.mark.parametrize(
    ("words", "status", "reason", "has_warning"),
    [
        ({}, "pass", "1.000 has no baseline yet to compare with; --rageval-update-baseline writes one", True),
        (
            {"required": True},
            "error",
            (
                "recall@5: 1.000 has no baseline yet to compare with; --rageval-update-baseline writes one "
                "(--rageval require_baseline=true, the default under CI=true)"
            ),
            False,
        ),
        ({"updating": True}, "pass", "1.000 is the new baseline", False),
        ({"updating": True, "required": True}, "pass", "1.000 is the new baseline", False),
    ],
)
def test_without_a_baseline(words: dict[str, bool], status: str, reason: str, *, has_warning: bool) -> None:
    ruling = rule_on(
        score_of(ALL), threshold_of("recall@5", max_drop=0.02), BaselineLookup({}, None, **words), alpha=0.05
    )
    assert (ruling.verdict.status, ruling.verdict.reason, ruling.drop) == (status, reason, None)
    assert ruling.verdict.warnings == ((reason,) if has_warning else ())


@pytest.mark.parametrize("words", [{}, {"required": True}, {"updating": True}])
def test_bounds_of_the_mean_hold_without_a_baseline(words: dict[str, bool]) -> None:
    threshold = threshold_of("recall@5", min=0.5, max_drop=0.02)
    ruling = rule_on(score_of(numbered(5, 15)), threshold, BaselineLookup({}, None, **words), alpha=0.05)
    assert (ruling.verdict.status, ruling.verdict.reason) == ("fail", "0.250 is below the minimum 0.5")


def test_an_update_keeps_the_warning_of_a_bound_within_the_noise() -> None:
    score = Score(
        "recall@5", score_of(numbered(16, 4)).outcomes, repeats=[score_of(numbered(18, 2)).outcomes]
    )
    threshold = threshold_of("recall@5", min=0.81, max_drop=0.02)
    ruling = rule_on(score, threshold, BaselineLookup({}, None, updating=True), alpha=0.05)
    assert ruling.verdict.reason == "0.850 is the new baseline"
    assert [warning[:11] for warning in ruling.verdict.warnings] == ["min 0.81 is"]


def test_a_stale_baseline_is_an_error_and_hides_no_failure() -> None:
    memory = BaselineLookup({"generator": "m2"}, before_of(ALL, fingerprint={"generator": "m1"}))
    threshold = threshold_of("recall@5", max_drop=0.02)
    ruling = rule_on(score_of(ALL), threshold, memory, alpha=0.05)
    assert (ruling.verdict.status, ruling.score, ruling.drop) == ("error", 1.0, None)
    assert "generator: m1 in the baseline, m2 now" in ruling.verdict.reason
    ruling = rule_on(
        score_of(numbered(1, 19)), threshold_of("recall@5", min=0.5, max_drop=0.02), memory, alpha=0.05
    )
    assert (ruling.verdict.status, ruling.verdict.reason) == ("fail", "0.050 is below the minimum 0.5")
    assert "generator: m1 in the baseline, m2 now" in ruling.verdict.warnings[0]


def test_the_drop_is_shown_with_the_verdict() -> None:
    memory = BaselineLookup({}, before_of(ALL))
    ruling = rule_on(score_of(numbered(14, 6)), threshold_of("recall@5", max_drop=0.02), memory, alpha=0.025)
    assert ruling.verdict.status == "fail"
    assert (ruling.drop.alpha, ruling.drop.p_value) == (0.025, mcnemar_p_value(6, 0, 20))
    assert ruling.comparison is ruling.drop.comparison
    assert not ruling.slices
    assert rule_on(score_of(ALL), threshold_of("recall@5", min=0.5), memory, alpha=0.025).comparison is None


def test_a_value_of_which_the_baseline_has_no_question_has_none_yet() -> None:
    """A new tag value passes with a warning until the baseline is written again; other values are compared."""
    tags = {name: {"topic": "old"} for name in ALL} | {"new": {"topic": "new"}}
    score = score_of({**ALL, "new": 1.0}, tags=tags)
    ruling = _by(score, BaselineLookup({}, before_of(ALL)), max_drop=0.02)
    assert sorted(_ended(ruling)) == [("new", "pass"), ("old", "pass")]
    assert {part.threshold.where["topic"]: bool(part.verdict.warnings) for part in ruling.slices} == {
        "new": True,
        "old": False,
    }


@pytest.mark.parametrize(("required", "status"), [(False, "pass"), (True, "error")])
def test_where_and_by_are_of_one_mind_on_a_new_slice(status: str, *, required: bool) -> None:
    tags = {name: {"topic": "old"} for name in ALL} | {"new": {"topic": "new"}}
    score = score_of({**ALL, "new": 1.0}, tags=tags)
    memory = BaselineLookup({}, before_of(ALL), required=required)
    threshold = threshold_of("recall@5", max_drop=0.02, where={"topic": "new"})
    ruling = rule_on(score, threshold, memory, alpha=0.05)
    by = {part.threshold.where["topic"]: part.verdict for part in _by(score, memory, max_drop=0.02).slices}
    assert ruling.verdict == by["new"]
    assert ruling.verdict.status == status
    assert "has no baseline yet" in ruling.verdict.reason


def test_another_set_is_no_new_slice() -> None:
    """If the baseline has no question of the set, the result is an error: otherwise nothing would ever be compared."""
    score = score_of({f"other{n}": 1.0 for n in range(9)})
    ruling = rule_on(
        score, threshold_of("recall@5", max_drop=0.02), BaselineLookup({}, before_of(ALL)), alpha=0.05
    )
    assert ruling.verdict.status == "error"


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize(
    "bounds", [{"max_drop": 0.02}, {"max_lost": 0}, {"max_drop": 0.02, "where": {"topic": "t"}}]
)
def test_questions_that_are_gone_are_an_error_if_they_are_many(bounds, *, required):
    before = before_of(ALL)
    tags = {name: {"topic": "t"} for name in ALL}
    threshold = threshold_of("recall@5", **bounds)
    for max_removed, gone, is_many in ((0.1, 2, False), (0.1, 3, True), (0.15, 3, False), (0.0, 1, True)):
        memory = BaselineLookup({}, before, required=required, max_removed=max_removed)
        names = list(ALL)[gone - 1 :]
        reworded = replace(before, questions={**before.questions, names[0]: "another digest"})
        for baseline, kept in ((before, names[1:]), (reworded, names)):
            score = score_of(dict.fromkeys(kept, 1.0), tags=tags)
            result = rule_on(score, threshold, replace(memory, before=baseline))
            assert len(result.changes.gone) == gone
            texts = [result.verdict.reason, *result.verdict.warnings]
            found = [
                text for text in texts if f"{gone} of 20 questions of the baseline cannot be compared" in text
            ]
            assert bool(found) == is_many
            assert (result.verdict.status == "error") == (is_many and required)
            if found:
                assert "--rageval-update-baseline" in found[0]
                assert ("edited (q" in found[0]) == (baseline is reworded)


def test_a_drop_fails_beside_questions_that_are_gone() -> None:
    memory = BaselineLookup({}, before_of(ALL), required=True)
    ruling = rule_on(score_of(numbered(5, 10)), threshold_of("recall@5", max_drop=0.02), memory)
    assert ruling.verdict.status == "fail"
    # Each line of a warning begins with the name of its score.
    assert ruling.verdict.warnings[-1].startswith("5 of 20 questions of the baseline cannot be compared")


def test_the_questions_since_the_anchor_count_too() -> None:
    anchor = replace(before_of(ALL), pin=AnchorPin("1a2b3c4d", "2026-01-01"))
    fewer = numbered(15, 0)
    memory = BaselineLookup({}, before_of(fewer), required=True, anchor=anchor)
    ruling = rule_on(score_of(fewer), threshold_of("recall@5", max_drop=0.02, max_total_drop=0.05), memory)
    assert ruling.verdict.status == "error"
    assert "5 of 20 questions of the anchor cannot be compared" in ruling.verdict.reason
    assert "--rageval-pin-baseline" in ruling.verdict.reason


CHANCE = "max_drop=0.02: with {} chance alone does that in 1 of {} comparisons, and red needs 1 in 20"
BLIND = "recall@5: it could not fail, even if all of {} had the score 0 ({}). Add questions, and write the"


@pytest.mark.parametrize(
    ("before", "bounds", "why"),
    [
        (
            numbered(3, 0),
            {"max_drop": 0.02},
            CHANCE.format("3 examples", 8) + "; at least 5 examples are needed",
        ),
        (
            numbered(1, 0),
            {"max_drop": 0.02},
            CHANCE.format("1 example", 2) + "; at least 5 examples are needed",
        ),
        (
            numbered(3, 0),
            {"max_drop": 0.02, "cluster": "topic"},
            CHANCE.format("3 clusters", 8) + "; at least 5 clusters are needed",
        ),
        (numbered(2, 38), {"max_drop": 0.02}, CHANCE.format("40 examples", 10)),
        (numbered(4, 6), {"max_drop": 0.4}, "max_drop=0.4: the drop from the baseline would be 0.400"),
        (
            numbered(0, 200),
            {"max_drop": 0.02, "strict": True},
            "max_drop=0.02: the drop from the baseline would be 0.000",
        ),
        (numbered(3, 0), {"max_lost": 3}, "max_lost=3: only 3 could score less"),
        (
            numbered(3, 0),
            {"max_lost": 3, "max_drop": 0.02},
            "max_lost=3: only 3 could score less; "
            + CHANCE.format("3 examples", 8)
            + "; at least 5 examples are needed",
        ),
        (numbered(5, 0), {"max_drop": 0.02}, None),
        (numbered(5, 0), {"max_drop": 0.02, "burden": "beyond"}, None),
        (numbered(3, 0), {"max_drop": 0.02, "inconclusive": "fail"}, None),
        (numbered(3, 0), {"max_drop": 0.02, "min": 0.5}, None),
        (numbered(3, 0), {"max_drop": 0.02, "min": 0.0}, "max_drop=0.02: with 3 "),
        (numbered(3, 0), {"max_drop": 0.02, "max": 1.0}, "max_drop=0.02: with 3 "),
        (numbered(3, 0), {"max_drop": 0.02, "max_lost": 0}, None),
    ],
)
def test_a_threshold_that_could_not_fail_is_an_error(before, bounds, why):
    """Attack: the eval set is cut to so few questions that no loss is significant."""
    tags = {name: {"topic": name} for name in before}
    threshold = threshold_of("recall@5", **bounds)
    memory = BaselineLookup({}, before_of(before))
    wrong = rule_on(score_of(dict.fromkeys(before, 0.0), tags=tags), threshold, memory).verdict
    for now in (before, dict.fromkeys(before, 0.0)):
        verdict = rule_on(score_of(now, tags=tags), threshold, memory).verdict
        if why is None:
            assert verdict.status != "error"
        else:
            assert verdict.status == "error"
            assert (
                BLIND.format("1 example" if len(before) == 1 else f"{len(before)} examples", why)[:-50]
                in verdict.reason
            )
    assert wrong.status == ("error" if why else "fail")


def test_a_slice_that_could_not_fail_is_an_error_only_if_all_are() -> None:
    for sizes, status in (((3, 8), "pass"), ((3, 3), "error")):
        topics = [topic for topic, size in zip("ab", sizes, strict=True) for _ in range(size)]
        score = _tagged(*[(1.0, topic) for topic in topics])
        memory = BaselineLookup({}, before_of(numbered(len(topics), 0)))
        ruling = _by(score, memory, max_drop=0.02)
        assert {part.verdict.status for part in ruling.slices} == {status}
        small = next(part for part in ruling.slices if part.threshold.where["topic"] == "a")
        assert len(small.verdict.warnings) == (status == "pass")


def test_an_update_says_that_the_next_run_could_not_fail() -> None:
    """Whoever writes a baseline of three questions learns it at once."""
    for n, warned in ((4, True), (5, False)):
        memory = BaselineLookup({}, None, updating=True)
        ruling = rule_on(score_of(numbered(n, 0)), threshold_of("recall@5", max_drop=0.02), memory)
        assert (ruling.verdict.status, ruling.comparison, ruling.drop) == ("pass", None, None)
        warnings = [
            text for text in ruling.verdict.warnings if text.startswith("the next run will be an error: it")
        ]
        assert len(warnings) == warned


def _passes(scale: tuple[float, float], max_drop: float) -> bool:
    examples = [Example(str(n), f"question {n}") for n in range(149)]
    questions = {example.id: example.digest for example in examples}
    before = BaselineScore(questions, {}, {example.id: {"score": 4.0} for example in examples})
    score = Score("judged.correctness@5", [Outcome(example, 4.0) for example in examples], scale=scale)
    threshold = threshold_of(score.spec, max_drop=max_drop, strict=True)
    return rule_on(score, threshold, BaselineLookup({}, before), alpha=0.05).verdict.status == "pass"


@pytest.mark.parametrize("max_drop", [0.02, 0.05])
def test_whole_losses_that_were_not_seen_are_as_large_as_the_scale(max_drop: float) -> None:
    """149 unchanged examples exclude a mean loss of 2% of the scale, which is 0.08 on a scale from 1 to 5."""
    assert _passes((0.0, 1.0), max_drop)
    assert not _passes((1.0, 5.0), max_drop)
    assert _passes((1.0, 5.0), 4 * max_drop)


def test_the_digest_of_a_question_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest of a question is computed once per test: for 100,000 questions it takes half a second."""
    digest_with_context, digest_counts = Example.digest_with_context, Counter[str]()

    def counted(example: Example, context: AbstractSet[str]) -> str:
        digest_counts[example.id] += 1
        return digest_with_context(example, context)

    score, again = (_tagged(*[(1.0, "ab"[n % 2]) for n in range(20)]) for _ in range(2))
    # The examples of a run are the same objects in all scores.
    outcomes = [
        replace(one, example=shared.example)
        for one, shared in zip(again.outcomes, score.outcomes, strict=True)
    ]
    examples = tuple(outcome.example for outcome in outcomes)
    entry = baseline_entry(examples, {"recall@5": (score, {})}, spool=Spool())
    before = BaselineScore(entry["questions"], {}, entry["scores"]["recall@5"]["examples"])
    monkeypatch.setattr(Example, "digest_with_context", counted)
    cases = [
        ThresholdInput(scored, threshold_of("recall@5", max_drop=0.02, by=by), BaselineLookup({}, before))
        for scored in (score, Score("mrr@5", outcomes))
        for by in (None, "topic")
    ]
    assert [
        threshold.verdict.status
        for threshold in evaluate_thresholds(cases)
        if isinstance(threshold, ThresholdResult)
    ] == ["pass"] * 4
    assert set(digest_counts.values()) == {1}


@pytest.mark.parametrize(
    ("n", "lost", "words", "deterministic", "status"),
    [
        (30, 3, {}, True, "fail"),
        (30, 2, {}, True, "inconclusive"),
        (30, 3, {}, False, "inconclusive"),
        (30, 3, {"small_set_drop": 0.11}, True, "inconclusive"),
        (30, 2, {"small_set_drop": 0.05}, True, "fail"),
        (30, 3, {"burden": "beyond"}, True, "inconclusive"),
        (30, 3, {"max_drop": 0.1}, True, "pass"),
        (99, 10, {"alpha": 1e-6}, True, "fail"),
        (100, 10, {"alpha": 1e-6}, True, "inconclusive"),
    ],
)
def test_a_small_set_without_a_model_in_the_score_is_red_though_unsure(
    n: int,
    lost: int,
    words: dict[str, Any],
    deterministic: bool,  # noqa: FBT001
    status: str,
) -> None:
    """With fewer than 100 questions a drop of 0.1 is red; that is the size that docs and verdict state."""
    memory = BaselineLookup({}, before_of(numbered(n, 0)), deterministic=deterministic)
    threshold = threshold_of("recall@5", **({"max_drop": 0.02, "alpha": 0.01} | words))
    alpha = threshold.policy.alpha
    verdict = rule_on(score_of(numbered(n - lost, lost)), threshold, memory, alpha=alpha).verdict
    assert verdict.status == status
    assert ("is red with fewer than 100 questions and no model" in verdict.reason) == (status == "fail")


def test_the_small_set_drop_is_a_share_of_the_scale() -> None:
    grades = dict.fromkeys(numbered(30, 0), 5.0)
    memory = BaselineLookup({}, before_of(grades), deterministic=True)
    threshold = threshold_of("recall@5", max_drop=0.02, alpha=1e-6)
    for lost, status in ((3.9, "inconclusive"), (4.0, "fail")):
        now = score_of(grades | dict.fromkeys(["q0", "q1", "q2"], 5.0 - lost), scale=(1.0, 5.0))
        assert rule_on(now, threshold, memory, alpha=1e-6).verdict.status == status


@pytest.mark.parametrize(("minimum", "status"), [(0.9, "pass"), (0.91, "inconclusive"), (0.98, "fail")])
def test_a_minimum_may_be_compared_with_the_interval(minimum: float, status: str) -> None:
    """Wilson's interval of 90 of 100 is 0.826 to 0.945."""
    threshold = threshold_of("recall@5", min=minimum, bounds="interval")
    verdict = rule_on(score_of(numbered(90, 10)), threshold, NOTHING).verdict
    assert verdict.status == status
    if status == "inconclusive":
        assert verdict.reason == (
            "UNSURE: 0.900 is below the minimum 0.91, but 100 questions are too few to tell: add some. Others could "
            "give 0.826 to 0.945 (95% interval)"
        )
    maximum = threshold_of("recall@5", max=1 - minimum, bounds="interval")
    assert rule_on(score_of(numbered(10, 90)), maximum, NOTHING).verdict.status == status


def _sourced(sources: int, n: int = 60) -> tuple[Score, BaselineLookup]:
    examples = [
        Example(f"q{i}", f"q{i}", gold=(Gold(f"d{i}", source=f"{i % sources}.md"),)) for i in range(n)
    ]
    now = Score("recall@5", [Outcome(one, float(i % sources > 2)) for i, one in enumerate(examples)])
    was = Score("recall@5", [Outcome(one, 1.0) for one in examples])
    entry = baseline_entry(tuple(examples), {"recall@5": (was, {})}, spool=Spool())
    stored = entry["scores"]["recall@5"]
    return now, BaselineLookup({}, BaselineScore(entry["questions"], {}, stored["examples"]))


@pytest.mark.parametrize(
    ("sources", "cluster", "expected"),
    [
        (20, "auto", ("gold.source", 20)),
        (20, "none", (None, None)),
        # A test of fewer clusters is not reliable.
        (19, "auto", (None, None)),
        (19, "gold.source", ("gold.source", 19)),
        (60, "auto", (None, None)),
    ],
)
def test_questions_about_one_file_are_one_cluster_where_that_matters(sources, cluster, expected):
    score, memory = _sourced(sources)
    drop = rule_on(score, threshold_of("recall@5", max_drop=0.02, cluster=cluster), memory).drop
    assert (drop.cluster, drop.n_clusters) == expected
    assert drop.all_wrong.cluster == drop.cluster


def test_a_few_changed_questions_do_not_decide_about_clusters() -> None:
    """With fewer than five changed questions the design effect is unknown."""
    score, memory = _sourced(20, n=40)
    few = Score(
        "recall@5",
        [
            replace(one, value=float(one.example.id not in {"q0", "q20", "q1", "q21"}))
            for one in score.outcomes
        ],
    )
    drop = rule_on(few, threshold_of("recall@5", max_drop=0.02), memory).drop
    assert drop.cluster is None
