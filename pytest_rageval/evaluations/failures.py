"""What ended examples of a score, as one error of the score."""

from collections.abc import Mapping, Sequence
from typing import Final

from pytest_rageval.errors import CallableError, QueryError, RagevalError
from pytest_rageval.scores import Outcome, too_many

__all__ = ["check_failures", "error_of_all"]

TOLD: Final = 3
"""How many different errors of one score are told."""

NAMED: Final = 5
"""How many of the examples that an error ended are named."""


def check_failures(outcomes: Sequence[Outcome], max_unscored: float) -> None:
    """Let pass that the user's retriever, generator or judge failed at a few of the questions.

    Raises:
        CallableError: they failed at all of them, or at more than the share that may be unscored.
    """
    failed = {outcome.example.id: outcome.failed for outcome in outcomes if outcome.failed is not None}
    if not failed:
        return
    defined = sum(outcome.undefined is None for outcome in outcomes)
    if len(failed) == defined:
        raise error_of_all(failed)
    if too_many(len(failed), defined, max_unscored):
        share = f"More than the allowed {100 * max_unscored:g}% of {defined} examples have no score."
        remedy = "Mend it, or allow a larger share with --rageval-max-unscored SHARE."
        raise error_of_all(failed, f"{share} {remedy}")


def error_of_all(failed: Mapping[str, RagevalError], more: str = "") -> RagevalError:
    """Several errors as one: each text once, with the examples that it ended.

    Args:
        failed: the errors, by the example's id. Those at one question are the same where they differ in the
            question alone.
        more: a last line.
    """
    ended: dict[str, list[str]] = {}
    for name, error in failed.items():
        ended.setdefault(error.reason if isinstance(error, QueryError) else str(error), []).append(name)
    lines = []
    for names in list(ended.values())[:TOLD]:
        named = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
        lines.append(str(failed[names[0]]))
        lines.append(f"It ended {len(names)} {'example' if len(names) == 1 else 'examples'}: {named}.")
    rest = sum(len(names) for names in list(ended.values())[TOLD:])
    if rest:
        lines.append(f"{rest} more examples ended for other reasons.")
    kind = type(next(iter(failed.values())))
    # Of several questions it is no error at one.
    kind = CallableError if issubclass(kind, QueryError) else kind
    return kind("\n".join([*lines, *([more] if more else [])]))
