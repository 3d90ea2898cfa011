"""The user's judge: a function, or an object with methods, sync or async, with checks of their results."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import index
from typing import Any, Final, cast

from pytest_rageval.answers.judge.protocol import (
    MAX_GRADE,
    MIN_GRADE,
    Judge,
    JudgeVerdict,
    Preference,
    Rating,
)
from pytest_rageval.answers.judge.replies import SUPPORT_LABELS
from pytest_rageval.core.concurrency.event_loop import BackgroundEventLoop
from pytest_rageval.core.errors import CallableError, Unscored
from pytest_rageval.core.user_code import (
    InvalidResult,
    UserCallable,
    accepts_arguments,
    as_number,
    as_share,
    format_signature,
    has_parameter,
    unwrap_stub,
)
from pytest_rageval.lib.plural import counted

OPTIONAL_METHODS: Final[Mapping[str, tuple[str, str]]] = {
    "grade": (
        'grade(question, references, prediction), which the comparator "graded" needs',
        "a number between 0 and 1",
    ),
    "relevant": (
        'relevant(question, passage), which the scores relevance.* and udcg need, and the keyword relevant="judge"',
        "True or False",
    ),
    "sufficient": (
        "sufficient(question, passages), which the score sufficient needs",
        "True or False, and perhaps why",
    ),
    "prefer": (
        "prefer(question, first, second), which the scores arena.* need",
        "1 or 2 for the better answer, 0 for neither, and perhaps why",
    ),
    "rate": (
        "rate(criterion, question, rated, against), which the scores judged.* need",
        "a grade from 1 to 5, and why",
    ),
    "support": (
        "support(question, nuggets, passage), which the scores nuggets.* and answer.nuggets need",
        '"support", "partial_support" or "not_support" for each nugget',
    ),
}
"""By method: its signature with the scores that need it, and its results; for the error if the method is missing."""


COMPARE_CALL: Final = "compare(question, references, prediction)"


def adapt_judge(judge: object, loop: BackgroundEventLoop) -> Judge:
    """Return the user's object from the fixture `rageval_judge` as a `Judge`; a function becomes the method `compare`.

    Raises:
        CallableError: the object is not a function and has no method `compare`, or `compare` does not accept its
            arguments.
    """
    user_object = unwrap_stub(judge)
    functions = {name: getattr(judge, name, None) for name in RESULT_PARSERS}
    names = {name: f"rageval_judge.{name}" for name in RESULT_PARSERS}
    if not callable(functions["compare"]) and callable(user_object):
        functions["compare"], names["compare"] = judge, "rageval_judge"
    methods = {
        name: UserCallable(names[name], function, loop, int(name == "rate"), read=RESULT_PARSERS[name])
        for name, function in functions.items()
        if callable(function)
    }
    if "compare" not in methods:
        raise CallableError(
            f"rageval_judge is {type(user_object).__name__}, which is not a function, "
            f"and lacks the method {COMPARE_CALL}.\n"
            "Return such a function, or an object with it as a method, from the fixture (sync or async; True, False, "
            "a number between 0 and 1, or None), or leave the fixture out for the default judge."
        )
    compare: Any = getattr(user_object, "compare", user_object)
    history: dict[str, Any] = {"history": []} if has_parameter(compare, "history") else {}
    if not accepts_arguments(compare, "question", [], "prediction", **history):
        raise CallableError(
            f"{names['compare']} is {format_signature(compare)}, and is called with three arguments: {COMPARE_CALL}.\n"
            + (
                f"Return {user_object.__name__}(), not the class."
                if isinstance(user_object, type)
                else "Give it these parameters."
            )
        )
    return UserJudge(methods)


class UserJudge:
    """A judge that calls the user's methods; `compare` is required, and the others are optional.

    Each method is sync or async and takes the arguments of `Judge`. If it has a parameter `history`, it also gets
    the messages before the question. It returns None for "no verdict", otherwise

    - `compare` and `relevant`: a bool, or a number in [0, 1];
    - `sufficient`: the same, or (verdict, explanation);
    - `grade`: a number in [0, 1], from nothing of a reference to all of it. Numbers from 2 to 5 are errors, because a 1
      could then be the best or the worst grade;
    - `prefer`: 1 or 2 for the better answer, 0 for neither, or (preference, explanation);
    - `rate`: a grade in [1, 5], or (grade, explanation), but no bool;
    - `support`: a list of "support", "partial_support" or "not_support", one for each nugget; or of 1, 0.5 and 0.

    Any other result raises a QueryError with the method, the result, the question and the allowed results. So does an
    exception of the method. A missing method raises a CallableError when it is needed.

    Args:
        methods: the methods of the judge by name, with "compare" among them.
    """

    def __init__(self, methods: Mapping[str, UserCallable]) -> None:
        self.user: UserCallable = methods["compare"]
        self._methods = methods

    async def compare(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Call the user's `compare`."""
        return cast("float", await self._call("compare", question, list(references), prediction))

    async def grade(self, question: str, references: Sequence[str], prediction: str) -> float:
        """Call the user's `grade`."""
        return cast("float", await self._call("grade", question, list(references), prediction))

    async def relevant(self, question: str, passage: str) -> float:
        """Call the user's `relevant`."""
        return cast("float", await self._call("relevant", question, passage))

    async def sufficient(self, question: str, passages: Sequence[str]) -> JudgeVerdict:
        """Call the user's `sufficient`."""
        return cast("JudgeVerdict", await self._call("sufficient", question, list(passages)))

    async def prefer(self, question: str, first: str, second: str) -> Preference:
        """Call the user's `prefer`."""
        return cast("Preference", await self._call("prefer", question, first, second))

    async def rate(
        self, criterion: str, question: str, rated: Sequence[str], against: Sequence[str]
    ) -> Rating:
        """Call the user's `rate`."""
        return cast("Rating", await self._call("rate", criterion, question, list(rated), list(against)))

    async def support(self, question: str, nuggets: Sequence[str], passage: str) -> Sequence[float]:
        """Call the user's `support`."""
        labels = cast("tuple[float, ...]", await self._call("support", question, list(nuggets), passage))
        if len(labels) != len(nuggets):
            raise Unscored(
                f"rageval_judge.support gave {counted(len(labels), 'label')} for {counted(len(nuggets), 'nugget')}"
            )
        return labels

    async def _call(self, name: str, *args: object) -> object:
        if name not in self._methods:
            signature, returns = OPTIONAL_METHODS[name]
            raise CallableError(
                f"rageval_judge lacks the method {signature}.\n"
                f"Add it (sync or async; {returns}), or leave the fixture out and name a model with "
                "--rageval-judge-model."
            )
        return await self._methods[name].call(*args)

    @property
    def model_names(self) -> frozenset[str]:
        """The names of the models that the judge has called so far through this package."""
        return frozenset[str]().union(*(method.completion_counts for method in self._methods.values()))

    def repetition(self, n: int) -> "UserJudge":  # noqa: ARG002 - a repeated call needs no other judge
        """Return this judge."""
        return self

    def identity(self, method: str) -> Mapping[str, Any]:
        """Return the identity of the user's method; its verdicts depend on nothing else that is known."""
        name = method.partition(" ")[0]
        return {"": self._methods[name].identity if name in self._methods else "none"}

    def template(self, method: str) -> str:  # noqa: ARG002 - the same for all methods
        """Return an empty text, because prompts of the user's judge are unknown."""
        return ""


ALLOWED_VERDICT: Final = "Return True or False, a number between 0 and 1, or None for no verdict."
ALLOWED_SHARE: Final = (
    "Return a number between 0 (nothing of a reference) and 1 (all of it), or None for no verdict. "
    f"A grade from {MIN_GRADE} to {MAX_GRADE} is (grade - {MIN_GRADE}) / {MAX_GRADE - MIN_GRADE} of it."
)


def _parse_share(verdict: object, allowed: str) -> float:
    score = as_share(_require_result(verdict))
    if score is None:
        raise _invalid_result(verdict, allowed)
    return score


def _parse_verdict(verdict: object) -> JudgeVerdict:
    value, explanation = _split_explanation(_require_result(verdict))
    share = as_share(_require_result(value))
    if share is None or not isinstance(explanation, str):
        allowed = "Return True or False, a number between 0 and 1, (one of these, explanation), or None for no verdict."
        raise _invalid_result(verdict, allowed)
    return JudgeVerdict(share, explanation)


def _split_explanation(returned: object) -> tuple[object, object]:
    """Return the result and the explanation of a pair; the explanation is empty if the result is not a pair."""
    if isinstance(returned, tuple | list) and len(returned) == 2:  # noqa: PLR2004 - a pair
        value, explanation = returned
        return value, explanation
    return returned, ""


def _parse_preference(returned: object) -> Preference:
    preference, explanation = _split_explanation(_require_result(returned))
    preference = _require_result(preference)
    # A bool is rejected: True equals 1, but does not say which answer is better.
    chosen = (
        None if isinstance(preference, bool) or not hasattr(preference, "__index__") else index(preference)
    )
    if chosen not in {0, 1, 2} or not isinstance(explanation, str):
        allowed = (
            "Return 1 or 2 for the better answer, 0 for neither, (one of these, explanation), "
            "or None for no verdict."
        )
        raise _invalid_result(returned, allowed)
    return Preference(chosen, explanation)


def _parse_rating(rating: object) -> Rating:
    rating = _require_result(rating, "rating")
    grade, explanation = _split_explanation(rating)
    # A bool is rejected: True would be 1, the worst grade.
    score = None if isinstance(grade, bool) else as_number(grade)
    if score is None or not MIN_GRADE <= score <= MAX_GRADE or not isinstance(explanation, str):
        allowed = (
            f"Return a grade from {MIN_GRADE} to {MAX_GRADE}, or (grade, explanation), or None for no rating."
        )
        raise _invalid_result(rating, allowed)
    return Rating(score, explanation)


def _parse_labels(labels: object) -> tuple[float, ...]:
    labels = _require_result(labels, "labels")
    values = [_parse_label(label) for label in labels] if isinstance(labels, list | tuple) else [None]
    if None in values:
        allowed = (
            f"Return a list with one of {', '.join(SUPPORT_LABELS)} (or 1, 0.5, 0) for each nugget, or None."
        )
        raise _invalid_result(labels, allowed)
    return tuple(value for value in values if value is not None)


def _parse_label(label: object) -> float | None:
    number = SUPPORT_LABELS.get(label) if isinstance(label, str) else as_share(label)
    return number if number in SUPPORT_LABELS.values() else None


RESULT_PARSERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "compare": partial(_parse_share, allowed=ALLOWED_VERDICT),
    "grade": partial(_parse_share, allowed=ALLOWED_SHARE),
    "relevant": partial(_parse_share, allowed=ALLOWED_VERDICT),
    "sufficient": _parse_verdict,
    "prefer": _parse_preference,
    "rate": _parse_rating,
    "support": _parse_labels,
}


def _require_result(returned: object, what: str = "verdict") -> object:
    if returned is None:
        raise Unscored(f"the judge gave no {what}")
    return returned


def _invalid_result(returned: object, allowed: str) -> InvalidResult:
    shown = repr(returned)
    return InvalidResult(f"returned {shown:.60}", f"returned {shown} for {{question}}.\n{allowed}")
