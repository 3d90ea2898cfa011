"""The fixtures: those that users may supply, and those that they receive."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pytest

from pytest_rageval.plugin.gate import GatePlugin
from pytest_rageval.plugin.printing import failure

if TYPE_CHECKING:
    from pytest_rageval.embeddings.cached import CachedEncoder
    from pytest_rageval.llm.complete import LLM
    from pytest_rageval.plugin.facade import Rageval

__all__ = [
    "rageval",
    "rageval_encoder",
    "rageval_generator",
    "rageval_judge",
    "rageval_llm",
    "rageval_prompts",
    "rageval_retriever",
]

NO_RETRIEVER = """\
There is no fixture rageval_retriever, so there is nothing to evaluate. Write in conftest.py:

    import pytest
    from your_application import search

    @pytest.fixture(scope="session")
    def rageval_retriever():
        return search  # (query, k) -> documents
"""


@pytest.fixture(scope="session")
def rageval_retriever() -> object:
    """The retriever under test: a callable (query, k) -> documents, sync or async. Override it."""
    raise failure(NO_RETRIEVER)


@pytest.fixture(scope="session")
def rageval_prompts(pytestconfig: pytest.Config) -> Mapping[str, str]:
    """Prompts in place of the package's own, by name. Default: those in the file of --rageval-prompts."""
    return GatePlugin.of(pytestconfig).prompts()


@pytest.fixture(scope="session")
def rageval_generator(pytestconfig: pytest.Config, rageval_prompts: object) -> object:
    """The generator: a callable (question, passages) -> str, sync or async. Default: the model in force."""
    return GatePlugin.of(pytestconfig).default_generator(rageval_prompts)


@pytest.fixture(scope="session")
def rageval_judge(pytestconfig: pytest.Config, rageval_prompts: object) -> object:
    """The judge: an object with compare(question, references, prediction). Default: as in the header."""
    return GatePlugin.of(pytestconfig).default_judge(rageval_prompts)


@pytest.fixture(scope="session")
def rageval_llm(pytestconfig: pytest.Config) -> "LLM":
    """The model in force, for your own code: complete(messages), acomplete(messages), cached(function)."""
    return GatePlugin.of(pytestconfig).llm()


@pytest.fixture(scope="session")
def rageval_encoder(pytestconfig: pytest.Config) -> "CachedEncoder":
    """The packaged encoder, for DenseRetriever: each text is encoded once and kept in the cache folder."""
    return GatePlugin.of(pytestconfig).encoder()


@pytest.fixture
def rageval(
    request: pytest.FixtureRequest,
    rageval_retriever: object,
    rageval_prompts: object,
    rageval_generator: object,
    rageval_judge: object,
) -> "Rageval":
    """Scores of the retriever under test: score(spec), retrieve(query, k), answer(question, k), examples."""
    gate = GatePlugin.of(request.config)
    # Looked at also where generator and judge are the user's own, and send none of them.
    gate.check_prompts(rageval_prompts)
    return gate.open(request.node, rageval_retriever, rageval_generator, rageval_judge)
