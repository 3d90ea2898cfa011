"""Sends the results of a run to an OpenTelemetry collector, as events over OTLP/HTTP in JSON.

The attributes have the names of OpenTelemetry's semantic conventions (GenAI 1.41, in development). An attribute that
the conventions do not define has a name that begins with `rageval.`. Events contain no texts of questions, passages or
answers.
"""

import json
import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from http.client import HTTPException
from threading import Thread
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import unquote
from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.foreign_values import JsonObject
from pytest_rageval.lib.secret import BaseURL, basic_token
from pytest_rageval.lib.text import one_line
from pytest_rageval.reports.build import entry_name
from pytest_rageval.reports.document import ExampleEntry, ReportDocument, ScoreEntry, TestEntry

BATCH_SIZE: Final = 500  # events in one request
REQUEST_TIMEOUT_S: Final = 10.0  # after it no further events are sent
TOTAL_TIMEOUT_S: Final = 60.0  # of all requests together
RETRIED_STATUSES: Final = frozenset({429, 502, 503, 504})  # after these OTLP allows to repeat
MAX_REPLY_BYTES: Final = 1 << 16  # a reply has the number of events that were rejected
DEFAULT_URL: Final = "http://localhost:4318"
PATH: Final = "/v1/logs"
PREFIX: Final = "OTEL_EXPORTER_OTLP_"  # of the variables that configure OpenTelemetry's exporters
SEVERITY_INFO: Final = 9

QUESTION_EVENT: Final = "gen_ai.evaluation.result"  # of one question in one score
SCORE_EVENT: Final = "rageval.score"
"""The name of the event of one score of a test.

The conventions define no such event. A mean that was sent as `gen_ai.evaluation.result` would be counted in addition to
the results of its questions.
"""

DIGEST_DIGITS: Final = 16
STATUSES: Final = {"passed": "pass", "failed": "fail", "error": "fail"}
"""The value of `test.case.result.status` for each outcome of a test. The conventions define only "pass" and "fail".

"error" is the outcome of a test whose setup fails, for instance because a score cannot be computed.
"""


def send_events(document: ReportDocument, address: str) -> str:
    collector = Collector.from_address(address, os.environ)
    resource = resource_attributes(document) | _parse_pairs(os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    if name := os.environ.get("OTEL_SERVICE_NAME"):
        resource["service.name"] = name
    encode = partial(encode_request, document, resource)
    sender = _SenderThread(collector, encode, list(generate_events(document)))
    sender.start()
    # The request timeout does not limit a reply that arrives byte by byte. The thread is a daemon, so that it does not
    # delay the end of the process.
    sender.join(TOTAL_TIMEOUT_S)
    problem = f"it took more than {TOTAL_TIMEOUT_S:g} s" if sender.is_alive() else sender.problem
    if problem:
        counts = f"{sender.accepted} of {len(sender.events)} events were taken"
        raise ConnectionError(f"{collector.url.public}: {problem}; {counts}")
    return f"{sender.accepted} events sent to {collector.url.public}"


Attributes = dict[str, str | float | bool]


class Event(NamedTuple):
    name: str
    attributes: Attributes


def resource_attributes(document: ReportDocument) -> Attributes:
    run, settings = document.get("run", {}), document["settings"]
    baseline = run.get("baseline", {})
    return _drop_missing(
        {
            "service.name": "pytest-rageval",
            "vcs.ref.head.revision": run.get("commit"),
            "vcs.ref.head.name": run.get("branch"),
            "cicd.pipeline.run.url.full": run.get("url"),
            "rageval.run.started": document["started"],
            "rageval.run.dirty": run.get("dirty"),
            "rageval.run.stopped": document["stopped"],
            "rageval.generator": settings.get("generator"),
            "rageval.judge": settings.get("judge"),
            "rageval.baseline.path": baseline.get("path"),
            "rageval.baseline.commit": baseline.get("commit"),
        }
    )


def end_ns(document: ReportDocument) -> int:
    return int((datetime.fromisoformat(document["started"]).timestamp() + document["duration_s"]) * 1e9)


def generate_events(document: ReportDocument) -> Iterator[Event]:
    for test in document["tests"]:
        # Two thresholds on one score have two entries, and maybe only one of them has a baseline. Their questions have
        # one event, with the attributes of both entries; the first entry has precedence.
        results: dict[tuple[str, str, str], Attributes] = {}
        for entry in test["scores"]:
            shared = _shared_attributes(test, entry)
            yield Event(SCORE_EVENT, _drop_missing(shared | _score_attributes(entry)))
            baseline = entry.get("baseline") or {}
            change = dict.fromkeys(baseline.get("worse", ()), "worse")
            change |= dict.fromkeys(baseline.get("better", ()), "better")
            for example in entry["examples"]:
                key = shared["gen_ai.evaluation.name"], shared["rageval.where"], example["id"]
                attributes = _drop_missing(shared | _example_attributes(example, change.get(example["id"])))
                results[key] = attributes | results.get(key, {})
        yield from (Event(QUESTION_EVENT, attributes) for attributes in results.values())


def _shared_attributes(test: TestEntry, entry: ScoreEntry) -> dict[str, Any]:
    evalset = test.get("evalset") or {}
    fingerprint = entry.get("fingerprint") or test.get("fingerprint")
    return {
        "gen_ai.evaluation.name": entry_name(entry),
        "test.case.name": test["nodeid"],
        "test.case.result.status": STATUSES.get(test["outcome"]),
        "rageval.where": ", ".join(f"{tag}={value}" for tag, value in entry["where"].items()),
        "rageval.evalset.name": evalset.get("name"),
        "rageval.evalset.digest": evalset.get("digest", "")[:DIGEST_DIGITS],
        # Scores can be compared only if their fingerprints are equal.
        "rageval.fingerprint": digest(fingerprint)[:DIGEST_DIGITS] if fingerprint else None,
    }


def _score_attributes(entry: ScoreEntry) -> dict[str, Any]:
    baseline = entry.get("baseline") or {}
    low, high = entry.get("ci95") or (None, None)
    return {
        "gen_ai.evaluation.score.value": _to_float(entry["mean"]),
        "gen_ai.evaluation.score.label": entry.get("verdict"),
        "gen_ai.evaluation.explanation": entry.get("reason"),
        "error.type": "not_computed" if entry.get("verdict") == "error" else None,
        "rageval.statistic": entry.get("statistic", "mean"),
        "rageval.ci95.low": low,
        "rageval.ci95.high": high,
        "rageval.scored": entry["n"],
        "rageval.unscored": entry["unscored"],
        "rageval.undefined": entry.get("undefined"),
        "rageval.baseline.mean": baseline.get("mean"),
        "rageval.baseline.drop": baseline.get("drop"),
        "rageval.baseline.p_value": baseline.get("p_value"),
    }


def _example_attributes(example: ExampleEntry, change: str | None) -> dict[str, Any]:
    unscored, undefined = example["unscored"], example.get("undefined")
    same = "same" if example["score"] is not None and example.get("before") is not None else None
    return {
        "gen_ai.evaluation.score.value": _to_float(example["score"]),
        "gen_ai.evaluation.score.label": (
            change or same or example.get("early_stop") or ("undefined" if undefined else None)
        ),
        "gen_ai.evaluation.explanation": unscored or undefined or example.get("explanation"),
        "error.type": "unscored" if unscored else None,
        "rageval.question.id": example["id"],
        "rageval.before": example.get("before"),
        "rageval.lost_by": example.get("lost_by"),
        "rageval.case": example.get("case"),
    }


def _to_float(value: float | None) -> float | None:
    """Return the value as a float, because the conventions define the attribute as a double."""
    return None if value is None else float(value)


def _drop_missing(attributes: JsonObject) -> Attributes:
    return {name: value for name, value in attributes.items() if value not in {None, ""}}


class Collector(NamedTuple):
    url: BaseURL
    headers: Mapping[str, str]
    certificate: str | None

    @classmethod
    def from_address(cls, address: str, environ: Mapping[str, str]) -> "Collector":
        """Create the collector at an address, or the collector that the environment variables name.

        The variable with headers may contain an API key. If the environment also names a collector, the headers are
        sent only to that collector.
        """
        exact, base = _variable(environ, "ENDPOINT", general=False), environ.get(f"{PREFIX}ENDPOINT", "")
        endpoint = exact or base
        if not address and _variable(environ, "PROTOCOL") == "grpc":
            raise InputError(
                f"{PREFIX}PROTOCOL is grpc, and events are sent over HTTP only: give the collector's HTTP address, "
                "such as --rageval-report otlp:http://localhost:4318"
            )
        named = _parse_url(address, "the address") if address else None
        configured = _parse_url(endpoint or DEFAULT_URL, f"{PREFIX}ENDPOINT")
        url = named or configured
        headers = {"Content-Type": "application/json", "User-Agent": "pytest-rageval"}
        if url.login is not None:
            headers["Authorization"] = f"Basic {basic_token(url.login.reveal())}"
        if not endpoint or url.url == configured.url:
            headers |= _parse_pairs(_variable(environ, "HEADERS"))
        if not url.url.endswith(PATH) and (address or not exact):
            url = BaseURL(f"{url.url}{PATH}", f"{url.public}{PATH}", url.login, url.query)
        return cls(url, headers, _variable(environ, "CERTIFICATE") or None)

    def post(self, body: bytes) -> bytes:
        url = self.url.url if self.url.query is None else f"{self.url.url}?{self.url.query.reveal()}"
        context = ssl.create_default_context(cafile=self.certificate) if self.certificate else None
        request = Request(url, body, dict(self.headers), method="POST")  # noqa: S310 - BaseURL allows http and https
        opener = build_opener(HTTPSHandler(context=context), _NoRedirectHandler())
        with opener.open(request, timeout=REQUEST_TIMEOUT_S) as reply:
            content: bytes = reply.read(MAX_REPLY_BYTES)
        return content


class _NoRedirectHandler(HTTPRedirectHandler):
    """Follows no redirect, because the headers, which may contain an API key, would be sent to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


def encode_request(document: ReportDocument, resource: Attributes, events: Sequence[Event]) -> bytes:
    """Return a request with the events in OTLP's JSON, which has integers of 64 bits as texts."""
    time_ns = str(end_ns(document))
    records = [
        {
            "eventName": event.name,
            "timeUnixNano": time_ns,
            "observedTimeUnixNano": time_ns,
            "severityNumber": SEVERITY_INFO,
            "attributes": _key_values(event.attributes),
        }
        for event in events
    ]
    scope = {"name": "pytest_rageval", "version": document["package"]}
    logs = {
        "resource": {"attributes": _key_values(resource)},
        "scopeLogs": [{"scope": scope, "logRecords": records}],
    }
    return json.dumps({"resourceLogs": [logs]}, ensure_ascii=False, allow_nan=False).encode()


def _key_values(attributes: Attributes) -> list[dict[str, object]]:
    return [{"key": _whole(name), "value": _any_value(value)} for name, value in attributes.items()]


def _any_value(value: str | float | bool) -> dict[str, object]:  # noqa: FBT001 - a value of an attribute
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, str):
        return {"stringValue": _whole(value)}
    return {"intValue": str(value)} if isinstance(value, int) else {"doubleValue": value}


def _whole(text: str) -> str:
    """Return a text without unpaired surrogates, which UTF-8 cannot encode."""
    return text.encode(errors="backslashreplace").decode()


def decode_rejection(reply: bytes) -> tuple[int, str]:
    # The status said that the request was accepted, whatever the reply is.
    with suppress(ValueError, TypeError, AttributeError):
        partial = json.loads(reply).get("partialSuccess", {})
        return int(partial.get("rejectedLogRecords", 0)), str(partial.get("errorMessage", ""))
    return 0, ""


class _SenderThread(Thread):
    def __init__(
        self, collector: Collector, encode: Callable[[Sequence[Event]], bytes], events: Sequence[Event]
    ) -> None:
        super().__init__(name="rageval-otlp", daemon=True)
        self.events = events
        self.accepted = 0
        self.problem = ""
        self._collector = collector
        self._encode = encode
        self._deadline = time.monotonic() + TOTAL_TIMEOUT_S

    def run(self) -> None:
        try:
            for start in range(0, len(self.events), BATCH_SIZE):
                batch = self.events[start : start + BATCH_SIZE]
                reply = self._send(self._encode(batch))
                rejected, reason = decode_rejection(reply)
                self.accepted += len(batch) - rejected
                if rejected:
                    self.problem = (
                        f"{rejected} events were rejected: {one_line(reason)[:200] or 'no reason given'}"
                    )
        except Exception as error:  # noqa: BLE001 - the waiting thread reports any error
            self.problem = _error_text(error)

    def _send(self, body: bytes) -> bytes:
        """Send a request and return the reply; repeat the request if the collector is busy (`RETRIED_STATUSES`)."""
        backoff = 1.0
        while True:
            try:
                return self._collector.post(body)
            except HTTPError as error:
                error.close()
                retry_after = error.headers.get("Retry-After", "")
                wait = float(retry_after) if retry_after.isdecimal() else backoff
                if error.code not in RETRIED_STATUSES or time.monotonic() + wait >= self._deadline:
                    raise
            time.sleep(wait)
            backoff *= 2


def _error_text(error: Exception) -> str:
    if isinstance(error, HTTPError):
        return f"it answered {error.code} {one_line(str(error.reason))[:80]}".rstrip()
    if isinstance(error, URLError) and isinstance(error.reason, Exception):
        error = error.reason
    if isinstance(error, TimeoutError):
        return f"no answer in {REQUEST_TIMEOUT_S:g} s"
    if isinstance(error, OSError | HTTPException):
        return one_line(getattr(error, "strerror", None) or str(error) or type(error).__name__)[:200]
    return f"{type(error).__name__}: {one_line(str(error))[:200]}"


def _parse_url(text: str, what: str) -> BaseURL:
    try:
        return BaseURL.parse(text)
    except ValueError as error:
        raise InputError(f"{what} of the collector: {error}, such as otlp:{DEFAULT_URL}") from None


def _variable(environ: Mapping[str, str], name: str, *, general: bool = True) -> str:
    """Return the exporter's variable for logs, else the variable for all signals if `general`; empty if not set."""
    for_logs = environ.get(f"{PREFIX}LOGS_{name}", "")
    return (for_logs or (environ.get(f"{PREFIX}{name}", "") if general else "")).strip()


def _parse_pairs(text: str) -> dict[str, str]:
    """Parse a variable such as "api-key=abc,tenant=x%20y" as a dict of names and values."""
    parts = (part.partition("=") for part in text.split(",") if "=" in part)
    return {unquote(name.strip()): unquote(value.strip()) for name, _, value in parts}
