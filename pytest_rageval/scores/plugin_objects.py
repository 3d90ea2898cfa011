"""The comparators, answer measures and scores of plugins, with checks of what their functions return."""

import asyncio
import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite
from typing import Any, Final, Protocol, cast

from pytest_rageval.answers.judge.tasks import read_share
from pytest_rageval.calls.event_loop import BackgroundEventLoop
from pytest_rageval.calls.gathering import require_loop
from pytest_rageval.calls.user_code import UserCallable, call_errors, is_cancelled
from pytest_rageval.core.errors import (
    CallableError,
    InputError,
    QueryError,
    RagevalError,
    Unscored,
    summary_line,
)
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Outcome
from pytest_rageval.lib.foreign_values import as_number, as_share
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.lib.text import counted
from pytest_rageval.scores import known_dependencies
from pytest_rageval.scores.definition import ScoreDef
from pytest_rageval.scores.pipeline import Evaluation, Pipeline, ResolvedScore

STORED_AS: Final = "pytest_rageval.evaluations.registry"  # see calls.STORED_AS


class UserComparator(Protocol):
    def compare(self, question: str, references: Sequence[str], prediction: str) -> Any:
        """Return a number in [0, 1], True, False, or None for "no verdict"; or an awaitable of one of these."""


class PluginComparator:
    """A plugin's comparator, with checks of its return values."""

    def __init__(self, name: str, comparator: UserComparator, loop: BackgroundEventLoop) -> None:
        part = f"comparator {name!r}"
        self._user = UserCallable(part, comparator.compare, loop, read=partial(_read_verdict, part))

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        return cast("float", await self._user.call(question, list(references), prediction))


def _read_verdict(name: str, verdict: object) -> float:
    if verdict is None:
        raise Unscored(f"{name} gave no verdict")
    return read_share(verdict)


@dataclass(frozen=True)
class PluginMeasure:
    """A plugin's answer measure, with checks of its return values."""

    name: str
    measure: Callable[..., Any]

    def __call__(self, prediction: str, references: Sequence[str], **arguments: Any) -> float:
        part = f"answer measure {self.name!r}"
        try:
            returned = self.measure(prediction, references, **arguments)
        except (RagevalError, Unscored):
            raise
        except call_errors() as error:
            message = str(CallableError.from_exception(f"{part} raised", error))
            raise QueryError(message, f"{part} raised {summary_line(error)}") from error
        value = as_share(returned)
        if value is None:
            reason = f"{part} returned {returned!r}"
            raise QueryError(f"{reason}.\nReturn a number between 0 and 1.", reason)
        return value


@dataclass(frozen=True)
class PluginScore:
    """The evaluation of a plugin's score by an async function, with checks of its return values."""

    name: str
    evaluate: Callable[[Pipeline, Sequence[Example], ResolvedScore], Any]
    scale: tuple[float, float] | None = None

    async def __call__(
        self, pipeline: Pipeline, examples: Sequence[Example], resolved: ResolvedScore
    ) -> list[Outcome]:
        """Return one outcome per example, in their order, with a finite value or with a reason; raise CallableError."""
        await require_loop()
        try:
            returned = self.evaluate(pipeline, examples, resolved)
            is_async = inspect.isawaitable(returned)
            # The function may use `asyncio.timeout`, which needs a task of its own.
            outcomes = await asyncio.ensure_future(returned) if is_async else None
        except RagevalError:
            raise
        except call_errors() as error:
            if is_cancelled(error):
                raise
            raise CallableError.from_exception(f"score {self.name!r} raised", error) from error
        if not is_async:
            raise self._unusable(f"is not async: it returned {type(returned).__name__}")
        if not isinstance(outcomes, list | tuple):
            raise self._unusable(f"returned {type(outcomes).__name__}, and not a list of Outcome")
        wrong_types = [type(item).__name__ for item in outcomes if not isinstance(item, Outcome)]
        if wrong_types:
            returned_type = f"a {type(outcomes).__name__} with {wrong_types[0]} in it"
            raise self._unusable(f"returned {returned_type}, and not a list of Outcome")
        if [outcome.example.id for outcome in outcomes] != [example.id for example in examples]:
            raise self._unusable(
                f"returned {counted(len(outcomes), 'outcome')} for {counted(len(examples), 'example')}, "
                "or not in their order"
            )
        return [self._check_value(outcome) for outcome in outcomes]

    def _check_value(self, outcome: Outcome) -> Outcome:
        if outcome.value is None and (outcome.unscored or outcome.undefined) is not None:
            return outcome
        value = as_number(outcome.value)
        low, high = self.scale or (-inf, inf)
        if value is None or not isfinite(value) or not low <= value <= high:
            raise self._unusable(f"returned {outcome.value!r} for example {outcome.example.id}")
        return replace(outcome, value=value)

    def _unusable(self, problem: str) -> CallableError:
        scale = "" if self.scale is None else " from {:g} to {:g}".format(*self.scale)
        return CallableError(
            f"score {self.name!r} {problem}.\nIts function must be async (run, examples, resolved) and return one "
            f"Outcome per example, in their order: with a finite value{scale}, or with None and the reason as "
            "`unscored` or `undefined`."
        )


def plugin_score(
    name: str,
    evaluate: Evaluation,
    asks: Collection[str] | None,
    scale: tuple[float, float] | None,
    *,
    separable: bool,
) -> ScoreDef:
    """Return the definition of a plugin's score; InputError if an argument of `Registry.add_score` is not valid."""
    known = {ask if isinstance(ask, str) else ask.name: ask for ask in known_dependencies()}
    unknown = sorted(set(asks or ()) - known.keys())
    if unknown:
        raise InputError(
            f"add_score({name!r}): unknown asks: {', '.join(map(repr, unknown))}.\n"
            f"It can be: {', '.join(sorted(known))}."
        )
    if scale is not None and not scale[0] < scale[1]:
        raise InputError(
            f"add_score({name!r}): scale={scale!r} must be the lowest and the highest value, such as (0, 1)."
        )
    return ScoreDef(
        name,
        PluginScore(name, evaluate, scale),
        frozenset(known.values() if asks is None else map(known.__getitem__, asks)),
        scale,
        asks_all=asks is None,
        separable=separable,
        # The outcomes of the score may have `Evidence.sizes`, which the report pools.
        notes=Lazy("scores.rel_recall", "pooled_notes"),
    )
