"""Rel'-recall with labels in place of gold passages: ALCE's QAMPARI examples by hand, and random cases by set algebra.

The sets are those of Garigliotti (2024), section 2: Rel are the relevant passages that were retrieved, Rel' those among
the first k, Out those that the answer cites. Answers have the same sets.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from pytest_rageval.answers.citations import without_citations
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.evalsets import load
from pytest_rageval.run.registry import resolve
from pytest_rageval.scores.pipeline import Pipeline

NAMES = (
    "rel_recall.answer",
    "rel.answer",
    "rel.answer_coverage",
    "rel_recall.citation",
    "rel.citation",
    "rel.coverage",
    "rel.citation_precision",
)


class World:
    context_names: frozenset[str] = frozenset()
    replays = False
    max_concurrency = 8

    def __init__(
        self,
        passages: Mapping[str, Sequence[Document]],
        answers: Mapping[str, str],
        relevant: frozenset[str] = frozenset(),
    ) -> None:
        self.passages, self.answers, self.calls_relevant = passages, answers, relevant

    def key(self, asked: Example) -> tuple[str, str]:
        return asked.question, ""

    async def retrieve(self, asked: Example, k: int, *, alone: bool = False) -> Ranking:  # noqa: ARG002 - the protocol
        return Ranking.of(asked.question, self.passages[asked.question], k)

    async def answer(
        self, _method: str, question: str, _passages: Sequence[Document], _sample: int = 0
    ) -> str:
        return self.answers[question]

    async def ask(self, _task: object, _question: str, passage: str) -> float:
        return float(passage in self.calls_relevant)

    def score(self, spec: str, *examples: Example, **words: str) -> list[Outcome]:
        resolved, score = resolve(ScoreRequest(spec, **words))

        async def evaluated() -> list[Outcome]:
            return await score.evaluate(Pipeline(self, self, self), examples, resolved)

        return asyncio.run(evaluated())


BY_HAND = {
    # Question 1 wants 11 answers, which occur in all five passages; the answer cites 1, 2 and 3.
    # Question 2 wants 7. Its fifth passage repeats the first: four passages, each with an answer.
    # Questions 3 and 4 want 5 and 6 answers, which occur in passages 1, 2 and 3 alone.
    5: {
        "rel_recall.answer": (1, 1, 1, 1),
        "rel.answer": (1, 1, 1, 1),
        "rel.answer_coverage": (1, 1, 1, 1),
        "rel_recall.citation": (3 / 5, 3 / 4, 1, 1),
        "rel.citation": (3 / 5, 3 / 4, 1, 1),
        "rel.coverage": (1, 1, 1, 1),
        "rel.citation_precision": (1, 1, 1, 1),
    },
    # With the first two passages and the same answer, [3] cites a passage that does not exist.
    2: {
        "rel_recall.answer": (1, 1, 1, 1),
        "rel.answer": (1, 1, 1, 1),
        "rel.answer_coverage": (8 / 11, 3 / 7, 2 / 5, 5 / 6),
        "rel_recall.citation": (1, 1, 1, 1),
        "rel.citation": (2 / 5, 2 / 4, 2 / 3, 2 / 3),
        "rel.coverage": (2 / 5, 2 / 4, 2 / 3, 2 / 3),
        "rel.citation_precision": (2 / 3, 2 / 3, 2 / 3, 2 / 3),
    },
}


@pytest.mark.parametrize(("k", "name"), [(k, name) for k, values in BY_HAND.items() for name in values])
def test_alces_examples_have_scores_without_gold_passages(data: Any, k: int, name: str) -> None:
    examples, passages, answers = [], {}, {}
    for example in load(data("alce") / "qampari_default.json"):
        answer = example.reference or ""
        items = [item.strip(" .") for item in without_citations(answer).split(",")]
        wanted = tuple((item,) for item in dict.fromkeys(items))
        examples.append(replace(example, answer_set=wanted, reference=None))
        passages[example.question] = [Document(passage["text"]) for passage in example.extra["passages"]]
        answers[example.question] = answer
    world = World(passages, answers)
    values = [outcome.value for outcome in world.score(f"{name}@{k}", *examples, relevant="contains")]
    assert values == pytest.approx(BY_HAND[k][name])
    without = world.score(f"rel.citation@{k}", *examples)
    assert [outcome.unscored for outcome in without] == ["no gold passages"] * 4


def _case(rng: random.Random, name: str) -> tuple[Example, list[Document], str, dict[str, Any]]:
    """Return a question with up to five wanted answers, its twelve passages, the output, and the sets of labels."""
    wanted = [f"answer{n}" for n in range(rng.randint(1, 5))]
    holds = [{word for word in wanted if rng.random() < 0.2} for _ in range(12)]
    passages = [
        Document(f"Passage {n} of {name} says {' or '.join(sorted(words)) or 'nothing'}.", f"d{n}")
        for n, words in enumerate(holds)
    ]
    labels = {
        "gold": {n for n in range(12) if rng.random() < 0.3} | {11},
        "contains": {n for n, words in enumerate(holds) if words},
        "judge": {n for n in range(12) if rng.random() < 0.2},
    }
    listed = [word for word in wanted if rng.random() < 0.6]
    cited = rng.sample(range(1, 8), rng.randint(0, 4))
    gold = tuple(Gold(id=f"d{n}") for n in sorted(labels["gold"]))
    example = Example(name, name, answer_set=tuple((word,) for word in wanted), gold=gold)
    sets = {
        "wanted": set(wanted),
        "holds": holds,
        "labels": labels,
        "listed": set(listed),
        "cited": set(cited),
    }
    return example, passages, ", ".join([*listed, "something else"]) + "".join(f"[{n}]" for n in cited), sets


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _expected(sets: Mapping[str, Any], by: str, k: int) -> dict[str, float | None]:
    rel = sets["labels"][by]
    rel_prime = {n for n in rel if n < k}
    out = {n - 1 for n in sets["cited"] if n <= k}
    answers = sets["wanted"]
    shown = answers & set().union(*(sets["holds"][n] for n in rel_prime))
    return {
        "rel_recall.answer": _share(len(sets["listed"] & shown), len(shown)),
        "rel.answer": _share(len(sets["listed"]), len(answers)),
        "rel.answer_coverage": _share(len(shown), len(answers)),
        "rel_recall.citation": _share(len(out & rel_prime), len(rel_prime)),
        "rel.citation": _share(len(out & rel), len(rel)),
        "rel.coverage": _share(len(rel_prime), len(rel)),
        # Out includes citations of passages that are not in the prompt.
        "rel.citation_precision": _share(len(out & rel), len(sets["cited"])),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("by", "k"), [*product(("gold", "contains", "judge"), (3, 5))])
def test_random_cases_equal_the_sets(by: str, k: int) -> None:
    """The scores of 200 questions, undefined ones included, equal set algebra.

    Recall over Rel is the paper's product.
    """
    rng = random.Random(f"{by} {k}")
    cases = [_case(rng, f"q{n}") for n in range(200)]
    world = World(
        {example.id: passages for example, passages, _, _ in cases},
        {example.id: output for example, _, output, _ in cases},
        frozenset(passages[n].text for _, passages, _, sets in cases for n in sets["labels"]["judge"]),
    )
    scores: list[dict[str, float | None]] = [{} for _ in cases]
    for name in NAMES:
        for values, outcome in zip(
            scores, world.score(f"{name}@{k}", *(case[0] for case in cases), relevant=by), strict=True
        ):
            assert outcome.unscored is None
            assert (outcome.undefined is None) == (outcome.value is not None)
            values[name] = outcome.value
    for values, (_, _, _, sets) in zip(scores, cases, strict=True):
        assert values == pytest.approx(_expected(sets, by, k), abs=1e-12), sets
        over_rel_prime, coverage = values["rel_recall.citation"], values["rel.coverage"]
        if over_rel_prime is not None and coverage is not None:
            assert values["rel.citation"] == pytest.approx(coverage * over_rel_prime, abs=1e-12)
    missing = [name for values in scores for name, value in values.items() if value is None]
    assert {"rel_recall.answer", "rel_recall.citation", "rel.citation_precision"} <= {*missing}
