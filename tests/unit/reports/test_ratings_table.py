"""Ratings of the systems of a parametrized test."""

from math import log10
from typing import Any

import pytest

from pytest_rageval.reports.systems import pairs_table, ratings_entries, ratings_lines


def _test(nodeid: str, *scores: dict[str, Any], digest: str = "0") -> dict[str, Any]:
    return {
        "nodeid": nodeid,
        "evalset": {"name": "e.jsonl", "size": 4, "digest": digest},
        "scores": list(scores),
    }


def _entry(results: str, spec: str = "arena.win@5") -> dict[str, Any]:
    return {
        "spec": spec,
        "where": {},
        "mean": 0.5,
        **({"arena": {}} if spec.startswith("arena") else {}),
        "examples": [
            {"id": f"q{n}", "score": None if letter == "u" else float(letter == "w")}
            | {
                "counts": {
                    "wins": int(letter == "w"),
                    "ties": int(letter == "t"),
                    "losses": int(letter == "l"),
                }
            }
            for n, letter in enumerate(results)
        ],
    }


def test_ratings_are_those_of_hand_computation() -> None:
    """400 log10 of the odds of winning 3 of 4, and 1.5 of 4, shifted to a mean of 1000."""
    tests = [_test("t.py::test_it[bm25]", _entry("wlltu")), _test("t.py::test_it[dense]", _entry("wwwl"))]
    (table,) = ratings_entries(tests, seed=0)
    dense, bm25 = 400 * log10(3), 400 * log10(1.5 / 2.5)
    middle = (dense + bm25) / 3
    assert [(row["system"], row["battles"]) for row in table["systems"]] == [
        ("dense@5", 4),
        ("reference", 8),
        ("bm25@5", 4),
    ]
    expected = [1000 + dense - middle, 1000 - middle, 1000 + bm25 - middle]
    assert [row["rating"] for row in table["systems"]] == pytest.approx(expected, abs=1e-6)
    assert all(row["ci95"][0] < row["rating"] < row["ci95"][1] for row in table["systems"])
    assert (table["test"], table["evalset"], table["reason"]) == ("t.py::test_it", "e.jsonl", None)
    assert table == ratings_entries(tests, seed=0)[0]
    assert table != ratings_entries(tests, seed=1)[0]
    low, high = table["systems"][0]["ci95"]
    assert ratings_lines([table])[:2] == [
        "ratings of the systems of t.py::test_it  (e.jsonl, battles against the reference alone, Elo scale, mean 1000)",
        f"    dense@5      {expected[0]:.0f}  95% interval {low:.0f} to {high:.0f}, 4 battles",
    ]


def test_a_battle_counts_once() -> None:
    once = [_test(f"t.py::test_it[{name}]", _entry(fought)) for name, fought in (("a", "wwl"), ("b", "wll"))]
    again = [
        {
            **test,
            "scores": [*test["scores"], *({**entry, "spec": "arena.win_tie@5"} for entry in test["scores"])],
        }
        for test in once
    ]
    assert ratings_entries(again, seed=0) == ratings_entries(once, seed=0)


def test_each_cutoff_is_a_system() -> None:
    tests = [_test("t.py::test_it", _entry("wl", "arena.win@1"), _entry("wl", "arena.win@10"))]
    (table,) = ratings_entries(tests, seed=0)
    assert {row["system"] for row in table["systems"]} == {"@1", "@10", "reference"}


def test_what_cannot_be_rated_says_why() -> None:
    """If a system lost every battle, there are no ratings but a reason: its rating would be minus infinity."""
    tests = [_test("t.py::test_it[a]", _entry("wl")), _test("t.py::test_it[b]", _entry("ll"))]
    (table,) = ratings_entries(tests, seed=0)
    assert table["systems"] == []
    assert "won every battle against b@5" in table["reason"]
    assert ratings_lines([table])[1:] == [f"    {table['reason']}"]


@pytest.mark.parametrize(
    "tests",
    [
        [],
        [_test("t.py::test_it", _entry("wl"))],
        [_test("t.py::test_it[a]", _entry("wl")), _test("t.py::test_other[b]", _entry("wl"))],
        [
            _test("t.py::test_it[a]", _entry("wl"), digest="0"),
            _test("t.py::test_it[b]", _entry("wl"), digest="1"),
        ],
        [_test(f"t.py::test_it[{name}]", _entry("wl", "answer.correct@5")) for name in "ab"],
        [_test(f"t.py::test_it[{name}]", {**_entry(""), "mean": None}) for name in "ab"],
        [_test(f"t.py::test_it[{name}]", {**_entry("wl"), "where": {"topic": name}}) for name in "ab"],
    ],
)
def test_one_system_alone_is_not_rated(tests: list[dict[str, Any]]) -> None:
    """Systems are rated only if they share the test function, the eval set, an arena score, and no slice."""
    assert ratings_entries(tests, seed=0) == []


def _battles(system: str, opponent: str, results: str) -> dict[str, Any]:
    """Return the battles of a pair, given a letter per question as in `_entry`, from the side of `system`."""
    value = {"w": 1.0, "t": 0.5, "l": 0.0, "u": None}
    return {
        "system": system,
        "opponent": opponent,
        "position_bias": None,
        "examples": [
            {"id": f"q{n}", "score": value[letter], "unscored": "no rating" if letter == "u" else None}
            for n, letter in enumerate(results)
        ],
    }


def _three(**battles: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            **_test(f"t.py::test_it[{name}]", _entry("wwll"), _entry("wwll", "arena.win_tie@5")),
            "battles": system_battles,
        }
        for name, system_battles in battles.items()
    ]


def test_battles_between_systems_are_joined_into_one_rating() -> None:
    """At the maximum of the likelihood, expected results add up to each system's observed ones."""
    tests = _three(
        a=[],
        b=[_battles("a@5", "b@5", "wwwl")],
        c=[_battles("a@5", "c@5", "wwtu"), _battles("b@5", "c@5", "")],
    )
    (table,) = ratings_entries(tests, seed=0)
    rating = {row["system"]: row["rating"] for row in table["systems"]}
    assert list(rating) == ["a@5", "reference", "b@5", "c@5"]
    assert sum(rating.values()) == pytest.approx(4000)
    fought = {("a@5", "b@5"): (4, 3), ("a@5", "c@5"): (3, 2.5)} | {
        (f"{name}@5", "reference"): (4, 2) for name in "abc"
    }
    for name in rating:
        expected = observed = 0.0
        for (one, other), (n, score) in fought.items():
            if name in {one, other}:
                share = 1 / (1 + 10 ** ((rating[other] - rating[one]) / 400))
                expected += n * (share if name == one else 1 - share)
                observed += score if name == one else n - score
        assert expected == pytest.approx(observed, abs=1e-6)
    assert {row["system"]: row["battles"] for row in table["systems"]} == {
        "a@5": 11,
        "b@5": 8,
        "c@5": 7,
        "reference": 12,
    }
    pairs = {(pair["system"], pair["opponent"]): pair for pair in table["pairs"]}
    assert list(pairs) == [
        *((f"{name}@5", "reference") for name in "abc"),
        *(("a@5", "b@5"), ("a@5", "c@5"), ("b@5", "c@5")),
    ]
    one, missing = pairs["a@5", "c@5"], pairs["b@5", "c@5"]
    assert [one[key] for key in ("battles", "wins", "ties", "losses", "score")] == [3, 2, 1, 0, 2.5 / 3]
    assert (one["ci95"][0] < 2.5 / 3 <= one["ci95"][1], one["unscored"]) == (True, {"no rating": 1})
    assert (missing["score"], missing["ci95"], "less than" in missing["reason"]) == (None, None, True)
    lines = "\n".join(ratings_lines([table]))
    assert "(e.jsonl, battles between systems too, Elo scale, mean 1000)" in lines
    assert (
        "2 pairs of systems with 3 or 4 battles each\n    1 × unscored: no rating\n    no battles of b@5 and"
        in lines
    )


def test_battles_that_the_questions_do_not_allow_are_named() -> None:
    """If there are fewer questions than requested battles, the report has the requested number, and a line says so."""
    battles = {**_battles("a@5", "b@5", "wwwl"), "wanted": 500}
    (table,) = ratings_entries(_three(a=[], b=[battles], c=[_battles("a@5", "c@5", "wwtl")]), seed=0)
    assert [pair.get("wanted") for pair in table["pairs"]] == [None, None, None, 500, None, None]
    asks = "--rageval arena_pairs=N requests 500 battles a pair; no more questions have a reference"
    assert asks in "\n".join(ratings_lines([table]))


def test_the_matrix_of_pairs_is_antisymmetric() -> None:
    tests = _three(a=[], b=[_battles("a@5", "b@5", "wwwl")])
    (table,) = ratings_entries(tests, seed=0)
    names, cells = pairs_table(table)
    assert names == ["a@5", "reference", "b@5"]
    assert [[cell and cell["score"] for cell in row] for row in cells] == [
        [None, 0.5, 0.75],
        [0.5, None, 0.5],
        [0.25, 0.5, None],
    ]
    low, high = cells[0][2]["ci95"]
    assert cells[2][0]["ci95"] == [1 - high, 1 - low]
    assert low < 0.75 < high


def test_pairs_of_what_cannot_be_rated_are_shown() -> None:
    """If systems cannot be rated because one lost every battle, their pairs are shown, sorted by name."""
    tests = [
        {**_test("t.py::test_it[b]", _entry("wl")), "battles": []},
        {**_test("t.py::test_it[a]", _entry("ll")), "battles": [_battles("a@5", "b@5", "l")]},
    ]
    (table,) = ratings_entries(tests, seed=0)
    assert table["systems"] == []
    names, cells = pairs_table(table)
    assert names == ["a@5", "b@5", "reference"]
    assert [cell and cell["score"] for cell in cells[0]] == [None, 0, 0]
    assert "    a@5        -               0.00 0.00–0.79  0.00 0.00–0.66" in ratings_lines([table])


def test_pairs_of_different_processes_are_named() -> None:
    (table,) = ratings_entries(_three(a=[], b=[]), seed=0)
    assert [row["system"] for row in table["systems"]] == ["a@5", "b@5", "reference"]
    assert ratings_lines([table])[-1] == (
        "    no battles of a@5 and b@5: their battles ended as an error, or no process had the answers of both (run "
        "their tests in one: without -n, or with --dist loadfile)"
    )


def test_battles_between_systems_may_rate_what_the_reference_does_not() -> None:
    tests = [
        {**_test("t.py::test_it[a]", _entry("wl")), "battles": []},
        {**_test("t.py::test_it[b]", _entry("ll")), "battles": [_battles("a@5", "b@5", "wl")]},
    ]
    (table,) = ratings_entries(tests, seed=0)
    assert (len(table["systems"]), table["reason"]) == (3, None)


@pytest.mark.parametrize("order", ["abc", "cab", "acb"])
def test_a_system_that_is_gated_on_slices_alone_keeps_its_battles(order: str) -> None:
    tests = {
        name: {**_test(f"t.py::test_it[{name}]", _entry("wwll")), "battles": list[Any]()} for name in order
    }
    tests["c"]["scores"] = [{**_entry("ww"), "where": {"topic": "billing"}}]
    results = {("a", "b"): "wwwl", ("a", "c"): "wltl", ("b", "c"): "wwtl"}
    for (one, other), fought in results.items():
        tests[max(one, other, key=order.index)]["battles"].append(_battles(f"{one}@5", f"{other}@5", fought))
    broken = {"nodeid": "t.py::test_it[d]", "evalset": None, "scores": []}
    (table,) = ratings_entries([broken, *tests.values()], seed=0)
    assert {row["system"]: row["battles"] for row in table["systems"]} == {
        "a@5": 12,
        "b@5": 12,
        "c@5": 8,
        "reference": 8,
    }
    fought = {(pair["system"], pair["opponent"]): pair["battles"] for pair in table["pairs"]}
    assert [fought[f"{one}@5", f"{other}@5"] for one, other in results] == [4, 4, 4]
    assert fought["c@5", "reference"] == 0
