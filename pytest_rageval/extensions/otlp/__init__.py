"""OpenTelemetry: `--rageval-report otlp:URL` sends the results of a run as events."""

from typing import TYPE_CHECKING

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.lib.lazy import Lazy

if TYPE_CHECKING:
    from pytest_rageval.run.registry import Registry


@hookimpl(trylast=True)
def pytest_rageval_register(registry: "Registry") -> None:
    """Add the report, unless another plugin replaces it."""
    registry.reports.setdefault("otlp:", Lazy("extensions.otlp.otlp", "send_events"))
