"""Keys that are nearly ours."""

import pytest

from pytest_rageval.evalsets.field_map import NearMiss, near_misses
from pytest_rageval.model import EvalSet, Example


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("answer", "answers"),
        ("Answers", "answers"),
        ("anwsers", "answers"),
        ("answer-set", "answer_set"),
        ("questions", "question"),
        ("golds", "gold"),
        ("gold_id", "gold.id"),
        ("goldText", "gold.text"),
        ("tag", "tags"),
        ("topic", "tags.topic"),
        ("refrence", "reference"),
        ("category", None),
        ("qid", None),
        ("question_id", None),
        ("answer_starts", None),
        ("source", None),
        ("title", None),
        ("", None),
    ],
)
def test_only_near_misses_are_told(key: str, meant: str | None) -> None:
    """With what was meant, and the examples that have it; other keys are the user's own."""
    evalset = EvalSet(
        "s", (Example("1", "Q?", extra={key: 1}), Example("2", "Q?"), Example("3", "Q?", extra={key: 0}))
    )
    assert near_misses(evalset) == ([] if meant is None else [NearMiss(key, meant, ("1", "3"))])
