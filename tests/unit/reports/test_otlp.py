"""Events over HTTP, to a collector on this machine."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceResponse,
)

from pytest_rageval.errors import InputError
from pytest_rageval.reports import otlp
from pytest_rageval.reports.otlp import Collector as Target
from pytest_rageval.reports.otlp import send_events
from tests.otlp_server import Collector
from tests.unit.reports.test_events import document, entry


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that takes everything."""
    with Collector() as server:
        yield server


def questions(n: int) -> dict[str, Any]:
    """A report of n questions, which is n events and one of the score."""
    return document(entry(*({"id": f"q{i}", "score": i / 10} for i in range(n))))


def test_every_event_arrives_with_its_values_and_types(collector: Collector) -> None:
    """As the conventions have them: a value is a double, also where it is whole."""
    said = send_events(
        document(entry({"id": "q1", "score": 1, "explanation": "half a pair: \ud800 é"})), collector.url
    )
    assert said == f"2 events sent to {collector.url}/v1/logs"
    ((path, headers),) = collector.requests
    assert path == "/v1/logs"
    assert headers["content-type"] == "application/x-protobuf"
    (body,) = collector.bodies
    (resource,) = body.resource_logs
    (scope,) = resource.scope_logs
    assert (scope.scope.name, scope.scope.version) == ("pytest_rageval", "1.2")
    summary, result = scope.log_records
    assert summary.event_name == "rageval.score"
    assert result.event_name == "gen_ai.evaluation.result"
    assert result.time_unix_nano == 1_795_341_601_500_000_000
    kinds = {attribute.key: attribute.value.WhichOneof("value") for attribute in result.attributes}
    assert kinds["gen_ai.evaluation.score.value"] == "double_value"
    assert kinds["gen_ai.evaluation.name"] == "string_value"
    assert collector.events[1][1]["gen_ai.evaluation.explanation"] == r"half a pair: \ud800 é"
    assert collector.events[1][1]["rageval.question.id"] == "q1"
    assert collector.events[0][1]["rageval.scored"] == 2
    assert collector.resource["service.name"] == "pytest-rageval"
    assert collector.resource["rageval.run.stopped"] is False


def test_many_events_are_sent_in_several_requests(collector: Collector) -> None:
    """Each once, in their order."""
    send_events(questions(1200), collector.url)
    assert len(collector.bodies) == 3
    assert [found.get("rageval.question.id") for _, found in collector.events] == [
        None,
        *(f"q{i}" for i in range(1200)),
    ]


def test_the_environment_names_the_service_and_the_run(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the variables of OpenTelemetry."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=x,deployment.environment.name=a%20b")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "support bot")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{collector.url}/tenant/")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=abc%3D, x-tenant=t")
    assert send_events(questions(0), "") == f"1 events sent to {collector.url}/tenant/v1/logs"
    ((path, headers),) = collector.requests
    assert path == "/tenant/v1/logs"
    assert (headers["api-key"], headers["x-tenant"]) == ("abc=", "t")
    assert collector.resource["service.name"] == "support bot"
    assert collector.resource["deployment.environment.name"] == "a b"


@pytest.mark.parametrize(
    ("address", "environ", "url", "headers"),
    [
        ("", {}, "http://localhost:4318/v1/logs", {}),
        ("http://h:1", {}, "http://h:1/v1/logs", {}),
        ("http://h:1/v1/logs", {}, "http://h:1/v1/logs", {}),
        ("", {"ENDPOINT": "https://h/otlp"}, "https://h/otlp/v1/logs", {}),
        ("", {"ENDPOINT": "http://h", "LOGS_ENDPOINT": "http://i/in"}, "http://i/in", {}),
        ("", {"ENDPOINT": "http://h", "HEADERS": "k=v"}, "http://h/v1/logs", {"k": "v"}),
        ("", {"HEADERS": "k=v", "LOGS_HEADERS": "l=w"}, "http://localhost:4318/v1/logs", {"l": "w"}),
        ("http://i", {"HEADERS": "k=v"}, "http://i/v1/logs", {"k": "v"}),
        ("http://h", {"HEADERS": "k=v", "ENDPOINT": "http://h/"}, "http://h/v1/logs", {"k": "v"}),
        # The key is for the other one.
        ("http://i", {"HEADERS": "k=v", "ENDPOINT": "http://h"}, "http://i/v1/logs", {}),
        ("http://me:pw@h", {}, "http://h/v1/logs", {"Authorization": "Basic bWU6cHc="}),
    ],
)
def test_the_address_follows_from_the_option_and_the_environment(
    address: str, environ: dict[str, str], url: str, headers: dict[str, str]
) -> None:
    """An address of the option counts first; a variable of logs is the whole address."""
    found = Target.from_address(
        address, {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in environ.items()}
    )
    assert found.url.url == url
    assert {
        name: each for name, each in found.headers.items() if name not in {"Content-Type", "User-Agent"}
    } == headers


@pytest.mark.parametrize(
    ("address", "environ", "said"),
    [
        ("localhost:4318", {}, "the address of the collector: expected a URL that begins with http://"),
        ("", {"ENDPOINT": "h:4317"}, "OTEL_EXPORTER_OTLP_ENDPOINT of the collector: expected a URL"),
        ("", {"PROTOCOL": "grpc", "ENDPOINT": "http://h:4317"}, "give the collector's HTTP address"),
    ],
)
def test_an_address_that_cannot_be_used_is_an_error(address: str, environ: dict[str, str], said: str) -> None:
    """With one that can."""
    with pytest.raises(InputError, match=said):
        Target.from_address(address, {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in environ.items()})


def _refused() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_a_collector_that_cannot_be_reached_is_reported() -> None:
    """With its address, the reason, and how many events are missing."""
    url = _refused()
    with pytest.raises(ConnectionError, match=rf"{url}/v1/logs: .*refused.*; 0 of 3 events were taken"):
        send_events(questions(2), url)


def test_a_collector_that_does_not_answer_delays_nothing(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request has a limit."""
    monkeypatch.setattr(otlp, "REQUEST_TIMEOUT_S", 0.1)
    collector.hang.clear()
    with pytest.raises(ConnectionError, match=r"no answer in 0.1 s; 0 of 1 events were taken"):
        send_events(questions(0), collector.url)


def test_all_requests_together_have_a_limit(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each one is within its own."""
    monkeypatch.setattr(otlp, "TOTAL_TIMEOUT_S", 0.1)
    collector.hang.clear()
    with pytest.raises(ConnectionError, match=r"it took more than 0.1 s; 0 of 1 events were taken"):
        send_events(questions(0), collector.url)


def test_what_follows_a_batch_that_was_not_taken_is_not_sent(collector: Collector) -> None:
    """The number says what the collector has; the reason names the status."""
    collector.replies += [(200, {}, b""), (401, {}, b"secret")]
    with pytest.raises(ConnectionError, match=r"it answered 401 Unauthorized; 500 of 1201 events were taken"):
        send_events(questions(1200), collector.url)
    assert len(collector.requests) == 2


def test_a_busy_collector_is_asked_again(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that it names, else after a pause that doubles."""
    pauses: list[float] = []
    monkeypatch.setattr(otlp.time, "sleep", pauses.append)
    collector.replies += [(503, {"Retry-After": "7"}, b""), (429, {}, b""), (502, {}, b"")]
    send_events(questions(0), collector.url)
    assert len(collector.requests) == 4
    assert pauses == [7.0, 2.0, 4.0]


def test_a_collector_that_is_busy_for_too_long_is_not_waited_for(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit of all requests."""
    monkeypatch.setattr(otlp.time, "sleep", lambda _: pytest.fail("waited"))
    collector.replies.append((503, {"Retry-After": "3600"}, b""))
    with pytest.raises(ConnectionError, match="it answered 503"):
        send_events(questions(0), collector.url)


def test_no_redirect_is_followed(collector: Collector) -> None:
    """The key would go with it."""
    collector.replies.append((302, {"Location": f"{collector.url}/other"}, b""))
    with pytest.raises(ConnectionError, match="it answered 302 Found"):
        send_events(questions(0), collector.url)
    assert [path for path, _ in collector.requests] == ["/v1/logs"]


def test_events_that_the_collector_rejects_are_counted(collector: Collector) -> None:
    """It takes the others; its text cannot steer a terminal."""
    partial = ExportLogsPartialSuccess(rejected_log_records=2, error_message="too\n::error::long")
    reply = ExportLogsServiceResponse(partial_success=partial).SerializeToString()
    collector.replies.append((200, {}, reply))
    with pytest.raises(ConnectionError) as caught:
        send_events(questions(4), collector.url)
    assert str(caught.value) == (
        f"{collector.url}/v1/logs: 2 events were rejected: too\\n::error::long; 3 of 5 events were taken"
    )


@pytest.mark.parametrize("body", [b"\xff\xff not protobuf", b"{}"])
def test_a_reply_that_is_no_protobuf_is_no_problem(collector: Collector, body: bytes) -> None:
    """The status said that the events were taken."""
    collector.replies.append((200, {}, body))
    assert send_events(questions(1), collector.url).startswith("2 events sent")


def test_secrets_of_the_address_are_not_shown(collector: Collector) -> None:
    """Neither user nor password nor a key in the query."""
    collector.replies.append((500, {}, b""))
    address = collector.url.replace("//", "//me:secret-1@") + "?api_key=secret-2"
    with pytest.raises(ConnectionError) as caught:
        send_events(questions(0), address)
    assert "secret" not in str(caught.value)
    assert collector.requests[0][0] == "/v1/logs?api_key=secret-2"


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is sent."""

    def missing(name: str) -> Callable[..., Any]:
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("pytest_rageval.errors.import_module", missing)
    with pytest.raises(InputError, match=r"pip install 'pytest-rageval\[otel\]'"):
        send_events(questions(0), _refused())
