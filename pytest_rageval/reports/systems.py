"""Compares systems: the matrix systems × scores of a parametrized test, and ratings from battles of the arena.

A system is one combination of retriever, generator and judge of a parametrized test. In ratings a system also has a
cut-off. Here too: the tables of how far labels of passages agree with scores of answers.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain, combinations
from typing import Any, Final

from pytest_rageval.lib.text import counted
from pytest_rageval.reports.build import evalset_text, sliced_name
from pytest_rageval.reports.document import AgreementEntry, AgreementRow, TestEntry
from pytest_rageval.reports.layout import WIDTH, align_columns
from pytest_rageval.reports.notes import scores_by_id
from pytest_rageval.stats.agreement import format_rho
from pytest_rageval.stats.intervals import mean_interval
from pytest_rageval.stats.systems import Battle, Standing, UnratableError, bradley_terry, compare_with_best

ALPHA: Final = 0.05  # a system with a higher p-value is not significantly worse than the best system

FIXTURE_PREFIX: Final = "rageval_"

REFERENCE: Final = "reference"
"""The name of the system that wrote the references. The names of all other systems end with a cut-off."""

PAIRS: Final = "share won by the row against the column, ties half, with its 95% interval"

NO_COMMON_PROCESS: Final = (
    "their battles ended as an error, or no process had the answers of both (run their tests in one: without -n, or "
    "with --dist loadfile)"
)
NO_BATTLES_LEFT: Final = (
    "--rageval arena_pairs=N is less than the number of pairs, or no question has a reference"
)
"""The reasons why two systems had no battles."""

LEGEND: Final = (
    "  * highest of its column; ≈ not significantly lower; others significantly lower",
    f"    (paired randomisation test, p ≤ {ALPHA}, Bonferroni over all pairs of rows)",
)

Entry = Mapping[str, Any]


def matrix_entries(tests: Iterable[Entry], *, seed: int = 0) -> list[dict[str, object]]:
    """Return the matrices systems × scores of a run, as in the JSON report.

    A matrix has at least two rows and one column. Tests without a key `system` are left out. A score with `by` is left
    out, because its worst slice may differ between the rows. A score that is not a mean is left out, because the matrix
    compares means.
    """
    parametrized = [test for test in tests if test.get("system")]
    matrices = [
        _matrix_entry(group, seed)
        for function_tests in _group_by(
            parametrized, lambda test: (test["function"], (test["evalset"] or {}).get("digest"))
        )
        for group in (
            [function_tests] if _has_unique_cells(function_tests) else _group_by(function_tests, _parameters)
        )
        if len(_group_by(group, _system)) > 1
    ]
    return [matrix for matrix in matrices if matrix["scores"]]


def matrix_lines(matrices: Iterable[Entry]) -> list[str]:
    lines = [line for matrix in matrices for line in _single_matrix_lines(matrix)]
    return [*lines, *LEGEND] if lines else []


def _matrix_entry(tests: Sequence[Entry], seed: int) -> dict[str, object]:
    systems = [(_system(group[0]), _entries_by_name(group)) for group in _group_by(tests, _system)]
    names = list(dict.fromkeys(name for _, entries in systems for name in entries))
    columns = [
        compare_with_best([_values_by_id(entries.get(name)) for _, entries in systems], seed=seed)
        for name in names
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
            {"system": dict(system), "cells": [standing and _cell_entry(standing) for standing in row]}
            for (system, _), row in zip(systems, rows, strict=True)
        ],
    }


def _cell_entry(standing: Standing) -> dict[str, object]:
    return {name: value for name, value in asdict(standing).items() if name != "common" or value}


def _entries_by_name(tests: Iterable[Entry]) -> dict[str, Entry]:
    """Return the score entries of one system by name; the first entry if there are several with other bounds."""
    entries: dict[str, Entry] = {}
    for test in tests:
        for entry in test["scores"]:
            if "by" not in entry and "statistic" not in entry:
                entries.setdefault(sliced_name(entry), entry)
    return entries


def _values_by_id(entry: Entry | None) -> dict[str, float]:
    return scores_by_id(() if entry is None or entry["mean"] is None else entry["examples"])


def _has_unique_cells(tests: Sequence[Entry]) -> bool:
    """Return True if no two of the tests have the same score of the same system.

    A score with an ignored keyword equals the score without the keyword, and may occur twice.
    """
    cells = [
        (_system(test), name)
        for test in tests
        for name, entry in _entries_by_name([test]).items()
        if "ignored" not in entry
    ]
    return len(set(cells)) == len(cells)


def _system(test: Entry) -> tuple[tuple[str, str], ...]:
    return tuple(test["system"].items())


def _parameters(test: Entry) -> tuple[tuple[str, str], ...]:
    return tuple(test["parameters"].items())


def _group_by(tests: Iterable[Entry], key: Callable[[Entry], Hashable]) -> list[list[Entry]]:
    groups: dict[Hashable, list[Entry]] = {}
    for test in tests:
        groups.setdefault(key(test), []).append(test)
    return list(groups.values())


def _single_matrix_lines(matrix: Entry) -> list[str]:
    evalset = matrix["evalset"]
    parameters = "".join(f", {name} = {value}" for name, value in matrix["parameters"].items())
    size = f"  ({evalset_text(evalset)})" if evalset else ""
    systems = system_names(matrix["rows"])
    # The space after a name aligns it with the numbers, which are followed by a mark.
    columns = [
        [f"{name} ", *(_cell_text(row["cells"][index]) for row in matrix["rows"])]
        for index, name in enumerate(matrix["scores"])
    ]
    lines = [f"{matrix['test']}{parameters}{size}"]
    for columns_of_block in _split_columns(columns, WIDTH - _total_width(systems)):
        block = [*systems, *columns_of_block]
        rows = align_columns(list(zip(*block, strict=True)), right=range(len(systems), len(block)))
        lines += [f"  {row}" for row in rows]
    max_n = max((cell["n"] for row in matrix["rows"] for cell in row["cells"] if cell), default=0)
    notes = (
        _column_note(name, [(row["system"], row["cells"][index]) for row in matrix["rows"]], max_n)
        for index, name in enumerate(matrix["scores"])
    )
    return lines + [note for note in (_best_cells_note(matrix), *notes) if note]


def _best_cells_note(matrix: Entry) -> str:
    if len(matrix["scores"]) == 1:
        return ""
    counts = (
        (" × ".join(row["system"].values()), sum(bool(cell and cell["best"]) for cell in row["cells"]))
        for row in matrix["rows"]
    )
    return f"    highest of {len(matrix['scores'])} columns: {', '.join(f'{name} {n}' for name, n in counts)}"


def system_names(rows: Sequence[Entry]) -> list[list[str]]:
    """Return the columns that name the systems: for each parametrized fixture its name, then its value in each row."""
    return [
        [name.replace(FIXTURE_PREFIX, ""), *(row["system"].get(name, "-") for row in rows)]
        for name in dict.fromkeys(name for row in rows for name in row["system"])
    ]


def _cell_text(cell: Entry | None) -> str:
    if cell is None:
        return "- "
    return f"{cell['mean']:.3f}{'*' if cell['best'] else '≈' if cell['p_value'] > ALPHA else ' '}"


def _split_columns(columns: Sequence[list[str]], width: int) -> list[list[list[str]]]:
    """Return the columns in blocks: each block has as many columns as fit into the width, and at least one."""
    blocks: list[list[list[str]]] = []
    for column in columns:
        if not blocks or _total_width([*blocks[-1], column]) > width:
            blocks.append([])
        blocks[-1].append(column)
    return blocks


def _total_width(columns: Sequence[Sequence[str]]) -> int:
    return sum(2 + max(map(len, column)) for column in columns)


def _column_note(name: str, cells: Sequence[tuple[Mapping[str, str], Entry | None]], max_n: int) -> str:
    """Return a note on the numbers of examples in a column; empty if it is not needed.

    If the rows of the column have different examples, the note has the number of examples of each row, the number that
    it shares with the best row, and the means of both rows over the shared examples. If all rows have the same
    examples, but fewer than `max_n`, the note has their number. A column of a slice needs no such note: its name
    explains the number.
    """
    labelled = [(" × ".join(system.values()), cell) for system, cell in cells if cell is not None]
    best = next((cell for _, cell in labelled if cell["best"]), None)
    if best is None:
        return ""
    others = [
        f"{label} {cell['n']}, compared over {cell['shared']}"
        + (": {:.3f}, the best {:.3f}".format(*cell["common"]) if cell.get("common") else "")
        for label, cell in labelled
        if not cell["n"] == cell["shared"] == best["n"]
    ]
    if not others:
        return f"    {name}: n = {best['n']}" if best["n"] < max_n and " [" not in name else ""
    return f"    {name}: n = {best['n']} in the best; {'; '.join(others)}"


def rated_system_name(nodeid: str, k: int | str) -> str:
    """Return the name of a system in ratings: the parametrization of its test and the cut-off, such as "bm25@5"."""
    return f"{nodeid.partition('[')[2].removesuffix(']')}@{k}"


def ratings_entries(tests: Sequence[Entry], *, seed: int) -> list[dict[str, object]]:
    """Return tables of Bradley-Terry ratings, one for each test function and eval set with at least two systems.

    A system is a parametrization of the function with a cut-off, such as "bm25@5". The references are one more system.
    The battles against the references come from scores of the arena over the whole eval set. If the run had battles
    between systems, the key `pairs` has the results of each pair. Otherwise two systems are compared only through the
    references. If there are no finite ratings, the key `reason` says why.
    """
    reference_results: dict[tuple[str, str, str], dict[str, dict[str, float]]] = {}
    system_battles: dict[tuple[str, str, str], dict[tuple[str, str], Entry]] = {}
    for test in tests:
        if test["evalset"] is None:
            continue
        key = test["nodeid"].partition("[")[0], test["evalset"]["name"], test["evalset"]["digest"]
        for entry in test["scores"]:
            # Slices are left out: with `by` an entry is about the worst slice, which may differ between systems.
            if "arena" not in entry or entry["where"] or entry["mean"] is None:
                continue
            system = rated_system_name(test["nodeid"], entry["spec"].partition("@")[2])
            # The results are merged by example, since several scores of the arena have the same battles.
            reference_results.setdefault(key, {}).setdefault(system, {}).update(_battle_results(entry))
        if "battles" in test:
            battles = {(pair["system"], pair["opponent"]): pair for pair in test["battles"]}
            system_battles.setdefault(key, {}).update(battles)
            # A system without a score over the whole eval set still has battles over the whole eval set.
            for name in chain(*battles):
                reference_results.setdefault(key, {}).setdefault(name, {})
    return [
        {
            "test": function,
            "evalset": evalset,
            **_ratings_entry(results, system_battles.get((function, evalset, digest)), seed),
        }
        for (function, evalset, digest), results in reference_results.items()
        if len(results) > 1
    ]


def ratings_lines(entries: Sequence[Entry]) -> list[str]:
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
        lines += [f"    {row}" for row in align_columns(rows)]
        lines += _pairs_lines(entry)
    return lines


def ratings_text(entry: Entry) -> str:
    battles = "battles between systems too" if "pairs" in entry else f"battles against the {REFERENCE} alone"
    return f"{entry['evalset']}, {battles}, Elo scale, mean 1000"


def pairs_table(entry: Entry) -> tuple[list[str], list[list[Entry | None]]]:
    """Return the names of the systems and the references, the best first, and for each its results against each.

    A result is None if there were no battles.
    """
    results: dict[tuple[str, str], Entry] = {}
    pairs = entry.get("pairs", ())
    for pair in pairs:
        if pair["battles"]:
            ends = pair["ci95"] and [1 - end for end in reversed(pair["ci95"])]
            results[pair["system"], pair["opponent"]] = pair
            results[pair["opponent"], pair["system"]] = {**pair, "score": 1 - pair["score"], "ci95": ends}
    names = [row["system"] for row in entry["systems"] if pairs]
    names = names or sorted({name for pair in results for name in pair})
    return names, [[results.get((system, opponent)) for opponent in names] for system in names]


def pairs_notes(entry: Entry) -> Iterator[str]:
    between = [pair for pair in entry.get("pairs", ()) if pair["opponent"] != REFERENCE]
    battle_counts = Counter(pair["battles"] for pair in between if pair["battles"])
    if battle_counts:
        numbers = " or ".join(f"{number:,}" for number in sorted(battle_counts))
        yield f"{counted(battle_counts.total(), 'pair')} of systems with {numbers} battles each"
    if wanted := max((pair.get("wanted", 0) for pair in between), default=0):
        yield f"--rageval arena_pairs=N requests {wanted:,} battles a pair; no more questions have a reference"
    unscored = Counter[str]()
    pairs_by_reason: dict[str, list[str]] = {}
    for pair in between:
        unscored.update(pair["unscored"])
        if pair["reason"]:
            pairs_by_reason.setdefault(pair["reason"], []).append(f"{pair['system']} and {pair['opponent']}")
    yield from (f"{number} × unscored: {reason}" for reason, number in unscored.most_common())
    yield from (f"no battles of {', '.join(pairs)}: {reason}" for reason, pairs in pairs_by_reason.items())


def _pairs_lines(entry: Entry) -> Iterator[str]:
    names, rows = pairs_table(entry)
    if names:
        yield f"    {PAIRS}:"
        columns = [[name, *(_pair_text(row[index]) for row in rows)] for index, name in enumerate(names)]
        systems = ["", *names]
        for block in _split_columns(columns, WIDTH - 4 - _total_width([systems])):
            yield from (f"    {line}" for line in align_columns(list(zip(systems, *block, strict=True))))
    yield from (f"    {note}" for note in pairs_notes(entry))


def _pair_text(pair: Entry | None) -> str:
    """Return the share of battles won with its interval, such as "0.62 0.51–0.72"; "-" without battles."""
    if pair is None:
        return "-"
    interval = " {:.2f}–{:.2f}".format(*pair["ci95"]) if pair["ci95"] else ""
    return f"{pair['score']:.2f}{interval}"


def _battle_results(entry: Entry) -> dict[str, float]:
    return {
        example["id"]: example["counts"]["wins"] + example["counts"]["ties"] / 2
        for example in entry["examples"]
        if example["score"] is not None
    }


def _ratings_entry(
    reference_results: Mapping[str, Mapping[str, float]],
    system_battles: Mapping[tuple[str, str], Entry] | None,
    seed: int,
) -> dict[str, object]:
    results: dict[tuple[str, str], Mapping[str, float]] = {
        (system, REFERENCE): values for system, values in reference_results.items()
    }
    results |= {pair: scores_by_id(entry["examples"]) for pair, entry in (system_battles or {}).items()}
    battles = [Battle(*pair, value) for pair, values in results.items() for value in values.values()]
    questions = [example_id for values in results.values() for example_id in values]
    battle_counts = Counter(name for battle in battles for name in (battle.first, battle.second))
    pairs = {}
    if system_battles is not None:
        names = sorted(reference_results)
        all_pairs = [*((name, REFERENCE) for name in names), *combinations(names, 2)]
        pairs["pairs"] = [
            _pair_entry(pair, list(results.get(pair, {}).values()), system_battles.get(pair), seed)
            for pair in all_pairs
        ]
    try:
        ratings = bradley_terry(battles, questions=questions, seed=seed)
    except UnratableError as error:
        return {"systems": [], "reason": str(error), **pairs}
    rows = [
        {"system": name, "rating": each.value, "ci95": [each.low, each.high], "battles": battle_counts[name]}
        for name, each in ratings.items()
    ]
    return {"systems": rows, "reason": None, **pairs}


def _pair_entry(
    pair: tuple[str, str], scores: Sequence[float], battles: Entry | None, seed: int
) -> dict[str, object]:
    ends = mean_interval(scores, seed=seed)
    reason = None
    if not scores and pair[1] != REFERENCE:
        reason = NO_COMMON_PROCESS if battles is None else None if battles["examples"] else NO_BATTLES_LEFT
    unscored = Counter(example["unscored"] for example in (battles or {"examples": ()})["examples"])
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
        **({"wanted": battles["wanted"]} if battles and "wanted" in battles else {}),
    }


def agreement_lines(entry: AgreementEntry) -> list[str]:
    ks = sorted({row["k"] for row in entry["rows"]})
    by = f", answers scored by {entry['label']}" if entry["label"] else ""
    lines = [f"agreement with {entry['downstream']}, Kendall's tau and Spearman's rho{by}"]
    lines += _agreement_table({f"k = {k}": _agreements_at(k, entry) for k in ks}) if ks else []
    missing_by_reason: dict[str, set[str]] = {}
    for row in entry["missing"]:
        first_line = row["reason"].partition("\n")[0]
        missing_by_reason.setdefault(first_line, set()).add(f"{row['annotator']} {row['measure']}")
    return lines + [
        f"no {', '.join(sorted(missing))}: {reason}" for reason, missing in missing_by_reason.items()
    ]


def agreement_by_system_lines(tests: Iterable[TestEntry]) -> list[str]:
    """Return the tables of a parametrized test side by side: for each k a column for each system."""
    groups: dict[tuple[Any, ...], list[tuple[Mapping[str, str], AgreementEntry]]] = {}
    for test in tests:
        for entry in test.get("agreement", ()) if test.get("system") else ():
            key = (test["function"], (test["evalset"] or {}).get("digest"), entry["label"])
            groups.setdefault(key, []).append((test["system"], entry))
    lines = []
    for (function, _, label), group in groups.items():
        names = [" × ".join(system.values()) for system, _ in group]
        if len(set(names)) < 2 or len(set(names)) < len(names):  # noqa: PLR2004 - two systems are compared
            continue
        by = f", answers scored by {label}" if label else ""
        for k in sorted({row["k"] for _, entry in group for row in entry["rows"]}):
            lines.append(f"{function}: agreement with {group[0][1]['downstream']} at k = {k} by system{by}")
            columns = {name: _agreements_at(k, entry) for name, (_, entry) in zip(names, group, strict=True)}
            lines += [f"  {line}" for line in _agreement_table(columns)]
    return lines


def systems_lines(tests: Iterable[TestEntry], matrix: Iterable[Entry], ratings: Sequence[Entry]) -> list[str]:
    return [*matrix_lines(matrix), *agreement_by_system_lines(tests), *ratings_lines(ratings)]


def _agreements_at(k: int, entry: AgreementEntry) -> dict[str, AgreementRow]:
    return {f"{row['annotator']} {row['measure']}": row for row in entry["rows"] if row["k"] == k}


def _agreement_table(columns: Mapping[str, Mapping[str, AgreementRow]]) -> list[str]:
    """Return a table with a column for each cut-off, or each system."""
    head = ("", *(f"{name:>11}" for name in columns))
    labels = dict.fromkeys(chain.from_iterable(columns.values()))
    cells = [(label, *(_tau_and_rho(rows.get(label)) for rows in columns.values())) for label in labels]
    return align_columns([head, *cells], right=range(1, len(head)))


def _tau_and_rho(row: AgreementRow | None) -> str:
    """Return the text of a cell, such as ".58 .71"; empty if the row has no such cell."""
    if row is None:
        return ""
    return " ".join("-" if value is None else format_rho(value) for value in (row["tau"], row["rho"]))
