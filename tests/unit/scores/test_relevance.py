"""Scores by a judge's verdicts on the relevance of passages."""

import pytest

from pytest_rageval.core.errors import CallableError


@pytest.mark.parametrize("part", ["p", "recall", "map", "mrr", "ndcg", "hit"])
def test_a_grade_of_relevance_counts_from_half_on(world, example, part):
    world.rankings["q"], world.relevance = ["a", "b"], {"a": 0.5, "b": 0.4}
    (outcome,) = world.evaluate(f"relevance.{part}@2", example("q", answers=("x",)))
    assert outcome.value == (0.5 if part == "p" else 1.0)


def test_a_judge_that_cannot_say_what_is_relevant_is_named(loop):
    from pytest_rageval.answers.judge.user_judge import adapt_judge
    from pytest_rageval.scores.relevance import RELEVANT

    class Judge:
        def compare(self, *_):
            return True

    judge = adapt_judge(Judge(), loop)
    with pytest.raises(CallableError, match=r"lacks the method relevant\(question, passage\)"):
        loop.run(judge.ask(RELEVANT, "q", "p"))
