"""What to do next: the commands that accept a drop, and those that make a gain the baseline."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_rageval.reports.notes import gained
from pytest_rageval.reports.results import sliced_name

__all__ = ["accept_entry", "accept_lines", "gain_lines", "gains", "update_command"]


def update_command(arguments: Iterable[str], merge: str = "") -> str:
    """The command that makes the scores of these tests their baseline.

    With `merge`, the command that joined the scores of shards, those of all tests.
    """
    return (
        f"{merge} --update-baseline" if merge else " ".join(["pytest --rageval-update-baseline", *arguments])
    )


def accept_entry(broken: Sequence[tuple[str, Collection[str]]]) -> dict[str, str]:
    """The report's key `accept`: what accepts the drops of a test; empty where no score dropped.

    It is "update", or "bounds" where an update would keep the old baselines until `min` or `max` are changed, since it
    does not write scores that are out of their bounds.

    Args:
        broken: the names of the failed thresholds, with the parts that each breaks
            (`gate.threshold_results.violated_bounds`).
    """
    dropped = {name for name, parts in broken if "baseline" in parts}
    kept = {name for name, parts in broken if "bounds" in parts}
    return {"accept": "bounds" if dropped <= kept else "update"} if dropped else {}


def accept_lines(accept: str | None, argument: str, merge: str = "") -> list[str]:
    """Return how to accept the drops of a failed test, for the terminal; empty for None.

    For `merge`, see `update_command`.
    """
    if accept is None:
        return []
    command = update_command([argument], merge)
    if accept == "bounds":
        # A merge reads the bounds in the reports.
        again = ", run the shards again" if merge else ""
        return [f"accept this drop: change min or max in the test{again}, then\n  {command}"]
    return [f"accept this drop{' and all other changes' if merge else ''}: {command}"]


def gains(test: Mapping[str, Any]) -> str:
    """The significant gains of a test: "recall@3 gained 0.030, which is significant"; empty without one."""
    found = [(sliced_name(entry), gain) for entry in test["scores"] if (gain := gained(entry)) is not None]
    scores = ", ".join(f"{name} gained {gain:.3f}" for name, gain in found)
    return f"{scores}, which {'is' if len(found) == 1 else 'are'} significant" if found else ""


def gain_lines(
    tests: Iterable[Mapping[str, Any]], argument: Callable[[str], str], merge: str = ""
) -> Iterator[str]:
    """A line for each test with a significant gain: how to make it the baseline.

    `argument` returns the argument with which pytest runs the test of a node id; `merge`: see `update_command`.
    """
    for test in tests:
        if scores := gains(test):
            command = update_command([argument(test["nodeid"])], merge)
            yield f"{test['nodeid']}: {scores}; lock it in: {command}"
