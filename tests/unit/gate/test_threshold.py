"""Parsing and checking the arguments of a threshold marker."""

from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.policy import BUILT_IN, Policy, policies_of
from pytest_rageval.gate import threshold as gate
from pytest_rageval.gate.threshold import Threshold, level_shares

RELEASE, SNAPSHOT = BUILT_IN["release"], BUILT_IN["snapshot"]


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({"min": 0.75}, Threshold("recall@5", min=0.75)),
        ({"max": 1}, Threshold("recall@5", max=1)),
        ({"min": 0, "max": 0}, Threshold("recall@5", min=0, max=0)),
        ({"min": 0.5, "where": None}, Threshold("recall@5", min=0.5)),
        ({"min": 0.5, "order": "random"}, Threshold("recall@5", min=0.5, order="random")),
        ({"min": 0.5, "order": "rank"}, Threshold("recall@5", min=0.5, order="rank")),
        ({"min": 0.5, "where": {"topic": "a"}}, Threshold("recall@5", min=0.5, where={"topic": "a"})),
        ({"max_drop": 0}, Threshold("recall@5", max_drop=0)),
        ({"min": 0.5, "max_drop": 0.02}, Threshold("recall@5", min=0.5, max_drop=0.02)),
        ({"max_drop": 0.02, "policy": None}, Threshold("recall@5", max_drop=0.02)),
        ({"max_drop": 0.02, "policy": "release"}, Threshold("recall@5", max_drop=0.02, policy=RELEASE)),
        ({"policy": "snapshot"}, Threshold("recall@5", max_lost=0, policy=SNAPSHOT)),
        (
            {"max_drop": 0.02, "policy": "snapshot"},
            Threshold("recall@5", max_drop=0.02, max_lost=0, policy=SNAPSHOT),
        ),
        ({"max_lost": 2, "policy": "snapshot"}, Threshold("recall@5", max_lost=2, policy=SNAPSHOT)),
        ({"max_drop": 3}, Threshold("recall@5", max_drop=3)),
        ({"min": 0.5, "by": "topic"}, Threshold("recall@5", min=0.5, by="topic")),
        ({"min": 0.5, "temperature": 0, "draws": 1}, Threshold("recall@5", min=0.5, temperature=0, draws=1)),
        (
            {"max_drop": 0.1, "by": "topic", "where": {"hops": 2}},
            Threshold("recall@5", max_drop=0.1, by="topic", where={"hops": 2}),
        ),
    ],
)
def test_bounds_are_read(kwargs: dict[str, Any], expected: Threshold) -> None:
    assert Threshold.parse(("recall@5",), kwargs) == expected


@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({"min": np.float32(0.5), "max": np.int64(1)}, {"min": 0.5, "max": 1}),
        ({"max_drop": Fraction(1, 4), "max_ratio": np.float64(1.1)}, {"max_drop": 0.25, "max_ratio": 1.1}),
        ({"max_lost": np.int64(2), "draws": np.int32(3)}, {"max_lost": 2, "draws": 3}),
    ],
)
def test_numbers_of_any_type_are_bounds(kwargs: dict[str, Any], expected: dict[str, Any]) -> None:
    threshold = Threshold.parse(("recall@5",), kwargs)
    values = {keyword: getattr(threshold, keyword) for keyword in expected}
    assert values == expected
    assert [type(value) in (int, float) for value in values.values()] == [True] * len(values)


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {"min": 0.5}, "needs the name of one score, found ()"),
        (("a@1", "b@1"), {"min": 0.5}, "needs the name of one score, found ('a@1', 'b@1')"),
        ((0.5,), {}, "needs the name of one score, found (0.5,). Write "),
        (("a@1", 0.5), {}, "found ('a@1', 0.5). A bound is a keyword argument. Write "),
        (("recall@5",), {}, "has no bound: give min, max, max_drop, max_lost or max_ratio"),
        (("recall@5",), {"where": {"topic": "a"}}, "has no bound"),
        ((), {"spec": "recall@5", "min": 0.5}, "takes the score without a keyword. Write rageval_threshold("),
        (("recall@5",), {"xyz": 0.5}, "has no keyword 'xyz'. Allowed: "),
        (("recall@5",), {"maxdrop": 0.5}, "has no keyword 'maxdrop'. Did you mean max_drop? Allowed: "),
        (("recall@5",), {"min": 0.5, "b": 1, "a": 1}, "has no keyword 'a', 'b'"),
        (("recall@5",), {"min": "0.5"}, "min='0.5' is not a number."),
        (("recall@5",), {"max": True}, "max=True is not a number"),
        (("recall@5",), {"min": float("nan")}, "min=nan is not a number"),
        (("recall@5",), {"min": 0.8, "max": 0.5}, "min=0.8 is above max=0.5"),
        (("recall@5",), {"min": 0.5, "where": "billing"}, "where='billing' is not a dict of tags"),
        (
            ("recall@5",),
            {"min": 0.5, "order": "shuffled"},
            'order=\'shuffled\' is neither "rank" nor "random"',
        ),
        (("recall@5",), {"min": 0.5, "order": ["rank"]}, "order=['rank'] is neither"),
        *(
            (("rel.answer@5",), {"min": 0.5, "relevant": value}, f"relevant={value!r} is none of")
            for value in ("llm", "gold@5", "contains@0", "judge@", "contains@100000", True)
        ),
        (("recall@5",), {"max_drop": "2%"}, "max_drop='2%' is not a number"),
        (("recall@5",), {"max_drop": True}, "max_drop=True is not a number"),
        (("recall@5",), {"max_drop": -0.02}, "max_drop=-0.02 is below 0.\nIt is how far the mean may fall"),
        (("recall@5",), {"max_lost": -1}, "max_lost=-1 is not a number of examples, such as max_lost=0."),
        (("recall@5",), {"max_lost": 0.02}, "max_lost=0.02 is not a number of examples"),
        (("recall@5",), {"max_lost": True}, "max_lost=True is not a number of examples"),
        (("recall@5",), {"min": 0.5, "by": ["topic"]}, "by=['topic'] is not the name of a tag"),
        (("recall@5",), {"by": "topic"}, "has no bound"),
        (
            ("recall@5",),
            {"max_drop": 0, "policy": "release"},
            "no number of examples excludes every drop above 0.\nWith the policy 'release' give a max_drop",
        ),
        (
            ("recall@5",),
            {"min": 0.5, "policy": "release"},
            "the policy 'release' says how max_drop is decided, and there is no max_drop.",
        ),
        (
            ("recall@5",),
            {"min": 0.5, "policy": "relese"},
            "policy='relese' does not exist. Did you mean release? There are: pr, release, snapshot. A table",
        ),
        (("recall@5",), {"min": 0.5, "policy": 1}, "policy=1 does not exist."),
        (("recall@5",), {"min": 0.5, "temperature": -0.1}, "temperature=-0.1 is not a number of at least 0"),
        (("recall@5",), {"min": 0.5, "draws": 0}, "draws=0 is not a number of draws, such as draws=3"),
        (("erag.p@5",), {"min": 0.5, "comparator": ""}, "comparator='' names no comparison, such as"),
        (("erag.p@5",), {"min": 0.5, "label": " "}, "label=' ' names no comparison"),
        (("erag.p@5",), {"min": 0.5, "label": 0.5}, "label=0.5 names no comparison"),
    ],
)
def test_an_invalid_threshold_is_reported(args, kwargs, problem):
    with pytest.raises(InputError) as caught:
        Threshold.parse(args, kwargs)
    assert str(caught.value).startswith("rageval_threshold")
    assert problem in str(caught.value)
    if "has no bound" not in problem:
        with pytest.raises(InputError) as caught:
            Threshold.parse(args, kwargs, optional=True)
        assert str(caught.value).startswith("rageval.score")
        assert "rageval_threshold" not in str(caught.value)


def test_an_unknown_word_lists_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        Threshold.parse(("recall@5",), {"maximum": 1})
    assert all(keyword in str(caught.value) for keyword in Threshold.keywords())
    assert {"min", "max", "where"} <= set(Threshold.keywords())


def test_a_score_without_bounds_may_be_asked_for() -> None:
    assert not Threshold.parse(("recall@5",), {"where": {"topic": "a"}}, optional=True).has_bound
    assert Threshold.parse(("recall@5",), {"max_drop": 0.0}, optional=True).has_bound
    assert Threshold.parse(("recall@5",), {"policy": "snapshot"}, optional=True).max_lost == 0


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({}, "erag.p@5"),
        ({"max_drop": 0.1, "where": {"topic": "a"}, "by": "topic", "policy": RELEASE}, "erag.p@5"),
        ({"comparator": "em"}, "erag.p@5 by em"),
        ({"comparator": "em", "label": "f1"}, "erag.p@5 by em by f1"),
        ({"order": "random"}, "erag.p@5 in random order"),
        ({"order": "rank"}, "erag.p@5"),
        ({"relevant": "gold"}, "erag.p@5"),
        ({"relevant": "judge@9", "order": "random"}, "erag.p@5 relevant by judge@9 in random order"),
    ],
)
def test_a_baseline_identifies_a_score_by_how_it_is_computed(words: dict[str, Any], name: str) -> None:
    assert Threshold("erag.p@5", **words).name == name


def test_a_keyword_that_the_score_does_not_take_is_ignored() -> None:
    threshold = Threshold("recall@5", min=0.5, order="random")
    assert threshold.with_ignored(["order"]) == Threshold("recall@5", min=0.5, ignored={"order": "random"})
    assert threshold.with_ignored([]) is threshold


def test_by_without_a_bound_is_an_error_where_a_score_is_asked_for() -> None:
    with pytest.raises(InputError, match=r"rageval.score\('recall@5'\) has no bound"):
        Threshold.parse(("recall@5",), {"by": "topic"}, optional=True)


GRADES = (1.0, 5.0)


@pytest.mark.parametrize(
    ("keyword", "value", "key"),
    [
        ("alpha", 0.01, "alpha = 0.01"),
        ("alpha", np.float64(0.01), "alpha = 0.01"),
        ("burden", "beyond", 'burden = "beyond"'),
        ("strict", True, 'burden = "exclude"'),
        ("inconclusive", "fail", 'inconclusive = "fail"'),
        ("cluster", "topic", 'cluster = "topic"'),
        ("tolerance", 0.1, "tolerance = 0.1"),
        ("max_total_drop", 0.05, "max_total_drop = 0.05"),
    ],
)
def test_a_word_that_a_policy_has_now_is_an_error_that_says_so(keyword: str, value: Any, key: str) -> None:
    with pytest.raises(InputError) as caught:
        Threshold.parse(("recall@5",), {"max_drop": 0.02, keyword: value})
    ready = ' policy="release" does that too.' if keyword == "strict" else ""
    assert str(caught.value) == (
        f"rageval_threshold: {keyword} is set by a policy.{ready} Write in pyproject.toml\n"
        f'  [tool.rageval.policy.NAME]\n  {key}\nand policy="NAME" in the threshold.'
    )


def test_a_threshold_of_a_table_has_its_policy() -> None:
    policies = policies_of({"pr": {"max_total_drop": 0.05, "alpha": 0.01}, "all": {"max_lost": 3}})
    threshold = Threshold.parse(("recall@5",), {"max_drop": 0.02}, policies=policies)
    assert (threshold.max_total_drop, threshold.policy.alpha) == (0.05, 0.01)
    assert Threshold.parse(("recall@5",), {"min": 0.5}, policies=policies).max_total_drop is None
    assert Threshold.parse(("recall@5",), {"min": 0.5, "policy": "all"}, policies=policies).max_lost == 3
    with pytest.raises(InputError, match="max_total_drop=5 allows the mean to lose more than half"):
        replace(threshold, policy=replace(threshold.policy, max_total_drop=5)).check_scale((0.0, 1.0))
    total = threshold.total_drop_threshold(0)
    assert (total.max_drop, total.max_total_drop, total.policy.alpha) == (0.05, None, 0.01 / 8)


@pytest.mark.parametrize(
    ("keywords", "shares"),
    [
        ({"max_drop": 0.02}, True),
        ({"max_drop": 0.02, "policy": "snapshot"}, True),
        ({"max_drop": 0.02, "policy": "release"}, False),
        ({"max_drop": 0.02, "policy": "kept"}, True),
        ({"max_drop": None, "policy": "pr"}, False),
        ({"policy": "snapshot"}, False),
        ({"min": 0.5}, False),
        ({"max_drop": 0.02, "policy": "unknown"}, True),
        ({"max_drop": 0.02, "policy": {"alpha": 0.01}}, True),
    ],
)
def test_a_test_of_a_drop_shares_the_level_of_the_run(keywords: dict[str, Any], *, shares: bool) -> None:
    """All but those that must exclude a drop, unless they also limit the total drop."""
    policies = policies_of({"kept": {"like": "release", "max_total_drop": 0.1}})
    assert gate.tests_a_drop(keywords, policies) == shares


@pytest.mark.parametrize(("gated", "shares"), [(0, 1), (1, 1), (2, 4), (20, 40)])
def test_the_suite_has_half_of_the_level_if_there_are_several_tests(gated: int, shares: int) -> None:
    assert level_shares(gated) == shares


@pytest.mark.parametrize(
    ("words", "scale", "message"),
    [
        ({"min": 85}, (0.0, 1.0), "which goes from 0 to 1.\nFor 85% write min=0.85."),
        ({"max": 1.5}, (0.0, 1.0), "from 0 to 1.\nGive max between them."),
        ({"min": 100.5}, (0.0, 1.0), "from 0 to 1.\nGive min between them."),
        ({"min": -0.1}, (0.0, 1.0), "min=-0.1 is not on the score's scale"),
        (
            {"min": 0.7},
            GRADES,
            "min=0.7 is not on the score's scale, which goes from 1 to 5.\nGive min between them.",
        ),
        (
            {"max_drop": 2},
            (0.0, 1.0),
            "more than half of its scale, which goes from 0 to 1.\nFor 2% write max_drop=0.02.",
        ),
        (
            {"max_drop": 4.5},
            GRADES,
            "more than half of its scale, which goes from 1 to 5.\nGive a max_drop that would matter, such as 0.08.",
        ),
        ({"max_drop": 1}, (0.0, 1.0), "\nFor 1% write max_drop=0.01."),
        ({"max_drop": 0.51}, (0.0, 1.0), "max_drop=0.51 allows the mean to lose more than half of its scale"),
        (
            {"max_drop": 2.1, "policy": "release"},
            GRADES,
            "max_drop=2.1 allows the mean to lose more than half",
        ),
    ],
)
def test_a_bound_beyond_the_scale_is_refused(words, scale, message):
    """A bound off the scale, which would always pass or always fail, raises InputError."""
    with pytest.raises(InputError, match=r"^recall@5: ") as caught:
        Threshold.parse(("recall@5",), words).check_scale(scale)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("words", "scale"),
    [
        ({"min": 0, "max": 1}, (0.0, 1.0)),
        ({"max_drop": 0.5}, (0.0, 1.0)),
        ({"min": 1, "max": 5}, GRADES),
        ({"max_drop": 1, "policy": "release"}, GRADES),
    ],
)
def test_the_ends_of_the_scale_are_on_it(words: dict[str, Any], scale: tuple[float, float]) -> None:
    Threshold.parse(("recall@5",), words).check_scale(scale)


def test_without_a_scale_nothing_can_be_excluded() -> None:
    """A strict threshold needs a scale, since an unseen question may lose any amount; other bounds do not."""
    with pytest.raises(
        InputError, match=r"^fill@5: the policy 'release' excludes .*\n.*scale=\(lowest, highest\)"
    ):
        Threshold.parse(("fill@5",), {"max_drop": 2, "policy": "release"}).check_scale(None)
    Threshold.parse(("fill@5",), {"min": 85, "max": 900, "max_drop": 2}).check_scale(None)
    with pytest.raises(
        InputError, match=r"^dcg@5: the policy 'release' excludes a drop, and this score has no highest value"
    ):
        Threshold.parse(("dcg@5",), {"max_drop": 2, "policy": "release"}).check_scale((0.0, inf))
    Threshold.parse(("dcg@5",), {"max_drop": 2}).check_scale((0.0, inf))
    default = {"pr": Policy(burden="exclude")}
    Threshold.parse(("fill@5",), {"min": 85}, policies=default).check_scale(None)


@pytest.mark.parametrize(
    ("max_drop", "scale", "expected"),
    [
        (0.2, (0.0, 1.0), None),
        (0.21, (0.0, 1.0), "max_drop=0.21 lets a retriever lose 21% of the scale and pass"),
        (0.5, (0.0, 1.0), "lose 50% of the scale"),
        (0.5, GRADES, None),
        (1, GRADES, "lose 25% of the scale"),
        (300, None, None),
        (None, (0.0, 1.0), None),
    ],
)
def test_a_large_max_drop_is_a_warning(max_drop, scale, expected):
    """A max_drop above a fifth of a known scale gives a warning, since it is probably a mistake."""
    warnings = Threshold("recall@5", max_drop=max_drop).warnings(scale)
    assert [expected in warning for warning in warnings] == ([] if expected is None else [True])


@pytest.mark.parametrize("ratio", [0, -1.0, float("inf"), float("nan"), True, "1.2"])
def test_a_ratio_is_a_number_above_0(ratio: Any) -> None:
    with pytest.raises(InputError, match=r"max_ratio=.* is not a number above 0, such as max_ratio=1\.2"):
        Threshold.parse(("latency.p50",), {"max_ratio": ratio})


def test_a_ratio_alone_is_a_bound_and_needs_no_baseline() -> None:
    threshold = Threshold.parse(("latency.p50",), {"max_ratio": 1.2})
    assert threshold.has_bound
    assert not threshold.uses_baseline
    threshold.check_scale((0.0, float("inf")), is_cost=True, is_time=True)
    with pytest.raises(InputError, match="this score is not a time"):
        threshold.check_scale((0.0, float("inf")), is_cost=True)


@pytest.mark.parametrize("bound", [{"max_drop": 0.1}, {"max_lost": 1}])
def test_costs_and_times_have_no_baseline(bound: dict[str, Any]) -> None:
    """Less of a cost is better, so that a drop is no loss; times of two machines cannot be compared."""
    threshold = Threshold.parse(("latency.p50",), bound)
    assert threshold.uses_baseline
    (keyword,) = bound
    with pytest.raises(InputError, match=f"{keyword} bounds a loss, and less of this score is better"):
        threshold.check_scale((0.0, float("inf")), is_cost=True)
    with pytest.raises(
        InputError, match=f"{keyword} compares with the baseline, and times are not comparable"
    ):
        threshold.check_scale((0.0, float("inf")), is_cost=True, is_time=True)


def test_a_minimum_alone_is_no_bound_of_a_share_of_which_less_is_better() -> None:
    with pytest.raises(InputError, match="min=0 allows all that is worse, since less of this"):
        Threshold.parse(("leak@5",), {"min": 0}).check_scale((0.0, 1.0), is_cost=True)
    Threshold.parse(("leak@5",), {"min": 0, "max": 0.1}).check_scale((0.0, 1.0), is_cost=True)
    Threshold.parse(("retrieval.calls",), {"min": 1}).check_scale((0.0, float("inf")), is_cost=True)


def test_a_bound_of_the_projects_default_policy_is_for_comparisons() -> None:
    """A project may change what all thresholds with max_drop must hold, and those with min alone are as before."""
    policies = policies_of({"pr": {"max_lost": 1, "burden": "exclude"}})
    assert Threshold.parse(("recall@5",), {"max_drop": 0.1}, policies=policies).max_lost == 1
    assert Threshold.parse(("recall@5",), {"min": 0.1}, policies=policies).max_lost is None


@pytest.mark.parametrize(("burden", "total"), [("drop", "drop"), ("beyond", "beyond"), ("exclude", "drop")])
def test_a_total_drop_is_shown_and_never_excluded(burden: str, total: str) -> None:
    policies = policies_of({"pr": {"burden": burden, "max_total_drop": 0.2}})
    threshold = Threshold.parse(("recall@5",), {"max_drop": 0.1}, policies=policies)
    assert threshold.total_drop_threshold(3).policy.burden == total
