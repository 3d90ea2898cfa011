"""The rows of the HTML report: the questions of a test with all their scores."""

import pytest

from pytest_rageval.reports.html.question_rows import question_rows


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_thresholds_on_a_score_either_may_compare(first: int) -> None:
    """If two thresholds have the same score, a row shows the comparison of whichever has a baseline."""
    example = {"id": "q1", "score": 0.0, "unscored": None}
    bounded = {"spec": "recall@3", "where": {}, "examples": [example]}
    compared = {
        **bounded,
        "baseline": {"worse": ["q1"], "better": []},
        "examples": [{**example, "before": 1.0, "before_retrieved": ["kb-1"]}],
    }
    scores = [compared, bounded] if first else [bounded, compared]
    [row] = question_rows(
        {"nodeid": "test_a", "questions": [{"id": "q1", "question": "Why?"}], "scores": scores}
    )
    assert [cell.text for cell in row.cells] == ["1.00 → 0.00"]
    assert row.before == [("kb-1", False)]
