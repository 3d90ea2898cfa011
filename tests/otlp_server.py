"""An OpenTelemetry collector on 127.0.0.1 for tests: real HTTP, bodies as OpenTelemetry's own package reads them."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest


@dataclass
class Collector:
    """A collector that receives events while its context manager is active.

    Attributes:
        replies: status, headers and body of the next responses; later responses have the status 200 and no body.
        requests: path and headers of each request.
        bodies: the decoded body of each request.
        hang: an event that each response waits for. It is set at the start, so that responses do not wait.
        url: the URL of the collector.
    """

    replies: list[tuple[int, Mapping[str, str], bytes]] = field(default_factory=list)
    requests: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    bodies: list[ExportLogsServiceRequest] = field(default_factory=list)
    hang: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def __enter__(self) -> Self:
        collector = self
        collector.hang.set()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
                collector.bodies.append(Parse(body, ExportLogsServiceRequest()))
                collector.hang.wait(60)
                queued = collector.replies
                status, headers, content = queued.pop(0) if queued else (200, {}, b"")
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """Ignore errors of connections that the client has closed, as in tests of timeouts."""

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *_: object) -> None:
        self.hang.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def resource(self) -> dict[str, Any]:
        """The attributes of the resource that sent the events; they are equal in all requests."""
        [attributes] = {str(as_dict(body.resource_logs[0].resource.attributes)) for body in self.bodies}
        assert attributes
        return as_dict(self.bodies[0].resource_logs[0].resource.attributes)

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            (record.event_name, as_dict(record.attributes))
            for body in self.bodies
            for resource in body.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]


def as_dict(attributes: Any) -> dict[str, Any]:
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
        for attribute in attributes
    }
