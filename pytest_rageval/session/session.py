"""`Session`: the resources that all tests of one process share; scores eval sets."""

import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pytest_rageval.concurrency.event_loop import BackgroundEventLoop
from pytest_rageval.concurrency.gathering import gather_all, gather_results
from pytest_rageval.config import EMBEDDED, Settings
from pytest_rageval.datatypes import CONTEXT, EvalSet, Example, Ranking
from pytest_rageval.errors import InputError, RagevalError, ReplyPending
from pytest_rageval.evaluations.pipeline import DrawSettings, Pipeline, Query, ResolvedScore, ScoreRequest
from pytest_rageval.evaluations.registry import CUTOFF, PluginScore, Registry, resolve
from pytest_rageval.evaluations.scoring import ScoreDef, check_failures, error_of_all
from pytest_rageval.lazy import Lazy
from pytest_rageval.llm.usage import Usage
from pytest_rageval.scores import Outcome, Score, Spec
from pytest_rageval.secret import StoreURL
from pytest_rageval.session.base import BaseSession
from pytest_rageval.session.default_components import Models
from pytest_rageval.session.pipelines import Components, Pipelines, Sources
from pytest_rageval.user_code import FIRST

if TYPE_CHECKING:
    from pytest_rageval.calibration import Calibration
    from pytest_rageval.embeddings.encoder import CachedEncoder
    from pytest_rageval.evalsets.human_labels import HumanLabels
    from pytest_rageval.llm.api import LLM
    from pytest_rageval.llm.gateway import Gateway
    from pytest_rageval.llm.servers.rate_limits import Stall
    from pytest_rageval.prompts.rendering import Prompts
    from pytest_rageval.serving.application import Backend
    from pytest_rageval.session.battles import Battles
    from pytest_rageval.session.shared_embeddings import SharedEmbeddings

__all__ = ["RunContext", "Session"]

T = TypeVar("T")

blamed = Lazy("evaluations.sufficiency", "blamed")
# Few runs score a part of their questions, or let systems battle.
part_of = Lazy("evalsets.subsets", "select_subset")
battles = Lazy("session.battles", "Battles")


@dataclass(frozen=True, slots=True)
class RunContext:
    """The name of the run, and the number of its processes."""

    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    workers: int = 1


class Session(BaseSession):
    """The resources that the tests of one process share.

    Args:
        settings: the resolved options.
        context: the name of the run and the number of its processes; default: one process.
        registry: default: with the built-in objects only.
        tick: called in the test's thread about every tenth of a second while it waits, with the servers
            that do not answer.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        context: RunContext | None = None,
        registry: Registry | None = None,
        tick: "Callable[[Sequence[Stall]], None] | None" = None,
    ) -> None:
        super().__init__(settings, registry or Registry())
        self._context = context or RunContext()
        self._gateway: Gateway | None = None
        self.loop = BackgroundEventLoop(threads=settings.threads, tick=tick and (lambda: tick(self._waits())))
        self.models = Models(settings, lambda: self.gateway, workers=self._context.workers)
        self._own_models: list[tuple[object, Models]] = []
        self.sources = Sources(self.registry.formats)
        self.pipelines = Pipelines(
            settings, self.registry, self.loop, lambda: self._cached_replies, self.spool
        )
        if settings.cassette or settings.prices:
            # A file that cannot be used is an error, whether models are asked or not.
            _ = self.gateway
        self._encoder: CachedEncoder | None = None
        # Errors that the application received in place of replies.
        self._unanswered: list[RagevalError] = []
        self._outcomes: dict[tuple[Pipeline, str, ResolvedScore], list[Outcome]] = {}
        self._parts: dict[int, tuple[EvalSet, EvalSet]] = {}

    @property
    def gateway(self) -> "Gateway":
        """The way to models, made at its first use: ranking measures need none of its imports."""
        if self._gateway is None:
            self._gateway = self._made_gateway()
        return self._gateway

    @cached_property
    def llm(self) -> "LLM":
        """The configured model, for the user's own code."""
        return self.llm_of(self.models)

    def backend(self, client: object = None) -> "Backend":
        """The backend for model calls of the application under test: the user's client, or the options' server.

        Raises:
            CallableError: it cannot be a client.
        """
        from pytest_rageval.serving.application import Backend  # noqa: PLC0415 - see gateway

        settings = self.settings
        names = {settings.generator.model, *settings.judge_models} - {None, EMBEDDED}
        server = self.models_of(client).server("generator")
        return Backend(self.gateway, server, self.loop, tuple(filter(None, names)), self._unanswered)

    def models_of(self, client: object) -> Models:
        """The models that the user's client asks; those of the options' servers where it is None.

        Raises:
            CallableError: it cannot be a client.
        """
        if client is None:
            return self.models
        for known, models in self._own_models:
            if known is client:
                return models
        models = Models(self.settings, lambda: self.gateway, workers=self._context.workers, client=client)
        self._own_models.append((client, models))
        return models

    def llm_of(self, models: Models, prompts: "Prompts | None" = None) -> "LLM":
        """The generating model of these, for the user's own code; `prompts` None are the package's own."""
        from pytest_rageval.llm.api import LLM  # noqa: PLC0415 - see gateway

        given = () if prompts is None else (prompts,)
        return LLM(self.gateway, self.loop, models.generating, *given)

    @property
    def encoder(self) -> "CachedEncoder":
        """The packaged encoder, for built-in retrievers; its embeddings are kept in the cache folder."""
        if self._encoder is None:
            # They import numpy, which a run of ranking measures need not load.
            from pytest_rageval.embeddings.encoder import CachedEncoder, shared_encoder  # noqa: PLC0415

            place = self.settings.cache_place
            kept = place if isinstance(place, Path) else self._shared_embeddings(place)
            self._encoder = CachedEncoder(shared_encoder(), kept)
        return self._encoder

    def part_of(self, evalset: EvalSet) -> EvalSet:
        """The examples of the eval set that this run scores.

        Raises:
            InputError: there are none in the sample.
        """
        sample, shard = self.settings.sample, self.settings.shard
        if sample >= 1 and shard is None:
            return evalset
        if id(evalset) not in self._parts:
            # The set is kept, so that no other object gets its id.
            self._parts[id(evalset)] = evalset, part_of(evalset, sample=sample, shard=shard)
        return self._parts[id(evalset)][1]

    @property
    def usage(self) -> Usage:
        """The requests to models so far, with remarks on the user's own functions."""
        asked = Usage() if self._gateway is None else self._gateway.usage
        served = self._gateway is not None and self._gateway.serves_application
        remarks = self.pipelines.remarks(application_asked=served)
        if self._gateway is not None:
            remarks += self.pipelines.circles(self._gateway.served)
        return asked + Usage(remarks=remarks)

    def received(self, components: Components) -> AbstractSet[str]:
        """The parts of an example's context that the retriever receives."""
        taken = self.pipelines.of(components).retriever.takes
        return frozenset(CONTEXT) if "example" in taken else taken

    def fingerprint(self, components: Components, request: ScoreRequest) -> dict[str, Any]:
        """Return all that a score depends on besides the retriever, by name; raise InputError as `score` does."""
        resolved, score = resolve(request, self.registry.scores)
        return score.fingerprint(
            self.pipeline(components, request), resolved, package=version("pytest-rageval")
        )

    def pipeline(self, components: Components, request: ScoreRequest) -> Pipeline:
        """The pipeline that evaluates a score, for its first draw and repeat; InputError as for the score."""
        return self.pipelines.drawing(components, self._drawing(components, request))[0]

    def _drawing(self, components: Components, request: ScoreRequest) -> DrawSettings:
        drawing = self.drawing(request)
        if request.temperature is not None and "generator" in components.own:
            raise InputError(
                f"{request.spec}: temperature={request.temperature:g} is for a model of this package, and "
                "rageval_generator is your own, with a temperature of its own.\nLeave temperature out."
            )
        return drawing

    def prompts(self, components: Components, request: ScoreRequest) -> dict[str, str]:
        """The prompt templates that a score uses, by method; InputError as for the score."""
        resolved, score = resolve(request, self.registry.scores)
        return score.prompts(self.pipelines.of(components), resolved)

    def score(
        self,
        components: Components,
        evalset: EvalSet,
        requests: Sequence[ScoreRequest],
        *,
        beside: Sequence[ScoreRequest] = (),
    ) -> dict[ScoreRequest, Score | RagevalError]:
        """Compute several scores of an eval set at once; return for each the score, or the error that prevented it.

        Scores without a cut-off take the largest one of these scores and of those in `beside`.
        """
        found = self.outcomes(components, evalset, requests, beside=beside)
        return {request: self.score_or_error(request, runs) for request, runs in found.items()}

    def outcomes(
        self,
        components: Components,
        evalset: EvalSet,
        requests: Sequence[ScoreRequest],
        *,
        beside: Sequence[ScoreRequest] = (),
    ) -> dict[ScoreRequest, list[list[Outcome]] | RagevalError]:
        """The outcomes of each score, for the run and its repeats, or the error; arguments as for `score`.

        Retrievals are timed first, while nothing else runs.
        """
        k = _largest_cutoff([*requests, *beside])

        async def evaluated(request: ScoreRequest) -> list[list[Outcome]]:
            return await self._outcomes_of(components, evalset, request, k)

        timed = [request for request in requests if self._is_time(request)]
        others = [request for request in requests if request not in timed]
        found = {**self._each(timed, evaluated), **self._each(others, evaluated)}
        return {request: self._with_blame(request, found) for request in requests}

    def _with_blame(
        self, request: ScoreRequest, found: Mapping[ScoreRequest, list[list[Outcome]] | RagevalError]
    ) -> list[list[Outcome]] | RagevalError:
        """The runs of an answer score, with the cause of each lost question if the same test judged its context."""
        runs = found[request]
        if isinstance(runs, RagevalError) or not self.definition(request).verdicts:
            return runs
        context = found.get(ScoreRequest(f"sufficient@{Spec.parse(request.spec).k}"))
        if not isinstance(context, list):
            return runs
        share = self.settings.match_share
        return [blamed(run, of_run, share) for run, of_run in zip(runs, context, strict=True)]

    def _is_time(self, request: ScoreRequest) -> bool:
        # An unknown name is reported with its own score.
        with suppress(InputError):
            return self.definition(request).is_time
        return False

    def _waits_for_more(self, request: ScoreRequest) -> bool:
        """Return True if a score needs more than rankings: it uses models, is a plugin's, or times retrievals."""
        # An unknown name is reported with its own score.
        with suppress(InputError):
            score = self.definition(request)
            return bool(score.dependencies) or score.is_time or isinstance(score.evaluate, PluginScore)
        return False

    def score_anew(
        self, components: Components, examples: Sequence[Example], request: ScoreRequest
    ) -> list[Outcome]:
        """The outcomes of these examples with new replies of generator and judge, not from the cache."""
        resolved, score = resolve(request, self.registry.scores)
        pipeline = self.pipelines.anew(self.pipeline(components, request), self._context.run)

        async def evaluated() -> list[Outcome]:
            return await score.evaluate(pipeline, examples, resolved)

        outcomes = self.loop.run(evaluated())
        self.check_answered()
        return outcomes

    def check_answered(self) -> None:
        """Raise the first error that the gateway returned to the application instead of a model's reply.

        The application may have continued without the reply, and its result is used by all scores.
        """
        if self._unanswered:
            raise self._unanswered[0].with_traceback(None)

    @property
    def served(self) -> Mapping[str, Collection[str]]:
        """The names that servers reported for each model, in the replies of this process so far.

        If generator and judge use the same name at two servers, the base URL follows the name.
        """
        found = {} if self._gateway is None else self._gateway.served
        generator, judge = self.settings.generator, self.settings.judge
        elsewhere = judge.server.base_url != generator.server.base_url
        shared = generator.model if elsewhere and generator.model in self.settings.judge_models else None
        names: defaultdict[str, set[str]] = defaultdict(set)
        for (model, base_url), served in found.items():
            names[f"{model} at {base_url}" if model == shared else model] |= served
        return names

    def plan(
        self, components: Components, evalset: EvalSet, requests: Sequence[ScoreRequest]
    ) -> list[RagevalError]:
        """Count the requests of the scores in the gateway's usage; return the errors that prevented it."""
        k = _largest_cutoff(requests)

        async def counted(request: ScoreRequest) -> None:
            await self._outcomes_of(components, evalset, request, k)

        return [error for error in self._each(requests, counted).values() if error is not None]

    @cached_property
    def battles(self) -> "Battles":
        """The arena battles between the systems of this process."""
        found: Battles = battles(self.settings.arena_pairs, self.loop.run)
        return found

    def calibrate(
        self, components: Components, labels: "HumanLabels", comparator: str | None = None
    ) -> "Calibration":
        """Ask the judge for the labels that people gave; a plan only counts the requests.

        Raises:
            RagevalError: the comparator is unknown, or the judge has no verdict on too many of the items.
        """
        from pytest_rageval.calibration import Calibration  # noqa: PLC0415 - few runs calibrate
        from pytest_rageval.evaluations.calibration import judge_labels, verdict_as_scored  # noqa: PLC0415

        verdict = verdict_as_scored(self.pipelines.of(components), comparator)
        outcomes = self.loop.run(judge_labels(labels, verdict))
        check_failures(outcomes, self.settings.max_unscored)
        if not self.settings.plan:
            # Raises where too many are unscored.
            Score(f"judge against {labels.name}", outcomes, max_unscored=self.settings.max_unscored)
        return Calibration(labels, outcomes, comparator)

    def retrieve(self, components: Components, query: Query, k: int) -> Ranking:
        """The retriever's ranking for one query."""
        ranking = self.pipelines.of(components).ranking(_asked("query", query), _cutoff(k))
        return self.loop.run(ranking, inline=True)

    def answer(self, components: Components, query: Query, k: int) -> str:
        """The generator's answer from the first k retrieved documents."""
        [pipeline, *_] = self.pipelines.drawing(components, DrawSettings(self.settings.temperature))
        return self.loop.run(pipeline.answer(_asked("question", query), _cutoff(k)))

    def close(self) -> str | None:
        """Close connections, processes and files; return the user's code where that blocked it for too long."""
        if self.loop.forked:
            # They belong to the parent process.
            return None
        for models in (self.models, *(own for _, own in self._own_models)):
            models.close()
        if self._encoder is not None:
            self._encoder.close()
        return self.loop.close(None if self._gateway is None else self._gateway.close)

    def _shared_embeddings(self, place: StoreURL) -> "SharedEmbeddings":
        from pytest_rageval.llm.stores.factory import open_store  # noqa: PLC0415 - see gateway
        from pytest_rageval.session.shared_embeddings import SharedEmbeddings  # noqa: PLC0415 - as in `encoder`

        stores = self.registry.stores
        return SharedEmbeddings(partial(open_store, place, namespace="embeddings", stores=stores))

    def _made_gateway(self) -> "Gateway":
        from pytest_rageval.llm.budget import Limits  # noqa: PLC0415 - see gateway
        from pytest_rageval.llm.gateway import Gateway, GatewaySettings  # noqa: PLC0415
        from pytest_rageval.llm.stores.factory import store_opener  # noqa: PLC0415

        settings = self.settings
        servers = settings.generator.server, settings.judge.server
        addresses = frozenset(server.base_url.public for server in servers if server.base_url)
        access = GatewaySettings(
            cache_dir=settings.cache_dir,
            cassette=settings.cassette,
            mode="plan" if settings.plan else "replay" if settings.replay else "live",
            store=store_opener(settings.cache_place, settings.cache_dir, self.registry.stores),
            run=settings.run or self._context.run,
            refresh=settings.refresh,
            record=settings.record,
            prompts=settings.record_prompts,
            pace=self.models.pace(settings),
            limits=Limits(settings.max_calls, settings.max_cost),
            servers=addresses if len(addresses) > 1 else frozenset(),
            longest_call_s=max(server.timeout for server in servers),
            prices=settings.prices,
            tiers=settings.tiers,
            batch="collect" if settings.collects else "use" if settings.batch else "",
            batch_errors=settings.batch_errors,
        )
        return Gateway(access, lambda: self.loop.runs)

    @property
    def _cached_replies(self) -> int:
        return 0 if self._gateway is None else self._gateway.usage.cached

    def _waits(self) -> "Sequence[Stall]":
        return () if self._gateway is None else self._gateway.waits()

    def _each(
        self, requests: Sequence[ScoreRequest], work: Callable[[ScoreRequest], Awaitable[T]]
    ) -> dict[ScoreRequest, T | RagevalError]:
        """The result of the work, or its error, for each request; all run at once.

        Raises:
            ReplyPending: one of them waits for a reply, and all have asked what they can.
        """
        pending: list[ReplyPending] = []

        async def one(request: ScoreRequest) -> T | RagevalError:
            try:
                return await work(request)
            except RagevalError as error:
                return error
            except ReplyPending as error:
                pending.append(error)
                return RagevalError("it waits for a reply")

        async def every() -> list[T | RagevalError]:
            found = await gather_results(map(one, requests))
            for each in (*pending, *found):
                if isinstance(each, BaseException) and not isinstance(each, RagevalError):
                    raise each
            return cast("list[T | RagevalError]", found)

        found = (
            self.loop.run(every(), inline=not any(map(self._waits_for_more, requests))) if requests else []
        )
        return dict(zip(requests, found, strict=True))

    async def _outcomes_of(
        self, components: Components, evalset: EvalSet, request: ScoreRequest, k: int
    ) -> list[list[Outcome]]:
        """The outcomes in the first pipeline and, where the score asks models, in its draws and repeats."""
        pipelines = self.pipelines.drawing(components, self._drawing(components, request))
        resolved, score = resolve(request, self.registry.scores, k=k)
        asked = pipelines if score.dependencies else pipelines[:1]
        return await gather_all(self._evaluated(each, evalset, resolved, score) for each in asked)

    def _check_joinable(self, evalset: EvalSet, resolved: ResolvedScore, score: ScoreDef) -> None:
        """Refuse a score whose outcomes in a shard may differ from those in the whole set."""
        _, number = self.settings.shard or (1, 1)
        if number > 1 and evalset.part is not None and not (score.separable or score.by_ids):
            raise InputError(
                f"{resolved.spec}: the score of a question may depend on the others, and --rageval-shard leaves most "
                "of them out.\nIf it does not, let its plugin say so by registry.add_score(…, separable=True); else "
                "run its tests with all questions, in a job with --rageval-shard 1/1."
            )

    async def _evaluated(
        self, pipeline: Pipeline, evalset: EvalSet, resolved: ResolvedScore, score: ScoreDef
    ) -> list[Outcome]:
        # Refuse an unknown comparator before anything is asked.
        pipeline.comparison(resolved.comparator)
        pipeline.comparison(resolved.label, "label")
        self._check_joinable(evalset, resolved, score)
        key = (pipeline, evalset.digest, resolved)
        if key not in self._outcomes:
            tries = not (self.settings.plan or self.settings.collects)
            if pipeline.untried and score.dependencies and score.separable and tries:
                # A judge of the user's is called after a model's paid answer: try it before all of these are bought.
                first = await score.evaluate(pipeline, evalset.examples[:FIRST], resolved)
                self.check_answered()
                if len(failed := {each.example.id: each.failed for each in first if each.failed}) == FIRST:
                    rest = f"All of the first {FIRST} of {len(evalset)} examples failed, and the others were not asked."
                    raise error_of_all(failed, rest)
            outcomes = await score.evaluate(pipeline, evalset.examples, resolved) if evalset.examples else []
            if score.judges(pipeline, resolved):
                self.pipelines.note_judged(pipeline)
            self.check_answered()
            if (self.settings.shard or (1, 1))[1] == 1:
                # Of a shard the share that failed says little.
                check_failures(outcomes, self.settings.max_unscored)
            self._outcomes[key] = outcomes
        return self._outcomes[key]


def _largest_cutoff(requests: Sequence[ScoreRequest]) -> int:
    """The largest cut-off among the scores, which those without one take over: they then cost no further call."""
    cutoffs = []
    for request in requests:
        # An unknown name is reported with its own score.
        with suppress(InputError):
            cutoffs.append(Spec.parse(request.spec).k or 0)
    return max(cutoffs, default=0) or CUTOFF


def _asked(name: str, value: object) -> Query:
    if not isinstance(value, str | Example):
        raise InputError(
            f"{name} = {value!r:.60}: it is one text or one example, found {type(value).__name__}."
        )
    return value


def _cutoff(k: object) -> int:
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise InputError(f"k = {k!r}: the number of documents is an integer, at least 1.")
    return k
