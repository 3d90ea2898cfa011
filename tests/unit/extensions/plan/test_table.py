"""The table of the requests and costs that a run would have."""

from collections import Counter

import pytest

from pytest_rageval.extensions.plan.plugin import plan_lines
from pytest_rageval.models.usage import Usage

DEPENDENT = (
    "10 of the live requests are an upper bound: they depend on replies that do not exist yet (a judge's request on "
    "an answer, the repair of a rating)."
)


def test_the_whole_table() -> None:
    planned = [
        ("t.py::test_one", Usage(requests=1200, cached=200, live=1000, tokens_in=123456, tokens_out=16000)),
        (
            "t.py::test_two",
            Usage(requests=20, live=20, dependent=10, tokens_in=900, tokens_out=20, cost_usd=0.01234),
        ),
        ("t.py::test_three", Usage(requests=5, cached=5)),
        ("t.py::test_four", Usage()),
    ]
    assert plan_lines(planned) == [
        "    requests  cached     live  tokens in  tokens out       USD",
        "t.py::test_one",
        "       1,200     200    1,000    123,456    ≤ 16,000         0",
        "t.py::test_two",
        "        ≤ 20       0     ≤ 20      ≤ 900        ≤ 20  ≤ 0.0123",
        "t.py::test_three",
        "           5       5        0          0           0         0",
        "in total",
        "     ≤ 1,225     205  ≤ 1,020  ≤ 124,356    ≤ 16,020  ≤ 0.0123",
        "1 other test sends no requests.",
        DEPENDENT,
        "Tokens in are counted by an estimate; tokens out are bounded, and mostly far fewer.",
    ]


def test_a_test_that_ended_as_an_error_is_no_test_without_requests() -> None:
    """A test that ended as an error is not counted as one without requests: its requests are not known completely."""
    planned = [("t::a", Usage(requests=3, cached=3)), ("t::b", Usage()), ("t::c", Usage()), ("t::d", Usage())]
    assert plan_lines(planned, failed={"t::b"})[-2:] == [
        "2 other tests send no requests.",
        "The plan may lack requests of 1 test that ended as an error.",
    ]
    assert plan_lines(planned, failed={"t::a", "t::b", "t::c", "t::d"})[-1] == (
        "The plan may lack requests of 4 tests that ended as an error."
    )


def test_a_plan_without_live_requests_has_no_notes() -> None:
    for planned in ([], [("t", Usage(requests=3, cached=3))]):
        lines = plan_lines(planned)
        assert lines[-2] == "in total"
        assert lines[-1].split()[-3:] == ["0", "0", "0"]
        assert len(lines) == 3 + 2 * len(planned)


@pytest.mark.parametrize(
    ("usage", "cells", "note"),
    [
        (
            Usage(requests=1, live=1, unbounded=1, unpriced=1),
            "unbounded  unknown",
            "Nothing bounds the length of 1 ",
        ),
        (
            Usage(requests=1, live=1, unpriced=1, tokens_out=5),
            "≤ 5  unknown",
            "The cost of 1 reply is not known",
        ),
        (
            Usage(requests=1, live=1, unbounded=1, cost_usd=0.5),
            "unbounded  ≤ 0.5000",
            "--rageval max_tokens=N, or max_output",
        ),
    ],
)
def test_unknown_costs_are_reported(usage: Usage, cells: str, note: str) -> None:
    lines = plan_lines([("t", usage)])
    assert sum(" ".join(line.split()).endswith(" ".join(cells.split())) for line in lines) == 2
    assert any(note in line for line in lines)


def test_notes_for_the_reader_have_counts() -> None:
    planned = [
        ("t", Usage(remarks=Counter({"seldom": 1, "often": 2}))),
        ("u", Usage(remarks=Counter(often=3))),
    ]
    assert plan_lines(planned)[-2:] == ["5 × often", "1 × seldom"]
