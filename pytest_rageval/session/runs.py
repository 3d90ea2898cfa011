"""The user's retriever, generator and judge, and the runs of them that tests share."""

from collections import Counter
from dataclasses import dataclass

from pytest_rageval.answers.own_judge import ObjectJudge, adapt_judge
from pytest_rageval.config import Settings
from pytest_rageval.evaluations.added import added_comparators
from pytest_rageval.evaluations.registry import Registry
from pytest_rageval.evaluations.run import Run
from pytest_rageval.generator import CallableGenerator, adapt_generator
from pytest_rageval.llm.functions import is_cached
from pytest_rageval.llm.usage import Usage
from pytest_rageval.loop import PrivateLoop
from pytest_rageval.retrievers.adapt import adapt_retriever
from pytest_rageval.usercode import Uncalled, UserCallable, is_ours

__all__ = ["Parts", "Runs"]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the user's fixtures gave: a retriever, a generator and a judge."""

    retriever: object
    generator: object
    judge: object

    @property
    def own(self) -> list[str]:
        """Which of the generator and the judge is the user's own, so that no setting says what it is."""
        named = {"generator": self.generator, "judge": self.judge}
        return [name for name, part in named.items() if not is_ours(part)]


class Runs:
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
        self._comparators = added_comparators(registry.comparators, loop)
        self._runs: dict[tuple[int, int, int], tuple[Parts, list[Run]]] = {}
        self._own: list[UserCallable] = []

    def of(self, parts: Parts) -> Run:
        """The run that these parts share with earlier tests that had the same."""
        return self.repeated(parts)[0]

    def repeated(self, parts: Parts) -> list[Run]:
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

    def _real(self, parts: Parts) -> Run:
        run = self._made(parts)
        for source, part in ((parts.generator, run.generator), (parts.judge, run.judge)):
            if isinstance(part, CallableGenerator | ObjectJudge) and part is not source:
                self._own.append(part.user)
        return run

    def _planned(self, parts: Parts) -> Run:
        """One without the user's own functions, since nobody knows what they ask."""
        # What cannot be used in a run is no plan either.
        adapt_generator(parts.generator, self._loop)
        adapt_judge(parts.judge, self._loop)
        return self._made(
            Parts(
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

        return Uncalled(name, part, count)

    def _made(self, parts: Parts) -> Run:
        settings = self._settings
        generator, judge = adapt_generator(parts.generator, self._loop), adapt_judge(parts.judge, self._loop)
        return Run(
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
