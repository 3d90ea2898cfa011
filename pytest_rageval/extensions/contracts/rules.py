"""Reads the field `negatives`: passages, and rules on the metadata of documents."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pytest_rageval.core.errors import InputError, UnusableRanking, did_you_mean
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.ranking import Document
from pytest_rageval.evalsets.records import Check, parse_passage
from pytest_rageval.lib.foreign_values import id_key, to_plain
from pytest_rageval.retrievers.fields import value_at

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
    """Refuse what is no list of negatives."""
    for i, item in enumerate(check.array(value, *keys)):
        _parse(check.mapping(item, *keys, i, remedy=REMEDY), check, *keys, i)


def negatives_of(example: Example) -> list[Negative]:
    """Return the negatives of an example.

    Raises:
        InputError: one of them is a gold passage too.
    """
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


def fields_of(negatives: Iterable[Negative]) -> set[str]:
    """Return the fields of metadata that rules read."""
    return {field for negative in negatives for field in negative.rule}


def has_field(document: Document, field: str) -> bool:
    """Return True if the metadata of a document have a field, whatever its value."""
    return field in document.metadata or value_at(document.metadata, field) is not None


def violation(rule: Mapping[str, object], document: Document, example: Example) -> str:
    """Return how a document fulfils all conditions of a rule, such as "tenant is 'globex'"; empty if it does not.

    Raises:
        InputError: a placeholder of the rule has no value.
        UnusableRanking: the document lacks a field that must have another value, or has one that cannot be compared.
    """
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
    """Return the value of a condition with its placeholders filled in; a placeholder alone becomes its value."""
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
