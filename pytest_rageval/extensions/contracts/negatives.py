"""Is there something among the first k that must not be?

Outdated versions, look-alikes of another product, other tenants' and confidential documents: scores of relevance hardly
move when one appears. The `negatives` of a question name them: a passage by `id`, `text` or span, or a rule on the
`metadata` of documents; see [What must not be retrieved](../how-to/must-not.md). A passage by text counts where all its
words are, in runs of at least eight, so that the new version of a page is not taken for the old one. `leak` looks at
rules alone. With `max=0` one document is enough to fail. Questions without negatives are undefined.

A document without the field that a rule with `not` reads cannot be judged: bounds count its question with the worst
value. If no retrieved document has the field of a rule, the score is an error.
"""

from collections.abc import Sequence
from math import inf
from typing import Final

from pytest_rageval.core.errors import InputError, Undefined, UnusableRanking
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.extensions.contracts.rules import (
    NEGATIVES,
    Negative,
    fields_of,
    first_violation,
    has_field,
    negatives_of,
)
from pytest_rageval.scores.definition import GOLD, Family, ScoreDef, WorkedExample, score_with_progress
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.scores.pipeline import Evaluation, Pipeline, ResolvedScore
from pytest_rageval.scores.ranking import match_ranking

WHOLE: Final = 1.0  # share of a negative's text that must be retrieved


def find(
    ranking: Ranking, example: Example, negatives: Sequence[Negative], share: float
) -> tuple[list[tuple[int, str]], UnusableRanking | None]:
    """Return the first rank of each negative that is in a ranking, with a text for the report, in the order of ranks.

    And why others may be there: no document can be compared with a negative, or one lacks a field of a rule.
    """
    hits, unknown = [], None
    for negative in negatives:
        passage = negative.passage
        if passage is None:
            hit, why_unknown = first_violation(negative, ranking, example)
            hits += [hit] if hit else []
            unknown = unknown or why_unknown
            continue
        match = GoldMatch(ranking, [passage], WHOLE if passage.text and not passage.id else share)
        if match.incomparable:
            unknown = unknown or UnusableRanking(
                f"no retrieved document has what the negative {passage.label} is found by"
            )
        if (rank := match.ranks[0]) is not None:
            hits.append((rank, f"{passage.label} at rank {rank}{f': {negative.why}' * bool(negative.why)}"))
    return sorted(hits), unknown


def _first_gold(ranking: Ranking, example: Example, share: float) -> float:
    """Return the rank of the first gold passage; infinity if none was found."""
    if not example.relevant:
        raise Undefined("no gold passages")
    return min((rank for rank in match_ranking(ranking, example, share).ranks if rank), default=inf)


def _evaluation(*, above_gold: bool = False, rules_alone: bool = False) -> Evaluation:
    """Return the evaluation of a score that is 1 where a negative is found, with the conditions of its arguments."""
    what = "rules in its negatives" if rules_alone else NEGATIVES

    async def evaluate(
        pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
    ) -> list[Outcome]:
        wanted: set[str] = set()
        seen: set[str] = set()

        async def score(example: Example) -> tuple[float, Evidence]:
            negatives = [each for each in negatives_of(example) if each.rule or not rules_alone]
            if not negatives:
                raise Undefined(f"no {what}")
            ranking = await pipeline.ranking(example, resolved.k)
            fields = fields_of(negatives) if len(ranking) else set()
            wanted.update(fields)
            seen.update(field for field in fields if any(has_field(each, field) for each in ranking))
            hits, unknown = find(ranking, example, negatives, pipeline.match_share)
            if above_gold:
                first = _first_gold(ranking, example, pipeline.match_share)
                # The old version of a gold passage is found by text as that passage too.
                hits = [hit for hit in hits if hit[0] <= first]
            # What is there for certain is found, whatever cannot be judged.
            if unknown and not hits:
                raise unknown
            return float(bool(hits)), Evidence(ranking, remark="; ".join(text for _, text in hits))

        outcomes = await score_with_progress(pipeline, examples, score)
        if unseen := sorted(wanted - seen):
            raise InputError(
                f"{resolved.spec}: no retrieved document has {', '.join(unseen)} in its metadata, so that a rule of "
                f"{NEGATIVES} finds nothing.\n"
                "Return the field with the documents; null where a document has no value."
            )
        return outcomes

    return evaluate


FAMILY: Final = Family(
    "What must not be retrieved",
    __doc__,
    requests="none",
    source="our own.",
    example=WorkedExample(
        text="The gold passage is `a`; `c` is its outdated version, and only documents of the tenant `acme` are "
        "allowed. The retriever returns `c`, `a`, `d`; `d` is of the tenant `globex`.",
        k=3,
        record={
            "question": "Where is the company based?",
            "gold": [{"id": "a"}],
            "metadata": {"tenant": "acme"},
            "negatives": [{"id": "c", "why": "outdated"}, {"metadata": {"tenant": {"not": "{tenant}"}}}],
        },
        retrieved=("c", "a", "d"),
        metadata={"a": {"tenant": "acme"}, "c": {"tenant": "acme"}, "d": {"tenant": "globex"}},
    ),
)


def _score(name: str, evaluate: Evaluation, definition: str, worked: str, *needs: str) -> ScoreDef:
    return ScoreDef(
        name,
        evaluate,
        family=FAMILY,
        definition=definition,
        worked=(1.0, worked),
        needs=(NEGATIVES, *needs),
        is_cost=True,
    )


SCORES: Final = (
    _score(
        "negatives.hit",
        _evaluation(),
        "1 if any of the first k is a negative, else 0.",
        "`c` and `d` are there",
    ),
    _score(
        "negatives.above_gold",
        _evaluation(above_gold=True),
        "1 if a negative is among the first k and not below the first gold passage, else 0.",
        "`c` is above `a`",
        GOLD,
    ),
    _score(
        "leak",
        _evaluation(rules_alone=True),
        "1 if a rule forbids any of the first k, else 0.",
        "`d` is there",
    ),
)
