"""`Policy`: how the bounds of a threshold are decided: what must be shown, and how sure the gate must be."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from pytest_rageval.core.errors import did_you_mean

DEFAULT: Final = "pr"

SMALL_SET: Final = 100
"""With fewer questions, a score without models may be red for a drop that is not significant."""

NOTABLE_DESIGN_EFFECT: Final = 1.2
"""From this variance factor on, questions about one file are tested as one cluster."""

SMALL_SET_DROP: Final = 0.1
"""The size of that drop, as a share of the scale. Of changes of a retriever that are equally good in the long run, 12%
lose as much on 20 questions, 7% on 30 and 2% on 60 (`tests/benchmarks/small_sets.py`)."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How the bounds of a threshold are decided.

    Attributes:
        name: the name, which the marker gives: `policy="pr"`.
        alpha: the probability, in (0, 0.5], that any of the run's thresholds with `max_drop` fails although nothing got
            worse.
        burden: what must be shown for `max_drop`. "drop": it fails if a drop is significant; "beyond": if a drop of
            more than `max_drop` is; "exclude": it fails unless a drop of `max_drop` is excluded.
        inconclusive: what happens if a drop is larger than allowed and not significant: "warn" or "fail".
        bounds: what `min` and `max` are compared with: the "mean"; or the 95% "interval" of the mean, so that they fail
            only if it is wholly beyond the bound.
        cluster: which questions depend on each other: a tag, "gold.source" or "gold.id", "none"; or "auto" for
            "gold.source" where that matters.
        max_total_drop: the largest drop since the anchor, for thresholds with `max_drop`; None for any.
        max_lost: the bound `max_lost` of thresholds that give none; None for no bound.
        tolerance: a question counts for `max_lost` if its score is lower by more than this; at least 0.
        small_set_drop: with fewer than 100 questions and a score without models, the drop, as a share of the scale,
            that is red even if it is not significant; None for none.
    """

    name: str = DEFAULT
    alpha: float = 0.05
    burden: Literal["drop", "beyond", "exclude"] = "drop"
    inconclusive: Literal["warn", "fail"] = "warn"
    bounds: Literal["mean", "interval"] = "mean"
    cluster: str = "auto"
    max_total_drop: float | None = None
    max_lost: int | None = None
    tolerance: float = 0.0
    small_set_drop: float | None = SMALL_SET_DROP

    @property
    def strict(self) -> bool:
        return self.burden == "exclude"

    @property
    def fixed_cluster(self) -> str | None:
        """The clusters that the policy names; None if there are none, or the data decides."""
        return None if self.cluster in {"auto", "none"} else self.cluster


BUILT_IN: Final[Mapping[str, Policy]] = {
    "pr": Policy("pr"),
    "release": Policy("release", burden="exclude", small_set_drop=None),
    "snapshot": Policy("snapshot", max_lost=0),
}

MOVED: Final = {
    "alpha": "alpha = {}",
    "burden": "burden = {}",
    "strict": 'burden = "exclude"',
    "inconclusive": "inconclusive = {}",
    "cluster": "cluster = {}",
    "tolerance": "tolerance = {}",
    "max_total_drop": "max_total_drop = {}",
}
"""Keywords that thresholds had, and the key of a policy that has taken their place."""


def moved_text(keyword: str, value: object) -> str:
    """Return where a keyword went that thresholds had, with what to write."""
    key = MOVED[keyword].format(json.dumps(value, default=str))
    ready = ' policy="release" does that too.' * (keyword == "strict")
    return (
        f"{keyword} is set by a policy.{ready} Write in pyproject.toml\n"
        f'  [tool.rageval.policy.NAME]\n  {key}\nand policy="NAME" in the threshold.'
    )


def find_policy(name: object, policies: Mapping[str, Policy]) -> Policy:
    if not isinstance(name, str) or name not in policies:
        raise ValueError(
            f"policy={name!r} does not exist.{did_you_mean(str(name), policies)} There are: {', '.join(policies)}. "
            "A table [tool.rageval.policy.NAME] in pyproject.toml makes another one."
        )
    return policies[name]


def _number(value: Any, low: float, high: float) -> bool:
    return type(value) in {int, float} and low <= value <= high


def _one_of(*values: str) -> tuple[Callable[[Any], bool], str]:
    return values.__contains__, f"expected {' or '.join(map(json.dumps, values))}"


OPTIONAL: Final = frozenset({"max_total_drop", "max_lost", "small_set_drop"})
"""The keys whose value may be false, for none."""

KEYS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    # With a larger alpha a false alarm is likelier than none.
    "alpha": (
        lambda value: _number(value, 0, 0.5) and value > 0,
        "expected a number above 0 and at most 0.5",
    ),
    "burden": _one_of("drop", "beyond", "exclude"),
    "inconclusive": _one_of("warn", "fail"),
    "bounds": _one_of("mean", "interval"),
    "cluster": (
        lambda value: isinstance(value, str) and bool(value.strip()),
        'expected a tag, "gold.source", "gold.id", "auto" or "none"',
    ),
    "max_total_drop": (
        lambda value: _number(value, 0, 1e9),
        "expected a number of at least 0, such as 0.05, or false for none",
    ),
    "max_lost": (
        lambda value: type(value) is int and value >= 0,
        "expected a number of questions, such as 0, or false for none",
    ),
    "tolerance": (lambda value: _number(value, 0, 1e9), "expected a number of at least 0"),
    "small_set_drop": (
        lambda value: _number(value, 0, 1) and value > 0,
        "expected a share of the scale above 0, or false for none",
    ),
}
"""The keys of the table of a policy: which values are allowed, and the message for another one."""


def parse_tables(text: str) -> Mapping[str, Mapping[str, object]]:
    example = "expected a table for each policy, such as [tool.rageval.policy.nightly] with alpha = 0.01"
    try:
        tables = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(example) from None
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ValueError(example)
    policies_of(tables)
    return tables


def policies_of(tables: Mapping[str, Mapping[str, object]] | None) -> Mapping[str, Policy]:
    """Return the policies by name: the built-in ones, changed and joined by those of the tables.

    A table changes the policy of its name; a new one begins as that of its key `like`, "pr" by default. ValueError is
    raised for an unknown key or a wrong value.
    """
    policies = dict(BUILT_IN)
    for name, table in (tables or {}).items():
        try:
            start = find_policy(table.get("like", name if name in BUILT_IN else DEFAULT), policies)
            policies[name] = replace(start, **_values(table), name=name)
        except ValueError as error:
            raise ValueError(f"{error} (in the policy {name!r})") from None
    return policies


def _values(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the attributes of `Policy` that a table sets; false is None, which TOML does not have."""
    values = {key: value for key, value in table.items() if key != "like"}
    for key, value in values.items():
        if key not in KEYS:
            raise ValueError(
                f"unknown key {key!r}.{did_you_mean(key, KEYS)} Allowed: {', '.join(['like', *KEYS])}"
            )
        is_valid, expected = KEYS[key]
        if not (is_valid(value) or (value is False and key in OPTIONAL)):
            raise ValueError(f"{key} = {value!r}: {expected}")
    return {key: None if value is False else value for key, value in values.items()}
