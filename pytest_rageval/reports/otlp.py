"""Sends the results of a run to an OpenTelemetry collector, as events over OTLP/HTTP in protobuf."""

import os
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from itertools import islice
from threading import Thread
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import unquote
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from pytest_rageval.errors import InputError, require
from pytest_rageval.printable import one_line
from pytest_rageval.reports.events import Event, ended_ns, events_of, resource_of
from pytest_rageval.secret import BaseURL, basic_token

__all__ = ["send_events"]

BATCH: Final = 500
"""Events of one request."""

REQUEST_S: Final = 10.0
"""A collector that is silent for so long gets nothing more."""

ALL_S: Final = 60.0
"""Sending takes at most this long in all."""

AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses after which OTLP repeats a request."""

MOST_BYTES: Final = 1 << 16
"""Of a collector's reply, which is read for the number of events that it rejected."""

DEFAULT: Final = "http://localhost:4318"
PATH: Final = "/v1/logs"
VARIABLE: Final = "OTEL_EXPORTER_OTLP_"
INFO: Final = 9


def send_events(document: Mapping[str, Any], address: str) -> str:
    """Send each result as an event; return how many went where.

    Args:
        document: all results.
        address: the URL of the collector; empty for that of the environment.

    Raises:
        InputError: the extra is not installed, or the address or the environment names no usable URL.
        ConnectionError: the collector does not answer, answers too late, or does not take all events.
    """
    collector = Collector.of(address, os.environ)
    encoder = _Encoder(document, os.environ)
    sending = _Sending(collector, encoder, list(events_of(document)))
    sending.start()
    # A reply that comes byte by byte has no other limit. The thread is a daemon: it delays nothing.
    sending.join(ALL_S)
    problem = f"it took more than {ALL_S:g} s" if sending.is_alive() else sending.problem
    if problem:
        of = len(sending.events)
        raise ConnectionError(f"{collector.url.public}: {problem}; {sending.taken} of {of} events were taken")
    return f"{sending.taken} events sent to {collector.url.public}"


class Collector(NamedTuple):
    """The server that events are sent to.

    Attributes:
        url: with the path.
        headers: of each request; keys are among them.
        certificate: a file of authorities to trust in place of the system's.
    """

    url: BaseURL
    headers: Mapping[str, str]
    certificate: str | None

    @classmethod
    def of(cls, address: str, environ: Mapping[str, str]) -> "Collector":
        """The collector at an address, or the one that the variables of OpenTelemetry's exporters name.

        Headers of the environment may hold a key: where it names another collector too, they are for that one alone.
        """
        exact, base = _variable(environ, "ENDPOINT", general=False), environ.get(f"{VARIABLE}ENDPOINT", "")
        named = exact or base
        if not address and _variable(environ, "PROTOCOL") == "grpc":
            raise InputError(
                f"{VARIABLE}PROTOCOL is grpc, and events are sent over HTTP only: give the collector's HTTP address, "
                "such as --rageval-report otlp:http://localhost:4318"
            )
        url = _url(address, "the address") if address else _url(named or DEFAULT, f"{VARIABLE}ENDPOINT")
        own = not address or not named or url.url == _url(named, f"{VARIABLE}ENDPOINT").url
        headers = {"Content-Type": "application/x-protobuf", "User-Agent": "pytest-rageval"}
        if url.login is not None:
            headers["Authorization"] = f"Basic {basic_token(url.login.reveal())}"
        if own:
            headers |= _pairs(_variable(environ, "HEADERS"))
        if not url.url.endswith(PATH) and (address or not exact):
            url = BaseURL(f"{url.url}{PATH}", f"{url.public}{PATH}", url.login, url.query)
        return cls(url, headers, _variable(environ, "CERTIFICATE") or None)

    def post(self, body: bytes) -> bytes:
        """Send a request; return the beginning of the reply.

        Raises:
            OSError: there is no reply, or it says that the request failed.
        """
        url = self.url.url if self.url.query is None else f"{self.url.url}?{self.url.query.reveal()}"
        context = ssl.create_default_context(cafile=self.certificate) if self.certificate else None
        request = Request(url, body, dict(self.headers), method="POST")  # noqa: S310 - BaseURL allows http and https
        with build_opener(HTTPSHandler(context=context), _Stay()).open(request, timeout=REQUEST_S) as reply:
            content: bytes = reply.read(MOST_BYTES)
        return content


class _Stay(HTTPRedirectHandler):
    """Follows no redirect: the headers with the key would go to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Encoder:
    """Events as requests of OTLP.

    Raises:
        InputError: the extra is not installed.
    """

    def __init__(self, document: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        package = "opentelemetry.proto"
        purpose = {"extra": "otel", "purpose": "--rageval-report otlp:"}
        self._service = require(f"{package}.collector.logs.v1.logs_service_pb2", **purpose)
        self._common = require(f"{package}.common.v1.common_pb2", **purpose)
        self._logs = require(f"{package}.logs.v1.logs_pb2", **purpose)
        self._resource = require(f"{package}.resource.v1.resource_pb2", **purpose)
        self._document = document
        self._at = ended_ns(document)
        self._about = resource_of(document) | _pairs(environ.get("OTEL_RESOURCE_ATTRIBUTES", ""))
        if name := environ.get("OTEL_SERVICE_NAME"):
            self._about["service.name"] = name

    def request(self, events: Sequence[Event]) -> bytes:
        """One request with these events."""
        scope = self._common.InstrumentationScope(name="pytest_rageval", version=self._document["package"])
        records = self._logs.ScopeLogs(scope=scope, log_records=map(self._record, events))
        resource = self._resource.Resource(attributes=self._attributes(self._about))
        logs = self._logs.ResourceLogs(resource=resource, scope_logs=[records])
        encoded: bytes = self._service.ExportLogsServiceRequest(resource_logs=[logs]).SerializeToString()
        return encoded

    def rejected(self, reply: bytes) -> tuple[int, str]:
        """Return the number of events of a request that the collector rejected, and its reason."""
        found = self._service.ExportLogsServiceResponse()
        try:
            found.MergeFromString(reply)
        except Exception:  # noqa: BLE001 - protobuf's own error; the status said that the request was taken
            return 0, ""
        return found.partial_success.rejected_log_records, found.partial_success.error_message

    def _record(self, event: Event) -> Any:
        return self._logs.LogRecord(
            event_name=event.name,
            time_unix_nano=self._at,
            observed_time_unix_nano=self._at,
            severity_number=INFO,
            attributes=self._attributes(event.attributes),
        )

    def _attributes(self, attributes: Mapping[str, Any]) -> list[Any]:
        return [self._common.KeyValue(key=name, value=self._value(each)) for name, each in attributes.items()]

    def _value(self, value: str | float | bool) -> Any:  # noqa: FBT001 - a value of an attribute
        if isinstance(value, bool):
            return self._common.AnyValue(bool_value=value)
        if isinstance(value, str):
            # UTF-8 has no half of a surrogate pair.
            return self._common.AnyValue(string_value=value.encode(errors="backslashreplace").decode())
        kind = "int_value" if isinstance(value, int) else "double_value"
        return self._common.AnyValue(**{kind: value})


class _Sending(Thread):
    """Sends events, batch after batch, until one is not taken.

    Attributes:
        events: all of them.
        taken: how many the collector has taken.
        problem: why it took no more; empty where it took all.
    """

    def __init__(self, collector: Collector, encoder: _Encoder, events: Sequence[Event]) -> None:
        super().__init__(name="rageval-otlp", daemon=True)
        self.events = events
        self.taken = 0
        self.problem = ""
        self._collector = collector
        self._encoder = encoder
        self._until = time.monotonic() + ALL_S

    def run(self) -> None:
        """Send all batches; a problem is kept for the thread that waits."""
        try:
            for batch in _batches(self.events):
                rejected, why = self._encoder.rejected(self._send(self._encoder.request(batch)))
                self.taken += len(batch) - rejected
                if rejected:
                    self.problem = (
                        f"{rejected} events were rejected: {one_line(why)[:200] or 'no reason given'}"
                    )
        except Exception as error:  # noqa: BLE001 - the thread that waits reports any error
            self.problem = _text(error)

    def _send(self, body: bytes) -> bytes:
        """The reply to a request, which is repeated where the collector says that it is busy."""
        pause = 1.0
        while True:
            try:
                return self._collector.post(body)
            except HTTPError as error:
                error.close()
                asked = error.headers.get("Retry-After", "")
                wait = float(asked) if asked.isdecimal() else pause
                if error.code not in AGAIN or time.monotonic() + wait >= self._until:
                    raise
            time.sleep(wait)
            pause *= 2


def _batches(events: Sequence[Event]) -> Iterator[list[Event]]:
    rest = iter(events)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _text(error: Exception) -> str:
    """Return the reason for which a request failed, as text."""
    if isinstance(error, HTTPError):
        return f"it answered {error.code} {one_line(str(error.reason))[:80]}".rstrip()
    if isinstance(error, URLError) and isinstance(error.reason, Exception):
        error = error.reason
    if isinstance(error, TimeoutError):
        return f"no answer in {REQUEST_S:g} s"
    if isinstance(error, OSError | HTTPException):
        return one_line(getattr(error, "strerror", None) or str(error) or type(error).__name__)[:200]
    return f"{type(error).__name__}: {one_line(str(error))[:200]}"


def _url(text: str, what: str) -> BaseURL:
    try:
        return BaseURL.parse(text)
    except ValueError as error:
        raise InputError(f"{what} of the collector: {error}, such as otlp:{DEFAULT}") from None


def _variable(environ: Mapping[str, str], name: str, *, general: bool = True) -> str:
    """A variable of exporters: that for logs, else the general one."""
    own = environ.get(f"{VARIABLE}LOGS_{name}", "")
    return (own or (environ.get(f"{VARIABLE}{name}", "") if general else "")).strip()


def _pairs(text: str) -> dict[str, str]:
    """The pairs of a variable such as "api-key=abc,tenant=x%20y"."""
    parts = (each.partition("=") for each in text.split(",") if "=" in each)
    return {unquote(name.strip()): unquote(value.strip()) for name, _, value in parts}
