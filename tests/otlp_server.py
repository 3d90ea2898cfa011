"""An OpenTelemetry collector on 127.0.0.1 for tests: real HTTP, bodies as OpenTelemetry's own package reads them."""

import threading
from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.http_server import HTTPAnswer, HTTPRequest, HTTPServerThread


class Collector(HTTPServerThread):
    """A collector that receives events while its context manager is active.

    Attributes:
        replies: status, headers and body of the next responses; later responses have the status 200 and no body.
        requests: path and headers of each request.
        bodies: the decoded body of each request.
        hang: an event that each response waits for. It is set at the start, so that responses do not wait.
        url: the URL of the collector.
    """

    protocol = "HTTP/1.0"

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[HTTPAnswer] = []
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        self.bodies: list[ExportLogsServiceRequest] = []
        self.hang = threading.Event()
        self.hang.set()
        self.url = self.origin

    def respond(self, request: HTTPRequest) -> HTTPAnswer:
        self.requests.append((request.target, request.headers))
        self.bodies.append(Parse(request.content, ExportLogsServiceRequest()))
        self.hang.wait(60)
        return self.replies.pop(0) if self.replies else (200, {}, b"")

    def __exit__(self, *_: object) -> None:
        self.hang.set()
        super().__exit__()

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
