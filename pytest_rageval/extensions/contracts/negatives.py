"""Is there something among the first k that must not be?

Outdated versions, look-alikes of another product, other tenants' and confidential documents: scores of relevance hardly
move when one appears. The `negatives` of a question name them: a passage by `id`, `text` or span, or a rule on the
`metadata` of documents; see [What must not be retrieved](../how-to/must-not.md). A passage by text counts where all its
words are, in runs of at least eight, so that the new version of a page is not taken for the old one. `leak` looks at
rules alone. With `max=0` one document is enough to fail. Questions without negatives are undefined.

A document without the field that a rule with `not` reads cannot be judged: bounds count its question with the worst
value. If no retrieved document has the field of a rule, the score is an error.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from typing import Any, Final

from pytest_rageval.core.errors import InputError, Undefined, UnusableRanking, did_you_mean
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Evidence, Outcome
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.evalsets.records import Check, parse_passage
from pytest_rageval.lib.foreign_values import id_key, to_plain
from pytest_rageval.retrievers.fields import value_at
from pytest_rageval.scores.definition import GOLD, Family, ScoreDef, WorkedExample, score_with_progress
from pytest_rageval.scores.gold_matching import GoldMatch
from pytest_rageval.scores.pipeline import Evaluation, Pipeline, ResolvedScore
from pytest_rageval.scores.ranking import match_ranking

NEGATIVES: Final = "negatives"
KEYS: Final = ("id", "text", "source", "start", "end", "metadata", "why")
OPERATORS: Final = ("not", "before", "after")
CONDITIONS: Final = f"Write a value, a list of values, or one of {', '.join(OPERATORS)}."
PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
TODAY: Final = "today"
REMEDY: Final = (
    'Write {"id": "kb-7"}, {"text": "…"}, a span, or a rule: {"metadata": {"tenant": {"not": "{tenant}"}}}. '
    '"why" may say what is wrong with it.'
)


@dataclass(frozen=True, slots=True)
class Negative:
    """What must not be retrieved: a passage, or what a rule says. `why` is the user's reason, or empty."""

    passage: Gold | None
    rule: Mapping[str, object]
    why: str = ""


def check_negatives(value: object, check: Check, *keys: str | int) -> None:
    for i, item in enumerate(check.array(value, *keys)):
        _parse(check.mapping(item, *keys, i, remedy=REMEDY), check, *keys, i)


def negatives_of(example: Example) -> list[Negative]:
    check = Check(f"example {example.id}")
    items = example.added.get(NEGATIVES, ())
    negatives = [_parse(item, check, NEGATIVES, i) for i, item in enumerate(items)]
    gold = example.gold_id_keys
    for negative in negatives:
        if negative.passage and negative.passage.id is not None and id_key(negative.passage.id) in gold:
            check.fail(
                f"{negative.passage.id} is among its gold and its {NEGATIVES}", "Take one of them out."
            )
    return negatives


def _parse(item: Mapping[Any, Any], check: Check, *keys: str | int) -> Negative:
    if unknown := sorted(str(key)[:40] for key in item if key not in KEYS):
        name = f'"{keys[0]}"[{keys[-1]}]'
        check.fail(
            f"{name} has unknown keys: {', '.join(unknown)}",
            f"Known: {', '.join(KEYS)}.{did_you_mean(unknown[0], KEYS)}",
        )
    why = check.text(item["why"], *keys, "why") if "why" in item else ""
    rule = check.object(item.get("metadata"), *keys, "metadata")
    given = {key: item[key] for key in KEYS[:5] if item.get(key) is not None}
    if bool(rule) == bool(given):
        check.fail(
            f'"{keys[0]}"[{keys[-1]}] is {"both a passage and" if rule else "neither a passage nor"} a rule',
            REMEDY,
        )
    if rule:
        for field, condition in rule.items():
            _check_condition(condition, check, *keys, "metadata", field)
        return Negative(None, rule, why)
    return Negative(parse_passage(given, check, *keys), {}, why)


def _check_condition(condition: object, check: Check, *keys: str | int) -> None:
    for value in condition.values() if isinstance(condition, Mapping) else [condition]:
        if value is None or (isinstance(value, list) and (not value or None in value)):
            check.fail(f"the rule on {keys[-1]} has no value to compare with", CONDITIONS)
    if condition == {}:
        check.fail(f"the rule on {keys[-1]} has no condition", CONDITIONS)
    if not isinstance(condition, Mapping):
        return
    for operator, value in condition.items():
        if operator not in OPERATORS:
            check.fail(
                f'the rule on {keys[-1]} has the operator "{operator}"',
                f"{CONDITIONS}{did_you_mean(str(operator), OPERATORS)}",
            )
        if operator != "not" and not PLACEHOLDER.search(str(value)) and _moment(value) is None:
            check.fail(
                f"the rule on {keys[-1]} has {operator} {value!r}",
                "Give a number or a date such as 2026-01-31.",
            )


def has_field(document: Document, field: str) -> bool:
    return field in document.metadata or value_at(document.metadata, field) is not None


def violation(rule: Mapping[str, object], document: Document, example: Example) -> str:
    """Return how a document fulfils all conditions of a rule, such as "tenant is 'globex'"; "" if not."""
    found = []
    for field, condition in rule.items():
        value = to_plain(value_at(document.metadata, field))
        conditions = condition if isinstance(condition, Mapping) else {"": condition}
        for operator, wanted in conditions.items():
            if value is None and operator == "not":
                raise UnusableRanking(
                    f"a retrieved document has no {field} in its metadata, which a rule reads"
                )
            if value is None or not _holds(field, value, operator, _filled(wanted, example)):
                return ""
        found.append(f"{field} is {value!r}")
    return ", ".join(found)


def _holds(field: str, value: Any, operator: str, wanted: Any) -> bool:
    if operator in {"", "not"}:
        return (not _values(value).isdisjoint(_values(wanted))) == (operator == "")
    own, limit = _moment(value), _moment(wanted)
    if own is None or limit is None or type(own) is not type(limit):
        raise UnusableRanking(
            f"the {field} {value!r} of a retrieved document is not comparable with {wanted!r}"
        )
    return bool(own < limit if operator == "before" else own > limit)  # type: ignore[operator]


def _values(value: Any) -> set[str]:
    """Return the values of a list, or one value, in a form in which 7 and "7" are equal."""
    return {id_key(str(item)) for item in (value if isinstance(value, list | tuple) else [value])}


def _moment(value: object) -> datetime | float | None:
    """Return a number, or a date, whose time is 00:00 and whose zone is UTC by default; None for another value."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _filled(wanted: Any, example: Example) -> Any:
    if not isinstance(wanted, str):
        return [_filled(item, example) for item in wanted] if isinstance(wanted, list) else wanted
    alone = PLACEHOLDER.fullmatch(wanted)
    if alone:
        return _value_of(alone[1], example)
    return PLACEHOLDER.sub(lambda match: str(_value_of(match[1], example)), wanted)


def _value_of(name: str, example: Example) -> Any:
    for holder in (example.metadata, example.filters, example.tags):
        if name in holder:
            return holder[name]
    if name == TODAY:
        return datetime.now(UTC).date().isoformat()
    raise InputError(
        f"A rule of {NEGATIVES} reads {{{name}}}, which the example's metadata, filters and tags lack.\n"
        "Write it into the record, or correct the name in the rule."
    )


def first_violation(
    negative: Negative, documents: Iterable[Document], example: Example
) -> tuple[tuple[int, str] | None, UnusableRanking | None]:
    """Return the rank of the first document that a rule forbids, from 1, with how; and why others cannot be judged."""
    unknown = None
    for rank, document in enumerate(documents, 1):
        try:
            how = violation(negative.rule, document, example)
        except UnusableRanking as error:
            unknown = unknown or error
            continue
        if how:
            return (rank, f"{document.label} at rank {rank}: {negative.why or how}"), unknown
    return None, unknown


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
    if not example.relevant:
        raise Undefined("no gold passages")
    return min((rank for rank in match_ranking(ranking, example, share).ranks if rank), default=inf)


def _evaluation(*, above_gold: bool = False, rules_alone: bool = False) -> Evaluation:
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
            fields = {field for negative in negatives for field in negative.rule if len(ranking)}
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
