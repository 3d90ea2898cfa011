"""Comparison of systems: the matrix of a parametrized test, and ratings from arena battles."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain, combinations
from typing import Any, Final

from pytest_rageval.plural import counted
from pytest_rageval.reports.layout import WIDTH, aligned
from pytest_rageval.reports.results import evalset_text, sliced_name
from pytest_rageval.stats.intervals import mean_interval
from pytest_rageval.stats.systems import Battle, Standing, UnratableError, bradley_terry, compare_with_best

__all__ = [
    "PAIRS",
    "matrix_entries",
    "matrix_lines",
    "pairs_notes",
    "pairs_table",
    "rated_name",
    "ratings_entries",
    "ratings_lines",
    "ratings_text",
    "system_names",
]

ALPHA: Final = 0.05  # above this, a p-value leaves a system as good as the best

PREFIX: Final = "rageval_"

REFERENCE: Final = "reference"  # the system that wrote the references; the names of others end in a cut-off

PAIRS: Final = "share won by the row against the column, ties half, with its 95% interval"

APART: Final = (
    "their battles ended as an error, or no process had the answers of both (run their tests in one: without -n, or "
    "with --dist loadfile)"
)
FEW: Final = "--rageval-arena-pairs is less than the number of pairs, or no question has a reference"
"""Why two systems had no battles."""

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
        compare_with_best([_scored(scores.get(name)) for _, scores in systems], seed=seed) for name in names
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
    """Return True if no two of the tests have the same score of the same system.

    A score whose keyword is ignored equals the one without it, and may occur twice.
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
    """Say how many examples each row has and shares with the best row, if these numbers differ in a column.

    The note has both means over the shared examples. A column with fewer examples than `largest` states its number;
    for a slice, the name of the column says why.
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


def rated_name(nodeid: str, k: int | str) -> str:
    """The name of a system in ratings: the parametrization of its test, with the cut-off of the score."""
    return f"{nodeid.partition('[')[2].removesuffix(']')}@{k}"


def ratings_entries(tests: Sequence[Entry], *, seed: int) -> list[dict[str, Any]]:
    """Bradley-Terry ratings, a table for each test function and eval set with at least two systems in the arena.

    A system is a parametrization of the function with a cut-off, such as "bm25@5"; the references are one more. Its
    battles are those of its scores of the whole set, which are against the references, and those against other
    systems, where the run had some: then `pairs` has the results of each pair. Without these, two systems are compared
    only through the references. Without finite ratings, `reason` says why. `seed` is that of the bootstrap intervals.
    """
    groups: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    between: dict[tuple[str, str, str], dict[tuple[str, str], Entry]] = {}
    for test in tests:
        if test["evalset"] is None:
            continue
        key = test["nodeid"].partition("[")[0], test["evalset"]["name"], test["evalset"]["digest"]
        for entry in test["scores"]:
            # In a slice each system might have other questions: `by` reports the worst value.
            if "arena" not in entry or entry["where"] or entry["mean"] is None:
                continue
            system = rated_name(test["nodeid"], entry["spec"].partition("@")[2])
            # By example, since several scores of the arena have the same battles.
            groups.setdefault(key, {}).setdefault(system, {}).update(_results(entry))
        if "battles" in test:
            found = {(each["system"], each["opponent"]): each for each in test["battles"]}
            between.setdefault(key, {}).update(found)
            # A system without a score of the whole set has battled on all of it.
            for name in chain(*found):
                groups.setdefault(key, {}).setdefault(name, {})
    return [
        {
            "test": function,
            "evalset": evalset,
            **_rated(systems, between.get((function, evalset, digest)), seed),
        }
        for (function, evalset, digest), systems in groups.items()
        if len(systems) > 1
    ]


def ratings_lines(entries: Sequence[Entry]) -> list[str]:
    """The tables of ratings, the best system first; or why there are no ratings; and the pairs of systems."""
    lines = []
    for entry in entries:
        lines.append(f"ratings of the systems of {entry['test']}  ({ratings_text(entry)})")
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
        lines += _pairs_lines(entry)
    return lines


def ratings_text(entry: Entry) -> str:
    """The eval set of a table of ratings, its battles and its scale."""
    battles = "battles between systems too" if "pairs" in entry else f"battles against the {REFERENCE} alone"
    return f"{entry['evalset']}, {battles}, Elo scale, mean 1000"


def pairs_table(entry: Entry) -> tuple[list[str], list[list[Entry | None]]]:
    """The systems with the references, the best first, and for each the results against each; None without battles."""
    known: dict[tuple[str, str], Entry] = {}
    pairs = entry.get("pairs", ())
    for pair in pairs:
        if pair["battles"]:
            ends = pair["ci95"] and [1 - end for end in reversed(pair["ci95"])]
            known[pair["system"], pair["opponent"]] = pair
            known[pair["opponent"], pair["system"]] = {**pair, "score": 1 - pair["score"], "ci95": ends}
    names = [row["system"] for row in entry["systems"] if pairs]
    names = names or sorted({name for each in known for name in each})
    return names, [[known.get((one, other)) for other in names] for one in names]


def pairs_notes(entry: Entry) -> Iterator[str]:
    """Yield notes on battles between systems: how many there were, how many are unscored, which pairs had none."""
    between = [pair for pair in entry.get("pairs", ()) if pair["opponent"] != REFERENCE]
    fought = Counter(pair["battles"] for pair in between if pair["battles"])
    if fought:
        each = " or ".join(f"{number:,}" for number in sorted(fought))
        yield f"{counted(fought.total(), 'pair')} of systems with {each} battles each"
    if wanted := max((pair.get("wanted", 0) for pair in between), default=0):
        yield f"--rageval-arena-pairs asks for {wanted:,} battles a pair; no more questions have a reference"
    unscored = Counter[str]()
    missing: dict[str, list[str]] = {}
    for pair in between:
        unscored.update(pair["unscored"])
        if pair["reason"]:
            missing.setdefault(pair["reason"], []).append(f"{pair['system']} and {pair['opponent']}")
    yield from (f"{number} × unscored: {why}" for why, number in unscored.most_common())
    yield from (f"no battles of {', '.join(pairs)}: {why}" for why, pairs in missing.items())


def _pairs_lines(entry: Entry) -> Iterator[str]:
    """The matrix of pairs, in several blocks of columns where it is wide, and its notes."""
    names, cells = pairs_table(entry)
    if names:
        yield f"    {PAIRS}:"
        columns = [[name, *(_pair_text(row[place]) for row in cells)] for place, name in enumerate(names)]
        systems = ["", *names]
        for chosen in _blocks(columns, WIDTH - 4 - _width([systems])):
            yield from (f"    {row}" for row in aligned(list(zip(systems, *chosen, strict=True))))
    yield from (f"    {note}" for note in pairs_notes(entry))


def _pair_text(pair: Entry | None) -> str:
    if pair is None:
        return "-"
    return " ".join(
        [f"{pair['score']:.2f}", *(["{:.2f}–{:.2f}".format(*pair["ci95"])] if pair["ci95"] else [])]
    )


def _results(entry: Entry) -> dict[str, float]:
    """The results of the answers' battles, by example: 1 won, 0.5 tied, 0 lost."""
    return {
        example["id"]: example["counts"]["wins"] + example["counts"]["ties"] / 2
        for example in entry["examples"]
        if example["score"] is not None
    }


def _rated(
    systems: Mapping[str, Mapping[str, float]], between: Mapping[tuple[str, str], Entry] | None, seed: int
) -> dict[str, Any]:
    fought: dict[tuple[str, str], Mapping[str, float]] = {
        (system, REFERENCE): scores for system, scores in systems.items()
    }
    for pair, each in (between or {}).items():
        fought[pair] = {
            example["id"]: example["score"] for example in each["examples"] if example["score"] is not None
        }
    battles = [Battle(*pair, score) for pair, scores in fought.items() for score in scores.values()]
    questions = [example for scores in fought.values() for example in scores]
    number = Counter(name for battle in battles for name in (battle.first, battle.second))
    pairs = {}
    if between is not None:
        both = [*((name, REFERENCE) for name in sorted(systems)), *combinations(sorted(systems), 2)]
        pairs["pairs"] = [
            _pair(pair, list(fought.get(pair, {}).values()), between.get(pair), seed) for pair in both
        ]
    try:
        rated = bradley_terry(battles, questions=questions, seed=seed)
    except UnratableError as error:
        return {"systems": [], "reason": str(error), **pairs}
    rows = [
        {"system": name, "rating": rating.value, "ci95": [rating.low, rating.high], "battles": number[name]}
        for name, rating in rated.items()
    ]
    return {"systems": rows, "reason": None, **pairs}


def _pair(pair: tuple[str, str], scores: Sequence[float], found: Entry | None, seed: int) -> dict[str, Any]:
    """The results of a pair; `found` are its battles as of the test, which those against the references have not."""
    ends = mean_interval(scores, seed=seed)
    reason = None
    if not scores and pair[1] != REFERENCE:
        reason = APART if found is None else None if found["examples"] else FEW
    unscored = Counter(example["unscored"] for example in (found or {"examples": ()})["examples"])
    del unscored[None]
    return {
        "system": pair[0],
        "opponent": pair[1],
        "battles": len(scores),
        "wins": scores.count(1),
        "ties": sum(0 < score < 1 for score in scores),
        "losses": scores.count(0),
        "score": sum(scores) / len(scores) if scores else None,
        "ci95": None if ends is None else list(ends),
        "unscored": dict(unscored),
        "reason": reason,
        **({"wanted": found["wanted"]} if found and "wanted" in found else {}),
    }
