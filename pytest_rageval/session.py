"""One test run: what was asked for, what came out, and the resources in between."""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_rageval.answers.compare import ObjectJudge, adapt_judge
from pytest_rageval.calibration.findings import Calibration
from pytest_rageval.config import Settings
from pytest_rageval.errors import InputError, RagevalError
from pytest_rageval.evalsets import How, load, load_records
from pytest_rageval.evalsets.human_labels import HumanLabels, find_labels, load_labels
from pytest_rageval.evaluations.added import added_comparators
from pytest_rageval.evaluations.at_once import all_of
from pytest_rageval.evaluations.calibration import judge_labels, verdict_as_scored
from pytest_rageval.evaluations.dependencies import asks, fingerprint
from pytest_rageval.evaluations.failures import check_failures
from pytest_rageval.evaluations.registry import Registry, evaluation_of, scale_of
from pytest_rageval.evaluations.run import Run
from pytest_rageval.evaluations.terms import Terms, Wanted
from pytest_rageval.gate.baseline import Baseline
from pytest_rageval.generator import CallableGenerator, adapt_generator
from pytest_rageval.llm.budget import Limits
from pytest_rageval.llm.complete import LLM
from pytest_rageval.llm.door import Access, Door
from pytest_rageval.llm.functions import is_cached
from pytest_rageval.llm.live import Pace
from pytest_rageval.llm.usage import Usage
from pytest_rageval.loop import PrivateLoop
from pytest_rageval.model import EvalSet, Ranking
from pytest_rageval.models import Models
from pytest_rageval.retrievers.adapt import adapt_retriever
from pytest_rageval.scores import Outcome, Score
from pytest_rageval.stats import UNIT
from pytest_rageval.usercode import Uncalled, UserCallable, is_ours

if TYPE_CHECKING:
    from pytest_rageval.embeddings.cached import CachedEncoder

__all__ = ["Parts", "Session", "Together"]


@dataclass(frozen=True, slots=True)
class Together:
    """What the processes of one run have in common.

    Attributes:
        run: a name of it.
        began: when it began, in seconds since 1970.
        workers: how many processes run tests.
    """

    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    began: float = field(default_factory=time.time)
    workers: int = 1


@dataclass(frozen=True, slots=True)
class Parts:
    """What the user's fixtures gave: a retriever, a generator and a judge."""

    retriever: object
    generator: object
    judge: object


class Session:
    """What the tests of one process share.

    Args:
        settings: the options, resolved.
        together: what it has in common with the other processes of the run; default: it is alone.
        registry: of scores, comparators, answer measures, retriever adapters and formats; default: the built-in.
        tick: called in the test's thread every tenth of a second or so while it waits.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        together: Together | None = None,
        registry: Registry | None = None,
        tick: Callable[[], None] | None = None,
    ) -> None:
        self.settings = settings
        self.registry = registry or Registry()
        self.loop = PrivateLoop(threads=settings.threads, tick=tick)
        self._comparators = added_comparators(self.registry.comparators, self.loop)
        self.door = Door(_access(settings, together or Together()))
        self.models = Models(settings, self.door)
        self._runs: dict[tuple[int, int, int], tuple[Parts, Run]] = {}
        self._evalsets: dict[tuple[Path, str], EvalSet] = {}
        self._labels: dict[Path, HumanLabels] = {}
        self._outcomes: dict[tuple[Run, str, Terms], list[Outcome]] = {}
        self._again: dict[int, list[Run]] = {}
        self._own: list[UserCallable] = []

    @cached_property
    def llm(self) -> LLM:
        """The model in force, for the user's own code."""
        return LLM(self.door, self.loop, self.models.generating)

    @cached_property
    def encoder(self) -> "CachedEncoder":
        """The packaged encoder, for built-in retrievers; its embeddings are kept in the cache folder."""
        # With numpy, a fifth of a second, which a run of verdicts alone need not pay.
        from pytest_rageval.embeddings.cached import CachedEncoder  # noqa: PLC0415
        from pytest_rageval.embeddings.encoder import shared_encoder  # noqa: PLC0415

        return CachedEncoder(shared_encoder(), self.settings.cache_dir)

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
        if not isinstance(source, str | Path):
            records = load_records(source, how)
            if records is not None:
                return records
            message = (
                f"rageval_evalset wants the path of an eval set, found {type(source).__name__}.\n"
                'Write rageval_evalset("evals/support.jsonl"); or give a list of dicts, a data frame, a Dataset.'
            )
            raise InputError(message)
        candidates = [base / source for base in bases]
        path = next((candidate for candidate in candidates if candidate.exists()), None)
        if path is None:
            looked = "\n".join(f"  {candidate}" for candidate in dict.fromkeys(candidates))
            message = f"There is no eval set {str(source)!r}. Looked for:\n{looked}"
            raise InputError(message)
        path = path.resolve()
        key = (path, repr(how))
        if key not in self._evalsets:
            self._evalsets[key] = load(path, how, formats=self.registry.formats)
        return self._evalsets[key]

    def labels(self, source: str | Path, *, bases: Sequence[Path]) -> HumanLabels:
        """The human labels of a file; a relative path is looked for under each of the bases in turn.

        Raises:
            InputError: there is no such file, or it cannot be used.
        """
        path = find_labels(source, bases=bases)
        if path not in self._labels:
            self._labels[path] = load_labels(path)
        return self._labels[path]

    def scale(self, wanted: Wanted) -> tuple[float, float] | None:
        """The lowest and the highest value of a score; None where another plugin that added it does not say.

        Raises:
            InputError: there is no such score.
        """
        return scale_of(evaluation_of(wanted, self.registry.scores)[1])

    def calibrate(self, parts: Parts, labels: HumanLabels, comparator: str | None = None) -> Calibration:
        """Ask the judge what people were asked; in a plan, count what it would be asked.

        Raises:
            InputError: there is no such comparator.
            TooManyUnscoredError: the judge has no verdict on too many of the items.
            RagevalError: it cannot be asked.
        """
        verdict = verdict_as_scored(self.run_of(parts), comparator)
        outcomes = self.loop.run(judge_labels(labels, verdict))
        if not self.settings.plan:
            Score(f"judge against {labels.name}", outcomes, max_unscored=self.settings.max_unscored)
        return Calibration(labels, outcomes, comparator)

    def run_of(self, parts: Parts) -> Run:
        """The run that these parts share with earlier tests that had the same."""
        key = (id(parts.retriever), id(parts.generator), id(parts.judge))
        if key not in self._runs:
            given = self._given(parts)
            generator = adapt_generator(given.generator, self.loop)
            judge = adapt_judge(given.judge, self.loop)
            for source, part in ((given.generator, generator), (given.judge, judge)):
                called = not is_ours(source) and not isinstance(source, Uncalled)
                if called and isinstance(part, CallableGenerator | ObjectJudge):
                    self._own.append(part.user)
            run = Run(
                adapt_retriever(given.retriever, self.loop, self.registry.adapters),
                generator,
                judge,
                comparator=self.settings.comparator,
                measures=self.registry.measures,
                comparators=self._comparators,
                seed=self.settings.seed,
                match_share=self.settings.match_share,
                both_orders=self.settings.both_orders,
            )
            # With the parts, so that their ids are not given to others while this stands.
            self._runs[key] = parts, run
        return self._runs[key][1]

    def score(
        self, parts: Parts, evalset: EvalSet, wanted: Sequence[Wanted]
    ) -> dict[Wanted, Score | RagevalError]:
        """Score an eval set by several scores at once.

        Returns:
            By what was wanted: the score, or the error for which there is none; the others are unharmed.
        """
        run, *again = self._repeated(parts)

        async def one(each: Wanted) -> Score | RagevalError:
            try:
                _, evaluate = evaluation_of(each, self.registry.scores)
                runs = [run, *again] if asks(evaluate) else [run]
                outcomes, *repeats = await all_of(self._scored(each_run, evalset, each) for each_run in runs)
                return Score(
                    each.spec,
                    outcomes,
                    max_unscored=self.settings.max_unscored,
                    seed=self.settings.seed,
                    repeats=repeats,
                    scale=scale_of(evaluate) or UNIT,
                )
            except RagevalError as error:
                return error

        async def each() -> list[Score | RagevalError]:
            return await asyncio.gather(*map(one, wanted))

        return dict(zip(wanted, self.loop.run(each()), strict=True))

    def plan(self, parts: Parts, evalset: EvalSet, wanted: Sequence[Wanted]) -> list[RagevalError]:
        """Count in the door's usage what the scores would ask; the errors that kept it from some."""
        runs = self._repeated(parts)

        async def one(each: Wanted) -> RagevalError | None:
            try:
                await all_of(self._scored(run, evalset, each) for run in runs)
            except RagevalError as error:
                return error
            return None

        async def each() -> list[RagevalError]:
            return [error for error in await asyncio.gather(*map(one, wanted)) if error is not None]

        return self.loop.run(each())

    @cached_property
    def baseline(self) -> Baseline:
        """The scores to compare with.

        Raises:
            InputError: the file is no baseline.
        """
        return Baseline.read(self.settings.baseline)

    def fingerprint(self, parts: Parts, wanted: Wanted) -> dict[str, Any]:
        """Everything beside the retriever that a score depends on, by name.

        Raises:
            InputError: there is no such score, or no model to name.
        """
        terms, evaluate = evaluation_of(wanted, self.registry.scores)
        return fingerprint(self.run_of(parts), terms, evaluate, package=version("pytest-rageval"))

    @property
    def usage(self) -> Usage:
        """What was asked so far, with what a reader should know of the user's own functions."""
        told = Counter(
            {
                f"answers of {own.name}, your own function, are kept within this run only "
                "(rageval_llm.cached keeps them)": own.calls
                for own in self._own
                if own.calls and not is_cached(own.function)
            }
        )
        return self.door.usage + Usage(remarks=told)

    @staticmethod
    def own(parts: Parts) -> list[str]:
        """Which of the generator and the judge is the user's own, so that no setting says what it is."""
        named = {"generator": parts.generator, "judge": parts.judge}
        return [name for name, part in named.items() if not is_ours(part)]

    def retrieve(self, parts: Parts, query: str, k: int) -> Ranking:
        """What the retriever returns for one query."""
        return self.loop.run(self.run_of(parts).ranking(_text("query", query), _cutoff(k)))

    def answer(self, parts: Parts, question: str, k: int) -> str:
        """The generator's answer from the first k retrieved documents."""
        return self.loop.run(self.run_of(parts).answer(_text("question", question), _cutoff(k)))

    def close(self) -> None:
        """Let go of connections, processes and files."""
        self.models.close()
        if "encoder" in self.__dict__:
            self.encoder.close()
        if self.loop.started:
            self.loop.run(self.door.close())
        self.loop.close()

    def _repeated(self, parts: Parts) -> list[Run]:
        """The run that counts, and those that ask generator and judge again."""
        key = id(self.run_of(parts))
        if key not in self._again:
            self._again[key] = [self.run_of(parts).again(n) for n in range(1, self.settings.repeat)]
        return [self.run_of(parts), *self._again[key]]

    def _given(self, parts: Parts) -> Parts:
        """The parts; in a plan without the user's own functions, since nobody knows what they ask."""
        if not self.settings.plan:
            return parts
        # What cannot be used in a run is no plan either.
        adapt_generator(parts.generator, self.loop)
        adapt_judge(parts.judge, self.loop)

        def count(remark: str) -> None:
            self.door.usage.remarks[remark] += 1

        return Parts(
            parts.retriever,
            *(
                part if is_ours(part) or is_cached(part) else Uncalled(f"rageval_{name}", part, count)
                for name, part in (("generator", parts.generator), ("judge", parts.judge))
            ),
        )

    async def _scored(self, run: Run, evalset: EvalSet, wanted: Wanted) -> list[Outcome]:
        terms, evaluate = evaluation_of(wanted, self.registry.scores)
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


def _access(settings: Settings, together: Together) -> Access:
    """How the options want models to be reached."""
    # A rate is that of the whole run; its processes do not know of each other's requests.
    share = 1 / together.workers
    return Access(
        cache_dir=settings.cache_dir,
        cassette=settings.cassette,
        mode="plan" if settings.plan else "replay" if settings.replay else "live",
        run=together.run,
        began=together.began,
        refresh=settings.refresh,
        record=settings.record,
        prompts=settings.record_prompts,
        pace=Pace(
            concurrency=settings.concurrency,
            timeout_s=settings.timeout,
            retries=settings.retries,
            rpm=settings.rpm and settings.rpm * share,
            tpm=settings.tpm and settings.tpm * share,
        ),
        limits=Limits(settings.max_calls, settings.max_cost),
        prices=settings.prices,
    )
