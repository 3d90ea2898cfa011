"""The inputs of tests: their markers, their eval sets, and the pipelines that they share."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast
from zlib import crc32

from pytest_rageval.answers.comparators import MEASURES, MeasureSettings
from pytest_rageval.concurrency.event_loop import BackgroundEventLoop
from pytest_rageval.config import Settings
from pytest_rageval.datatypes import EvalSet
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets import Format, LoadOptions, load, load_records
from pytest_rageval.evalsets.loading import find_file
from pytest_rageval.evaluations.pipeline import DEFAULT_DRAWS, DrawSettings, Pipeline
from pytest_rageval.evaluations.registry import PluginComparator, Registry
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.spool import Spool
from pytest_rageval.user_code import PlanStub, UserCallable, is_cached, is_ours

if TYPE_CHECKING:
    from pytest_rageval.answers.judge_protocol import Judge
    from pytest_rageval.evalsets.human_labels import HumanLabels
    from pytest_rageval.generator import Generator
    from pytest_rageval.session.default_components import DefaultGenerator

__all__ = ["Components", "MarkedTest", "Pipelines", "Sources"]

NOT_KEPT: Final = (
    "answers of {}, your own function, are cached within this run only (rageval_llm.cached caches them)"
)
CIRCLE: Final = (
    "the retriever asks {}, which also judges: verdicts on what its own model found may be inflated (arXiv "
    "2412.17156, 2503.19092; --rageval-judge-model names another)"
)
NOT_BEHIND: Final = (
    "answers of {}, your own function: no request came to the gateway, and they are cached within this run only "
    "(has its client a base URL of its own?)"
)


class Marker(Protocol):
    """The arguments of a marker."""

    @property
    def args(self) -> tuple[Any, ...]: ...
    @property
    def kwargs(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class MarkedTest:
    """A test as the session reads it.

    Attributes:
        nodeid: its name, equal in all processes of a run.
        path: its file.
        root: root directory of the run.
        markers: returns its markers of a name, the closest first.
        collected: returns the node ids of all tests of the run.
        record_property: records a number for JUnit reports.
        argument: the argument with which pytest runs it from the folder of this run; default: the node id.
        merge: the command that joined it of shards; empty in a run.
        reference: returns the retriever that others are timed beside.
        siblings: returns the thresholds of the selected tests of its function and eval set, by node id.
    """

    nodeid: str
    path: Path
    root: Path
    markers: Callable[[str], Sequence[Marker]]
    collected: Callable[[], Collection[str]]
    record_property: Callable[[str, float], None]
    argument: str = ""
    merge: str = ""
    reference: Callable[[], object] = lambda: None
    siblings: Callable[[], Mapping[str, Sequence[Marker]]] = dict

    @property
    def bases(self) -> tuple[Path, Path]:
        """The folders in which its relative paths are searched."""
        return self.root, self.path.parent


class Sources:
    """Eval sets, in these formats, and human labels; each file is read once."""

    def __init__(self, formats: Mapping[str, Format]) -> None:
        self._formats = formats
        self._evalsets: dict[tuple[Path, str], EvalSet] = {}
        self._labels: dict[Path, HumanLabels] = {}

    def evalset(
        self, source: object, *, bases: Sequence[Path], keywords: Mapping[str, Any] | None = None
    ) -> EvalSet:
        """The eval set that a marker names: a path, an `EvalSet`, or records.

        Args:
            source: what the marker names.
            bases: folders in which a relative path is searched, in this order.
            keywords: `format`, `sample`, `seed`, `stratify`, and the options of the format.

        Raises:
            InputError: there is no such file, or it cannot be used.
        """
        how = LoadOptions.parse(keywords or {})
        if isinstance(source, EvalSet):
            if keywords:
                raise InputError(
                    f"rageval_evalset has an EvalSet, which is as it is: {', '.join(keywords)} would do nothing."
                )
            return source
        if isinstance(source, str | Path):
            path = find_file("eval set", source, bases=bases)
            key = (path, repr(how))
            if key not in self._evalsets:
                self._evalsets[key] = load(path, how, formats=self._formats)
            return self._evalsets[key]
        records = load_records(source, how)
        if records is None:
            raise InputError(
                f"rageval_evalset needs the path of an eval set, found {type(source).__name__}.\n"
                'Write rageval_evalset("evals/support.jsonl"); or give a list of dicts, a data frame, a Dataset.'
            )
        return records

    def labels(self, source: str | Path, *, bases: Sequence[Path]) -> "HumanLabels":
        """The human labels of a file; `bases` and errors as for `evalset`."""
        from pytest_rageval.evalsets.human_labels import load_labels  # noqa: PLC0415 - few tests have labels

        def is_file(path: Path) -> bool:
            return path.exists() and not path.is_dir()

        path = find_file("labels file", source, bases=bases, accepts=is_file)
        if path not in self._labels:
            self._labels[path] = load_labels(path)
        return self._labels[path]


@dataclass(frozen=True, slots=True)
class Components:
    """The retriever, generator and judge of the user's fixtures.

    Optional: a reference retriever to compare times with, and the executor in which both run.
    """

    retriever: object
    generator: object
    judge: object
    reference: object = None
    executor: object = None

    @property
    def own(self) -> list[str]:
        """The user's own ones of generator and judge, which no setting describes."""
        named = {"generator": self.generator, "judge": self.judge}
        return [name for name, component in named.items() if not is_ours(component)]

    @property
    def undescribed(self) -> bool:
        """True if a generator or judge of the user has no `fingerprint`, so that a change of it is not seen."""
        parts = (self.generator, self.judge)
        return any(
            not is_ours(part) and not isinstance(getattr(part, "fingerprint", None), str) for part in parts
        )


class Pipelines:
    """One pipeline, and its repeats, for all tests with the same components."""

    def __init__(
        self,
        settings: Settings,
        registry: Registry,
        loop: BackgroundEventLoop,
        cached: Callable[[], int],
        spool: Spool,
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._loop = loop
        self._cached = cached
        self._spool = spool
        self._pipelines: dict[tuple[int, ...], tuple[Components, list[Pipeline]]] = {}
        self._drawn: dict[tuple[Pipeline, DrawSettings], list[Pipeline]] = {}
        self._own: list[UserCallable] = []
        self._planned = Counter[str]()
        self._judged: set[Pipeline] = set()

    def of(self, components: Components) -> Pipeline:
        """The pipeline of these components."""
        return self.repeated(components)[0]

    def repeated(self, components: Components) -> list[Pipeline]:
        """The pipeline, then those of the repeats, with new replies of generator and judge."""
        key = tuple(id(getattr(components, each.name)) for each in fields(components))
        if key not in self._pipelines:
            first = self._pipeline(components)
            repeats = [first.again(n) for n in range(1, self._settings.repeat)]
            # The components are kept, so that no other object gets their ids.
            self._pipelines[key] = components, [first, *repeats]
        return self._pipelines[key][1]

    def drawing(self, components: Components, drawing: DrawSettings) -> list[Pipeline]:
        """The pipelines for these draws: for each pipeline of `repeated`, one per drawn answer.

        The user's own generator has a temperature of its own.
        """
        generator: Generator | None = None
        if drawing.temperature is not None and "generator" not in components.own:
            generator = cast("DefaultGenerator", components.generator).at(drawing.temperature)
        else:
            drawing = drawing._replace(temperature=None)
        found: list[Pipeline] = []
        for each in self.repeated(components):
            if drawing == DEFAULT_DRAWS:
                found.append(each)
                continue
            if (each, drawing) not in self._drawn:
                self._drawn[each, drawing] = each.drawn(generator or each.generator, drawing)
            found += self._drawn[each, drawing]
        return found

    def anew(self, pipeline: Pipeline, run: str) -> Pipeline:
        """A pipeline over the same rankings whose requests no other run makes."""
        from pytest_rageval.llm.messages import OF_ONE_RUN  # noqa: PLC0415 - see session

        return pipeline.again(OF_ONE_RUN + crc32(run.encode()))

    @property
    def rankings(self) -> tuple[int, int]:
        """The number of requested rankings, and how many of them are complete."""
        firsts = [pipelines[0] for _, pipelines in list(self._pipelines.values())]
        return sum(each.rankings for each in firsts), sum(each.ranked for each in firsts)

    @property
    def share_begun(self) -> float:
        """The share of the examples of model-based scores that were begun: the others ask later."""
        runs = [run for _, pipelines in list(self._pipelines.values()) for run in pipelines]
        begun, waiting = sum(run.begun for run in runs), sum(run.waiting for run in runs)
        return begun / (begun + waiting) if begun else 1.0

    def note_judged(self, pipeline: Pipeline) -> None:
        """Note that a score of this pipeline asks the judge."""
        self._judged.add(pipeline)

    def circles(self, served: Mapping[tuple[str, str], Collection[str]]) -> Counter[str]:
        """Remarks on retrievers that use the judge's model, with the number of these requests.

        Two names mean one model if servers reported the same name for both: `served` has these by model and address.
        """

        def names(models: Iterable[str]) -> set[str]:
            known = set(models)
            return known.union(*(found for (model, _), found in list(served.items()) if model in known))

        found: Counter[str] = Counter()
        for pipeline in list(self._judged):
            if asked := getattr(pipeline.retriever, "asked", None):
                judging = names(pipeline.judge.model_names)
                for model, count in list(asked.items()):
                    if not judging.isdisjoint(names([model])):
                        found[CIRCLE.format(model)] += count
        return found

    def remarks(self, *, application_asked: bool) -> Counter[str]:
        """Remarks on the user's own functions, with the number of their calls."""
        # Behind the gateway the replies that an answer is made of are kept.
        uncached = () if self._settings.gateway and application_asked else self._own
        remark = NOT_BEHIND if self._settings.gateway else NOT_KEPT
        own = (each for each in uncached if each.calls and not is_cached(each.function))
        return self._planned + Counter({remark.format(each.name): each.calls for each in own})

    def _pipeline(self, components: Components) -> Pipeline:
        settings, registry, reference = self._settings, self._registry, components.reference
        adapted = partial(
            adapt_retriever, loop=self._loop, adapters=registry.adapters, executor=components.executor
        )
        measured_by = MeasureSettings(settings.encoder, settings.bleu_smoothing)
        return Pipeline(
            adapted(components.retriever),
            self._generator(components.generator),
            self._judge(components.judge),
            comparator=settings.comparator,
            measures=measured_by.of(registry.measures),
            measured_by=measured_by,
            comparators={
                name: PluginComparator(name, each, self._loop) for name, each in registry.comparators.items()
            },
            seed=settings.seed,
            match_share=settings.match_share,
            both_orders=settings.both_orders,
            untried=bool(
                "judge" in components.own
                or registry.comparators
                or registry.measures.keys() - MEASURES.keys()
            ),
            reference=None if reference is None else adapted(reference, name="rageval_reference_retriever"),
            cached=self._cached,
            spool=self._spool,
        )

    def _generator(self, generator: object) -> "Generator":
        if is_ours(generator):
            return cast("Generator", generator)
        from pytest_rageval.generator import adapt_generator  # noqa: PLC0415 - most runs have no own generator

        return cast("Generator", self._adapted("rageval_generator", generator, adapt_generator))

    def _judge(self, judge: object) -> "Judge":
        if is_ours(judge):
            return cast("Judge", judge)
        from pytest_rageval.answers.user_judge import adapt_judge  # noqa: PLC0415 - and no own judge

        return cast("Judge", self._adapted("rageval_judge", judge, adapt_judge))

    def _adapted(
        self, name: str, component: object, adapt: Callable[[object, BackgroundEventLoop], Any]
    ) -> object:
        """The user's own component; in a plan a stub that counts its calls, since what these ask is unknown."""
        adapted = adapt(component, self._loop)
        if not self._settings.plan:
            self._own.append(adapted.user)
        elif not is_cached(component):

            def count(remark: str) -> None:
                self._planned[remark] += 1

            return adapt(PlanStub(name, component, count), self._loop)
        return adapted
