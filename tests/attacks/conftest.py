"""Attacks run on a small project of a user's, as the integration tests do."""

from tests.integration.conftest import project  # noqa: F401 - a fixture
