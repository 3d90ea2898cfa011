"""What a score depends on beside the retriever, and so which words change it.

While that stays, two scores differ by the retriever alone; a word that it does not depend on would do nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

from pytest_rageval.answers.expression import ASKED_OF_JUDGE
from pytest_rageval.answers.measures import EMBEDDED
from pytest_rageval.evaluations.added import AddedScore
from pytest_rageval.evaluations.answer import (
    evaluate_answer,
    evaluate_answer_abstained,
    evaluate_answer_correct,
)
from pytest_rageval.evaluations.arena import evaluate_arena
from pytest_rageval.evaluations.judged import (
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
from pytest_rageval.evaluations.run import Evaluation, Run
from pytest_rageval.evaluations.terms import Terms
from pytest_rageval.prompts.templates import CRITERIA
from pytest_rageval.scores import SCORING

__all__ = ["ASKABLE", "asks", "fingerprint", "words_of"]

ANSWERS, CITED, EXPLAINED = "generate", "cite", "explain"
COMPARED, RELEVANT, PREFERRED = "compare", "relevant", "prefer"
LABELLED = "label"

ASKED: Final[Mapping[Evaluation, frozenset[str]]] = {
    evaluate_ranking: frozenset(),
    evaluate_contains: frozenset(),
    evaluate_coverage: frozenset(),
    evaluate_relevance: frozenset({RELEVANT}),
    evaluate_answer: frozenset({ANSWERS}),
    evaluate_answer_abstained: frozenset({ANSWERS}),
    evaluate_answer_correct: frozenset({ANSWERS, COMPARED}),
    evaluate_erag: frozenset({ANSWERS, COMPARED, LABELLED}),
    evaluate_llm_reteval: frozenset({ANSWERS, COMPARED}),
    evaluate_answer_recall: frozenset({CITED}),
    evaluate_citation_recall: frozenset({CITED}),
    evaluate_citation_precision: frozenset({CITED}),
    evaluate_arena: frozenset({EXPLAINED, PREFERRED}),
    evaluate_correctness: frozenset({ANSWERS, "rate correctness"}),
    evaluate_faithfulness: frozenset({ANSWERS, "rate faithfulness"}),
    evaluate_context_quality: frozenset({"rate context_quality"}),
}
"""What each of our evaluations asks of generator, comparator and judge."""

RATED: Final = frozenset(f"rate {criterion}" for criterion in CRITERIA)

ASKABLE: Final = frozenset({ANSWERS, CITED, EXPLAINED, COMPARED, LABELLED, RELEVANT, PREFERRED}) | RATED
"""What an evaluation can ask: methods of generator and judge, and "label", the word for the answer from one passage."""

WORDS: Final = {"comparator": COMPARED, "label": LABELLED, "order": CITED}
"""What each word changes: how answers are compared, from all passages or from one; the passages to cite from."""


def words_of(evaluate: Evaluation) -> frozenset[str]:
    """The words that change what an evaluation gives."""
    asked = _asked(evaluate)
    return frozenset(word for word, changed in WORDS.items() if changed in asked)


def asks(evaluate: Evaluation) -> bool:
    """Whether it asks generator, comparator or judge anything; if not, asking them again changes nothing."""
    return bool(_asked(evaluate))


def fingerprint(run: Run, terms: Terms, evaluate: Evaluation, *, package: str) -> dict[str, Any]:
    """By name, everything that moves the score where the retriever stays as it is.

    Args:
        run: whose generator and judge they are.
        terms: of the score.
        evaluate: what computes it.
        package: the version of this package, which is noted and not compared: what of it moves scores
            is `scoring`.
    """
    asked = _asked(evaluate)
    found: dict[str, Any] = {"package": package, "scoring": SCORING, "match_share": run.match_share}
    for method in sorted(asked & {ANSWERS, CITED, EXPLAINED}):
        found |= _named("generator", run.generator.identity(method))
    methods = asked & (RATED | {RELEVANT, PREFERRED})
    for word, text in _ways(terms, evaluate).items() if COMPARED in asked else ():
        comparison = run.comparison(text)
        found[word] = comparison.text
        methods |= {ASKED_OF_JUDGE[name] for name in comparison.names & ASKED_OF_JUDGE.keys()}
    for method in sorted(methods):
        found |= _named("judge", run.judge.identity(method))
    if not _measures(terms, evaluate, run).isdisjoint(EMBEDDED):
        found["encoder"] = _encoder()
    if evaluate is evaluate_arena:
        found["both_orders"] = run.both_orders
    balanced = evaluate is evaluate_arena and not run.both_orders
    if balanced or (CITED in asked and terms.order == "random"):
        found["seed"] = run.seed
    return found


def _ways(terms: Terms, evaluate: Evaluation) -> dict[str, str | None]:
    """How answers are compared, by the words of the threshold: eRAG alone reads `label`; who knows of others."""
    if evaluate is evaluate_erag:
        return {"comparator": terms.label or terms.comparator}
    compared = {"comparator": terms.comparator}
    return compared if terms.label is None else {**compared, "label": terms.label}


def _measures(terms: Terms, evaluate: Evaluation, run: Run) -> frozenset[str]:
    """The answer measures and comparators that the score rests on, by name."""
    if evaluate is evaluate_answer:
        return frozenset({terms.spec.part or ""})
    compared = _ways(terms, evaluate).values() if COMPARED in _asked(evaluate) else ()
    return frozenset().union(*(run.comparison(text).names for text in compared))


def _encoder() -> str:
    """The encoder of the embedding measures; imported here, since it brings numpy."""
    from pytest_rageval.embeddings.encoder import shared_encoder  # noqa: PLC0415

    return shared_encoder().fingerprint


def _asked(evaluate: Evaluation) -> frozenset[str]:
    """What an evaluation asks; one that another plugin added and that does not say may ask all."""
    if isinstance(evaluate, AddedScore):
        return ASKABLE if evaluate.asks is None else evaluate.asks
    return ASKED[evaluate]


def _named(part: str, identity: Mapping[str, Any]) -> dict[str, Any]:
    """The identity's names, each with whose it is; the one without a name is the part itself."""
    return {f"{part} {name}".strip(): value for name, value in identity.items()}
