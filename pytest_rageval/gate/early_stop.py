"""How far the questions of a threshold were asked before its verdict on a drop was clear."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pytest_rageval.gate.threshold import Threshold

__all__ = ["EarlyStopped", "State"]

State = Literal["asked", "unchanged", "not asked"]


@dataclass(frozen=True, slots=True)
class EarlyStopped:
    """What was asked of the questions of a threshold, in random order.

    Attributes:
        states: by example id. An "unchanged" example has its passages and score of the baseline. Examples that cannot
            be compared with the baseline have a state only where they were "not asked".
        changed: number of examples that can be compared and are not known to be unchanged.
        verdict: None where all of them were asked, so that the usual test decides.
        drop: of the whole set, estimated from those that were asked; None where none was.
        certain: whether a "pass" is certain whatever the others score.
        level: of the test that a "fail" has passed, and of the usual test if all were asked.
    """

    states: Mapping[str, State]
    changed: int
    verdict: Literal["pass", "fail"] | None
    drop: float | None = None
    certain: bool = False
    level: float = 1.0

    @property
    def clear(self) -> bool:
        """Whether the verdict was clear before all were asked."""
        return self.verdict is not None

    @property
    def asked(self) -> int:
        """Number of changed examples that were asked."""
        return self._count("asked")

    @property
    def unchanged(self) -> int:
        """Number of examples that have their score of the baseline."""
        return self._count("unchanged")

    @property
    def not_asked(self) -> int:
        """Number of examples whose score is not known, as they were not asked."""
        return self._count("not asked")

    @property
    def new(self) -> int:
        """Number of these that cannot be compared."""
        return self.not_asked - (self.changed - self.asked)

    def _count(self, state: State) -> int:
        return sum(each == state for each in self.states.values())

    def reason(self, threshold: Threshold) -> str:
        """Why no more questions were asked."""
        max_drop = threshold.max_drop or 0.0
        if self.verdict == "fail" and self.drop is not None:
            larger = f"a drop of more than {max_drop:g}" if threshold.burden == "beyond" else "a drop"
            how = f"drop about {self.drop:.3f}, allowed {max_drop:g}: {larger} is significant (level {self.level:.2g})"
        elif self.certain:
            how = f"the others cannot take the drop above the allowed {max_drop:g}"
        else:
            how = f"a drop above the allowed {max_drop:g} is excluded (level {threshold.alpha:.2g})"
        return (
            f"stopped early: {self.asked:,} of {self.changed:,} changed questions asked "
            f"({self.unchanged:,} unchanged): {how}"
        )
