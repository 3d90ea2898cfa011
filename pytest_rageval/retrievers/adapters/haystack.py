"""Adapts Haystack's retriever components and pipelines.

In a pipeline, the query is passed to every open input named `query`, `text` or `question`; no other input may be
required. The documents are those of the one component with an open output `documents`. Filters and other context are
passed unchanged to every open input with their name.
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pytest_rageval.core.errors import CallableError
from pytest_rageval.retrievers.adapters.callables import CONTEXT_NAMES, K_NAMES, Search, as_count

QUERY_NAMES: Final = ("query", "text", "question")
TOP_K: Final = "top_k"


def adapt_component(retriever: Any) -> Search:
    """Return a search that calls `run` with the query, k and context; CallableError if `run` requires other inputs."""
    required = _inputs(retriever)
    queries = [name for name in required if name in QUERY_NAMES]
    counts = [name for name in (TOP_K, *K_NAMES) if name in required][:1]
    context = {name: required[name] for name in CONTEXT_NAMES if name in required}
    known = {*queries, *counts, *context}
    others = [name for name in required if required[name] and name not in known]
    if others or not queries:
        wanted = others or list(required)
        kind = type(retriever).__name__
        what = f"rageval_retriever is {kind}, whose run requires {', '.join(wanted) or 'nothing'}"
        if "query_embedding" in wanted:
            raise CallableError(
                f"{what}, an embedding; rageval passes the question as text.\n"
                "Return a Pipeline of a text embedder and this retriever, or a function (query, k) -> documents."
            )
        raise CallableError(
            f"{what}; rageval passes only the question, as {' or '.join(QUERY_NAMES)}.\n"
            "Return a function (query, k) -> documents that runs it."
        )

    def run(query: str, k: int | None, **context: Any) -> Any:
        inputs: dict[str, Any] = dict.fromkeys(queries, query) | context
        if k is not None:
            inputs |= dict.fromkeys(counts, k)
        return _documents_of(retriever.run(**inputs), retriever)

    return Search(run, context, _own_k(retriever, counts))


def _own_k(component: Any, names: Iterable[str]) -> int | None:
    """Return the number of documents that a component is configured to return; None if it has none."""
    return next(filter(None, (as_count(getattr(component, name, None)) for name in names)), None)


def _documents_of(outputs: Any, retriever: object) -> Any:
    if not isinstance(outputs, Mapping) or "documents" not in outputs:
        names = ", ".join(map(str, outputs)) if isinstance(outputs, Mapping) else type(outputs).__name__
        raise CallableError(
            f'rageval_retriever is {type(retriever).__name__}, whose run gave no "documents", but: '
            f"{names or 'nothing'}.\nReturn a function (query, k) -> documents that runs it and picks them."
        )
    return outputs["documents"]


def adapt_pipeline(retriever: Any) -> Search:
    """Return a search that calls `run` with the query, k and context; CallableError if the pipeline is ambiguous."""
    inputs: Mapping[str, Mapping[str, Any]] = retriever.inputs()
    open_inputs = _sockets(inputs)
    queries = [(component, name) for component, name, _ in open_inputs if name in QUERY_NAMES]
    if not queries:
        none = f"has no open input named {' or '.join(QUERY_NAMES)}"
        raise CallableError(_ambiguous_pipeline_text(none, "open inputs", open_inputs))
    known = {*QUERY_NAMES, *CONTEXT_NAMES}
    others = [item for item in open_inputs if item[1] not in known and item[2]["is_mandatory"]]
    if others:
        raise CallableError(_ambiguous_pipeline_text("requires more than a query", "required", others))
    outputs = _sockets(retriever.outputs())
    sources = [component for component, name, _ in outputs if name == "documents"]
    if len(sources) != 1:
        problem = f"has {len(sources) or 'no'} open outputs named documents, where one is wanted"
        raise CallableError(_ambiguous_pipeline_text(problem, "open outputs", outputs))
    last = sources[0]
    accepts_k = TOP_K in inputs.get(last, ())
    required = {
        part: any(socket["is_mandatory"] for _, name, socket in open_inputs if name == part)
        for part in CONTEXT_NAMES
        if any(name == part for _, name, _ in open_inputs)
    }

    def run(query: str, k: int | None, **context: Any) -> Any:
        data: dict[str, dict[str, Any]] = {last: {TOP_K: k}} if accepts_k and k is not None else {}
        for component, name in queries:
            data.setdefault(component, {})[name] = query
        for component, name, _ in open_inputs:
            if name in context:
                data.setdefault(component, {})[name] = context[name]
        return _documents_of(retriever.run(data).get(last), retriever)

    get_component = getattr(retriever, "get_component", None)
    own_k = _own_k(get_component(last), [TOP_K]) if accepts_k and callable(get_component) else None
    return Search(run, required, own_k)


def _inputs(component: Any) -> dict[str, bool]:
    """Return the inputs of a component by name, and whether each is required."""
    sockets = getattr(component, "__haystack_input__", None)
    if sockets is not None:
        # A component that wraps a pipeline lists its inputs only here, since its `run` accepts any keyword.
        required = {name: getattr(socket, "is_mandatory", None) for name, socket in vars(sockets).items()}
        return {name: is_required for name, is_required in required.items() if isinstance(is_required, bool)}
    parameters = inspect.signature(component.run).parameters.values()
    return {parameter.name: parameter.default is parameter.empty for parameter in parameters}


def _sockets(by_component: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, Any]]:
    """Return the inputs or outputs of a pipeline as (component, name, description)."""
    return [(component, *socket) for component, sockets in by_component.items() for socket in sockets.items()]


def _ambiguous_pipeline_text(problem: str, label: str, sockets: list[tuple[str, str, Any]]) -> str:
    names = ", ".join(f"{component}.{name}" for component, name, _ in sockets) or "(none)"
    return (
        f"rageval_retriever is a Pipeline that {problem}; {label}: {names}.\n"
        "Return a function (query, k) -> documents that runs it, such as\n"
        '    lambda query, k: pipeline.run({"embedder": {"text": query}, "retriever": {"top_k": k}})'
        '["retriever"]["documents"]'
    )
