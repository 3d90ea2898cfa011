"""A user's small project, as the integration tests have it."""

from tests.integration.conftest import project

__all__ = ["project"]
