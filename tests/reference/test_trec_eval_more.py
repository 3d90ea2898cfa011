"""Relevance levels, R-precision, set measures, exponential gain and condensed lists equal those of trec_eval."""

import random
from collections.abc import Callable, Iterator, Mapping

import pytest
import pytrec_eval

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.run.registry import resolve
from pytest_rageval.scores.pipeline import Pipeline

pytestmark = pytest.mark.slow

Grades = dict[str, dict[str, int]]
Runs = dict[str, list[str]]


def _queries() -> tuple[Grades, Runs]:
    rng = random.Random(0)
    pool = [f"d{n}" for n in range(60)]
    grades, runs = {}, {}
    for n in range(300):
        judged = rng.sample(pool, rng.choice([1, 5, 20]))
        grades[f"q{n}"] = {name: rng.choice([0, 1, 2, 3]) for name in judged} | {judged[0]: 3}
        runs[f"q{n}"] = rng.sample(pool, rng.choice([1, 5, 30]))
    return grades, runs


GRADES, RUNS = _queries()


def _theirs(measure: str, grades: Grades = GRADES, **arguments: object) -> list[float]:
    run = {query: {name: -float(rank) for rank, name in enumerate(names)} for query, names in RUNS.items()}
    found = pytrec_eval.RelevanceEvaluator(grades, {measure}, **arguments).evaluate(run)
    (name,) = {name for values in found.values() for name in values}
    return [found[query][name] for query in RUNS]


@pytest.fixture
def ours() -> Iterator[Callable[..., list[float]]]:
    loop = BackgroundEventLoop()

    def score(spec: str, **keywords: str) -> list[float]:
        examples = [
            Example(query, query, gold=tuple(Gold(name, grade=grade) for name, grade in by_name.items()))
            for query, by_name in GRADES.items()
        ]
        retriever = adapt_retriever(
            lambda query, k: [{"id": name, "text": ""} for name in RUNS[query]][:k], loop
        )
        resolved, definition = resolve(ScoreRequest(spec, **keywords))
        outcomes = loop.run(definition.evaluate(Pipeline(retriever, None, None), examples, resolved))
        return [outcome.value for outcome in outcomes]

    yield score
    loop.close()


def _exponential(grades: Mapping[str, Mapping[str, int]]) -> Grades:
    return {
        query: {name: 2**grade - 1 for name, grade in by_name.items()} for query, by_name in grades.items()
    }


@pytest.mark.parametrize(
    ("spec", "measure"), [("r_precision@30", "Rprec"), ("set.precision@30", "set_P"), ("set.f1@30", "set_F")]
)
def test_measures_without_a_cut_off(ours, spec: str, measure: str) -> None:
    """They agree if all documents of trec_eval's run are retrieved."""
    assert ours(spec) == pytest.approx(_theirs(measure), abs=1e-12)


@pytest.mark.parametrize("k", [1, 5, 20])
def test_an_exponential_gain_is_a_gain(ours, k: int) -> None:
    assert ours(f"ndcg.exp@{k}") == pytest.approx(_theirs(f"ndcg_cut.{k}", _exponential(GRADES)), abs=1e-12)


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "measure"),
    [("recall", "recall.5"), ("precision", "P.5"), ("map", "map_cut.5"), ("hit", "success.5")],
)
def test_a_lowest_grade_is_trec_evals_relevance_level(ours, name: str, measure: str, level: int) -> None:
    found = ours(f"{name}@5", relevant=f"gold_grade>={level}")
    assert found == pytest.approx(_theirs(measure, relevance_level=level), abs=1e-12)
    assert ours("ndcg@5") == pytest.approx(_theirs("ndcg_cut.5", relevance_level=level), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "measure"),
    [("recall", "recall.30"), ("map", "map_cut.30"), ("mrr", "recip_rank"), ("ndcg", "ndcg_cut.30")],
)
def test_condensed_lists_are_trec_evals_judged_documents(ours, name: str, measure: str) -> None:
    """`condensed` scores are those of trec_eval's option -J over the whole run."""
    theirs = _theirs(measure, judged_docs_only_flag=True)
    assert ours(f"condensed.{name}@30") == pytest.approx(theirs, abs=1e-12)


def test_the_share_of_judged_documents(ours) -> None:
    judged = [[name in GRADES[query] for name in names[:5]] for query, names in RUNS.items()]
    assert ours("judged@5") == [sum(each) / len(each) for each in judged]
