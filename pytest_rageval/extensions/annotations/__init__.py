"""Annotations of GitHub: `--rageval annotations=true`, the default in its jobs, shows failures in the diff."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pytest_rageval.hookspecs import hookimpl
from pytest_rageval.options import switch

if TYPE_CHECKING:
    import pytest

    from pytest_rageval.options.settings import Settings

# fmt: off
ANNOTATIONS: Final = switch(
    "annotations",
    "print annotations for GitHub, which show failures and warnings at the lines of the tests. The default "
    "under GITHUB_ACTIONS=true; off with --rageval annotations=false",
    variable="GITHUB_ACTIONS",
)
# fmt: on
OPTIONS: Final = (ANNOTATIONS,)


@hookimpl
def pytest_rageval_start(config: "pytest.Config", settings: "Settings") -> Sequence[object]:
    # The controller of xdist prints the annotations of all workers.
    if not settings[ANNOTATIONS] or "is a step" in settings.effects or hasattr(config, "workerinput"):
        return ()
    from pytest_rageval.extensions.annotations.plugin import AnnotationPlugin  # noqa: PLC0415 - for one build server

    return (AnnotationPlugin(config),)
