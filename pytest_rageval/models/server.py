"""A model server at a URL, whose key may be printed by a command."""

import asyncio
import re
import subprocess  # nosec B404 # runs our own interpreter and script
from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Final

from pytest_rageval.core.errors import RagevalError, ServerError
from pytest_rageval.lib.secret import BaseURL, Credentials, Secret
from pytest_rageval.models.budget import Limits
from pytest_rageval.models.client import NO_LIMITS, URL_OPTIONS, Client, RequestPolicy, Server
from pytest_rageval.options.settings import Api, Role

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"


@dataclass(eq=False, repr=False)
class RemoteServer(Server):
    """A server at a URL, which may contain user, password and query.

    The command for the key runs at the first request, and again after a key was refused.
    """

    url: InitVar[BaseURL | str] = DEFAULT_BASE_URL
    api_key: InitVar[Secret | str | None] = None
    in_flight: int | None = None
    _: KW_ONLY
    api: Api = "chat"
    role: Role = "generator"
    key_name: str = "OPENAI_API_KEY"
    needs_key: bool = False
    key_command: tuple[str, ...] = ()
    policy: RequestPolicy | None = None
    limits: Limits = NO_LIMITS
    flex: bool = False

    def __post_init__(self, url: BaseURL | str, api_key: Secret | str | None) -> None:
        location = BaseURL.parse(url) if isinstance(url, str) else url
        key = Secret(api_key) if isinstance(api_key, str) else api_key
        self._settings = (location, key, *vars(self).values())
        self._url = location.url
        self.base_url: str = location.public
        self.credentials: Credentials = Credentials(key, location.login, location.query)
        self._renewal = asyncio.Lock()
        self._key_error: RagevalError | None = None

    def client(self, *, timeout_s: float) -> Client:
        return Client(self, timeout_s=timeout_s)

    async def address(self) -> str:
        """Return the URL without credentials; get the key first, and raise ServerError if there is none."""
        if self.key_command:
            await self._renew(None)
        elif (self.needs_key or self.base_url == DEFAULT_BASE_URL) and self.credentials == Credentials():
            raise ServerError(
                f"No key is set for the server at {self.base_url}: {self.key_name} is empty.\n"
                f"Set it, or name a server that needs no key with {URL_OPTIONS[self.role]}. "
                "Replies in the cache or a cassette need no key; --rageval-replay names what changed in a request that "
                "they lack."
            )
        return self._url

    async def renew_key(self, refused: Credentials) -> bool:
        """Run the command for a new key, if there is one; return whether the key differs from the refused one."""
        if not self.key_command:
            return False
        await self._renew(refused.api_key)
        return self.credentials.api_key != refused.api_key

    async def _renew(self, old: Secret | None) -> None:
        """Run the command if the key is still the old one: one of the waiting requests runs it."""
        async with self._renewal:
            if self._key_error is not None:
                raise self._key_error
            if self.credentials.api_key != old:
                return
            try:
                key = await asyncio.to_thread(run_key_command, self.key_command)
            except RagevalError as error:
                self._key_error = error
                raise
            if key != old:
                self.credentials = self.credentials.with_api_key(key)


MAX_KEY_COMMAND_S: Final = 60.0  # the longest time that a key command may take

SHELL_SYNTAX: Final = re.compile(r"~|\$[\w({]|\d?[|&;<>]")  # matches a word that begins with shell syntax

SHELL_HINT: Final = (
    '\nA word of it is for a shell, such as |, ~ or $NAME, and none reads it: write ["sh", "-c", "COMMAND"].'
)


def run_key_command(command: Sequence[str]) -> Secret:
    """Run a command without a shell, and return the key: the one word that it prints.

    Otherwise raise ServerError. Its message does not quote the output, which may be a key.
    """
    result = _key_or_error(command)
    if isinstance(result, Secret):
        return result
    # Raised here, where no variable contains the output of the command: pytest can print the variables of a frame.
    hint = SHELL_HINT if any(map(SHELL_SYNTAX.match, command)) else ""
    raise ServerError(
        f"The command of api_key_command, {command[0]!r}, {result}.\n"
        f"Run it in a terminal: it is to print the key, and nothing else, on its standard output.{hint}"
    )


def _key_or_error(command: Sequence[str]) -> Secret | str:
    try:
        completed = subprocess.run(  # noqa: S603 - the user's own command
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=MAX_KEY_COMMAND_S
        )
    except subprocess.TimeoutExpired:
        return f"printed nothing in {MAX_KEY_COMMAND_S:g} s"
    except (OSError, ValueError) as error:
        return f"cannot be run: {getattr(error, 'strerror', None) or type(error).__name__}"
    if completed.returncode:
        return f"ended with exit status {completed.returncode}"
    words = completed.stdout.decode("utf-8", "replace").split()
    # A key has no white space: "Bearer abc" or a table of tokens is no key.
    return Secret(words[0]) if len(words) == 1 else f"printed {len(words)} words, and a key is one"
