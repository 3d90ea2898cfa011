"""Calls a retriever without k, so that it returns as many documents as it is configured to."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.retrievers import Retriever, replays_rankings
from pytest_rageval.retrievers.adapters import Adapter, search_of
from pytest_rageval.retrievers.adapters.callables import Search, async_if
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
        search = _without_k(search_of(retriever, adapters, name), name)
        return OwnKRetriever(search, loop, name=name, read=partial(retrieval_from, id_path=id_path))


class OwnKRetriever(Retriever):
    """A retriever that is called without k. Its rankings are cut at k, and say how they were asked for."""

    def __init__(self, search: Search, loop: BackgroundEventLoop, **arguments: Any) -> None:
        super().__init__(replace(search, own_k=None, k_use="ignored"), loop, **arguments)
        self.own_k: int | None = search.own_k or search.default_k
        # Scores of a retriever that was asked for k are no baseline.
        self.settings: Mapping[str, str] = {"k": "own"}

    async def retrieve(self, query: Example | str, k: int, *, alone: bool = False) -> Ranking:
        """Return the first k documents of those that it returns when it ships; raise the errors of `Retriever`."""
        ranking = await super().retrieve(query, k, alone=alone)
        return replace(ranking, own_k=self.own_k, without_k=True)


def _without_k(search: Search, name: str) -> Search:
    """Return a search that leaves out k."""
    if search.k_use == "required":
        raise CallableError(
            f"--rageval k=own: {name} requires k, and so has no number of documents of its own.\n"
            "Give it a default, as it ships: k=5."
        )
    own_k = search.own_k or search.default_k
    number = "" if own_k is None else f", {own_k} documents"
    search = replace(search, description=f"{search.description or 'a function'}; called without k{number}")
    if search.k_use == "ignored":
        return search
    one, many = search.retrieve, search.retrieve_many
    retrieve_one = async_if(one, lambda query, _k, **context: one(query, None, **context))
    # A method for many questions may require k, if it is not the framework's own.
    retrieve_many = (
        None
        if many is None or search.own_k is None
        else async_if(many, lambda queries, _k: many(queries, None))
    )
    return replace(search, retrieve=retrieve_one, retrieve_many=retrieve_many)
