"""A drop on a scale from 1 to 5 may be as large as 4."""

import pytest

from pytest_rageval.gate.comparison import BaselineScore
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import BaselineLookup, rule
from pytest_rageval.model import Example
from pytest_rageval.scores import Outcome, Score

N = 149


def _passes(scale: tuple[float, float], max_drop: float) -> bool:
    """Whether N unchanged grades exclude such a drop."""
    examples = [Example(str(n), f"question {n}") for n in range(N)]
    questions = {example.id: example.digest for example in examples}
    before = BaselineScore(questions, {}, {example.id: {"score": 4.0} for example in examples})
    score = Score("judged.correctness@5", [Outcome(example, 4.0) for example in examples], scale=scale)
    threshold = Threshold(score.spec, max_drop=max_drop, strict=True)
    return rule(score, threshold, BaselineLookup({}, before), alpha=0.05).verdict.status == "pass"


@pytest.mark.parametrize("max_drop", [0.02, 0.05])
def test_whole_losses_that_were_not_seen_are_as_large_as_the_scale(max_drop: float) -> None:
    """149 examples without a change exclude a mean loss of 2% of the scale: of 0.08 from 1 to 5."""
    assert _passes((0.0, 1.0), max_drop)
    assert not _passes((1.0, 5.0), max_drop)
    assert _passes((1.0, 5.0), 4 * max_drop)
