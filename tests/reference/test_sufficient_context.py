"""Sufficient context compared with the published strata of Joren et al. (2025)."""

import pytest

from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.scores.sufficiency import stratify_answers

SHARES = {"GPT-4o": (83, 13, 4), "Claude 3.5 Sonnet": (86, 3, 11)}
"""Correct, wrong and abstained answers with sufficient context, in percent."""


@pytest.mark.parametrize("model", SHARES)
def test_the_published_strata_are_a_partition_and_come_back(model):
    correct, wrong, abstained = SHARES[model]
    texts = ["Tulsa"] * correct + ["Boston"] * wrong + ["I cannot tell from the passages."] * abstained
    examples = [Example(str(n), f"q{n}") for n in range(len(texts))]
    context = [Outcome(example, 1.0) for example in examples]
    answers = [
        Outcome(example, float(text == "Tulsa"), evidence=Evidence(answer=text))
        for example, text in zip(examples, texts, strict=True)
    ]
    strata = stratify_answers(context, answers)
    assert strata["sufficient"] == {"correct": correct, "wrong": wrong, "abstained": abstained}
    assert sum(strata["sufficient"].values()) == 100
    assert sum(strata["insufficient"].values()) + strata["left_out"] == 0
