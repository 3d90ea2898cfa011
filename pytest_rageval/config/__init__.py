"""The options of a run, from text to `Settings`.

`options` has the table of all options and `resolve`, which applies the precedence of command line, ini file and
environment; `settings` has the resolved values, with the base URL and its secrets.
"""

from pytest_rageval.config.options import OPTIONS, Option, resolve
from pytest_rageval.config.settings import EMBEDDED, BaseURL, Settings, public_url

__all__ = ["EMBEDDED", "OPTIONS", "BaseURL", "Option", "Settings", "public_url", "resolve"]
