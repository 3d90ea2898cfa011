"""Models that are no server at a URL.

- `user_client`: the user's own client, called in place of a server.
- `embedded`, `embedded_server`: the local model.
"""

from typing import TYPE_CHECKING

from pytest_rageval.hookspecs import hookimpl

if TYPE_CHECKING:
    from pytest_rageval.run.registry import Registry


@hookimpl(tryfirst=True)
def pytest_rageval_register(registry: "Registry") -> None:
    """Add the two providers first: those of other plugins, which come later, are tried before them."""
    from pytest_rageval.lib.lazy import Lazy  # noqa: PLC0415
    from pytest_rageval.options.settings import EMBEDDED  # noqa: PLC0415 - a run without marked tests needs none

    registry.add_provider(
        lambda request: request.client is not None, Lazy("extensions.providers.user_client", "user_server")
    )
    registry.add_provider(
        lambda request: request.client is None and request.model == EMBEDDED,
        Lazy("extensions.providers.embedded", "embedded_server"),
    )
