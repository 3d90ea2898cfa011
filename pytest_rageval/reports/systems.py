"""Comparison of systems: the matrix of a parametrized test, and ratings from arena battles."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from pytest_rageval.reports.notes import is_arena
from pytest_rageval.reports.results import sliced_name
from pytest_rageval.stats.paired import Standing, against_best

__all__ = ["matrix_entries", "matrix_lines", "ratings_entries", "ratings_lines"]

ALPHA: Final = 0.05
"""Above this, a p-value leaves a system as good as the best."""

WIDTH: Final = 80
"""Characters a line, where names allow; columns beyond stand in a block below."""

PREFIX: Final = "rageval_"

LEGEND: Final = (
    "  * highest of its column; ≈ not significantly lower; others significantly lower",
    f"    (paired randomisation test, p ≤ {ALPHA}, Bonferroni over all pairs of rows)",
)

Entry = Mapping[str, Any]


def matrix_entries(tests: Iterable[Entry], *, seed: int = 0) -> list[dict[str, Any]]:
    """The matrices of a run, as in the JSON report; those with two rows or more, and a column.

    A score on the worst value of a tag (`by`) is in none: that may be another value in each row.

    Args:
        tests: as in the JSON report; those without a `system` are in no matrix.
        seed: of the tests of significance.
    """
    parametrized = [test for test in tests if test.get("system")]
    matrices = [
        _matrix(group, seed)
        for function in _grouped(parametrized, _function)
        for group in ([function] if _differ(function) else _grouped(function, _parameters))
        if len(_grouped(group, _system)) > 1
    ]
    return [matrix for matrix in matrices if matrix["scores"]]


def matrix_lines(matrices: Iterable[Entry]) -> list[str]:
    """A block a matrix, in several blocks of columns where it is wide; the legend once, below the last."""
    lines = [line for matrix in matrices for line in _block(matrix)]
    return [*lines, *LEGEND] if lines else []


def _matrix(tests: Sequence[Entry], seed: int) -> dict[str, Any]:
    """Rows and columns in the order in which they first come."""
    systems = [(_system(group[0]), _scores(group)) for group in _grouped(tests, _system)]
    names = list(dict.fromkeys(name for _, scores in systems for name in scores))
    columns = {
        name: against_best([_scored(scores.get(name)) for _, scores in systems], seed=seed) for name in names
    }
    parameters = _parameters(tests[0])
    shared = all(_parameters(test) == parameters for test in tests)
    return {
        "test": tests[0]["function"],
        "parameters": dict(parameters) if shared else {},
        "evalset": tests[0]["evalset"],
        "alpha": ALPHA,
        "scores": names,
        "rows": [
            {"system": dict(system), "cells": [_cell(columns[name][row]) for name in names]}
            for row, (system, _) in enumerate(systems)
        ],
    }


def _cell(standing: Standing | None) -> dict[str, Any] | None:
    if standing is None:
        return None
    told = {"mean": standing.mean, "n": standing.n, "best": standing.best}
    return told | {"shared": standing.shared, "p_value": standing.p_value}


def _scores(tests: Iterable[Entry]) -> dict[str, Entry]:
    """The entries of one system by name; of several on one score, under other bounds, the first."""
    scores: dict[str, Entry] = {}
    for test in tests:
        for entry in test["scores"]:
            if "by" not in entry:
                scores.setdefault(sliced_name(entry), entry)
    return scores


def _scored(entry: Entry | None) -> dict[str, float]:
    examples = () if entry is None or entry["mean"] is None else entry["examples"]
    return {example["id"]: example["score"] for example in examples if example["score"] is not None}


def _differ(tests: Sequence[Entry]) -> bool:
    """Whether no two of the tests give the same score of one system."""
    cells = [(_system(test), name) for test in tests for name in _scores([test])]
    return len(set(cells)) == len(cells)


def _function(test: Entry) -> Hashable:
    return test["function"], (test["evalset"] or {}).get("digest")


def _system(test: Entry) -> tuple[tuple[str, str], ...]:
    return tuple(test["system"].items())


def _parameters(test: Entry) -> tuple[tuple[str, str], ...]:
    return tuple(test["parameters"].items())


def _grouped(tests: Iterable[Entry], key: Callable[[Entry], Hashable]) -> list[list[Entry]]:
    groups: dict[Hashable, list[Entry]] = {}
    for test in tests:
        groups.setdefault(key(test), []).append(test)
    return list(groups.values())


def _block(matrix: Entry) -> list[str]:
    evalset = matrix["evalset"]
    parameters = "".join(f", {name} = {value}" for name, value in matrix["parameters"].items())
    size = f"  ({evalset['name']}, {evalset['size']})" if evalset else ""
    named = _named(matrix["rows"])
    columns = [
        _column(name, [row["cells"][place] for row in matrix["rows"]])
        for place, name in enumerate(matrix["scores"])
    ]
    lines = [f"{matrix['test']}{parameters}{size}"]
    for chosen in _blocks(columns, WIDTH - len(named[0])):
        lines += ["".join(cells).rstrip() for cells in zip(named, *chosen, strict=True)]
    notes = (
        _note(name, [(row["system"], row["cells"][place]) for row in matrix["rows"]])
        for place, name in enumerate(matrix["scores"])
    )
    return lines + [note for note in notes if note]


def _named(rows: Sequence[Entry]) -> list[str]:
    """The head and the name of each row, of one width."""
    columns = [
        [name.replace(PREFIX, ""), *(row["system"].get(name, "-") for row in rows)]
        for name in dict.fromkeys(name for row in rows for name in row["system"])
    ]
    widths = [max(map(len, column)) for column in columns]
    return [
        "".join(f"  {cell:<{width}}" for cell, width in zip(line, widths, strict=True))
        for line in zip(*columns, strict=True)
    ]


def _column(name: str, cells: Sequence[Entry | None]) -> list[str]:
    """Head and cells of one width; a mark stands behind the number, and the head ends where numbers do."""
    texts = [name, *("-" if cell is None else f"{cell['mean']:.3f}" for cell in cells)]
    width = max(map(len, texts))
    return [f"  {text:>{width}}{mark}" for text, mark in zip(texts, [" ", *map(_mark, cells)], strict=True)]


def _mark(cell: Entry | None) -> str:
    if cell is None:
        return " "
    return "*" if cell["best"] else "≈" if cell["p_value"] > ALPHA else " "


def _blocks(columns: Sequence[list[str]], width: int) -> list[list[list[str]]]:
    """The columns side by side, as many as go into the width, at least one."""
    blocks: list[list[list[str]]] = []
    left = 0
    for column in columns:
        if not blocks or len(column[0]) > left:
            blocks.append([])
            left = width
        blocks[-1].append(column)
        left -= len(column[0])
    return blocks


def _note(name: str, cells: Sequence[tuple[Mapping[str, str], Entry | None]]) -> str:
    """Where a column's rows do not rest on the same examples: how many each has, and shares with the best."""
    known = [(" × ".join(system.values()), cell) for system, cell in cells if cell is not None]
    best = next((cell for _, cell in known if cell["best"]), None)
    if best is None:
        return ""
    others = [
        f"{label} {cell['n']}, compared over {cell['shared']}"
        for label, cell in known
        if not cell["n"] == cell["shared"] == best["n"]
    ]
    return f"    {name}: n = {best['n']} in the best; {'; '.join(others)}" if others else ""


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
            groups.setdefault(key, {}).setdefault(system, {}).update(_battle_scores(entry))
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


def _battle_scores(entry: Mapping[str, Any]) -> dict[str, float]:
    """By example, what the answer got of the battle."""
    return {
        example["id"]: example["counts"]["wins"] + example["counts"]["ties"] / 2
        for example in entry["examples"]
        if example["score"] is not None
    }


def _rated(systems: Mapping[str, Mapping[str, float]], seed: int) -> dict[str, Any]:
    from pytest_rageval.stats.bradley_terry import (  # noqa: PLC0415 - brings numpy
        Battle,
        UnratableError,
        bradley_terry,
    )

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
