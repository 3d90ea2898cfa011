"""Scores, comparators and answer measures of other plugins, with checks of what they return."""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf, isfinite
from typing import Any, Protocol, cast

from pytest_rageval.answers.comparators import AnswerMeasure
from pytest_rageval.answers.judge_protocol import Comparator
from pytest_rageval.errors import CallableError, QueryError, RagevalError, Unscored, summary_line
from pytest_rageval.evaluations.context import Pipeline, Terms
from pytest_rageval.event_loop import PrivateLoop
from pytest_rageval.model import Example
from pytest_rageval.scores import Outcome
from pytest_rageval.user_code import Unusable, UserCallable, as_number, as_share

__all__ = ["PluginComparator", "PluginMeasure", "PluginScore", "plugin_comparators"]


class PluginComparator:
    """A plugin's comparator, whose `compare` is sync or async.

    It returns a bool or a number in [0, 1], or None for "no verdict".

    Args:
        name: that it was added by.
        comparator: the object.
        loop: of the run.
    """

    def __init__(self, name: str, comparator: Comparator, loop: PrivateLoop) -> None:
        named = f"comparator {name!r}"
        self._user = UserCallable(named, comparator.compare, loop, read=partial(_verdict, named))

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `pytest_rageval.answers.judge_protocol.Comparator`.

        Raises:
            QueryError: it raised, or returned something else.
        """
        return cast("float", await self._user.call(question, list(references), prediction))


def _verdict(name: str, verdict: object) -> float:
    """A comparator's return value as a number in [0, 1]."""
    if verdict is None:
        raise Unscored(f"{name} gave no verdict")
    value = as_share(verdict)
    if value is None:
        raise Unusable(
            f"returned {verdict!r:.60}",
            f"returned {verdict!r} for {{question}}.\n"
            "Return True or False, a number between 0 and 1, or None for no verdict.",
        )
    return value


def plugin_comparators(comparators: Mapping[str, Comparator], loop: PrivateLoop) -> dict[str, Comparator]:
    """Comparators of other plugins, by name, for one loop."""
    return {name: PluginComparator(name, comparator, loop) for name, comparator in comparators.items()}


class PluginMeasure:
    """A plugin's answer measure.

    Args:
        name: that it was added by.
        measure: the function.
    """

    def __init__(self, name: str, measure: AnswerMeasure) -> None:
        self._name = f"answer measure {name!r}"
        self._measure = measure

    def __call__(self, prediction: str, references: Sequence[str]) -> float:
        """See `pytest_rageval.answers.comparators.AnswerMeasure`.

        Raises:
            QueryError: it raised, or returned no number in [0, 1].
        """
        try:
            returned = self._measure(prediction, references)
        except (RagevalError, Unscored):
            raise
        except (Exception, SystemExit) as error:
            # SystemExit would end the thread of the loop, and the test would wait for ever.
            message = str(CallableError.raised(f"{self._name} raised", error))
            reason = f"{self._name} raised {summary_line(error)}"
            raise QueryError(message, reason, part=self._name) from error
        value = as_share(returned)
        if value is None:
            found = f"{self._name} returned {returned!r}"
            raise QueryError(f"{found}.\nReturn a number between 0 and 1.", found, part=self._name)
        return value


class _Evaluate(Protocol):
    def __call__(self, run: Pipeline, examples: Sequence[Example], terms: Terms, /) -> Any: ...


class PluginScore:
    """The evaluation of a plugin's score.

    Args:
        name: that it was added by.
        evaluate: the async function.
        scale: the lowest and the highest value; None: unknown.
    """

    def __init__(self, name: str, evaluate: _Evaluate, scale: tuple[float, float] | None = None) -> None:
        self._name = f"score {name!r}"
        self._evaluate = evaluate
        self._scale = scale

    async def __call__(self, run: Pipeline, examples: Sequence[Example], terms: Terms) -> list[Outcome]:
        """One outcome an example, in their order, each with a finite value or a reason.

        Raises:
            CallableError: the function raised, or returned anything else.
        """
        try:
            returned = self._evaluate(run, examples, terms)
            is_async = inspect.isawaitable(returned)
            outcomes = await returned if is_async else None
        except (RagevalError, asyncio.CancelledError):
            raise
        except (Exception, SystemExit) as error:
            raise CallableError.raised(f"{self._name} raised", error) from error
        if not is_async:
            raise self._unusable(f"is not async: it returned {type(returned).__name__}")
        if not isinstance(outcomes, list | tuple):
            raise self._unusable(f"returned {type(outcomes).__name__}, and not a list of Outcome")
        for one in outcomes:
            if not isinstance(one, Outcome):
                kind = type(outcomes).__name__
                raise self._unusable(
                    f"returned a {kind} with {type(one).__name__} in it, and not a list of Outcome"
                )
        if [outcome.example.id for outcome in outcomes] != [example.id for example in examples]:
            raise self._unusable(
                f"returned {len(outcomes)} outcomes for {len(examples)} examples, or not in their order"
            )
        return [self._finite(outcome) for outcome in outcomes]

    def _finite(self, outcome: Outcome) -> Outcome:
        """The outcome, with its value as a float."""
        if outcome.value is None and (outcome.unscored or outcome.undefined) is not None:
            return outcome
        value = as_number(outcome.value)
        low, high = self._scale or (-inf, inf)
        if value is None or not isfinite(value) or not low <= value <= high:
            raise self._unusable(f"returned {outcome.value!r} for example {outcome.example.id}")
        return replace(outcome, value=value)

    def _unusable(self, found: str) -> CallableError:
        where = "" if self._scale is None else " from {:g} to {:g}".format(*self._scale)
        return CallableError(
            f"{self._name} {found}.\nIts function is async (run, examples, terms), and returns one Outcome an "
            f"example, in their order: with a finite value{where}, or with None and the reason as `unscored` or "
            "`undefined`."
        )
