"""The generated answer against the reference answers: `answer.correct@5` and its like."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.text import exact_match, token_f1
from pytest_rageval.errors import Unscored
from pytest_rageval.evaluations.run import Run, score_each
from pytest_rageval.measures.spec import Spec
from pytest_rageval.model import Example
from pytest_rageval.scores import Evidence, Outcome

__all__ = ["PARTS", "evaluate_answer"]

Measure = Callable[[Run, Example, str], Awaitable[float]]


async def evaluate_answer(run: Run, examples: Sequence[Example], spec: Spec, k: int) -> list[Outcome]:
    """Score the answer from the first k retrieved passages against the references.

    The references are the example's `answers`, any one of which is right; its
    long-form `reference` where there are none. An example with neither is
    unscored.
    """
    measure = PARTS[spec.part or ""]

    async def score(example: Example) -> tuple[float, Evidence]:
        references = _references(example)
        # Looked at before anything is asked: an example that cannot be scored costs nothing.
        if not references and not example.answer_set:
            reason = "no reference answers"
            raise Unscored(reason)
        if not references and spec.part != "correct":
            reason = "several answers are wanted, which this measure does not compare"
            raise Unscored(reason)
        answer = await run.answer(example.question, k)
        value = await measure(run, example, answer)
        ranking = await run.ranking(example.question, k)
        shown = references or tuple(aliases[0] for aliases in example.answer_set)
        return value, Evidence(ranking, answer, shown)

    return await score_each(examples, score)


async def _correct(run: Run, example: Example, answer: str) -> float:
    """Whether the comparator finds a reference in it; of an answer set, every one that is wanted."""
    if abstains(answer):
        return 0.0
    wanted = [_references(example)] if _references(example) else list(example.answer_set)
    return min([await run.same(example.question, aliases, answer) for aliases in wanted])


async def _exact_match(run: Run, example: Example, answer: str) -> float:  # noqa: ARG001
    return exact_match(answer, _references(example))


async def _token_f1(run: Run, example: Example, answer: str) -> float:  # noqa: ARG001
    return token_f1(answer, _references(example))


PARTS: Final[Mapping[str, Measure]] = {"correct": _correct, "em": _exact_match, "f1": _token_f1}
"""By the part of the score's name."""


def _references(example: Example) -> tuple[str, ...]:
    return example.answers or ((example.reference,) if example.reference is not None else ())
