"""The five retrieval techniques on MS MARCO: `python tests/benchmarks/techniques.py CACHE [N]`.

Each of the 400 queries searches its own pool of up to ten passages; the gold passages are those with `is_selected`. The
data is read from the folder of `real_data.py`, and all models are the embedded ones. The ranking measures of BM25 and
dense retrieval are computed for all queries. The ranking measures of all five techniques, and the scores of the answers
from their first 3 passages, are computed for the first N (default: 100) queries. Replies and embeddings are stored in
the folder CACHE, so that a second run sends no requests.
"""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.evalset import EvalSet
from pytest_rageval.core.outcome import Score
from pytest_rageval.core.ranking import Document
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.extensions.baseline_retrievers.llm_baselines import (
    FeedbackRetriever,
    FusionRetriever,
    HyDERetriever,
)
from pytest_rageval.extensions.embeddings.dense import DenseRetriever, PooledRetriever
from pytest_rageval.extensions.embeddings.encoder import session_encoder
from pytest_rageval.models import DefaultGenerator
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.build import score_entry
from pytest_rageval.reports.systems import matrix_entries, matrix_lines
from pytest_rageval.retrievers.bm25 import BM25Retriever
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session
from pytest_rageval.stats.bootstrap import bca_means
from tests.benchmarks.real_data import ms_marco_pools, say

RANKING = ["recall@3", "mrr@10", "ndcg@3"]
ANSWERS = ["answer.rougeL@3", "answer.bleu@3", "answer.bertscore@3"]

Make = Callable[[list[Document]], Any]
Table = Mapping[str, Mapping[str, Score]]


def makers(session: Session) -> dict[str, Make]:
    """Return, for each technique in the order of the paper, a function that creates a retriever over a pool."""
    llm, encoder = session.llm, session.resource(session_encoder)

    def dense(pool: list[Document]) -> DenseRetriever:
        return DenseRetriever(pool, encoder=encoder)

    return {
        "bm25": BM25Retriever,
        "dense": dense,
        "hyde": lambda pool: HyDERetriever(dense(pool), llm),
        "feedback": lambda pool: FeedbackRetriever(dense(pool), llm),
        "fusion": lambda pool: FusionRetriever(dense(pool), llm),
    }


def compute_scores(
    session: Session,
    evalset: EvalSet,
    pools: Mapping[str, list[Document]],
    makers: Mapping[str, Make],
    specs: list[str],
) -> Table:
    table = {}
    for name, make in makers.items():
        began = time.perf_counter()
        components = Components(
            PooledRetriever(pools, make), DefaultGenerator(session.models), DefaultJudge(session.models)
        )
        results = session.evaluator.score(components, evalset, [ScoreRequest(spec) for spec in specs])
        for result in results.values():
            if isinstance(result, RagevalError):
                raise result
        table[name] = {request.spec: result for request, result in results.items()}
        say(f"{evalset.name}, {name}: {time.perf_counter() - began:.1f} s")
    return table


def matrix(evalset: EvalSet, table: Table) -> None:
    tests = [
        {
            "function": "techniques",
            "evalset": {"name": evalset.name, "size": len(evalset), "digest": evalset.digest},
            "system": {"technique": name},
            "parameters": {},
            "scores": [score_entry(score, None, None) for score in scores.values()],
        }
        for name, scores in table.items()
    ]
    say("\n" + "\n".join(matrix_lines(matrix_entries(tests))))


def order(table: Table, specs: list[str]) -> None:
    claims = [("dense", "bm25"), ("fusion", "bm25")]
    claims += [(name, "feedback") for name in table if name != "feedback"]
    say("\nThe paper's order, by the paired difference of means (95% bootstrap interval):")
    for upper, lower in claims:
        if not {upper, lower} <= table.keys():
            continue
        cells = []
        for spec in specs:
            low, high, mean = _difference(table[upper][spec], table[lower][spec])
            verdict = "no" if mean < 0 else "tie" if mean == 0 else "yes"
            sure = "" if low > 0 or high < 0 else ", may be noise"
            cells.append(f"{spec} {verdict} ({mean:+.3f} [{low:+.3f}, {high:+.3f}]{sure})")
        say(f"  {upper} above {lower}: " + "; ".join(cells))


def _difference(upper: Score, lower: Score) -> tuple[float, float, float]:
    differences = [
        a.value - b.value
        for a, b in zip(upper.outcomes, lower.outcomes, strict=True)
        if a.value is not None and b.value is not None
    ]
    low, high = bca_means([differences])[0]
    return low, high, sum(differences) / len(differences)


def main() -> None:
    cache = Path(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    evalset, pools = ms_marco_pools()
    subset = EvalSet(f"{evalset.name}, first {first}", evalset.examples[:first])
    session = Session(Settings(model="embedded", cache_dir=cache, max_unscored=0.2, timeout=600.0))
    try:
        all_makers = makers(session)
        table = compute_scores(session, subset, pools, all_makers, RANKING + ANSWERS)
        matrix(subset, table)
        order(table, RANKING + ANSWERS)
        model_free_makers = {name: all_makers[name] for name in ("bm25", "dense")}
        whole_table = compute_scores(session, evalset, pools, model_free_makers, RANKING)
        matrix(evalset, whole_table)
        order(whole_table, RANKING)
        usage = session.usage
        say(f"\n{usage.requests} replies: {usage.cached} cached, {usage.live} live, {usage.failed} failed")
    finally:
        session.close()


if __name__ == "__main__":
    main()
