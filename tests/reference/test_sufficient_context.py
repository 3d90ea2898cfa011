"""Sufficient context against the published figures: the strata of Joren et al. (2025)."""

import pytest

from pytest_rageval.datatypes import Example
from pytest_rageval.evaluations.sufficiency import stratify_answers
from pytest_rageval.scores import Evidence, Outcome

SHARES = {"GPT-4o": (83, 13, 4), "Claude 3.5 Sonnet": (86, 3, 11)}
"""Correct, wrong and abstained answers with sufficient context, in percent."""


@pytest.mark.parametrize("model", SHARES)
def test_the_published_strata_are_a_partition_and_come_back(model):
    """Each answer is in one cell; an abstention is no wrong answer."""
    correct, wrong, abstained = SHARES[model]
    said = ["Tulsa"] * correct + ["Boston"] * wrong + ["I cannot tell from the passages."] * abstained
    examples = [Example(str(n), f"q{n}") for n in range(len(said))]
    context = [Outcome(example, 1.0) for example in examples]
    answers = [
        Outcome(example, float(text == "Tulsa"), evidence=Evidence(answer=text))
        for example, text in zip(examples, said, strict=True)
    ]
    found = stratify_answers(context, answers)
    assert found["sufficient"] == {"correct": correct, "wrong": wrong, "abstained": abstained}
    assert sum(found["sufficient"].values()) == 100
    assert sum(found["insufficient"].values()) + found["left_out"] == 0
