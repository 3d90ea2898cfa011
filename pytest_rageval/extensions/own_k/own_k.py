"""How many documents a retriever returns when nobody asks it for a number, and how that changed since the baseline.

A retriever may declare it, as the default of its k or as a setting. Else it is observed: if nothing of the retriever
takes k, in the rankings of the run; if k is optional, by one search without k. A retriever that requires k has none.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from statistics import median_low
from typing import Any, Final, NotRequired, TypedDict, cast

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, InputError, QueryError, RagevalError, Unscored
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.core.spec import Spec
from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.lib.text import counted
from pytest_rageval.retrievers import Retriever, replays_rankings
from pytest_rageval.retrievers.adapters import Adapter, search_of
from pytest_rageval.retrievers.adapters.callables import Search, async_if
from pytest_rageval.retrievers.results import retrieval_from
from pytest_rageval.run.inputs import Components
from pytest_rageval.run.judged import JudgedTest
from pytest_rageval.run.session import Session
from pytest_rageval.run.test import TestRun

REMEDY: Final = "If it is meant, write a new baseline"
ASKED: Final = (
    "No score shows it, as each asks for as many as its cut-off (@k). Set it back; or if it is meant, write a new "
    "baseline. To have scores show it, set rageval_k = own in the ini file and write the baseline on the commit to "
    "compare with"
)
SHIPPED: Final = f"The scores measure that (k=own). {REMEDY}"


class Observed(TypedDict):
    """What was observed, in a record and in the baseline: `own_k_of` is the question of the search without k."""

    own_k: NotRequired[int]
    own_k_of: NotRequired[str]
    own_k_error: NotRequired[str]


class _Unasked:
    """The searches without k of a session, so that tests that share a retriever share them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._found: dict[tuple[int, str], Observed] = {}

    def observed(self, retriever: Retriever, example: Example) -> Observed:
        key = id(retriever), example.id
        if key not in self._found:
            found: Observed = {"own_k_of": example.id}
            try:
                found["own_k"] = self._session.loop.run(retriever.count_unasked(example), inline=True)
            except (RagevalError, QueryError, Unscored) as error:
                found["own_k_error"] = str(error).partition("\n")[0]
            self._found[key] = found
        return self._found[key]


def observe(test: TestRun) -> None:
    session, record = test.session, test.record
    before: Any = {}
    with suppress(RagevalError):  # a shard needs no baseline
        before = session.baseline.tests.get(test.marked.nodeid, {})
    # The merge of a shard may write a baseline.
    effects = session.settings.effects
    is_wanted = "own_k" in before or not effects.isdisjoint({"replaces the baseline", "is merged"})
    if "lacks replies" in effects or not is_wanted:
        return
    retriever = session.pipelines.get(test.components).retriever
    if not isinstance(retriever, Retriever) or retriever.replays or retriever.k_use == "required":
        return
    if retriever.k_use == "ignored":
        outcomes = (
            run for runs in record.runs.values() if not isinstance(runs, RagevalError) for run in runs[0]
        )
        found = [outcome.evidence.ranking for outcome in outcomes if outcome.evidence.ranking is not None]
        if found:
            number = median_low(len(each) + each.surplus + each.duplicates for each in found)
            record.added["own_k"] = Observed(own_k=number)
        return
    # The same question as in the baseline: a threshold may leave out other documents of another one.
    known = before.get("own_k_of")
    example = next((each for each in record.examples if known in {None, each.id}), None)
    if example is not None:
        record.added["own_k"] = session.resource(_Unasked).observed(retriever, example)


def change_text(test: JudgedTest, before: int, *, is_measured: bool) -> str:
    """Return what changed since the baseline, whose number is `before`; empty if it is the same or not known.

    `is_measured`: the scores are those of the retriever with its own number.
    """
    declared, entry = test.record.own_k, cast("Observed", test.session.baseline.tests[test.marked.nodeid])
    observed = cast("Observed", test.record.added.get("own_k", {}))
    number, question = observed.get("own_k"), observed.get("own_k_of", "")
    if error := observed.get("own_k_error"):
        return f"a search without k, of {question}, which the baseline has, fails now: {error}"
    if number == before or (not observed and "own_k_of" in entry and declared is None):
        return ""
    remedy = SHIPPED if is_measured else ASKED
    if number is None:
        now = "no fixed number" if declared is None else str(declared)
        return f"the retriever was configured to return {before} documents in the baseline, and {now} now. {remedy}"
    place = f" (for {question})" if question else ""
    if not question:
        specs = [Spec.parse(result.threshold.spec) for result in test.judged if result.comparison]
        deepest = max(specs, key=lambda spec: spec.k or 0)
        seen = f"Scores look only at the first {counted(deepest.k or 0, 'document')}, so {deepest} may not show it. "
        remedy = f"{seen if deepest.k and number >= deepest.k else ''}{REMEDY}"
    return (
        f"called without k, the retriever returned {before} documents in the baseline, and {number} "
        f"now{place}. {remedy}"
    )


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
        ranking = await super().retrieve(query, k, alone=alone)
        return replace(ranking, own_k=self.own_k, without_k=True)


def _without_k(search: Search, name: str) -> Search:
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
