"""An arena run with the embedded model, a smoke test: `python tests/benchmarks/arena.py CACHE [N]`.

The first N (20) questions of each of two domains of rag_qa_arena, with people's long answers as references;
the data is found as by `real_data.py`. It comes without passages: the sentences of all references of a
domain stand in for its corpus, those of the question's own reference included. Two systems answer,
from the first 5 sentences by BM25 and from 5 drawn by chance.

Nothing at hand can judge such answers. The judge is the embedded model of 270 million parameters, a
grammar lets it say nothing but one of the three tags, and it gives no reasons: the run shows that
everything works from end to end, and what the measured position bias looks like in a judge that
has no judgement. Its scores say nothing of the systems. Replies are kept in the folder CACHE.
"""

import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.answers.judge_replies import parse_preference
from pytest_rageval.config import Settings
from pytest_rageval.datatypes import Document, EvalSet
from pytest_rageval.errors import RagevalError
from pytest_rageval.evalsets import from_records
from pytest_rageval.evaluations.arena import arena_notes
from pytest_rageval.evaluations.pipeline import ScoreRequest
from pytest_rageval.llm.api import LLM
from pytest_rageval.prompts.rendering import DEFAULT_PROMPTS
from pytest_rageval.reports.results import score_entry, usage_entry, usage_lines
from pytest_rageval.reports.systems import ratings_entries, ratings_lines
from pytest_rageval.reports.terminal import table_lines
from pytest_rageval.retrievers.bm25 import BM25Retriever
from pytest_rageval.session import Components, Session
from pytest_rageval.session.default_components import DefaultGenerator
from pytest_rageval.spool import Spool
from tests.benchmarks.real_data import DATA, Search, say

DOMAINS = ("recreation", "writing")
SPECS = ("arena.win@5", "arena.win_tie@5")
A_TAG = r'root ::= "<rating>" [012] "</rating>"'


class TagJudge:
    """The embedded model, which can say nothing but one of the three tags."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    async def prefer(self, question: str, first: str, second: str) -> int:
        """What it says without giving reasons."""
        prompt = f"{DEFAULT_PROMPTS.preference(question, first, second)}\n\n"
        grammar = {"grammar": A_TAG}
        reply = await self._llm.acomplete(prompt, temperature=0.0, max_tokens=16, extra_body=grammar)
        return int(parse_preference(reply.text))

    async def compare(self, *_: object) -> None:
        """No verdict: the arena does not ask whether answers are the same."""


def load(n: int) -> tuple[EvalSet, dict[str, str], dict[str, list[Document]]]:
    """The first n questions of each domain, the domain of each question, and the sentences of each domain."""
    records, domain_of, corpora = [], {}, {}
    for domain in DOMAINS:
        file = DATA / "rag_qa_arena" / f"annotations_{domain}_with_citation.jsonl"
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        sentences = [line.strip() for row in rows for line in row["answer"].splitlines() if line.strip()]
        corpora[domain] = [Document(text, f"{domain}-{i}") for i, text in enumerate(sentences)]
        for row in rows[:n]:
            domain_of[row["question"]] = domain
            record = {"id": row["qid"], "question": row["question"], "reference": row["answer"]}
            records.append((row["qid"], {**record, "tags": {"domain": domain}}))
    return from_records(records, name=f"rag_qa_arena, first {n} of each domain"), domain_of, corpora


def systems(domain_of: dict[str, str], corpora: dict[str, list[Document]]) -> dict[str, Search]:
    """By BM25 over the question's domain, and by chance."""
    indexes = {domain: BM25Retriever(corpus) for domain, corpus in corpora.items()}
    return {
        "bm25": lambda query, k: list(indexes[domain_of[query]](query, k)),
        "chance": lambda query, k: random.Random(query).sample(corpora[domain_of[query]], k),
    }


def scored(session: Session, evalset: EvalSet, search: Search) -> list[dict[str, object]]:
    """The entries of both scores, over all questions and by domain."""
    parts = Components(search, DefaultGenerator(session.models), TagJudge(session.llm))
    entries = []
    for score in session.score(parts, evalset, [ScoreRequest(spec) for spec in SPECS]).values():
        if isinstance(score, RagevalError):
            raise score
        slices = [score, *(score.where(domain=domain) for domain in DOMAINS)]
        entries += [score_entry(each, None, None, arena_notes, spool=Spool()) for each in slices]
        for outcome in score.outcomes[:3] if score.spec == SPECS[0] else ():
            say(f"  {outcome.example.question}\n    {outcome.evidence.answer}")
    return entries


def main(arguments: Sequence[str]) -> None:
    """Score, and print the report as a run prints it."""
    n = int(arguments[1]) if len(arguments) > 1 else 20
    evalset, domain_of, corpora = load(n)
    settings = Settings(
        model="embedded", cache_dir=Path(arguments[0]), max_unscored=0.2, timeout=600.0, both_orders=True
    )
    session = Session(settings)
    told = {"name": evalset.name, "size": len(evalset), "digest": evalset.digest}
    tests = []
    try:
        for name, search in systems(domain_of, corpora).items():
            began = time.perf_counter()
            entries = scored(session, evalset, search)
            tests.append({"nodeid": f"arena[{name}]", "evalset": told, "scores": entries})
            took = f"{name}: {time.perf_counter() - began:.1f} s"
            for line in (took, *table_lines(tests[-1:]), *usage_lines(usage_entry(session.usage))):
                say(line)
        for line in ratings_lines(ratings_entries(tests, seed=0)):
            say(line)
    finally:
        session.close()


if __name__ == "__main__":
    main(sys.argv[1:])
