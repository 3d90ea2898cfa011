"""Any JSON as a trace export is either read or rejected with InputError."""

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.records import from_records
from pytest_rageval.extensions.traces.reading import read_traces

KEYS = st.sampled_from(
    [
        *("resourceSpans", "scopeSpans", "spans", "attributes", "key", "value", "stringValue", "arrayValue"),
        *(
            "values",
            "kvlistValue",
            "events",
            "name",
            "status",
            "code",
            "traceId",
            "trace_id",
            "id",
            "parent_id",
        ),
        *(
            "context",
            "span_kind",
            "input.value",
            "output.value",
            "input",
            "output",
            "inputs",
            "outputs",
            "data",
        ),
        *("openinference.span.kind", "retrieval.documents", "retrieval.documents.0.document.id", "documents"),
        *(
            "retrieval.documents.0",
            "annotations",
            "annotations.0.annotation.name",
            "result",
            "label",
            "score",
        ),
        *(
            "reranker.output_documents",
            "llm.output_messages",
            "gen_ai.operation.name",
            "gen_ai.input.messages",
        ),
        *("observations", "scores", "trace", "timestamp", "type", "run_type", "child_runs", "feedback_stats"),
        *("messages", "role", "content", "parts", "message", "kwargs", "text", "page_content", "metadata"),
        *("question", "history", "retrieved", "start_time", "startTime", "annotator_kind", "expectedOutput"),
    ]
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["", " ", "RETRIEVER", "retriever", "RERANKER", "retrieval", "chat", "user", "ai", "t1", "7"]
    )
    | st.sampled_from(
        ['{"documents": [[1, 2]]}', "[", '[["user", 1]]', '"x"', "2026-03-01T10:00:00Z", "1e999"]
    )
    | st.text(max_size=5)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)


@pytest.mark.slow
@given(st.lists(st.dictionaries(KEYS, VALUES, min_size=1, max_size=8), min_size=1, max_size=4))
def test_any_records_are_read_or_refused(records: list[Any]) -> None:
    """Traces that are read form an eval set, unless ids are repeated or there are no examples."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "spans.jsonl"
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
        try:
            traces = read_traces([path])
        except InputError as error:
            assert "spans.jsonl line " in str(error)  # noqa: PT017 - both ends are fine
            return
    assert all(question.question.text for question in traces.questions)
    try:
        from_records(
            ((question.place, question.record()) for question in traces.questions), name="spans.jsonl"
        )
    except InputError as error:
        assert re.search("is already that of|contains no examples", str(error))  # noqa: PT017 - both outcomes are valid
