"""The notes below a score: other scores of the same examples, and the factors of recall over Rel."""

from typing import Any

import pytest

from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.reports.notes import common_entry
from pytest_rageval.reports.terminal import note_lines, table_lines
from tests.unit.reports.entries import score_entry


def _below(score: Score) -> list[str]:
    tests = [{"nodeid": "t", "evalset": None, "scores": [score_entry(score, None, None)]}]
    return table_lines(tests)[3:]


def test_figures_of_a_score_are_means_over_the_examples_that_have_them() -> None:
    evidence = [Evidence(beside={"recall@2": value}) for value in (1.0, 0.5)]
    outcomes = [
        Outcome(Example(str(n), "?"), 1.0, None, example_evidence)
        for n, example_evidence in enumerate(evidence)
    ]
    outcomes.append(Outcome(Example("none", "?"), None, "no gold passages"))
    score = Score("answer.correct@2", outcomes)
    entry = score_entry(score, None, None)
    assert entry["beside"] == {"recall@2": 0.75}
    assert [example.get("beside") for example in entry["examples"]] == [
        {"recall@2": 1.0},
        {"recall@2": 0.5},
        None,
    ]
    assert _below(score)[1:] == ["    answer.correct@2: for comparison recall@2 0.750"]


def test_a_score_without_such_figures_prints_nothing() -> None:
    score = Score("recall@2", [Outcome(Example("q", "?"), 1.0)])
    assert not {"beside", "pooled"} & score_entry(score, None, None).keys()
    assert not _below(score)


def _cited(name: str, relevant: int, shown: int, found: int) -> Outcome:
    sizes = Evidence(sizes={"relevant": relevant, "shown": shown, "found": found})
    if not shown:
        return Outcome(Example(name, "?"), None, undefined="nothing", evidence=sizes)
    return Outcome(Example(name, "?"), found / shown, None, sizes)


def test_coverage_times_recall_over_rel_prime_is_recall_over_rel() -> None:
    """Of 8 relevant passages, 4 were in the prompt and 3 were cited."""
    score = Score("rel_recall.citation@5", [_cited("a", 5, 4, 3), _cited("b", 3, 0, 0)])
    pooled = score_entry(score, None, None)["pooled"]
    assert (pooled["relevant"], pooled["shown"], pooled["found"]) == (8, 4, 3)
    assert pooled["coverage"] * pooled["recall_over_rel_prime"] == pytest.approx(pooled["recall_over_rel"])
    factors = "the retriever found 4 of 8 relevant items, the answers named 3 of these 4: recall over Rel 3/8 (0.375)"
    assert f"    rel_recall.citation@5: {factors}" in _below(score)


def _listed(name: str, *sizes: int) -> Outcome:
    names = ("relevant", "shown", "found", "beyond")
    return Outcome(Example(name, "?"), 0.5, None, Evidence(sizes=dict(zip(names, sizes, strict=False))))


def test_answers_that_were_not_shown_are_a_term_of_their_own() -> None:
    outcomes = [_listed("a", 4, 3, 2), _listed("b", 2, 0, 0, 1), Outcome(Example("c", "?"), None, "no")]
    (_, line) = _below(Score("rel.answer@5", outcomes))
    assert line == (
        "    rel.answer@5: over 2 of 3 questions the retriever found 3 of 6 relevant items, the answers named 2 of "
        "these 3 and 1 that it had not found: recall over Rel 3/6 (0.500)"
    )


def test_a_score_of_0_has_its_factors_too() -> None:
    score = Score("rel.citation@5", [_cited("a", 4, 2, 0)])
    assert float(score) == 0.0
    factors = "the retriever found 2 of 4 relevant items, the answers named 0 of these 2: recall over Rel 0/4 (0.000)"
    assert _below(score) == [f"    rel.citation@5: {factors}"]


def _scored(spec: str, *values: float | None) -> dict[str, Any]:
    return score_entry(
        Score(
            spec,
            [
                Outcome(Example(str(n), "?"), value, undefined=None if value is not None else "nothing shown")
                for n, value in enumerate(values)
            ],
        ),
        None,
        None,
    )


def test_a_pair_is_given_over_its_common_questions() -> None:
    """The means of two scores are compared over their two common questions: the other has 0.25 there, not 0.5."""
    used, cited = _scored("rel_recall.citation@5", 0.5, 1.0, None), _scored("rel.citation@5", 0.25, 0.25, 1.0)
    common = common_entry(used, "rel.citation@5", cited)
    assert common == {"common": {"with": "rel.citation@5", "n": 2, "mean": 0.75, "other": 0.25}}
    (line,) = [line for line in note_lines({"scores": [{**used, **common}]}) if "over the" in line]
    assert line == (
        "rel_recall.citation@5: over the 2 questions in common with rel.citation@5: 0.750, and there 0.250"
    )


def test_a_pair_with_the_same_questions_needs_no_other_means() -> None:
    one, other, none = (
        _scored("rel.citation@5", *values) for values in ((0.5, None), (0.2, None), (None, 1))
    )
    assert common_entry(one, "other", other) == common_entry(one, "none", none) == {}


def test_a_keyword_without_effect_is_noted() -> None:
    threshold = Threshold("rel.coverage@5", min=0.5, order="random").with_ignored({"order"})
    entry = score_entry(Score("rel.coverage@5", [Outcome(Example("q", "?"), 1.0)]), threshold, None)
    assert (threshold.name, threshold.with_ignored(())) == ("rel.coverage@5", threshold)
    assert "order" not in entry
    assert list(note_lines({"scores": [entry]}))[-1] == (
        "rel.coverage@5: order='random' changes nothing here: the score has no answer from several passages"
    )
