"""The bounds on a judge's agreement with people, as the marker declares them."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from pytest_rageval.errors import InputError

__all__ = ["PREFIX", "Bounds"]

FORM: Final = 'rageval_calibration("labels.jsonl", min_kappa=0.6)'

PREFIX: Final = "min_"
"""Of the keywords that bound a measure."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Least agreement of a judge with the people of a labels file; None for no such bound.

    Attributes:
        labels: the path of the file.
        min_kappa: of Cohen's kappa, for yes and no and for pairs.
        min_accuracy: of the share of verdicts that are the people's, likewise.
        min_pearson: of Pearson's correlation, for grades and for pairs.
        comparator: how the judge compares, such as "graded"; None for the default comparator.
    """

    labels: str | Path
    min_kappa: float | None = None
    min_accuracy: float | None = None
    min_pearson: float | None = None
    comparator: str | None = None

    @classmethod
    def signature(cls) -> str:
        """The arguments of the marker, for its help."""
        words = [f"{field.name}=None" for field in fields(cls) if field.name != "labels"]
        return f"labels, *, {', '.join(words)}"

    @property
    def given(self) -> dict[str, float]:
        """The bounds by the measure's name, without those that are None."""
        named = ((name, getattr(self, name)) for name in ("min_kappa", "min_accuracy", "min_pearson"))
        return {name.removeprefix(PREFIX): bound for name, bound in named if bound is not None}

    @classmethod
    def parse(cls, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> "Bounds":
        """Read the marker's arguments.

        Raises:
            InputError: a keyword is unknown or has a wrong value, or no file is named.
        """
        known = [field.name for field in fields(cls) if field.name != "labels"]
        unknown = sorted(set(kwargs) - set(known))
        if unknown:
            raise InputError(
                f"rageval_calibration has no keyword {', '.join(map(repr, unknown))}. It knows: {', '.join(known)}."
            )
        if len(args) != 1 or not isinstance(args[0], str | Path):
            raise InputError(
                f"rageval_calibration wants the path of one labels file, found {args!r}. Write {FORM}."
            )
        for name, value in kwargs.items():
            if value is None:
                continue
            if name == "comparator":
                if not isinstance(value, str):
                    raise InputError(
                        f'rageval_calibration: comparator={value!r} is no text, such as "graded".'
                    )
            elif isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
                raise InputError(f"rageval_calibration: {name}={value!r} is no number from -1 to 1.")
        return cls(args[0], **kwargs)
