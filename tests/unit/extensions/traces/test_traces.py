"""Reading the trace exports of each tool, and the questions made from them."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets import load, load_records
from pytest_rageval.extensions.traces.reading import RecordedQuestion, Traces, read_traces
from pytest_rageval.extensions.traces.records import extract_answer, extract_question
from tests.evalset_files import FILES
from tests.trace_files import ANSWER, EXPORTS, PASSAGES, QUESTION, lines, phoenix


def read(folder: Path, records: list[Any], name: str = "spans.jsonl") -> Traces:
    (folder / name).write_text(lines(records), encoding="utf-8")
    return read_traces([folder / name])


def only(folder: Path, records: list[Any]) -> RecordedQuestion:
    (question,) = read(folder, records).questions
    return question


def ids(question: RecordedQuestion) -> list[str | None] | None:
    return None if question.retrieved is None else [document.id for document in question.retrieved]


@pytest.mark.parametrize("path", EXPORTS, ids=lambda path: path.name)
def test_every_export_of_a_trace_says_the_same(path: Path) -> None:
    traces = read_traces([path])
    (question,) = traces.questions
    record = question.record()
    for passage in record["retrieved"]:
        passage.pop("score", None)  # LangChain's documents have no scores.
    assert record == {
        "id": "t1",
        "question": QUESTION,
        "tags": {"user": "helpful"},
        "answer_given": ANSWER,
        "retrieved": [{"id": identifier, "text": text} for identifier, text, _ in PASSAGES],
    }
    assert question.time == 1_772_359_200.0
    assert (traces.counts_text, traces.notes) == ("1 trace", {})


def test_scores_and_metadata_of_passages_are_read(tmp_path: Path) -> None:
    retrieved = only(tmp_path, phoenix()).retrieved
    assert retrieved is not None
    assert [(passage.score, passage.metadata) for passage in retrieved] == [
        (0.9, {"source": "baths.md"}),
        (0.4, {"source": "baths.md"}),
    ]


def test_an_answer_becomes_a_reference_where_that_is_wanted(tmp_path: Path) -> None:
    record = only(tmp_path, phoenix()).record(answer_is_reference=True)
    assert (record["reference"], record["answer_given"]) == (ANSWER, ANSWER)


ITEMS: dict[str, dict[str, Any]] = {
    "langfuse": {
        "input": {"query": QUESTION},
        "expectedOutput": {"answer": ANSWER},
        "sourceTraceId": None,
        "status": "ACTIVE",
    },
    "langfuse text": {"input": QUESTION, "expected_output": ANSWER},
    "langsmith": {"inputs": {"question": QUESTION}, "outputs": {"answer": ANSWER}},
    "langsmith chat": {
        "inputs": {"messages": [{"type": "human", "content": QUESTION}]},
        "outputs": {"messages": [{"type": "ai", "content": ANSWER}]},
    },
    "phoenix": {"input": {"question": QUESTION}, "output": {"answer": ANSWER}},
}
DATA_SETS = {name: {"id": "i1", "metadata": {"topic": "baths"}, **item} for name, item in ITEMS.items()}


@pytest.mark.parametrize("item", DATA_SETS.values(), ids=DATA_SETS)
def test_what_a_data_set_expects_is_a_reference(item: dict[str, Any], tmp_path: Path) -> None:
    assert only(tmp_path, [item]).record() == {
        "id": "i1",
        "question": QUESTION,
        "reference": ANSWER,
        "metadata": {"topic": "baths"},
    }


@pytest.mark.parametrize(
    "table",
    [
        f'id,inputs,outputs\ni1,"{{""question"": ""{QUESTION}""}}","{{""answer"": ""{ANSWER}""}}"\n',
        f"id,input_question,output_answer\ni1,{QUESTION},{ANSWER}\n",
        f"id,inputs.question,outputs.answer\ni1,{QUESTION},{ANSWER}\n",
        f'id,input,expectedOutput\ni1,"{{""query"": ""{QUESTION}""}}",{ANSWER}\n',
    ],
)
def test_a_data_set_may_be_a_table(table: str, tmp_path: Path) -> None:
    """A table holds a data set as objects in cells, or as their parts in columns."""
    (tmp_path / "data.csv").write_text(table, encoding="utf-8")
    (question,) = read_traces([tmp_path / "data.csv"]).questions
    assert question.record() == {"id": "i1", "question": QUESTION, "reference": ANSWER}


def test_a_trace_may_be_spread_over_files_and_records_in_any_order(tmp_path: Path) -> None:
    first, *others = phoenix()
    (tmp_path / "a.jsonl").write_text(lines(others), encoding="utf-8")
    (tmp_path / "b.jsonl").write_text(lines([first]), encoding="utf-8")
    traces = read_traces([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert [(question.id, question.answer, ids(question)) for question in traces.questions] == [
        ("t1", ANSWER, ["d1", "d2"])
    ]


def test_a_span_of_a_retriever_alone_is_a_question_without_an_answer(tmp_path: Path) -> None:
    question = only(tmp_path, phoenix()[1:2])
    assert (question.question.text, ids(question), question.answer) == (QUESTION, ["d1", "d2"], None)


@pytest.mark.parametrize("failed", ["CHAIN", "RETRIEVER", "LLM"])
def test_a_trace_that_failed_is_left_out_and_counted(failed: str, tmp_path: Path) -> None:
    """A trace with a failed model call is kept: the call may have been retried."""
    traces = read(tmp_path, phoenix(failed=failed))
    if failed == "LLM":
        assert len(traces.questions) == 1
    else:
        assert (traces.questions, traces.notes) == ([], {"the trace failed: left out": 1})


def test_a_trace_without_a_retrieval_stays_a_question(tmp_path: Path) -> None:
    chain, _, model = phoenix()
    traces = read(tmp_path, [chain, model])
    assert "retrieved" not in traces.questions[0].record()
    assert traces.notes == {"without a retrieval: kept as a question": 1}


@pytest.mark.parametrize("passages", [[(None, "", 0.5)], [("d1", "text", 0.5), (None, " ", 0.5)]])
def test_passages_with_neither_id_nor_text_are_no_retrieval(passages: Any, tmp_path: Path) -> None:
    """If a passage has neither id nor text, the retrieval is ignored: a ranking with gaps would be another ranking."""
    traces = read(tmp_path, phoenix(passages=passages))
    assert traces.questions[0].retrieved is None
    assert traces.notes == {"with a retrieval of unknown form: kept as a question": 1}


@pytest.mark.parametrize(
    ("output", "expected"),
    [({}, None), ({"output.value": '{"documents": []}'}, []), ({"output.value": "[]"}, [])],
)
def test_nothing_found_is_not_the_same_as_not_recorded(output: Any, expected: Any, tmp_path: Path) -> None:
    """An empty ranking is read only from the output of the span; without an output, the retrieval is unknown."""
    spans = phoenix(passages=[])
    spans[1]["attributes"] |= output
    assert ids(only(tmp_path, spans)) == expected


def test_passages_without_ids_are_counted(tmp_path: Path) -> None:
    traces = read(tmp_path, phoenix(passages=[(None, "The bath.", 0.5)]))
    assert traces.questions[0].record()["retrieved"] == [{"text": "The bath.", "score": 0.5}]
    assert traces.notes == {"retrieved passages without an id: known by their text": 1}


@pytest.mark.parametrize(("text", "expected"), [("The bath.", "d7"), ("Another passage.", None)])
def test_ids_that_only_the_output_has_are_read(text: str, expected: str | None, tmp_path: Path) -> None:
    spans = phoenix(passages=[(None, "The bath.", 0.5)])
    document = {"id": "d7", "metadata": {}, "page_content": text, "type": "Document"}
    spans[1]["attributes"]["output.value"] = json.dumps({"documents": [document]})
    retrieved = only(tmp_path, spans).retrieved
    assert retrieved is not None
    assert [(passage.id, passage.text, passage.score) for passage in retrieved] == [
        (expected, "The bath.", 0.5)
    ]


def test_the_status_of_the_exporter_to_the_console_is_read(tmp_path: Path) -> None:
    chain, *others = phoenix()
    del chain["status_code"]
    failed = {**chain, "status": {"status_code": "ERROR"}}
    assert read(tmp_path, [failed, *others]).notes == {"the trace failed: left out": 1}


SAID = (("user", "Hello"), ("assistant", "Hi."), ("user", "When?"))
SPAN_KINDS = {"user": "human", "assistant": "ai"}
CLASSES = {"user": "HumanMessage", "assistant": "AIMessage"}
MESSAGES = {
    "openai": [{"role": role, "content": text} for role, text in SAID],
    "media": [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in SAID],
    "gen ai": [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in SAID],
    "openinference": [{"message": {"role": role, "content": text}} for role, text in SAID],
    "langchain": [{"type": SPAN_KINDS[role], "content": text, "id": None} for role, text in SAID],
    "langchain, with data": [{"type": SPAN_KINDS[role], "data": {"content": text}} for role, text in SAID],
    "langchain, serialized": [
        {"lc": 1, "type": "constructor", "id": ["messages", CLASSES[role]], "kwargs": {"content": text}}
        for role, text in SAID
    ],
    "pairs": [[SPAN_KINDS[role], text] for role, text in SAID],
}


@pytest.mark.parametrize("messages", MESSAGES.values(), ids=MESSAGES)
def test_a_conversation_is_read_in_every_form(messages: Any) -> None:
    """A batch of one conversation, as LangChain writes it, is read as that conversation."""
    before = ({"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."})
    for given in (messages, {"messages": messages}, [messages], json.dumps(messages)):
        assert extract_question(given) == ("When?", before)
    assert extract_answer({"messages": messages}) == "Hi."


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"input": "When?", "chat_history": [["human", "Hello"], ["ai", "Hi."]]}, "When?"),
        ({"topic": 3, "q": " When? "}, "When?"),
        ({"a": "When?", "b": "Where?"}, None),
        ({"input": {"query": "When?"}}, "When?"),
        ("[not JSON]", "[not JSON]"),
        ("  ", None),
        ([], None),
        (7, None),
    ],
)
def test_a_question_is_found_under_the_usual_keys(given: Any, expected: str | None) -> None:
    assert extract_question(given).text == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"choices": [{"message": {"role": "assistant", "content": "At ten."}}]}, "At ten."),
        ({"generations": [[{"text": "At ten."}]]}, "At ten."),
        ({"result": "At ten.", "source_documents": []}, "At ten."),
        ({"anything": "At ten.", "n": 1}, "At ten."),
        ({"a": "x", "b": "y"}, None),
        (None, None),
    ],
)
def test_an_answer_is_found_under_the_usual_keys(given: Any, expected: str | None) -> None:
    assert extract_answer(given) == expected


def hop(number: int, passage: str, parent: str = "t1-0", **changed: Any) -> dict[str, Any]:
    _, span, _ = phoenix(passages=[(passage, "text", 0.5)], question=f"search {number}")
    times = {"start_time": f"2026-03-01T10:00:{number}0Z", "end_time": f"2026-03-01T10:00:{number}5Z"}
    return {
        **span,
        **times,
        "context": {"trace_id": "t1", "span_id": f"hop{number}"},
        "parent_id": parent,
        **changed,
    }


def test_of_several_searches_the_last_is_what_was_retrieved(tmp_path: Path) -> None:
    traces = read(tmp_path, [hop(3, "c"), *phoenix(), hop(2, "b")])
    (question,) = traces.questions
    record = question.record()
    assert [passage["id"] for passage in record["retrieved"]] == ["c"]
    assert [
        (step["query"], [document["id"] for document in step["documents"]]) for step in record["steps"]
    ] == [(QUESTION, ["d1", "d2"]), ("search 2", ["b"]), ("search 3", ["c"])]
    assert traces.notes == {"with several searches: the last one is `retrieved`, all are `steps`": 1}


def test_a_retriever_made_of_others_is_one_search(tmp_path: Path) -> None:
    inner = [hop(2, "b", parent="t1-1"), hop(3, "c", parent="t1-1")]
    question = only(tmp_path, [*phoenix(), *inner])
    assert (ids(question), len(question.steps)) == (["d1", "d2"], 1)


def test_reranked_passages_are_what_was_retrieved(tmp_path: Path) -> None:
    """If there is a reranker, its output is `retrieved`, since the model receives that."""
    reranker = {
        "openinference.span.kind": "RERANKER",
        "reranker.query": QUESTION,
        "reranker.output_documents.0.document.id": "d2",
        "reranker.output_documents.0.document.content": "Dogs are welcome.",
    }
    question = only(tmp_path, [*phoenix(), hop(2, "unused", span_kind="RERANKER", attributes=reranker)])
    assert (ids(question), len(question.steps)) == (["d2"], 1)


def test_a_search_that_failed_beside_another_is_left_out_and_counted(tmp_path: Path) -> None:
    traces = read(tmp_path, [*phoenix(), hop(2, "b", status_code="ERROR")])
    assert ids(traces.questions[0]) == ["d1", "d2"]
    assert traces.notes == {"a search failed, another did not: the failed one is left out": 1}


def test_of_one_question_the_last_trace_with_a_retrieval_is_kept(tmp_path: Path) -> None:
    late = phoenix("late", passages=[("new", "text", 0.5)], time="2026-03-03T10:00:0")
    cached = phoenix("cached", time="2026-03-04T10:00:0")[:1]
    traces = read(tmp_path, [*late, *cached, *phoenix()])
    assert [(question.id, ids(question)) for question in traces.questions] == [("late", ["new"])]
    assert traces.notes == {"the same question again: the last one with a retrieval is kept": 2}


def test_a_question_after_another_conversation_is_another_question(tmp_path: Path) -> None:
    before = [
        {"role": "system", "content": "Help."},
        {"role": "user", "content": "Is there a bath?"},
        {"role": "assistant", "content": "Yes."},
    ]
    spans = phoenix("t2")
    spans[0]["attributes"]["input.value"] = json.dumps(
        {"messages": [*before, {"role": "user", "content": QUESTION}]}
    )
    first, second = read(tmp_path, [*phoenix(), *spans]).questions
    assert "history" not in first.record()
    assert second.record()["history"] == before[1:]


def test_a_trace_without_a_question_is_left_out_and_counted(tmp_path: Path) -> None:
    spans = phoenix()[:1]
    spans[0]["attributes"].pop("input.value")
    traces = read(tmp_path, spans)
    assert (traces.questions, traces.counts_text, traces.notes) == (
        [],
        "1 trace",
        {"without a question: left out": 1},
    )


def test_several_questions_in_one_trace_are_left_out_and_counted(tmp_path: Path) -> None:
    """A trace with several questions, such as a session, is left out: searches cannot be assigned to questions."""
    first, second = phoenix(), phoenix(question="When?")
    for number, span in enumerate(second):
        span["context"]["span_id"] = f"second-{number}"
        span["parent_id"] = span["parent_id"] and "second-0"
    traces = read(tmp_path, [*first, *second])
    assert (traces.questions, traces.notes) == ([], {"several questions in one trace: left out": 1})


def test_what_has_no_id_is_named_after_its_question(tmp_path: Path) -> None:
    """An item without an id gets an id derived from its question, the same in each run, so baselines match."""
    item = {"input": {"question": QUESTION}, "output": {"answer": ANSWER}}
    traces = read(tmp_path, [item])
    assert traces.notes["without an id: named after the question"] == 1
    assert traces.questions[0].id == read(tmp_path, [item]).questions[0].id
    assert traces.questions[0].id.startswith("q-")


def test_feedback_of_several_people_is_a_list(tmp_path: Path) -> None:
    annotations = [
        {"span_id": span, "name": "user", "annotator_kind": "HUMAN", "result": {"label": label}}
        for span, label in (("t1-0", "good"), ("t1-1", "bad"), ("t1-2", "good"), ("other", "good"))
    ]
    traces = read(tmp_path, [*phoenix(), *annotations])
    assert traces.questions[0].tags == {"user": ["good", "bad"]}
    assert traces.notes == {"feedback on a trace that is in no file": 1}


def test_annotations_within_a_span_are_feedback(tmp_path: Path) -> None:
    spans = phoenix()
    spans[0]["attributes"] |= {
        "annotations.0.annotation.name": "helpful",
        "annotations.0.annotation.score": 0.5,
        "trace.evaluations.0.evaluation.name": "grounded",
        "trace.evaluations.0.evaluation.label": "yes",
        "annotations.1.annotation.name": "comment",
        "annotations.1.annotation.explanation": "I liked it.",
    }
    assert only(tmp_path, spans).tags == {"helpful": 0.5, "grounded": "yes"}


def test_a_request_that_another_service_began_is_read(tmp_path: Path) -> None:
    """A trace whose first span has a parent in another service, which no file has, is read."""
    (export,) = (path for path in EXPORTS if path.name == "otlp-openinference.json")
    document = json.loads(export.read_bytes())
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][0] |= {
        "parentSpanId": "elsewhere",
        "attributes": [{"key": "http.method", "value": {"stringValue": "POST"}}],
    }
    assert only(tmp_path, [document]).question.text == QUESTION


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{"a": 1, "b": 2}\n',
            r"spans\.jsonl line 1 is not a trace, span or data set item\. Found: a, b\.\nAllowed",
        ),
        ("[1]", r"spans\.jsonl record 1: a record is an object, found 1"),
        (lines(phoenix()) + "{\n", r"spans\.jsonl line 4 is not JSON"),
        ('{"data": [{"x": 1}]}\n', r"spans\.jsonl line 1, record 1 is not a trace"),
        ("id,question\n1\n", r"spans\.jsonl line 1 is not JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_what_was_found(content, message, tmp_path):
    (tmp_path / "spans.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_traces([tmp_path / "spans.jsonl"])


def test_an_export_over_several_lines_is_utf8(tmp_path: Path) -> None:
    """An export over several lines that is not UTF-8 is an error: other bytes would be other passages."""
    (tmp_path / "trace.json").write_bytes(b'{\n"resourceSpans": "\xff"}')
    with pytest.raises(InputError, match=r"trace\.json is not UTF-8: byte 0xff"):
        read_traces([tmp_path / "trace.json"])


def test_texts_that_nest_too_deep_are_no_question(tmp_path: Path) -> None:
    deep = '{"input": ' * 300 + "1" + "}" * 300
    traces = read(tmp_path, [{"id": "a", "input": json.loads(deep), "output": {}}])
    assert traces.notes == {"without a question: left out": 1}


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_traces([tmp_path / "nowhere.json"])
    with pytest.raises(InputError, match="is a folder, expected a file of traces"):
        read_traces([tmp_path])


def test_spans_that_contain_each_other_end(tmp_path: Path) -> None:
    """Spans that are each other's parent, as in a broken export, do not cause an endless loop."""
    spans = phoenix()
    spans[0]["parent_id"] = "t1-1"
    assert ids(only(tmp_path, spans)) == ["d1", "d2"]


def way_out(start: str) -> str:
    """Return a pattern for the error for an export that is given as an eval set."""
    return rf"(?s){start}.*`rageval evalset from-traces FILE --output evalset\.jsonl` makes an eval set of it"


@pytest.mark.parametrize("path", EXPORTS, ids=lambda path: path.name)
def test_an_export_given_as_an_eval_set_is_an_error_with_a_remedy(path: Path) -> None:
    with pytest.raises(InputError, match=way_out("")):
        load(path)


@pytest.mark.parametrize("item", DATA_SETS.values(), ids=DATA_SETS)
def test_a_data_set_given_as_an_eval_set_is_an_error_with_a_remedy(item, tmp_path):
    (tmp_path / "items.jsonl").write_text(lines([item]), encoding="utf-8")
    with pytest.raises(InputError, match=way_out(r'items\.jsonl line 1: "question" is missing')):
        load(tmp_path / "items.jsonl")
    with pytest.raises(InputError, match=way_out(r'record 1: "question" is missing')):
        load_records([item])


@pytest.mark.parametrize("columns", ["id,input,expectedOutput", "id,inputs,outputs"])
def test_a_table_given_as_an_eval_set_is_an_error_with_a_remedy(columns: str, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text(f"{columns}\n1,a,b\n", encoding="utf-8")
    with pytest.raises(InputError, match=way_out(r"items\.csv has no column question")):
        load(tmp_path / "items.csv")


def test_a_field_map_reads_a_data_set_as_before(tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text(lines([DATA_SETS["phoenix"]]), encoding="utf-8")
    (example,) = load(
        tmp_path / "items.jsonl", fields={"question": "input.question", "answers": "output.answer"}
    )
    assert (example.question, example.answers) == (QUESTION, (ANSWER,))


@pytest.mark.parametrize("name", ["goldens.json", "goldens.csv"])
def test_goldens_of_deepeval_keep_what_they_have(name: str, tmp_path: Path) -> None:
    (files,) = [files for files in FILES if files.path == name]
    (question,) = read_traces([files.write(tmp_path)]).questions
    record = question.record()
    assert [gold["text"] for gold in record["gold"]][:1] == ["Made in Tulsa."]
    assert record | {"gold": 2, "id": 1, "input_token_count": 3} == {
        "id": 1,
        "question": "Where is it made?",
        "gold": 2,
        "reference": "In Tulsa.",
        "metadata": {"evolutions": ["Reasoning"]},
        "answer_given": "In Reno.",
        "retrieved": [{"text": "Reno is a city."}],
        "source_file": "made.md",
        "comments": "checked",
        "input_token_count": 3,
    }
    assert len(record["gold"]) == 2


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (
            {"input": QUESTION, "expected": ANSWER, "tags": ["a"], "metadata": {}, "scores": {"f1": 1}},
            {"reference": ANSWER, "item_tags": ["a"], "scores": {"f1": 1}},
        ),
        (
            {"inputs": {"question": QUESTION}, "expectations": {"expected_response": ANSWER}, "source": "s"},
            {"reference": ANSWER, "source": "s"},
        ),
        ({"input": QUESTION, "gold": ["d1"], "answers": None}, {"item_gold": ["d1"]}),
    ],
)
def test_what_is_not_read_of_an_item_is_kept(item, expected, tmp_path):
    record = only(tmp_path, [{"id": "i1", **item}]).record()
    assert record == {"id": "i1", "question": QUESTION, **expected}
    assert load_records([record]) is not None


def test_test_cases_of_promptfoo_are_no_traces(tmp_path: Path) -> None:
    for name in ("tests.csv", "tests.jsonl"):
        (files,) = [files for files in FILES if files.path == name]
        with pytest.raises(InputError, match=rf"^{name} line \d is a test case of promptfoo, and no trace\."):
            read_traces([files.write(tmp_path)])


@pytest.mark.parametrize(("identifier", "expected"), [(101.0, "101"), ("None", None), (True, None), (7, "7")])
def test_ids_of_retrieved_passages_are_read_by_the_rule_for_ids(identifier, expected, tmp_path):
    """A float of an integer is the integer, and a printed missing value is missing."""
    item = {"id": "i1", "question": QUESTION, "retrieved": [{"id": identifier, "text": "The bath."}]}
    assert ids(only(tmp_path, [item])) == [expected]
