"""The plots of the HTML report."""

from typing import Any

import pytest

from pytest_rageval.reports.html.plots import Plot, plots_of, ranks_of
from pytest_rageval.reports.html.question_rows import QuestionTable


def _plots_of(table: QuestionTable) -> list[Plot]:
    ranks = [(row.id, ranks_of(row.read(table.columns))) for row in table.rows]
    return plots_of(table, [(name, each) for name, each in ranks if each is not None])


def _plots(*questions: dict[str, Any], worse: list[str] | None = None) -> dict[str, Plot]:
    examples, entries = [], []
    for number, question in enumerate(questions):
        now, then, gold = question["now"], question.get("then"), question["gold"]
        id_ = f"q{number}"
        example = {"id": id_, "score": 0.0, "k": len(now)}
        if then is not None:
            example |= {"before": 1.0} | ({"before_retrieved": [*then]} if then != now else {})
        examples.append(example)
        entries.append(
            {
                "id": id_,
                "question": "Why?",
                "tags": {"topic": question.get("topic", "t")},
                "gold": [*gold],
                "gold_ranks": {name: now.index(name) + 1 if name in now else None for name in gold},
                "retrieved": [
                    {"document": name, "text": name, **({"gold": True} if name in gold else {})}
                    for name in now
                ],
            }
        )
    baseline = {"worse": worse or [], "better": []}
    score = {"spec": "recall@3", "where": {}, "examples": examples, "baseline": baseline}
    [table] = QuestionTable.of_tests([{"nodeid": "test_a", "questions": entries, "scores": [score]}])
    return {plot.shape: plot for plot in _plots_of(table)}


def test_ranks_of_the_first_gold_passage() -> None:
    plot = _plots(
        {"gold": "ac", "then": "abc", "now": "bac"},
        {"gold": "a", "then": "abc", "now": "bac"},
        {"gold": "c", "then": "abc", "now": "cab"},
        {"gold": "b", "then": "abc", "now": "acd"},
        {"gold": "a", "then": "abc", "now": "abc"},
    )["slope"]
    assert [(mark.kind, mark.label) for mark in plot.marks] == [
        ("gained", "rank 3 → rank 1: 1 question (q2)"),
        ("same", "rank 1 → rank 1: 1 question (q4)"),
        ("lost", "rank 2 → not found: 1 question (q3)"),
        ("lost", "rank 1 → rank 2: 2 questions (q0, q1)"),
    ]
    assert plot.summary == "3 lower, 1 higher, 1 as before"
    assert [text for _, text in plot.ticks] == ["1", "2", "3", "not found"]


@pytest.mark.parametrize(
    ("then", "now", "label"),
    [
        ("abc", "abcde", "not found → not found"),
        ("abcde", "abc", "not found → not found"),
        ("dbc", "abcde", "rank 1 → rank 4"),
    ],
)
def test_ranks_beyond_the_shorter_ranking_are_no_change(then: str, now: str, label: str) -> None:
    """A passage that only the longer ranking could have is neither lost nor gained."""
    [mark] = _plots({"gold": "d", "then": then, "now": now})["slope"].marks
    assert mark.label.startswith(f"{label}: ")


def test_recall_at_each_k_before_and_now() -> None:
    """Each curve goes to the end of its rankings, from 0 to 1, and a label has both values."""
    plot = _plots(
        {"gold": "ab", "then": "abc", "now": "cabde"},
        {"gold": "d", "then": "dbc", "now": "dbcae"},
    )["curve"]
    labels = [mark.label for mark in plot.marks]
    assert labels[:3] == [
        "recall@1: 0.750 before, 0.500 now",
        "recall@2: 1.000 before, 0.750 now",
        "recall@3: 1.000 before, 1.000 now",
    ]
    assert labels[-1] == "recall@5: 1.000 now"
    assert len(labels) == 3 + 5
    assert [text for _, text in plot.ticks] == ["0", "0.5", "1"]
    assert plot.summary == "before (dashed) 1.000 @3, now 1.000 @5"


def test_lost_and_gained_by_topic() -> None:
    rows = [
        {"gold": "a", "then": "abc", "now": "abc", "topic": topic} for topic in ("x", "y", "y", "y", "x", "x")
    ]
    plot = _plots(*rows, worse=["q1", "q2", "q4"])["bars"]
    assert [mark.label for mark in plot.marks] == [
        "y: 2 lost, 0 gained of 3 questions",
        "x: 1 lost, 0 gained of 3 questions",
    ]
    assert plot.name == "Lost and gained by topic"


def test_there_is_no_plot_of_nothing() -> None:
    """Without a baseline only recall now is shown; without gold passages, and without a change, nothing."""
    assert list(_plots({"gold": "a", "now": "abc"})) == ["curve"]
    assert _plots({"gold": "", "now": "abc"}) == {}


def test_gold_passages_found_by_their_text_tell_nothing_of_the_baseline() -> None:
    """The baseline has only the labels of its ranking, so that the ranks there are unknown."""
    passage = {"document": "a", "text": "gold text", "gold": True}
    question = {"id": "q", "question": "Why?", "gold": ["gold text"], "gold_ranks": {"gold text": 1}}
    examples = [{"id": "q", "score": 1.0, "before": 1.0, "k": 1}]
    score = {"spec": "recall@1", "where": {}, "examples": examples}
    test = {"nodeid": "test_a", "questions": [question | {"retrieved": [passage]}], "scores": [score]}
    [table] = QuestionTable.of_tests([test])
    [plot] = _plots_of(table)
    assert [mark.label for mark in plot.marks] == ["recall@1: 1.000 now"]
