"""The options of a run, and the one precedence of command line, ini file and environment."""

from pytest_rageval.config.options import OPTIONS, Option
from pytest_rageval.config.resolving import resolve
from pytest_rageval.config.settings import EMBEDDED, BaseURL, Settings, public_url

__all__ = ["EMBEDDED", "OPTIONS", "BaseURL", "Option", "Settings", "public_url", "resolve"]
