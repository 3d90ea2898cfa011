"""Retrievers: calls of the user's own retriever, and BM25 to compare it with.

- `Retriever` (here): calls the retriever under test and converts its results.
- `adapters`: create a `Search` from each supported kind of retriever.
- `results`: reads a result. `result_shapes`: finds the documents in it. `documents`: converts those that are no plain
  dicts. `fields`: their fields by path.
- `query_batcher`: groups questions into batches, for retrievers that accept several questions in one call.
- `bm25`: a baseline retriever.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.user_code import InvalidResult, UserCallable, is_cached
from pytest_rageval.core.errors import Cause, InputError, QueryError, Unscored
from pytest_rageval.core.evalset import EXCLUDED, Example
from pytest_rageval.core.ranking import CreatedDocuments, Document, Ranking, Retrieval
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.foreign_values import as_identifier, id_key
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.retrievers.adapters import ADAPTERS, Adapter, search_of
from pytest_rageval.retrievers.adapters.callables import KUse, Search
from pytest_rageval.retrievers.fields import FieldSample
from pytest_rageval.retrievers.results import retrieval_from

if TYPE_CHECKING:
    from pytest_rageval.retrievers.query_batcher import QueryBatcher

FIXTURE: Final = "rageval_retriever"
REFERENCE_FIXTURE: Final = "rageval_reference_retriever"

# Imported lazily, since few retrievers accept several questions in one call.
create_batcher: Lazy = Lazy("retrievers.query_batcher", "QueryBatcher")

MAX_CONCURRENCY: Final = 1000
"""The most questions of a score in flight. Each takes some kilobytes of memory."""

CONTEXT_FORMS: Final = {
    "history": 'It is a list of messages: [{"role": "user", "content": "…"}].',
    "filters": 'It is an object: {"tenant": "acme"}.',
    "metadata": 'It is an object: {"source": "chat"}.',
}

CONTEXT_COPIERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "history": lambda messages: list(map(dict, messages)),
    "filters": dict,
    "metadata": dict,
    "example": lambda example: example,
}
"""Functions that copy a part of the context, since the user's code may modify its arguments."""


class Retriever:
    """Calls a retriever with the query, k, and the parts of the context that it accepts.

    A retriever that `replays` recorded rankings has no duration of its own. `read` converts the result of the search,
    and adds its documents to the sample of fields.
    """

    def __init__(  # noqa: PLR0913 - the properties of a retriever
        self,
        search: Search,
        loop: BackgroundEventLoop,
        *,
        name: str = FIXTURE,
        replays: bool = False,
        read: Callable[..., Retrieval] = retrieval_from,
        max_concurrency: int = MAX_CONCURRENCY,
    ) -> None:
        self.fields: FieldSample = FieldSample()
        read = partial(read, sample=self.fields)
        self.max_concurrency = max_concurrency
        self.replays = replays
        # Options of the run that change what it returns, for the fingerprint of the baseline.
        self.settings: Mapping[str, str] = {}
        self.description: str = search.description
        self.own_k: int | None = search.own_k or search.default_k
        self.k_use: KUse = search.k_use
        self.context_names: frozenset[str] = frozenset(search.context)
        self._search = search
        self._name = name
        self._has_required_context = any(search.context.values()) or "example" in search.context
        self._user = UserCallable(name, search.retrieve, loop, cause=failure_cause(name), read=read)
        self._batcher: QueryBatcher | None = (
            None if search.retrieve_many is None else create_batcher(name, search.retrieve_many, loop, read)
        )

    @property
    def completion_counts(self) -> Counter[str]:
        batched = Counter[str]() if self._batcher is None else self._batcher.completion_counts
        return self._user.completion_counts + batched

    def key(self, query: Example | str) -> tuple[str, str]:
        """Return a key of the arguments of a call without k; InputError if the retriever rejects the filters."""
        example = Example("", query) if isinstance(query, str) else query
        context = self._context_of(example)
        if "example" in context:
            context["example"] = example.id
        if excluded := _excluded(example):
            context[EXCLUDED] = sorted(excluded)
        return example.question, digest(context) if context else ""

    async def retrieve(self, query: Example | str, k: int, *, alone: bool = False) -> Ranking:
        """Return the first k different documents for a query; fewer if the retriever returned fewer.

        A retriever that is configured to return a certain number of documents keeps that number, unless k is larger.
        With `alone` it is called for this query alone, even if it accepts several questions in one call.
        """
        example, own_k = Example("", query) if isinstance(query, str) else query, self._search.own_k
        excluded = _excluded(example)
        # The documents that are left out take places of the first k.
        asked_k = k + len(excluded)
        requested_k = None if own_k is not None and own_k >= asked_k else asked_k
        result, seconds = await self._retrieve_documents(example, requested_k, alone=alone)
        if excluded:
            result = replace(result, documents=_without(result.documents, excluded, k, asked_k))
        if result.seconds is not None or self.replays:
            seconds = result.seconds
        if isinstance(result.documents, CreatedDocuments) and len(result.documents) <= k:
            # The documents of a recorded run are distinct, and are created when they are used.
            missing = k - len(result.documents)
            return Ranking(example.question, result.documents, missing=missing, own_k=own_k, seconds=seconds)
        steps = result.steps
        return Ranking.of(
            example.question,
            result.documents,
            k,
            own_k=own_k,
            steps=None if steps is None else tuple(Ranking.of(step.query, step.documents) for step in steps),
            tokens=result.tokens,
            cost=result.cost,
            seconds=seconds,
            question=result.question,
            stages=None
            if result.stages is None
            else tuple(Ranking.of(stage.name, stage.documents) for stage in result.stages),
        )

    async def count_unasked(self, example: Example) -> int:
        """Return how many documents it returns for a question when it is called without k, which must be optional."""
        result, _ = await self._retrieve_documents(example, None, alone=True)
        return len(result.documents)

    def expect(self, examples: Iterable[Example], k: int) -> None:
        """Announce the next questions, so that a retriever that accepts several in one call can be called for them."""
        if self._batcher is not None:
            own_k = self._search.own_k
            requested_k = None if own_k is not None and own_k >= k else k
            plain = (each for each in examples if not (self._context_of(each) or _excluded(each)))
            self._batcher.expect((example.question for example in plain), requested_k)

    async def _retrieve_documents(
        self, example: Example, k: int | None, *, alone: bool
    ) -> tuple[Retrieval, float | None]:
        """Return the retriever's result and the duration of the call in seconds, or None if it is unknown."""
        context = self._context_of(example)
        if self._batcher is not None and not context and not alone and not _excluded(example):
            # After an error the question is sent again, alone, to get its own result or error.
            with suppress(QueryError, InvalidResult, Unscored):
                return await self._batcher.result(example.question, k), None
        return await self._user.call_timed(example.question, k, **context)

    def _context_of(self, example: Example) -> dict[str, object]:
        """Return the parts of an example's context that the retriever accepts; empty parts only if it requires them."""
        accepted = self._search.context
        if example.filters and accepted.keys().isdisjoint({"filters", "example"}):
            raise InputError(
                f"The eval set has filters, and {self._name} does not take them: the passages would be those of "
                "another search.\nName them in the signature, as in `def search(query, k, filters)`, or take them out "
                "of the eval set."
            )
        context: dict[str, object] = {}
        has_context = example.history or example.filters or example.metadata or example.extra
        if not (self._has_required_context or has_context):
            # A quick exit: most examples have no context, and this method is called several times for each.
            return context
        for name, required in accepted.items():
            value = example if name == "example" else getattr(example, name)
            if not value and example.extra.get(name):
                raise InputError(
                    f"The retriever takes {name}, and an example has another form of it: {example.extra[name]!r:.80}.\n"
                    f"{CONTEXT_FORMS[name]}"
                )
            if value or required:
                context[name] = CONTEXT_COPIERS[name](value)
        return context


def _excluded(example: Example) -> frozenset[str]:
    """Return the `id_key` of each document that is left out of the ranking of an example."""
    if EXCLUDED not in example.extra:
        return frozenset()
    ids = example.extra[EXCLUDED]
    if not isinstance(ids, list | tuple):
        raise InputError(
            f'"{EXCLUDED}" of {example.id!r} is {ids!r:.40}, expected a list of ids of documents.'
        )
    return frozenset(id_key(name) for each in ids if (name := as_identifier(each)) is not None)


def _without(documents: Sequence[Document], excluded: frozenset[str], k: int, asked_k: int) -> list[Document]:
    """Return documents without those that are left out, and without the places that were asked for them in vain."""
    kept = [document for document in documents if document.id is None or id_key(document.id) not in excluded]
    return kept[:k] if len(documents) <= asked_k else kept


def replays_rankings(retriever: object) -> bool:
    """Return True if a retriever replays recorded rankings, so that its duration is not that of a retrieval."""
    return is_cached(retriever) or getattr(retriever, "replays", False) is True


def adapt_retriever(
    retriever: object,
    loop: BackgroundEventLoop,
    adapters: Sequence[Adapter] = ADAPTERS,
    *,
    name: str = FIXTURE,
    id_path: str = "",
) -> Retriever:
    """Return the object of a fixture, by default `rageval_retriever`, as a `Retriever`.

    `id_path` is the path of the field with the ids of the documents; empty: the usual names.
    """
    read = partial(retrieval_from, id_path=id_path)
    return Retriever(
        search_of(retriever, adapters, name), loop, name=name, replays=replays_rankings(retriever), read=read
    )


def failure_cause(name: str) -> Cause:
    # A failure of another retriever does not count against the retriever under test.
    return "run" if name == REFERENCE_FIXTURE else "retriever"
