"""What a retriever receives besides query and k: history, filters, metadata, the example."""
# ruff: noqa: A006, ARG001, ARG002, ARG005 - a retriever receives what it names, used or not

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.scores.pipeline import Pipeline

HISTORY = ({"role": "user", "content": "Do you ship?"}, {"role": "assistant", "content": "Yes."})
FILTERS = {"tenant": "a"}
ASKED = Example("q1", "To Norway?", history=HISTORY, filters=FILTERS, metadata={"lang": "en"})


def _asked(loop: BackgroundEventLoop, retriever: object, question: Example | str = ASKED, k: int = 3) -> str:
    [document] = loop.run(adapt_retriever(retriever, loop).retrieve(question, k))
    return document.text


async def _async(query: str, k: int, *, filters: object = None) -> list[str]:
    await asyncio.sleep(0)
    return [f"{query} {k} {filters}"]


class _Search:
    def __call__(self, query: str, filters: dict[str, str], top_k: int = 10) -> list[str]:
        return [f"{query} {top_k} {filters}"]


@pytest.mark.parametrize(
    ("retriever", "expected"),
    [
        (lambda query, k, filters: [f"{query} {k} {filters}"], "To Norway? 3 {'tenant': 'a'}"),
        (lambda query, k, filter=None: [f"{query} {k} {filter}"], "To Norway? 3 {'tenant': 'a'}"),
        (lambda query, filters: [f"{query} {filters}"], "To Norway? {'tenant': 'a'}"),
        (_async, "To Norway? 3 {'tenant': 'a'}"),
        (_Search(), "To Norway? 3 {'tenant': 'a'}"),
        (lambda q, k, example: [f"{example.id} {example.filters}"], "q1 {'tenant': 'a'}"),
        (
            lambda query, k, *, history, filters, metadata: [
                f"{len(history)} {history[1]['content']} {metadata}"
            ],
            "2 Yes. {'lang': 'en'}",
        ),
    ],
)
def test_a_callable_receives_what_its_signature_names(loop, retriever, expected):
    """Context is passed by name, in any position; `filter` is also a name for the filters."""
    assert _asked(loop, retriever) == expected


@pytest.mark.parametrize(
    ("retriever", "expected"),
    [
        (lambda query, k, filters="all": [f"{query} {k} {filters}"], "To Norway? 3 all"),
        (lambda query, k, filters: [f"{query} {k} {filters}"], "To Norway? 3 {}"),
        (lambda query, history, k=9: [f"{query} {k} {history}"], "To Norway? 3 []"),
        (lambda query, k, example=None: [f"{example.id}"], "q2"),
    ],
)
def test_without_context_a_default_stays_and_what_is_required_is_empty(loop, retriever, expected):
    assert _asked(loop, retriever, Example("q2", "To Norway?")) == expected


def test_a_plain_question_has_no_context(loop: BackgroundEventLoop) -> None:
    assert (
        _asked(loop, lambda query, k, filters, example: [f"{query} {filters} {example.id!r}"], "Why?")
        == "Why? {} ''"
    )


@pytest.mark.parametrize(
    "retriever",
    [
        lambda query, k: [query],
        lambda query, k, **options: [f"{query} {options}"],
        SimpleNamespace(invoke=lambda query, config=None, **_: [query]),
        SimpleNamespace(retrieve=lambda query: [query]),
        SimpleNamespace(run=lambda query, top_k=3: {"documents": [query]}),
    ],
)
def test_filters_that_would_be_ignored_are_an_error(loop: BackgroundEventLoop, retriever: object) -> None:
    """Scores would be wrong. Without filters the retriever is called."""
    with pytest.raises(InputError, match=r"does not take them.*\nName them in the signature"):
        _asked(loop, retriever)
    assert _asked(loop, retriever, Example("q", "To Norway?", history=HISTORY, metadata={"a": 1})).startswith(
        "To N"
    )


def test_a_history_that_is_not_taken_is_noted(loop: BackgroundEventLoop) -> None:
    def noted(retriever: Callable[..., Any]) -> bool:
        with_history = Example("q", "To Norway?", history=HISTORY)
        pipeline = Pipeline(adapt_retriever(retriever, loop), None, None)
        assert not loop.run(pipeline.ranking(with_history.question, 1)).without_history
        return loop.run(pipeline.ranking(with_history, 1)).without_history

    assert noted(lambda query, k: [query])
    assert not noted(lambda query, k, history=(): [query])
    assert not noted(lambda query, k, example: [query])


@pytest.mark.parametrize(
    ("name", "value"), [("history", ["hi"]), ("filters", "tenant=a"), ("metadata", ["x"])]
)
def test_another_form_of_context_is_an_error_where_it_is_named(loop, name, value):
    example = Example("q", "Why?", extra={name: value})
    scope: dict[str, Any] = {}
    exec(f"def search(query, k, {name}=None): return [query]", scope)  # noqa: S102
    with pytest.raises(InputError, match=rf"takes {name}, and an example has another form of it"):
        _asked(loop, scope["search"], example)
    assert _asked(loop, lambda query, k: [query], example) == "Why?"


def test_the_key_of_a_call_is_what_it_is_called_with(loop: BackgroundEventLoop) -> None:
    def key(retriever: Callable[..., Any], **fields: Any) -> object:
        return adapt_retriever(retriever, loop).key(Example(fields.pop("id", "q"), "Why?", **fields))

    def plain(query: str, k: int) -> list[str]:
        return [query]

    def filtered(query: str, k: int, filters: dict[str, str]) -> list[str]:
        return [query]

    def whole(query: str, k: int, example: Example) -> list[str]:
        return [query]

    assert key(filtered, filters={"a": 1}) != key(filtered, filters={"a": 2})
    assert key(filtered, filters={"a": 1}, metadata={"b": 1}) == key(filtered, filters={"a": 1})
    assert key(plain, metadata={"a": 1}) == key(plain, id="other") == adapt_retriever(plain, loop).key("Why?")
    assert key(whole) != key(whole, id="other")


class _OverStore:
    """As LangChain's retriever over a vector store."""

    def __init__(self, **search_kwargs: object) -> None:
        self.search_kwargs = search_kwargs

    def invoke(self, query: str, config: object = None, **kwargs: Any) -> list[str]:
        return self._get_relevant_documents(query, **kwargs)

    def _get_relevant_documents(self, query: str, **kwargs: Any) -> list[str]:
        return [f"{query} {self.search_kwargs | kwargs}"]


@pytest.mark.parametrize(
    ("search_kwargs", "expected"),
    [
        ({"k": 3}, "{'k': 3, 'filter': {'tenant': 'a'}}"),
        ({"k": 1, "filter": {"lang": "en"}}, "{'k': 3, 'filter': {'lang': 'en', 'tenant': 'a'}}"),
    ],
)
def test_filters_join_those_of_search_kwargs(loop, search_kwargs, expected):
    """Filters of the example are merged with those of `search_kwargs`, which LangChain would replace."""
    assert _asked(loop, _OverStore(**search_kwargs)) == f"To Norway? {expected}"


@pytest.mark.parametrize("own_filter", [{"tenant": "b"}, lambda document: document])
def test_filters_that_cannot_be_joined_are_an_error(loop: BackgroundEventLoop, own_filter: object) -> None:
    """If the two filters conflict or one is a function, that is an error: one would replace the other."""
    with pytest.raises(CallableError, match=r"which cannot be joined to it\.\nReturn a function"):
        _asked(loop, _OverStore(filter=own_filter))


def test_inputs_of_a_haystack_component_receive_context_by_name(loop: BackgroundEventLoop) -> None:
    component = SimpleNamespace(
        run=lambda query, filters, top_k=5: {"documents": [f"{query} {top_k} {filters}"]}
    )
    assert _asked(loop, component) == "To Norway? 3 {'tenant': 'a'}"


def test_every_open_input_of_a_pipeline_receives_filters(loop: BackgroundEventLoop) -> None:
    sockets = {"query": {"is_mandatory": True}, "filters": {"is_mandatory": False}}
    pipeline = SimpleNamespace(
        inputs=lambda: {"dense": sockets, "sparse": sockets},
        outputs=lambda: {"join": {"documents": {}}},
        run=lambda data: {"join": {"documents": [str(data)]}},
    )
    inputs = {"query": "To Norway?", "filters": FILTERS}
    assert _asked(loop, pipeline) == str({"dense": inputs, "sparse": inputs})


def test_an_added_kind_of_retriever_may_take_context_too(loop: BackgroundEventLoop) -> None:
    """The callable of an added adapter receives context by name; its default of k is not the retriever's own k."""

    def adapt(_retriever: object) -> Callable[..., list[str]]:
        return lambda query, k=7, filters=None: [f"{query} {k} {filters}"]

    adapter = (lambda retriever: retriever == "mine", adapt)
    [document] = loop.run(adapt_retriever("mine", loop, [adapter]).retrieve(ASKED, 3))
    assert document.text == "To Norway? 3 {'tenant': 'a'}"
