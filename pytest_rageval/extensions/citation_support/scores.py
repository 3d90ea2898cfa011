"""Do the passages that the answer cites support what it states?

The generator lists what it finds in the first k passages, with citations such as `[1][3]`, as for `rel_recall`, whose
answers are shared. The answer is taken apart into statements: its sentences, and the items of a list, which end where
a comma, a semicolon or "and" follows a citation. The judge says of each statement how far each passage that it cites
supports it: full support counts 1, partial support ½, and no support, or a contradiction, 0. All statements that cite a
passage are judged in one request, with the prompt for [nuggets](eval-sets.md#nuggets) and by the method `support` of
your own judge.

`support.precision` is the mean over the citations; a citation of a passage that does not exist counts 0.
`support.recall` is the mean over the statements, each by the passage that supports it best; a statement without a
citation counts 0. Two passages that each support a part do not support the whole. Below the score is the same value by
the first passage that each statement cites, alone. An answer that cites nothing has no precision, and an abstention has
neither: bound `support.recall` as well, and `answer.correct`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.citations import Citations
from pytest_rageval.core.data import Example, Ranking, excerpt
from pytest_rageval.core.errors import Undefined, is_placeholder
from pytest_rageval.core.gathering import gather_all
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.extensions.citation_support.statements import Statement, statements
from pytest_rageval.lib.text import join_first
from pytest_rageval.scores.definition import Family, Scored, ScoreDef, WorkedExample, each_example
from pytest_rageval.scores.nuggets import SUPPORT
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore

MAX_NAMED: Final = 5  # statements of one kind in a remark
FIRST: Final = "first citations"  # the companion by the first citation of each statement alone

SUPPORT_OF_STATEMENTS: Final = replace(
    SUPPORT,
    call="support(question, statements, passage), which the scores support.* need",
    returns='"support", "partial_support" or "not_support" for each statement',
    decides="Which statements a cited passage supports",
    instead="leave out the scores support.*",
)
"""How far a cited passage supports each statement: the task of nuggets, and so with the same requests."""


Labels = Sequence[Sequence[float]]
"""For each statement the labels of its citations, those of passages that do not exist last."""


async def _assess(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> tuple[Labels, Evidence]:
    """Unscored: an example without an answer; with a cited passage for which the judge gave no readable labels."""
    ranking = await pipeline.prompt_ranking(example, resolved.k, resolved.order)
    answer = await pipeline.cited_answer(example, resolved.k, resolved.order)
    if is_placeholder(answer):
        # A plan does not know the answer: it may cite every passage.
        found: Sequence[Statement] = [Statement(answer, Citations(tuple(range(1, len(ranking) + 1)), ()))]
    else:
        found = () if abstains(answer) else statements(answer, len(ranking))
    if not found:
        raise Undefined("the answer states nothing")
    by_citation = await _labels_by_citation(pipeline, example, ranking, found)
    labels = [
        [
            *(by_citation[number, position] for position in statement.citations.positions),
            *(0.0 for _ in statement.citations.hallucinated),
        ]
        for number, statement in enumerate(found)
    ]
    counts = {
        "statements_without_citation": sum(not each for each in labels),
        "hallucinated_citations": sum(len(each.citations.hallucinated) for each in found),
    }
    return labels, Evidence(ranking, answer, counts=counts, remark=_remark(found, labels))


async def _labels_by_citation(
    pipeline: Pipeline, example: Example, ranking: Ranking, found: Sequence[Statement]
) -> Mapping[tuple[int, int], float]:
    """Return the label of each citation by the number of its statement and the position of its passage."""

    async def label(position: int, text: str) -> dict[tuple[int, int], float]:
        citing = [number for number, each in enumerate(found) if position in each.citations.positions]
        if not citing:
            return {}
        labels = await pipeline.ask(
            SUPPORT_OF_STATEMENTS, example.full_question, [found[number].text for number in citing], text
        )
        return {(number, position): value for number, value in zip(citing, labels, strict=True)}

    labelled = await gather_all(label(position, each.text) for position, each in enumerate(ranking, 1))
    return {citation: value for labels in labelled for citation, value in labels.items()}


@each_example
async def evaluate_precision(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Undefined: an answer without a citation."""
    labels, evidence = await _assess(pipeline, example, resolved)
    cited = list(filter(None, labels))
    if not cited:
        raise Undefined("nothing was cited")
    value = fmean(value for each in cited for value in each)
    return value, replace(evidence, beside={FIRST: fmean(each[0] for each in cited)})


@each_example
async def evaluate_recall(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Undefined: an abstention."""
    labels, evidence = await _assess(pipeline, example, resolved)
    value = fmean(max(each, default=0.0) for each in labels)
    return value, replace(evidence, beside={FIRST: fmean(each[0] if each else 0.0 for each in labels)})


def _remark(found: Sequence[Statement], labels: Labels) -> str:
    """Return a text that names the statements that no cited passage supports in full."""
    kinds: dict[str, list[str]] = {"cites nothing": [], "not supported": [], "supported in part": []}
    for statement, values in zip(found, labels, strict=True):
        best = max(values, default=None)
        if best is None or best < 1:
            kind = "cites nothing" if best is None else "supported in part" if best else "not supported"
            kinds[kind].append(excerpt(statement.text))
    return "; ".join(f"{kind}: {join_first(texts, MAX_NAMED)}" for kind, texts in kinds.items() if texts)


FAMILY: Final = Family(
    "Support of citations",
    __doc__,
    requests="1 answer, shared with `rel_recall` and `rel`; and 1 list of labels for each passage that it cites, kept "
    "by question, statements and passage. A plan counts one for each retrieved passage",
    source="Thakur et al. (2025), arXiv 2504.15205: weighted precision and weighted recall of the support assessment "
    "in the TREC 2024 RAG Track, with its weights. The prompts, the items of lists, and the best of several citations "
    "are our own.",
    example=WorkedExample(
        text="The answer has three sentences. The first cites `x`, which supports it, and `y`, which supports a part "
        "of it; the second cites `z`, which supports a part of it; the third cites nothing.",
        k=3,
        record={"question": "What is the company?"},
        retrieved=("x", "y", "z"),
        says={"x y z": "It makes pumps in Tulsa [1][2]. Orr founded it in 1931 [3]. It is well known."},
        judge={
            "support": {
                "Passage x.": ["support"],
                "Passage y.": ["partial_support"],
                "Passage z.": ["partial_support"],
            }
        },
    ),
)

SCORES: Final = tuple(
    ScoreDef(
        f"support.{part}",
        evaluate,
        {"cite", SUPPORT_OF_STATEMENTS},
        family=FAMILY,
        definition=definition,
        worked=worked,
    )
    for part, evaluate, definition, worked in (
        (
            "precision",
            evaluate_precision,
            "The mean support of the citations: full 1, partial ½, none 0.",
            (2 / 3, "(1 + ½ + ½) / 3; by the first citations (1 + ½) / 2 = ¾"),
        ),
        (
            "recall",
            evaluate_recall,
            "The mean, over the statements, of the best support by a passage that the statement cites.",
            (0.5, "(1 + ½ + 0) / 3"),
        ),
    )
)
