"""Reads what a retriever returned: the documents, and the searches and stages that led to them."""

from dataclasses import replace
from math import inf
from typing import Any, Final, cast

from pytest_rageval.calls.user_code import MAX_TEXT_LENGTH, InvalidResult, bounded_list, bounded_text
from pytest_rageval.core.errors import CallableError
from pytest_rageval.core.ranking import CreatedDocuments, Document, Retrieval, Stage, Step
from pytest_rageval.lib.foreign_values import as_number, is_identifier
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.retrievers.fields import FieldSample

# Most results are a plain list, of plain dicts.
documents_in: Final = Lazy("retrievers.result_shapes", "documents_in")
document_from: Final = Lazy("retrievers.documents", "document_from")
is_document_list: Final = Lazy("retrievers.documents", "is_document_list")

PLAIN_KEYS: Final = frozenset({"text", "id", "score"})
PLAIN_FIELD_TYPES: Final = frozenset({(str, str, float), (str, str, type(None))})
"""The types of the values at these keys if none of them needs a conversion."""


def retrieval_from(returned: object, id_path: str = "", sample: FieldSample | None = None) -> Retrieval:
    """Return a retriever's result with all documents converted; `sample` collects their fields."""
    if isinstance(returned, CreatedDocuments):
        # The documents of a recorded run are converted already.
        return Retrieval(returned)
    if not isinstance(returned, Retrieval):
        return Retrieval(_read_documents(returned, "", id_path, sample))
    steps = None
    if returned.steps is not None:
        if not is_document_list(returned.steps):
            raise _invalid(f"returned {type(returned.steps).__name__} as steps", STEPS_REMEDY)
        steps = [_read_step(step, number, id_path) for number, step in enumerate(returned.steps, 1)]
    stages = None if returned.stages is None else _read_stages(returned.stages, id_path)
    if returned.question is not None and not isinstance(returned.question, str):
        what = f"returned question={returned.question!r:.40}"
        raise _invalid(what, "Give a text, or None for the question that was asked.")
    for name in ("tokens", "cost", "seconds"):
        value = getattr(returned, name)
        number = 0.0 if value is None else as_number(value)
        if number is None or not 0 <= number < inf:
            what = f"returned {name}={value!r:.40}"
            raise _invalid(what, "Give a number, or None where it is not known.")
    documents = _read_documents(returned.documents, "", id_path, sample)
    return replace(returned, documents=documents, steps=steps, stages=stages)


def _read_step(step: object, number: int, id_path: str) -> Step:
    if not isinstance(step, Step) or not isinstance(step.query, str):
        raise _invalid(f"returned {type(step).__name__} as step {number}", STEPS_REMEDY)
    return Step(step.query, _read_documents(step.documents, f" in step {number}", id_path))


def _read_stages(stages: Any, id_path: str) -> list[Stage]:
    if not is_document_list(stages):
        raise _invalid(f"returned {type(stages).__name__} as stages", STAGES_REMEDY)
    read: dict[str, Stage] = {}
    for number, stage in enumerate(stages, 1):
        if not isinstance(stage, Stage) or not isinstance(stage.name, str):
            raise _invalid(f"returned {type(stage).__name__} as stage {number}", STAGES_REMEDY)
        if stage.name in read:
            raise _invalid(f"returned two stages with the name {stage.name!r:.40}", STAGES_REMEDY)
        documents = _read_documents(stage.documents, f" in the stage {stage.name}", id_path)
        read[stage.name] = Stage(stage.name, documents)
    return list(read.values())


STAGES_REMEDY: Final = 'Give stages=[Stage("bm25", documents), …].'
STEPS_REMEDY: Final = "Give steps=[Step(query, documents), …]."


def _invalid(found: str, remedy: str) -> InvalidResult:
    return InvalidResult(found, f"{found} for {{question}}.\n{remedy}")


def _bounded(document: Document) -> Document:
    """Return a retrieved document with text and id as plain `str`; `InvalidResult` if one of them is too long."""
    text, name = document.text, document.id
    if (
        type(text) is str
        and len(text) <= MAX_TEXT_LENGTH
        and (name is None or (type(name) is str and len(name) <= MAX_TEXT_LENGTH))
    ):
        return document
    text = bounded_text(text, "a document")
    return replace(document, text=text, id=None if name is None else bounded_text(name, "an id"))


def _plain_document(item: object) -> Document | None:
    """Return the document of a dict of text, id and perhaps a score, as most retrievers return it.

    None if it is another item, or if a value needs a conversion or may be too long. The document is the same as that of
    `document_from`, in a third of the time.
    """
    if type(item) is not dict or not PLAIN_KEYS.issuperset(item) or "text" not in item or "id" not in item:
        return None
    text, name, score = item["text"], item["id"], item.get("score")
    if (type(text), type(name), type(score)) not in PLAIN_FIELD_TYPES or score != score:  # noqa: PLR0124 - NaN
        return None
    is_plain = is_identifier(name) and len(text) + len(name) <= MAX_TEXT_LENGTH
    return Document(text, name, score) if is_plain else None


def _read_documents(
    returned: object, where: str, id_path: str, sample: FieldSample | None = None
) -> list[Document]:
    is_plain = type(returned) is list and (not returned or isinstance(returned[0], str | dict | Document))
    items: list[object] = bounded_list(
        cast("list[object]", returned) if is_plain else documents_in(returned, where)
    )
    documents = []
    for rank, item in enumerate(items, 1):
        try:
            plain = None if id_path else _plain_document(item)
            documents.append(plain or _bounded(document_from(item, id_path)))
        except CallableError as error:
            message = f"returned for {{question}}{where}, at rank {rank}, a document that {error}"
            problem = str(error).partition(":")[0]
            raise InvalidResult(f"returned a document that {problem}", message) from None
    if sample is not None:
        sample.add(items, documents)
    return documents
