"""Reads the stages of retrievers of LangChain, LlamaIndex and Haystack, which report none themselves.

Each question is asked of a copy of the retriever whose parts record what they return. So questions that are asked at
the same time are not mixed, and the user's object is left as it is. A part that is not called for a question is no
stage of its ranking.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from functools import wraps
from typing import Any, Final

from pytest_rageval.core.ranking import Retrieval, Stage
from pytest_rageval.lib.foreign_values import is_async, modules_of
from pytest_rageval.retrievers import FIXTURE
from pytest_rageval.retrievers.adapters import ADAPTERS, FRAMEWORKS, MethodTest, search_of
from pytest_rageval.retrievers.adapters.callables import Search

Found = dict[str, list[Any] | None]
"""What each stage returned, by its name, in the order of the stages; None for a part that was not called."""

LAST: Final = ("base_compressor", "transformers", "_node_postprocessors")
"""Fields with the parts that work last: what the last of them returns is what the retriever returns."""

FIELDS: Final = ("retrievers", "base_retriever", "_retrievers", "_retriever", *LAST)
"""Fields with parts of a retriever of LangChain or LlamaIndex, in the order in which the parts work."""

SYNC: Final = ("invoke", "compress_documents", "transform_documents", "retrieve", "postprocess_nodes")
METHODS: Final = frozenset((*SYNC, *(f"a{name}" for name in SYNC)))
DOCUMENTS: Final = "documents"

_is_pipeline: Final = MethodTest(("run", "inputs", "outputs"), "haystack")


def has_stages(retriever: Any) -> bool:
    """Return True for a retriever of a framework with two stages or more."""
    packages = {module.partition(".")[0] for module in modules_of(retriever)}
    if packages.isdisjoint(FRAMEWORKS):
        return False
    if _is_pipeline(retriever):
        return len(_searching(retriever)) > 1
    found: Found = {}
    _copy_of(retriever, found)
    return len(found) + bool(_own_stage(retriever, found)) > 1


def adapt(retriever: Any) -> Search:
    search = search_of(retriever, ADAPTERS, FIXTURE)

    def recorded() -> tuple[Found, Callable[..., Any]]:
        found: Found = {}
        make = _pipeline_copy_of if _is_pipeline(retriever) else _copy_of
        return found, search_of(make(retriever, found), ADAPTERS, FIXTURE).retrieve

    def result(found: Found, documents: Any) -> Retrieval:
        stages = [Stage(name, returned) for name, returned in found.items() if returned is not None]
        # A class that does not use the fields of its base class has no stages that can be seen.
        if stages and not _is_pipeline(retriever) and (own := _own_stage(retriever, found)):
            stages.append(Stage(own, documents))
        return Retrieval(documents, stages=stages or None)

    def retrieve(query: str, k: int | None, **context: Any) -> Retrieval:
        found, ask = recorded()
        return result(found, ask(query, k, **context))

    async def aretrieve(query: str, k: int | None, **context: Any) -> Retrieval:
        found, ask = recorded()
        return result(found, await ask(query, k, **context))

    return replace(search, retrieve=aretrieve if is_async(search.retrieve) else retrieve)


def _copy_of(retriever: Any, found: Found) -> Any:
    """Return a copy of a retriever whose parts record in `found`; the retriever itself if it has no parts."""
    fields = {
        name: parts
        for name in FIELDS
        if (parts := getattr(retriever, "__dict__", {}).get(name))
        and all(map(_returns_documents, parts if isinstance(parts, list) else [parts]))
    }
    clone = copy(retriever) if fields else retriever
    for name, parts in fields.items():
        recorded = [_part(part, found) for part in parts] if isinstance(parts, list) else _part(parts, found)
        # Models of pydantic may be frozen, or validate what is assigned.
        object.__setattr__(clone, name, recorded)
    return clone


def _returns_documents(part: object) -> bool:
    return any(callable(getattr(part, name, None)) for name in METHODS)


def _part(part: Any, found: Found) -> Any:
    clone = _copy_of(part, found)
    own = _own_stage(part, found)
    if not own:
        return clone
    found[own] = None
    return _Part(clone, own, found)


def _own_stage(part: Any, found: Found) -> str:
    """Return a name that is not taken for the stage of a part as a whole; "" if its last part is this stage."""
    if any(name in getattr(part, "__dict__", {}) for name in LAST):
        return ""
    given = getattr(part, "name", None)
    name = given if isinstance(given, str) and given else type(part).__name__
    number = 1 + sum(other.partition(" #")[0] == name for other in found)
    return name if number == 1 else f"{name} #{number}"


class _Part:
    """Stands for a part of a retriever, and records what its methods return."""

    def __init__(self, part: Any, stage: str, found: Found) -> None:
        self._part = part
        self._stage = stage
        self._found = found

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # what `isinstance` reads, which the frameworks call
        return type(self._part)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._part, name)
        return self._recording(value) if name in METHODS else value

    def _recording(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def record(documents: Any) -> Any:
            # A part is called several times if the question is rewritten into several.
            self._found[self._stage] = [*(self._found[self._stage] or ()), *documents]
            return documents

        @wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            return record(method(*args, **kwargs))

        @wraps(method)
        async def acall(*args: Any, **kwargs: Any) -> Any:
            return record(await method(*args, **kwargs))

        return acall if is_async(method) else call


def _searching(pipeline: Any) -> set[str]:
    outputs = pipeline.outputs(include_components_with_connected_outputs=True)
    return {name for name, sockets in outputs.items() if DOCUMENTS in sockets}


def _pipeline_copy_of(pipeline: Any, found: Found) -> Any:
    names = _searching(pipeline)

    def run(data: Any) -> Any:
        outputs = pipeline.run(data, include_outputs_from=names)
        # The outputs are in the order in which the components ran.
        found.update({name: outputs[name][DOCUMENTS] for name in outputs if DOCUMENTS in outputs[name]})
        return outputs

    clone = copy(pipeline)
    clone.run = run
    return clone
