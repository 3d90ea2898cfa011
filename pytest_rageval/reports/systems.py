"""Comparison of systems: the matrix of a parametrized test, and ratings from arena battles."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from pytest_rageval.plural import counted
from pytest_rageval.reports.layout import WIDTH, aligned
from pytest_rageval.reports.results import evalset_text, sliced_name
from pytest_rageval.stats.systems import Battle, Standing, UnratableError, against_best, bradley_terry

__all__ = ["matrix_entries", "matrix_lines", "ratings_entries", "ratings_lines", "system_names"]

ALPHA: Final = 0.05  # above this, a p-value leaves a system as good as the best

PREFIX: Final = "rageval_"

REFERENCE: Final = "reference"  # the system that wrote the references; the names of others end in a cut-off

LEGEND: Final = (
    "  * highest of its column; ≈ not significantly lower; others significantly lower",
    f"    (paired randomisation test, p ≤ {ALPHA}, Bonferroni over all pairs of rows)",
)

Entry = Mapping[str, Any]


def matrix_entries(tests: Iterable[Entry], *, seed: int = 0) -> list[dict[str, Any]]:
    """The matrices of a run, systems × scores, as in the JSON report; those with two rows or more, and a column.

    A test without a `system` is left out. So is a score with `by`: its worst value may be another one in each row; and
    one that is no mean, since means are compared.
    `seed` is that of the tests of significance.
    """
    parametrized = [test for test in tests if test.get("system")]
    matrices = [
        _matrix(group, seed)
        for function in _grouped(
            parametrized, lambda test: (test["function"], (test["evalset"] or {}).get("digest"))
        )
        for group in ([function] if _differ(function) else _grouped(function, _parameters))
        if len(_grouped(group, _system)) > 1
    ]
    return [matrix for matrix in matrices if matrix["scores"]]


def matrix_lines(matrices: Iterable[Entry]) -> list[str]:
    """The matrices, each in several blocks of columns where it is wide, and the legend."""
    lines = [line for matrix in matrices for line in _block(matrix)]
    return [*lines, *LEGEND] if lines else []


def _matrix(tests: Sequence[Entry], seed: int) -> dict[str, Any]:
    """A matrix, with rows and columns in the order of the tests."""
    systems = [(_system(group[0]), _scores(group)) for group in _grouped(tests, _system)]
    names = list(dict.fromkeys(name for _, scores in systems for name in scores))
    columns = [
        against_best([_scored(scores.get(name)) for _, scores in systems], seed=seed) for name in names
    ]
    rows = zip(*columns, strict=True) if columns else [()] * len(systems)
    parameters = _parameters(tests[0])
    shared = all(_parameters(test) == parameters for test in tests)
    return {
        "test": tests[0]["function"],
        "parameters": dict(parameters) if shared else {},
        "evalset": tests[0]["evalset"],
        "alpha": ALPHA,
        "scores": names,
        "rows": [
            {"system": dict(system), "cells": [each and _cell_entry(each) for each in row]}
            for (system, _), row in zip(systems, rows, strict=True)
        ],
    }


def _cell_entry(standing: Standing) -> dict[str, Any]:
    """A cell; with `common` only where a system and the best one have other examples."""
    return {name: value for name, value in asdict(standing).items() if name != "common" or value}


def _scores(tests: Iterable[Entry]) -> dict[str, Entry]:
    """The entries of one system by name; of several of one score, under other bounds, the first."""
    scores: dict[str, Entry] = {}
    for test in tests:
        for entry in test["scores"]:
            if "by" not in entry and "statistic" not in entry:
                scores.setdefault(sliced_name(entry), entry)
    return scores


def _scored(entry: Entry | None) -> dict[str, float]:
    examples = () if entry is None or entry["mean"] is None else entry["examples"]
    return {example["id"]: example["score"] for example in examples if example["score"] is not None}


def _differ(tests: Sequence[Entry]) -> bool:
    """Whether no two of the tests give the same score of one system.

    One in which a keyword is ignored is the same as without it, and may be there twice.
    """
    cells = [
        (_system(test), name)
        for test in tests
        for name, entry in _scores([test]).items()
        if "ignored" not in entry
    ]
    return len(set(cells)) == len(cells)


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
    size = f"  ({evalset_text(evalset)})" if evalset else ""
    systems = system_names(matrix["rows"])
    # The head ends where the numbers do.
    columns = [
        [f"{name} ", *(_cell(row["cells"][place]) for row in matrix["rows"])]
        for place, name in enumerate(matrix["scores"])
    ]
    lines = [f"{matrix['test']}{parameters}{size}"]
    for chosen in _blocks(columns, WIDTH - _width(systems)):
        block = [*systems, *chosen]
        rows = aligned(list(zip(*block, strict=True)), right=range(len(systems), len(block)))
        lines += [f"  {row}" for row in rows]
    largest = max((cell["n"] for row in matrix["rows"] for cell in row["cells"] if cell), default=0)
    notes = (
        _note(name, [(row["system"], row["cells"][place]) for row in matrix["rows"]], largest)
        for place, name in enumerate(matrix["scores"])
    )
    return lines + [note for note in notes if note]


def system_names(rows: Sequence[Entry]) -> list[list[str]]:
    """The columns that name the systems, one for each parametrized fixture, with its name first."""
    return [
        [name.replace(PREFIX, ""), *(row["system"].get(name, "-") for row in rows)]
        for name in dict.fromkeys(name for row in rows for name in row["system"])
    ]


def _cell(cell: Entry | None) -> str:
    """The mean of a score with its mark."""
    if cell is None:
        return "- "
    return f"{cell['mean']:.3f}{'*' if cell['best'] else '≈' if cell['p_value'] > ALPHA else ' '}"


def _blocks(columns: Sequence[list[str]], width: int) -> list[list[list[str]]]:
    """The columns in blocks: as many side by side as fit into the width, at least one."""
    blocks: list[list[list[str]]] = []
    for column in columns:
        if not blocks or _width([*blocks[-1], column]) > width:
            blocks.append([])
        blocks[-1].append(column)
    return blocks


def _width(columns: Sequence[Sequence[str]]) -> int:
    """The width of columns in a line, with two spaces before each."""
    return sum(2 + max(map(len, column)) for column in columns)


def _note(name: str, cells: Sequence[tuple[Mapping[str, str], Entry | None]], largest: int) -> str:
    """How many examples each row has, and shares with the best, where these are not the same in a column.

    With both means over the shared ones. A column of fewer examples than the `largest` one says how many it has; of a
    slice its name says why.
    """
    known = [(" × ".join(system.values()), cell) for system, cell in cells if cell is not None]
    best = next((cell for _, cell in known if cell["best"]), None)
    if best is None:
        return ""
    others = [
        f"{label} {cell['n']}, compared over {cell['shared']}{_common_means(cell)}"
        for label, cell in known
        if not cell["n"] == cell["shared"] == best["n"]
    ]
    if not others:
        return f"    {name}: n = {best['n']}" if best["n"] < largest and " [" not in name else ""
    return f"    {name}: n = {best['n']} in the best; {'; '.join(others)}"


def _common_means(cell: Entry) -> str:
    """Such as ": 0.412, the best 0.500"."""
    return ": {:.3f}, the best {:.3f}".format(*cell["common"]) if cell.get("common") else ""


def ratings_entries(tests: Sequence[Entry], *, seed: int) -> list[dict[str, Any]]:
    """Bradley-Terry ratings, a table for each test function and eval set with at least two systems in the arena.

    A system is a parametrization of the function with a cut-off, such as "bm25@5"; the references are one more. Its
    battles are those of its scores of the whole set. All are battles against the reference, so two systems are compared
    only through it. Without finite ratings, `reason` says why. `seed` is that of the bootstrap intervals.
    """
    groups: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    for test in tests:
        function, _, parameters = test["nodeid"].partition("[")
        for entry in test["scores"]:
            # In a slice each system might have other questions: `by` reports the worst value.
            if "arena" not in entry or entry["where"] or entry["mean"] is None:
                continue
            key = function, test["evalset"]["name"], test["evalset"]["digest"]
            system = f"{parameters.removesuffix(']')}@{entry['spec'].partition('@')[2]}"
            # By example, since several scores of the arena have the same battles.
            groups.setdefault(key, {}).setdefault(system, {}).update(_results(entry))
    return [
        {"test": function, "evalset": evalset, **_rated(systems, seed)}
        for (function, evalset, _), systems in groups.items()
        if len(systems) > 1
    ]


def ratings_lines(entries: Sequence[Entry]) -> list[str]:
    """The tables of ratings, the best system first; or why there are no ratings."""
    lines = []
    for entry in entries:
        battles = f"{entry['evalset']}, battles against the {REFERENCE} alone, Elo scale, mean 1000"
        lines.append(f"ratings of the systems of {entry['test']}  ({battles})")
        lines += [] if entry["reason"] is None else [f"    {entry['reason']}"]
        rows = [
            (
                row["system"],
                f"{row['rating']:6.0f}",
                f"95% interval {row['ci95'][0]:.0f} to {row['ci95'][1]:.0f}, {counted(row['battles'], 'battle')}",
            )
            for row in entry["systems"]
        ]
        lines += [f"    {row}" for row in aligned(rows)]
    return lines


def _results(entry: Entry) -> dict[str, float]:
    """The results of the answers' battles, by example: 1 won, 0.5 tied, 0 lost."""
    return {
        example["id"]: example["counts"]["wins"] + example["counts"]["ties"] / 2
        for example in entry["examples"]
        if example["score"] is not None
    }


def _rated(systems: Mapping[str, Mapping[str, float]], seed: int) -> dict[str, Any]:
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
