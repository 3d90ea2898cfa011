"""Gives pytest-rageval the agent, and records what it searched for."""

import pytest
from atlas_agent import Agent, build_index

from pytest_rageval import capture


@pytest.fixture(scope="session")
def index():
    return build_index()  # once for all tests


@pytest.fixture(scope="session")
def rageval_application(index):
    with capture("langchain"):
        yield Agent(index).ask
