"""The session: what the tests of one process share, and what the processes of one run share."""

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
from pytest_rageval.evaluations.context import Evaluation, Pipeline, ScoreRequest, Terms, gather_all
from pytest_rageval.evaluations.registry import Registry, asks, evaluation_of, fingerprint, scale_of
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

__all__ = ["RunContext", "Session", "gateway_access"]


@dataclass(frozen=True, slots=True)
class RunContext:
    """What the processes of one run have in common.

    Attributes:
        run: a name of it.
        workers: how many processes run tests.
    """

    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    workers: int = 1


def gateway_access(settings: Settings, together: RunContext) -> Access:
    """How the options want models to be reached."""
    # A rate is that of the whole run; its processes do not know of each other's requests.
    share = 1 / together.workers
    return Access(
        cache_dir=settings.cache_dir,
        cassette=settings.cassette,
        mode="plan" if settings.plan else "replay" if settings.replay else "live",
        run=together.run,
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


T = TypeVar("T")


class Session:
    """What the tests of one process share.

    Args:
        settings: the options, resolved.
        together: what it has in common with the other processes of the run; default: it is alone.
        registry: of scores, comparators, answer measures, retriever adapters and formats; default: the built-in.
        tick: called in the test's thread every tenth of a second or so while it waits, with the servers
            that answer nothing.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        together: RunContext | None = None,
        registry: Registry | None = None,
        tick: Callable[[Sequence[Wait]], None] | None = None,
    ) -> None:
        self.settings = settings
        self.registry = registry or Registry()
        self.door = Gateway(gateway_access(settings, together or RunContext()))
        self.loop = PrivateLoop(threads=settings.threads, tick=tick and (lambda: tick(self.door.waits())))
        self.models = Models(settings, self.door)
        self.sources = Sources(self.registry.formats)
        self.runs = Pipelines(settings, self.registry, self.loop, self.door.usage)
        self._outcomes: dict[tuple[Pipeline, str, Terms], list[Outcome]] = {}

    @cached_property
    def llm(self) -> LLM:
        """The model in force, for the user's own code."""
        return LLM(self.door, self.loop, self.models.generating)

    @cached_property
    def encoder(self) -> "CachedEncoder":
        """The packaged encoder, for built-in retrievers; its embeddings are kept in the cache folder."""
        # With numpy, a fifth of a second, which a run of verdicts alone need not pay.
        from pytest_rageval.embeddings.encoder import CachedEncoder, shared_encoder  # noqa: PLC0415

        return CachedEncoder(shared_encoder(), self.settings.cache_dir)

    def scale(self, wanted: ScoreRequest) -> tuple[float, float] | None:
        """The lowest and the highest value of a score; None where another plugin that added it does not say.

        Raises:
            InputError: there is no such score.
        """
        return scale_of(evaluation_of(wanted, self.registry.scores)[1])

    def calibrate(self, parts: Components, labels: HumanLabels, comparator: str | None = None) -> Calibration:
        """Ask the judge what people were asked; in a plan, count what it would be asked.

        Raises:
            InputError: there is no such comparator.
            TooManyUnscoredError: the judge has no verdict on too many of the items.
            CallableError: it failed at too many of them.
            RagevalError: it cannot be asked.
        """
        verdict = verdict_as_scored(self.runs.of(parts), comparator)
        outcomes = self.loop.run(judge_labels(labels, verdict))
        check_failures(outcomes, self.settings.max_unscored)
        if not self.settings.plan:
            Score(f"judge against {labels.name}", outcomes, max_unscored=self.settings.max_unscored)
        return Calibration(labels, outcomes, comparator)

    def score(
        self, parts: Components, evalset: EvalSet, wanted: Sequence[ScoreRequest]
    ) -> dict[ScoreRequest, Score | RagevalError]:
        """Score an eval set by several scores at once.

        Returns:
            By what was wanted: the score, or the error for which there is none; the others are unharmed.
        """
        runs = self.runs.repeated(parts)

        async def scored(each: ScoreRequest) -> Score:
            outcomes, *repeats = await self._outcomes_of(runs, evalset, each)
            return Score(
                each.spec,
                outcomes,
                max_unscored=self.settings.max_unscored,
                seed=self.settings.seed,
                repeats=repeats,
                scale=self.scale(each) or UNIT,
            )

        return self._each(wanted, scored)

    def plan(self, parts: Components, evalset: EvalSet, wanted: Sequence[ScoreRequest]) -> list[RagevalError]:
        """Count in the door's usage what the scores would ask; the errors that kept it from some."""
        runs = self.runs.repeated(parts)

        async def asked(each: ScoreRequest) -> None:
            await self._outcomes_of(runs, evalset, each)

        return [error for error in self._each(wanted, asked).values() if error is not None]

    @cached_property
    def baseline(self) -> Baseline:
        """The scores to compare with.

        Raises:
            InputError: the file is no baseline, or was named and is not there.
        """
        return Baseline.to_compare_with(self.settings.baseline, named=self.settings.baseline_named)

    def fingerprint(self, parts: Components, wanted: ScoreRequest) -> dict[str, Any]:
        """Everything beside the retriever that a score depends on, by name.

        Raises:
            InputError: there is no such score, or no model to name.
        """
        terms, evaluate = evaluation_of(wanted, self.registry.scores)
        return fingerprint(self.runs.of(parts), terms, evaluate, package=version("pytest-rageval"))

    @property
    def usage(self) -> Usage:
        """What was asked so far, with what a reader should know of the user's own functions."""
        return self.door.usage + Usage(remarks=self.runs.remarks)

    def retrieve(self, parts: Components, query: str, k: int) -> Ranking:
        """What the retriever returns for one query."""
        return self.loop.run(self.runs.of(parts).ranking(_text("query", query), _cutoff(k)))

    def answer(self, parts: Components, question: str, k: int) -> str:
        """The generator's answer from the first k retrieved documents."""
        return self.loop.run(self.runs.of(parts).answer(_text("question", question), _cutoff(k)))

    def close(self) -> str | None:
        """Let go of connections, processes and files.

        Returns:
            None; or which code of the user's held that up for so long that it was given up.
        """
        if self.loop.forked:
            # All of it is the other process's.
            return None
        self.models.close()
        if "encoder" in self.__dict__:
            self.encoder.close()
        return self.loop.close(self.door.close)

    def _each(
        self, wanted: Sequence[ScoreRequest], work: Callable[[ScoreRequest], Awaitable[T]]
    ) -> dict[ScoreRequest, T | RagevalError]:
        """What some work gives for each that is wanted, all at once; the error of one leaves the others unharmed."""

        async def one(each: ScoreRequest) -> T | RagevalError:
            try:
                return await work(each)
            except RagevalError as error:
                return error

        async def every() -> list[T | RagevalError]:
            return await asyncio.gather(*map(one, wanted))

        return dict(zip(wanted, self.loop.run(every()), strict=True))

    async def _outcomes_of(
        self, runs: Sequence[Pipeline], evalset: EvalSet, wanted: ScoreRequest
    ) -> list[list[Outcome]]:
        """The outcomes in the run that counts and, where the score asks anything, in each that asks again."""
        terms, evaluate = evaluation_of(wanted, self.registry.scores)
        counted = runs if asks(evaluate) else runs[:1]
        return await gather_all(self._scored(run, evalset, terms, evaluate) for run in counted)

    async def _scored(
        self, run: Pipeline, evalset: EvalSet, terms: Terms, evaluate: Evaluation
    ) -> list[Outcome]:
        # Before anything is asked: a comparator that is none costs nothing.
        run.comparison(terms.comparator)
        run.comparison(terms.label, "label")
        key = (run, evalset.digest, terms)
        if key not in self._outcomes:
            outcomes = await evaluate(run, evalset.examples, terms)
            check_failures(outcomes, self.settings.max_unscored)
            self._outcomes[key] = outcomes
        return self._outcomes[key]


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} = {value!r:.60}: it is one text, found {type(value).__name__}.")
    return value


def _cutoff(k: object) -> int:
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        message = f"k = {k!r}: the number of documents is an integer, at least 1."
        raise InputError(message)
    return k
