"""An application that retrieves and answers in one call: the fixture `rageval_application`.

- `application`: asks each question once, and gives retriever and generator from what the application returned.
- `capture`: what its searches returned while it answered.
"""

from collections.abc import Mapping, Sequence
from traceback import extract_tb
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl

if TYPE_CHECKING:
    import pytest

    from pytest_rageval.core.errors import MissingReplyError
    from pytest_rageval.extensions.application.application import Application
    from pytest_rageval.gate.verdict import ThresholdInput
    from pytest_rageval.run.judged import JudgedTest
    from pytest_rageval.run.test import TestRun

FIXTURE: Final = "rageval_application"

MISSING: Final = "without a recorded reply: the rankings are of the searches before it"


def rageval_application() -> object:
    """The application: ask(question) -> answer and sources, sync or async, or its URL. Default: none."""
    return None


FIXTURES: Final = (rageval_application,)


@hookimpl
def pytest_rageval_default_fixture(name: str, request: "pytest.FixtureRequest") -> object:
    from pytest_rageval.core.errors import RagevalError, innermost_user_frame  # noqa: PLC0415 - every run imports this module

    try:
        value = request.getfixturevalue(FIXTURE)
    except RagevalError as error:
        from pytest_rageval.plugin.terminal import failure  # noqa: PLC0415 - as above

        # Cut at the frames of this package, the traceback would have pytest's own frames alone, and pytest shows all.
        frame = innermost_user_frame(extract_tb(error.__traceback__))
        place = "" if frame is None else f"\n  {frame.filename}:{frame.lineno} in {frame.name}"
        raise failure(f"{error}{place}") from None
    if value is None:
        return None
    from pytest_rageval.extensions.application.application import application_of  # noqa: PLC0415 - few runs have one

    application = application_of(value)
    return application.retriever if name == "rageval_retriever" else application.generator


@hookimpl(tryfirst=True)
def pytest_rageval_before_judge(test: "JudgedTest", threshold_input: "ThresholdInput") -> None:
    """Refuse rankings that are all empty because nothing of what is captured was called."""
    application = _application_of(test)
    if application is None or not any(each.example.relevant for each in threshold_input.score.outcomes):
        return
    if text := application.unseen_text():
        from pytest_rageval.core.errors import InputError  # noqa: PLC0415 - few runs have an application

        raise InputError(text)


@hookimpl
def pytest_rageval_after_test(test: "TestRun") -> Sequence[str]:
    """Return what the scores' own errors leave open about the missing replies of a replay.

    That is, that they are missing, if no score needs an answer; of which questions no ranking is known; and that
    nothing else is wrong.
    """
    application = _application_of(test)
    if application is None:
        return ()
    from pytest_rageval.core.errors import MissingReplyError  # noqa: PLC0415 - few runs have an application
    from pytest_rageval.lib.text import counted  # noqa: PLC0415 - as above
    from pytest_rageval.scores.definition import combine_errors  # noqa: PLC0415 - as above

    errors = [runs for runs in test.record.runs.values() if isinstance(runs, MissingReplyError)]
    missing = _missing_replies(test)
    texts = [str(combine_errors(missing))] if missing and not errors else []
    if test.record.calls:  # after `rageval.score`, whose caller has the errors of the calls before
        return texts
    missed = {id_ for error in errors for id_ in error.examples}
    unknown = [
        each for each in test.record.examples if each.id in missed and not application.knows(each.question)
    ]
    if unknown:
        return [*texts, application.unknown_text(len(unknown))]
    judged = {each.threshold.score_key for each in test.judged}
    known = {key for key, runs in test.record.runs.items() if not isinstance(runs, MissingReplyError)}
    bad = any(each.verdict.status != "pass" for each in test.judged)
    if missing and judged and judged == known and not bad:
        texts.append(
            f"The scores of the rankings pass; the replies to {counted(len(missing), 'question')} are to record."
        )
    return texts


@hookimpl
def pytest_rageval_test_entry(test: "JudgedTest") -> Mapping[str, object]:
    from pytest_rageval.lib.text import counted  # noqa: PLC0415 - every run imports this module

    number = len(_missing_replies(test))
    return {"warnings": [f"{counted(number, 'question')} {MISSING}"]} if number else {}


def _application_of(test: "JudgedTest") -> "Application | None":
    components = getattr(test, "components", None)  # a merge has none
    application = getattr(getattr(components, "retriever", None), "application", None)
    if application is None:
        return None
    from pytest_rageval.extensions.application.application import Application  # noqa: PLC0415 - few runs have one

    return application if isinstance(application, Application) else None


def _missing_replies(test: "JudgedTest") -> "Mapping[str, MissingReplyError]":
    application = _application_of(test)
    missing = {} if application is None else application.missing
    examples = test.record.examples if missing else ()
    return {each.id: missing[each.question] for each in examples if each.question in missing}
