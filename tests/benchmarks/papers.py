"""Small versions of the tables of five papers: `python tests/benchmarks/papers.py CACHE [N] [PAPER …]`.

The rows and columns are those of the papers. The models, data and sizes are not, so the numbers cannot be compared with
those of the papers. The embedded model answers the first N (default: 20) questions. The data is read from the folder of
`real_data.py`. Below each table the script prints the findings of the paper, and whether they hold here for the means,
without a significance test. If a judge is needed, it is the embedded model too, with a grammar for the format of the
verdicts. Its verdicts are not reliable, and findings that depend on them are marked. Replies are stored in the folder
CACHE. The papers are named by first author and year:

- alinejad2024, LLM-retEval, Tables 1 and 2: NQ-open; the corpus is its gold passages; k = 1, 3, 5;
- salemi2024, eRAG, Table 1: the same data, k = 5, BM25; the paper has four more data sets. Table 2 is in
  `erag_cost.py`;
- garigliotti2024, Rel'-recall, Table 1: the same data, k = 3, 5, with one wanted answer per question, where the paper's
  data has several; over the gold passages, and over the passages that contain an answer. Citation precision is one
  score, since it is the same over Rel and Rel';
- han2024, RAG-QA Arena, Tables 3, 6(A), 6(B), 9 and 10: two domains of LFRQA, whose sentences are used as the corpus.
  Tables 4, 5 and 8 need labels by people. Table 6 computed from the paper's own Table 3 is in `tests/reference`;
- gulsoy2024, retrieval techniques, Tables 1 and 2: MS MARCO, k = 3. Tables 3 to 6 are the same with other models.
"""

import json
import random
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.answers.judge.replies import parse_preference
from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.evalset import EvalSet
from pytest_rageval.core.outcome import Score
from pytest_rageval.core.ranking import Document
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.evalsets import from_records
from pytest_rageval.extensions.arena_battles.battles import Battles
from pytest_rageval.extensions.embeddings.dense import PooledRetriever
from pytest_rageval.models import DefaultGenerator
from pytest_rageval.models.api import LLM
from pytest_rageval.models.prompt_rendering import DEFAULT_PROMPTS
from pytest_rageval.options.settings import Settings
from pytest_rageval.reports.build import score_entry
from pytest_rageval.reports.systems import ratings_entries, ratings_lines
from pytest_rageval.retrievers.bm25 import BM25Retriever
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session
from pytest_rageval.scores.annotator_agreement import ANNOTATORS, AgreementRequest
from pytest_rageval.scores.arena import arena_notes
from pytest_rageval.scores.llm_reteval import RECALL_ERRED, triage_notes
from tests.benchmarks.annotators import EmbeddedJudge
from tests.benchmarks.real_data import DATA, Search, ms_marco_pools, nq_open, say
from tests.benchmarks.techniques import makers

CUTOFFS: Final = (5, 10)
JUDGED = " (by a judge that is none)"


DOMAINS = ("recreation", "writing")
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


def lfrqa(n: int) -> tuple[EvalSet, dict[str, str], dict[str, list[Document]]]:
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


def arena_systems(domain_of: dict[str, str], corpora: dict[str, list[Document]]) -> dict[str, Search]:
    """Return the two systems: BM25 over the sentences of the question's domain, and random sentences."""
    indexes = {domain: BM25Retriever(corpus) for domain, corpus in corpora.items()}
    return {
        "bm25": lambda query, k: list(indexes[domain_of[query]](query, k)),
        "chance": lambda query, k: random.Random(query).sample(corpora[domain_of[query]], k),
    }


class GradeJudge:
    def __init__(self, session: Session) -> None:
        self._session = session

    def compare(self, question: str, references: Sequence[str], prediction: str) -> None:
        """Return no verdict: this judge does not compare answers."""

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> tuple[int, str]:
        prompt = (
            f"Question: {question}\nReference: {' '.join(against)[:2000]}\nText: {' '.join(rated)[:2000]}\n"
            f"A grade from 1 (bad) to 5 (good) for {criterion.replace('_', ' ')}:"
        )
        grammar = {"grammar": 'root ::= " " [1-5]'}
        reply = await self._session.llm.acomplete(prompt, temperature=0.0, max_tokens=4, extra_body=grammar)
        return int(reply.text), "no reasons"


def scores(
    session: Session, components: Components, evalset: EvalSet, requests: Sequence[ScoreRequest]
) -> list[Score]:
    computed = []
    for score in session.evaluator.score(components, evalset, requests).values():
        if isinstance(score, RagevalError):
            raise score
        computed.append(score)
    return computed


def rows(head: Sequence[str], cells: Mapping[str, Sequence[float | str | None]]) -> None:
    say(f"{'':32}" + "".join(f"{name:>12}" for name in head))
    for name, values in cells.items():
        texts = (
            "-" if value is None else value if isinstance(value, str) else f"{value:.3f}" for value in values
        )
        say(f"{name:32}" + "".join(f"{text:>12}" for text in texts))


def finding(text: str, *, holds: bool | None) -> None:
    """Print whether a finding of the paper holds; `holds` is None if this is undefined."""
    say(f"  {'undefined' if holds is None else 'holds' if holds else 'DOES NOT HOLD':14} {text}")


def is_descending(values: Sequence[float]) -> bool:
    return all(value >= following for value, following in pairwise(values))


def is_only_extreme(
    extreme: Callable[[Iterable[float]], float], values: Mapping[str, float], name: str
) -> bool | None:
    """Return True if only `name` has the extreme value (`max` or `min`); None if all values are equal."""
    extreme_names = [key for key, value in values.items() if value == extreme(values.values())]
    return None if len(extreme_names) == len(values) else extreme_names == [name]


def alinejad2024(session: Session, first: int) -> None:
    whole, bm25 = nq_open()
    evalset, ks = EvalSet(f"{whole.name}, first {first}", whole.examples[:first]), (1, 3, 5)
    components = Components(bm25, DefaultGenerator(session.models), DefaultJudge(session.models))
    names = ("recall", "precision", "f1", "llm_reteval", "answer.correct")
    columns = {}
    for k in ks:
        computed = scores(session, components, evalset, [ScoreRequest(f"{name}@{k}") for name in names])
        notes = triage_notes(computed[3])
        recall_errs = sum(notes["cases"].get(case, 0) for case in RECALL_ERRED)
        columns[k] = (
            [recall_errs, sum(notes["cases"].values()) - recall_errs, *map(float, computed)],
            notes["spearman"],
        )
    head = [f"@{k}" for k in ks]
    labels = (
        "recall failures",
        "LLM-retEval failures",
        "Recall@k",
        "Precision@k",
        "F1@k",
        "LLM-retEval",
        "GPT-Eval",
    )
    table = {label: [columns[k][0][place] for k in ks] for place, label in enumerate(labels)}
    say(f"\nalinejad2024, Table 1 ({evalset.name}, BM25)")
    rows(head, table)
    finding(
        "precision and F1 fall with k",
        holds=is_descending(table["Precision@k"]) and is_descending(table["F1@k"]),
    )
    finding("failures of recall become fewer with k", holds=is_descending(table["recall failures"]))
    gaps = [
        [abs(score - correct) for score, correct in zip(table[name], table["GPT-Eval"], strict=True)]
        for name in ("LLM-retEval", "Recall@k")
    ]
    finding("LLM-retEval is closer to correctness than recall is", holds=sum(gaps[0]) < sum(gaps[1]))
    spearman = {kind: [columns[k][1][kind] for k in ks] for kind in ("all", "refined")}
    say("alinejad2024, Table 2: Spearman's rho with Recall@k")
    rows(head, spearman)
    pairs = list(zip(spearman["all"], spearman["refined"], strict=True))
    known = [(one, other) for one, other in pairs if one is not None and other is not None]
    finding("refined is not below all", holds=all(one <= other for one, other in known) if known else None)


def salemi2024(session: Session, first: int) -> None:
    whole, bm25 = nq_open()
    evalset = EvalSet(f"{whole.name}, first {first}", whole.examples[:first])
    components = Components(bm25, DefaultGenerator(session.models), EmbeddedJudge(session))
    request = AgreementRequest(ANNOTATORS, ("map", "mrr", "ndcg", "p", "recall", "hit"), (5,), "canonical")
    agreement = request.agreement(session.evaluator.score(components, evalset, request.score_requests))
    say(f"\nsalemi2024, Table 1 ({evalset.name}, BM25, k = 5)")
    taus: dict[tuple[str, str], float | None] = {
        (association.annotator, association.measure): association.tau
        for association in agreement.associations
    }
    rows(
        ["tau", "rho"],
        {
            f"{association.annotator} {association.measure}": [association.tau, association.rho]
            for association in agreement.associations
        },
    )
    best = {
        name: max(
            (tau for (annotator, _), tau in taus.items() if annotator == name and tau is not None),
            default=None,
        )
        for name in ANNOTATORS
    }

    def above(one: str, other: str) -> bool | None:
        higher, lower = best[one], best[other]
        return None if higher is None or lower is None else higher > lower

    beaten = [above("erag", name) for name in ANNOTATORS[1:]]
    finding("eRAG agrees best", holds=all(beaten) if None not in beaten else None)
    finding("passages that hold the answer agree better than gold ones", holds=above("contains", "gold"))
    finding(f"relevance by a model agrees least{JUDGED}", holds=above("gold", "relevance"))
    equal = all(
        taus.get((name, "recall")) == taus.get((name, "hit")) for name in ("erag", "contains", "gold")
    )
    finding("R and hit are one", holds=equal)


def garigliotti2024(session: Session, first: int) -> None:
    whole, bm25 = nq_open()
    evalset = EvalSet(f"{whole.name}, first {first}", whole.examples[:first])
    components = Components(bm25, DefaultGenerator(session.models), DefaultJudge(session.models))
    for relevant, what in (("gold", "gold passages"), ("contains", "passages that hold an answer")):
        over: dict[str, dict[str, list[float | str | None]]] = {"rel": {}, "rel_recall": {}}
        for k in (3, 5):
            for order in ("rank", "random"):
                for family, table in over.items():
                    names = (f"{family}.answer", "rel.citation_precision", f"{family}.citation")
                    requests = [ScoreRequest(f"{name}@{k}", order=order, relevant=relevant) for name in names]
                    results = session.evaluator.score(components, evalset, requests).values()
                    table[f"cut-off {k}, {order}"] = [
                        None if isinstance(result, RagevalError) else float(result) for result in results
                    ]
        for family, title in (("rel", "Rel"), ("rel_recall", "Rel'")):
            say(f"\ngarigliotti2024, Table 1, relevance set {title} of {what} ({evalset.name})")
            rows(["answer R", "citation P", "citation R"], over[family])
        _compare_sets(over["rel"], over["rel_recall"])


def _compare_sets(
    rel: Mapping[str, Sequence[float | str | None]], used: Mapping[str, Sequence[float | str | None]]
) -> None:
    cells = [
        (one, other)
        for row in rel
        for place in (0, 2)
        if isinstance(one := rel[row][place], float) and isinstance(other := used[row][place], float)
    ]
    finding(
        "recall over Rel' is above recall over Rel", holds=all(a <= b for a, b in cells) if cells else None
    )
    by_rank, random = (
        [row[0] for name, row in used.items() if order in name and isinstance(row[0], float)]
        for order in ("rank", "random")
    )
    ahead = all(a >= b for a, b in zip(by_rank, random, strict=True)) if by_rank and random else None
    finding("answers are better by rank than in random order", holds=ahead)


def han2024(session: Session, first: int) -> None:
    evalset, domain_of, corpora = lfrqa(max(first // 2, 1))
    table: dict[str, list[float | str | None]] = {}
    tests: list[dict[str, Any]] = []
    described = {"name": evalset.name, "size": len(evalset), "digest": evalset.digest}
    systems = arena_systems(domain_of, corpora)
    markers = [SimpleNamespace(args=(f"arena.win@{k}",)) for k in CUTOFFS]
    siblings = {f"han2024[{name}]": markers for name in systems}
    for nodeid, (name, search) in zip(siblings, systems.items(), strict=True):
        components = Components(search, DefaultGenerator(session.models), TagJudge(session.llm))
        entries = []
        for k in CUTOFFS:
            requests = [ScoreRequest(f"arena.{part}@{k}") for part in ("win", "win_tie")]
            win_scores = scores(session, components, evalset, requests)
            cut = [
                (float(score), *(float(score.where(domain=domain)) for domain in DOMAINS))
                for score in win_scores
            ]
            entries += [score_entry(score, None, None, arena_notes) for score in win_scores]
            table[f"{name}, {k} passages"] = [
                *(f"{win:.2f} {tie:.2f}" for win, tie in zip(*cut, strict=True)),
                entries[-1]["arena"]["no_answer_ratio"],
            ]
        run = session.pipeline(components, ScoreRequest(f"arena.win@{CUTOFFS[0]}"))
        battles = session.resource(Battles).run_for_test(
            nodeid, run, (evalset.digest, evalset.examples), CUTOFFS, siblings
        )
        tests.append({"nodeid": nodeid, "evalset": described, "scores": entries, "battles": battles})
    say(f"\nhan2024, Tables 3, 9 and 10: win, win or tie ({evalset.name}){JUDGED}")
    rows(["all", *DOMAINS, "no answer"], table)
    wins = {name: float(str(cells[0]).split()[0]) for name, cells in table.items()}
    finding(f"people's answers win against every system{JUDGED}", holds=max(wins.values()) < 1 / 2)
    more = all(wins[f"{name}, 10 passages"] >= wins[f"{name}, 5 passages"] for name in ("bm25", "chance"))
    finding(f"ten passages are no worse than five{JUDGED}", holds=more)
    against = [{name: value for name, value in test.items() if name != "battles"} for test in tests]
    order = []
    for column, of_column in (("A", against), ("B", tests)):
        say(f"han2024, Table 6({column})")
        ratings = ratings_entries(of_column, seed=0)
        for line in ratings_lines(ratings):
            say(line)
        order.append([row["system"] for row in ratings[0]["systems"]] if ratings else [])
    finding(f"battles between systems leave their order as it is{JUDGED}", holds=order[0] == order[1])


def gulsoy2024(session: Session, first: int) -> None:
    """Print the scores of five retrieval techniques: overlap with the references, BERTScore, and a judge's grades."""
    whole, pools = ms_marco_pools()
    evalset = EvalSet(f"{whole.name}, first {first}", whole.examples[:first])
    overlap = ("answer.bleu", "answer.rouge1", "answer.rougeL")
    encoded = ("answer.bertscore_p", "answer.bertscore_r", "answer.bertscore")
    grades = ("judged.correctness", "judged.faithfulness", "judged.context_quality")
    table: dict[str, list[float]] = {}
    for name, make in makers(session).items():
        components = Components(
            PooledRetriever(pools, make), DefaultGenerator(session.models), GradeJudge(session)
        )
        requests = [ScoreRequest(f"{spec}@3") for spec in (*overlap, *encoded, *grades)]
        table[name] = [float(score) for score in scores(session, components, evalset, requests)]
    say(f"\ngulsoy2024, Table 1 ({evalset.name}, k = 3)")
    rows(
        ["BLEU", "ROUGE-1", "ROUGE-L", "BERT P", "BERT R", "BERT F1"],
        {name: row[:6] for name, row in table.items()},
    )
    rouge = {name: row[2] for name, row in table.items()}
    finding("dense is above BM25 (ROUGE-L)", holds=rouge["dense"] > rouge["bm25"])
    finding("fusion is highest (ROUGE-L)", holds=is_only_extreme(max, rouge, "fusion"))
    finding("feedback is lowest (ROUGE-L)", holds=is_only_extreme(min, rouge, "feedback"))
    say(f"gulsoy2024, Table 2{JUDGED}")
    rows(["correct", "faithful", "context"], {name: row[6:] for name, row in table.items()})
    correct = {name: row[6] for name, row in table.items()}
    finding(f"feedback is lowest in correctness{JUDGED}", holds=is_only_extreme(min, correct, "feedback"))
    finding(f"dense context is above BM25's{JUDGED}", holds=table["dense"][8] > table["bm25"][8])


PAPERS: dict[str, Callable[[Session, int], None]] = {
    paper.__name__: paper for paper in (alinejad2024, salemi2024, garigliotti2024, han2024, gulsoy2024)
}


def main(cache: Path, first: int, papers: Sequence[str]) -> None:
    settings = Settings(
        model="embedded", cache_dir=cache, max_unscored=0.5, timeout=600, arena_pairs=6 * first
    )
    with closing(Session(settings)) as session:
        for name in papers:
            try:
                PAPERS[name](session, first)
            except RagevalError as error:
                say(f"\n{name}: {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20, sys.argv[3:] or list(PAPERS))
