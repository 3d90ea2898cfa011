"""`rageval history`: the runs of a history on the terminal, as JSON and as a page."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.cli import main
from pytest_rageval.extensions.history.history import append_run
from tests.unit.extensions.history.runs import NODEID, line, score

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Callable[..., str]:
    """Return a function that writes runs as the history h.jsonl, and returns what the command prints of it."""
    monkeypatch.chdir(tmp_path)

    def run(*runs: dict[str, Any], arguments: Sequence[str] = (), status: int = 0) -> str:
        for each in runs:
            append_run(Path("h.jsonl"), each)
        assert main(["history", "h.jsonl", *arguments]) == status
        return "".join(capsys.readouterr())

    return run


RUNS = (
    line(2, {"recall@3": score(0.5, "fail", baseline=0.9)}, stopped=True),
    line(0, {"recall@3": score(0.9), "mrr": score(0.7, None)}),
    line(1, {"recall@3": score(0.95)}),
)


def test_a_table_has_a_line_for_each_score(show):
    assert show(*RUNS) == (
        "3 runs from 2026-11-01 09:00 to 2026-11-01 11:00, the last of 2000000\n"
        "\n"
        "test_r.py::test_found\n"
        "  score     lowest  highest  baseline  before   last  runs  verdict  trend\n"
        "  mrr        0.700    0.700         -       -  0.700     1  -        ▅\n"
        "  recall@3   0.500    0.950     0.900   0.950  0.500     3  fail     ▇█▁\n"
        "  note: not in the last run: mrr\n"
        "\n"
        "note: 1 run ended early, and may lack tests\n"
    )


def test_what_failed_the_last_run_without_a_score_is_said(show):
    printed = show(line(0, missing=1), line(1, suite="fail"))
    assert printed.endswith("\nthe last run failed: the suite got worse\n")
    assert "missing" not in printed


def test_the_value_before_is_the_last_one_that_is_known(show):
    """The "before" column has the last known value: a run without a value is only a gap in the trend."""
    printed = show(*(line(number, {"s": score(mean)}) for number, mean in enumerate([0.25, None, 0.5])))
    assert "  s       0.250    0.500         -   0.250  0.500     3  pass" in printed


def test_fewer_runs_and_scores(show):
    printed = show(*RUNS, arguments=["--score", "recall@3", "--test", "found", "--last", "2"])
    assert "2 runs" in printed
    assert "mrr" not in printed
    assert "Did you mean recall@3?" in show(arguments=["--score", "recal@3"], status=2)


def test_a_change_of_the_eval_set_is_a_note(show):
    runs = [line(n, {"a": score(0.5), "b": score(0.5)}) for n in range(2)]
    runs[1]["tests"][NODEID]["evalset"] = "e2"
    note = "note: the eval set changed in 1000000: means before it are of other questions\n"
    assert show(*runs).count(note) == 1


def test_an_empty_history_has_no_runs(show):
    Path("h.jsonl").touch()
    assert show() == "The history has no runs.\n"
    Path("h.jsonl").write_text(f"{json.dumps(line(0))}\n{{\n", encoding="utf-8")
    assert "h.jsonl, line 2: it is not JSON" in show(status=2)


def test_texts_of_the_file_cannot_steer_the_terminal(show):
    tests = {"t\x1b[2J": {"outcome": "passed", "scores": {"s\n::a::b": score(1.0)}}}
    printed = show(line(0, tests=tests))
    assert "\x1b" not in printed
    assert "\n::" not in printed
