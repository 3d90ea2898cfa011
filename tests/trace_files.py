"""The same trace in each tool's export format: a question, two passages, an answer, and a user's label."""

import csv
import io
import json
from pathlib import Path
from typing import Any, Final

QUESTION: Final = "Where is the bath?"
PASSAGES: Final = (("d1", "The bath is on Main Street.", 0.9), ("d2", "Dogs are welcome.", 0.4))
ANSWER: Final = "On Main Street."


def lines(records: list[Any]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def openinference(passages: Any = PASSAGES, question: str = QUESTION) -> list[dict[str, Any]]:
    """Return the flat attributes of a chain, its retriever and its model."""
    documents: dict[str, Any] = {}
    for i, (identifier, text, score) in enumerate(passages):
        prefix = f"retrieval.documents.{i}.document"
        documents |= {f"{prefix}.content": text, f"{prefix}.score": score}
        documents |= {} if identifier is None else {f"{prefix}.id": identifier}
        documents |= {f"{prefix}.metadata": json.dumps({"source": "baths.md"})}
    return [
        {
            "openinference.span.kind": "CHAIN",
            "input.value": json.dumps({"question": question}),
            "input.mime_type": "application/json",
            "output.value": ANSWER,
        },
        {"openinference.span.kind": "RETRIEVER", "input.value": question, **documents},
        {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": f"Context … {question}",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": ANSWER,
        },
    ]


def phoenix(
    trace: str = "t1",
    *,
    passages: Any = PASSAGES,
    question: str = QUESTION,
    time: str = "2026-03-01T10:00:0",
    failed: str = "",
) -> list[dict[str, Any]]:
    kinds = ("CHAIN", "RETRIEVER", "LLM")
    return [
        {
            "id": f"U3Bhbjo{i}",
            "name": kind.lower(),
            "context": {"trace_id": trace, "span_id": f"{trace}-{i}"},
            "span_kind": kind,
            "parent_id": f"{trace}-0" if i else None,
            "start_time": f"{time}{i}+00:00",
            "end_time": f"{time}{i}.5+00:00",
            "status_code": "ERROR" if kind == failed else "OK",
            "status_message": "",
            "attributes": attributes,
            "events": [],
        }
        for i, (kind, attributes) in enumerate(zip(kinds, openinference(passages, question), strict=True))
    ]


def _dataframe() -> list[dict[str, Any]]:
    """Return the output of `get_spans_dataframe().to_json(orient="records", lines=True)`."""
    rows = []
    for span in phoenix():
        row = {
            key: span[key]
            for key in ("name", "span_kind", "parent_id", "start_time", "end_time", "status_code")
        }
        row |= {f"context.{key}": value for key, value in span["context"].items()}
        attributes = {
            key: value for key, value in span["attributes"].items() if not key.startswith("retrieval.")
        }
        if span["span_kind"] == "RETRIEVER":
            attributes["retrieval.documents"] = [
                {"document.id": identifier, "document.content": text, "document.score": score}
                for identifier, text, score in PASSAGES
            ]
        rows.append(row | {f"attributes.{key}": value for key, value in attributes.items()})
    return rows


PHOENIX_ANNOTATION: Final = {
    "span_id": "t1-0",
    "name": "user",
    "annotator_kind": "HUMAN",
    "result": {"label": "helpful", "score": 1, "explanation": "yes"},
}


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"kvlistValue": {"values": [{"key": key, "value": _value(each)} for key, each in value.items()]}}


def otlp(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an OTLP JSON document with a span for each set of attributes; the first is the outermost span."""
    said = {"gen_ai.evaluation.name": "user", "gen_ai.evaluation.score.label": "helpful"}
    spans = [
        {
            "traceId": "t1",
            "spanId": f"s{i}",
            "parentSpanId": "s0" if i else "",
            "name": "span",
            "startTimeUnixNano": str(1_772_359_200_000_000_000 + i),
            "endTimeUnixNano": str(1_772_359_200_000_000_500 + i),
            "attributes": [{"key": key, "value": _value(value)} for key, value in each.items()],
            "events": [
                {
                    "name": "gen_ai.evaluation.result",
                    "attributes": [{"key": key, "value": _value(value)} for key, value in said.items()],
                }
            ]
            if i == 0
            else [],
            "status": {"code": "STATUS_CODE_OK"},
        }
        for i, each in enumerate(attributes)
    ]
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


GEN_AI: Final = [
    {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.input.messages": _messages("user", QUESTION),
        "gen_ai.output.messages": _messages("assistant", ANSWER),
    },
    {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.query.text": QUESTION,
        "gen_ai.retrieval.documents": [
            {"id": identifier, "score": score, "content": text} for identifier, text, score in PASSAGES
        ],
    },
    {"gen_ai.operation.name": "chat", "gen_ai.output.messages": _messages("assistant", ANSWER)},
]

LANGCHAIN_DOCUMENTS: Final = [
    {"id": identifier, "page_content": text, "metadata": {"score": score}, "type": "Document"}
    for identifier, text, score in PASSAGES
]


def _langfuse_trace() -> dict[str, Any]:
    return {
        "id": "t1",
        "name": "rag",
        "timestamp": "2026-03-01T10:00:00.000Z",
        "input": {
            "messages": [{"role": "system", "content": "Help."}, {"role": "user", "content": QUESTION}]
        },
        "output": {"role": "assistant", "content": ANSWER},
        "tags": [],
    }


def _langfuse_observations() -> list[dict[str, Any]]:
    common = {"traceId": "t1", "parentObservationId": None, "level": "DEFAULT", "statusMessage": None}
    return [
        {
            **common,
            "id": "o1",
            "type": "RETRIEVER",
            "name": "VectorStoreRetriever",
            "startTime": "2026-03-01T10:00:01.000Z",
            "endTime": "2026-03-01T10:00:02.000Z",
            "input": QUESTION,
            "output": LANGCHAIN_DOCUMENTS,
        },
        {
            **common,
            "id": "o2",
            "type": "GENERATION",
            "name": "chat",
            "startTime": "2026-03-01T10:00:02.000Z",
            "endTime": "2026-03-01T10:00:03.000Z",
            "input": [{"role": "user", "content": "Context …"}],
            "output": {"role": "assistant", "content": ANSWER},
        },
    ]


LANGFUSE_SCORE: Final = {
    "id": "sc1",
    "traceId": "t1",
    "observationId": None,
    "name": "user",
    "value": 1,
    "stringValue": "helpful",
    "dataType": "CATEGORICAL",
}


def _snake(record: dict[str, Any]) -> dict[str, Any]:
    """Return a row of Langfuse's blob storage: snake case keys, and nested values as JSON texts."""
    snake = {
        "".join(f"_{c.lower()}" if c.isupper() else c for c in key): value for key, value in record.items()
    }
    return {
        key: json.dumps(value) if isinstance(value, list | dict) else value for key, value in snake.items()
    }


def _table(records: list[dict[str, Any]]) -> str:
    """Return a CSV table with JSON in its cells."""
    names = list(dict.fromkeys(name for record in records for name in record))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for record in records:
        cells = [record.get(name) for name in names]
        writer.writerow(json.dumps(cell) if isinstance(cell, list | dict) else cell for cell in cells)
    return out.getvalue()


def _langsmith_runs() -> list[dict[str, Any]]:
    common = {"trace_id": "t1", "error": None, "status": "success"}
    return [
        {
            **common,
            "id": "t1",
            "parent_run_id": None,
            "run_type": "chain",
            "name": "RAG",
            "inputs": {"input": QUESTION, "chat_history": []},
            "outputs": {"answer": ANSWER, "context": LANGCHAIN_DOCUMENTS},
            "start_time": "2026-03-01T10:00:00.000000",
            "end_time": "2026-03-01T10:00:03.000000",
            "feedback_stats": {"user": {"n": 1, "avg": None, "values": {"helpful": 1}}},
        },
        {
            **common,
            "id": "r1",
            "parent_run_id": "t1",
            "run_type": "retriever",
            "name": "VectorStoreRetriever",
            "inputs": {"query": QUESTION},
            "outputs": {"documents": LANGCHAIN_DOCUMENTS},
            "start_time": "2026-03-01T10:00:01.000000",
            "end_time": "2026-03-01T10:00:02.000000",
        },
        {
            **common,
            "id": "r2",
            "parent_run_id": "t1",
            "run_type": "llm",
            "name": "ChatOpenAI",
            "inputs": {
                "messages": [[{"id": ["langchain", "HumanMessage"], "kwargs": {"content": "Context …"}}]]
            },
            "outputs": {"generations": [[{"text": ANSWER}]]},
            "start_time": "2026-03-01T10:00:02.000000",
            "end_time": "2026-03-01T10:00:03.000000",
        },
    ]


def _nested_runs() -> dict[str, Any]:
    root, *children = _langsmith_runs()
    return {**root, "child_runs": children}


EXPORTS: Final = {
    "phoenix-rest.json": json.dumps(
        {"data": [*phoenix(), PHOENIX_ANNOTATION], "next_cursor": None}, indent=1
    ),
    "phoenix.jsonl": lines([*phoenix(), PHOENIX_ANNOTATION]),
    "phoenix-dataframe.jsonl": lines([*_dataframe(), PHOENIX_ANNOTATION]),
    "otlp-openinference.json": json.dumps(otlp(openinference()), indent=1),
    "otlp-gen-ai.jsonl": lines([otlp(GEN_AI)]),
    "langfuse-trace.json": json.dumps(
        {
            "trace": {**_langfuse_trace(), "scores": [LANGFUSE_SCORE]},
            "observations": _langfuse_observations(),
        },
        indent=1,
    ),
    "langfuse-api.json": json.dumps(
        {**_langfuse_trace(), "observations": _langfuse_observations(), "scores": [LANGFUSE_SCORE]}, indent=1
    ),
    "langfuse-blob.jsonl": lines(
        [_snake(each) for each in (_langfuse_trace(), *_langfuse_observations(), LANGFUSE_SCORE)]
    ),
    "langsmith-runs.jsonl": lines(_langsmith_runs()),
    "langsmith-nested.json": json.dumps(_nested_runs(), indent=1),
    "langsmith-runs.csv": _table(_langsmith_runs()),
}
"""The same trace as a file of each format, by file name."""


def write_export(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text(EXPORTS[name], encoding="utf-8")
    return path
