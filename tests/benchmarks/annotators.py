"""How well labels of passages predict the answers: `python tests/benchmarks/annotators.py CACHE [N]`.

This is the evaluation of eRAG (Salemi and Zamani 2024, Table 1) with the embedded model, on the first N (default: 100)
queries of ms_marco_400. BM25 ranks the pool of each query, up to ten passages. The script prints Kendall's tau and
Spearman's rho between every annotator × measure and the answers from the first k passages. Answers are scored by token
F1, and by the canonical comparison. The same model judges relevance, with worked examples in the prompt and a grammar
that allows only yes and no. Replies are stored in the folder CACHE; the first run requests about 1,900.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.evalset import EvalSet
from pytest_rageval.models import DefaultGenerator
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.systems import agreement_lines
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session
from pytest_rageval.scores.annotator_agreement import ANNOTATORS, AgreementRequest
from tests.benchmarks.real_data import ms_marco

KS = (1, 3, 5, 10)
FAMILIES = {
    "f1": ("p", "ndcg", "hit"),  # the other measures are not defined for graded labels
    "canonical": ("p", "recall", "map", "mrr", "ndcg", "hit"),
}

INSTRUCTION = "Is the passage relevant to the question? Answer Yes or No."
SHOTS = (
    (
        "How much is a season ticket for the baths?",
        (
            "The swimming baths of Brack are closed on Tuesdays. A season ticket costs 45 crowns and is sold at "
            "the kiosk by the gate."
        ),
        "Yes",
    ),
    (
        "When was the observatory in Brack finished?",
        "The Senn plateau has three huts. The lowest, Fern Hut, is open all year; the others close in October.",
        "No",
    ),
    (
        "Which hut can be visited in winter?",
        "The Senn plateau has three huts. The lowest, Fern Hut, is open all year; the others close in October.",
        "Yes",
    ),
    (
        "What is the cable car to the Senn plateau called?",
        "Brack observatory was finished in 1962. Its dome is copper.",
        "No",
    ),
)


class EmbeddedJudge:
    def __init__(self, session: Session) -> None:
        self._session = session

    def compare(self, question: str, references: Sequence[str], prediction: str) -> None:
        """Return no verdict: this judge does not compare answers."""

    async def relevant(self, question: str, passage: str) -> bool:
        """Return whether the model continues the prompt with "Yes"."""
        shots = "".join(f"Question: {q}\nPassage: {p}\nRelevant: {verdict}\n\n" for q, p, verdict in SHOTS)
        query = f"Question: {question}\nPassage: {' '.join(passage.split())}\nRelevant:"
        reply = await self._session.llm.acomplete(
            f"{INSTRUCTION}\n\n{shots}{query}",
            temperature=0.0,
            max_tokens=2,
            extra_body={"grammar": 'root ::= " Yes" | " No"'},
        )
        return reply.text.strip() == "Yes"


def main(cache: Path, first: int) -> None:
    session = Session(Settings(model="embedded", cache_dir=cache, max_unscored=0.2, timeout=600))
    whole, bm25 = ms_marco()
    evalset = EvalSet(f"{whole.name}, first {first}", whole.examples[:first])
    components = Components(bm25, DefaultGenerator(session.models), EmbeddedJudge(session))
    for label, measures in FAMILIES.items():
        request = AgreementRequest(ANNOTATORS, measures, KS, label)
        scores = session.evaluator.score(components, evalset, request.score_requests)
        agreement = request.agreement(scores)
        say("\n".join(agreement_lines(agreement.entry())))
        for k in KS:
            performance = scores[request.answer_score_request(k)]
            if isinstance(performance, RagevalError):
                raise performance
            best = ", ".join(
                f"{name} {association.measure} {association.tau:.3f} / {association.rho:.3f}"
                for name in ANNOTATORS
                for association in [agreement.best(name, k)]
            )
            say(f"k = {k:2}: answers {performance:.3f} (n {performance.n}); best tau / rho: {best}")
    session.close()


def say(text: str) -> None:
    """Print a line without buffering."""
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100)
