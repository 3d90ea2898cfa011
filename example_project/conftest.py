"""Gives pytest-rageval the retriever of the application."""

import pytest

from support_bot import search


@pytest.fixture(scope="session")
def rageval_retriever():
    return search
