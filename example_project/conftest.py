"""Hands the retriever to pytest-rageval as it ships."""

import pytest

from support_bot import search


@pytest.fixture(scope="session")
def rageval_retriever():
    return search
