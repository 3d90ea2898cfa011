"""The fixture `project` of the integration tests, for the attack tests."""

from tests.integration.conftest import project

__all__ = ["project"]
