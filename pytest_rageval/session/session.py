"""The session: what all tests of one process share, from options to scores."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_rageval.calibration.findings import Calibration
from pytest_rageval.config import Settings
from pytest_rageval.errors import InputError, RagevalError
from pytest_rageval.evalsets.human_labels import HumanLabels
from pytest_rageval.evaluations.calibration import judge_labels, verdict_as_scored
from pytest_rageval.evaluations.context import Pipeline, ScoreRequest, Terms, gather_all
from pytest_rageval.evaluations.registry import Registry, resolve
from pytest_rageval.evaluations.score_def import ScoreDef
from pytest_rageval.evaluations.scoring import check_failures
from pytest_rageval.event_loop import PrivateLoop
from pytest_rageval.gate.baseline import Baseline
from pytest_rageval.llm.api import LLM
from pytest_rageval.llm.budget import Limits
from pytest_rageval.llm.gateway import Access, Gateway
from pytest_rageval.llm.patience import Wait
from pytest_rageval.llm.sources import Pace
from pytest_rageval.llm.usage import Usage
from pytest_rageval.model import EvalSet, Ranking
from pytest_rageval.scores import Outcome, Score
from pytest_rageval.session.models import Models
from pytest_rageval.session.pipelines import Components, Pipelines, Sources
from pytest_rageval.stats.intervals import UNIT

if TYPE_CHECKING:
    from pytest_rageval.embeddings.encoder import CachedEncoder

__all__ = ["RunContext", "Session"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunContext:
    """What the processes of one run have in common.

    Attributes:
        run: name of the run.
        workers: number of processes that run tests.
    """

    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    workers: int = 1


class Session:
    """What the tests of one process share.

    Args:
        settings: the resolved options.
        context: what the processes of the run share; default: there is one process.
        registry: of scores, comparators, answer measures, retriever adapters and formats; default: the built-in.
        tick: called in the test's thread about every tenth of a second while it waits, with the servers
            that do not answer.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        context: RunContext | None = None,
        registry: Registry | None = None,
        tick: Callable[[Sequence[Wait]], None] | None = None,
    ) -> None:
        self.settings = settings
        self.registry = registry or Registry()
        self.gateway = Gateway(_access(settings, context or RunContext()))
        self.loop = PrivateLoop(threads=settings.threads, tick=tick and (lambda: tick(self.gateway.waits())))
        self.models = Models(settings, self.gateway)
        self.sources = Sources(self.registry.formats)
        self.pipelines = Pipelines(settings, self.registry, self.loop, self.gateway.usage)
        self._encoder: CachedEncoder | None = None
        self._outcomes: dict[tuple[Pipeline, str, Terms], list[Outcome]] = {}

    @cached_property
    def llm(self) -> LLM:
        """The model in force, for the user's own code."""
        return LLM(self.gateway, self.loop, self.models.generating)

    @property
    def encoder(self) -> "CachedEncoder":
        """The packaged encoder, for built-in retrievers; its embeddings are kept in the cache folder."""
        if self._encoder is None:
            # They import numpy, which a run of ranking measures need not load.
            from pytest_rageval.embeddings.encoder import CachedEncoder, shared_encoder  # noqa: PLC0415

            self._encoder = CachedEncoder(shared_encoder(), self.settings.cache_dir)
        return self._encoder

    @cached_property
    def baseline(self) -> Baseline:
        """The baseline to compare with; in an update the one that is replaced, empty where it cannot be read.

        Raises:
            InputError: the file is no baseline, or was named and is missing.
        """
        if self.settings.update_baseline:
            try:
                return Baseline.read(self.settings.baseline)
            except InputError:
                # What writes it reports that.
                return Baseline()
        return Baseline.to_compare_with(self.settings.baseline, named=self.settings.baseline_named)

    @property
    def usage(self) -> Usage:
        """What was asked of models so far, with remarks on the user's own functions."""
        return self.gateway.usage + Usage(remarks=self.pipelines.remarks)

    def definition(self, request: ScoreRequest) -> ScoreDef:
        """The definition of a score.

        Raises:
            InputError: the score is unknown.
        """
        return resolve(request, self.registry.scores)[1]

    def fingerprint(self, components: Components, request: ScoreRequest) -> dict[str, Any]:
        """Everything besides the retriever that a score depends on, by name.

        Raises:
            InputError: the score is unknown, or no model is named.
        """
        terms, score = resolve(request, self.registry.scores)
        return score.fingerprint(self.pipelines.of(components), terms, package=version("pytest-rageval"))

    def score(
        self, components: Components, evalset: EvalSet, requests: Sequence[ScoreRequest]
    ) -> dict[ScoreRequest, Score | RagevalError]:
        """Score an eval set by several scores at once.

        Returns:
            By request: the score, or the error that prevented it. An error does not affect other scores.
        """
        pipelines = self.pipelines.repeated(components)

        async def scored(request: ScoreRequest) -> Score:
            outcomes, *repeats = await self._outcomes_of(pipelines, evalset, request)
            return Score(
                request.spec,
                outcomes,
                max_unscored=self.settings.max_unscored,
                seed=self.settings.seed,
                repeats=repeats,
                scale=self.definition(request).scale or UNIT,
            )

        return self._each(requests, scored)

    def plan(
        self, components: Components, evalset: EvalSet, requests: Sequence[ScoreRequest]
    ) -> list[RagevalError]:
        """Count in the gateway's usage what the scores would ask; return the errors that prevented it."""
        pipelines = self.pipelines.repeated(components)

        async def counted(request: ScoreRequest) -> None:
            await self._outcomes_of(pipelines, evalset, request)

        return [error for error in self._each(requests, counted).values() if error is not None]

    def calibrate(
        self, components: Components, labels: HumanLabels, comparator: str | None = None
    ) -> Calibration:
        """Ask the judge what people were asked; a plan counts what it would be asked.

        Raises:
            InputError: the comparator is unknown.
            TooManyUnscoredError: the judge has no verdict on too many of the items.
            CallableError: it failed at too many of them.
            RagevalError: it cannot be asked.
        """
        verdict = verdict_as_scored(self.pipelines.of(components), comparator)
        outcomes = self.loop.run(judge_labels(labels, verdict))
        check_failures(outcomes, self.settings.max_unscored)
        if not self.settings.plan:
            # Raises where too many are unscored.
            Score(f"judge against {labels.name}", outcomes, max_unscored=self.settings.max_unscored)
        return Calibration(labels, outcomes, comparator)

    def retrieve(self, components: Components, query: str, k: int) -> Ranking:
        """The retriever's ranking for one query."""
        return self.loop.run(self.pipelines.of(components).ranking(_text("query", query), _cutoff(k)))

    def answer(self, components: Components, question: str, k: int) -> str:
        """The generator's answer from the first k retrieved documents."""
        return self.loop.run(self.pipelines.of(components).answer(_text("question", question), _cutoff(k)))

    def close(self) -> str | None:
        """Close connections, processes and files.

        Returns:
            None; or the user's code that blocked the event loop for so long that closing was given up.
        """
        if self.loop.forked:
            # They belong to the parent process.
            return None
        self.models.close()
        if self._encoder is not None:
            self._encoder.close()
        return self.loop.close(self.gateway.close)

    def _each(
        self, requests: Sequence[ScoreRequest], work: Callable[[ScoreRequest], Awaitable[T]]
    ) -> dict[ScoreRequest, T | RagevalError]:
        """The result of the work, or its error, for each request; all run at once."""

        async def one(request: ScoreRequest) -> T | RagevalError:
            try:
                return await work(request)
            except RagevalError as error:
                return error

        async def every() -> list[T | RagevalError]:
            return await asyncio.gather(*map(one, requests))

        return dict(zip(requests, self.loop.run(every()), strict=True))

    async def _outcomes_of(
        self, pipelines: Sequence[Pipeline], evalset: EvalSet, request: ScoreRequest
    ) -> list[list[Outcome]]:
        """The outcomes in the first pipeline and, where the score asks models, in its repeats."""
        terms, score = resolve(request, self.registry.scores)
        asked = pipelines if score.dependencies else pipelines[:1]
        return await gather_all(self._evaluated(each, evalset, terms, score) for each in asked)

    async def _evaluated(
        self, pipeline: Pipeline, evalset: EvalSet, terms: Terms, score: ScoreDef
    ) -> list[Outcome]:
        # Refuse an unknown comparator before anything is asked.
        pipeline.comparison(terms.comparator)
        pipeline.comparison(terms.label, "label")
        key = (pipeline, evalset.digest, terms)
        if key not in self._outcomes:
            outcomes = await score.evaluate(pipeline, evalset.examples, terms)
            check_failures(outcomes, self.settings.max_unscored)
            self._outcomes[key] = outcomes
        return self._outcomes[key]


def _access(settings: Settings, context: RunContext) -> Access:
    """How the gateway reaches models, by the options."""
    # A rate is that of the whole run; processes do not see each other's requests.
    share = 1 / context.workers
    return Access(
        cache_dir=settings.cache_dir,
        cassette=settings.cassette,
        mode="plan" if settings.plan else "replay" if settings.replay else "live",
        run=context.run,
        refresh=settings.refresh,
        record=settings.record,
        prompts=settings.record_prompts,
        pace=Pace(
            concurrency=settings.concurrency,
            timeout_s=settings.timeout,
            retries=settings.retries,
            rpm=settings.rpm and settings.rpm * share,
            tpm=settings.tpm and settings.tpm * share,
            patience_s=settings.patience,
        ),
        limits=Limits(settings.max_calls, settings.max_cost),
        prices=settings.prices,
    )


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} = {value!r:.60}: it is one text, found {type(value).__name__}.")
    return value


def _cutoff(k: object) -> int:
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        message = f"k = {k!r}: the number of documents is an integer, at least 1."
        raise InputError(message)
    return k
