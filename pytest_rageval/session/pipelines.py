"""What tests are evaluated on: their markers, their eval sets, and the pipelines that they share."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pytest_rageval.answers.user_judge import UserJudge, adapt_judge
from pytest_rageval.config import Settings
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets import Format, LoadOptions, load, load_records
from pytest_rageval.evalsets.human_labels import HumanLabels, load_labels
from pytest_rageval.evalsets.loading import find
from pytest_rageval.evaluations.context import Pipeline
from pytest_rageval.evaluations.plugin_objects import plugin_comparators
from pytest_rageval.evaluations.registry import Registry
from pytest_rageval.event_loop import PrivateLoop
from pytest_rageval.generator import CallableGenerator, adapt_generator
from pytest_rageval.llm.cached_functions import is_cached
from pytest_rageval.llm.usage import Usage
from pytest_rageval.model import EvalSet
from pytest_rageval.retrievers import adapt_retriever
from pytest_rageval.user_code import PlanStub, UserCallable, is_ours

__all__ = ["Components", "MarkedTest", "Pipelines", "Sources"]


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
    """

    nodeid: str
    path: Path
    root: Path
    markers: Callable[[str], Sequence[Marker]]
    collected: Callable[[], Collection[str]]
    record_property: Callable[[str, float], None]
    argument: str = ""

    @property
    def bases(self) -> tuple[Path, Path]:
        """The folders in which its relative paths are searched."""
        return self.root, self.path.parent


class Sources:
    """Eval sets and human labels, each file read once.

    Args:
        formats: of eval sets, by name.
    """

    def __init__(self, formats: Mapping[str, Format]) -> None:
        self._formats = formats
        self._evalsets: dict[tuple[Path, str], EvalSet] = {}
        self._labels: dict[Path, HumanLabels] = {}

    def evalset(
        self, source: object, *, bases: Sequence[Path], words: Mapping[str, Any] | None = None
    ) -> EvalSet:
        """The eval set that a marker names: a path, an `EvalSet`, or records.

        Args:
            source: what the marker names.
            bases: folders in which a relative path is searched, in this order.
            words: `format`, `sample`, `seed`, `stratify`, and the options of the format.

        Raises:
            InputError: there is no such file, or it cannot be used.
        """
        how = LoadOptions.parse(words or {})
        if isinstance(source, EvalSet):
            if words:
                message = (
                    f"rageval_evalset has an EvalSet, which is as it is: {', '.join(words)} would do nothing."
                )
                raise InputError(message)
            return source
        if isinstance(source, str | Path):
            return self._read(find("eval set", source, bases=bases), how)
        records = load_records(source, how)
        if records is None:
            message = (
                f"rageval_evalset wants the path of an eval set, found {type(source).__name__}.\n"
                'Write rageval_evalset("evals/support.jsonl"); or give a list of dicts, a data frame, a Dataset.'
            )
            raise InputError(message)
        return records

    def labels(self, source: str | Path, *, bases: Sequence[Path]) -> HumanLabels:
        """The human labels of a file; `bases` as for `evalset`.

        Raises:
            InputError: there is no such file, or it cannot be used.
        """
        path = find(
            "labels file", source, bases=bases, accepts=lambda path: path.exists() and not path.is_dir()
        )
        if path not in self._labels:
            self._labels[path] = load_labels(path)
        return self._labels[path]

    def _read(self, path: Path, how: LoadOptions) -> EvalSet:
        key = (path, repr(how))
        if key not in self._evalsets:
            self._evalsets[key] = load(path, how, formats=self._formats)
        return self._evalsets[key]


@dataclass(frozen=True, slots=True)
class Components:
    """The retriever, generator and judge of the user's fixtures."""

    retriever: object
    generator: object
    judge: object

    @property
    def own(self) -> list[str]:
        """Which of generator and judge is the user's own, so that no setting describes it."""
        named = {"generator": self.generator, "judge": self.judge}
        return [name for name, component in named.items() if not is_ours(component)]


class Pipelines:
    """One pipeline, and its repeats, for all tests with the same components.

    Args:
        settings: of the run.
        registry: of comparators, answer measures and retriever adapters.
        loop: that async code of the user runs in.
        usage: in which a plan counts the calls of the user's own functions.
    """

    def __init__(self, settings: Settings, registry: Registry, loop: PrivateLoop, usage: Usage) -> None:
        self._settings = settings
        self._registry = registry
        self._loop = loop
        self._usage = usage
        self._comparators = plugin_comparators(registry.comparators, loop)
        self._pipelines: dict[tuple[int, int, int], tuple[Components, list[Pipeline]]] = {}
        self._own: list[UserCallable] = []

    def of(self, components: Components) -> Pipeline:
        """The pipeline of these components."""
        return self.repeated(components)[0]

    def repeated(self, components: Components) -> list[Pipeline]:
        """The pipeline, then those that ask generator and judge again."""
        key = (id(components.retriever), id(components.generator), id(components.judge))
        if key not in self._pipelines:
            first = self._for_plan(components) if self._settings.plan else self._for_run(components)
            repeats = [first.again(n) for n in range(1, self._settings.repeat)]
            # The components are kept, so that no other object gets their ids.
            self._pipelines[key] = components, [first, *repeats]
        return self._pipelines[key][1]

    @property
    def remarks(self) -> Counter[str]:
        """Remarks on the user's own functions, with the number of their calls."""
        return Counter(
            {
                f"answers of {own.name}, your own function, are kept within this run only "
                "(rageval_llm.cached keeps them)": own.calls
                for own in self._own
                if own.calls and not is_cached(own.function)
            }
        )

    def _for_run(self, components: Components) -> Pipeline:
        pipeline = self._pipeline(components)
        adapted = ((components.generator, pipeline.generator), (components.judge, pipeline.judge))
        for source, component in adapted:
            if isinstance(component, CallableGenerator | UserJudge) and component is not source:
                self._own.append(component.user)
        return pipeline

    def _for_plan(self, components: Components) -> Pipeline:
        """A pipeline in which stubs count the calls of the user's own functions: what these ask is unknown."""
        # A component that a run refuses is refused here too.
        adapt_generator(components.generator, self._loop)
        adapt_judge(components.judge, self._loop)
        return self._pipeline(
            Components(
                components.retriever,
                self._stub("rageval_generator", components.generator),
                self._stub("rageval_judge", components.judge),
            )
        )

    def _stub(self, name: str, component: object) -> object:
        if is_ours(component) or is_cached(component):
            return component

        def count(remark: str) -> None:
            self._usage.remarks[remark] += 1

        return PlanStub(name, component, count)

    def _pipeline(self, components: Components) -> Pipeline:
        settings = self._settings
        generator = adapt_generator(components.generator, self._loop)
        judge = adapt_judge(components.judge, self._loop)
        return Pipeline(
            adapt_retriever(components.retriever, self._loop, self._registry.adapters),
            generator,
            judge,
            comparator=settings.comparator,
            measures=self._registry.measures,
            comparators=self._comparators,
            seed=settings.seed,
            match_share=settings.match_share,
            both_orders=settings.both_orders,
        )
