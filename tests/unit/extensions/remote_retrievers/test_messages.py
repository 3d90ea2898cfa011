"""Paths in replies, bodies with placeholders, and what belongs to an event loop."""

import asyncio
from collections.abc import AsyncGenerator
from inspect import signature

import pytest

from pytest_rageval import HTTPRetriever
from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.remote_retrievers.messages import LoopResource, ReplyPath, filled

REPLY = {"hits": [{"source": {"a.b": 1}}, {"source": {"a.b": 2}}], "none": None, "rows": [[3, 4], [5]]}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("", REPLY),
        ("hits", REPLY["hits"]),
        ("hits[*].source", [{"a.b": 1}, {"a.b": 2}]),
        ('hits[1].source["a.b"]', 2),
        ('["hits"][*]["source"]["a.b"]', [1, 2]),
        ("rows[*][*]", [3, 4, 5]),
        ("none[*].source", []),
    ],
)
def test_a_path_names_a_place(path: str, value: object) -> None:
    assert ReplyPath(path, "documents").read(REPLY, "the reply") == value


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (
            "hits[*].sorce",
            r"documents='hits\[\*\].sorce': hits\[0\] of the reply has no 'sorce': it has source",
        ),
        ("hit[*]", "the reply has no 'hit': it has hits, none, rows"),
        ("hits.source", "hits of the reply is a list, expected an object"),
        ("hits[0].source[*]", r"hits\[0\].source of the reply is an object, expected a list: {\"a.b\": 1}"),
        ("rows[*][1]", r"rows\[1\] of the reply has no item 1: it has 1"),
        ("none.x", "none of the reply is null, expected an object: null"),
        ("rows[0][0].x", r"rows\[0\]\[0\] of the reply is a number, expected an object: 3"),
    ],
)
def test_what_is_there_instead_is_named(path: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ReplyPath(path, "documents").read(REPLY, "the reply")


@pytest.mark.parametrize(
    ("path", "rest"),
    [
        ("hits[*]source", "source"),
        (".hits", ".hits"),
        ("hits..a", "..a"),
        ("hits[-1]", "[-1]"),
        ("hits[*", "[*"),
        ("$.hits", None),
        ("hits.", "."),
    ],
)
def test_a_path_that_is_none_is_an_error(path: str, rest: str | None) -> None:
    """`$` is a name: of a JSONPath, the error is that the reply has no such key."""
    if rest is None:
        with pytest.raises(ValueError, match=r"the reply has no '\$'"):
            ReplyPath(path, "documents").read(REPLY, "the reply")
        return
    with pytest.raises(InputError, match="cannot be read from") as caught:
        ReplyPath(path, "documents")
    assert repr(rest) in str(caught.value)


def test_a_placeholder_alone_becomes_the_value() -> None:
    body = {
        "q": [{"match": "about {query}!"}],
        "size": "{k}",
        "f": "{filters}",
        "gql": "{ hits { id } }",
        "n": 1,
    }
    assert filled(body, {"query": "a {k} b", "k": 3, "filters": {"t": 1}}) == {
        "q": [{"match": "about a {k} b!"}], "size": 3, "f": {"t": 1}, "gql": "{ hits { id } }", "n": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "parameters"),
    [
        (None, "(query, k)"),
        ({"q": "{query}"}, "(query)"),
        ({"q": "{query}", "f": "{filters}", "n": "{k}"}, "(query, k, *, filters=None)"),
    ],
)
def test_the_parameters_are_those_of_the_body(body: object, parameters: str) -> None:
    assert str(signature(HTTPRetriever("http://localhost/", body=body))) == parameters


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"body": {"q": "{question}"}}, "{question} is no placeholder"),
        ({"body": {"q": "why?"}}, "there is no {query}, the question"),
        ({"id": "ids[*]"}, "id=… is one place in a document"),
        ({"documents": "hits[*]source"}, "documents='hits\\[\\*\\]source' is no path"),
        ({"method": "get", "body": ["{query}"]}, "body of a GET request is an object"),
        ({"headers": {"Authorization": "Bearer ${NO_TOKEN}"}}, "needs the environment variable NO_TOKEN"),
    ],
)
def test_settings_that_cannot_be_used_are_errors(arguments: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        HTTPRetriever("http://localhost/", **arguments)


def test_a_resource_belongs_to_its_loop_and_ends_with_it() -> None:
    events: list[str] = []

    async def make() -> AsyncGenerator[str, None]:
        events.append("made")
        try:
            yield "it"
        finally:
            await asyncio.sleep(0)
            events.append("ended")

    resource = LoopResource(make)

    async def use() -> list[str]:
        return list(await asyncio.gather(resource.get(), resource.get()))

    assert asyncio.run(use()) == asyncio.run(use()) == ["it", "it"]
    assert events == ["made", "ended", "made", "ended"]
