"""A threshold as the marker declares it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from pytest_rageval.errors import InputError
from pytest_rageval.stats.intervals import UNIT

__all__ = ["Threshold"]

ALPHA = 0.05

LARGEST_DROP: Final = 0.5
"""Of the scale's width: a larger `max_drop` is a slip."""

LARGE_DROP: Final = 0.2
"""Likewise: a larger one is probably one."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """Bounds on the mean of a score.

    Attributes:
        spec: the score's name, such as "recall@5".
        min: the mean must not be below; None for no such bound.
        max: the mean must not be above; None for no such bound.
        max_drop: the mean must not be further below that of the baseline, over the same examples;
            None for no such bound.
        where: tags that limit it to a slice, such as `{"topic": "billing"}`.
        by: a tag; the threshold is put on the slice of each of its values. None for no slices.
        alpha: how likely the `max_drop` thresholds of a run may be to fail where nothing got worse, in (0, 0.5].
        strict: whether `max_drop` passes only where a larger drop is excluded, and not wherever none is shown.
        comparator: how two answers are compared, such as "judge or em"; None for the way in force.
        label: how the answer from one passage is compared in eRAG, likewise; None for the comparator.
        order: of the passages in the prompt of Rel'-recall: "random", or "rank", which None stands for.
    """

    spec: str
    min: float | None = None
    max: float | None = None
    max_drop: float | None = None
    where: Mapping[str, Any] = field(default_factory=dict)
    by: str | None = None
    alpha: float = ALPHA
    strict: bool = False
    comparator: str | None = None
    label: str | None = None
    order: str | None = None

    @classmethod
    def words(cls) -> tuple[str, ...]:
        """The keywords there are."""
        return tuple(f.name for f in fields(cls) if f.name != "spec")

    @classmethod
    def signature(cls) -> str:
        """How the marker is written, for its help."""
        defaults = {"alpha": ALPHA, "strict": False}
        return f"spec, *, {', '.join(f'{word}={defaults.get(word)}' for word in cls.words())}"

    @property
    def name(self) -> str:
        """The score, with the words that say in which way it is computed; slices and bounds have no part in it."""
        ways = [f" by {way}" for way in (self.comparator, self.label) if way]
        return f"{self.spec}{''.join(ways)}{' in random order' if self.order == 'random' else ''}"

    @property
    def bounds(self) -> bool:
        """Whether there is a bound at all."""
        return not (self.min is None and self.max is None and self.max_drop is None)

    @classmethod
    def parse(
        cls, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, optional: bool = False
    ) -> "Threshold":
        """From the marker's arguments.

        Args:
            args: the score's name.
            kwargs: the keywords.
            optional: whether they are those of `rageval.score`, where there may be no bound.

        Raises:
            InputError: a word is unknown or has a wrong value, a bound is no number, or there is none.
        """
        caller = "rageval.score" if optional else "rageval_threshold"
        form = f'{caller}("recall@5", min=0.75)'
        unknown = sorted(set(kwargs) - set(cls.words()))
        if unknown:
            message = (
                f"{caller} has no keyword {', '.join(map(repr, unknown))}. "
                f"It knows: {', '.join(cls.words())}."
            )
            raise InputError(message)
        if len(args) != 1 or not isinstance(args[0], str):
            message = f"{caller} wants the name of one score, found {args!r}. Write {form}."
            raise InputError(message)
        spec = args[0]
        given = {word: value for word, value in kwargs.items() if value is not None}
        call = f"{caller}({spec!r})"
        _check_bounds(call, given)
        if not given.keys() & {"min", "max", "max_drop"} and ("by" in given or not optional):
            message = f"{call} bounds nothing: give min, max or max_drop, as in {form}."
            raise InputError(message)
        _check_slices(call, given)
        _check_test(call, given)
        _check_ways(call, given)
        return cls(spec, **(given | {"where": dict(given.get("where", {}))}))

    def check_scale(self, scale: tuple[float, float] | None) -> None:
        """See that each bound can be passed and can be kept, which one beyond the scale cannot.

        Args:
            scale: the lowest and the highest value of the score; None where nobody says.

        Raises:
            InputError: `min` or `max` is not on the scale, or `max_drop` exceeds half of its width, as a
                percentage does that was meant as a share; with `strict` also where there is no scale: a few
                losses of any size may be among those that were not seen.
        """
        if scale is None:
            if self.strict:
                message = (
                    f"{self.spec}: strict=True excludes a drop, and nobody says how far this score can drop.\n"
                    "Its plugin tells by registry.add_score(…, scale=(lowest, highest)); or leave strict out."
                )
                raise InputError(message)
            return
        low, high = scale
        for word, bound in (("min", self.min), ("max", self.max)):
            if bound is not None and not low <= bound <= high:
                # 85 for 0.85 is the commonest slip of all.
                percent = scale == UNIT and 2 <= bound <= 100  # noqa: PLR2004 - per cent
                remedy = (
                    f"For {bound:g}% write {word}={bound / 100:g}" if percent else f"Give {word} between them"
                )
                message = (
                    f"{self.spec}: {word}={bound:g} is not on the score's scale, which goes from {low:g} to {high:g}.\n"
                    f"{remedy}."
                )
                raise InputError(message)
        width = high - low
        if self.max_drop is not None and self.max_drop > LARGEST_DROP * width:
            percent = scale == UNIT and 1 <= self.max_drop <= 100  # noqa: PLR2004 - per cent
            remedy = (
                f"For {self.max_drop:g}% write max_drop={self.max_drop / 100:g}"
                if percent
                else f"Give a max_drop that would matter, such as {0.02 * width:g}"
            )
            message = (
                f"{self.spec}: max_drop={self.max_drop:g} allows the mean to lose more than half of its scale, which "
                f"goes from {low:g} to {high:g}.\n{remedy}."
            )
            raise InputError(message)

    def doubts(self, scale: tuple[float, float] | None) -> tuple[str, ...]:
        """What a reader should know of bounds that can be kept, and are probably not meant.

        Args:
            scale: as for `check_scale`.
        """
        if scale is None or self.max_drop is None or self.max_drop <= LARGE_DROP * (scale[1] - scale[0]):
            return ()
        share = self.max_drop / (scale[1] - scale[0])
        doubt = f"max_drop={self.max_drop:g} lets a retriever lose {share:.0%} of the scale and pass; is it meant?"
        return (doubt,)


def _check_bounds(call: str, given: Mapping[str, Any]) -> None:
    """The words that bound the mean."""
    for word in ("min", "max", "max_drop"):
        if word in given and not _is_number(given[word]):
            message = f"{call}: {word}={given[word]!r} is not a number."
            raise InputError(message)
    if "min" in given and "max" in given and given["min"] > given["max"]:
        message = f"{call}: min={given['min']} is above max={given['max']}."
        raise InputError(message)
    if given.get("max_drop", 0) < 0:
        message = (
            f"{call}: max_drop={given['max_drop']} is below 0.\n"
            "It is how far the mean may fall below the baseline, such as max_drop=0.02."
        )
        raise InputError(message)


def _check_slices(call: str, given: Mapping[str, Any]) -> None:
    """The words that limit it to a part of the eval set."""
    if not isinstance(given.get("where", {}), Mapping):
        message = (
            f'{call}: where={given["where"]!r} is not a dict of tags, such as where={{"topic": "billing"}}.'
        )
        raise InputError(message)
    if not isinstance(given.get("by", ""), str):
        message = f'{call}: by={given["by"]!r} is not the name of a tag, such as by="topic".'
        raise InputError(message)


def _check_test(call: str, given: Mapping[str, Any]) -> None:
    """The words that say how a drop is told from noise."""
    alpha, strict = given.get("alpha", ALPHA), given.get("strict", False)
    if not _is_number(alpha) or not 0 < alpha <= 0.5:  # noqa: PLR2004 - above, noise would be likelier than not
        message = f"{call}: alpha={alpha!r} must be above 0 and at most 0.5."
        raise InputError(message)
    if not isinstance(strict, bool):
        message = f"{call}: strict={strict!r} is neither True nor False."
        raise InputError(message)
    if "max_drop" not in given:
        for word in [word for word in ("alpha", "strict") if word in given]:
            message = f"{call}: {word} says how max_drop is tested, and there is no max_drop."
            raise InputError(message)
    if strict and given["max_drop"] == 0:
        message = (
            f"{call}: no number of examples excludes every drop above 0.\n"
            "With strict=True give a max_drop that would matter, such as 0.02."
        )
        raise InputError(message)


def _check_ways(call: str, given: Mapping[str, Any]) -> None:
    """The words that say in which way a score is computed."""
    for word in ("comparator", "label"):
        if word in given and not (isinstance(given[word], str) and given[word].strip()):
            message = (
                f'{call}: {word}={given[word]!r} names no comparison, such as "judge or em" or "f1>=0.5".'
            )
            raise InputError(message)
    if given.get("order", "rank") not in ("rank", "random"):
        message = f'{call}: order={given["order"]!r} is neither "rank" nor "random".'
        raise InputError(message)


def _is_number(value: Any) -> bool:
    """A number that is one: no NaN, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value  # noqa: PLR0124
