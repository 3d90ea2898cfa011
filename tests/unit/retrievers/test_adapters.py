"""Adapters by the shape of a retriever: how query and k are passed to it, without any framework."""

from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.retrievers.adapters import callables


def _ask(loop: BackgroundEventLoop, retriever: object, k: int = 3) -> list[str]:
    return [document.text for document in loop.run(adapt_retriever(retriever, loop).retrieve("q", k))]


def _keyword_only(query: str, *, k: int) -> list[str]:
    return [f"{query} {k}"]


async def _async_top_k(query: str, *, top_k: int = 10) -> list[str]:
    return [f"{query} {top_k}"]


def _named_late(query: str, filters: object = None, limit: int = 10) -> list[str]:
    return [f"{query} {limit} {filters}"]


def _fixed(query: str, config: object = None, **options: object) -> list[str]:
    return [f"{query} {config} {len(options)}"]


class _Search:
    """A callable object with a method `invoke` of another signature."""

    def __call__(self, query: str, n: int) -> list[str]:
        return [f"{query} {n}"]

    def invoke(self, query: str) -> list[str]:
        return [f"not this: {query}"]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda query, k: [f"{query} {k}"], "q 3"),
        (lambda query, how_many: [f"{query} {how_many}"], "q 3"),
        (lambda query, how_many=10: [f"{query} {how_many}"], "q 3"),
        (lambda query, /, k: [f"{query} {k}"], "q 3"),
        (lambda *arguments: [f"{arguments}"], "('q', 3)"),
        (lambda query, *rest: [f"{query} {rest}"], "q (3,)"),
        (_keyword_only, "q 3"),
        (_async_top_k, "q 3"),
        (_named_late, "q 3 None"),
        (partial(_named_late, filters="f"), "q 3 f"),
        (_Search(), "q 3"),
        (_Search().__call__, "q 3"),
        (lambda query, offset=0: [f"{query} {offset}"], "q 0"),
        (lambda query, max_tokens=500: [f"{query} {max_tokens}"], "q 500"),
        (lambda query, page=1, *, limit=9: [f"{query} {page} {limit}"], "q 1 3"),
        (lambda query: [query], "q"),
        (lambda query, exact=True: [f"{query} {exact}"], "q True"),
        (_fixed, "q None 0"),
        (MagicMock(return_value=["mocked"]), "mocked"),
    ],
)
def test_a_callable_receives_k_as_its_signature_requires(loop, function, expected):
    assert _ask(loop, function) == [expected]


@pytest.mark.parametrize("name", callables.K_NAMES)
def test_every_usual_name_of_k(loop: BackgroundEventLoop, name: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def search(query, filters=None, *, {name}=10): return [f'{{query}} {{{name}}}']", scope)  # noqa: S102
    assert _ask(loop, scope["search"]) == ["q 3"]


def test_a_function_that_hides_its_signature_is_given_both(loop: BackgroundEventLoop) -> None:
    """A callable without a signature, as some in C, receives query and k by position."""

    class Hidden:
        @property
        def __signature__(self) -> object:
            raise ValueError

        def __call__(self, query: str, k: int) -> list[str]:
            return [f"{query} {k}"]

    assert _ask(loop, Hidden()) == ["q 3"]


class _LangChain:
    """As LangChain's base class: `invoke` passes its keywords to the retriever's own method."""

    def invoke(self, query: str, config: object = None, **kwargs: Any) -> list[str]:
        assert config is None
        return self._get_relevant_documents(query, **kwargs)

    async def ainvoke(self, query: str, config: object = None, **kwargs: Any) -> list[str]:
        return [f"async {text}" for text in self.invoke(query, config, **kwargs)]

    def model_copy(self, update: dict[str, Any]) -> "_LangChain":
        copied = type(self)()
        vars(copied).update(update)
        return copied

    def _get_relevant_documents(self, query: str) -> list[str]:
        return [f"{query} as it is"]


class _TakesLimit(_LangChain):
    def _get_relevant_documents(self, query: str, *, limit: int = 10) -> list[str]:
        return [f"{query} limit={limit}"]


class _OverStore(_LangChain):
    search_kwargs: dict[str, int] = {"k": 10}  # noqa: RUF012 - as LangChain has it

    def _get_relevant_documents(self, query: str, **kwargs: Any) -> list[str]:
        return [f"{query} {self.search_kwargs | kwargs}"]


class _OverStoreFixed(_LangChain):
    search_kwargs: dict[str, int] = {"k": 10}  # noqa: RUF012 - as LangChain has it


class _Forwards(_LangChain):
    """Accepts any keyword and forwards it, so what its k would limit is not known."""

    def _get_relevant_documents(self, query: str, **kwargs: Any) -> list[str]:
        return [f"{query} {kwargs}"]


class _Field(_LangChain):
    k = 10

    def _get_relevant_documents(self, query: str) -> list[str]:
        return [f"{query} self.k={self.k}"]


@pytest.mark.parametrize(
    ("retriever", "expected"),
    [
        (_LangChain(), "q as it is"),
        (_TakesLimit(), "q limit=30"),
        (_OverStore(), "q {'k': 30}"),
        (_OverStoreFixed(), "q as it is"),
        (_Forwards(), "q {}"),
        (_Field(), "q self.k=30"),
        (SimpleNamespace(invoke=lambda query, config=None, **_: [f"{query} {config}"]), "q None"),
        (SimpleNamespace(invoke=lambda query, k: [f"{query} {k}"]), "q 30"),
    ],
)
def test_an_object_with_invoke_receives_k_if_it_accepts_it(loop, retriever, expected):
    assert _ask(loop, retriever, 30) == [expected]


@pytest.mark.parametrize(
    ("retriever", "expected"),
    [
        (_TakesLimit(), "q limit=10"),
        (_OverStore(), "q {'k': 10}"),
        (_Field(), "q self.k=10"),
        (
            SimpleNamespace(top_k=10, run=lambda query, top_k=None: {"documents": [f"{query} {top_k}"]}),
            "q None",
        ),
    ],
)
@pytest.mark.parametrize("k", [3, 10])
def test_a_retrievers_own_k_is_used_if_it_is_large_enough(loop, retriever, expected, k):
    ranking = loop.run(adapt_retriever(retriever, loop).retrieve("q", k))
    assert [document.text for document in ranking] == [expected]
    assert ranking.own_k == 10


class _OwnRetrieve:
    def retrieve(self, query: str, *, top_k: int = 4) -> list[str]:
        return [f"{query} {top_k}"]


class _OwnRun:
    def run(self, query: str, top_k: int = 4) -> dict[str, list[str]]:
        return {"documents": [f"{query} {top_k}"]}


@pytest.mark.parametrize(
    ("retriever", "own_k"),
    [
        (lambda query, k=4: [f"{query} {k}"], 4),
        (partial(lambda query, k: [f"{query} {k}"], k=4), 4),
        (_OwnRetrieve(), 4),
        (_OwnRun(), 4),
        (lambda query, k: [f"{query} {k}"], None),
        (lambda query, **rest: [f"{query} {rest.get('k', 9)}"], None),
        (lambda *args: [" ".join(map(str, args))], None),
    ],
)
def test_the_default_of_a_function_is_known_and_k_is_passed(loop, retriever, own_k):
    adapted = adapt_retriever(retriever, loop)
    ranking = loop.run(adapted.retrieve("q", 9))
    assert [document.text for document in ranking] == ["q 9"]
    assert (adapted.own_k, ranking.own_k) == (own_k, None)


class _LlamaIndex:
    def retrieve(self, bundle: str) -> list[str]:
        return [f"{bundle} as it is"]


class _Similar(_LlamaIndex):
    similarity_top_k = 2

    def retrieve(self, bundle: str) -> list[str]:
        return [f"{bundle} {self.similarity_top_k}"]


@pytest.mark.parametrize(
    ("retriever", "expected"),
    [
        (_LlamaIndex(), "q as it is"),
        (_Similar(), "q 3"),  # its own k, 2, is too small
        (SimpleNamespace(retrieve=lambda query, top_k: [f"{query} {top_k}"]), "q 3"),
    ],
)
def test_an_object_with_retrieve_receives_k_by_its_setting(loop, retriever, expected):
    assert _ask(loop, retriever) == [expected]


@pytest.mark.parametrize(("retriever", "name"), [(_Field(), "k"), (_Similar(), "similarity_top_k")])
def test_the_users_object_is_left_as_it_is(loop: BackgroundEventLoop, retriever: object, name: str) -> None:
    """The number k is set in a copy of the retriever, one for each k; the user's object does not change."""
    before = getattr(retriever, name)
    assert [_ask(loop, retriever, k)[0][-2:] for k in (13, 15, 13)] == ["13", "15", "13"]
    assert getattr(retriever, name) == before


def test_the_search_with_scores_is_preferred_where_it_works(loop: BackgroundEventLoop) -> None:
    def raises(*_arguments: object, **_options: object) -> list[str]:
        raise NotImplementedError

    store = SimpleNamespace(similarity_search=lambda query, k=4: [f"{query} {k}"])
    assert _ask(loop, store) == ["q 3"]
    assert _ask(loop, SimpleNamespace(**vars(store), similarity_search_with_score=raises)) == ["q 3"]
    scored = SimpleNamespace(
        **vars(store), similarity_search_with_score=lambda query, k=4: [(f"{query}!", k)]
    )
    ranking = loop.run(adapt_retriever(scored, loop).retrieve("q", 3))
    assert [(document.text, document.score) for document in ranking] == [("q!", 3.0)]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda query, top_k=10: {"documents": [f"{query} {top_k}"]}, "q 3"),
        (lambda text, filters=None: {"documents": [f"{text} {filters}"]}, "q None"),
        (lambda query, text: {"documents": [f"{query} {text}"]}, "q q"),
    ],
)
def test_what_can_be_run_is_given_its_inputs_by_name(loop, run, expected):
    assert _ask(loop, SimpleNamespace(run=run)) == [expected]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            lambda query_embedding: query_embedding,
            "requires query_embedding, an embedding; rageval passes the question as text",
        ),
        (
            lambda query, tenant: [query, tenant],
            "whose run requires tenant; rageval passes only the question, as query",
        ),
        (lambda: None, "whose run requires nothing; rageval"),
    ],
)
def test_what_cannot_be_run_by_a_text_alone_is_refused(loop, run, message):
    with pytest.raises(CallableError, match=message):
        adapt_retriever(SimpleNamespace(run=run), loop)


@pytest.mark.parametrize(
    ("outputs", "message"), [({"replies": [], "meta": {}}, "but: replies, meta."), ([], "but: list.")]
)
def test_a_run_without_documents_is_reported(loop, outputs, message):
    with pytest.raises(CallableError, match=rf'whose run gave no "documents", {message}'):
        _ask(loop, SimpleNamespace(run=lambda query: outputs and query and outputs))


def _open(*names: str, is_mandatory: bool = True) -> dict[str, Any]:
    return {name: {"is_mandatory": is_mandatory} for name in names}


class _Pipeline:
    """A pipeline that describes its open sockets, and returns the data that `run` received."""

    def __init__(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        self.inputs = lambda: inputs
        self.outputs = lambda: outputs

    def run(self, data: dict[str, Any]) -> dict[str, Any]:
        return {component: {"documents": [str(data)]} for component in self.outputs()}


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        ({"r": _open("query")}, {"r": _open("documents")}, {"r": {"query": "q"}}),
        (
            {"r": _open("query") | _open("top_k", is_mandatory=False)},
            {"r": _open("documents")},
            {"r": {"top_k": 3, "query": "q"}},
        ),
        (
            {
                "e": _open("text"),
                "r": _open("query") | _open("top_k", is_mandatory=False),
                "j": _open("top_k", is_mandatory=False),
            },
            {"e": _open("meta"), "j": _open("documents")},
            {"j": {"top_k": 3}, "e": {"text": "q"}, "r": {"query": "q"}},
        ),
    ],
)
def test_a_pipeline_is_given_the_query_at_every_input_for_it(loop, inputs, outputs, expected):
    """Only the component that outputs the documents receives k, not one before a joiner."""
    assert _ask(loop, _Pipeline(inputs, outputs)) == [str(expected)]


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (_open("prompt"), _open("documents"), "has no open input named query or text or question; open inp"),
        (_open("query", "tenant"), _open("documents"), r"requires more than a query; required: c\.tenant\."),
        (_open("query"), _open("replies"), r"has no open outputs named documents, .*; open outputs: c\.rep"),
    ],
)
def test_a_pipeline_that_is_not_clear_is_refused(loop, inputs, outputs, message):
    """The error for an unsuitable pipeline lists its open sockets, and shows the function to write."""
    with pytest.raises(CallableError, match=message) as caught:
        adapt_retriever(_Pipeline({"c": inputs}, {"c": outputs}), loop)
    assert "lambda query, k: pipeline.run(" in str(caught.value)


def test_a_pipeline_with_two_outputs_of_documents_is_refused(loop: BackgroundEventLoop) -> None:
    two = _Pipeline({"a": _open("query")}, {"a": _open("documents"), "b": _open("documents")})
    with pytest.raises(CallableError, match=r"has 2 open outputs .*: a\.documents, b\.documents\."):
        adapt_retriever(two, loop)
