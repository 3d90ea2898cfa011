"""`rageval monitor`, with a judge on a local HTTP server."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_rageval.cli import main
from tests.llm_server import LLMServer
from tests.trace_files import lines, phoenix
from tests.unit.cli.folders import Done

pytestmark = pytest.mark.slow

Monitor = Callable[..., Done]


def traces(day: int, number: int = 40, good: int = 40) -> list[dict[str, object]]:
    """Traces of a day in March, of which the first `good` have a passage with the answer."""
    spans = []
    for n in range(number):
        text = "The answer is here." if n < good else "Nothing of use."
        passages = [("d1", text, 0.9), ("d2", "Dogs are welcome.", 0.4)]
        time = f"2026-03-{day:02}T10:{n:02}:0"
        spans += phoenix(f"t{day}-{n}", passages=passages, question=f"Question {n}?", time=time)
    return spans


@pytest.fixture
def monitor(
    llm: LLMServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Monitor:
    """A function that writes the traces of a day, and monitors them, in the temporary folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    llm.model = lambda prompt: "Yes" if "answer is here" in prompt else "No"

    def run(spans: list[dict[str, object]], day: int, *arguments: str, score: str = "sufficient@2") -> Done:
        (tmp_path / "spans.jsonl").write_text(lines(spans), encoding="utf-8")
        words = ["monitor", "spans.jsonl", "--score", score, "--max-drop", "0.05"]
        words += ["--day", f"2026-03-{day:02}", "--reference-days", "2"]
        status = main([*words, "--judge-model", "j", "--base-url", llm.url, *arguments])
        return Done(status, *capsys.readouterr())

    return run


def test_a_worse_third_day_is_an_alarm(monitor: Monitor, tmp_path: Path) -> None:
    first, second, third = monitor(traces(1), 1), monitor(traces(2), 2), monitor(traces(3, good=10), 3)
    assert (first.status, second.status, third.status) == (0, 0, 1), third
    assert first.out == (
        "2026-03-01: 40 of 40 questions drawn with the seed 0, from 40 traces\n"
        "40 replies: 0 cached, 40 live\n"
        "score          mean   n   reference  evidence\n"
        "sufficient@2  1.000  40  day 1 of 2         -\n"
        "monitor.jsonl: 2026-03-01 added\n"
    )
    assert "ALARM: sufficient@2 fell by more than 0.05: from 1.000, at least 0.9" in third.out
    assert "to 0.250 in the last 1 day." in third.out
    entries = [json.loads(line) for line in (tmp_path / "monitor.jsonl").read_text().splitlines()]
    scores = [entry["tests"]["monitor"]["scores"]["sufficient@2"] for entry in entries]
    assert [score["counts"] for score in scores] == [[[1.0, 40]], [[1.0, 40]], [[0.0, 30], [1.0, 10]]]
    assert [score["verdict"] for score in scores] == ["pass", "pass", "fail"]


def test_an_alarm_stays_until_a_new_reference_begins(monitor, capsys):
    for day, good in enumerate([40, 40, 0, 40, 40], 1):
        done = monitor(traces(day, good=good), day)
    assert (done.status, "ALARM" in done.out) == (1, True)
    done = monitor(traces(6), 6, "--since", "2026-03-04")
    assert (done.status, "ALARM" in done.out) == (0, False), done
    assert "of 40" in done.out
    assert main(["history", "monitor.jsonl"]) == 0
    assert "sufficient@2   0.000    1.000" in capsys.readouterr().out


def test_a_day_that_is_there_is_replaced(monitor: Monitor, tmp_path: Path) -> None:
    history = tmp_path / "monitor.jsonl"
    run = {"schema": 1, "time": "2026-03-01T08:00:00+00:00", "tests": {"a::b": {"scores": {}}}}
    history.write_text(f"{json.dumps(run)}\n")
    monitor(traces(1, good=0), 1)
    monitor(traces(2), 2)
    done = monitor(traces(1), 1)
    assert done.out.endswith("monitor.jsonl: 2026-03-01 replaced\n")
    first, *days = [json.loads(line) for line in history.read_text().splitlines()]
    assert first == run
    assert sorted(
        (day["time"][:10], day["tests"]["monitor"]["scores"]["sufficient@2"]["mean"]) for day in days
    ) == [("2026-03-01", 1.0), ("2026-03-02", 1.0)]


def test_a_sample_is_drawn_of_the_day_alone(monitor: Monitor, llm: LLMServer) -> None:
    """A question that was asked again on the next day counts on both; the draw depends on day and seed."""
    both = [*traces(1), *traces(2, good=0)]
    assert "1.000  40" in monitor(both, 1).out
    done = monitor(both, 2, "--size", "5")
    assert done.out.startswith("2026-03-02: 5 of 40 questions drawn with the seed 0, from 80 traces\n")
    drawn = [{line for line in prompt.splitlines() if "Question" in line} for prompt in llm.prompts[-5:]]
    monitor(both, 2, "--size", "5", "--seed", "1", "--history", "other.jsonl")
    again = [{line for line in prompt.splitlines() if "Question" in line} for prompt in llm.prompts[-5:]]
    assert drawn != again
    assert monitor(both, 2, "--size", "5").out.splitlines()[1] == "5 replies: 5 cached, 0 live"


def test_answers_are_those_of_the_traces(monitor: Monitor, llm: LLMServer) -> None:
    llm.model = lambda _: '{"explanation": "Fair.", "grade": 4}'
    done = monitor(traces(1, number=3), 1, score="judged.faithfulness@2")
    assert done.status == 0, done
    assert all("On Main Street." in prompt for prompt in llm.prompts)
    done = monitor(traces(1, number=3), 1, score="judged.faithfulness@1")
    assert done.status == 2
    assert "answers from its own 2 passages" in done.err


def test_scores_of_single_passages_have_answers_of_a_model(monitor: Monitor, llm: LLMServer) -> None:
    done = monitor(traces(1, number=3), 1, "--model", "m", score="udcg@2")
    assert done.status == 0, done
    assert not any("On Main Street." in prompt for prompt in llm.prompts)


def test_another_history_is_the_reference(monitor: Monitor) -> None:
    monitor(traces(1), 1, "--history", "reference.jsonl")
    done = monitor(traces(2, good=0), 2, "--reference", "reference.jsonl")
    assert (done.status, "ALARM" in done.out) == (1, True), done
    done = monitor(traces(2), 2, "--reference", "reference.jsonl", score="answer.abstained@2")
    assert "reference.jsonl has no day with answer.abstained@2." in done.err


def test_another_judge_is_named_before_anything_is_paid(monitor: Monitor, llm: LLMServer) -> None:
    monitor(traces(1), 1)
    asked = len(llm.prompts)
    done = monitor(traces(2), 2, "--judge-model", "other")
    assert (done.status, len(llm.prompts)) == (2, asked)
    assert "sufficient@2 was measured in another way on 2026-03-01" in done.err
    assert "other" in done.err


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ("recall@5", "recall@5 needs gold passages, which no trace has."),
        ("rbo@5", "rbo@5 needs a baseline, which no trace has."),
        ("robust.rbo@5", "robust.rbo@5 needs perturbations, which no trace has."),
        ("context.tokens@5", "context.tokens@5 has no largest value"),
        ("suficient@5", "Did you mean sufficient?"),
    ],
)
def test_scores_that_traces_do_not_have_are_refused(monitor, llm, score, message):
    done = monitor(traces(1), 1, score=score)
    assert (done.status, llm.prompts) == (2, [])
    assert message in done.err


def test_a_day_without_traces_is_said(monitor: Monitor, tmp_path: Path) -> None:
    done = monitor(traces(1), 5)
    assert done.status == 2
    assert done.err.startswith("There are no questions of 2026-03-05 to score, in 40 traces.\n")
    assert "They are of 2026-03-01 to 2026-03-01. Name another day with --day" in done.err
    untimed = [{**span, "start_time": None} for span in traces(1)]
    done = monitor(untimed, 1)
    assert "40 × without a time: left out\nNone has a time." in done.err
    assert not (tmp_path / "monitor.jsonl").exists()


def test_files_that_cannot_be_used_are_named(monitor: Monitor, tmp_path: Path) -> None:
    assert main(["monitor", "none/*.jsonl", "--score", "sufficient@2", "--max-drop", "0"]) == 2
    done = monitor([{"a": 1}], 1)
    assert done.err.startswith("The file of traces none/*.jsonl cannot be read: there is no such file.")
    assert "spans.jsonl line 1 is not a trace, span or data set item. Found: a." in done.err
    monitor(traces(1), 1)
    history = tmp_path / "monitor.jsonl"
    history.write_text(history.read_text().replace('"counts":[[1.0,40]]', '"counts":[[1.0]]'))
    done = monitor(traces(2), 2)
    assert (done.status, "monitor.jsonl: the line of 2026-03-01 cannot be used: " in done.err) == (2, True), (
        done
    )
    assert "sufficient@2" in done.err


def test_a_drop_that_allows_everything_is_refused(monitor: Monitor) -> None:
    for day in (1, 2):
        monitor(traces(day, good=0), day)
    done = monitor(traces(3, good=0), 3)
    assert done.status == 2
    assert "sufficient@2: --max-drop 0.05 allows any mean" in done.err
