"""Proposes commands to run next: to accept a drop, and to make a gain the baseline."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pytest_rageval.reports.build import sliced_name
from pytest_rageval.reports.notes import significant_gain


def update_command(arguments: Iterable[str], merge: str = "") -> str:
    """Return the command that makes the present scores of tests their baseline.

    Args:
        arguments: the arguments with which pytest runs the tests.
        merge: the command that merged the shards of the run; empty if the run had none. The returned command then
            repeats the merge, and updates the baseline of all tests.
    """
    return (
        f"{merge} --update-baseline" if merge else " ".join(["pytest --rageval-update-baseline", *arguments])
    )


def accept_entry(broken: Sequence[tuple[str, Collection[str]]]) -> dict[str, str]:
    """Return the key `accept` of a test: how its drops can be accepted; empty if no score dropped.

    The value is "update" if an update of the baseline accepts the drops. It is "bounds" if `min` or `max` must be
    changed first, because an update does not write scores that are out of their bounds.

    Args:
        broken: the name of each failed threshold, with the parts of the threshold that failed: "baseline" or "bounds".
    """
    dropped = {name for name, parts in broken if "baseline" in parts}
    out_of_bounds = {name for name, parts in broken if "bounds" in parts}
    return {"accept": "bounds" if dropped <= out_of_bounds else "update"} if dropped else {}


def accept_lines(accept: str | None, argument: str, merge: str = "") -> list[str]:
    """Return lines for the terminal that say how to accept the drops of a failed test.

    Args:
        accept: the key `accept` of the test, see `accept_entry`; None returns no lines.
        argument: the argument with which pytest runs the test.
        merge: see `update_command`.
    """
    if accept is None:
        return []
    command = update_command([argument], merge)
    if accept == "bounds":
        # `rageval merge` reads the bounds from the reports of the shards.
        again = ", run the shards again" if merge else ""
        return [f"accept this drop: change min or max in the test{again}, then\n  {command}"]
    return [f"accept this drop{' and all other changes' if merge else ''}: {command}"]


def gains_text(test: Mapping[str, Any]) -> str:
    """Return the significant gains of a test: "recall@3 gained 0.030, which is significant"; empty without a gain."""
    gains = [
        (sliced_name(entry), gain)
        for entry in test["scores"]
        if (gain := significant_gain(entry)) is not None
    ]
    scores = ", ".join(f"{name} gained {gain:.3f}" for name, gain in gains)
    return f"{scores}, which {'is' if len(gains) == 1 else 'are'} significant" if gains else ""


def gain_lines(
    tests: Iterable[Mapping[str, Any]], argument: Callable[[str], str], merge: str = ""
) -> Iterator[str]:
    """Yield a line for each test with a significant gain, with the command that makes the gain the baseline.

    Args:
        tests: the entries of the tests.
        argument: returns the argument with which pytest runs the test of a node id.
        merge: see `update_command`.
    """
    for test in tests:
        if gains := gains_text(test):
            command = update_command([argument(test["nodeid"])], merge)
            yield f"{test['nodeid']}: {gains}; lock it in: {command}"
