"""Eval sets that markers name, and the pipelines of retriever, generator and judge that tests share."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_rageval.answers.user_judge import UserJudge, adapt_judge
from pytest_rageval.config import Settings
from pytest_rageval.errors import InputError
from pytest_rageval.evalsets import Format, How, load, load_records
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
from pytest_rageval.retrievers.retriever import adapt_retriever
from pytest_rageval.user_code import PlanStub, UserCallable, is_ours

__all__ = ["Components", "Pipelines", "Sources"]


class Sources:
    """What tests are scored on, shared by those that name the same file.

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
            source: a relative path is looked for under each of the bases in turn.
            bases: folders.
            words: `format`, `sample`, `seed`, `stratify`, and the options of the format.

        Raises:
            InputError: there is no such file, or it cannot be used.
        """
        how = How.parse(words or {})
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
        """The human labels of a file; a relative path is looked for under each of the bases in turn.

        Raises:
            InputError: there is no such file, or it cannot be used.
        """
        path = find(
            "labels file", source, bases=bases, there=lambda path: path.exists() and not path.is_dir()
        )
        if path not in self._labels:
            self._labels[path] = load_labels(path)
        return self._labels[path]

    def _read(self, path: Path, how: How) -> EvalSet:
        key = (path, repr(how))
        if key not in self._evalsets:
            self._evalsets[key] = load(path, how, formats=self._formats)
        return self._evalsets[key]


@dataclass(frozen=True, slots=True)
class Components:
    """What the user's fixtures gave: a retriever, a generator and a judge."""

    retriever: object
    generator: object
    judge: object

    @property
    def own(self) -> list[str]:
        """Which of the generator and the judge is the user's own, so that no setting says what it is."""
        named = {"generator": self.generator, "judge": self.judge}
        return [name for name, part in named.items() if not is_ours(part)]


class Pipelines:
    """One run for all tests of the same parts, and its repeats.

    Args:
        settings: the options, resolved.
        registry: of comparators, answer measures and retriever adapters.
        loop: of the session.
        usage: where a plan counts the calls of the user's own functions.
    """

    def __init__(self, settings: Settings, registry: Registry, loop: PrivateLoop, usage: Usage) -> None:
        self._settings = settings
        self._registry = registry
        self._loop = loop
        self._usage = usage
        self._comparators = plugin_comparators(registry.comparators, loop)
        self._runs: dict[tuple[int, int, int], tuple[Components, list[Pipeline]]] = {}
        self._own: list[UserCallable] = []

    def of(self, parts: Components) -> Pipeline:
        """The run that these parts share with earlier tests that had the same."""
        return self.repeated(parts)[0]

    def repeated(self, parts: Components) -> list[Pipeline]:
        """That run, and those that ask generator and judge again."""
        key = (id(parts.retriever), id(parts.generator), id(parts.judge))
        if key not in self._runs:
            run = self._planned(parts) if self._settings.plan else self._real(parts)
            again = [run.again(n) for n in range(1, self._settings.repeat)]
            # With the parts, so that their ids are not given to others while this stands.
            self._runs[key] = parts, [run, *again]
        return self._runs[key][1]

    @property
    def remarks(self) -> Counter[str]:
        """What a reader should know of the user's own functions, with how often they were called."""
        return Counter(
            {
                f"answers of {own.name}, your own function, are kept within this run only "
                "(rageval_llm.cached keeps them)": own.calls
                for own in self._own
                if own.calls and not is_cached(own.function)
            }
        )

    def _real(self, parts: Components) -> Pipeline:
        run = self._made(parts)
        for source, part in ((parts.generator, run.generator), (parts.judge, run.judge)):
            if isinstance(part, CallableGenerator | UserJudge) and part is not source:
                self._own.append(part.user)
        return run

    def _planned(self, parts: Components) -> Pipeline:
        """One without the user's own functions, since nobody knows what they ask."""
        # What cannot be used in a run is no plan either.
        adapt_generator(parts.generator, self._loop)
        adapt_judge(parts.judge, self._loop)
        return self._made(
            Components(
                parts.retriever,
                self._stood_in("rageval_generator", parts.generator),
                self._stood_in("rageval_judge", parts.judge),
            )
        )

    def _stood_in(self, name: str, part: object) -> object:
        """The part, or what counts its calls in its place."""
        if is_ours(part) or is_cached(part):
            return part

        def count(remark: str) -> None:
            self._usage.remarks[remark] += 1

        return PlanStub(name, part, count)

    def _made(self, parts: Components) -> Pipeline:
        settings = self._settings
        generator, judge = adapt_generator(parts.generator, self._loop), adapt_judge(parts.judge, self._loop)
        return Pipeline(
            adapt_retriever(parts.retriever, self._loop, self._registry.adapters),
            generator,
            judge,
            comparator=settings.comparator,
            measures=self._registry.measures,
            comparators=self._comparators,
            seed=settings.seed,
            match_share=settings.match_share,
            both_orders=settings.both_orders,
        )
