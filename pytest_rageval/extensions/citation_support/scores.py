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

ALCE judges all passages that a statement cites as one text, and only full support counts. `support.alce_recall` is the
share of the statements that they support; one that also cites a passage that does not exist is not supported.
`support.alce_precision` is the share of the citations that are needed: their statement is supported, and the passage
supports it alone, or the others do not support it without this passage.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import fmean
from typing import Final, NamedTuple

from pytest_rageval.answers.abstention import abstains
from pytest_rageval.answers.citations import Citations, parse_citations, without_citations
from pytest_rageval.calls.gathering import gather_all
from pytest_rageval.core.errors import Undefined
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence
from pytest_rageval.core.ranking import Ranking, excerpt
from pytest_rageval.lib.text import join_first
from pytest_rageval.models.messages import is_placeholder
from pytest_rageval.scores.definition import Family, Scored, ScoreDef, WorkedExample, each_example
from pytest_rageval.scores.nuggets import SUPPORT, SUPPORTED
from pytest_rageval.scores.pipeline import Pipeline, ResolvedScore

END: Final = re.compile(
    r"""
    \n+
    # The end of a sentence, perhaps with citations after it. A sentence does not begin with a small letter.
    | [.!?]["'”’)]* (?:\s*[\[【][^\[\]【】\n]*[\]】])* \s+ (?=[^\sa-z\[【])
    | [。！？] (?:\s*[\[【][^\[\]【】\n]*[\]】])*
    # What separates items, after a citation.
    | (?<=[\]】]) \s* (?:[,;、，；](?:\s+and\b)? | \band\b)
    """,
    re.VERBOSE,
)
NO_END: Final = re.compile(
    r"(?:\b(?:[A-Za-z]|Dr|Mr|Mrs|Ms|Prof|St|No|vs|approx|e\.g|i\.e|cf)|(?:^|\n)\s*\d{1,3})\Z"
)
"""What a point after it does not end: an initial, an abbreviation, or the number of an item."""
LONGEST: Final = 16  # characters before a point that are searched for them

BULLET: Final = re.compile(r"\A\s*(?:[-*•–]|\d{1,3}[.)])\s+")
SEPARATOR: Final = re.compile(r"[\s,;、，；]*(?<!\w)(?:and)?\s*\Z")


class Statement(NamedTuple):
    """A sentence or an item of a list, without its citations, and these."""

    text: str
    citations: Citations

    @property
    def cites_nothing(self) -> bool:
        return not (self.citations.positions or self.citations.hallucinated)


def statements(answer: str, passages: int) -> tuple[Statement, ...]:
    """Return the statements of an answer; `passages` is the number of passages in the prompt.

    A statement ends at the end of a sentence or a line, and after a citation that a comma, a semicolon or "and"
    follows. Citations after the point are those of the sentence before it. Text without a letter or a digit is no
    statement.

    >>> [(text, cited.positions) for text, cited in statements("Built in 1931 [1], by Dr. Orr. [2][3] It is red.", 3)]
    [('Built in 1931', (1,)), ('by Dr. Orr.', (2, 3)), ('It is red.', ())]
    """
    pieces, start = [], 0
    for end in END.finditer(answer):
        before = answer[max(start, end.start() - LONGEST) : end.start()]
        if not (end[0].startswith(".") and NO_END.search(before)):
            pieces.append(answer[start : end.end()])
            start = end.end()
    found = []
    for piece in (*pieces, answer[start:]):
        text = SEPARATOR.sub("", BULLET.sub("", without_citations(piece)))
        if any(map(str.isalnum, text)):
            found.append(Statement(text, parse_citations(piece, passages)))
    return tuple(found)


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
"""For each statement the values of its citations, those of passages that do not exist last."""

Pair = tuple[int, tuple[int, ...]]
"""The number of a statement, from 0, and the positions of passages that it cites, from 1, as one text."""


class Cited(NamedTuple):
    """An answer with citations, its statements, and the passages of the prompt."""

    ranking: Ranking
    answer: str
    statements: Sequence[Statement]

    @classmethod
    async def of(cls, pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> "Cited":
        ranking = await pipeline.prompt_ranking(example, resolved.k, resolved.order)
        answer = await pipeline.cited_answer(example, resolved.k, resolved.order)
        if is_placeholder(answer):
            # A plan does not know the answer: it may cite every passage.
            positions = tuple(range(1, len(ranking) + 1))
            return cls(ranking, answer, [Statement(answer, Citations(positions, ()))])
        found = () if abstains(answer) else statements(answer, len(ranking))
        if not found:
            raise Undefined("the answer states nothing")
        return cls(ranking, answer, found)

    @property
    def pairs(self) -> list[Pair]:
        """Each statement with each passage that it cites alone."""
        return [(n, (at,)) for n, each in enumerate(self.statements) for at in each.citations.positions]

    def values(self, value: Callable[[int, int], float]) -> Labels:
        """Return the values of citations, by the number of the statement and the position of the passage."""
        return [
            [*(value(n, at) for at in each.citations.positions), *(0.0 for _ in each.citations.hallucinated)]
            for n, each in enumerate(self.statements)
        ]

    async def labels(
        self, pipeline: Pipeline, example: Example, pairs: Sequence[Pair]
    ) -> Mapping[Pair, float]:
        """Return the judge's label of each pair. All statements that cite the same are judged in one request."""
        by_passages: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, positions in pairs:
            by_passages[positions].append(number)

        async def label(positions: tuple[int, ...]) -> Iterable[tuple[Pair, float]]:
            numbers = by_passages[positions]
            texts = [self.statements[number].text for number in numbers]
            passages = "\n".join(self.ranking[at - 1].text for at in positions)
            labels = await pipeline.ask(SUPPORT_OF_STATEMENTS, example.full_question, texts, passages)
            return zip([(number, positions) for number in numbers], labels, strict=True)

        return dict(chain.from_iterable(await gather_all(map(label, by_passages))))

    def evidence(self, remark: str = "") -> Evidence:
        counts = {
            "statements_without_citation": sum(each.cites_nothing for each in self.statements),
            "hallucinated_citations": sum(len(each.citations.hallucinated) for each in self.statements),
        }
        return Evidence(self.ranking, self.answer, counts=counts, remark=remark)


async def _assess(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> tuple[Labels, Evidence]:
    """Unscored: an example without an answer; with a cited passage for which the judge gave no readable labels."""
    cited = await Cited.of(pipeline, example, resolved)
    known = await cited.labels(pipeline, example, cited.pairs)
    labels = cited.values(lambda number, at: known[number, (at,)])
    return labels, cited.evidence(_remark(cited.statements, labels))


@each_example
async def evaluate_precision(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Undefined: an answer without a citation."""
    labels, evidence = await _assess(pipeline, example, resolved)
    value = _mean_of_citations(labels)
    return value, replace(evidence, beside={FIRST: fmean(each[0] for each in labels if each)})


@each_example
async def evaluate_recall(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Undefined: an abstention."""
    labels, evidence = await _assess(pipeline, example, resolved)
    value = fmean(max(each, default=0.0) for each in labels)
    return value, replace(evidence, beside={FIRST: fmean(each[0] if each else 0.0 for each in labels)})


def _mean_of_citations(values: Labels) -> float:
    if not any(values):
        raise Undefined("nothing was cited")
    return fmean(chain.from_iterable(values))


@each_example
async def evaluate_alce_recall(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Undefined: an abstention."""
    cited = await Cited.of(pipeline, example, resolved)
    labels = await cited.labels(pipeline, example, list(_whole(cited).values()))
    return len(_supported(cited, labels)) / len(cited.statements), cited.evidence()


@each_example
async def evaluate_alce_precision(pipeline: Pipeline, example: Example, resolved: ResolvedScore) -> Scored:
    """Undefined: an answer without a citation."""
    cited = await Cited.of(pipeline, example, resolved)
    whole = _whole(cited)
    asked = dict.fromkeys([*cited.pairs, *whole.values()])
    if is_placeholder(cited.answer):
        # A plan counts the requests that may be needed.
        asked |= dict.fromkeys(rest for pair in whole.values() for rest in _rests(pair).values())
    labels = {**await cited.labels(pipeline, example, list(asked))}
    supported = _supported(cited, labels)
    doubtful = {
        (number, at): rest
        for number in supported
        for at, rest in _rests(whole[number]).items()
        if labels[number, (at,)] < SUPPORTED
    }
    labels |= await cited.labels(pipeline, example, sorted({*doubtful.values()} - labels.keys()))
    in_vain = {citation for citation, rest in doubtful.items() if labels[rest] >= SUPPORTED}
    values = cited.values(lambda number, at: number in supported and (number, at) not in in_vain)
    return _mean_of_citations(values), cited.evidence()


def _whole(cited: Cited) -> dict[int, Pair]:
    """Return each statement that cites passages, by number, with all of these."""
    numbered = enumerate(each.citations.positions for each in cited.statements)
    return {number: (number, tuple(sorted(positions))) for number, positions in numbered if positions}


def _supported(cited: Cited, labels: Mapping[Pair, float]) -> set[int]:
    """Return the numbers of the statements that their passages together support, without one that does not exist."""
    return {
        number
        for number, pair in _whole(cited).items()
        if labels[pair] >= SUPPORTED and not cited.statements[number].citations.hallucinated
    }


def _rests(pair: Pair) -> dict[int, Pair]:
    """Return, for each of several passages, the statement with the others."""
    number, positions = pair
    if len(positions) == 1:
        return {}
    return {at: (number, tuple(other for other in positions if other != at)) for at in positions}


def _remark(found: Sequence[Statement], labels: Labels) -> str:
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
    "by question, statements and passage; `support.alce_recall` 1 for all of them instead; `support.alce_precision` "
    "both, and up to 1 for all but each. A plan takes each retrieved passage for cited",
    source="Thakur et al. (2025), arXiv 2504.15205: weighted precision and weighted recall of the support assessment "
    "in the TREC 2024 RAG Track, with its weights. ALCE: Gao et al. (2023), arXiv 2305.14627. The prompts, the items "
    "of lists, and the best of several citations are our own.",
    example=WorkedExample(
        text="The answer has three sentences. The first cites `x`, which supports it, and `y`, which supports a part "
        "of it; both together support it. The second cites `z`, which supports a part of it. The third cites nothing.",
        k=3,
        record={"question": "What is the company?"},
        retrieved=("x", "y", "z"),
        says={"x y z": "It makes pumps in Tulsa [1][2]. Orr founded it in 1931 [3]. It is well known."},
        judge={
            "support": {
                "Passage x.": ["support"],
                "Passage x.\nPassage y.": ["support"],
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
        (
            "alce_precision",
            evaluate_alce_precision,
            "The share of the citations that are needed for full support.",
            (1 / 3, "`x`; the first sentence has full support without `y`"),
        ),
        (
            "alce_recall",
            evaluate_alce_recall,
            "The share of the statements that all passages that they cite support in full, taken together.",
            (1 / 3, "the first sentence"),
        ),
    )
)
