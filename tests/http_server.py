"""An HTTP server on 127.0.0.1 in threads of the test's process: the base of the servers that replay no model."""

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self


class HTTPRequest(NamedTuple):
    method: str
    target: str
    headers: dict[str, str]
    """The headers by their names in lower case."""
    content: bytes


HTTPAnswer = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body of a response."""


class HTTPServerThread:
    """A server that answers requests while its context manager is active; `origin` is its URL without a path."""

    protocol = "HTTP/1.1"
    """With "HTTP/1.0", a connection ends with its response."""

    def __init__(self) -> None:
        respond = self.respond

        class Handler(BaseHTTPRequestHandler):
            protocol_version = self.protocol
            # Head and body are two packets, of which the second would wait 40 ms for the client.
            disable_nagle_algorithm = True

            def answer(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                content = self.rfile.read(int(headers.get("content-length", 0)))
                status, answered, body = respond(HTTPRequest(self.command, self.path, headers, content))
                self.send_response(status)
                for name, value in {"content-length": str(len(body)), **answered}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer  # noqa: N815 - names of the base class

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.origin = f"http://127.0.0.1:{self.port}"

    def respond(self, request: HTTPRequest) -> HTTPAnswer:
        raise NotImplementedError

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # with the usual 5, connections that begin together are reset

    def handle_error(self, *_: object) -> None:
        """Ignore errors of connections that the client has closed, as in tests of timeouts."""
