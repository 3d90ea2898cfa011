"""A search over three passages, as a server at a URL: run as a module with SECONDS, it prints its port."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.http_server import HTTPAnswer, HTTPRequest, HTTPServerThread

PASSAGES = {
    "kb-1": "Refunds take five working days.",
    "kb-2": "Passwords are reset on the sign-in page.",
    "kb-3": "Parcels to Norway take four days.",
}


def search(query: str, k: int) -> list[dict[str, str]]:
    words = set(query.lower().strip("?").split())
    names = sorted(PASSAGES, key=lambda name: -len(words & set(PASSAGES[name].lower().strip(".").split())))
    return [{"id": name, "text": PASSAGES[name]} for name in names[:k]]


def found(query: str, k: int) -> dict[str, Any]:
    return {"hits": [{"source": document} for document in search(query, k)]}


class SearchServer(HTTPServerThread):
    """`answer` returns status, headers and text for the number of a request and its body."""

    def __init__(
        self, answer: Callable[[int, Any], tuple[int, Mapping[str, str], str]] | None = None
    ) -> None:
        super().__init__()
        self.answer = answer or (lambda _, body: (200, {}, json.dumps(found(**body))))
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        self.url = f"{self.origin}/search"

    def respond(self, request: HTTPRequest) -> HTTPAnswer:
        body = json.loads(request.content) if request.content else None
        self.requests.append((request.method, request.target, request.headers, body))
        status, headers, text = self.answer(len(self.requests), body)
        return status, headers, text.encode()


def main(seconds: float) -> None:
    def answer(_: int, body: Any) -> tuple[int, Mapping[str, str], str]:
        time.sleep(seconds)
        return 200, {}, json.dumps(found(**body))

    with SearchServer(answer) as server:
        print(server.port, flush=True)  # noqa: T201 - for the process that started this one
        sys.stdin.read()


if __name__ == "__main__":
    main(float(sys.argv[1]))
