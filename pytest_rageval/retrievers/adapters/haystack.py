"""Haystack: a retriever component, or a pipeline from the query to documents.

Of a pipeline, the query goes to every open input named `query`, `text` or `question`; no other may be required. The
documents are those of the one component that has an open output `documents`. Filters, and other context, go to every
open input of their name, as they are.
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pytest_rageval.errors import CallableError
from pytest_rageval.retrievers.adapters.callables import CONTEXT_NAMES, K_NAMES, Search, as_count

__all__ = ["adapt_component", "adapt_pipeline"]

QUERY_NAMES: Final = ("query", "text", "question")
TOP_K: Final = "top_k"


def adapt_component(retriever: Any) -> Search:
    """Return `run` with the query, k and context where it has inputs for them; CallableError if it requires more."""
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

    def run(query: str, k: int | None, **given: Any) -> Any:
        inputs: dict[str, Any] = dict.fromkeys(queries, query) | given
        if k is not None:
            inputs |= dict.fromkeys(counts, k)
        return _documents_of(retriever.run(**inputs), retriever)

    return Search(run, context, _own_k(retriever, counts))


def _own_k(component: Any, names: Iterable[str]) -> int | None:
    """The number of documents that a component is made with, under the name of its input."""
    return next(filter(None, (as_count(getattr(component, name, None)) for name in names)), None)


def _documents_of(outputs: Any, retriever: object) -> Any:
    if not isinstance(outputs, Mapping) or "documents" not in outputs:
        found = ", ".join(map(str, outputs)) if isinstance(outputs, Mapping) else type(outputs).__name__
        raise CallableError(
            f'rageval_retriever is {type(retriever).__name__}, whose run gave no "documents", but: '
            f"{found or 'nothing'}.\nReturn a function (query, k) -> documents that runs it and picks them."
        )
    return outputs["documents"]


def adapt_pipeline(retriever: Any) -> Search:
    """Return `run` with the query, k and context where the pipeline takes them; CallableError if that is ambiguous."""
    inputs: Mapping[str, Mapping[str, Any]] = retriever.inputs()
    open_inputs = _sockets(inputs)
    queries = [(component, name) for component, name, _ in open_inputs if name in QUERY_NAMES]
    if not queries:
        none = f"has no open input named {' or '.join(QUERY_NAMES)}"
        raise CallableError(_unclear(none, "open inputs", open_inputs))
    known = {*QUERY_NAMES, *CONTEXT_NAMES}
    others = [each for each in open_inputs if each[1] not in known and each[2]["is_mandatory"]]
    if others:
        raise CallableError(_unclear("requires more than a query", "required", others))
    outputs = _sockets(retriever.outputs())
    found = [component for component, name, _ in outputs if name == "documents"]
    if len(found) != 1:
        number = f"has {len(found) or 'no'} open outputs named documents, where one is wanted"
        raise CallableError(_unclear(number, "open outputs", outputs))
    last = found[0]
    takes_k = TOP_K in inputs.get(last, ())
    context = {
        context: any(socket["is_mandatory"] for _, name, socket in open_inputs if name == context)
        for context in CONTEXT_NAMES
        if any(name == context for _, name, _ in open_inputs)
    }

    def run(query: str, k: int | None, **given: Any) -> Any:
        data: dict[str, dict[str, Any]] = {last: {TOP_K: k}} if takes_k and k is not None else {}
        for component, name in queries:
            data.setdefault(component, {})[name] = query
        for component, name, _ in open_inputs:
            if name in given:
                data.setdefault(component, {})[name] = given[name]
        return _documents_of(retriever.run(data).get(last), retriever)

    described = getattr(retriever, "get_component", None)
    own_k = _own_k(described(last), [TOP_K]) if takes_k and callable(described) else None
    return Search(run, context, own_k)


def _inputs(component: Any) -> dict[str, bool]:
    sockets = getattr(component, "__haystack_input__", None)
    if sockets is not None:
        # A component that wraps a pipeline has its inputs only here: its run takes any keyword.
        required = {name: getattr(socket, "is_mandatory", None) for name, socket in vars(sockets).items()}
        return {name: is_required for name, is_required in required.items() if isinstance(is_required, bool)}
    parameters = inspect.signature(component.run).parameters.values()
    return {parameter.name: parameter.default is parameter.empty for parameter in parameters}


def _sockets(described: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, Any]]:
    return [(component, *socket) for component, sockets in described.items() for socket in sockets.items()]


def _unclear(what: str, listed_as: str, sockets: list[tuple[str, str, Any]]) -> str:
    listed = ", ".join(f"{component}.{name}" for component, name, _ in sockets) or "(none)"
    return (
        f"rageval_retriever is a Pipeline that {what}; {listed_as}: {listed}.\n"
        "Return a function (query, k) -> documents that runs it, such as\n"
        '    lambda query, k: pipeline.run({"embedder": {"text": query}, "retriever": {"top_k": k}})'
        '["retriever"]["documents"]'
    )
