"""Ratings of the systems of a parametrized test."""

from math import log10
from typing import Any

import pytest

from pytest_rageval.reports.systems import ratings_entries, ratings_lines


def _test(nodeid: str, *scores: dict[str, Any], digest: str = "0") -> dict[str, Any]:
    return {
        "nodeid": nodeid,
        "evalset": {"name": "e.jsonl", "size": 4, "digest": digest},
        "scores": list(scores),
    }


def _entry(results: str, spec: str = "arena.win@5") -> dict[str, Any]:
    """A score's entry by a letter an example: won, tied, lost, or unscored."""
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
    """One wins 3 of 4 against the reference, one 1.5 of 4: 400 log10 of the odds apart from it, 1000 in the mean."""
    tests = [
        _test("t.py::test_it[bm25]", _entry("wlltu")),
        _test("t.py::test_it[dense]", _entry("wwwl")),
    ]
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
    """Both scores of a test tell of the same battles."""
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
    """One test with two cut-offs, or two tests with one each."""
    tests = [_test("t.py::test_it", _entry("wl", "arena.win@1"), _entry("wl", "arena.win@10"))]
    (table,) = ratings_entries(tests, seed=0)
    assert {row["system"] for row in table["systems"]} == {"@1", "@10", "reference"}


def test_what_cannot_be_rated_says_why() -> None:
    """A system that lost every battle would be infinitely worse."""
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
    """Other functions, other eval sets, other scores and slices are no rivals."""
    assert ratings_entries(tests, seed=0) == []
