"""The same trace in each tool's export format: a question, two passages, an answer, and a user's label."""

import json
from pathlib import Path
from typing import Any, Final

QUESTION: Final = "Where is the bath?"
PASSAGES: Final = (("d1", "The bath is on Main Street.", 0.9), ("d2", "Dogs are welcome.", 0.4))
ANSWER: Final = "On Main Street."


def lines(records: list[Any]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def openinference(passages: Any = PASSAGES, question: str = QUESTION) -> list[dict[str, Any]]:
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


EXPORTS: Final = sorted((Path(__file__).with_name("data") / "traces").iterdir())
"""The same trace as a file of each format."""
