"""Evaluation of all examples by a function that scores one example."""

import asyncio

import pytest

from pytest_rageval.core.errors import CallableError, Unscored
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.scores.definition import score_each


def test_one_unscored_example_does_not_stop_the_others(loop) -> None:
    examples = [Example(str(n), "q") for n in range(3)]

    async def score(example: Example) -> tuple[float, Evidence]:
        if example.id == "1":
            raise Unscored("too long")
        return 0.5, Evidence(answer=example.id)

    outcomes = loop.run(score_each(examples, score))
    assert [(o.example, o.value, o.unscored) for o in outcomes] == [
        (examples[0], 0.5, None),
        (examples[1], None, "too long"),
        (examples[2], 0.5, None),
    ]
    assert [o.evidence.answer for o in outcomes] == ["0", None, "2"]


def test_errors_are_reported_in_the_order_of_the_examples(loop) -> None:
    examples = [Example(f"e{n}", "q") for n in range(4)]

    async def score(example: Example) -> tuple[float, Evidence]:
        for _ in range(9 - 3 * examples.index(example)):
            await asyncio.sleep(0)
        raise CallableError("odd" if example.id in {"e1", "e3"} else "even")

    with pytest.raises(CallableError) as caught:
        loop.run(score_each(examples, score))
    assert str(caught.value) == "even\nIt affects 2 examples: e0, e2.\nodd\nIt affects 2 examples: e1, e3."
