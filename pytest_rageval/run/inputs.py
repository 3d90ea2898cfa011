"""The inputs of tests: the user's components, and the pipelines that tests share."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, cast

from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.user_code import GIVEN_BY, UserCallable, is_cached
from pytest_rageval.core.errors import InputError
from pytest_rageval.core.spec import ScoreRequest
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.retrievers import FIXTURE, REFERENCE_FIXTURE, Retriever, adapt_retriever
from pytest_rageval.run.base import BaseSession
from pytest_rageval.scores.pipeline import DEFAULT_DRAWS, DrawSettings, Pipeline

if TYPE_CHECKING:
    from pytest_rageval.models import DefaultGenerator
    from pytest_rageval.models.generator import Generator

# Most runs use the default generator and judge, and few plugins add a comparator.
adapt_generator: Final = Lazy("models.generator", "adapt_generator")
adapt_judge: Final = Lazy("answers.judge.user_judge", "adapt_judge")
PluginComparator: Final = Lazy("scores.plugin_objects", "PluginComparator")

UNCACHED_FUNCTION: Final = (
    "answers of {}, your own function, are cached within this run only (rageval_llm.cached caches them)"
)
"""A remark on a function of the user, named by `{}`."""

CIRCULAR_JUDGE: Final = (
    "the retriever calls {}, which also judges: verdicts on what its own model found may be inflated (arXiv "
    "2412.17156, 2503.19092; --rageval-judge-model names another)"
)
"""A remark on a retriever that uses the judge's model, named by `{}`."""


@dataclass(frozen=True, slots=True)
class Components:
    """The values of the user's fixtures, and in `added` those of the fixtures that extensions declare.

    `configuration` differs between tests whose other fixtures may configure the same components differently.
    """

    retriever: object
    generator: object
    judge: object
    reference: object = None
    added: Mapping[str, object] = field(default_factory=dict)
    configuration: Hashable = ()

    @property
    def user_defined(self) -> list[str]:
        """Those of "generator" and "judge" that are the user's own, which the settings do not describe."""
        components = {"generator": self.generator, "judge": self.judge}
        return [name for name, component in components.items() if not _is_built_in(component)]

    @property
    def lacks_fingerprint(self) -> bool:
        """True if a generator or judge of the user has no `fingerprint`, so that its changes cannot be detected."""
        return any(
            not _is_built_in(component) and not isinstance(getattr(component, "fingerprint", None), str)
            for component in (self.generator, self.judge)
        )


class Pipelines:
    """A cache of pipelines: tests with the same components and configuration share one pipeline and its repeats."""

    def __init__(self, session: BaseSession, loop: BackgroundEventLoop, cached: Callable[[], int]) -> None:
        self._session = session
        self._settings = session.settings
        self._registry = session.registry
        self._loop = loop
        self._cached = cached
        self._pipelines: dict[tuple[Hashable, ...], tuple[Components, list[Pipeline]]] = {}
        self._drawn: dict[tuple[Pipeline, DrawSettings], list[Pipeline]] = {}
        self._user_functions: list[UserCallable] = []
        self._remarks = Counter[str]()  # of what is called in place of the user's functions
        self.judged: set[Pipeline] = set()  # those with a score that asks the judge

    def get(self, components: Components) -> Pipeline:
        return self.with_repeats(components)[0]

    def with_repeats(self, components: Components) -> list[Pipeline]:
        *parts, added, configuration = (getattr(components, each.name) for each in fields(components))
        key = (configuration, *map(id, (*parts, *added.values())))
        if key not in self._pipelines:
            first = self._build(components)
            repeats = [first.repetition(n) for n in range(1, self._session.runs)]
            # A reference to the components prevents that other objects get their ids.
            self._pipelines[key] = components, [first, *repeats]
        return self._pipelines[key][1]

    def of_score(self, components: Components, request: ScoreRequest) -> list[Pipeline]:
        """Return the pipelines of a score, one for each repeat and drawn answer."""
        if request.temperature is not None and "generator" in components.user_defined:
            raise InputError(
                f"{request.spec}: temperature={request.temperature:g} is for a model of this package, and "
                "rageval_generator is your own, with a temperature of its own.\nLeave temperature out."
            )
        return self.for_draws(components, self._session.draw_settings(request))

    def for_draws(self, components: Components, draws: DrawSettings) -> list[Pipeline]:
        """Return one pipeline per repeat and drawn answer.

        The temperature applies to the default generator only: the user's own generator has its own temperature.
        """
        generator: Generator | None = None
        if draws.temperature is not None and "generator" not in components.user_defined:
            generator = cast("DefaultGenerator", components.generator).with_temperature(draws.temperature)
        else:
            draws = draws._replace(temperature=None)
        pipelines: list[Pipeline] = []
        for pipeline in self.with_repeats(components):
            if draws == DEFAULT_DRAWS:
                pipelines.append(pipeline)
                continue
            if (pipeline, draws) not in self._drawn:
                self._drawn[pipeline, draws] = pipeline.draw_pipelines(generator or pipeline.generator, draws)
            pipelines += self._drawn[pipeline, draws]
        return pipelines

    @property
    def rankings(self) -> tuple[int, int]:
        # Repeats share the rankings of the first pipeline.
        firsts = [pipelines[0] for _, pipelines in list(self._pipelines.values())]
        return sum(first.rankings.total for first in firsts), sum(first.rankings.finished for first in firsts)

    @property
    def share_begun(self) -> float:
        """The share of the examples of model-based scores that have sent requests; 1 if there are none."""
        all_pipelines = [
            pipeline for _, pipelines in list(self._pipelines.values()) for pipeline in pipelines
        ]
        begun = sum(pipeline.started_examples for pipeline in all_pipelines)
        waiting = sum(pipeline.waiting_examples for pipeline in all_pipelines)
        return begun / (begun + waiting) if begun else 1.0

    def circular_judge_remarks(self, served: Mapping[tuple[str, str], Collection[str]]) -> Counter[str]:
        """Return remarks on retrievers that use the judge's model, with the number of their requests to it.

        Two models are the same if a server reported the same name for both.
        """

        def with_served_names(models: Iterable[str]) -> set[str]:
            names = set(models)
            return names.union(*(reported for (model, _), reported in list(served.items()) if model in names))

        remarks: Counter[str] = Counter()
        # Repeats share the retriever of the first pipeline.
        for pipeline in {id(each.rankings): each for each in list(self.judged)}.values():
            if completion_counts := getattr(pipeline.retriever, "completion_counts", None):
                judge_names = with_served_names(pipeline.judge.model_names)
                for model, count in list(completion_counts.items()):
                    if not judge_names.isdisjoint(with_served_names([model])):
                        remarks[CIRCULAR_JUDGE.format(model)] += count
        return remarks

    def user_function_remarks(self, *, application_sent_requests: bool) -> Counter[str]:
        """Return remarks on the user's functions whose results are not cached, with the number of their calls.

        There are none if the application has used the gateway: it caches the replies that the results depend on.
        """
        uncached = (
            function
            for function in (() if application_sent_requests else self._user_functions)
            if function.calls and not is_cached(function.function)
        )
        calls = Counter({UNCACHED_FUNCTION.format(function.name): function.calls for function in uncached})
        return self._remarks + calls

    def _build(self, components: Components) -> Pipeline:
        settings, registry, reference = self._settings, self._registry, components.reference
        return Pipeline(
            self._adapt_retriever(components, components.retriever),
            self._adapt("rageval_generator", components.generator, adapt_generator),
            self._adapt("rageval_judge", components.judge, adapt_judge),
            comparator=settings.comparator,
            added_measures=registry.measures,
            settings=settings,
            comparators={
                name: PluginComparator(name, comparator, self._loop)
                for name, comparator in registry.comparators.items()
            },
            seed=settings.seed,
            match_share=settings.match_share,
            document_id=settings.document_id or "",
            both_orders=settings.both_orders,
            grades_together=settings.grades_together and "judge" not in components.user_defined,
            has_custom_judge=bool(
                "judge" in components.user_defined or registry.comparators or registry.measures
            ),
            reference=None
            if reference is None
            else self._adapt_retriever(components, reference, REFERENCE_FIXTURE),
            cached_replies=self._cached,
            spool=self._session.spool,
        )

    def _adapt_retriever(self, components: Components, retriever: object, name: str = FIXTURE) -> Retriever:
        given: dict[str, Any] = {
            "loop": self._loop,
            "adapters": self._registry.adapters,
            # Messages name what the user wrote.
            "name": getattr(retriever, GIVEN_BY, name),
            "id_path": self._settings.document_id or "",
        }
        adapted: Retriever | None = self._registry.hook.pytest_rageval_adapt_retriever(
            retriever=retriever, components=components, **given
        )
        adapted = adapt_retriever(retriever, **given) if adapted is None else adapted
        if name == FIXTURE and isinstance(fingerprint := getattr(retriever, "fingerprint", None), str):
            adapted.settings = {**adapted.settings, "retriever": fingerprint}
        return adapted

    def _adapt(
        self, name: str, component: object, adapt: Callable[[object, BackgroundEventLoop], Any]
    ) -> Any:
        if _is_built_in(component):
            return component
        adapted = adapt(component, self._loop)
        stand_in: object | None = self._registry.hook.pytest_rageval_stand_in_for_component(
            name=name, component=component, settings=self._settings, remarks=self._remarks
        )
        if stand_in is not None:
            return adapt(stand_in, self._loop)
        self._user_functions.append(adapted.user)
        return adapted


def _is_built_in(part: object) -> bool:
    """Whether a generator or judge is of this package, so that it sends its requests through the session's gateway."""
    return type(part).__module__.partition(".")[0] == __name__.partition(".")[0]
