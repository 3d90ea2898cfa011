"""Calls a retriever without k, so that it returns as many documents as it is configured to."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.event_loop import BackgroundEventLoop
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.retrievers import Retriever, replays_rankings
from pytest_rageval.retrievers.adapters import Adapter, search_of
from pytest_rageval.retrievers.adapters.callables import (
    Search,
    async_if,
    context_of,
    parameter_of_k,
    required,
)
from pytest_rageval.retrievers.documents import retrieval_from
from pytest_rageval.run.inputs import Components


class OwnKPlugin:
    @hookimpl(tryfirst=True)
    def pytest_rageval_adapt_retriever(  # noqa: PLR0913, PLR0917 - see the hook
        self,
        retriever: object,
        components: Components,
        name: str,
        loop: BackgroundEventLoop,
        adapters: Sequence[Adapter],
        id_path: str,
    ) -> Retriever | None:
        """Return the retriever with its own k; a recorded ranking has none, and is cut at k."""
        if replays_rankings(retriever):
            return None
        if components.added.get("rageval_executor") is not None:
            raise InputError(
                "--rageval k=own calls the retriever in this process, and rageval_executor in others.\nLeave one out."
            )
        search = _without_k(search_of(retriever, adapters, name), retriever, name)
        return OwnKRetriever(search, loop, name=name, read=partial(retrieval_from, id_path=id_path))


class OwnKRetriever(Retriever):
    """A retriever that is called without k. Its rankings are cut at k, and say how they were asked for."""

    def __init__(self, search: Search, loop: BackgroundEventLoop, **arguments: Any) -> None:
        super().__init__(replace(search, own_k=None), loop, **arguments)
        self.own_k: int | None = search.own_k
        # Scores of a retriever that was asked for k are no baseline.
        self.settings: Mapping[str, str] = {"k": "own"}

    async def retrieve(self, query: Example | str, k: int, *, alone: bool = False) -> Ranking:
        """Return the first k documents of those that it returns when it ships; raise the errors of `Retriever`."""
        ranking = await super().retrieve(query, k, alone=alone)
        return replace(ranking, own_k=self.own_k, without_k=True)


def _without_k(search: Search, retriever: object, name: str) -> Search:
    """Return a search that leaves out k, with the number of documents that it is known to return."""
    if search.own_k is not None:
        one, many = search.retrieve, search.retrieve_many
        retrieve_one = async_if(one, lambda query, _k, **context: one(query, None, **context))
        retrieve_many = None if many is None else async_if(many, lambda queries, _k: many(queries, None))
        return _described(replace(search, retrieve=retrieve_one, retrieve_many=retrieve_many))
    function: Any = retriever if callable(retriever) else None
    parameter = None if function is None else parameter_of_k(function)
    if parameter is None:
        # Nothing of it takes k: it is called in the same way in each run.
        return _described(search)
    if parameter.default is parameter.empty:
        raise CallableError(
            f"--rageval k=own: {name} requires {parameter.name}, and so has no number of documents of its own.\n"
            f"Give it a default, as it ships: {parameter.name}=5."
        )
    context = context_of(function)

    def retrieve(query: str, _k: int | None, **values: Any) -> Any:
        return function(query, **{context[part].name: value for part, value in values.items()})

    return _described(
        Search(
            async_if(function, retrieve), required(context), search.default_k, description=search.description
        )
    )


def _described(search: Search) -> Search:
    number = "" if search.own_k is None else f", {search.own_k} documents"
    return replace(search, description=f"{search.description or 'a function'}; called without k{number}")
