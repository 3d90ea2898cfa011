"""Replaying recorded retrievals as a retriever."""

import json
from pathlib import Path

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.cli import main
from pytest_rageval.core.errors import InputError, Unscored
from pytest_rageval.extensions.traces.reading import TraceRun
from pytest_rageval.retrievers import adapt_retriever
from tests.trace_files import QUESTION, lines, phoenix


def _spans(folder: Path, *traces: list[dict[str, object]]) -> Path:
    path = folder / "spans.jsonl"
    path.write_text(lines([span for trace in traces for span in trace]), encoding="utf-8")
    return path


def test_a_question_gets_what_was_retrieved_for_it(tmp_path: Path) -> None:
    """White space around the question is ignored."""
    search = TraceRun(_spans(tmp_path, phoenix()))
    assert [
        (document.id, document.text, document.score) for document in search(f" {QUESTION}\n", 1).documents
    ] == [("d1", "The bath is on Main Street.", 0.9)]
    assert [document.id for document in search(QUESTION, 9).documents] == ["d1", "d2"]


def test_what_was_not_recorded_raises(tmp_path: Path) -> None:
    """A question without a recorded retrieval is unscored: an empty ranking would score 0."""
    cached = phoenix("t2", question="When?")[:1]
    search = TraceRun(_spans(tmp_path, phoenix(), cached))
    with pytest.raises(
        Unscored, match=r"not recorded for 'Why\?': no trace has this question, in spans\.jsonl"
    ):
        search("Why?", 3)
    with pytest.raises(Unscored, match=r"not recorded for 'When\?': its trace came without a retrieval"):
        search("When?", 3)
    with pytest.raises(Unscored, match="no trace has this question"):
        search(QUESTION, 3, history=[{"role": "user", "content": "Hello"}])


def test_traces_without_any_retrieval_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"no retrieval was recorded, in 1 trace\.\n  1 × without a retrieval"
    ):
        TraceRun(_spans(tmp_path, phoenix()[:1]))


def test_several_searches_are_the_steps_in_their_conversation(tmp_path: Path) -> None:
    spans = phoenix()
    spans[0]["attributes"]["input.value"] = json.dumps(
        [{"role": "user", "content": "Hello"}, {"role": "user", "content": QUESTION}]
    )
    second = phoenix(question="bath street", passages=[("d3", "Main Street 1.", 0.8)])[1]
    again = {
        **second,
        "context": {"trace_id": "t1", "span_id": "again"},
        "start_time": "2026-03-01T10:00:05Z",
    }
    file, evalset = (
        _spans(tmp_path, [*spans, {**again, "end_time": "2026-03-01T10:00:06Z"}]),
        tmp_path / "e.jsonl",
    )
    main(["evalset", "from-traces", str(file), "--output", str(evalset)])
    for search in (TraceRun(file), TraceRun(evalset)):
        retrieval = search(QUESTION, 3, history=[{"role": "user", "content": "Hello"}])
        assert retrieval.steps is not None
        assert [(step.query, [document.id for document in step.documents]) for step in retrieval.steps] == [
            (QUESTION, ["d1", "d2"]),
            ("bath street", ["d3"]),
        ]
        assert [document.id for document in retrieval.documents] == ["d3"]


def test_one_search_has_no_steps(tmp_path: Path) -> None:
    assert TraceRun(_spans(tmp_path, phoenix()))(QUESTION, 3).steps is None


def test_several_files_are_one_run(tmp_path: Path) -> None:
    (tmp_path / "monday").mkdir()
    monday = _spans(tmp_path / "monday", phoenix("t2", question="When?", passages=[("d3", "At ten.", 1.0)]))
    search = TraceRun(str(_spans(tmp_path, phoenix())), monday)
    assert [document.id for document in search("When?", 3).documents] == ["d3"]
    assert [document.id for document in search(QUESTION, 3).documents] == ["d1", "d2"]


def test_the_eval_set_that_was_made_of_traces_is_a_run_too(tmp_path: Path) -> None:
    """The traces need not be committed. Examples without a recorded retrieval are unscored."""
    evalset = tmp_path / "evalset.jsonl"
    main(["evalset", "from-traces", str(_spans(tmp_path, phoenix())), "--output", str(evalset)])
    with evalset.open("a", encoding="utf-8") as file:
        file.write('{"id": "own", "question": "Why?", "gold": [{"id": "d1"}]}\n')
    search = TraceRun(evalset)
    assert [(document.id, document.score) for document in search(QUESTION, 3).documents] == [
        ("d1", 0.9),
        ("d2", 0.4),
    ]
    with pytest.raises(Unscored, match="its trace came without a retrieval"):
        search("Why?", 3)


def test_looking_a_retrieval_up_takes_no_time_that_counts(tmp_path: Path, loop: BackgroundEventLoop) -> None:
    """The time to look up a recorded retrieval is not reported as the time of the retrieval."""
    retriever = adapt_retriever(TraceRun(_spans(tmp_path, phoenix())), loop)
    assert retriever.replays
    assert loop.run(retriever.retrieve(QUESTION, 3)).seconds is None
