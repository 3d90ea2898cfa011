"""The drops of one test, tested jointly."""

import pytest

from pytest_rageval.baseline import baseline_entry
from pytest_rageval.baseline.entries import BaselineScore
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.core.policy import BUILT_IN
from pytest_rageval.gate.comparison import Comparison, compare
from pytest_rageval.gate.drop_tests import DropTestInput, DropTestResult, question_clusters, run_drop_tests
from pytest_rageval.lib.spool import Spool
from pytest_rageval.stats.mcnemar import mcnemar_p_value
from tests.unit.gate.scored import Values, comparison_of, numbered, threshold_of

ALL = numbered(20, 0)
LOST = numbered(14, 6)
P_LOST = mcnemar_p_value(6, 0, 20)


def _part(now: Values, before: Values = ALL, **words: object) -> DropTestInput:
    threshold = threshold_of("recall@5", max_drop=0.02, **words)
    return DropTestInput(threshold, comparison_of(before, now))


def _p_values(*parts: DropTestInput, **words: int) -> list[float]:
    return [test.p_value for test in run_drop_tests(parts, **words)]


def test_scores_that_go_together_cost_no_power() -> None:
    """Six copies of a score have the p-value of one; Bonferroni would require 0.0083."""
    assert _p_values(*[_part(LOST)] * 6) == [pytest.approx(P_LOST, abs=0.003)] * 6
    assert all(test.alpha == 0.05 and test.significant for test in run_drop_tests([_part(LOST)] * 6))


def test_scores_of_different_questions_are_corrected() -> None:
    """If two scores lose different questions, each p-value is nearly twice the one alone."""
    other = dict.fromkeys(ALL, 1.0) | {f"q{n}": 0.0 for n in range(6)}
    p_values = _p_values(_part(LOST), _part(other))
    assert p_values == [pytest.approx(2 * P_LOST, abs=0.003)] * 2


def test_tests_of_a_run_divide_the_level() -> None:
    (result,) = run_drop_tests([_part(LOST)], family_size=10)
    assert result.alpha == pytest.approx(0.005)
    assert result.p_value == P_LOST


def test_a_strict_threshold_has_its_own_level() -> None:
    strict, usual = run_drop_tests([_part(ALL, strict=True), _part(LOST)], family_size=10)
    assert (strict.alpha, usual.alpha) == (0.05, pytest.approx(0.005))
    assert usual.p_value == P_LOST


def test_each_threshold_has_its_own_alpha() -> None:
    results = run_drop_tests([_part(LOST, alpha=0.1), _part(LOST)])
    assert [result.alpha for result in results] == [0.1, 0.05]
    assert [result.p_value for result in results] == [pytest.approx(P_LOST, abs=0.003)] * 2


def test_clusters_are_tested_apart() -> None:
    tagged = [_part(LOST), _part(LOST, cluster="topic")]
    with pytest.raises(InputError, match="no example has a tag 'topic'"):
        run_drop_tests(tagged)


def test_an_interval_agrees_with_its_test() -> None:
    for lost in range(20):
        found: DropTestResult = run_drop_tests([_part(numbered(20 - lost, lost))])[0]
        assert found.interval[0] >= 0 if found.significant else found.interval[0] <= 0


def test_a_claim_of_more_than_the_allowed_drop_is_harder_to_show() -> None:
    (usual,), (beyond,) = run_drop_tests([_part(LOST)]), run_drop_tests([_part(LOST, burden="beyond")])
    assert (usual.beyond, beyond.beyond) == (0.0, 0.02)
    assert beyond.p_value > usual.p_value


def _score(examples: list[Example], values: Values) -> Score:
    return Score("recall@5", [Outcome(example, values[example.id]) for example in examples])


def _baseline(examples: list[Example], values: Values) -> BaselineScore:
    entry = baseline_entry(tuple(examples), {"recall@5": (_score(examples, values), {})}, spool=Spool())
    return BaselineScore(entry["questions"], {}, entry["scores"]["recall@5"]["examples"])


def _example(name: str, *sources: str, **tags: object) -> Example:
    gold = tuple(Gold(source=source, start=0, end=1) for source in sources)
    return Example(name, name, gold=gold, tags=tags)


def test_examples_that_share_a_source_or_a_value_of_a_tag_are_one_cluster() -> None:
    sources = {"a": ["x"], "b": ["x", "y"], "c": ["y"], "d": ["z"], "e": []}
    tagged = [_example("a", doc="x"), _example("b", doc=["x", "y"]), _example("c", doc="y")]
    tagged += [_example("d", doc="z"), _example("e")]
    for examples, key in (
        ([_example(name, *shared) for name, shared in sources.items()], "gold.source"),
        (tagged, "doc"),
    ):
        a, b, c, d, e = question_clusters(examples, key)
        assert a == b == c
        assert len({a, d, e}) == 3


def test_questions_that_share_gold_passages_have_a_design_effect() -> None:
    """If pairs share a gold file and lose together, the design effect is 2; without sharing it is 1."""
    before, now = numbered(20, 0), numbered(14, 6)
    for shared, effect in ((2, 2.0), (1, 1.0)):
        examples = [_example(f"q{n}", f"file {n // shared}") for n in range(20)]
        comparison = compare(_score(examples, now), {}, _baseline(examples, before))
        (result,) = run_drop_tests([DropTestInput(threshold_of("recall@5", max_drop=0.02), comparison)])
        assert result.design_effect == pytest.approx(effect)
        assert result.n_clusters is None


def test_the_drops_of_a_score_are_gathered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The drops are collected twice per score and test; once per question would take hours at 100,000 questions."""
    gathered: list[int] = []

    def drops_by_id(comparison: Comparison) -> dict[str, float]:
        gathered.append(comparison.n)
        return {pair.outcome.example.id: pair.drop for pair in comparison.pairs}

    monkeypatch.setattr(Comparison, "drops_by_id", property(drops_by_id))
    run_drop_tests([_part(LOST)] * 3)
    # Each score is tested as it is, and in its worst case.
    assert len(gathered) <= 2 * 2 * 3


def test_many_questions_of_one_topic_are_clustered() -> None:
    """30,000 questions of one topic are clustered quickly: each links directly to the first one."""
    assert len(set(question_clusters([_example(f"q{n}", doc="x") for n in range(30_000)], "doc"))) == 1


def test_a_threshold_that_excludes_a_drop_decides_on_no_clusters() -> None:
    examples = [_example(f"q{n}", f"file-{n // 4}") for n in range(120)]
    examples += [_example(f"n{n}", topic="a") for n in range(20)]
    now = {
        example.id: float(int(example.id[1:]) // 4 % 3 > 0 or "topic" in example.tags) for example in examples
    }
    score, before = _score(examples, now), _baseline(examples, dict.fromkeys(now, 1.0))
    release = DropTestInput(
        threshold_of("recall@5", max_drop=0.02, policy=BUILT_IN["release"]), compare(score, {}, before)
    )
    part = score.where(topic="a")
    in_slice = DropTestInput(
        threshold_of("recall@5", max_drop=0.02, where={"topic": "a"}), compare(part, {}, before)
    )
    assert [result.cluster for result in run_drop_tests([release, in_slice])] == [None, None]
