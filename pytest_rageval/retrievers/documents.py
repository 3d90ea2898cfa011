"""Documents from the items that a retriever returns: text, id and span are found in the usual places."""

import operator
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import PurePath
from typing import Any, Final, TypeGuard

from pytest_rageval.datatypes import Document, Retrieval, Span, SpooledDocuments, Step
from pytest_rageval.errors import CallableError, InputError
from pytest_rageval.user_code import InvalidResult, as_number

__all__ = ["corpus_from", "document_from", "is_list", "listed", "retrieval_from"]

SOURCE: Final = ("source", "file_path", "file_name", "source_id", "ref_doc_id")
PAGE: Final = ("page", "page_label", "page_number")


OFFSETS: Final = (
    ("start", "end", False),
    ("start_index", "end_index", True),  # LangChain, with add_start_index
    ("start_char_idx", "end_char_idx", True),  # LlamaIndex
    ("split_idx_start", "split_idx_end", False),  # Haystack
)
"""Names of a passage's offsets, and whether they count from the page, where the passage names one."""

TEXT: Final = ("text", "page_content", "content", "passage", "body")
ID: Final = ("id", "_id", "id_", "doc_id", "document_id", "passage_id", "chunk_id")
CONTENT: Final = "get_content"  # the method of a LlamaIndex node of several media
SCORE: Final = ("score", "similarity")
METADATA: Final = ("metadata", "meta")
OF_SPAN: Final = frozenset((*SOURCE, "node", *METADATA))
"""Without any of these keys a dict names no file."""


def _span(item: object, text: str) -> Span | None:
    """The span of a retrieved item; None where its file or its start is not known (-1 in LangChain).

    The names may be in the item, in its `node`, or in the metadata of either; the first one counts. Loaders that cut
    a file into pages count offsets from the page, which says nothing about the file.
    """
    if type(item) is dict and not item.keys() & OF_SPAN:
        return None
    node = _get(item, "node")
    all_places = [item, node, *(_get(place, name) for place in (item, node) for name in METADATA)]
    places = [place for place in all_places if place is not None]
    files = (_first_value(places, name) for name in SOURCE)
    source = next((str(file) for file in files if isinstance(file, str | PurePath) and str(file)), None)
    if source is None:
        return None
    has_page = any(_first_value(places, name) is not None for name in PAGE)
    for start_name, end_name, of_page in OFFSETS:
        start, end = (_offset(_first_value(places, name)) for name in (start_name, end_name))
        if start is not None and not (of_page and has_page):
            end = start + len(text) if end is None else end
            return Span(source, start, end) if start < end else None
    return None


def document_from(item: object) -> Document:
    """Return one retrieved item as a document.

    A string is a text without an id. A dict or an object is read by key or attribute: the text under a name of
    `TEXT`, the id under a name of `ID`, there or in its metadata; the first one counts. Pairs (document, score) and
    LlamaIndex's nodes with a score are read as the document with that score. With an id and no text the text is "".

    Raises:
        CallableError: it has neither text nor id.
    """
    if isinstance(item, Document):
        return item
    if isinstance(item, str):
        return Document(item)
    # Most are dicts, which have neither a node nor a method.
    is_dict = type(item) is dict
    scored = None if is_dict else _scored(item)
    if scored is not None:
        return replace(document_from(scored[0]), score=scored[1])
    metadata = _first(item, METADATA)
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    identifier = _first(item, ID)
    if identifier is None:
        identifier = _first(metadata, ID)
    text, content = _first(item, TEXT), None if is_dict else getattr(item, CONTENT, None)
    if text is None and callable(content):
        text = content()
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
    return Document(
        text=text,
        id=None if identifier is None else str(identifier),
        score=as_number(_first(item, SCORE)),
        metadata=metadata,
        span=_span(item, text),
    )


def corpus_from(documents: object) -> tuple[Document, ...]:
    """Return a corpus as documents, in its order; each as `document_from`, and raising as `listed`."""
    return tuple(document_from(item) for item in listed(documents))


def listed(documents: object) -> list[object]:
    """Return the items of a corpus or a pool, unchanged, or raise InputError if it is not a series of documents."""
    if is_list(documents):
        return list(documents)
    raise InputError(
        f"Passages are given as a list, found {type(documents).__name__}: {documents!r:.60}\n"
        "Give strings, dicts with a text and an id, or Documents; of a dict from ids to texts, "
        '[{"id": id, "text": text} for id, text in passages.items()].'
    )


def is_list(documents: object) -> TypeGuard[Iterable[object]]:
    """Whether an object is a series of documents; a string and a dict are none."""
    # The usual type at first: the test for any iterable is slow.
    return type(documents) is list or (
        isinstance(documents, Iterable) and not isinstance(documents, str | bytes | Mapping)
    )


def _get(place: object, name: str) -> Any:
    # Most are dicts, and the test for any mapping is slow.
    if isinstance(place, dict) or isinstance(place, Mapping):  # noqa: SIM101
        return place.get(name)
    return getattr(place, name, None)


def _offset(value: Any) -> int | None:
    """An integer ≥ 0 of any type. Vector stores return integers as floats."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        offset = operator.index(value)
    except TypeError:
        return None
    return offset if offset >= 0 else None


def _first_value(places: list[Any], name: str) -> Any:
    return next((value for value in (_get(place, name) for place in places) if value is not None), None)


def _scored(item: object) -> tuple[object, float | None] | None:
    if isinstance(item, tuple) and not hasattr(item, "_fields"):
        score = as_number(item[1]) if len(item) == len(("document", "score")) else None
        return None if score is None else (item[0], score)
    node = getattr(item, "node", None)
    return (node, as_number(_first(item, SCORE))) if callable(getattr(node, CONTENT, None)) else None


def _first(item: object, names: tuple[str, ...]) -> Any:
    # Most are dicts, as in `_get`.
    get = item.get if isinstance(item, dict) else partial(_get, item)
    for value in map(get, names):
        if value is not None and not callable(value):
            return value
    return None


def retrieval_from(found: object) -> Retrieval:
    """Return what a retriever returned, with all documents read; Unusable where it cannot be."""
    if isinstance(found, SpooledDocuments):
        # Of a recorded run: they are read already.
        return Retrieval(found)
    if not isinstance(found, Retrieval):
        return Retrieval(_documents(found, ""))
    steps = None
    if found.steps is not None:
        if not is_list(found.steps):
            raise _not_steps(f"{type(found.steps).__name__} as steps")
        steps = [_step(step, number) for number, step in enumerate(found.steps, 1)]
    if found.question is not None and not isinstance(found.question, str):
        what = f"returned question={found.question!r:.40}"
        raise InvalidResult(
            what, f"{what} for {{question}}.\nGive a text, or None for the question that was asked."
        )
    for name in ("tokens", "cost", "seconds"):
        value = getattr(found, name)
        number = 0.0 if value is None else as_number(value)
        if number is None or not 0 <= number < inf:
            what = f"returned {name}={value!r:.40}"
            raise InvalidResult(
                what, f"{what} for {{question}}.\nGive a number, or None where it is not known."
            )
    return replace(found, documents=_documents(found.documents, ""), steps=steps)


def _step(step: object, number: int) -> Step:
    if not isinstance(step, Step) or not isinstance(step.query, str):
        raise _not_steps(f"{type(step).__name__} as step {number}")
    return Step(step.query, _documents(step.documents, f" in step {number}"))


def _not_steps(found: str) -> InvalidResult:
    return InvalidResult(
        f"returned {found}", f"returned {found} for {{question}}.\nGive steps=[Step(query, documents), …]."
    )


def _documents(found: object, where: str) -> list[Document]:
    if not is_list(found):
        what = f"returned {type(found).__name__}{where}"
        advice = "Return a list of documents, best first: strings, dicts or Documents."
        raise InvalidResult(what, f"{what} for {{question}}.\n{advice}")
    documents = []
    for rank, item in enumerate(found, 1):
        try:
            documents.append(document_from(item))
        except CallableError as error:
            message = f"returned for {{question}}{where}, at rank {rank}, a document that {error}"
            raise InvalidResult("returned a document that has neither text nor id", message) from None
    return documents
