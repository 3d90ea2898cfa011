"""The answer measures by name: how far an answer is a reference, in [0, 1], without a judge."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final

from pytest_rageval.answers.overlap import bleu, meteor, rouge1, rouge2, rouge_l
from pytest_rageval.answers.text import containment, exact_match, token_f1

__all__ = ["EMBEDDED", "MEASURES", "YES_OR_NO", "AnswerMeasure"]

AnswerMeasure = Callable[[str, Sequence[str]], float]
"""From an answer and its references, any one of which is right, to a number in [0, 1]."""


def _embedded(name: str) -> AnswerMeasure:
    """A measure by embeddings, imported when it is used: 0.2 s, which a run without need not pay."""

    def measure(prediction: str, references: Sequence[str]) -> float:
        module = import_module("pytest_rageval.answers.embedding")
        return float(getattr(module, name)(prediction, references))

    return measure


MEASURES: Final[Mapping[str, AnswerMeasure]] = {
    "em": exact_match,
    "f1": token_f1,
    "containment": containment,
    "rouge1": rouge1,
    "rouge2": rouge2,
    "rougeL": rouge_l,
    "bleu": bleu,
    "meteor": meteor,
    "bertscore": _embedded("bertscore_f1"),
    "bertscore_p": _embedded("bertscore_precision"),
    "bertscore_r": _embedded("bertscore_recall"),
    "cosine": _embedded("cosine"),
}
"""By the name users type."""

EMBEDDED: Final = frozenset({"bertscore", "bertscore_p", "bertscore_r", "cosine"})
"""Those that rest on an encoder."""

YES_OR_NO: Final = frozenset({"em", "containment"})
"""Those that are 0 or 1 and nothing between."""
