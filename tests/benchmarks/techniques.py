"""The five retrieval techniques on MS MARCO: `python tests/benchmarks/techniques.py CACHE [N]`.

Each of the 400 queries searches its own pool of up to ten passages, gold is `is_selected`; the
data is found as by `real_data.py`. Everything is from the embedded models. BM25 and dense are ranked on
all queries; all five are ranked, and answered from their top 3, on the first N (100). Replies and
embeddings are kept in the folder CACHE, so that another run asks nothing.
"""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.config import Settings
from pytest_rageval.datatypes import Document, EvalSet
from pytest_rageval.errors import RagevalError
from pytest_rageval.evaluations.pipeline import ScoreRequest
from pytest_rageval.reports.results import score_entry
from pytest_rageval.reports.systems import matrix_entries, matrix_lines
from pytest_rageval.retrievers.bm25 import BM25Retriever
from pytest_rageval.retrievers.dense import DenseRetriever, PooledRetriever
from pytest_rageval.retrievers.llm_baselines import FeedbackRetriever, FusionRetriever, HyDERetriever
from pytest_rageval.scores import Score
from pytest_rageval.session import Components, Session
from pytest_rageval.session.default_components import DefaultGenerator, DefaultJudge
from pytest_rageval.spool import Spool
from pytest_rageval.stats.bootstrap import bca_means
from tests.benchmarks.real_data import ms_marco_pools, say

RANKING = ["recall@3", "mrr@10", "ndcg@3"]
ANSWERS = ["answer.rougeL@3", "answer.bleu@3", "answer.bertscore@3"]

Make = Callable[[list[Document]], Any]
Table = Mapping[str, Mapping[str, Score]]


def makers(session: Session) -> dict[str, Make]:
    """From a pool to a retriever, by technique, in the paper's order."""
    llm, encoder = session.llm, session.encoder

    def dense(pool: list[Document]) -> DenseRetriever:
        return DenseRetriever(pool, encoder=encoder)

    return {
        "bm25": BM25Retriever,
        "dense": dense,
        "hyde": lambda pool: HyDERetriever(dense(pool), llm),
        "feedback": lambda pool: FeedbackRetriever(dense(pool), llm),
        "fusion": lambda pool: FusionRetriever(dense(pool), llm),
    }


def scored(
    session: Session,
    evalset: EvalSet,
    pools: Mapping[str, list[Document]],
    made: Mapping[str, Make],
    specs: list[str],
) -> Table:
    """The scores of each technique, by spec."""
    table = {}
    for name, make in made.items():
        began = time.perf_counter()
        parts = Components(
            PooledRetriever(pools, make), DefaultGenerator(session.models), DefaultJudge(session.models)
        )
        results = session.score(parts, evalset, [ScoreRequest(spec) for spec in specs])
        for result in results.values():
            if isinstance(result, RagevalError):
                raise result
        table[name] = {wanted.spec: result for wanted, result in results.items()}
        say(f"{evalset.name}, {name}: {time.perf_counter() - began:.1f} s")
    return table


def matrix(evalset: EvalSet, table: Table) -> None:
    """Print techniques × scores as the report of a run does."""
    tests = [
        {
            "function": "techniques",
            "evalset": {"name": evalset.name, "size": len(evalset), "digest": evalset.digest},
            "system": {"technique": name},
            "parameters": {},
            "scores": [score_entry(score, None, None, spool=Spool()) for score in scores.values()],
        }
        for name, scores in table.items()
    ]
    say("\n" + "\n".join(matrix_lines(matrix_entries(tests))))


def order(table: Table, specs: list[str]) -> None:
    """Print where the paper's order holds, with the paired difference and its 95% interval."""
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
    pairs = [
        a.value - b.value
        for a, b in zip(upper.outcomes, lower.outcomes, strict=True)
        if a.value is not None and b.value is not None
    ]
    low, high = bca_means([pairs])[0]
    return low, high, sum(pairs) / len(pairs)


def main() -> None:
    """Score, and print the matrices."""
    cache = Path(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    evalset, pools = ms_marco_pools()
    some = EvalSet(f"{evalset.name}, first {first}", evalset.examples[:first])
    session = Session(Settings(model="embedded", cache_dir=cache, max_unscored=0.2, timeout=600.0))
    try:
        made = makers(session)
        table = scored(session, some, pools, made, RANKING + ANSWERS)
        matrix(some, table)
        order(table, RANKING + ANSWERS)
        plain = {name: made[name] for name in ("bm25", "dense")}
        whole = scored(session, evalset, pools, plain, RANKING)
        matrix(evalset, whole)
        order(whole, RANKING)
        usage = session.usage
        say(f"\n{usage.requests} replies: {usage.cached} cached, {usage.live} live, {usage.failed} failed")
    finally:
        session.close()


if __name__ == "__main__":
    main()
