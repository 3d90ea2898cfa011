"""Documents from whatever a retriever returns: text, id and span are found in the usual places."""

import operator
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from pytest_rageval.errors import CallableError, InputError
from pytest_rageval.model import Document, Span
from pytest_rageval.user_code import as_number

__all__ = ["corpus_from", "document_from", "listed", "span_of"]

SOURCE: Final = ("source", "file_path", "file_name", "source_id", "ref_doc_id")
PAGE: Final = ("page", "page_label", "page_number")


class Offsets(NamedTuple):
    """How a framework calls the offsets of a passage.

    Attributes:
        start: of the first character.
        end: behind the last one, where it is said at all.
        of_page: whether they count from the page where the passage names one, not from the file.
    """

    start: str
    end: str
    of_page: bool = False


KNOWN: Final = (
    Offsets("start", "end"),
    Offsets("start_index", "end_index", of_page=True),  # LangChain, with add_start_index
    Offsets("start_char_idx", "end_char_idx", of_page=True),  # LlamaIndex
    Offsets("split_idx_start", "split_idx_end"),  # Haystack
)


def span_of(item: object, text: str) -> Span | None:
    """The span of a retrieved item: of a dict, or of a framework's object.

    Offsets are read from `start` and `end`, or as LangChain, LlamaIndex and Haystack call them; without an end
    it is the start and the length of the text. The file is `source`, `file_path`, `file_name`, `source_id` or
    `ref_doc_id`. All of them may stand in the item, in its `node`, or in the metadata of either; the first that
    is there counts.

    Returns:
        None where the file or the start is not known. So for a start of -1, which is LangChain's for "not
        found", and for LangChain's and LlamaIndex's offsets where a page is named: their loaders cut a file
        into pages first, and the offsets are those in the page.
    """
    node = _get(item, "node")
    places = [item, node, *(_get(place, name) for place in (item, node) for name in ("metadata", "meta"))]
    source = next((name for name in (_file(_first_offset(places, name)) for name in SOURCE) if name), None)
    if source is None:
        return None
    for offsets in KNOWN:
        start, end = (_offset(_first_offset(places, name)) for name in (offsets.start, offsets.end))
        if start is None or (
            offsets.of_page and any(_first_offset(places, name) is not None for name in PAGE)
        ):
            continue
        end = start + len(text) if end is None else end
        return Span(source, start, end) if start < end else None
    return None


def _first_offset(places: list[Any], name: str) -> Any:
    return next((value for value in (_get(place, name) for place in places) if value is not None), None)


def _get(place: object, name: str) -> Any:
    return place.get(name) if isinstance(place, Mapping) else getattr(place, name, None)


def _file(value: Any) -> str | None:
    return str(value) if isinstance(value, str | PurePath) else None


def _offset(value: Any) -> int | None:
    """A whole number of any kind, at least 0; vector stores give whole numbers back as floats."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        offset = operator.index(value)
    except TypeError:
        return None
    return offset if offset >= 0 else None


TEXT: Final = ("text", "page_content", "content", "passage", "body")
ID: Final = ("id", "_id", "id_", "doc_id", "document_id", "passage_id", "chunk_id")
CONTENT: Final = "get_content"
SCORE: Final = ("score", "similarity")
METADATA: Final = ("metadata", "meta")


def document_from(item: object) -> Document:
    """One retrieved item as a document.

    A string is a text without an id. A dict or an object is read by key or attribute: the text under `text`,
    `page_content`, `content`, `passage` or `body`; the id under `id`, `_id`, `id_`, `doc_id`, `document_id`,
    `passage_id` or `chunk_id`, there or in its metadata. The first that is there counts. Where in which file it
    is, `span_of` says. Of a pair the second is the score, and a node with a score is read as the node: so do
    LangChain and LlamaIndex hand out scores.

    An item with an id and no text has the text "": it can be ranked, not read.

    Raises:
        CallableError: neither text nor id was found; what the item is, and what would do.
    """
    if isinstance(item, Document):
        return item
    if isinstance(item, str):
        return Document(item)
    scored = _scored(item)
    if scored is not None:
        return replace(document_from(scored[0]), score=scored[1])
    metadata = _first(item, METADATA)
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    identifier = _first(item, ID)
    if identifier is None:
        identifier = _first(metadata, ID)
    text = _text(item)
    if text is None and identifier is not None:
        text = ""
    if not isinstance(text, str):
        what = type(item).__name__
        if isinstance(item, Mapping):
            what += f" with the keys {', '.join(map(str, item)) or '(none)'}"
        raise CallableError(
            f"has no text: {what}.\n"
            f"Return strings, or dicts or objects with the text under one of: {', '.join(TEXT)}."
        )
    score = _first(item, SCORE)
    return Document(
        text=text,
        id=None if identifier is None else str(identifier),
        score=as_number(score),
        metadata=metadata,
        span=span_of(item, text),
    )


def corpus_from(documents: object) -> tuple[Document, ...]:
    """A corpus as documents, in its order; of whatever a retriever may return.

    Raises:
        InputError: it is no list, as `listed` says.
        CallableError: a document has neither text nor id.
    """
    return tuple(document_from(item) for item in listed(documents))


def listed(documents: object) -> list[object]:
    """What a corpus or a pool holds, as it was given.

    Raises:
        InputError: it is no series of documents. A string and a dict are none, though Python goes through the
            characters of the one and the keys of the other.
    """
    if isinstance(documents, Iterable) and not isinstance(documents, str | bytes | Mapping):
        return list(documents)
    raise InputError(
        f"Passages are given as a list, found {type(documents).__name__}: {documents!r:.60}\n"
        "Give strings, dicts with a text and an id, or Documents; of a dict from ids to texts, "
        '[{"id": id, "text": text} for id, text in passages.items()].'
    )


def _scored(item: object) -> tuple[object, float | None] | None:
    """A document and its score, where the item is a pair of these or a node with a score."""
    if isinstance(item, tuple) and not hasattr(item, "_fields"):
        score = as_number(item[1]) if len(item) == len(("document", "score")) else None
        return None if score is None else (item[0], score)
    node = getattr(item, "node", None)
    return (node, as_number(_first(item, SCORE))) if callable(getattr(node, CONTENT, None)) else None


def _text(item: object) -> Any:
    """The text under a usual name, or by the method that a LlamaIndex node of several media has for it."""
    text = _first(item, TEXT)
    content = getattr(item, CONTENT, None)
    return content() if text is None and callable(content) else text


def _first(item: object, names: tuple[str, ...]) -> Any:
    """The value under the first of the names that is there and not None."""
    for name in names:
        value = item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)
        if value is not None and not callable(value):
            return value
    return None
