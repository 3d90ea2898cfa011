"""Attacks run real pytest in the small project of the integration tests."""

from tests.integration.conftest import project

__all__ = ["project"]
