"""`rageval evalset from-traces`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.cli import main
from pytest_rageval.evalsets import load
from tests.evalset_files import GOLDEN
from tests.trace_files import ANSWER, QUESTION, lines, phoenix
from tests.unit.cli.folders import Done

Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)

    def make(records: list[Any], *arguments: str) -> Done:
        (tmp_path / "spans.jsonl").write_text(lines(records), encoding="utf-8")
        status = main(["evalset", "from-traces", "spans.jsonl", "--output", "evalset.jsonl", *arguments])
        return Done(status, *capsys.readouterr())

    return make


def test_an_eval_set_is_written_that_can_be_read(run: Run) -> None:
    done = run(phoenix())
    assert (done.status, done.out) == (
        0,
        (
            "evalset.jsonl: 1 question of 1 trace\n"
            "1 answer written as answer_given, not as a reference answer (--answers-are-references changes this)\n"
            "None has gold passages yet: add them, and check with `rageval evalset check`.\n"
        ),
    )
    (example,) = load("evalset.jsonl")
    assert (example.id, example.question, example.gold, example.reference) == ("t1", QUESTION, (), None)
    assert [passage["id"] for passage in example.extra["retrieved"]] == ["d1", "d2"]


def test_what_is_left_out_or_missing_is_counted(run: Run) -> None:
    again, failed = phoenix("t2", time="2026-03-02T10:00:0"), phoenix("t3", failed="CHAIN")
    other = phoenix("t4", question="When?", passages=[(None, "At ten.", 1.0), (None, "At noon.", 0.5)])
    done = run([*phoenix(), *again, *failed, *other])
    assert done.out.splitlines()[:4] == [
        "evalset.jsonl: 2 questions of 4 traces",
        "  2 × retrieved passages without an id: known by their text",
        "  1 × the trace failed: left out",
        "  1 × the same question again: the last one with a retrieval is kept",
    ]
    assert [example.id for example in load("evalset.jsonl")] == ["t2", "t4"]


def test_answers_may_be_references(run: Run) -> None:
    item = {"id": "i1", "inputs": {"question": "When?"}, "outputs": {"answer": "At ten."}}
    done = run([*phoenix(), item], "--answers-are-references")
    assert "2 references (expected by data sets: 1, given by the application: 1)\n" in done.out
    assert [example.reference for example in load("evalset.jsonl")] == ["At ten.", ANSWER]
    run([*phoenix(), item], "--force")
    assert [example.reference for example in load("evalset.jsonl")] == ["At ten.", None]


def test_traces_without_a_question_write_nothing(run: Run) -> None:
    done = run(phoenix(failed="CHAIN"))
    assert (done.status, done.err.splitlines()[:2]) == (
        2,
        ["No question was found in 1 trace, nothing was written.", "  1 × the trace failed: left out"],
    )
    assert not Path("evalset.jsonl").exists()


def test_a_file_that_exists_is_kept(run: Run) -> None:
    """An existing output file is not replaced without `--force`: gold passages may have been added to it."""
    Path("evalset.jsonl").write_text("mine")
    done = run(phoenix())
    assert (done.status, Path("evalset.jsonl").read_text()) == (2, "mine")
    assert "evalset.jsonl exists already" in done.err


def test_an_eval_set_is_no_export(run: Run) -> None:
    """An eval set as the input is an error: its gold passages would be lost."""
    done = run([{"id": "a", "question": "When?", "gold": [{"id": "d1"}]}])
    assert (done.status, done.err) == (
        2,
        (
            "spans.jsonl line 1 is an example of an eval set already.\n"
            "Give exports of traces, spans or data sets.\n"
        ),
    )


def test_two_questions_with_one_id_are_named(run: Run) -> None:
    items = [{"id": 1, "input": {"question": text}, "output": {}} for text in ("When?", "Where?")]
    done = run(items)
    assert done.status == 2
    assert 'spans.jsonl line 2: the id "1" is already that of spans.jsonl line 1' in done.err


def test_texts_that_utf8_cannot_encode_are_stored(run: Run) -> None:
    (Path("spans.jsonl")).unlink(missing_ok=True)
    run(phoenix(question="Where \ud800?"))
    assert json.loads(Path("evalset.jsonl").read_text())["question"] == "Where \ud800?"


def test_gold_passages_of_goldens_are_written(run: Run) -> None:
    golden = {**GOLDEN, "input": "Who?", "context": None}
    done = run([GOLDEN, golden])
    assert done.status == 0
    assert "1 of 2 have no gold passages yet: add them" in done.out
    made, _ = load("evalset.jsonl")
    assert [gold.text for gold in made.gold] == GOLDEN["context"]
    assert (made.metadata, made.extra["source_file"]) == (GOLDEN["additional_metadata"], "made.md")
    assert "gold passages" not in run([GOLDEN], "--force").out
