"""A score: a mean with its examples."""

import copy
import pickle
from dataclasses import replace
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError, TooManyUnscoredError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Outcome, Score, compute_intervals
from pytest_rageval.stats import bootstrap
from pytest_rageval.stats.intervals import Quantile, wilson_interval


def _outcome(number: int, value: float | None, reason: str | None = None, **tags: Any) -> Outcome:
    return Outcome(Example(f"q{number}", f"question {number}", tags=tags), value, reason)


def _undefined(number: int) -> Outcome:
    return Outcome(Example(f"q{number}", "?"), None, undefined="nothing was cited")


def _score(*values: float | None, **words: Any) -> Score:
    outcomes = [
        _outcome(i, v, None if v is not None else "no gold passages") for i, v in enumerate(values, 1)
    ]
    return Score("recall@5", outcomes, **words)


BILLING = Score(
    "recall@5",
    [
        _outcome(1, 1.0, topic="billing", kinds=["fact", "date"]),
        _outcome(2, 0.5, topic="billing", hops=2),
        _outcome(3, 0.0, topic="account", kinds=["fact"]),
        _outcome(4, None, "no gold passages", topic="account"),
        _outcome(5, 0.0),
    ],
    seed=3,
)


def test_a_score_is_the_mean_of_the_scored_examples() -> None:
    score = _score(1.0, None, 0.5, None)
    assert isinstance(score, float)
    assert score == 0.75
    assert (score.n, score.unscored, score.values) == (2, 2, [1.0, 0.5])
    assert score.reasons == {"no gold passages": 2}
    assert len(score.outcomes) == 4


def test_the_mean_is_exact() -> None:
    """The mean of ten times 0.1 is 0.1: rounding errors do not accumulate."""
    assert _score(*[0.1] * 10) == 0.1


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_finite_number_is_an_error(value: float) -> None:
    with pytest.raises(InputError, match=f"recall@5: the score of example q2 is {value!r}"):
        _score(1.0, value)


@pytest.mark.parametrize(("values", "interval"), [((1.0, 0.0, 1.0), wilson_interval(2, 3)), ((0.4,), None)])
def test_the_interval_is_that_of_the_scored(values, interval):
    assert _score(*values, None).ci95 == interval


@pytest.mark.parametrize(
    ("tags", "ids"),
    [
        ({"topic": "billing"}, ["q1", "q2"]),
        ({"topic": "account"}, ["q3", "q4"]),
        ({"topic": ["billing", "account"]}, ["q1", "q2", "q3", "q4"]),
        ({"topic": {"billing", "sales"}}, ["q1", "q2"]),
        ({"kinds": "fact"}, ["q1", "q3"]),
        ({"kinds": "date"}, ["q1"]),
        ({"kinds": ("date", "name")}, ["q1"]),
        ({"topic": "billing", "hops": 2}, ["q2"]),
        ({}, ["q1", "q2", "q3", "q4", "q5"]),
    ],
)
def test_a_slice_has_the_examples_with_all_tags(tags: dict[str, Any], ids: list[str]) -> None:
    sliced = BILLING.where(**tags)
    assert [outcome.example.id for outcome in sliced.outcomes] == ids
    assert (sliced.spec, sliced.slice, sliced.seed) == ("recall@5", tags, 3)


def test_slices_can_be_sliced() -> None:
    sliced = BILLING.where(topic="billing").where(hops=2)
    assert sliced == 0.5
    assert sliced.slice == {"topic": "billing", "hops": 2}


def test_a_slice_of_nothing_lists_the_tags_there_are() -> None:
    with pytest.raises(InputError) as caught:
        BILLING.where(topic="biling")
    assert str(caught.value) == (
        "No example has topic='biling'. The tags there are:\n"
        "  topic: 'account', 'billing'\n  kinds: ['fact', 'date'], ['fact']\n  hops: 2"
    )


def test_a_slice_of_a_set_without_tags_says_so() -> None:
    with pytest.raises(InputError, match="No example has topic='x': the examples have no tags"):
        _score(1.0).where(topic="x")


def test_too_many_unscored_are_an_error_with_reasons() -> None:
    values = [_outcome(n, 1.0) for n in range(10)]
    gone = [_outcome(n, None, "no gold passages") for n in range(10, 14)]
    gone.append(_outcome(14, None, "the judge gave no verdict"))
    with pytest.raises(TooManyUnscoredError) as caught:
        Score("llm_reteval@5", [*values, *gone], max_unscored=0.05)
    assert str(caught.value) == (
        "llm_reteval@5: 5 of 15 examples have no score, more than the allowed 5%:\n"
        "  4 × no gold passages (q10, q11, q12, …)\n"
        "  1 × the judge gave no verdict (q14)\n"
        "To allow a larger share: --rageval max_unscored=SHARE. To bound the other examples alone, give them a "
        'tag: where={"TAG": "VALUE"}.'
    )


def test_the_error_says_which_replies_are_requested_again() -> None:
    with pytest.raises(TooManyUnscoredError) as caught:
        Score(
            "x@5",
            [_outcome(1, 1.0), _outcome(2, None, "the judge's reply is neither yes nor no: 'hm'")],
            max_unscored=0.1,
        )
    assert str(caught.value).endswith(
        "\nA run requests empty replies again; with --rageval-refresh also those that cannot be read."
    )


def test_no_scored_example_is_an_error_whatever_is_allowed() -> None:
    with pytest.raises(TooManyUnscoredError, match=r"^recall@5: none of 2 examples has a score:"):
        _score(None, None, max_unscored=1.0)


@pytest.mark.parametrize(("unscored", "share"), [(1, 0.05), (2, 0.1), (29, 0.29), (57, 0.57), (0, 0.0)])
def test_the_allowed_share_itself_is_allowed(unscored: int, share: float) -> None:
    n = 100 if unscored > 2 else 20
    assert _score(*[None] * unscored, *[1.0] * (n - unscored), max_unscored=share).unscored == unscored


def test_one_more_than_the_allowed_share_is_too_many() -> None:
    with pytest.raises(TooManyUnscoredError, match="2 of 20"):
        _score(None, None, *[1.0] * 18, max_unscored=0.05)


def test_a_slice_has_the_same_largest_share_of_unscored_examples() -> None:
    outcomes = [_outcome(1, None, "no gold passages", topic="a"), *(_outcome(n, 1.0) for n in range(2, 21))]
    score = Score("recall@5", outcomes, max_unscored=0.05)
    with pytest.raises(TooManyUnscoredError, match=r"^recall@5 where topic='a': none of 1"):
        score.where(topic="a")


def test_an_error_names_the_keywords_that_a_score_was_asked_for_with() -> None:
    """The error names the comparator, since a test may have the same score with another one."""
    words = {"comparator": "graded", "order": "rank"}
    with pytest.raises(TooManyUnscoredError, match=r"^recall@5 by graded: none of 2 examples has a score:"):
        _score(None, None, keywords=words)
    outcomes = [_outcome(1, None, "no gold passages", topic="a"), _outcome(2, 1.0)]
    score = Score("recall@5", outcomes, keywords=words)
    with pytest.raises(TooManyUnscoredError, match=r"^recall@5 by graded where topic='a': none of 1"):
        score.where(topic="a")


def _repeated(*runs: list[float | None], **words: Any) -> Score:
    first, *others = (
        [
            _outcome(n, value, None if value is not None else "no", topic="ab"[n % 2])
            for n, value in enumerate(run)
        ]
        for run in runs
    )
    return Score("answer.em@5", first, repeats=others, **words)


@pytest.mark.parametrize(
    ("runs", "spread"),
    [
        ([[1.0, 0.0]], None),
        ([[1.0, 0.0], [1.0, 0.0]], 0.0),
        ([[1.0, 1.0], [1.0, 0.0]], 0.5 / 2**0.5),
        ([[1.0, 1.0], [1.0, 0.5], [0.5, 0.5]], 0.25),
        ([[1.0, None], [0.0, 1.0]], 0.5 / 2**0.5),
        ([[1.0, 1.0], [None, None]], None),
        ([[1.0, 1.0], [None, None], [0.0, 1.0]], 0.5 / 2**0.5),
    ],
)
def test_the_spread_is_the_standard_deviation_of_the_means_of_runs(runs, spread):
    """The spread uses n - 1; a run without scores is left out, and a single run has no spread."""
    score = _repeated(*runs)
    assert score.spread == (None if spread is None else pytest.approx(spread))
    assert len(score.repeats) == len(runs) - 1


@pytest.mark.parametrize(
    ("runs", "values", "partly"),
    [
        ([[1.0, 0.0]], [1.0, 0.0], 0),
        ([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 1.0]], [0.75, 0.75], 0),
        ([[0.1, 0.2], [0.1, 0.2], [0.1, 0.2]], [0.1, 0.2], 0),
        ([[None, 1.0], [0.5, 1.0], [1.0, 1.0]], [0.75, 1.0], 1),
        ([[None, 1.0], [None, None]], [None, 1.0], 1),
    ],
)
def test_each_example_has_the_mean_over_the_runs_in_which_it_has_a_score(runs, values, partly):
    score = _repeated(*runs)
    assert [outcome.value for outcome in score.outcomes] == values
    assert [outcome.unscored for outcome in score.outcomes] == [
        None if value is not None else "no" for value in values
    ]
    scored = [value for value in values if value is not None]
    assert score == pytest.approx(sum(scored) / len(scored))
    assert score.partly_scored == partly
    if None not in values:
        assert [score.where(topic=topic) for topic in "ab"] == values


def test_an_example_is_explained_by_the_run_closest_to_its_mean() -> None:
    won, lost = _outcome(0, 1.0), replace(_outcome(0, 0.0), lost_by="generator")
    assert Score("answer.em@5", [won], repeats=[[lost], [lost]]).outcomes[0].lost_by == "generator"
    assert Score("answer.em@5", [won], repeats=[[lost], [won]]).outcomes[0].lost_by is None


def test_a_value_of_a_further_run_is_a_finite_number_too() -> None:
    with pytest.raises(InputError, match="the score of example q1 is inf, no finite number"):
        _repeated([1.0, 0.0], [1.0, float("inf")])


def test_a_slice_has_its_own_spread() -> None:
    score = _repeated([1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0])
    assert score.where(topic="a").spread == 0.0
    assert score.where(topic="b").spread == pytest.approx(0.5 / 2**0.5)


def test_a_score_survives_copying() -> None:
    score = _repeated([1.0, 0.0], [1.0, 1.0], slice={"topic": "a"}, max_unscored=0.5, seed=3)
    for copied in (copy.deepcopy(score), pickle.loads(pickle.dumps(score))):  # noqa: S301 - our own
        assert (copied, copied.outcomes, copied.repeats) == (score, score.outcomes, score.repeats)
        assert (copied.slice, copied.max_unscored, copied.seed) == ({"topic": "a"}, 0.5, 3)


def test_what_is_not_defined_is_left_out_and_counted_and_is_never_too_much() -> None:
    score = Score("rel_recall.answer@5", [_outcome(0, 0.5), *map(_undefined, range(1, 20))], max_unscored=0.0)
    assert (score, score.n, score.unscored, score.undefined) == (0.5, 1, 0, 19)
    assert (score.reasons, score.undefined_reasons) == ({}, {"nothing was cited": 19})


def test_the_share_of_the_unscored_is_one_of_those_with_a_definition() -> None:
    outcomes = [_outcome(0, 1.0), _outcome(1, None, "no gold passages"), *map(_undefined, range(2, 20))]
    with pytest.raises(TooManyUnscoredError) as caught:
        Score("rel.citation_precision@5", outcomes, max_unscored=0.4)
    assert "1 of 2 examples have no score, more than the allowed 40%:\n  1 × no gold" in str(caught.value)
    assert "nothing was cited" not in str(caught.value)


def test_a_score_that_is_defined_for_nothing_says_why() -> None:
    with pytest.raises(TooManyUnscoredError) as caught:
        Score("rel_recall.answer@5", [_undefined(1), _undefined(2)])
    assert str(caught.value) == (
        "rel_recall.answer@5: none of 2 examples has a score:\n  2 × nothing was cited (q1, q2)"
    )


def test_a_scale_stays_with_the_score() -> None:
    """Slices and copies keep the scale, whose lowest value bounds the interval."""
    score = Score("judged.correctness@5", [_outcome(n, 1.0, topic="a") for n in range(20)], scale=(1.0, 5.0))
    for copied in (score, score.where(topic="a"), pickle.loads(pickle.dumps(score))):  # noqa: S301 - our own
        assert copied.scale == (1.0, 5.0)
        assert copied.ci95 == (1.0, pytest.approx(1 + 4 * wilson_interval(0, 20)[1]))


def test_a_score_may_be_a_quantile_and_stays_one_in_slices_and_copies() -> None:
    outcomes = [Outcome(Example(f"q{n}", "?", tags={"odd": n % 2}), float(n)) for n in range(1, 11)]
    outcomes.append(Outcome(Example("lost", "?"), None, "it failed", cause="retriever"))
    score = Score("latency.p50", outcomes, statistic=Quantile(0.5), scale=(0.0, float("inf")))
    assert score == 5
    assert score.ci95 == (2, 9)
    assert score.where(odd=1) == 5
    assert score.where(odd=0) == 6
    assert copy.deepcopy(score) == 5
    assert copy.copy(score).where(odd=0) == 6
    assert score.counting(score.reach[1], "retriever") == 6


def test_intervals_of_several_scores_share_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [(0.1, 0.4, 0.9, 0.2), (0.3, 0.3, 0.8, None), (0.9, 0.1, 0.2, 0.2), (0.0, 1.0, 1.0, 1.0)]
    alone = [_score(*value).ci95 for value in values]
    sizes = []
    resamples = bootstrap._resamples
    monkeypatch.setattr(bootstrap, "_resamples", lambda n, seed: sizes.append(n) or resamples(n, seed))
    together = [_score(*value) for value in values]
    compute_intervals([*together, together[0]])
    assert [score.ci95 for score in together] == alone
    assert sizes == [4, 3]
