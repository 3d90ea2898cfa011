"""Retrievers: calls of the user's own retriever, and retrievers to compare it with.

- `Retriever` (here): calls the retriever under test and reads what it returns.
- `adapters`: makes a callable of each supported kind of retriever. `documents`: reads the returned items.
- `query_batcher`: groups questions for retrievers that take many at once.
- `executor`, `worker`: run a retriever in other processes.
- `bm25`, `dense`, `llm_baselines`: baselines.
- `trec_run`, `run_file`, `trace_run`: replay recorded rankings.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pytest_rageval.concurrency.event_loop import BackgroundEventLoop
from pytest_rageval.datatypes import Example, Ranking, Retrieval, SpooledDocuments
from pytest_rageval.digests import digest
from pytest_rageval.errors import Cause, InputError, QueryError, Unscored
from pytest_rageval.lazy import Lazy
from pytest_rageval.retrievers.adapters import ADAPTERS, Adapter, search_of
from pytest_rageval.retrievers.adapters.callables import Search
from pytest_rageval.retrievers.documents import retrieval_from
from pytest_rageval.user_code import InvalidResult, UserCallable, is_cached

if TYPE_CHECKING:
    from pytest_rageval.retrievers.query_batcher import QueryBatcher

__all__ = ["Retriever", "adapt_retriever"]

NAME: Final = "rageval_retriever"

in_batches = Lazy("retrievers.query_batcher", "QueryBatcher")  # few retrievers take several questions at once

MAX_CONCURRENCY: Final = 1000
MAX_CONCURRENCY_IN_EXECUTOR: Final = 16_000
"""The largest number of questions of a score in flight; each takes some kilobytes of memory.

An executor has more of them, since it receives them in chunks for each of its processes.
"""

FORMS: Final = {
    "history": 'It is a list of messages: [{"role": "user", "content": "…"}].',
    "filters": 'It is an object: {"tenant": "acme"}.',
    "metadata": 'It is an object: {"source": "chat"}.',
}
"""What each part of the context looks like, for error messages."""

COPIED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "history": lambda messages: list(map(dict, messages)),
    "filters": dict,
    "metadata": dict,
    "example": lambda example: example,
}
"""Copies each part of the context, since the user's code may change what it receives."""


class Retriever:
    """A search, as `UserCallable` calls it: with the query, k, and the context that it takes."""

    def __init__(  # noqa: PLR0913 - how it is called
        self,
        search: Search,
        loop: BackgroundEventLoop,
        *,
        name: str = NAME,
        replays: bool = False,
        read: Callable[[Any], Retrieval] = retrieval_from,
        max_concurrency: int = MAX_CONCURRENCY,
    ) -> None:
        self.max_concurrency = max_concurrency
        self._search = search
        self._name = name
        self._replays = replays
        self._requires = any(search.context.values()) or "example" in search.context
        self._read = read
        self._user = UserCallable(name, search.ask, loop, cause=_cause(name), read=read)
        self._batches: QueryBatcher | None = (
            None if search.many is None else in_batches(name, search.many, loop)
        )

    @property
    def completion_counts(self) -> Counter[str]:
        """The number of completions that the retriever requested, by model."""
        return self._user.completion_counts + (
            Counter() if self._batches is None else self._batches.completion_counts
        )

    @property
    def replays(self) -> bool:
        """Whether it replays recorded rankings, so that the time of a call is not that of a retrieval."""
        return self._replays

    @property
    def takes(self) -> frozenset[str]:
        """The parts of the context that it takes: of "history", "filters", "metadata" and "example"."""
        return frozenset(self._search.context)

    def key(self, asked: Example | str) -> tuple[str, str]:
        """Return a key of the arguments of a call, without k. InputError if the retriever cannot take the example."""
        if isinstance(asked, str):
            asked = _example(asked)
        given = self._given(asked)
        if "example" in given:
            given["example"] = asked.id
        return asked.question, digest(given) if given else ""

    async def retrieve(self, asked: Example | str, k: int, *, alone: bool = False) -> Ranking:
        """Return the first k documents for a query, each once; fewer where fewer were returned.

        A retriever that takes many questions at once receives them in batches, unless `alone` is set.
        A retriever that is configured to return a certain number of documents keeps it, unless k is larger.

        QueryError if the callable raised for this query, or returned no list: [] means that nothing was found.
        InputError if the example has filters, and the retriever does not take them.
        """
        example, own_k = _example(asked), self._search.own_k
        of_call = None if own_k is not None and own_k >= k else k
        found, seconds = await self._found(example, of_call, alone=alone)
        if found.seconds is not None or self._replays:
            seconds = found.seconds
        if isinstance(found.documents, SpooledDocuments) and len(found.documents) <= k:
            # Of a recorded run, which has each once: none is made before it is read.
            missing = k - len(found.documents)
            return Ranking(example.question, found.documents, missing=missing, own_k=own_k, seconds=seconds)
        steps = found.steps
        return Ranking.of(
            example.question,
            found.documents,
            k,
            own_k=own_k,
            steps=None if steps is None else tuple(Ranking.of(step.query, step.documents) for step in steps),
            tokens=found.tokens,
            cost=found.cost,
            seconds=seconds,
            question=found.question,
        )

    def expect(self, examples: Iterable[Example], k: int) -> None:
        """Name the questions that will be asked next, so that it can be asked for several at once."""
        if self._batches is not None:
            own_k = self._search.own_k
            of_call = None if own_k is not None and own_k >= k else k
            self._batches.expect((each.question for each in examples if not self._given(each)), of_call)

    async def _found(self, example: Example, k: int | None, *, alone: bool) -> tuple[Retrieval, float | None]:
        """What it returns, and how long that took."""
        given = self._given(example)
        if self._batches is not None and not given and not alone:
            try:
                return self._read(await self._batches.of(example.question, k)), None
            except (QueryError, InvalidResult, Unscored):
                # Sent alone, each question gets its own result or error.
                pass
        return await self._user.call_timed(example.question, k, **given)

    def _given(self, example: Example) -> dict[str, Any]:
        """The context of an example that the retriever takes; a required part also where it is empty."""
        taken = self._search.context
        if example.filters and taken.keys().isdisjoint({"filters", "example"}):
            raise InputError(
                f"The eval set has filters, and {self._name} does not take them: the passages would be those of "
                "another search.\nName them in the signature, as in `def search(query, k, filters)`, or take them out "
                "of the eval set."
            )
        given: dict[str, Any] = {}
        if not (self._requires or example.history or example.filters or example.metadata or example.extra):
            # Most examples are read several times.
            return given
        for name, required in taken.items():
            value = example if name == "example" else getattr(example, name)
            if not value and example.extra.get(name):
                raise InputError(
                    f"The retriever takes {name}, and an example has another form of it: {example.extra[name]!r:.80}.\n"
                    f"{FORMS[name]}"
                )
            if value or required:
                given[name] = COPIED[name](value)
        return given


def _example(asked: Example | str) -> Example:
    return Example("", asked) if isinstance(asked, str) else asked


def adapt_retriever(
    retriever: object,
    loop: BackgroundEventLoop,
    adapters: Sequence[Adapter] = ADAPTERS,
    *,
    name: str = NAME,
    executor: object = None,
) -> Retriever:
    """Return the object of a fixture, by default `rageval_retriever`, as a `Retriever`.

    It is adapted by the first adapter that recognises it. With an executor it runs there, unless it replays recorded
    rankings.

    CallableError if none does, the adapter cannot use it, or a plugin's raised or returned what cannot be called; or
    where it cannot be made in a process of the executor. InputError if it cannot run in an executor.
    """
    replays = is_cached(retriever) or getattr(retriever, "replays", False) is True
    if executor is not None and not replays:
        from pytest_rageval.retrievers.executor import in_executor, read_reply  # noqa: PLC0415 - few runs have an executor

        cause = _cause(name)
        search = in_executor(retriever, executor, loop, adapters=adapters, name=name, cause=cause)
        return Retriever(
            search, loop, name=name, read=read_reply, max_concurrency=MAX_CONCURRENCY_IN_EXECUTOR
        )
    return Retriever(search_of(retriever, adapters, name), loop, name=name, replays=replays)


def _cause(name: str) -> Cause:
    # A question at which another retriever fails is not lost by the one under test.
    return "retriever" if name == NAME else "run"
