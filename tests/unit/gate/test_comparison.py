"""The comparison of a score with its baseline."""

from typing import Any

import pytest

from pytest_rageval.baseline.entries import BaselineScore
from pytest_rageval.baseline.file import spooled_examples
from pytest_rageval.core.errors import StaleBaselineError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.gate.comparison import compare, is_comparable
from pytest_rageval.lib.spool import Spool
from pytest_rageval.lib.text import counted
from tests.unit.gate.scored import Values, before_of, comparison_of, example, ranked, score_of


@pytest.mark.parametrize(
    ("before", "now", "drops", "left_out", "unscored"),
    [
        ({"a": 1.0, "b": 0.5}, {"a": 1.0, "b": 0.5}, [0.0, 0.0], 0, 0),
        ({"a": 1.0, "b": 0.5}, {"b": 1.0, "a": 0.0}, [-0.5, 1.0], 0, 0),
        ({"a": 1.0}, {"a": 0.5, "new": 0.0}, [0.5], 1, 0),
        ({"a": 1.0, "gone": 0.0, "too": 1.0}, {"a": 0.5}, [0.5], 2, 0),
        ({"a": 1.0, "gone": 0.0}, {"a": 1.0, "new": 0.0}, [0.0], 2, 0),
        ({"a": 1.0, "b": None}, {"a": 1.0, "b": 1.0}, [0.0], 0, 1),
        ({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": None}, [0.0], 0, 1),
        ({"a": 1.0, "b": None}, {"a": 1.0, "b": None}, [0.0], 0, 1),
        ({"a": 1.0, "gone": None}, {"a": 1.0, "new": None}, [0.0], 2, 0),
    ],
)
def test_the_examples_of_both_are_compared(before, now, drops, left_out, unscored):
    comparison = comparison_of(before, now)
    assert comparison.drops == drops
    assert (len(comparison.changes), comparison.unscored) == (left_out, unscored)
    assert comparison.drop == pytest.approx(sum(drops) / len(drops))
    common = [pair.outcome.example.id for pair in comparison.pairs]
    assert comparison.mean == pytest.approx(sum(before[name] or 0.0 for name in common) / len(common))


@pytest.mark.parametrize(
    "changes",
    [{"question": "another?"}, {"answers": ("Ada",)}, {"reference": "Ada did."}, {"answer_set": (("Ada",),)}],
)
def test_a_changed_question_is_another_one(changes: dict[str, Any]) -> None:
    outcomes = [Outcome(example("a"), 0.0), Outcome(example("b", **changes), 0.0)]
    comparison = compare(Score("recall@5", outcomes), {}, before_of({"a": 1.0, "b": 1.0}))
    assert [pair.outcome.example.id for pair in comparison.pairs] == ["a"]
    assert len(comparison.changes) == 1


def test_removed_new_and_edited_questions_are_three_counts() -> None:
    outcomes = [
        Outcome(example("a"), 1.0),
        Outcome(example("b", question="?"), 1.0),
        Outcome(example("n"), 1.0),
    ]
    before = before_of({"a": 1.0, "b": 1.0, "c": None, "d": 1.0})
    changes = compare(Score("recall@5", outcomes), {}, before).changes
    assert (changes.removed, changes.new, changes.edited, changes.before) == (("c", "d"), ("n",), ("b",), 4)
    assert changes.gone == ("c", "d", "b")
    assert str(changes) == "2 removed, 1 new, 1 edited"


def test_the_worst_case_of_what_is_lost() -> None:
    now = score_of({"a": 1.0, "b": None, "c": None}, cause="run")
    comparison = compare(now, {}, before_of({"a": 1.0, "b": 0.75, "c": None}))
    assert (comparison.drops, comparison.mean) == ([0.0], 1.0)
    for worst, drops in ((comparison.with_lost, [0.0, 0.75]), (comparison.all_wrong, [1.0, 0.75])):
        assert (worst.drops, worst.mean, worst.lost, worst.unscored) == (drops, 0.875, (), 1)
        assert [pair.drop for pair in worst.pairs] == drops


@pytest.mark.parametrize("stored", [dict, lambda examples: spooled_examples(examples.items(), Spool())])
def test_a_score_of_another_branch_is_not_compared_under_this_ones_fingerprint(stored: Any) -> None:
    before = before_of({"a": 1.0, "b": 1.0, "c": 1.0}, fingerprint={"generator": "m2", "package": "0.1"})
    other = before_of({"b": 1.0}, fingerprint={"generator": "m1", "package": "0.1"})
    unmarked = {"c": {"score": 1.0}}
    merged = BaselineScore(
        before.questions, before.fingerprint, stored({**before.examples, **other.examples, **unmarked})
    )
    now = {"generator": "m2", "package": "0.2"}
    comparison = compare(score_of({"a": 0.0, "b": 0.0, "c": 0.0}), now, merged)
    assert [pair.outcome.example.id for pair in comparison.pairs] == ["a", "c"]
    assert len(comparison.changes) == 1


def test_new_tags_make_no_other_question() -> None:
    """Changing tags does not change the question: the slice is compared with the old scores of its examples."""
    now = score_of({"a": 0.0, "b": 1.0}, tags={"a": {"topic": "new"}})
    comparison = compare(now.where(topic="new"), {}, before_of({"a": 1.0, "b": 1.0}))
    assert (comparison.drops, len(comparison.changes)) == ([1.0], 0)


def test_examples_outside_of_a_slice_do_not_count_as_removed() -> None:
    tags = {name: {"topic": "t"} for name in ("a", "new")}
    now = score_of({"a": 1.0, "b": 1.0, "new": 1.0}, tags=tags).where(topic="t")
    assert len(compare(now, {}, before_of({"a": 1.0, "b": 1.0, "gone": 1.0})).changes) == 1


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"a": 1.0}, {"b": 1.0}),
        ({"a": None}, {"a": 1.0, "b": 1.0}),
        ({"a": 1.0}, {"a": None, "b": 1.0}),
        ({}, {"a": 1.0}),
    ],
)
def test_nothing_in_common_is_no_comparison(before: Values, now: Values) -> None:
    baseline = (
        before_of(before)
        if any(value is not None for value in before.values())
        else BaselineScore({}, {}, {})
    )
    with pytest.raises(StaleBaselineError) as caught:
        compare(score_of(now), {}, baseline)
    assert str(caught.value) == (
        f"recall@5: of {counted(len(now), 'example')} none is in the baseline with the same question, answers "
        f"and gold, and scored in both.\nW{AGAIN[1:]}"
    )


def test_an_example_that_the_score_did_not_have_is_new() -> None:
    before = before_of({"a": 1.0, "b": 1.0})
    fewer = BaselineScore(before.questions, {}, {"a": before.examples["a"]})
    comparison = compare(score_of({"a": 1.0, "b": 0.0}), {}, fewer)
    assert (comparison.drops, len(comparison.changes)) == ([0.0], 1)


def test_what_got_worse_is_listed_worst_first() -> None:
    before = {"a": 0.5, "b": 1.0, "c": 1.0, "d": 0.0, "e": 0.1 + 0.2, "f": 1.0}
    now = {"a": 0.0, "b": 0.0, "c": 0.5, "d": 1.0, "e": 0.3, "f": 0.0}
    comparison = comparison_of(before, now)
    assert [change.outcome.example.id for change in comparison.worse] == ["b", "f", "a", "c"]
    assert comparison.drops[4] == 0.0


def test_a_change_shows_what_came_back_then() -> None:
    before = BaselineScore(
        before_of({"a": 1.0, "b": 1.0}).questions,
        {},
        {"a": {"score": 1.0, "ranking": ["kb-1", "kb-2"], "answer": "30 days"}, "b": {"score": 1}},
    )
    score = Score("recall@5", [ranked("a", 0.0, ["kb-9"], "no"), ranked("b", 0.5, ["kb-9"])])
    first, second = compare(score, {}, before).pairs
    assert (first.old_ranking, first.old_answer, first.drop) == (("kb-1", "kb-2"), "30 days", 1.0)
    assert (second.old_ranking, second.old_answer, second.drop) == (None, None, 0.5)


AGAIN = "write a new baseline on the commit to compare with: --rageval-update-baseline."

NOW = {"generator": "m1 at https://a/v1", "judge": "j", "judge votes": 3, "package": "0.2.0", "scoring": "1"}


@pytest.mark.parametrize(
    ("then", "lines"),
    [
        ({"generator": "m0 at https://a/v1"}, ["generator: m0 at https://a/v1 in the baseline, m1 at * now"]),
        ({"judge votes": 1}, ["judge votes: 1 in the baseline, 3 now"]),
        ({"judge max_tokens": 16}, ["judge max_tokens: 16 in the baseline, nothing now"]),
        ({"judge": None}, ["judge: nothing in the baseline, j now"]),
        ({"scoring": "0"}, ["scoring: 0 in the baseline, 1 now"]),
        (
            {"judge": "i", "generator": "m0"},
            ["generator: m0 in the baseline, m1 at * now", "judge: i in the baseline, j now"],
        ),
    ],
)
def test_all_beside_the_retriever_that_changed_is_named(then: dict[str, Any], lines: list[str]) -> None:
    with pytest.raises(StaleBaselineError) as caught:
        compare(score_of({"a": 1.0}), NOW, before_of({"a": 1.0}, fingerprint=NOW | then))
    shown = str(caught.value).replace("https://a/v1 now", "* now").splitlines()
    assert shown == [
        "recall@5: the baseline was made with other settings; only the retriever may differ. Changed since:",
        *(f"  {line}" for line in lines),
        f"Go back to what it was, or {AGAIN}",
    ]


def test_a_release_that_scores_alike_is_no_change() -> None:
    """A different package version is ignored; only the setting `scoring` makes a baseline stale."""
    before = before_of({"a": 1.0}, fingerprint=NOW | {"package": "0.1.0"})
    assert compare(score_of({"a": 1.0}), NOW, before).drops == [0.0]


def test_a_pair_without_both_scores_is_left_out_and_counted() -> None:
    examples = {name: Example(name, "?") for name in ("same", "unscored", "undefined", "then undefined")}
    score = Score(
        "rel_recall.answer@5",
        [
            Outcome(examples["same"], 0.5),
            Outcome(examples["unscored"], None, "no gold passages"),
            Outcome(examples["undefined"], None, undefined="no relevant passage was in the prompt"),
            Outcome(examples["then undefined"], 1.0),
        ],
    )
    kept = {name: {"score": None if name == "then undefined" else 1.0} for name in examples}
    before = BaselineScore({name: example.digest for name, example in examples.items()}, {}, kept)
    comparison = compare(score, {}, before)
    assert ([pair.outcome.example.id for pair in comparison.pairs], comparison.drops) == (["same"], [0.5])
    assert (comparison.unscored, len(comparison.changes)) == (3, 0)


def test_what_the_retriever_failed_at_counts_as_lost() -> None:
    """An example at which the retriever failed gets the lowest value, so that failing cannot improve the score."""
    now = score_of({"a": 1.0, "b": None, "c": None}, cause="retriever")
    comparison = compare(now, {}, before_of({"a": 1.0, "b": 0.75, "c": None}))
    assert comparison.drops == [0.0, 0.75]
    assert [outcome.example.id for outcome in comparison.failed] == ["b"]
    assert [change.outcome.value for change in comparison.worse] == [0.0]
    assert (comparison.lost, comparison.unscored, comparison.unmatched) == ((), 1, 0)
    assert comparison.mean == 0.875


def test_what_another_part_failed_at_is_lost_and_not_compared() -> None:
    """An example lost to a server failure is not compared, since the retriever is not at fault."""
    now = score_of({"a": 1.0, "b": None}, cause="run")
    comparison = compare(now, {}, before_of({"a": 1.0, "b": 0.75}))
    assert comparison.drops == [0.0]
    assert ([outcome.example.id for outcome in comparison.lost], comparison.failed) == (["b"], ())


def test_the_lowest_value_is_that_of_the_scale_or_of_what_there_was() -> None:
    now = score_of({"a": 3.0, "b": None}, cause="retriever", scale=(1.0, 5.0))
    assert compare(now, {}, before_of({"a": 3.0, "b": 4.0})).drops == [0.0, 3.0]
    assert compare(now, {}, before_of({"a": -1.0, "b": 4.0})).drops == [-4.0, 5.0]
    score = score_of({"a": 1.0, "new": 1.0, "b": None}, cause="retriever")
    assert compare(score, {}, before_of({"a": 1.0, "b": 1.0})).unmatched == 1


@pytest.mark.parametrize(
    ("stored_context", "context", "same"),
    [
        ((), (), True),
        ((), ("history",), False),
        (("history",), (), True),
        (("history",), ("history",), True),
        (("filters", "history"), ("filters",), True),
        (("filters", "history"), (), False),
    ],
)
def test_context_belongs_to_the_question_for_a_score_that_depends_on_it(stored_context, context, *, same):
    question = Example("a", "q", history=({"role": "user", "content": "Hi"},), filters={"tenant": "a"})
    questions = {"a": question.digest_with_context(set(stored_context))}
    before = BaselineScore(questions, {}, {"a": {"score": 1.0}}, context=frozenset(context))
    assert is_comparable(question, before) == same
