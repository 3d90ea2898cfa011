"""What stands below a score: other figures of the same examples, and who lost the passages that were not cited."""

import pytest

from pytest_rageval.model import Example
from pytest_rageval.reports.terminal import table_lines
from pytest_rageval.scores import Evidence, Outcome, Score
from tests.unit.reports.entries import score_entry


def _below(score: Score) -> list[str]:
    """The lines below the row of a score."""
    tests = [{"nodeid": "t", "evalset": None, "scores": [score_entry(score, None, None)]}]
    return table_lines(tests)[3:]


def test_figures_beside_a_score_are_means_of_those_who_have_them() -> None:
    """An unscored example has none."""
    evidence = [Evidence(beside={"recall@2": value}) for value in (1.0, 0.5)]
    outcomes = [Outcome(Example(str(n), "?"), 1.0, None, each) for n, each in enumerate(evidence)]
    outcomes.append(Outcome(Example("none", "?"), None, "no gold passages"))
    score = Score("answer.correct@2", outcomes)
    entry = score_entry(score, None, None)
    assert entry["beside"] == {"recall@2": 0.75}
    assert [each.get("beside") for each in entry["examples"]] == [{"recall@2": 1.0}, {"recall@2": 0.5}, None]
    assert _below(score)[1:] == ["    answer.correct@2: beside it recall@2 0.750"]


def test_a_score_without_such_figures_says_nothing() -> None:
    """No key, no line."""
    score = Score("recall@2", [Outcome(Example("q", "?"), 1.0)])
    assert not {"beside", "pooled"} & score_entry(score, None, None).keys()
    assert not _below(score)


def _cited(name: str, relevant: int, shown: int, found: int) -> Outcome:
    sizes = Evidence(sizes={"relevant": relevant, "shown": shown, "found": found})
    if not shown:
        return Outcome(Example(name, "?"), None, undefined="nothing", evidence=sizes)
    return Outcome(Example(name, "?"), found / shown, None, sizes)


def test_coverage_times_recall_over_rel_prime_is_recall_over_rel() -> None:
    """Of 8 relevant passages 4 were shown, and 3 of these cited: also where one question was shown nothing."""
    score = Score("rel_recall.citation@5", [_cited("a", 5, 4, 3), _cited("b", 3, 0, 0)])
    pooled = score_entry(score, None, None)["pooled"]
    assert (pooled["relevant"], pooled["shown"], pooled["found"]) == (8, 4, 3)
    assert pooled["coverage"] * pooled["recall_over_rel_prime"] == pytest.approx(pooled["recall_over_rel"])
    assert (
        "    rel_recall.citation@5: pooled: coverage 4/8 × recall over Rel' 3/4 = recall over Rel 3/8 (0.375)"
        in (_below(score))
    )
