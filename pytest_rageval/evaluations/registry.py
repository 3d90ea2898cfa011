"""Which scores there are: from the name that users type to what computes it."""

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from pytest_rageval.errors import InputError
from pytest_rageval.evaluations.answer import PARTS, evaluate_answer
from pytest_rageval.evaluations.llm_reteval import evaluate_llm_reteval
from pytest_rageval.evaluations.ranking import evaluate_ranking
from pytest_rageval.evaluations.run import Run
from pytest_rageval.measures.spec import Spec
from pytest_rageval.model import Example
from pytest_rageval.scores import Outcome

__all__ = ["EVALUATIONS", "Evaluation", "evaluation_of"]

Evaluation = Callable[[Run, Sequence[Example], Spec, int], Awaitable[list[Outcome]]]
"""Scores examples by a spec at a cut-off: one outcome an example, in their order."""

EVALUATIONS: Final[Mapping[str, Evaluation]] = {
    **dict.fromkeys(("recall", "precision", "f1", "map", "mrr", "ndcg", "hit"), evaluate_ranking),
    "llm_reteval": evaluate_llm_reteval,
    **{f"answer.{part}": evaluate_answer for part in PARTS},
}
"""By the score's name without its cut-off."""


def evaluation_of(text: object) -> tuple[Spec, int, Evaluation]:
    """A score's name taken apart, its cut-off, and what computes it.

    Raises:
        InputError: it is no score's name, an unknown one, or lacks the cut-off.
    """
    spec = Spec.parse(text)
    if spec.measure not in EVALUATIONS:
        near = difflib.get_close_matches(spec.measure, EVALUATIONS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        message = f"There is no score {spec.measure!r}.{hint}\nThere are: {', '.join(EVALUATIONS)}."
        raise InputError(message)
    if spec.k is None:
        message = f"{str(spec)!r} has no cut-off: how many retrieved documents count?\nWrite {spec}@5, say."
        raise InputError(message)
    return spec, spec.k, EVALUATIONS[spec.measure]
