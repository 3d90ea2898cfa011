"""The fixtures. Their values come from `EvaluationPlugin`. Every run imports this module.

The docstrings of the fixtures are the output of `pytest --fixtures`.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from inspect import Parameter, Signature, signature, unwrap
from typing import TYPE_CHECKING, Final

import pytest

from pytest_rageval.plugin.lazy_start import get_evaluation_plugin

if TYPE_CHECKING:
    from pytest_rageval.models.api import LLM
    from pytest_rageval.plugin.rageval_fixture import Rageval
    from pytest_rageval.run.session import Session

NO_RETRIEVER: Final = """\
There is no fixture rageval_retriever, so there is nothing to evaluate. Write in conftest.py:

    import pytest
    from your_application import search

    @pytest.fixture(scope="session")
    def rageval_retriever():
        return search  # (query, k) -> documents
"""


@pytest.fixture(scope="session")
def rageval_retriever(request: pytest.FixtureRequest) -> object:
    """The retriever under test: a callable (query, k) -> documents, sync or async. Override it."""
    given = request.config.hook.pytest_rageval_default_fixture(name="rageval_retriever", request=request)
    if given is None:
        raise _missing_fixture(NO_RETRIEVER)
    return given


NO_REFERENCE: Final = """\
There is no fixture rageval_reference_retriever, which max_ratio compares times with. Write in conftest.py:

    import pytest
    from your_application import simple_search

    @pytest.fixture(scope="session")
    def rageval_reference_retriever():
        return simple_search  # (query, k) -> documents, such as the version that is deployed
"""


@pytest.fixture(scope="session")
def rageval_reference_retriever() -> object:
    """The retriever whose time max_ratio compares with that of rageval_retriever: a callable like it. Override it."""
    raise _missing_fixture(NO_REFERENCE)


@pytest.fixture(scope="session")
def rageval_prompts(pytestconfig: pytest.Config) -> Mapping[str, str]:
    """Prompts that replace the package's own, by name. Default: the file of --rageval prompts=FILE, then the preset."""
    return get_evaluation_plugin(pytestconfig).prompts


@pytest.fixture(scope="session")
def rageval_client() -> object:
    """A callable that calls models: (model, messages, **parameters) -> chat completion. Default: none."""
    return None


@pytest.fixture(scope="session")
def rageval_generator(
    request: pytest.FixtureRequest, rageval_prompts: object, rageval_client: object
) -> object:
    """The generator: a callable (question, passages) -> str, sync or async. Default: the configured model."""
    given = request.config.hook.pytest_rageval_default_fixture(name="rageval_generator", request=request)
    if given is not None:
        return given
    return get_evaluation_plugin(request.config).generator(rageval_prompts, rageval_client)


@pytest.fixture(scope="session")
def rageval_judge(pytestconfig: pytest.Config, rageval_prompts: object, rageval_client: object) -> object:
    """The judge: compare(question, references, prediction), or an object with it. Default: the configured model."""
    return get_evaluation_plugin(pytestconfig).judge(rageval_prompts, rageval_client)


@pytest.fixture(scope="session")
def rageval_llm(pytestconfig: pytest.Config, rageval_prompts: object, rageval_client: object) -> "LLM":
    """The configured model for your own code: complete(messages), acomplete(messages), cached(function)."""
    return get_evaluation_plugin(pytestconfig).llm(rageval_prompts, rageval_client)


@pytest.fixture(scope="session")
def _rageval_session(pytestconfig: pytest.Config) -> "Session":
    """The session of this process, for fixtures of extensions."""
    return get_evaluation_plugin(pytestconfig).session


@pytest.fixture
def rageval(
    request: pytest.FixtureRequest,
    rageval_retriever: object,
    rageval_prompts: object,
    rageval_generator: object,
    rageval_judge: object,
    **components: object,
) -> "Rageval":
    """Scores of the retriever under test: score(spec), retrieve(query, k), answer(question, k), examples."""
    plugin = get_evaluation_plugin(request.config)
    with plugin.exceptions_as_failures():
        return plugin.evaluate(
            request.node,
            rageval_retriever,
            rageval_generator,
            rageval_judge,
            prompts=rageval_prompts,
            components=components,
            # Few tests need this fixture, and its setup may take long.
            reference=partial(request.getfixturevalue, "rageval_reference_retriever"),
        )


SIGNATURE: Final = signature(rageval)


def request_components(names: Iterable[str]) -> None:
    """Let the fixture `rageval` request the fixtures that extensions declare; pytest has not read its signature yet."""
    *parameters, _ = SIGNATURE.parameters.values()
    parameters += [Parameter(name, Parameter.KEYWORD_ONLY) for name in names]
    unwrap(rageval).__signature__ = Signature(parameters)


def _missing_fixture(text: str) -> BaseException:
    from pytest_rageval.plugin.terminal import failure  # noqa: PLC0415 - few runs lack a fixture

    return failure(text)
