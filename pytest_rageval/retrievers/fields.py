"""Fields of retrieved items by path, such as "metadata.source", and the field that has the ids of the gold passages."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import islice
from pathlib import PurePath
from typing import Any, Final, NamedTuple
from uuid import UUID

from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.lib.foreign_values import as_identifier, as_mapping, id_key, is_missing

TEXT_NAMES: Final = (
    "text", "page_content", "content", "passage", "document", "chunk", "long_text", "body",
)  # fmt: skip
ID_NAMES: Final = ("id", "_id", "id_", "doc_id", "document_id", "passage_id", "chunk_id")
SCORE_NAMES: Final = ("score", "similarity", "_score", "_relevance_score", "distance", "_distance")
METADATA_NAMES: Final = ("metadata", "meta")

PLAIN: Final = (str, int, float, bytes, UUID, PurePath)
MAX_SAMPLED: Final = 300  # documents whose fields are kept
MAX_FIELDS: Final = 100  # fields of a document that are kept
MAX_DEPTH: Final = 4
MAX_LENGTH: Final = 300  # characters of a value that may be an id
SHORT_NUMBER: Final = 4  # digits; a shorter number may equal an id by chance
MIN_SHARE: Final = 0.1  # of the rankings in which a field has a gold id
MIN_SHARE_OF_NUMBERS: Final = 0.75  # the same for short numbers, such as those of pages


class GoldField(NamedTuple):
    """A field whose values are ids of gold passages, in so many rankings of those that were searched."""

    path: str
    values: tuple[str, ...]
    rankings: int
    of: int


def value_at(item: Any, path: str) -> Any:
    """Return the value at a path of keys and attributes, separated by "."; None if it is missing.

    >>> value_at({"metadata": {"source": "a.md", "x.y": 1}}, "metadata.source")
    'a.md'
    """
    value = _get(item, path)
    if value is not None or "." not in path:
        return None if callable(value) or is_missing(value) else value
    # A key may contain ".", so that each beginning of the path is tried.
    steps = path.split(".")
    for index in range(1, len(steps)):
        part = _get(item, ".".join(steps[:index]))
        if part is not None:
            value = value_at(part, ".".join(steps[index:]))
            if value is not None:
                return value
    return None


def _get(holder: Any, name: str) -> Any:
    holder = _of_pair(holder)
    mapping = as_mapping(holder)
    return getattr(holder, name, None) if mapping is None else mapping.get(name)


def _of_pair(item: Any) -> Any:
    return item[0] if isinstance(item, tuple) and item and not hasattr(item, "_fields") else item


class SimilarIds(NamedTuple):
    """An id of a gold passage and a retrieved value that differ only in the folders before the name, or in its suffix.

    `path` is that of the field with the value; empty for the id of the document.
    """

    path: str
    gold: str
    retrieved: str


class FieldSample:
    def __init__(self) -> None:
        self._fields: dict[str, dict[str, str]] = {}

    def add(self, items: Iterable[Any], documents: Iterable[Document]) -> None:
        for item, document in zip(items, documents, strict=False):
            if len(self._fields) >= MAX_SAMPLED:
                return
            if type(item) is not str and document.identity not in self._fields:
                self._fields[document.identity] = flat_fields(item)

    def gold_field(self, rankings: Iterable[tuple[Ranking, AbstractSet[str]]]) -> GoldField | None:
        """Return the field that most often has a gold id of the question; None if none has, or if an id is one.

        Each ranking comes with the `id_key` of each gold passage of its question.
        """
        matched: Counter[str] = Counter()
        values: dict[str, dict[str, None]] = {}
        searched = 0
        for ranking, gold in rankings:
            if not gold.isdisjoint(ranking.id_keys):
                return None
            fields = [found for document in ranking if (found := self._fields.get(document.identity))]
            searched += bool(fields)
            paths = {path: value for each in fields for path, value in each.items() if id_key(value) in gold}
            matched.update(paths.keys())
            for path, value in paths.items():
                values.setdefault(path, {})[value] = None
        for path, count in matched.most_common():
            by_chance = all(map(_is_short_number, values[path]))
            if count >= (MIN_SHARE_OF_NUMBERS if by_chance else MIN_SHARE) * searched:
                return GoldField(path, tuple(values[path]), count, searched)
        return None

    def similar_ids(self, rankings: Iterable[tuple[Ranking, AbstractSet[str]]]) -> SimilarIds | None:
        """Return a gold passage whose id and a retrieved value are one file in two forms; None if there is none.

        Such as "kb-1" and "docs/kb-1.md". Ids are searched first, then the other fields. Each ranking comes with the
        ids of the gold passages of its question.
        """
        in_fields = None
        for ranking, gold in islice(rankings, MAX_SAMPLED):
            keys = {name: _file_parts(name) for name in gold}
            for document in ranking:
                values = {} if document.id is None else {"": document.id}
                values |= {} if in_fields else self._fields.get(document.identity, {})
                for path, value in values.items():
                    parts = _file_parts(value)
                    for name, gold_parts in keys.items():
                        n = min(len(parts), len(gold_parts))
                        if n and parts[-n:] == gold_parts[-n:] and not _is_short_number(parts[-1]):
                            if not path:
                                return SimilarIds(path, name, value)
                            in_fields = in_fields or SimilarIds(path, name, value)
        return in_fields


SUFFIX: Final = re.compile(r"(?<=[^.])\.[A-Za-z]\w{0,4}$")


def _file_parts(name: str) -> tuple[str, ...]:
    """Return the folders and the name of a file without its suffix, in lower case."""
    return tuple(SUFFIX.sub("", name).replace("\\", "/").lower().strip("/").split("/"))


def _is_short_number(value: str) -> bool:
    return value.isdecimal() and len(value) < SHORT_NUMBER


def flat_fields(item: Any) -> dict[str, str]:
    """Return the plain values of an item by path, without its texts."""
    return dict(_pairs(_of_pair(item), "", 0))


def _pairs(holder: Any, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    mapping = as_mapping(holder)
    fields: Mapping[Any, Any] = getattr(holder, "__dict__", {}) if mapping is None else mapping
    if isinstance(holder, Document):
        fields = {"metadata": holder.metadata}
    elif hasattr(holder, "_asdict"):
        fields = holder._asdict()
    for name, value in list(fields.items())[:MAX_FIELDS]:
        path, is_text = f"{prefix}{name}", name in TEXT_NAMES and isinstance(value, str)
        if not isinstance(name, str) or name.startswith("__") or is_text:
            continue
        if isinstance(value, list) and len(value) == 1:
            [value] = value  # noqa: PLW2901 - a field of a search engine
        if isinstance(value, PLAIN):
            with suppress(TypeError):
                text = as_identifier(value) or ""
                if 0 < len(text) <= MAX_LENGTH:
                    yield path, text
        elif depth < MAX_DEPTH and value is not None:
            yield from _pairs(value, f"{path}.", depth + 1)
