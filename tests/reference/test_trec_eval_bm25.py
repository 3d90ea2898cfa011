"""Scores of BM25 over real passages equal trec_eval's, computed through the package's own evaluation."""

import ast
import csv
import gzip
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest
import pytrec_eval

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.ranking import Document
from pytest_rageval.core.spec import Spec
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.retrievers.bm25 import BM25Retriever
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore
from pytest_rageval.scores.ranking import evaluate_ranking

pytestmark = pytest.mark.slow

Data = Callable[[str], Path]
CUTS = (1, 3, 5)
SAMPLE = 300
TREC = {"recall": "recall", "precision": "P", "map": "map_cut", "ndcg": "ndcg_cut", "hit": "success"}


@dataclass(frozen=True)
class Task:
    examples: Sequence[Example]
    search: Callable[[str, int], list[Document]]


def _ms_marco(data: Data) -> Task:
    csv.field_size_limit(1 << 30)
    path = data("ms_marco_400") / "ms_marco_qna_dataset.csv"
    examples, pools = [], {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            passages = json.loads(row["passages"])
            name, question = row["query_id"], row["query"]
            gold = (Gold(f"{name}-{n}") for n, passage in enumerate(passages) if passage["is_selected"])
            answers = tuple(ast.literal_eval(row["answers"]))
            examples.append(Example(name, question, answers=answers, gold=tuple(gold)))
            pools[question] = BM25Retriever(
                {"id": f"{name}-{n}", "text": passage["passage_text"]} for n, passage in enumerate(passages)
            )
    return Task(examples, lambda question, k: pools[question](question, k))


def _lost_in_the_middle(data: Data) -> Task:
    path = data("lost_in_the_middle") / "nq-open-oracle.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    texts = [f"{record['ctxs'][0]['title']}\n{record['ctxs'][0]['text']}" for record in records]
    # Texts that differ only in case or white space are one passage for us, but not for trec_eval.
    first: dict[str, str] = {}
    texts = [first.setdefault(" ".join(text.casefold().split()), text) for text in texts]
    names = {text: f"p{n}" for n, text in enumerate(dict.fromkeys(texts))}
    chosen = random.Random(0).sample(range(len(records)), SAMPLE)
    examples = [Example(str(n), records[n]["question"], gold=(Gold(names[texts[n]]),)) for n in chosen]
    search = BM25Retriever({"id": name, "text": text} for text, name in names.items())
    best = lru_cache(maxsize=None)(lambda question: search(question, max(CUTS)))
    return Task(examples, lambda question, k: best(question)[:k])


@pytest.fixture(
    scope="module", params=[_ms_marco, _lost_in_the_middle], ids=["ms_marco", "lost_in_the_middle"]
)
def task(request: pytest.FixtureRequest, data: Data) -> Task:
    task_: Task = request.param(data)
    return task_


@pytest.fixture(scope="module")
def outcomes(task: Task) -> Iterator[Mapping[str, list[Outcome]]]:
    loop = BackgroundEventLoop()
    run = Pipeline(adapt_retriever(task.search, loop), None, None)
    yield {
        f"{name}@{k}": loop.run(evaluate_ranking(run, task.examples, ResolvedScore(Spec(name, None, k), k)))
        for name in ("recall", "precision", "f1", "map", "mrr", "ndcg", "hit")
        for k in CUTS
    }
    loop.close()


def _trec(task: Task, measure: str, depth: int) -> dict[str, float]:
    runs, qrels = {}, {}
    for example in task.examples:
        if example.gold:
            found = task.search(example.question, depth)
            runs[example.id] = {document.id: -float(n) for n, document in enumerate(found)}
            qrels[example.id] = {gold.id: gold.grade for gold in example.gold}
    found = pytrec_eval.RelevanceEvaluator(qrels, {measure}).evaluate(runs)
    return {name: next(iter(values.values())) for name, values in found.items()}


def _scored(outcomes: list[Outcome]) -> dict[str, float]:
    return {outcome.example.id: outcome.value for outcome in outcomes if outcome.value is not None}


@pytest.mark.parametrize("k", CUTS)
@pytest.mark.parametrize("name", TREC)
def test_cut_measures_equal_trec_eval(task: Task, outcomes, name: str, k: int) -> None:
    theirs = _trec(task, f"{TREC[name]}.{k}", max(CUTS))
    assert _scored(outcomes[f"{name}@{k}"]) == pytest.approx(theirs, abs=1e-12, rel=0)


@pytest.mark.parametrize("k", CUTS)
def test_mrr_equals_trec_eval_on_the_truncated_run(task: Task, outcomes, k: int) -> None:
    """MRR agrees with trec_eval on a run cut at k, since trec_eval's has no cut-off."""
    assert _scored(outcomes[f"mrr@{k}"]) == pytest.approx(_trec(task, "recip_rank", k), abs=1e-12, rel=0)


@pytest.mark.parametrize("k", CUTS)
def test_f1_is_that_of_trec_evals_precision_and_recall(task: Task, outcomes, k: int) -> None:
    p, r = _trec(task, f"P.{k}", k), _trec(task, f"recall.{k}", k)
    theirs = {name: 2 * p[name] * r[name] / (p[name] + r[name]) if p[name] else 0.0 for name in p}
    assert _scored(outcomes[f"f1@{k}"]) == pytest.approx(theirs, abs=1e-12, rel=0)


def test_questions_without_gold_are_unscored(task: Task, outcomes) -> None:
    without = sum(not example.gold for example in task.examples)
    for outcome in outcomes.values():
        assert [o.unscored for o in outcome if o.value is None] == ["no gold passages"] * without
    hits = [o.value for o in outcomes["hit@5"] if o.value is not None]
    assert 0.5 < sum(hits) / len(hits) < 1
