"""An application that retrieves and answers in one call: the fixture `rageval_application`.

- `application`: asks each question once, and gives retriever and generator from what the application returned.
- `capture`: what its searches returned while it answered.
"""

from typing import TYPE_CHECKING, Final

import pluggy

if TYPE_CHECKING:
    import pytest

hookimpl = pluggy.HookimplMarker("pytest")

FIXTURE: Final = "rageval_application"


def rageval_application() -> object:
    """The application: ask(question) -> answer and sources, sync or async, or its URL. Default: none."""
    return None


FIXTURES: Final = (rageval_application,)


@hookimpl
def pytest_rageval_default_fixture(name: str, request: "pytest.FixtureRequest") -> object:
    """Return the retriever or the generator of the application, if there is one."""
    value = request.getfixturevalue(FIXTURE)
    if value is None:
        return None
    from pytest_rageval.extensions.application.application import application_of  # noqa: PLC0415 - few runs have one

    application = application_of(value)
    return application.retriever if name == "rageval_retriever" else application.generator
