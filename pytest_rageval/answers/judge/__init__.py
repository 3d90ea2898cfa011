"""The judge of answers and passages: the interfaces of comparators and judges, and `JudgeTask`, what a judge decides.

- `tasks`: the tasks of the comparators. `user_judge`: calls the user's object. `default`: the judge of the options.
- `llm_judge`: asks a model. `replies` parses its replies, and `reply_json` the JSON in them.

A verdict does not contain its votes. `record_tally` records the tally of a verdict while a result is computed, and
`collect_tallies` returns a result with the sum of the tallies that were recorded for it.
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from pytest_rageval.core.outcome import NO_VOTES, Tally

if TYPE_CHECKING:
    from pytest_rageval.models.prompt_rendering import Prompts

T = TypeVar("T")
V = TypeVar("V")

MIN_GRADE: Final = 1
MAX_GRADE: Final = 5

PARTIAL_SUPPORT: Final = 0.5
"""The label of a nugget that a text supports in part."""


class Verdict(NamedTuple):
    """A judge's verdict with its reasons in a sentence or two; empty if the judge returns none.

    The value is 1 for yes and 0 for no; a grade; or 1 or 2 for the better of two answers, 0 for neither.
    """

    value: float
    explanation: str = ""


Text = str | Sequence[str]


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgeTask(Generic[V]):
    """What a judge decides about a question and further texts, in one request for each vote."""

    name: str  # the method of the user's judge; with a criterion as its first argument, "METHOD CRITERION"
    template: str  # the name of the prompt's template, whose `ARGUMENTS` are question and texts
    texts: tuple[str, ...]  # the names of question and texts in plans; a name of several texts ends in "*"
    parse: Callable[[str], V]  # a reply; Unscored, or with `response_format` ValueError, if it has no verdict
    vote: Callable[[Sequence[V]], V]  # of several votes, in a fixed order; Unscored if they decide nothing
    read: Callable[[object], V]  # a result of the user's method; InvalidResult or Unscored
    call: str  # the user's method with its arguments, and what needs it
    returns: str  # what the user's method returns
    decides: str  # what the judge decides, as the subject of a sentence
    instead: str  # what to do without a judge, in the imperative
    is_yes_no: bool = False  # so that a judge may be suspected of always giving the same verdict
    by_majority: bool = False  # no more votes are requested when the majority is certain
    prepare: Callable[..., Sequence[Text]] = lambda *texts: texts  # changes the texts for the prompt
    problem: Callable[..., str] = lambda _verdict, *_texts: ""  # what is wrong with a verdict on the texts
    # With one, an unreadable reply is requested once again.
    response_format: Mapping[str, object] | None = None
    instruction: str = ""  # how to reply, for that request

    @property
    def method(self) -> str:
        return self.name.partition(" ")[0]

    @property
    def criterion(self) -> list[str]:
        """The first argument of the user's method; empty if it has no criterion."""
        return self.name.split()[1:]

    @cached_property
    def part_names(self) -> tuple[str, ...]:
        return tuple([name.removesuffix("*") for name in self.texts])

    def prompt(self, prompts: "Prompts", *texts: Text) -> str:
        """Return the prompt with question and texts; without them, only its instructions."""
        return prompts.fill(
            self.template, *(texts or [[] if name.endswith("*") else "" for name in self.texts])
        )


class Comparator(Protocol):
    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Return 1.0 if the prediction states what at least one reference states, otherwise 0.0.

        A comparator that grades also returns numbers between 0 and 1. Unscored: there is no verdict on this prediction.
        """


class Judge(Comparator, Protocol):
    """A comparator that also decides the tasks of scores."""

    async def ask(self, task: JudgeTask[V], question: str, *texts: Text) -> V:
        """Return the verdict of a task on a question and further texts. Unscored: there is none."""

    def require(self, task: JudgeTask[Any]) -> object:
        """Raise an error if the judge cannot decide a task: no model judges, or the user's judge lacks the method."""

    @property
    def model_names(self) -> AbstractSet[str]:
        """The names of the models that the judge uses; of a user's judge, the models that it has called so far."""

    def repetition(self, n: int) -> "Judge":
        """Return this judge for the n-th repetition, n ≥ 1, with new replies."""

    def identity(self, task: JudgeTask[Any]) -> Mapping[str, object]:
        """Return the facts that the verdicts of a task depend on, by name; the judge itself has the empty name."""

    def template(self, task: JudgeTask[Any]) -> str:
        """Return the template of a task's prompt, with placeholders in braces; empty if there is no prompt."""


_TALLIES: ContextVar[dict[Hashable, Tally] | None] = ContextVar("_TALLIES", default=None)
"""The tallies that were recorded for the result that is being computed, by the subject of the verdict."""


async def collect_tallies(work: Awaitable[T]) -> tuple[T, Tally]:
    """Await a computation; return its result and the sum of the tallies recorded in it, one for each subject."""
    tallies: dict[Hashable, Tally] = {}
    token = _TALLIES.set(tallies)
    try:
        result = await work
    finally:
        _TALLIES.reset(token)
    return result, sum(tallies.values(), NO_VOTES) if tallies else NO_VOTES


def record_tally(subject: Hashable, tally: Tally) -> None:
    """Record the tally of a verdict for the result that is being computed; `subject` identifies the verdict."""
    tallies = _TALLIES.get()
    if tallies is not None and tally.verdicts:
        tallies[subject] = tally
