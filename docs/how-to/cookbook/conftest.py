"""The application as the tests of the cookbook see it."""

from collections.abc import Callable
from typing import Any

import bot
import pytest


@pytest.fixture(scope="session")
def rageval_retriever() -> Callable[..., list[dict[str, Any]]]:
    """Return the retriever: (query, k, filters) -> passages."""
    return bot.retrieve


@pytest.fixture(scope="session")
def rageval_generator() -> Callable[..., str]:
    """Return the generator: (question, passages) -> answer."""
    return bot.answer
