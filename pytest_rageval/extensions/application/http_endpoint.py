"""`HTTPApplication`: an application at a URL, which takes a question as JSON and returns JSON."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

TIMEOUT_S: Final = 60.0


class HTTPApplication:
    """An application at a URL: a question is posted as `{"question": …}`, and the reply has an answer and sources.

    A status other than 2xx, and a reply that is not JSON, are an error of that question.

    Args:
        url: the URL.
        question: the key of the question in the body.
        body: other keys of the body.
        headers: headers of the request, such as the one that authorises it.
        timeout: seconds to wait for a reply.
    """

    def __init__(
        self,
        url: str,
        *,
        question: str = "question",
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT_S,
    ) -> None:
        self._url = url
        self._question = question
        self._body = dict(body or {})
        self._headers = dict(headers or {})
        self._timeout = timeout

    @cached_property
    def _client(self) -> Any:
        import httpx2  # noqa: PLC0415 - few runs have an application at a URL

        return httpx2.Client(timeout=self._timeout, headers=self._headers)

    @property
    def fingerprint(self) -> str:
        """The URL, without a query, which may have a key."""
        return self._url.partition("?")[0]

    def __call__(self, question: str) -> Any:
        """Return the reply to a question."""
        reply = self._client.post(self._url, json={**self._body, self._question: question})
        reply.raise_for_status()
        return reply.json()
