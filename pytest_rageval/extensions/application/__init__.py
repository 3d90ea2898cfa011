"""An application that retrieves and answers in one call: the fixture `rageval_application`.

- `application`: asks each question once, and gives retriever and generator from what the application returned.
- `capture`: what its searches returned while it answered.
"""

from traceback import extract_tb
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl

if TYPE_CHECKING:
    import pytest

    from pytest_rageval.gate.verdict import ThresholdInput
    from pytest_rageval.run.judged import JudgedTest

FIXTURE: Final = "rageval_application"


def rageval_application() -> object:
    """The application: ask(question) -> answer and sources, sync or async, or its URL. Default: none."""
    return None


FIXTURES: Final = (rageval_application,)


@hookimpl
def pytest_rageval_default_fixture(name: str, request: "pytest.FixtureRequest") -> object:
    """Return the retriever or the generator of the application, if there is one."""
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
    components = getattr(test, "components", None)  # a merge has none
    application = getattr(getattr(components, "retriever", None), "application", None)
    if application is None or not any(each.example.relevant for each in threshold_input.score.outcomes):
        return
    from pytest_rageval.core.errors import InputError  # noqa: PLC0415 - few runs have an application
    from pytest_rageval.extensions.application.application import Application  # noqa: PLC0415 - as above

    if isinstance(application, Application) and (text := application.unseen_text()):
        raise InputError(text)
