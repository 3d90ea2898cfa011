"""Finds the documents in what a search returned: rows of a table, columns, the field of a response, a batch of one.

Stores and frameworks return their documents in one of a few shapes. They are recognised by the names of fields, not by
the store, and a shape is read only if it has one meaning.
"""

from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from typing import Any, Final

from pytest_rageval.calls.user_code import InvalidResult
from pytest_rageval.lib.foreign_values import (
    JsonObject,
    as_mapping,
    data_frame_rows,
    is_data_frame,
    is_missing,
    is_record,
)
from pytest_rageval.lib.text import counted
from pytest_rageval.retrievers.fields import ID_NAMES, METADATA_NAMES, SCORE_NAMES, TEXT_NAMES

RESULT_NAMES: Final = (
    "points", "hits", "matches", "results", "nodes", "source_nodes", "source_documents", "objects", "context", "docs",
)  # fmt: skip
"""The names of the field in which a response has its documents: of Qdrant, Elasticsearch, Pinecone, LangChain …"""

SINGULARS: Final[Mapping[str, str]] = {
    **{f"{name}s": name for name in (*TEXT_NAMES, *ID_NAMES, *SCORE_NAMES, *METADATA_NAMES, "source")},
    "bodies": "body",
    "similarities": "similarity",
    "indices": "index",
}
"""The name of a field by the name of its column."""

DOCUMENT_COLUMNS: Final = frozenset((
    *RESULT_NAMES,
    *TEXT_NAMES,
    *(plural for plural, name in SINGULARS.items() if name in TEXT_NAMES),
))  # fmt: skip
ID_COLUMNS: Final = frozenset(
    (*ID_NAMES, *(plural for plural, name in SINGULARS.items() if name in ID_NAMES))
)

ADVICE: Final = "Return a list of documents, best first: strings, dicts or Documents."


def documents_in(returned: object, where: str = "") -> Iterable[object]:
    """Return the items of a retriever's result, best first; each is a document in any form.

    A series of documents is returned unchanged. These shapes are read:

    - a data frame, an Arrow table or a database cursor: its rows, as dicts; a query with `to_list`: this list;
    - a batch with the result of one query: `[[…]]`;
    - a mapping, or an object that is no series, with one field of documents: `{"hits": {"hits": […]}}`, `.points`;
    - columns of equal length, by name: `{"ids": […], "documents": […]}`, also each as a batch of one query;
    - `(documents, scores)` in either order, if the scores are numbers with decimals or the documents are no strings;
    - `(documents, other)` if `other` is no list, such as an answer or a number.

    Any other shape, or one with several meanings, is an error that shows the line to write. `where` says in it which
    part of a result it is, such as " in step 2".
    """
    if type(returned) is list and not (returned and _is_series(returned[0])):
        # A shortcut for the usual type.
        return returned
    rows = _table_rows(returned)
    if rows is not None:
        return rows
    fields = _fields(returned)
    if fields is not None:
        return _from_fields(fields, returned, where)
    is_plain = isinstance(returned, str | bytes | set | frozenset)
    if is_plain or _async_field(returned) is not None or not isinstance(returned, Iterable):
        raise _unreadable(type(returned).__name__, where, _hint(returned))
    items = list(returned)
    if not any(map(_is_series, items)):
        return items
    return _from_parts([_as_list(item) if _is_series(item) else item for item in items], returned, where)


def _table_rows(returned: Any) -> Iterable[Any] | None:
    if is_data_frame(returned):
        return data_frame_rows(returned)
    if callable(getattr(returned, "fetchall", None)) and getattr(returned, "description", None) is not None:
        names = [str(column[0]) for column in returned.description]
        # A driver may return rows of a type of its own, which have names already.
        return [
            dict(zip(names, row, strict=True)) if type(row) is tuple else row for row in returned.fetchall()
        ]
    to_list = getattr(returned, "to_list", None)
    if callable(to_list) and not isinstance(returned, Iterable):
        return list(to_list())
    return None


def _is_series(value: Any) -> bool:
    """Whether a value is a list or an array, of at least one dimension."""
    if isinstance(value, list):
        return True
    return hasattr(value, "to_pylist") or (hasattr(value, "tolist") and getattr(value, "ndim", 0) > 0)


def _as_list(series: Any) -> list[Any]:
    if isinstance(series, list):
        return series
    return list(series.to_pylist() if hasattr(series, "to_pylist") else series.tolist())


def _fields(returned: Any) -> dict[str, object] | None:
    """Return the fields of a mapping, of a named tuple, or of an object that is no series; None for other values."""
    mapping = as_mapping(returned)
    if mapping is not None:
        return dict(mapping)
    if hasattr(returned, "_asdict"):
        # A named tuple is a series too: it has fields only if one of them is a column.
        fields = returned._asdict()
        return fields if any(_is_column(name, value) for name, value in fields.items()) else None
    if isinstance(returned, Iterable) and not is_record(returned):
        return None
    fields = {name: getattr(returned, name, None) for name in (*DOCUMENT_COLUMNS, *ID_COLUMNS)}
    fields = {name: value for name, value in fields.items() if _is_column(name, value)}
    return fields or None


def _is_column(name: str, value: object) -> bool:
    return name in (DOCUMENT_COLUMNS | ID_COLUMNS) and (
        _is_series(value) or (isinstance(value, tuple) and not hasattr(value, "_fields"))
    )


def _from_fields(fields: JsonObject, returned: object, where: str) -> Iterable[object]:
    columns = {
        name: _as_list(value) if _is_series(value) else list(value)
        for name, value in fields.items()
        if _is_series(value) or isinstance(value, tuple)
    }
    with_documents = [name for name in columns if name in DOCUMENT_COLUMNS]
    with_ids = [name for name in columns if name in ID_COLUMNS]
    mappings = [name for name, value in fields.items() if isinstance(value, Mapping)]
    nested = [name for name in mappings if name in RESULT_NAMES or len(fields) == 1]
    if len(nested) == 1 and not with_documents:
        # Elasticsearch has its hits in the field "hits" of "hits"; a pipeline of Haystack, in that of a component.
        return documents_in(fields[nested[0]], where)
    if len(with_documents) > 1 or not (with_documents or with_ids):
        shown = ", ".join(map(str, fields)) or "none"
        what = f"{type(returned).__name__} with the fields {shown}"
        raise _unreadable(type(returned).__name__, where, _fields_hint(fields, with_documents), what)
    main = (with_documents or with_ids)[0]
    if _is_batch(columns[main]):
        if len(columns[main]) > 1:
            raise _unreadable(f"{main} of {len(columns[main])} queries", where, "Return those of one query.")
        columns = {name: list(_as_list(column[0])) for name, column in columns.items() if _is_batch(column)}
    length = len(columns[main])
    if with_documents and with_ids and len(columns.get(with_ids[0], columns[main])) != length:
        lengths = f"{main} ({length}) and {with_ids[0]} ({len(columns[with_ids[0]])})"
        raise _unreadable(f"columns of different lengths, {lengths}", where, "")
    if _kind(columns[main]) in NUMBERS and with_documents:
        raise _unreadable(f"numbers as {main}", where, POSITIONS_HINT)
    companions = [name for name in columns if name != main and len(columns[name]) == length]
    if not companions and with_documents:
        return columns[main]
    # Documents that are no strings have fields of their own, and are read as a part of the row.
    are_texts = all(isinstance(value, str) or is_missing(value) for value in columns[main])
    main_name = SINGULARS.get(main, main) if are_texts or not with_documents else "document"
    names = {name: SINGULARS.get(name, name) for name in companions} | {main: main_name}
    return [{names[name]: columns[name][index] for name in names} for index in range(length)]


def _is_batch(column: Sequence[Any]) -> bool:
    return bool(column) and all(map(_is_series, column))


def _from_parts(parts: Sequence[Any], returned: object, where: str) -> Iterable[object]:
    """Return the documents of a series of which at least one item is a list."""
    lists = [part for part in parts if isinstance(part, list)]
    is_only = len(lists) == 1 and (len(parts) == 1 or isinstance(returned, tuple))
    if is_only and _kind(lists[0]) not in NUMBERS:
        # The one query of a batch; or documents beside an answer or a number.
        return documents_in(lists[0], where)
    if all(map(_is_batch, lists)) and all(len(part) == 1 for part in lists):
        lists = [_as_list(part[0]) for part in lists]
    kinds = [_kind(part) for part in lists]
    if len(lists) == len(parts):
        # Two lists; or pairs, which JSON writes as lists.
        for columns in (lists, list(zip(*lists, strict=False))):
            if scored := _scored(columns):
                return scored
    shown = " and ".join(f"{kind}s" for kind in dict.fromkeys(kinds))
    what = f"{type(returned).__name__} of {counted(len(lists), 'list')} ({shown})"
    raise _unreadable(type(returned).__name__, where, _parts_hint(kinds, returned), what)


def _scored(columns: Sequence[Sequence[Any]]) -> list[tuple[Any, Any]] | None:
    """Return documents and their scores, in either order, as pairs; None if the two columns have another meaning.

    Integers beside texts may be ids or positions.
    """
    if len(columns) != len(("documents", "scores")) or len(columns[0]) != len(columns[1]):
        return None
    for documents, scores in (columns, columns[::-1]):
        if (_kind(documents), _kind(scores)) in SCORED_KINDS:
            return list(zip(documents, scores, strict=True))
    return None


NUMBERS: Final = ("integer", "decimal")
SCORED_KINDS: Final = {("document", "integer"), ("document", "decimal"), ("text", "decimal")}
ONE_DOCUMENT_HINT: Final = "This is one document: return [found]."
POSITIONS_HINT: Final = (
    "If these are positions in your corpus, return its passages: "
    "[corpus[position] for position in positions]."
)


def _kind(values: Sequence[Any]) -> str:
    if not values:
        return "document"
    if all(isinstance(value, str) for value in values):
        return "text"
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return "decimal" if any(isinstance(value, float) for value in values) else "integer"
    return "list" if all(map(_is_series, values)) else "document"


def _async_field(returned: object) -> str | None:
    return next(
        (name for name in RESULT_NAMES if isinstance(getattr(returned, name, None), AsyncIterable)), None
    )


def _hint(returned: object) -> str:
    if (name := _async_field(returned)) is not None:
        return f"Read them in the retriever: [item async for item in found.{name}]."
    if isinstance(returned, set | frozenset):
        return "A set has no order."
    if isinstance(returned, AsyncIterable):
        return "Read it in the retriever: [item async for item in found]."
    if any(isinstance(getattr(returned, name, None), str) for name in TEXT_NAMES):
        return ONE_DOCUMENT_HINT
    if isinstance(returned, str):
        return "This is one text: return the documents that it was made of."
    method = next((name for name in ("fetchall", "all") if callable(getattr(returned, name, None))), None)
    return f"Of this object, return what its method gives: found.{method}()." if method else ""


def _fields_hint(fields: Mapping[str, object], with_documents: Sequence[str]) -> str:
    if with_documents:
        return f'Return one of the fields: found["{with_documents[0]}"].'
    values = list(fields.values())
    if any(name in TEXT_NAMES for name in fields) and any(isinstance(value, str) for value in values):
        return ONE_DOCUMENT_HINT
    if values and _kind(values) == "text":
        return 'Of a dict from ids to texts: [{"id": id, "text": text} for id, text in found.items()].'
    if values and _kind(values) in NUMBERS:
        return (
            'Of a dict from ids to scores: [{"id": id} for id in sorted(found, key=found.get, reverse=True)].'
        )
    return 'Return the field with the documents, such as found["documents"].'


def _parts_hint(kinds: Sequence[str], returned: object) -> str:
    if not isinstance(returned, tuple) and len(set(kinds)) == 1:
        return "Of the results of several queries, return those of one: found[0]."
    if set(kinds) <= {*NUMBERS}:
        return POSITIONS_HINT
    if "document" in kinds:
        position = kinds.index("document")
        return f"Return the documents: found[{position}]."
    return 'Say which list is which: [{"id": id, "text": text} for text, id in zip(*found)].'


def _unreadable(found: str, where: str, hint: str, what: str = "") -> InvalidResult:
    """Return the error for a result of an unreadable shape; `what` describes it in more words than `found`."""
    message = f"returned {what or found}{where} for {{question}}.\n{ADVICE} {hint}".rstrip()
    return InvalidResult(f"returned {found}{where}", message)
