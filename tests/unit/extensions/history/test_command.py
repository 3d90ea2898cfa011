"""`rageval history`: the runs of a history on the terminal, as JSON and as a page."""

import json
from pathlib import Path

import pytest

from pytest_rageval.cli import main
from pytest_rageval.extensions.history.history import append_run
from tests.unit.extensions.history.runs import NODEID, line, score

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def history(tmp_path: Path) -> str:
    path = tmp_path / "history.jsonl"
    append_run(path, line(2, {"recall@3": score(0.5, "fail", baseline=0.9)}, stopped=True))
    append_run(path, line(0, {"recall@3": score(0.9), "mrr": score(0.7, None)}))
    append_run(path, line(1, {"recall@3": score(0.95)}))
    return str(path)


def test_a_table_has_a_line_for_each_score(history: str, capsys: Capture) -> None:
    assert main(["history", history]) == 0
    assert capsys.readouterr().out == (
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


def test_the_value_before_is_the_last_one_that_is_known(tmp_path: Path, capsys: Capture) -> None:
    """The "before" column has the last known value: a run without a value is only a gap in the trend."""
    path = tmp_path / "h.jsonl"
    for number, mean in enumerate([0.25, None, 0.5]):
        append_run(path, line(number, {"s": score(mean)}))
    assert main(["history", str(path)]) == 0
    assert "  s       0.250    0.500         -   0.250  0.500     3  pass" in capsys.readouterr().out


def test_fewer_runs_and_scores(history: str, capsys: Capture) -> None:
    assert main(["history", history, "--score", "recall@3", "--test", "found", "--last", "2"]) == 0
    out = capsys.readouterr().out
    assert "2 runs" in out
    assert "mrr" not in out
    assert main(["history", history, "--score", "recal@3"]) == 2
    assert "Did you mean recall@3?" in capsys.readouterr().err


def test_a_change_of_the_eval_set_is_a_note(tmp_path: Path, capsys: Capture) -> None:
    changed = line(1, {"a": score(0.5), "b": score(0.5)})
    changed["tests"][NODEID]["evalset"] = "e2"
    for run in (line(0, {"a": score(0.5), "b": score(0.5)}), changed):
        append_run(tmp_path / "h.jsonl", run)
    main(["history", str(tmp_path / "h.jsonl")])
    note = "note: the eval set changed in 1000000: means before it are of other questions\n"
    assert capsys.readouterr().out.count(note) == 1


def test_an_empty_history_has_no_runs(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "h.jsonl"
    path.touch()
    assert main(["history", str(path)]) == 0
    assert capsys.readouterr().out == "The history has no runs.\n"
    path.write_text(f"{json.dumps(line(0))}\n{{\n", encoding="utf-8")
    assert main(["history", str(path)]) == 2
    assert f"{path}, line 2: it is not JSON" in capsys.readouterr().err


def test_texts_of_the_file_cannot_steer_the_terminal(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "h.jsonl"
    append_run(path, line(0, tests={"t\x1b[2J": {"outcome": "passed", "scores": {"s\n::a::b": score(1.0)}}}))
    main(["history", str(path)])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\n::" not in out
