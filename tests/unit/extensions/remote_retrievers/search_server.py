"""A search over three passages, as a server at a URL: `python search_server.py SECONDS` prints its port."""

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

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


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # with the usual 5, connections that begin together are reset

    def handle_error(self, *_: object) -> None:
        """Be silent about a client that has gone away."""


class SearchServer:
    """`answer` returns status, headers and text for the number of a request and its body."""

    def __init__(
        self, answer: Callable[[int, Any], tuple[int, Mapping[str, str], str]] | None = None
    ) -> None:
        self.answer = answer or (lambda _, body: (200, {}, json.dumps(found(**body))))
        self.requests: list[tuple[str, str, dict[str, str], Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers.get("content-length", 0)))
                body = json.loads(text) if text else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.requests.append((self.command, self.path, headers, body))
                status, extra, answer = outer.answer(len(outer.requests), body)
                self.send_response(status)
                for name, value in {**extra, "Content-Length": str(len(answer.encode()))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.encode())

            do_GET = do_POST  # noqa: N815 - as the base class calls it

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/search"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def main(seconds: float) -> None:
    def answer(_: int, body: Any) -> tuple[int, Mapping[str, str], str]:
        time.sleep(seconds)
        return 200, {}, json.dumps(found(**body))

    with SearchServer(answer) as server:
        print(server.port, flush=True)  # noqa: T201 - for the process that started this one
        sys.stdin.read()


if __name__ == "__main__":
    main(float(sys.argv[1]))
