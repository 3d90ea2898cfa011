"""Ratings of the systems of a parametrized test, by their battles against the references in the arena."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_rageval.reports.arena import is_arena

__all__ = ["ratings_entries", "ratings_lines"]

REFERENCE: Final = "reference"
"""The system that wrote the references; others bear a cut-off in their names."""


def ratings_entries(tests: Sequence[Mapping[str, Any]], *, seed: int) -> list[dict[str, Any]]:
    """Bradley-Terry ratings, a table for each test function and eval set with at least two systems in the arena.

    A system is a parametrization of the function with a cut-off, such as "bm25@5"; the references are one
    more. Its battles are those behind its scores of the whole set. Only battles against the reference
    are judged: the distance of two systems rests on how each fares against it. Without finite
    ratings, `reason` says why.

    Args:
        tests: as in the JSON report.
        seed: of the bootstrap intervals.
    """
    groups: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    for test in tests:
        function, _, parameters = test["nodeid"].partition("[")
        for entry in test["scores"]:
            # Slices would let each system choose its own questions: with `by`, the worst are told of.
            if not is_arena(entry["spec"]) or entry["where"] or entry["mean"] is None:
                continue
            key = function, test["evalset"]["name"], test["evalset"]["digest"]
            system = f"{parameters.removesuffix(']')}@{entry['spec'].partition('@')[2]}"
            # By example: arena.win and arena.win_tie tell of the same battles.
            groups.setdefault(key, {}).setdefault(system, {}).update(_scores(entry))
    return [
        {"test": function, "evalset": evalset, **_rated(systems, seed)}
        for (function, evalset, _), systems in groups.items()
        if len(systems) > 1
    ]


def ratings_lines(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """A block a table: its test, then a row a system, the best first; or why there are no ratings."""
    lines = []
    for entry in entries:
        lines.append(
            f"ratings of the systems of {entry['test']}  "
            f"({entry['evalset']}, battles against the {REFERENCE} alone, Elo scale, mean 1000)"
        )
        if entry["reason"] is not None:
            lines.append(f"    {entry['reason']}")
        width = max((len(row["system"]) for row in entry["systems"]), default=0)
        lines += [
            f"    {row['system']:{width}}  {row['rating']:6.0f}  "
            f"95% interval {row['ci95'][0]:.0f} to {row['ci95'][1]:.0f}, {row['battles']} battles"
            for row in entry["systems"]
        ]
    return lines


def _scores(entry: Mapping[str, Any]) -> dict[str, float]:
    """By example, what the answer got of the battle."""
    return {
        example["id"]: example["counts"]["wins"] + example["counts"]["ties"] / 2
        for example in entry["examples"]
        if example["score"] is not None
    }


def _rated(systems: Mapping[str, Mapping[str, float]], seed: int) -> dict[str, Any]:
    from pytest_rageval.stats.ratings import Battle, UnratableError, bradley_terry  # noqa: PLC0415 - brings numpy

    battles = [
        Battle(system, REFERENCE, score) for system, scores in systems.items() for score in scores.values()
    ]
    fought = {name: len(scores) for name, scores in systems.items()} | {REFERENCE: len(battles)}
    try:
        rated = bradley_terry(battles, seed=seed)
    except UnratableError as error:
        return {"systems": [], "reason": str(error)}
    rows = [
        {"system": name, "rating": rating.value, "ci95": [rating.low, rating.high], "battles": fought[name]}
        for name, rating in rated.items()
    ]
    return {"systems": rows, "reason": None}
