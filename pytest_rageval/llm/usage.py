"""What was asked of models, in numbers that add up over tests and processes."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

__all__ = ["Usage"]


@dataclass(slots=True)
class Usage:
    """What a run asked for.

    Attributes:
        requests: replies asked for, however they were had.
        cached: of these, had from the cache or the cassette, or from a process that asked for it.
        live: of these, had from a server now.
        failed: of these, not had.
        tokens_in: of the live ones.
        tokens_out: of the live ones.
        cost_usd: of the live ones whose price is known.
        unpriced: live ones whose price is not known.
        dependent: of the live ones of a plan, those that depend on replies not there yet.
        unbounded: of the live ones of a plan, those whose replies may be of any length.
        cut: replies that the token limit ended, live or cached.
        remarks: what a reader of the scores should know, with how many replies it concerns.
    """

    requests: int = 0
    cached: int = 0
    live: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    dependent: int = 0
    unbounded: int = 0
    cut: int = 0
    remarks: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: "Usage") -> "Usage":
        numbers = {name: getattr(self, name) + getattr(other, name) for name in NUMBERS}
        return Usage(**numbers, remarks=self.remarks + other.remarks)

    def __sub__(self, other: "Usage") -> "Usage":
        numbers = {name: getattr(self, name) - getattr(other, name) for name in NUMBERS}
        return Usage(**numbers, remarks=self.remarks - other.remarks)

    @property
    def told(self) -> dict[str, int]:
        """The remarks with their counts, the most frequent first, then by their text: not as they came up."""
        return dict(sorted(self.remarks.items(), key=lambda each: (-each[1], each[0])))

    def plain(self) -> dict[str, Any]:
        """As JSON; see `of`."""
        return {**{name: getattr(self, name) for name in NUMBERS}, "remarks": self.told}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Usage":
        """The inverse of `plain`."""
        return cls(**{**plain, "remarks": Counter(plain["remarks"])})


NUMBERS: Final = tuple(each.name for each in fields(Usage) if each.name != "remarks")
