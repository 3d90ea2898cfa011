"""Adapts retrievers of LangChain, LlamaIndex and Haystack, and refuses objects that a retriever is made of.

LangChain's API of retrievers has no k. If the retriever has one of the following, k is passed to the first of them:

1. a parameter of `_get_relevant_documents` with a usual name: `invoke` passes its keywords on to that method;
2. `search_kwargs`, which a retriever over a vector store has: a keyword of `invoke` overrides them;
3. a field with a usual name, such as `k`: a copy of the retriever with that number is called.

Filters and other context are passed to the parameters of `_get_relevant_documents` with their names. With
`search_kwargs`, filters are passed to the vector store as `filter`, merged with the retriever's own filter. A retriever
with configurable fields (`configurable_fields`) receives the values of these fields in `config`.

A retriever with its own `batch` is called for many questions at once. The `batch` of LangChain's base class is not
used: it calls `invoke` in threads, in which some retrievers must not be used.

LlamaIndex's API accepts neither k nor filters. If the retriever has the setting `similarity_top_k`, a copy with that
number is called. If it has metadata filters, a copy is called whose filters include those of the example: an object of
names and values, all of which a node must have, or the fields of `MetadataFilters` itself.

In a pipeline of Haystack, the query is passed to every open input named `query`, `text` or `question`; no other input
may be required. The documents are those of the one component with an open output `documents`. Filters and other context
are passed unchanged to every open input with their name.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any, Final, NoReturn

from pytest_rageval.core.errors import CallableError
from pytest_rageval.lib.foreign_values import JsonObject, modules_of, signature_of
from pytest_rageval.retrievers.adapters.callables import (
    CONTEXT_NAMES,
    K_NAMES,
    KUse,
    Search,
    adapt,
    adapt_method,
    as_count,
    async_if,
    context_of,
    default_of,
    name_of_k,
    overrides_method,
    required,
)

FILTER: Final = "filter"
"""The keyword for filters of most vector stores."""

SEARCH_KWARGS: Final = "search_kwargs"

BATCH_METHODS: Final = {"invoke": "batch", "ainvoke": "abatch"}

ASYNC_FUNCTIONS: Final = {"afunc": "func", "_atransform": "_transform"}
"""The attributes of `RunnableLambda` and `RunnableGenerator` with an async function, and those with its sync form."""


def adapt_langchain(retriever: Any) -> Search:
    """Return a search that calls `ainvoke` if the retriever itself or a step of the chain is async, else `invoke`."""
    ids = _configurable_ids(retriever)
    if ids:
        return _adapt_configurable(retriever, ids)
    method = _invoke_name(retriever)
    invoke = getattr(retriever, method)
    search = None
    with suppress(
        NameError
    ):  # from a retriever with fallbacks, which looks up the types in the method's signature
        search = getattr(retriever, "_get_relevant_documents", None)
    batch_method = BATCH_METHODS[method] if overrides_method(retriever, BATCH_METHODS[method]) else None
    if search is None:
        return adapt_method(invoke)
    over_store = _searches_with_keywords(retriever, search)
    parameters = context_of(search)
    context, names = required(parameters), {name: parameter.name for name, parameter in parameters.items()}
    if over_store and "filters" not in names:
        context, names = {**context, "filters": False}, {**names, "filters": FILTER}
    k_keyword = name_of_k(search) or ("k" if over_store else None)
    own = {**(retriever.search_kwargs if over_store else {}), **_bound_keywords(retriever)}

    def keywords(values: JsonObject) -> dict[str, object]:
        by_keyword = {names[name]: value for name, value in values.items()}
        return {
            name: _merge_langchain_filters(own.get(name), value) if name == FILTER else value
            for name, value in by_keyword.items()
        }

    field = None
    if k_keyword is not None:
        own_k = as_count(own.get(k_keyword)) or default_of(search, k_keyword)
    else:
        # A wrapper passes on the attributes of what it wraps, and cannot be copied with another value.
        own_names = {*dir(type(retriever)), *getattr(retriever, "__dict__", {})}
        field = next(
            (name for name in K_NAMES if name in own_names and type(getattr(retriever, name)) is int), None
        )
        own_k = None if field is None else as_count(getattr(retriever, field))

    @cache
    def with_k(k: int | None) -> Any:
        return retriever if field is None or k is None else retriever.model_copy(update={field: k})

    def k_keywords(k: int | None) -> dict[str, int]:
        return {} if k_keyword is None or k is None else {k_keyword: k}

    def retrieve(query: str, k: int | None, **context: Any) -> Any:
        return getattr(with_k(k), method)(query, **k_keywords(k), **keywords(context))

    def retrieve_many(queries: list[str], k: int | None) -> Any:
        return getattr(with_k(k), str(batch_method))(queries, **k_keywords(k))

    batch = async_if(invoke, retrieve_many) if batch_method else None
    k_use: KUse = "ignored" if k_keyword is None and field is None else "optional"
    return Search(async_if(invoke, retrieve), context, own_k, retrieve_many=batch, k_use=k_use)


def _invoke_name(retriever: Any) -> str:
    is_async = overrides_method(retriever, "_aget_relevant_documents") or _has_async_step(retriever)
    return "ainvoke" if is_async else "invoke"


def _has_async_step(value: object) -> bool:
    """Whether a chain has a function that is only async, so that `invoke` fails.

    Other chains are called with `invoke`: `ainvoke` calls their functions in threads.
    """
    if isinstance(value, Mapping):
        return any(map(_has_async_step, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_async_step, value))
    # A retriever has methods for both; what it holds is its own affair.
    if not hasattr(type(value), "ainvoke") or hasattr(type(value), "_get_relevant_documents"):
        return False
    fields = getattr(value, "__dict__", {})
    is_only_async = any(
        fields.get(name) is not None and fields.get(sync) is None for name, sync in ASYNC_FUNCTIONS.items()
    )
    return is_only_async or any(map(_has_async_step, fields.values()))


def _merge_langchain_filters(own: object, given: Mapping[str, object]) -> Any:
    """Return the filters of the retriever and of the example, merged; CallableError if they contradict each other."""
    if not own:
        return given
    if not isinstance(own, Mapping) or any(name in own and own[name] != given[name] for name in given):
        raise CallableError(
            f"rageval_retriever has a filter of its own in search_kwargs, {own!r:.80}, and an example has the filters "
            f"{given!r:.80}, which cannot be joined to it.\nReturn a function (query, k, filters) that joins them."
        )
    return {**own, **given}


def _searches_with_keywords(retriever: Any, search: Callable[..., Any]) -> bool:
    kinds = {parameter.kind for parameter in inspect.signature(search).parameters.values()}
    has_keywords = isinstance(getattr(retriever, SEARCH_KWARGS, None), Mapping)
    return has_keywords and inspect.Parameter.VAR_KEYWORD in kinds


def _configurable_ids(retriever: Any) -> dict[str, str]:
    """Return the ids of the configurable fields, by their meaning: "search_kwargs", or the name of a context part."""
    specs = getattr(retriever, "config_specs", None)
    ids = {getattr(spec, "id", None) for spec in specs} if isinstance(specs, list) else set()
    wanted = {SEARCH_KWARGS: (SEARCH_KWARGS,), **CONTEXT_NAMES}
    # Of several names the likeliest, which is the first, is set last.
    found = {name: other for name, names in wanted.items() for other in reversed(names) if other in ids}
    for part in _parts(retriever) if ids else ():
        fields = getattr(part, "__dict__", {}).get("fields")
        if isinstance(fields, Mapping) and SEARCH_KWARGS in fields:
            found[SEARCH_KWARGS] = fields[SEARCH_KWARGS].id  # which may be any name
    return found


def _parts(retriever: Any) -> Iterator[Any]:
    """Yield a retriever of LangChain and what it wraps or calls, such as the steps of a chain, the outer ones first."""
    fields = getattr(retriever, "__dict__", {})
    middle = fields.get("middle")
    steps = (fields.get("first"), *(middle if isinstance(middle, list) else ()), fields.get("last"))
    yield retriever
    for inner in (fields.get("bound"), fields.get("default"), *steps):
        if inner is not None:
            yield from _parts(inner)


def _bound_keywords(retriever: Any) -> dict[str, object]:
    """Return the keywords that `bind` binds; those of the outermost wrapper hold."""
    wrappers = [vars(part) for part in _parts(retriever) if "bound" in getattr(part, "__dict__", {})]
    bound = [fields["kwargs"] for fields in reversed(wrappers) if isinstance(fields.get("kwargs"), Mapping)]
    return {name: value for keywords in bound for name, value in keywords.items()}


def _configured_keywords(retriever: Any, ids: Mapping[str, str]) -> dict[str, object]:
    """Return the `search_kwargs` of a configurable retriever: those that `with_config` sets, or its own."""
    parts = [getattr(part, "__dict__", {}) for part in _parts(retriever)]
    configs = [fields["config"] for fields in parts if isinstance(fields.get("config"), Mapping)]
    values = [config["configurable"] for config in configs if isinstance(config.get("configurable"), Mapping)]
    name = ids.get(SEARCH_KWARGS)
    given = [each[name] for each in values if name in each]
    own = [fields[SEARCH_KWARGS] for fields in parts if SEARCH_KWARGS in fields]
    return next((dict(keywords) for keywords in (*given, *own) if isinstance(keywords, Mapping)), {})


def _adapt_configurable(retriever: Any, ids: Mapping[str, str]) -> Search:
    """Return a search that passes `config`, which replaces the whole values of configurable fields."""
    own = _configured_keywords(retriever, ids)
    methods = {_invoke_name(part) for part in (retriever, getattr(retriever, "default", None))}
    invoke = getattr(retriever, "ainvoke" if "ainvoke" in methods else "invoke")
    over_store = SEARCH_KWARGS in ids
    accepted = {name for name in ids if name != SEARCH_KWARGS} | ({"filters"} if over_store else set())

    def search(query: str, k: int | None, **context: Any) -> Any:
        values = {ids[name]: value for name, value in context.items() if name in ids}
        if over_store:
            search_kwargs = dict(own) if k is None else {**own, "k": k}
            if "filters" in context and "filters" not in ids:
                search_kwargs[FILTER] = _merge_langchain_filters(own.get(FILTER), context["filters"])
            values[ids[SEARCH_KWARGS]] = search_kwargs
        return invoke(query, config={"configurable": values})

    own_k = as_count(own.get("k")) if over_store else None
    k_use: KUse = "optional" if over_store else "ignored"
    return Search(async_if(invoke, search), dict.fromkeys(accepted, False), own_k, k_use=k_use)


def adapt_langchain_store(retriever: Any) -> Search:
    """Return a search that calls `similarity_search_with_score` if the store has it, else `similarity_search`.

    The method of LangChain's base class accepts `*args` and raises an error. A method that works has a parameter for k.
    """
    scored = getattr(retriever, "similarity_search_with_score", None)
    if callable(scored) and name_of_k(scored) is not None:
        return adapt(scored)
    return adapt(retriever.similarity_search)


K_SETTING: Final = "similarity_top_k"
FILTERS: Final = "_filters"


def adapt_llama_index(retriever: Any) -> Search:
    """Return a search that calls `aretrieve` if the retriever itself is async, else `retrieve`."""
    method = "aretrieve" if overrides_method(retriever, "_aretrieve") else "retrieve"
    has_k, has_filters = isinstance(getattr(retriever, K_SETTING, None), int), hasattr(retriever, FILTERS)
    retrieve = getattr(retriever, method)
    if _takes_bundle(retriever, retrieve):
        bundle = import_module("llama_index.core.schema").QueryBundle
        return Search(async_if(retrieve, lambda query, _k: retrieve(bundle(query))), k_use="ignored")
    if not has_k and not has_filters:
        return adapt_method(retrieve)

    def search(query: str, k: int | None, *, filters: Mapping[str, object] | None = None) -> Any:
        configured = copy(retriever)
        if has_k and k is not None:
            setattr(configured, K_SETTING, k)
        if filters:
            setattr(configured, FILTERS, _merge_llama_index_filters(getattr(retriever, FILTERS), filters))
        return getattr(configured, method)(query)

    own_k = as_count(getattr(retriever, K_SETTING)) if has_k else None
    k_use: KUse = "optional" if has_k else "ignored"
    return Search(async_if(retrieve, search), {"filters": False} if has_filters else {}, own_k, k_use=k_use)


def _takes_bundle(retriever: object, retrieve: Callable[..., Any]) -> bool:
    """Whether it is a query engine, which passes the query as it is on to postprocessors that read its fields."""
    signature = signature_of(retrieve)
    is_engine = signature is not None and next(iter(signature.parameters), "") == "query_bundle"
    return is_engine and any(name.startswith("llama_index.") for name in modules_of(retriever))


def _merge_llama_index_filters(own: Any, given: Mapping[str, object]) -> Any:
    types = import_module("llama_index.core.vector_stores.types")
    if isinstance(given.get("filters"), list):
        filters = types.MetadataFilters(**given)
    else:
        filters = types.MetadataFilters(
            filters=[types.MetadataFilter(key=key, value=value) for key, value in given.items()]
        )
    if own is None:
        return filters
    # Not every store supports nested filters.
    both = [part.filters if part.condition == "and" else [part] for part in (own, filters)]
    return types.MetadataFilters(filters=list(chain.from_iterable(both)), condition="and")


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
        inputs: dict[str, object] = dict.fromkeys(queries, query) | context
        if k is not None:
            inputs |= dict.fromkeys(counts, k)
        return _documents_of(retriever.run(**inputs), retriever)

    own = next((default_of(retriever.run, name) for name in counts), None)
    k_use: KUse = (
        "required" if any(required[name] for name in counts) else "optional" if counts else "ignored"
    )
    return Search(run, context, _own_k(retriever, counts), own, k_use=k_use)


def _own_k(component: Any, names: Iterable[str]) -> int | None:
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
    inputs: Mapping[str, Mapping[str, object]] = retriever.inputs()
    open_inputs = _sockets(inputs)
    if not any(name in QUERY_NAMES for _, name, _ in open_inputs):
        none = f"has no open input named {' or '.join(QUERY_NAMES)}"
        raise _ambiguous_pipeline(none, "open inputs", open_inputs)
    known = {*QUERY_NAMES, *CONTEXT_NAMES}
    others = [item for item in open_inputs if item[1] not in known and item[2]["is_mandatory"]]
    if others:
        raise _ambiguous_pipeline("requires more than a query", "required", others)
    outputs = _sockets(retriever.outputs())
    sources = [component for component, name, _ in outputs if name == "documents"]
    if len(sources) != 1:
        problem = f"has {len(sources) or 'no'} open outputs named documents, where one is wanted"
        raise _ambiguous_pipeline(problem, "open outputs", outputs)
    last = sources[0]
    accepts_k = TOP_K in inputs.get(last, ())
    sockets = {part: [each for _, name, each in open_inputs if name == part] for part in CONTEXT_NAMES}
    required = {part: any(each["is_mandatory"] for each in found) for part, found in sockets.items() if found}

    def run(query: str, k: int | None, **context: Any) -> Any:
        data: dict[str, dict[str, object]] = {last: {TOP_K: k}} if accepts_k and k is not None else {}
        values = dict.fromkeys(QUERY_NAMES, query) | context
        for component, name, _ in open_inputs:
            if name in values:
                data.setdefault(component, {})[name] = values[name]
        return _documents_of(retriever.run(data).get(last), retriever)

    get_component = getattr(retriever, "get_component", None)
    own_k = _own_k(get_component(last), [TOP_K]) if accepts_k and callable(get_component) else None
    return Search(run, required, own_k, k_use="optional" if accepts_k else "ignored")


def _inputs(component: Any) -> dict[str, bool]:
    sockets = getattr(component, "__haystack_input__", None)
    if sockets is not None:
        # A component that wraps a pipeline lists its inputs only here, since its `run` accepts any keyword.
        required = {name: getattr(socket, "is_mandatory", None) for name, socket in vars(sockets).items()}
        return {name: is_required for name, is_required in required.items() if isinstance(is_required, bool)}
    parameters = inspect.signature(component.run).parameters.values()
    return {parameter.name: parameter.default is parameter.empty for parameter in parameters}


def _sockets(by_component: Mapping[str, Mapping[str, object]]) -> list[tuple[str, str, Any]]:
    return [(component, *socket) for component, sockets in by_component.items() for socket in sockets.items()]


def _ambiguous_pipeline(problem: str, label: str, sockets: list[tuple[str, str, Any]]) -> CallableError:
    names = ", ".join(f"{component}.{name}" for component, name, _ in sockets) or "(none)"
    return CallableError(
        f"rageval_retriever is a Pipeline that {problem}; {label}: {names}.\n"
        "Return a function (query, k) -> documents that runs it, such as\n"
        '    lambda query, k: pipeline.run({"embedder": {"text": query}, "retriever": {"top_k": k}})'
        '["retriever"]["documents"]'
    )


FUNCTION: Final = "lambda query, k: "
SQL: Final = f"{FUNCTION}connection.execute(sql, (embed(query), k))"
SQL_CURSOR: Final = "a function (query, k) that executes a query and returns the cursor"

LINES: Final[Mapping[str, str]] = {
    "bm25s": f"{FUNCTION}index.retrieve(bm25s.tokenize(query), corpus=passages, k=k)",
    "chromadb": f"{FUNCTION}collection.query(query_texts=[query], n_results=k)",
    "duckdb": SQL,
    "_duckdb": SQL,
    "elasticsearch": f'{FUNCTION}client.search(index="passages", query={{"match": {{"text": query}}}}, size=k)',
    "faiss": (
        f"{FUNCTION}[passages[row] for row in index.search(np.array([embed(query)]), k)[1][0] if row >= 0]"
    ),
    "haystack.document_stores": "a retriever component over it, such as InMemoryBM25Retriever(store)",
    "haystack_integrations.document_stores": "a retriever component over it",
    "lancedb": f"{FUNCTION}table.search(embed(query)).limit(k)",
    "langchain_core.language_models": "the retriever that the model answers from",
    "langchain_core.tools": "the retriever that the tool calls",
    "llama_index.core.storage": "the retriever of an index: index.as_retriever()",
    "llama_index.core.tools": "the retriever that the tool calls",
    "llama_index.core.vector_stores": (
        "the retriever of an index: VectorStoreIndex.from_vector_store(store).as_retriever()"
    ),
    "opensearchpy": (
        f'{FUNCTION}client.search(index="passages", body={{"query": {{"match": {{"text": query}}}}, "size": k}})'
    ),
    "pinecone": f"{FUNCTION}index.query(vector=embed(query), top_k=k, include_metadata=True)",
    "psycopg": SQL,
    "pydantic_ai": "the function of its search tool",
    "pymilvus": f'{FUNCTION}client.search("passages", data=[embed(query)], limit=k, output_fields=["text"])',
    "qdrant_client": f'{FUNCTION}client.query_points("passages", query=embed(query), limit=k)',
    "sqlite3": SQL,
    "sqlalchemy": SQL_CURSOR,
    "psycopg2": SQL_CURSOR,
    "tantivy": (
        f"{FUNCTION}[searcher.doc(hit) for _, hit in "
        'searcher.search(index.parse_query_lenient(query, ["text"])[0], k).hits]'
    ),
    "weaviate": f"{FUNCTION}collection.query.near_text(query, limit=k)",
}  # fmt: skip
"""What the fixture returns in place of an object of a class, by the module of the class or of one of its bases."""


def is_store(value: object) -> bool:
    return _line(value) is not None


def refuse(value: object) -> NoReturn:
    kind = type(value)
    line = _line(value) or "its retriever: index.as_retriever()"
    raise CallableError(
        f"The retriever is {kind.__name__} of {kind.__module__.partition('.')[0].lstrip('_')}, which is not searched "
        f"with a question alone.\nReturn from the fixture {line}"
    )


def _line(value: object) -> str | None:
    for module in modules_of(value):
        package = module
        while package:
            if package in LINES:
                return LINES[package]
            package = package.rpartition(".")[0]
    return None
