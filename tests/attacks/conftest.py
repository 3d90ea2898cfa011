"""What the attacks share with the integration tests: a small project of a user's, and a scripted server."""

from tests.integration.conftest import project

__all__ = ["project"]
