"""Reading the span of a retrieved passage in its file."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_rageval.core.ranking import Span
from pytest_rageval.retrievers.documents import document_from

TEXT = "four"
SPAN = Span("guide/a.md", 7, 11)


def _langchain(**metadata: Any) -> Any:
    return SimpleNamespace(page_content=TEXT, id=None, metadata={"source": "guide/a.md", **metadata})


def _llamaindex(**fields: Any) -> Any:
    """Return a retrieved node: its wrapper exposes text, id and metadata of the node, but not its offsets."""
    node = SimpleNamespace(
        **{"start_char_idx": 7, "end_char_idx": 11, "metadata": {}, "ref_doc_id": "guide/a.md", **fields}
    )
    return SimpleNamespace(node=node, text=TEXT, id_="n1", score=0.5, metadata=node.metadata)


def _haystack(**meta: Any) -> Any:
    return SimpleNamespace(content=TEXT, id="h1", score=0.5, meta={"split_idx_start": 7, **meta})


@pytest.mark.parametrize(
    "item",
    [
        {"text": TEXT, "source": "guide/a.md", "start": 7, "end": 11},
        {"text": TEXT, "source": "guide/a.md", "start": 7},
        {"text": TEXT, "metadata": {"source": "guide/a.md", "start": 7.0, "end": np.int64(11)}},
        {"text": TEXT, "source": Path("guide/a.md"), "start": 7, "end": None, "page": 3},
        _langchain(start_index=7),
        _langchain(start_index=7, end_index=11),
        _llamaindex(),
        _llamaindex(end_char_idx=None),
        _llamaindex(metadata={"file_path": "guide/a.md", "file_name": "a.md"}, ref_doc_id="d8e4"),
        _haystack(source_id="guide/a.md", split_id=2, page_number=3),
        _haystack(source_id="8f3a", file_path="guide/a.md"),
    ],
)
def test_a_span_is_found_where_frameworks_keep_it(item: Any) -> None:
    assert document_from(item).span == SPAN


@pytest.mark.parametrize(
    "item",
    [
        TEXT,
        {"text": TEXT},
        {"text": TEXT, "source": "guide/a.md"},
        {"text": TEXT, "start": 7, "end": 11},
        {"text": TEXT, "source": "", "start": 7, "end": 11},
        {"text": TEXT, "source": 5, "start": 7, "end": 11},
        {"text": TEXT, "source": "guide/a.md", "start": "7"},
        {"text": TEXT, "source": "guide/a.md", "start": True},
        {"text": TEXT, "source": "guide/a.md", "start": 7.5},
        {"text": TEXT, "source": "guide/a.md", "start": 7, "end": 7},
        {"text": "", "source": "guide/a.md", "start": 7},
        _langchain(),
        _langchain(start_index=-1),
        _langchain(start_index=7, page=0),
        _llamaindex(start_char_idx=None),
        _llamaindex(metadata={"file_name": "a.pdf", "page_label": "1"}),
        _haystack(),
    ],
)
def test_what_is_not_a_whole_span_is_none(item: Any) -> None:
    assert document_from(item).span is None
