"""Which of the facts that a good answer states are in the passages, and which in the answer?

A [nugget](eval-sets.md#nuggets) is a fact that a good answer states: *vital*, or only worth stating. The judge labels
all nuggets of a question in one request for each passage: support, partial_support or not_support. Only support counts;
two passages that each state a part of a nugget do not support it. Labels depend on neither k nor rank, so that another
cut-off or another order sends no further requests. A reply that is not one label for each nugget leaves the question
unscored.

`nuggets.ndcg` compares the order with an ideal order. The ideal order consists of the retrieved passages and of missed
gold passages with text, which are labelled too (1 request each). Without such gold passages a missed nugget does not
lower the score: bound `nuggets.coverage` as well. `answer.nuggets` is *vital strict*, the primary measure of the TREC
2024 RAG Track: the share of vital nuggets with the label support. Notes report `all_strict`, the share over all
nuggets, and `vital` and `all`, in which partial_support counts ½. The answer is a long one, as in the arena; an
abstention scores 0 without a request to the judge. If no nugget is vital, `nuggets.vital` and `answer.nuggets` are
undefined.
"""

from collections.abc import Sequence
from math import fsum, log2
from statistics import median_low
from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.judge import PARTIAL_SUPPORT, JudgeTask
from pytest_rageval.answers.judge.replies import SUPPORT_LABELS, parse_support
from pytest_rageval.answers.judge.tasks import invalid_result, require_result
from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import NoGroundTruth, Undefined
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.core.ranking import Ranking, excerpt, texts_of
from pytest_rageval.lib.foreign_values import as_share
from pytest_rageval.lib.text import counted, join_counted
from pytest_rageval.scores.definition import NUGGETS, Family, Scored, ScoreDef, WorkedExample, each_example
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore

Labels = Sequence[float]
"""The labels of the nuggets of a question for one text, in order: 1 support, 0.5 partial_support, 0 not_support."""

SUPPORTED: Final = 1.0  # label of a nugget that a passage supports

ALPHA: Final = 0.5  # share of its gain that a nugget loses with each passage that supports it

MAX_NAMED_NUGGETS: Final = 5  # number of unsupported nuggets that a remark names


def _read_labels(labels: object) -> Labels:
    labels = require_result(labels, "labels")
    values = [_read_label(label) for label in labels] if isinstance(labels, list | tuple) else [None]
    if None in values:
        allowed = (
            f"Return a list with one of {', '.join(SUPPORT_LABELS)} (or 1, 0.5, 0) for each nugget, or None."
        )
        raise invalid_result(labels, allowed)
    return tuple(value for value in values if value is not None)


def _read_label(label: object) -> float | None:
    number = SUPPORT_LABELS.get(label) if isinstance(label, str) else as_share(label)
    return number if number in SUPPORT_LABELS.values() else None


def _wrong_number(labels: Labels, nuggets: Sequence[str], _text: str) -> str:
    if len(labels) == len(nuggets):
        return ""
    return f"{counted(len(labels), 'label')} for {counted(len(nuggets), 'nugget')}"


SUPPORT: Final[JudgeTask[Labels]] = JudgeTask(
    name="support",
    template="nugget_support",
    texts=("question", "nuggets*", "text"),
    parse=parse_support,
    vote=lambda votes: tuple(map(median_low, zip(*votes, strict=True))),
    read=_read_labels,
    call="support(question, nuggets, passage), which the scores nuggets.* and answer.nuggets need",
    returns='"support", "partial_support" or "not_support" for each nugget',
    decides="Which nuggets a text supports",
    instead="leave out the scores nuggets.* and answer.nuggets",
    problem=_wrong_number,
)
"""How much of each nugget a passage or an answer supports: all (1), a part (0.5), or nothing or a contradiction (0)."""


@each_example
async def evaluate_passages(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Unscored: an example without nuggets; an example with a passage for which the judge gave no readable labels."""
    vital = resolved.part == "vital"
    _check_nuggets(example, vital=vital)
    ranking = await pipeline.ranking_with_texts(example, resolved.k)
    labels = await _label_texts(pipeline, example, texts_of(ranking))
    best = best_labels(labels, len(example.nuggets))
    scored = _vital_labels(example, best) if vital else best
    return strict(scored), _evidence(example, best, ranking, labels, vital=vital)


@each_example
async def evaluate_ndcg(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    _check_nuggets(example)
    ranking = await pipeline.ranking_with_texts(example, resolved.k)
    found = GoldMatch(ranking, example.relevant, pipeline.match_share).found
    missed = [gold.text for gold, is_found in zip(example.relevant, found, strict=True) if not is_found]
    texts = [*texts_of(ranking), *(text for text in missed if text is not None)]
    # All texts are labelled at once, so that a plan counts the requests for all of them.
    all_labels = await _label_texts(pipeline, example, texts)
    labels, missed_labels = all_labels[: len(ranking)], all_labels[len(ranking) :]
    value = alpha_ndcg(labels, missed_labels, resolved.k, names=texts)
    return value, _evidence(example, best_labels(labels, len(example.nuggets)), ranking, labels)


@each_example
async def evaluate_answer(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """The other scores of AutoNuggetizer are reported with it. An abstention supports no nugget."""
    # Checked before the first request, so that an example that cannot be scored costs nothing.
    _check_nuggets(example, vital=True)
    answer = await pipeline.long_answer(example, resolved.k)
    ranking = await pipeline.ranking(example, resolved.k)
    labels: Labels = (0.0,) * len(example.nuggets)
    if not abstains(answer):
        [labels] = await _label_texts(pipeline, example, [answer])
    vital = _vital_labels(example, labels)
    others = {"all_strict": strict(labels), "vital": lenient(vital), "all": lenient(labels)}
    remark = _remark(example, labels, vital=True)
    return strict(vital), Evidence(ranking, answer, beside=others, remark=remark)


async def _label_texts(pipeline: Pipeline, example: Example, texts: Sequence[str]) -> list[Labels]:
    nuggets = [nugget.text for nugget in example.nuggets]
    return await gather_all(pipeline.ask(SUPPORT, example.full_question, nuggets, text) for text in texts)


def _check_nuggets(example: Example, *, vital: bool = False) -> None:
    if not example.nuggets:
        raise NoGroundTruth("no nuggets")
    if vital and not any(nugget.vital for nugget in example.nuggets):
        raise Undefined("none of its nuggets is vital")


def _vital_labels(example: Example, labels: Labels) -> list[float]:
    return [label for nugget, label in zip(example.nuggets, labels, strict=True) if nugget.vital]


def _evidence(
    example: Example, best: Labels, ranking: Ranking, labels: Sequence[Labels], *, vital: bool = False
) -> Evidence:
    scored_labels = [_vital_labels(example, of_passage) for of_passage in labels] if vital else labels
    shares = tuple(map(strict, scored_labels))
    return Evidence(ranking, labels=shares, remark=_remark(example, best, vital=vital))


def _remark(example: Example, labels: Labels, *, vital: bool) -> str:
    """Return a text that names the unsupported nuggets, vital ones first; with `vital` only vital ones."""
    unsupported = [
        (not nugget.vital, f"{excerpt(nugget.text)}{' (in part)' if label == PARTIAL_SUPPORT else ''}")
        for nugget, label in zip(example.nuggets, labels, strict=True)
        if label < 1 and (nugget.vital or not vital)
    ]
    if not unsupported:
        return ""
    texts = [text for _, text in sorted(unsupported, key=lambda item: item[0])]
    return f"{counted(len(texts), 'nugget')} not supported: {join_counted(texts, MAX_NAMED_NUGGETS)}"


def best_labels(passages: Sequence[Labels], n: int) -> tuple[float, ...]:
    """Return for each of n nuggets the highest label over the passages; 0 if there are no passages.

    Two passages that each support a part of a nugget do not make the nugget supported.

    >>> best_labels([(1.0, 0.0, 0.5), (0.0, 0.0, 0.5)], 3)
    (1.0, 0.0, 0.5)
    """
    return tuple(max((labels[i] for labels in passages), default=0.0) for i in range(n))


def strict(labels: Labels) -> float:
    return sum(label >= SUPPORTED for label in labels) / len(labels)


def lenient(labels: Labels) -> float:
    """Return the mean label of nuggets, so that a part of a nugget counts half."""
    return fsum(labels) / len(labels)


def alpha_ndcg(
    ranking: Sequence[Labels],
    missed: Sequence[Labels],
    k: int,
    alpha: float = ALPHA,
    *,
    names: Sequence[str] = (),
) -> float:
    """Return alpha-nDCG@k, from 0 to 1; 0 if no passage supports a nugget.

    `α-DCG@k = Σ_{r≤k} Σ_i s(r, i) · (1 - α)^c(r, i) / log2(r + 1)`, where s(r, i) is 1 if the passage at rank r
    supports nugget i, else 0, and c(r, i) is the number of passages before rank r that support it. It is divided by the
    α-DCG@k of the ideal ranking. The ideal ranking is built greedily, as in Clarke et al. and ndeval: the next passage
    is the one with the highest gain; of passages with equal gain, the one with the highest name, so that the ideal
    ranking does not depend on the order of the ranking under test. An optimal ranking is NP-hard to find. The greedy
    ranking may have a slightly lower α-DCG than the given one; the value is then 1.

    The labels of `missed` passages, which were not retrieved, are used in the ideal ranking only. `names` are those of
    the retrieved and the missed passages; without names the first of equal passages counts.

    >>> alpha_ndcg([(1, 0), (1, 0), (0, 1)], [], 3)
    0.9651954696014428
    """
    pool = [*ranking, *missed]
    if names:
        places = sorted(range(len(pool)), key=lambda place: names[place], reverse=True)
        pool = [pool[place] for place in places]
    best = _dcg(_ideal(pool, k, alpha), alpha)
    return min(_dcg(ranking[:k], alpha) / best, 1.0) if best else 0.0


def _dcg(passages: Sequence[Labels], alpha: float) -> float:
    gains = []
    weights: dict[int, float] = {}
    for rank, labels in enumerate(passages, 1):
        gains.append(_gain(labels, weights) / log2(rank + 1))
        _lower_weights(labels, weights, alpha)
    return fsum(gains)


def _ideal(pool: list[Labels], k: int, alpha: float) -> list[Labels]:
    weights: dict[int, float] = {}
    chosen: list[Labels] = []
    while pool and len(chosen) < k:
        gains = [_gain(labels, weights) for labels in pool]
        chosen.append(pool.pop(gains.index(max(gains))))
        _lower_weights(chosen[-1], weights, alpha)
    return chosen


def _gain(labels: Labels, weights: dict[int, float]) -> float:
    """Return the sum of the weights of the nuggets that a passage supports; by default a weight is 1."""
    return sum(weights.get(i, 1.0) for i, label in enumerate(labels) if label >= SUPPORTED)


def _lower_weights(labels: Labels, weights: dict[int, float], alpha: float) -> None:
    for i, label in enumerate(labels):
        if label >= SUPPORTED:
            weights[i] = weights.get(i, 1.0) * (1 - alpha)


FAMILY: Final = Family(
    "Nuggets",
    __doc__,
    requests="1 list of labels for each retrieved passage, kept by question, nuggets and passage; for `answer.nuggets` "
    "1 long answer and 1 list of labels",
    source="Pradeep et al. (2024), arXiv 2411.09607, and (2025), arXiv 2504.15068, section 4 (AutoNuggetizer); "
    "coverage and alpha-nDCG of passages: Ju et al. (2025), arXiv 2506.20051, section 3.3 (CRUX); alpha-nDCG: Clarke "
    "et al. (2008), with the values of NIST's ndeval. The prompts are our own.",
    example=WorkedExample(
        text="Three nuggets, of which the last is not vital. The retriever returns `x`, `y`, `z`. The judge finds the "
        "first nugget in `x` and in `y`, and the third in `z`, with a part of the second. The answer states the first, "
        "and a part of the second.",
        k=3,
        record={
            "question": "How do I return a tablet?",
            "nuggets": [
                "Within 40 days",
                "Complete, in its box",
                {"text": "The label is in the account", "vital": False},
            ],
        },
        retrieved=("x", "y", "z"),
        says={"x y z": "Within 40 days, in its box."},
        judge={
            "support": {
                "Passage x.": ["support", "not_support", "not_support"],
                "Passage y.": ["support", "not_support", "not_support"],
                "Passage z.": ["not_support", "partial_support", "support"],
                "Within 40 days, in its box.": ["support", "partial_support", "not_support"],
            }
        },
    ),
)

SCORES: Final = tuple(
    ScoreDef(
        name,
        evaluate,
        {SUPPORT, *generates},
        definition=definition,
        worked=worked,
        needs=(NUGGETS,),
    )
    for name, evaluate, generates, definition, worked in (
        (
            "nuggets.coverage",
            evaluate_passages,
            (),
            "The share of the nuggets that at least one of the first k supports, according to the judge.",
            (2 / 3, "2 of 3 nuggets"),
        ),
        (
            "nuggets.vital",
            evaluate_passages,
            (),
            "The share of the vital nuggets that at least one of the first k supports, according to the judge.",
            (0.5, "1 of 2 vital nuggets"),
        ),
        (
            "nuggets.ndcg",
            evaluate_ndcg,
            (),
            "alpha-nDCG with the nuggets as subtopics: a nugget counts half as much with each passage that repeats it.",
            (
                0.9652,
                (
                    "the first nugget counts ½ in `y`; the ideal order is `x`, `z`, `y`: "
                    "(1 + ½ / log₂ 3 + 1 / log₂ 4) / (1 + 1 / log₂ 3 + ½ / log₂ 4) = 1.815 / 1.881"
                ),
            ),
        ),
        (
            "answer.nuggets",
            evaluate_answer,
            ("explain",),
            "The share of the vital nuggets that the judge finds in the long answer: AutoNuggetizer's vital strict.",
            (0.5, "1 of 2 vital nuggets; `all_strict` is ⅓, `vital` ¾ and `all` ½"),
        ),
    )
)
