"""An arena run with the embedded model, as a smoke test: `python tests/benchmarks/arena.py CACHE [N]`.

The questions are the first N (default: 20) of each of two domains of rag_qa_arena, with long answers by people as
references. The data is read from the folder of `real_data.py`. It has no passages: the sentences of all references of a
domain, including the reference of the question itself, are used as the corpus. One system answers from the first 5
sentences of BM25, the other from 5 random sentences.

The judge is the embedded model of 270 million parameters, which is too small to judge such answers. A grammar allows
only one of the three tags, without reasons. The run shows that the arena works from end to end, and the position bias
of a judge that does not understand the answers. Its scores say nothing about the systems. Replies are stored in the
folder CACHE.
"""

import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.answers.judge.replies import parse_preference
from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.evalset import EvalSet
from pytest_rageval.core.ranking import Document
from pytest_rageval.core.settings import Settings
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.evalsets import from_records
from pytest_rageval.models.api import LLM
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS
from pytest_rageval.reports.build import score_entry, usage_entry, usage_lines
from pytest_rageval.reports.systems import ratings_entries, ratings_lines
from pytest_rageval.reports.terminal import table_lines
from pytest_rageval.retrievers.bm25 import BM25Retriever
from pytest_rageval.run.default_components import DefaultGenerator
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session
from pytest_rageval.scores.arena import arena_notes
from tests.benchmarks.real_data import DATA, Search, say

DOMAINS = ("recreation", "writing")
SPECS = ("arena.win@5", "arena.win_tie@5")
TAG_GRAMMAR = r'root ::= "<rating>" [012] "</rating>"'


class TagJudge:
    """A judge that calls the embedded model with a grammar that allows only one of the three tags."""

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    async def prefer(self, question: str, first: str, second: str) -> int:
        """Return the preference of the model, which gives no reasons."""
        prompt = f"{DEFAULT_PROMPTS.fill('preference', question, first, second)}\n\n"
        grammar = {"grammar": TAG_GRAMMAR}
        reply = await self._llm.acomplete(prompt, temperature=0.0, max_tokens=16, extra_body=grammar)
        return int(parse_preference(reply.text))

    async def compare(self, *_: object) -> None:
        """Return no verdict: the arena does not compare answers with references."""


def load(n: int) -> tuple[EvalSet, dict[str, str], dict[str, list[Document]]]:
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
    """Return the two systems: BM25 over the sentences of the question's domain, and random sentences."""
    indexes = {domain: BM25Retriever(corpus) for domain, corpus in corpora.items()}
    return {
        "bm25": lambda query, k: list(indexes[domain_of[query]](query, k)),
        "chance": lambda query, k: random.Random(query).sample(corpora[domain_of[query]], k),
    }


def compute_entries(session: Session, evalset: EvalSet, search: Search) -> list[dict[str, object]]:
    components = Components(search, DefaultGenerator(session.models), TagJudge(session.llm))
    entries = []
    for score in session.score(components, evalset, [ScoreRequest(spec) for spec in SPECS]).values():
        if isinstance(score, RagevalError):
            raise score
        slices = [score, *(score.where(domain=domain) for domain in DOMAINS)]
        entries += [score_entry(part, None, None, arena_notes) for part in slices]
        for outcome in score.outcomes[:3] if score.spec == SPECS[0] else ():
            say(f"  {outcome.example.question}\n    {outcome.evidence.answer}")
    return entries


def main(arguments: Sequence[str]) -> None:
    """Compute the scores, and print the tables that a run prints."""
    n = int(arguments[1]) if len(arguments) > 1 else 20
    evalset, domain_of, corpora = load(n)
    settings = Settings(
        model="embedded", cache_dir=Path(arguments[0]), max_unscored=0.2, timeout=600.0, both_orders=True
    )
    session = Session(settings)
    evalset_entry = {"name": evalset.name, "size": len(evalset), "digest": evalset.digest}
    tests = []
    try:
        for name, search in systems(domain_of, corpora).items():
            began = time.perf_counter()
            entries = compute_entries(session, evalset, search)
            tests.append({"nodeid": f"arena[{name}]", "evalset": evalset_entry, "scores": entries})
            duration = f"{name}: {time.perf_counter() - began:.1f} s"
            for line in (duration, *table_lines(tests[-1:]), *usage_lines(usage_entry(session.usage))):
                say(line)
        for line in ratings_lines(ratings_entries(tests, seed=0)):
            say(line)
    finally:
        session.close()


if __name__ == "__main__":
    main(sys.argv[1:])
