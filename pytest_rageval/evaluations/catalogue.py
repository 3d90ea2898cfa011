"""Which scores there are: from the name that users type to what computes it."""

from collections.abc import Mapping
from typing import Final

from pytest_rageval.answers.measures import MEASURES
from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.evaluations.added import AddedScore
from pytest_rageval.evaluations.answer import (
    evaluate_answer,
    evaluate_answer_abstained,
    evaluate_answer_correct,
)
from pytest_rageval.evaluations.arena import LEAST, evaluate_arena
from pytest_rageval.evaluations.dependencies import words_of
from pytest_rageval.evaluations.judged import (
    GRADES,
    evaluate_context_quality,
    evaluate_correctness,
    evaluate_faithfulness,
)
from pytest_rageval.evaluations.llm_reteval import evaluate_llm_reteval
from pytest_rageval.evaluations.passages import evaluate_contains, evaluate_erag, evaluate_relevance
from pytest_rageval.evaluations.ranking import evaluate_ranking
from pytest_rageval.evaluations.rel_prime import (
    evaluate_answer_recall,
    evaluate_citation_precision,
    evaluate_citation_recall,
    evaluate_coverage,
)
from pytest_rageval.evaluations.run import Evaluation
from pytest_rageval.evaluations.terms import Terms, Wanted
from pytest_rageval.measures.spec import Spec
from pytest_rageval.stats import UNIT

__all__ = ["EVALUATIONS", "PASSAGE_PARTS", "evaluation_of", "scale_of"]

PASSAGE_PARTS: Final = ("p", "recall", "map", "mrr", "ndcg", "hit")
"""The measures over labels of passages; those of `measures.usefulness`, which brings numpy."""

EVALUATIONS: Final[Mapping[str, Evaluation]] = {
    **dict.fromkeys(("recall", "precision", "f1", "map", "mrr", "ndcg", "hit"), evaluate_ranking),
    "llm_reteval": evaluate_llm_reteval,
    "answer.correct": evaluate_answer_correct,
    **{f"answer.{name}": evaluate_answer for name in MEASURES},
    "answer.abstained": evaluate_answer_abstained,
    **{f"arena.{part}": evaluate_arena for part in LEAST},
    **{f"erag.{part}": evaluate_erag for part in PASSAGE_PARTS},
    **{f"contains.{part}": evaluate_contains for part in PASSAGE_PARTS},
    **{f"relevance.{part}": evaluate_relevance for part in PASSAGE_PARTS},
    "rel_recall.answer": evaluate_answer_recall,
    "rel_recall.citation": evaluate_citation_recall,
    "rel.answer": evaluate_answer_recall,
    "rel.citation": evaluate_citation_recall,
    "rel.citation_precision": evaluate_citation_precision,
    "rel.coverage": evaluate_coverage,
    "judged.correctness": evaluate_correctness,
    "judged.faithfulness": evaluate_faithfulness,
    "judged.context_quality": evaluate_context_quality,
}
"""By the score's name without its cut-off."""

SCALES: Final[Mapping[Evaluation, tuple[float, float]]] = dict.fromkeys(
    (evaluate_correctness, evaluate_faithfulness, evaluate_context_quality), GRADES
)
"""The lowest and the highest value of those scores that are not in [0, 1]."""


def evaluation_of(
    wanted: Wanted, evaluations: Mapping[str, Evaluation] = EVALUATIONS
) -> tuple[Terms, Evaluation]:
    """A score on its terms, and what computes it.

    Args:
        wanted: as a user asks for it.
        evaluations: the scores there are, by name.

    Raises:
        InputError: it is no score's name, an unknown one, or lacks the cut-off; or a word beside it is
            one that it does not know.
    """
    spec = Spec.parse(wanted.spec)
    if spec.measure not in evaluations:
        hint = did_you_mean(spec.measure, evaluations)
        message = f"There is no score {spec.measure!r}.{hint}\nThere are: {', '.join(evaluations)}."
        raise InputError(message)
    if spec.k is None:
        message = f"{str(spec)!r} has no cut-off: how many retrieved documents count?\nWrite {spec}@5, say."
        raise InputError(message)
    evaluate = evaluations[spec.measure]
    for word, text in wanted.words.items():
        if word not in words_of(evaluate):
            knowing = ", ".join(name for name, other in evaluations.items() if word in words_of(other))
            message = f"{str(spec)!r} knows no {word}={text!r}. These scores do: {knowing}."
            raise InputError(message)
    return Terms(spec, spec.k, wanted.comparator, wanted.label, wanted.order), evaluate


def scale_of(evaluate: Evaluation) -> tuple[float, float] | None:
    """The lowest and the highest value that an evaluation gives; None where the plugin that added it does not say."""
    return evaluate.scale if isinstance(evaluate, AddedScore) else SCALES.get(evaluate, UNIT)
