"""One test run: what was asked for, what came out, and the resources in between."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_rageval.answers.compare import adapt_judge
from pytest_rageval.config import Settings
from pytest_rageval.errors import InputError, RagevalError
from pytest_rageval.evalsets import from_records, load_jsonl
from pytest_rageval.evaluations.registry import evaluation_of
from pytest_rageval.evaluations.run import Run
from pytest_rageval.generator import adapt_generator
from pytest_rageval.llm.door import Access, Door
from pytest_rageval.loop import PrivateLoop
from pytest_rageval.model import EvalSet, Ranking
from pytest_rageval.models import Models
from pytest_rageval.retrievers.adapt import adapt_retriever
from pytest_rageval.scores import Outcome, Score

__all__ = ["Parts", "Session"]


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
        tick: called in the test's thread every tenth of a second or so while it waits.
    """

    def __init__(self, settings: Settings, *, tick: Callable[[], None] | None = None) -> None:
        self.settings = settings
        self.loop = PrivateLoop(threads=settings.threads, tick=tick)
        self.door = Door(
            Access(
                cache_dir=settings.cache_dir,
                cassette=settings.cassette,
                refresh=settings.refresh,
                record=settings.record,
                concurrency=settings.concurrency,
                timeout_s=settings.timeout,
                retries=settings.retries,
            )
        )
        self.models = Models(settings, self.door)
        self._runs: dict[tuple[int, int, int], tuple[Parts, Run]] = {}
        self._evalsets: dict[Path, EvalSet] = {}
        self._outcomes: dict[tuple[Run, str, str], list[Outcome]] = {}

    def evalset(self, source: object, *, bases: Sequence[Path]) -> EvalSet:
        """The eval set that a marker names: a path, an `EvalSet`, or records.

        Args:
            source: a relative path is looked for under each of the bases in turn.
            bases: folders.

        Raises:
            InputError: there is no such file, or it cannot be used.
        """
        if isinstance(source, EvalSet):
            return source
        if isinstance(source, list | tuple):
            places = ((f"record {i}", record) for i, record in enumerate(source, 1))
            return from_records(places, name="records")
        if not isinstance(source, str | Path):
            message = (
                f"rageval_evalset wants the path of an eval set, found {type(source).__name__}.\n"
                'Write rageval_evalset("evals/support.jsonl").'
            )
            raise InputError(message)
        candidates = [base / source for base in bases]
        path = next((candidate for candidate in candidates if candidate.is_file()), None)
        if path is None:
            looked = "\n".join(f"  {candidate}" for candidate in dict.fromkeys(candidates))
            message = f"There is no eval set {str(source)!r}. Looked for:\n{looked}"
            raise InputError(message)
        path = path.resolve()
        if path not in self._evalsets:
            self._evalsets[path] = load_jsonl(path)
        return self._evalsets[path]

    def run_of(self, parts: Parts) -> Run:
        """The run that these parts share with earlier tests that had the same."""
        key = (id(parts.retriever), id(parts.generator), id(parts.judge))
        if key not in self._runs:
            run = Run(
                adapt_retriever(parts.retriever, self.loop),
                adapt_generator(parts.generator, self.loop),
                adapt_judge(parts.judge, self.loop),
            )
            # With the parts, so that their ids are not given to others while this stands.
            self._runs[key] = parts, run
        return self._runs[key][1]

    def score(self, parts: Parts, evalset: EvalSet, specs: Sequence[str]) -> dict[str, Score | RagevalError]:
        """Score an eval set by several specs at once.

        Returns:
            By spec: the score, or the error for which there is none; the others are unharmed.
        """
        run = self.run_of(parts)

        async def one(spec: str) -> Score | RagevalError:
            try:
                return Score(
                    spec,
                    await self._scored(run, evalset, spec),
                    max_unscored=self.settings.max_unscored,
                    seed=self.settings.seed,
                )
            except RagevalError as error:
                return error

        async def each() -> list[Score | RagevalError]:
            return await asyncio.gather(*map(one, specs))

        return dict(zip(specs, self.loop.run(each()), strict=True))

    def retrieve(self, parts: Parts, query: str, k: int) -> Ranking:
        """What the retriever returns for one query."""
        return self.loop.run(self.run_of(parts).ranking(query, _cutoff(k)))

    def answer(self, parts: Parts, question: str, k: int) -> str:
        """The generator's answer from the first k retrieved documents."""
        return self.loop.run(self.run_of(parts).answer(question, _cutoff(k)))

    def close(self) -> None:
        """Let go of connections, processes and files."""
        self.models.close()
        if self.loop.started:
            self.loop.run(self.door.close())
        self.loop.close()

    async def _scored(self, run: Run, evalset: EvalSet, text: str) -> list[Outcome]:
        spec, k, evaluate = evaluation_of(text)
        key = (run, evalset.digest, str(spec))
        if key not in self._outcomes:
            self._outcomes[key] = await evaluate(run, evalset.examples, spec, k)
        return self._outcomes[key]


def _cutoff(k: object) -> int:
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        message = f"k = {k!r}: the number of documents is an integer, at least 1."
        raise InputError(message)
    return k
