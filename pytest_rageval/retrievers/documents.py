"""Converts the items that a retriever returns into documents: finds text, id and span under their usual names."""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import PurePath
from typing import Any, Final, TypeGuard

from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.core.ranking import Document, Retrieval, Span
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.foreign_values import (
    as_identifier,
    as_mapping,
    as_number,
    data_frame_rows,
    is_data_frame,
    is_identifier,
    is_missing,
)
from pytest_rageval.lib.text import join_first, text_of
from pytest_rageval.retrievers.fields import (
    ID_NAMES,
    METADATA_NAMES,
    SCORE_NAMES,
    TEXT_NAMES,
    flat_fields,
    value_at,
)

SOURCE_NAMES: Final = ("source", "file_path", "file_name", "source_id", "ref_doc_id")
PAGE_NAMES: Final = ("page", "page_label", "page_number")
OFFSET_NAMES: Final = (
    ("start", "end", False),
    ("start_index", "end_index", True),  # LangChain, with add_start_index
    ("start_char_idx", "end_char_idx", True),  # LlamaIndex
    ("split_idx_start", "split_idx_end", False),  # Haystack
)
"""The names of a passage's offsets, and whether they are offsets in a page if the passage has a page."""

MAX_LISTED_FIELDS: Final = 12  # fields of an item in a message
MAX_KEYS_TEXT: Final = 500  # characters of a dict's keys in a message
CONTENT_METHOD: Final = "get_content"  # the method of LlamaIndex's nodes
PARENT_ID: Final = "ref_doc_id"  # the id of the document that such a node was cut from
NESTED_NAMES: Final = (
    "payload", "entity", "_source", "fields", "properties", "record", "document", "passage", "chunk", "content",
)  # fmt: skip
"""The names of the part of an item that has its text: in Qdrant, Milvus, Elasticsearch, Weaviate …"""
SPAN_KEYS: Final = frozenset((*SOURCE_NAMES, "node", *METADATA_NAMES))
"""A dict without any of these keys names no file."""

PLAIN_TYPES: Final = frozenset((str, dict, int))
"""Types of most values. Their objects are neither missing values nor methods."""

FIELD_TYPES: Final = frozenset(product([str], [str, type(None)], [float, type(None)], [dict]))
"""The types of text, id, score and metadata of a `Document` that needs no conversion."""

SPAN_TYPES: Final = (str, int, int)


def _span(item: object, text: str) -> Span | None:
    """Return the span of a retrieved item; None if its file or its start is unknown (-1 in LangChain).

    The names may be in the item, in its `node`, or in the metadata of either; the first match counts. Loaders that
    split a file into pages count offsets from the start of the page, which does not locate a passage in the file.
    """
    if type(item) is dict and SPAN_KEYS.isdisjoint(item):
        return None
    node = _get_value(item, "node")
    metadata = [_get_value(holder, name) for holder in (item, node) for name in METADATA_NAMES]
    holders = [holder for holder in (item, node, *metadata) if holder is not None]
    files = (_first_value(holders, name) for name in SOURCE_NAMES)
    source = next((str(file) for file in files if isinstance(file, str | PurePath) and str(file)), None)
    if source is None:
        return None
    has_page = any(_first_value(holders, name) is not None for name in PAGE_NAMES)
    for start_name, end_name, of_page in OFFSET_NAMES:
        start, end = (_offset(_first_value(holders, name)) for name in (start_name, end_name))
        if start is not None and not (of_page and has_page):
            end = start + len(text) if end is None else end
            return Span(source, start, end) if start < end else None
    return None


def document_from(item: object, id_path: str = "") -> Document:
    """Return one retrieved item, in any form, as a document; at `id_path` is its id, such as "metadata.source".

    A string is a text without an id. A dict or an object is read by key or attribute: the text under a name in
    `TEXT_NAMES`, the id under a name in `ID_NAMES`, of the item or of its metadata; the first match counts, and a
    missing value of a data frame is no match. Pairs (document, score) and LlamaIndex's nodes with a score become the
    document with that score. A node of LlamaIndex has the id of the document that it was cut from, if it has one, and
    its own as `chunk_id`. An item with an id and without text has the text "".
    """
    document = _read_item(item)
    return _with_id_at(document, item, id_path) if id_path else document


def _read_item(item: object) -> Document:
    # Most items are dicts, which have neither a node nor a method.
    if type(item) is dict:
        return _read_fields(item, item.get)
    if isinstance(item, Document):
        types = type(item.text), type(item.id), type(item.score), type(item.metadata)
        has_plain_span = item.span is None or _checked_span(item.span) is item.span
        if types in FIELD_TYPES and has_plain_span and (item.id is None or is_identifier(item.id)):
            return item
        return _with_field_types(item)
    if isinstance(item, str):
        return Document(item)
    item_and_score = _item_and_score(item)
    if item_and_score is not None:
        return replace(_read_item(item_and_score[0]), score=item_and_score[1])
    return _read_fields(item, partial(_get_value, item))


def _read_fields(item: object, get: Callable[[str], Any]) -> Document:
    metadata = _first(get, METADATA_NAMES)
    metadata = dict(metadata) if metadata is not None and isinstance(metadata, Mapping) else {}
    text, content = _first(get, TEXT_NAMES), getattr(item, CONTENT_METHOD, None)
    # A search engine that stores lists has the id in a list too.
    id_value = _first(get, ID_NAMES)
    identifier = _identifier_of(_only(id_value) if type(text) is list else id_value)
    if identifier is None:
        identifier = _identifier_of(_first(metadata.get, ID_NAMES))
    if text is None and callable(content):
        text = content()
    if type(text) is not str:
        part = _from_part(item)
        if part is not None:
            return part
        text = _only(text)
        if text is None:
            # Pinecone keeps the texts in the metadata.
            text = _first(metadata.get, METADATA_TEXT_NAMES)
    text, score, chunk_id = _text_of(item, text, identifier), as_number(_first(get, SCORE_NAMES)), None
    if callable(content):
        parent_id = _identifier_of(getattr(item, PARENT_ID, None))
        if parent_id not in (None, identifier):
            identifier, chunk_id = parent_id, identifier
    return Document(text, identifier, score, metadata, _span(item, text), chunk_id)


def _with_id_at(document: Document, item: object, id_path: str) -> Document:
    """Return a document with the id at a path of the item; its own id tells the chunks of one document apart."""
    values = (value_at(holder, id_path) for holder in (item, document))
    identifier = _identifier_of(_only(next((value for value in values if value is not None), None)))
    if identifier is None:
        fields = join_first([*flat_fields(item)], MAX_LISTED_FIELDS) or "(none)"
        raise CallableError(
            f"has no field {id_path}: it has {fields}.\n"
            "The setting rageval_document_id names the field that every document has its id in."
        )
    own_id = document.chunk_id or document.id or digest(document.text)[:12]
    # With the document's id before it, no gold passage has this id by chance.
    return replace(
        document, id=identifier, chunk_id=f"{identifier}/{own_id}" if own_id != identifier else None
    )


NO_TEXT: Final = "has no text"
METADATA_TEXT_NAMES: Final = ("text", "page_content")


def _from_part(item: object) -> Document | None:
    """Return the document of an item that has its text in a part, such as `payload`, or that is read like a mapping.

    The item's own id and score take precedence. None: the item has no such part.
    """
    part = next((value for name in NESTED_NAMES if _has_parts(value := _get_value(item, name))), None)
    if part is None:
        fields = None if isinstance(item, Mapping) else _as_fields(item)
        return None if fields is None else _read_item(fields)
    fields = as_mapping(part)
    try:
        document = _read_item(part)
    except CallableError as error:
        if not str(error).startswith(NO_TEXT):
            raise
        if fields is None:
            return None
        document = Document("")
    get = partial(_get_value, item)
    own_id, score = _identifier_of(_first(get, ID_NAMES)), as_number(_first(get, SCORE_NAMES))
    if own_id is None and document.id is None and not document.text:
        return None
    used = TEXT_NAMES if own_id is not None else (*TEXT_NAMES, *ID_NAMES)
    metadata = document.metadata or {
        name: value for name, value in (fields or {}).items() if name not in used
    }
    return replace(
        document,
        id=document.id if own_id is None else own_id,
        score=document.score if score is None else score,
        metadata=metadata,
    )


def _has_parts(value: object) -> bool:
    plain = isinstance(value, str | bytes | int | float | list | tuple | set | frozenset)
    return not (plain or callable(value) or is_missing(value))


def _as_fields(item: object) -> Mapping[Any, Any] | None:
    """Return an object without the usual attributes as a mapping: a row of a database, or a document of tantivy."""
    convert = getattr(item, "to_dict", None)
    return as_mapping(convert() if callable(convert) else item)


def _only(value: object) -> object:
    """Return the value of a list of one, as search engines store a field; any other value unchanged."""
    return value[0] if type(value) is list and len(value) == 1 else value


def _with_field_types(document: Document) -> Document:
    fields = document.text, document.id, document.score, document.metadata
    text, identifier, score, metadata = (None if is_missing(value) else value for value in fields)
    identifier = _identifier_of(identifier)
    return replace(
        document,
        text=_text_of(document, text, identifier),
        id=identifier,
        score=as_number(score),
        metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
        span=None if document.span is None else _checked_span(document.span),
    )


def _identifier_of(value: object) -> str | None:
    try:
        return as_identifier(value)
    except TypeError as error:
        raise CallableError(f"has an id that is {error}.\nGive a text or an integer as its id.") from None


def _checked_span(span: Any) -> Span:
    """Return the span of a `Document` as a `Span`, the same object if it is one; CallableError if it is invalid."""
    if type(span) is Span and tuple(map(type, span)) == SPAN_TYPES and span[0] and 0 <= span[1] < span[2]:
        return span
    source, start, end = span if isinstance(span, tuple) and len(span) == len(SPAN_TYPES) else (None,) * 3
    source = str(source) if isinstance(source, str | PurePath) else ""
    start, end = _offset(start), _offset(end)
    if not source or start is None or end is None or start >= end:
        raise CallableError(
            f"has an invalid span: {span!r:.80}.\n"
            "Give Span(source, start, end): the file, and the offsets of the first character and after the last, "
            "such as Span('handbook.md', 120, 310); or None."
        )
    return Span(source, start, end)


def _text_of(item: object, text: object, identifier: object) -> str:
    """Return the text of an item, "" if it has only an id; CallableError if it has neither."""
    if text is None and identifier is not None:
        return ""
    if isinstance(text, str):
        return text
    what = type(item).__name__
    if isinstance(item, Mapping):
        what += f" with the keys {text_of(', '.join(map(str, item)), MAX_KEYS_TEXT) or '(none)'}"
    hint = ""
    if isinstance(item, Retrieval):
        hint = " Return the Retrieval itself, not a list with it."
    elif isinstance(item, tuple):
        hint = ' Of rows, name the columns: [{"id": id, "text": text} for id, text in rows].'
    elif is_document_list(item):
        hint = " Of a pair (documents, scores), return the documents or zip(documents, scores)."
    elif as_number(item) is not None:
        hint = f' Return an id as {{"id": {item!s:.40}}}.'
    raise CallableError(
        f"{NO_TEXT}: {what}.\n"
        f"Return strings, or dicts or objects with the text under one of: {', '.join(TEXT_NAMES)}.{hint}"
    )


def corpus_from(documents: object) -> tuple[Document, ...]:
    return tuple(document_from(item) for item in document_list(documents))


def document_list(documents: object) -> list[object]:
    """Return the items of a corpus or a pool unchanged, as a list; InputError if it is not a series of documents."""
    if is_document_list(documents):
        # The iterator of a data frame returns the names of the columns.
        return list(data_frame_rows(documents) if is_data_frame(documents) else documents)
    raise InputError(
        f"Passages are given as a list, found {type(documents).__name__}: {documents!r:.60}\n"
        "Give strings, dicts with a text and an id, or Documents; of a dict from ids to texts, "
        '[{"id": id, "text": text} for id, text in passages.items()]; a set has no order.'
    )


def is_document_list(documents: object) -> TypeGuard[Iterable[object]]:
    """Whether an object is a series of documents; a string, a dict or a set is not."""
    # The usual type is checked first, since the check for any iterable is slow.
    return type(documents) is list or (
        isinstance(documents, Iterable) and not isinstance(documents, str | bytes | Mapping | set | frozenset)
    )


def _get_value(holder: object, name: str) -> Any:
    # Dicts are checked first, since the check for any mapping is slow.
    if isinstance(holder, dict) or isinstance(holder, Mapping):  # noqa: SIM101
        return holder.get(name)
    return getattr(holder, name, None)


def _offset(value: Any) -> int | None:
    """Return an integer ≥ 0 of any type; None for other values. Some vector stores return integers as floats."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        offset = operator.index(value)
    except TypeError:
        return None
    return offset if offset >= 0 else None


def _first_value(holders: list[Any], name: str) -> Any:
    values = (_get_value(holder, name) for holder in holders)
    return next((value for value in values if value is not None), None)


def _item_and_score(item: object) -> tuple[object, float | None] | None:
    """Return item and score of a pair (item, score) or of a node with a score; None for other items."""
    if isinstance(item, tuple) and not hasattr(item, "_fields"):
        score = as_number(item[1]) if len(item) == len(("document", "score")) else None
        return None if score is None else (item[0], score)
    node = getattr(item, "node", None)
    is_node = callable(getattr(node, CONTENT_METHOD, None))
    return (node, as_number(_first(partial(_get_value, item), SCORE_NAMES))) if is_node else None


def _first(get: Callable[[str], Any], names: tuple[str, ...]) -> Any:
    for value in map(get, names):
        if value is not None and (type(value) in PLAIN_TYPES or not (callable(value) or is_missing(value))):
            return value
    return None
