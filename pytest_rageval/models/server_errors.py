"""What is said about a model server that cannot be used, and what to do about it."""

from collections.abc import Mapping
from typing import Final

from pytest_rageval.core.errors import ServerError, exception_chain
from pytest_rageval.core.settings import Api, Role
from pytest_rageval.lib.secret import Credentials
from pytest_rageval.lib.text import counted

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


URL_OPTIONS: Final[Mapping[Role, str]] = {
    "generator": "--rageval-base-url or OPENAI_BASE_URL",
    "judge": "--rageval judge_base_url=URL or RAGEVAL_JUDGE_BASE_URL",
}
"""The option and the environment variable that name the server of a model, for messages."""

PAID: Final = "Replies received before are in the cache"


class NamedServer:
    """A server as it is named in request keys, in reports and in errors."""

    base_url: str  # in request keys and reports: the same in every run, without secrets
    credentials: Credentials = Credentials()  # sent with each request, never printed or stored
    api: Api = "chat"
    role: Role = "generator"  # the model whose settings name the server
    key_name: str = ""  # the environment variable of its key
    key_command: tuple[str, ...] = ()  # the command that prints its key; empty for none

    @property
    def label(self) -> str:
        return self.base_url if self.role == "generator" else f"{self.base_url} ({self.role})"

    @property
    def subject(self) -> str:
        return f"The server at {self.base_url}"

    def unreachable_error(self, reason: str, attempts: int) -> ServerError:
        return ServerError(
            f"No server answers at {self.base_url} ({reason}; tried {counted(attempts, 'time')}).\n"
            f"Start it, or name another with {URL_OPTIONS[self.role]}. {PAID}."
        )

    def silence_error(self, last: str, requests: int, seconds: float) -> ServerError:
        waited = f"{counted(requests, 'request')} waited"
        return ServerError(
            f"{self.subject} answered nothing for {seconds:g} s, while {waited} (last: {last}).\n"
            "Send it fewer requests (--rageval concurrency=N, --rageval rpm=N), wait longer "
            "(--rageval patience=SECONDS), or run again later: replies received before are in the cache, and the next "
            "run requests the rest."
        )

    def unknown_model_error(self, model: str, detail: str) -> ServerError:
        other = "" if self.api == "chat" else '; not every server has the Responses API (api = "responses")'
        return ServerError(
            f"{self.subject} does not know the model {model!r} or the path: {detail}.\n"
            "Name a model it serves with --rageval-model (and --rageval-judge-model); "
            f"a base URL usually ends in /v1{other}."
        )

    def no_chat_error(self, model: str, detail: str) -> ServerError:
        return ServerError(
            f"{self.subject} has no chat completions for the model {model!r}: {detail}.\n"
            'Use the Responses API for it: write api = "responses" into the table '
            "[tool.rageval.models.generator], or .judge, of pyproject.toml; or name another model."
        )

    def quota_error(self, detail: str) -> ServerError:
        return ServerError(
            f"The account at {self.base_url} has no quota left: {detail}.\n{PAID}: a later run goes on from there."
        )

    def auth_error(self, status: int, detail: str) -> ServerError:  # noqa: ARG002 - it may quote a part of the key
        key, remedy = "a request without a key", f"Set {self.key_name} to a key of this server"
        if self.credentials.login is not None:
            key, remedy = "the user and the password in the base URL", "Correct them"
        elif self.key_command:
            key, remedy = f"the key that {self.key_command[0]!r} printed", "Run that command in a terminal"
        elif self.credentials.api_key is not None:
            key = f"the key in {self.key_name}"
        return ServerError(
            f"The server at {self.base_url} refused {key} (status {status}).\n"
            f"{remedy}, or name another server with {URL_OPTIONS[self.role]}."
        )

    def redirect_error(self, status: int, location: str, path: str) -> ServerError:
        """Return the error about a redirect to a location, "" if it names none, of a request to a path of the API."""
        here = f"{self.subject} answers with a redirect (status {status})"
        remedy = f"Set the base URL ({URL_OPTIONS[self.role]}) to"
        if not location:
            return ServerError(f"{here} that names no location.\n{remedy} that of a server that answers.")
        models = "that of the models there, if there are any"
        base = location.removesuffix(path) if location.endswith(path) else models
        return ServerError(f"{here} to {location}, and redirects are not followed.\n{remedy} {base}.")
