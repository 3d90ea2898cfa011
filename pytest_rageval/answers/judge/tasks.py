"""The tasks of the comparators "judge" and "graded", and functions for tasks of scores."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Final

from pytest_rageval.answers.judge import MAX_GRADE, MIN_GRADE, JudgeTask, Text, Verdict
from pytest_rageval.answers.judge.replies import parse_grade, parse_yes_no
from pytest_rageval.calls.user_code import InvalidResult
from pytest_rageval.core.errors import Unscored
from pytest_rageval.lib.foreign_values import as_share


def majority(votes: Sequence[float]) -> float:
    """Return 1.0 if most of the votes, each 1.0 or 0.0, are 1.0, and 0.0 if most are 0.0; Unscored for a tie.

    >>> majority([1.0, 0.0, 1.0])
    1.0
    """
    yes = sum(votes)
    if 2 * yes == len(votes):
        raise Unscored(f"the judge's votes are tied: {yes:g} yes, {yes:g} no")
    return float(2 * yes > len(votes))


def explained(vote: Callable[[Sequence[float]], float], votes: Sequence[Verdict]) -> Verdict:
    """Return the verdict of votes, with the explanation of the first vote that is nearest to it.

    >>> explained(median, [Verdict(2, "Bad."), Verdict(5, "Good."), Verdict(4, "Fair.")])
    Verdict(value=4, explanation='Fair.')
    """
    value = vote([each.value for each in votes])
    return Verdict(value, min(votes, key=lambda each: abs(each.value - value)).explanation)


ALLOWED_VERDICT: Final = "Return True or False, a number between 0 and 1, or None for no verdict."
ALLOWED_SHARE: Final = (
    "Return a number between 0 (nothing of a reference) and 1 (all of it), or None for no verdict. "
    f"A grade from {MIN_GRADE} to {MAX_GRADE} is (grade - {MIN_GRADE}) / {MAX_GRADE - MIN_GRADE} of it."
)


def read_share(verdict: object, allowed: str = ALLOWED_VERDICT) -> float:
    score = as_share(require_result(verdict))
    if score is None:
        raise invalid_result(verdict, allowed)
    return score


def read_explained(
    returned: object, number_of: Callable[[object], float | None], allowed: str, what: str = "verdict"
) -> Verdict:
    """Return the user's verdict, which may be a pair with its explanation; `number_of` is None for an unusable one."""
    value, explanation = require_result(returned, what), ""
    if isinstance(value, tuple | list) and len(value) == 2:  # noqa: PLR2004 - a pair
        value, explanation = value
    number = number_of(value)
    if number is None or not isinstance(explanation, str):
        raise invalid_result(returned, allowed)
    return Verdict(number, explanation)


def require_result(returned: object, what: str = "verdict") -> object:
    """Return what the user's method returned; Unscored for None."""
    if returned is None:
        raise Unscored(f"the judge gave no {what}")
    return returned


def invalid_result(returned: object, allowed: str) -> InvalidResult:
    shown = repr(returned)
    return InvalidResult(f"returned {shown:.60}", f"returned {shown} for {{question}}.\n{allowed}")


def _list_once(question: Text, references: Sequence[str], prediction: Text) -> Sequence[Text]:
    """Put each reference on one line; repeated references, such as equal samples of one answer, are listed once."""
    return question, list(dict.fromkeys(" ".join(text.split()) for text in references)), prediction


COMPARE: Final = JudgeTask(
    name="compare",
    template="same_answer",
    texts=("question", "references*", "answer"),
    parse=parse_yes_no,
    vote=majority,
    read=read_share,
    call="compare(question, references, prediction)",
    returns="True or False",
    decides="Whether an answer is right",
    instead='compare by rules, with "canonical"',
    is_yes_no=True,
    by_majority=True,
    prepare=_list_once,
)
"""1 if the prediction states what a reference states, else 0 (LLM-retEval, step 3)."""

GRADE: Final = JudgeTask(
    name="grade",
    template="graded_answer",
    texts=("question", "references*", "answer"),
    parse=parse_grade,
    vote=median,
    read=partial(read_share, allowed=ALLOWED_SHARE),
    call='grade(question, references, prediction), which the comparator "graded" needs',
    returns="a number between 0 and 1",
    decides="How much an answer says of another",
    instead='compare by a measure, such as "f1"',
    prepare=_list_once,
)
"""How much of a reference the prediction states: (grade - 1) / 4 for a grade from 1 (nothing, a contradiction) to 5."""
