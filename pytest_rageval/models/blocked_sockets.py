"""`blocked_error`: recognises that a plugin of pytest forbids a test to open or to connect sockets."""

from typing import Final

from pytest_rageval.core.errors import ServerError, exception_chain

REMEDIES: Final = {
    "pytest_socket": "Allow the host with --allow-hosts={host} or @pytest.mark.allow_hosts(['{host}']), or all sockets "
    "of the test with @pytest.mark.enable_socket",
    "pytest_recording": "Allow that host, or a pattern of hosts, with --allowed-hosts or "
    "@pytest.mark.block_network(allowed_hosts=[…])",
}
"""What to do about each plugin, by the name of its package. `{host}` is the host of the server."""


def blocked_error(what: str, host: str, error: BaseException) -> ServerError | None:
    """Return the error about a plugin that blocks sockets; None if an exception has another cause.

    `what` begins the message. Libraries raise the exception from the plugin's own, or in a group.
    """
    for cause in exception_chain(error):
        package = _raising_package(cause)
        if package in REMEDIES:
            return ServerError(
                f"{what}: {package.replace('_', '-')} blocks the sockets of this test ({str(cause).rstrip('.')}).\n"
                f"{REMEDIES[package].format(host=host)}; a run with --rageval-replay needs none."
            )
    return None


def _raising_package(error: BaseException) -> str:
    """Return the top-level package whose code raised an exception; empty if its traceback is not known."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return "" if last is None else str(last.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
