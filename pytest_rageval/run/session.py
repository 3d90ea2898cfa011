"""`Session`: the resources that the tests of one process share. `Evaluator`: computes scores with them."""

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, cast

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.gathering import gather_all, gather_results
from pytest_rageval.calls.user_code import MAX_FAILURES
from pytest_rageval.core.errors import InputError, NoGroundTruth, RagevalError, Unscored
from pytest_rageval.core.evalset import EvalSet, Example
from pytest_rageval.core.outcome import Outcome, Score, too_many_unscored
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.core.spec import ScoreRequest, Spec
from pytest_rageval.evalsets.loading import Sources
from pytest_rageval.lib.foreign_values import plain_number
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import counted
from pytest_rageval.models import ConfiguredModels
from pytest_rageval.models.usage import Usage
from pytest_rageval.options.settings import Settings
from pytest_rageval.run.base import BaseSession
from pytest_rageval.run.inputs import Components, Pipelines
from pytest_rageval.run.registry import DEFAULT_CUTOFF, Registry
from pytest_rageval.scores.definition import (
    GOLD,
    GOLD_TEXTS,
    ScoreDef,
    check_failures,
    check_ids,
    combine_errors,
)
from pytest_rageval.scores.pipeline import (
    Dependencies,
    DrawSettings,
    Pipeline,
    ResolvedScore,
    retrieved_gold_texts,
)
from pytest_rageval.scores.rankings import Query

if TYPE_CHECKING:
    from pytest_rageval.models.api import LLM
    from pytest_rageval.models.gateway import Gateway
    from pytest_rageval.models.prompt_rendering import Prompts
    from pytest_rageval.models.rate_limits import Stall

CORPUS_REMEDY: Final = (
    'Name the corpus that has them: rageval_evalset("…", corpus="docs/corpus.jsonl"); or write the texts into the '
    "records of the eval set."
)

blame_outcomes: Lazy = Lazy("scores.sufficiency", "blame_outcomes")


class Evaluator:
    """Evaluates scores on eval sets, with the pipelines of a session.

    `unanswered` has the errors that the proxy returned to the application under test instead of replies, where it is
    not known which question it answered: else they end the call of that question.
    """

    def __init__(self, session: BaseSession, loop: BackgroundEventLoop, pipelines: Pipelines) -> None:
        self._session = session
        self._settings = session.settings
        self._loop = loop
        self._pipelines = pipelines
        self.unanswered: list[RagevalError] = []
        self._outcomes: dict[tuple[Pipeline, str, ResolvedScore], list[Outcome]] = {}

    def score(
        self, components: Components, evalset: EvalSet, requests: Sequence[ScoreRequest]
    ) -> dict[ScoreRequest, Score | RagevalError]:
        outcomes = self.outcomes(components, evalset, requests)
        return {request: self._session.score_or_error(request, runs) for request, runs in outcomes.items()}

    def outcomes(
        self,
        components: Components,
        evalset: EvalSet,
        requests: Sequence[ScoreRequest],
        *,
        all_requests: Sequence[ScoreRequest] = (),
    ) -> dict[ScoreRequest, list[list[Outcome]] | RagevalError]:
        """Return the outcomes of each score, of the run and of each repeat, or the error that prevented them.

        Scores of retrieval times are evaluated first, while nothing else runs. A score without a cut-off is evaluated
        at the largest cut-off of `requests` and of all scores of the test.
        """
        k = _largest_cutoff([*requests, *all_requests])
        timed = [request for request in requests if self._is_time(request)]
        others = [request for request in requests if request not in timed]
        outcomes = {
            **self._outcomes_at_once(components, evalset, timed, k),
            **self._outcomes_at_once(components, evalset, others, k),
        }
        return {request: self._with_blame(request, outcomes) for request in requests}

    def _with_blame(
        self, request: ScoreRequest, outcomes: Mapping[ScoreRequest, list[list[Outcome]] | RagevalError]
    ) -> list[list[Outcome]] | RagevalError:
        """Return the runs; those of an answer score with causes of losses, if `sufficient` has the same cut-off."""
        runs = outcomes[request]
        if isinstance(runs, RagevalError) or not self._session.definition(request).has_answer_verdicts:
            return runs
        sufficiency_runs = outcomes.get(ScoreRequest(f"sufficient@{Spec.parse(request.spec).k}"))
        if not isinstance(sufficiency_runs, list):
            return runs
        share = self._settings.match_share
        return [
            blame_outcomes(answers, sufficiency, share)
            for answers, sufficiency in zip(runs, sufficiency_runs, strict=True)
        ]

    def definition_or_none(self, request: ScoreRequest) -> ScoreDef | None:
        """Return the definition of a score; None if it is unknown, which is an error when the score is evaluated."""
        with suppress(InputError):
            return self._session.definition(request)
        return None

    def _is_time(self, request: ScoreRequest) -> bool:
        score = self.definition_or_none(request)
        return score is not None and score.is_time

    def _needs_event_loop(self, components: Components, request: ScoreRequest) -> bool:
        """Return True if a score times retrievals, is a plugin's, or asks the user's own generator or judge.

        A score that asks models begins without the loop, and continues in it with the first reply that is not cached;
        unless the application, whose requests are answered in the loop, may use the cache at the same time.
        """
        score = self.definition_or_none(request)
        if score is None:
            return False
        asks_user = score.asks and (
            components.user_defined or "answers applications" in self._settings.effects
        )
        return bool(asks_user) or score.is_time or score.family is None

    def check_answered(self) -> None:
        """Raise the errors that the proxy returned to the application instead of a model's reply.

        The application may have continued without the reply, and its result is used by all scores.
        """
        if self.unanswered:
            raise combine_errors(
                {f"number {number}": error for number, error in enumerate(self.unanswered, 1)}, what="call"
            )

    def _outcomes_at_once(
        self, components: Components, evalset: EvalSet, requests: Sequence[ScoreRequest], k: int
    ) -> dict[ScoreRequest, list[list[Outcome]] | RagevalError]:
        """Evaluate all scores concurrently; return their outcomes, or the errors.

        ReplyPending is raised only after all scores have created the requests that they can create.
        """
        if not requests:
            return {}

        async def evaluate_all() -> list[list[list[Outcome]] | RagevalError]:
            works = (self._outcomes_of(components, evalset, request, k) for request in requests)
            results = await gather_results(works)
            for result in results:
                if isinstance(result, BaseException) and not isinstance(result, RagevalError):
                    raise result
            return cast("list[list[list[Outcome]] | RagevalError]", results)

        inline = not any(self._needs_event_loop(components, request) for request in requests)
        return dict(zip(requests, self._loop.run(evaluate_all(), inline=inline), strict=True))

    async def _outcomes_of(
        self, components: Components, evalset: EvalSet, request: ScoreRequest, k: int
    ) -> list[list[Outcome]]:
        """Return the outcomes of the first pipeline; if the score uses models, also of its draws and repeats."""
        pipelines = self._pipelines.of_score(components, request)
        resolved, score = self._session.resolve(request)
        if resolved.spec.k is None:
            resolved = replace(resolved, k=k)
        used = pipelines if score.asks else pipelines[:1]
        return await gather_all(self._evaluate(pipeline, evalset, resolved, score) for pipeline in used)

    @staticmethod
    def _check_separable(evalset: EvalSet, resolved: ResolvedScore, score: ScoreDef) -> None:
        if evalset.is_split and not (score.separable or score.depends_on_ids):
            raise InputError(
                f"{resolved.spec}: the score of a question may depend on the others, and --rageval-shard leaves most "
                "of them out.\nIf it does not, let its plugin say so by registry.add_score(…, separable=True); else "
                "run its tests with all questions, in a job with --rageval-shard 1/1."
            )

    async def check_gold_texts(self, pipeline: Pipeline, evalset: EvalSet, resolved: ResolvedScore) -> None:
        """Find the texts of gold passages; before the first paid call, raise InputError if too many are nowhere."""
        if evalset.is_split and any(map(retrieved_gold_texts, evalset)):
            raise InputError(
                f"{resolved.spec} needs gold passages with text. Those that have only an id have the text of a "
                "document that is retrieved for any question, and --rageval-shard leaves out most questions.\n"
                f"{CORPUS_REMEDY}"
            )
        await pipeline.gold.find_texts(evalset.examples, resolved.k)
        without = []
        for example in evalset:
            if None not in [gold.text for gold in example.relevant]:
                continue
            try:
                await pipeline.gold.get(example, resolved.k)
            except NoGroundTruth as reason:
                without += [(example.id, str(reason))] if example.relevant else []
            except (RagevalError, Unscored):
                continue  # the retriever failed, which is reported when the example is scored
        if not evalset.is_split and too_many_unscored(
            len(without), len(evalset), self._settings.max_unscored
        ):
            name, why = without[0]
            raise InputError(
                f"{resolved.spec} needs gold passages with text, and {len(without)} of "
                f"{counted(len(evalset), 'example')} have none, such as {name}: {why}.\n"
                f"{CORPUS_REMEDY}"
            )

    async def _evaluate(
        self, pipeline: Pipeline, evalset: EvalSet, resolved: ResolvedScore, score: ScoreDef
    ) -> list[Outcome]:
        # An unknown comparator must be an error before any request is sent. The default, "judge", is known.
        for text, keyword in ((resolved.comparator, "comparator"), (resolved.label, "label")):
            if (pipeline.comparator if text is None else text) != "judge":
                pipeline.comparison(text, keyword)
        self._check_separable(evalset, resolved, score)
        score.check_needs(pipeline, evalset.examples, resolved)
        if GOLD_TEXTS in score.needs:
            await self.check_gold_texts(pipeline, evalset, resolved)
        key = (pipeline, evalset.digest, resolved)
        if key not in self._outcomes:
            has_replies = "lacks replies" not in self._settings.effects
            if pipeline.has_custom_judge and score.asks and score.separable and has_replies:
                # The user's judge is called after a paid answer of the model. The first examples show whether the judge
                # works before the answers to all questions are paid for.
                first = await score.evaluate(pipeline, evalset.examples[:MAX_FAILURES], resolved)
                self.check_answered()
                failed = {outcome.example.id: outcome.failed for outcome in first if outcome.failed}
                if len(failed) == MAX_FAILURES:
                    rest = (
                        f"All of the first {MAX_FAILURES} of {len(evalset)} examples failed, "
                        "and the others were not evaluated."
                    )
                    raise combine_errors(failed, rest)
            outcomes = await score.evaluate(pipeline, evalset.examples, resolved) if evalset.examples else []
            if score.uses_judge(pipeline, resolved):
                self._pipelines.judged.add(pipeline)
            self.check_answered()
            if GOLD in score.needs:
                check_ids(pipeline.retriever, outcomes)
            if not evalset.is_split:
                # `rageval merge` checks the share of failures over all shards.
                check_failures(outcomes, self._settings.max_unscored)
            self._outcomes[key] = outcomes
        return self._outcomes[key]


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run that a session belongs to: its name, equal in all of its processes, and their number."""

    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    workers: int = 1


class Session(BaseSession):
    """The resources that the tests of one process share. `evaluator` computes scores with them.

    `tick` is called about every 0.1 s in the test's thread while the test waits for a result, with the servers that do
    not respond.
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
        self.context: RunContext = context or RunContext()
        self._gateway: Gateway | None = None
        self.loop: BackgroundEventLoop = BackgroundEventLoop(
            threads=settings.threads, tick=tick and (lambda: tick(self._stalls()))
        )
        # With the user's clients that the models use; None for the servers of the options.
        self._models: list[tuple[object, ConfiguredModels]] = []
        self.models: ConfiguredModels = self.models_of(None)
        if settings.cassette or settings.prices:
            # The gateway reads these files. An invalid file is an error even if no request is sent.
            _ = self.gateway.cache.cassette.entries
        self.sources: Sources = Sources(self.registry.formats)
        self.pipelines: Pipelines = Pipelines(self, self.loop, lambda: self._cached_replies)
        self.evaluator: Evaluator = Evaluator(self, self.loop, self.pipelines)

    @property
    def gateway(self) -> "Gateway":
        """The gateway for all requests to models, built at its first use: ranking measures do not need its imports."""
        if self._gateway is None:
            self._gateway = self._build_gateway()
        return self._gateway

    @cached_property
    def llm(self) -> "LLM":
        return self.llm_of(self.models)

    def models_of(self, client: object) -> ConfiguredModels:
        """Return the models that use the user's client, or the servers of the options; one object for each client."""
        for known_client, models in self._models:
            if known_client is client:
                return models
        models = ConfiguredModels(
            self.settings,
            lambda: self.gateway,
            workers=self.context.workers,
            client=client,
            providers=self.registry.providers,
        )
        self._models.append((client, models))
        return models

    def llm_of(self, models: ConfiguredModels, prompts: "Prompts | None" = None) -> "LLM":
        from pytest_rageval.models.api import LLM  # noqa: PLC0415 - see gateway

        optional = () if prompts is None else (prompts,)
        return LLM(self.gateway, self.loop, models.generator_model, *optional)

    @property
    def served(self) -> Mapping[str, Collection[str]]:
        """The names that servers reported for each model, in the replies of this process so far.

        If generator and judge use a model of the same name at two servers, the key is "model at address".
        """
        served = {} if self._gateway is None else self._gateway.served
        generator, judge = self.settings.generator, self.settings.judge
        two_servers = judge.server.base_url != generator.server.base_url
        ambiguous = generator.model if two_servers and generator.model in self.settings.judge_models else None
        names_of: defaultdict[str, set[str]] = defaultdict(set)
        for (model, base_url), names in served.items():
            names_of[f"{model} at {base_url}" if model == ambiguous else model] |= names
        return names_of

    def close(self) -> str | None:
        """Close all; return the place in the user's code that blocked the event loop for too long, or None."""
        if self.loop.forked:
            # The resources belong to the parent process.
            return None
        for _, models in self._models:
            models.close()
        for resource in self._resources.values():
            if close := getattr(resource, "close", None):
                close()
        if self._gateway is not None and not self.loop.started:
            # All replies were cached: only the store is open.
            self._gateway.cache.close()
        return self.loop.close(None if self._gateway is None else self._gateway.close)

    def _build_gateway(self) -> "Gateway":
        from pytest_rageval.models.gateway import Gateway, GatewaySettings  # noqa: PLC0415 - see gateway
        from pytest_rageval.models.stores.fallback import store_opener  # noqa: PLC0415

        settings = self.settings
        access = GatewaySettings.of(
            settings,
            run=self.context.run,
            open_store=store_opener(settings.cache_location, settings.cache_dir, self.registry.stores),
            policy=self.models.request_policy(settings),
            make_source=self.hook.pytest_rageval_reply_source(settings=settings),
        )
        return Gateway(access, lambda: self.loop.runs)

    @property
    def _cached_replies(self) -> int:
        return 0 if self._gateway is None else self._gateway.usage.cached

    def _stalls(self) -> "Sequence[Stall]":
        return () if self._gateway is None else self._gateway.source.stalls()

    @property
    def usage(self) -> Usage:
        """The usage of models so far, with remarks on the user's own functions and on a circular judge."""
        usage = Usage() if self._gateway is None else self._gateway.usage
        served = self._gateway is not None and self._gateway.serves_application
        remarks = self.pipelines.user_function_remarks(application_sent_requests=served)
        if self._gateway is not None:
            remarks += self.pipelines.circular_judge_remarks(self._gateway.served)
        return usage + Usage(remarks=remarks)

    @cached_property
    def _package(self) -> str:
        # Searching for it takes a millisecond.
        return version("pytest-rageval")

    def dependencies(self, components: Components, request: ScoreRequest) -> Dependencies:
        resolved, score = self.resolve(request)
        first = self.pipelines.get(components)
        return Dependencies(
            score.fingerprint(self.pipeline(components, request), resolved, package=self._package),
            score.prompts(first, resolved),
            first.comparison(request.comparator).text,
        )

    def pipeline(self, components: Components, request: ScoreRequest) -> Pipeline:
        return self.pipelines.of_score(components, request)[0]

    def retrieve(self, components: Components, query: Query, k: int) -> Ranking:
        ranking = self.pipelines.get(components).ranking(_check_query("query", query), _check_cutoff(k))
        return self.loop.run(ranking, inline=True)

    def answer(self, components: Components, query: Query, k: int) -> str:
        [pipeline, *_] = self.pipelines.for_draws(components, DrawSettings(self.settings.temperature))
        return self.loop.run(pipeline.answer(_check_query("question", query), _check_cutoff(k)))


def _check_query(name: str, value: object) -> Query:
    if not isinstance(value, str | Example):
        raise InputError(
            f"{name} = {value!r:.60}: it is one text or one example, found {type(value).__name__}."
        )
    return value


def _check_cutoff(k: object) -> int:
    number = plain_number(k)
    if type(number) is not int or number < 1:
        raise InputError(f"k = {k!r}: the number of documents is an integer, at least 1.")
    return number


def _largest_cutoff(requests: Sequence[ScoreRequest]) -> int:
    """Return the largest cut-off, which scores without one use, so that they need no further retrieval."""
    cutoffs = []
    for request in requests:
        # The error about an invalid name is raised when its own score is evaluated.
        with suppress(InputError):
            cutoffs.append(Spec.parse(request.spec).k or 0)
    return max(cutoffs, default=0) or DEFAULT_CUTOFF
