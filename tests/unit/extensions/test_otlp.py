"""The OpenTelemetry events of a run's results, and their export over HTTP to a local collector."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceResponse,
)

from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.otlp import otlp
from pytest_rageval.extensions.otlp.otlp import (
    QUESTION_EVENT,
    SCORE_EVENT,
    generate_events,
    resource_attributes,
    send_events,
)
from pytest_rageval.extensions.otlp.otlp import Collector as Target
from tests.otlp_server import Collector


def entry(*examples: dict[str, Any], **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "spec": "recall@3",
        "where": {},
        "mean": 0.5,
        "ci95": [0.25, 0.75],
        "n": 2,
        "unscored": 1,
        "undefined": 0,
        "verdict": "pass",
        "reason": "0.500 is at least 0.4",
        "baseline": None,
        "examples": [{"score": None, "unscored": None, **example} for example in examples],
    }
    return fields | changes


def document(*scores: dict[str, Any], **changes: Any) -> dict[str, Any]:
    test = {
        "nodeid": "test_a.py::test_b",
        "outcome": "failed",
        "evalset": {"name": "evals.jsonl", "size": 3, "digest": "ab" * 32},
        "fingerprint": {"generator": "m1"},
        "scores": list(scores),
    }
    fields: dict[str, Any] = {
        "package": "1.2",
        "started": "2026-11-22T10:00:00+00:00",
        "duration_s": 1.5,
        "stopped": False,
        "settings": {"generator": "m1 at http://h", "judge": "m2"},
        "tests": [test],
    }
    return fields | changes


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        yield server


def questions(n: int) -> dict[str, Any]:
    return document(entry(*({"id": f"q{i}", "score": i / 10} for i in range(n))))


def test_every_event_arrives_with_its_values_and_types(collector: Collector) -> None:
    message = send_events(
        document(entry({"id": "q1", "score": 1, "explanation": "half a pair: \ud800 é"})), collector.url
    )
    assert message == f"2 events sent to {collector.url}/v1/logs"
    ((path, headers),) = collector.requests
    assert path == "/v1/logs"
    assert headers["content-type"] == "application/json"
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
    send_events(questions(1200), collector.url)
    assert len(collector.bodies) == 3
    assert [attributes.get("rageval.question.id") for _, attributes in collector.events] == [
        None,
        *(f"q{i}" for i in range(1200)),
    ]


def test_the_environment_names_the_service_and_the_run(collector, monkeypatch):
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
        # The headers are only sent to the endpoint of the environment.
        ("http://i", {"HEADERS": "k=v", "ENDPOINT": "http://h"}, "http://i/v1/logs", {}),
        ("http://me:pw@h", {}, "http://h/v1/logs", {"Authorization": "Basic bWU6cHc="}),
    ],
)
def test_the_address_follows_from_the_option_and_the_environment(address, environ, url, headers):
    target = Target.from_address(
        address, {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in environ.items()}
    )
    assert target.url.url == url
    assert {
        name: header for name, header in target.headers.items() if name not in {"Content-Type", "User-Agent"}
    } == headers


@pytest.mark.parametrize(
    ("address", "environ", "message"),
    [
        ("localhost:4318", {}, "the address of the collector: expected a URL that begins with http://"),
        ("", {"ENDPOINT": "h:4317"}, "OTEL_EXPORTER_OTLP_ENDPOINT of the collector: expected a URL"),
        ("", {"PROTOCOL": "grpc", "ENDPOINT": "http://h:4317"}, "give the collector's HTTP address"),
    ],
)
def test_an_address_that_cannot_be_used_is_an_error(address, environ, message):
    with pytest.raises(InputError, match=message):
        Target.from_address(address, {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in environ.items()})


def _refused() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_a_collector_that_cannot_be_reached_is_reported() -> None:
    url = _refused()
    with pytest.raises(ConnectionError, match=rf"{url}/v1/logs: .*refused.*; 0 of 3 events were taken"):
        send_events(questions(2), url)


@pytest.mark.parametrize(
    ("limit", "reason"),
    [("REQUEST_TIMEOUT_S", "no answer in 0.1 s"), ("TOTAL_TIMEOUT_S", "it took more than 0.1 s")],
)
def test_one_request_and_all_together_have_a_limit(collector, monkeypatch, limit, reason):
    monkeypatch.setattr(otlp, limit, 0.1)
    collector.hang.clear()
    with pytest.raises(ConnectionError, match=rf"{reason}; 0 of 1 events were taken"):
        send_events(questions(0), collector.url)


def test_what_follows_a_batch_that_was_not_taken_is_not_sent(collector: Collector) -> None:
    """After a rejected batch, no further batch is sent; the error has the status and the number of accepted events."""
    collector.replies += [(200, {}, b""), (401, {}, b"secret")]
    with pytest.raises(ConnectionError, match=r"it answered 401 Unauthorized; 500 of 1201 events were taken"):
        send_events(questions(1200), collector.url)
    assert len(collector.requests) == 2


def test_a_busy_collector_is_asked_again(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(otlp.time, "sleep", pauses.append)
    collector.replies += [(503, {"Retry-After": "7"}, b""), (429, {}, b""), (502, {}, b"")]
    send_events(questions(0), collector.url)
    assert len(collector.requests) == 4
    assert pauses == [7.0, 2.0, 4.0]


def test_a_collector_that_is_busy_for_too_long_is_not_waited_for(collector, monkeypatch):
    """If `Retry-After` exceeds the limit of all requests, the request is not retried."""
    monkeypatch.setattr(otlp.time, "sleep", lambda _: pytest.fail("waited"))
    collector.replies.append((503, {"Retry-After": "3600"}, b""))
    with pytest.raises(ConnectionError, match="it answered 503"):
        send_events(questions(0), collector.url)


def test_no_redirect_is_followed(collector: Collector) -> None:
    """A redirect is not followed, because the API key would be sent to the other address."""
    collector.replies.append((302, {"Location": f"{collector.url}/other"}, b""))
    with pytest.raises(ConnectionError, match="it answered 302 Found"):
        send_events(questions(0), collector.url)
    assert [path for path, _ in collector.requests] == ["/v1/logs"]


def test_events_that_the_collector_rejects_are_counted(collector: Collector) -> None:
    partial = ExportLogsPartialSuccess(rejected_log_records=2, error_message="too\n::error::long")
    reply = MessageToJson(ExportLogsServiceResponse(partial_success=partial))
    collector.replies.append((200, {}, reply.encode()))
    with pytest.raises(ConnectionError) as caught:
        send_events(questions(4), collector.url)
    assert str(caught.value) == (
        f"{collector.url}/v1/logs: 2 events were rejected: too\\n::error::long; 3 of 5 events were taken"
    )


@pytest.mark.parametrize("body", [b"\xff\xff not JSON", b"{}", b"[]", b'{"partialSuccess": 1}'])
def test_a_reply_of_another_form_is_no_problem(collector: Collector, body: bytes) -> None:
    collector.replies.append((200, {}, body))
    assert send_events(questions(1), collector.url).startswith("2 events sent")


def test_secrets_of_the_address_are_not_shown(collector: Collector) -> None:
    collector.replies.append((500, {}, b""))
    address = collector.url.replace("//", "//me:secret-1@") + "?api_key=secret-2"
    with pytest.raises(ConnectionError) as caught:
        send_events(questions(0), address)
    assert "secret" not in str(caught.value)
    assert collector.requests[0][0] == "/v1/logs?api_key=secret-2"


def test_each_question_of_each_score_is_an_event() -> None:
    """Each question has an event with the attributes of the semantic conventions and the origin of the result."""
    question = {"id": "q1", "score": 1.0, "explanation": "It says so.", "lost_by": None, "case": "A"}
    summary, result = generate_events(document(entry(question)))
    assert summary.name == SCORE_EVENT == "rageval.score"
    assert result.name == QUESTION_EVENT == "gen_ai.evaluation.result"
    assert result.attributes == {
        "gen_ai.evaluation.name": "recall@3",
        "gen_ai.evaluation.score.value": 1.0,
        "gen_ai.evaluation.explanation": "It says so.",
        "test.case.name": "test_a.py::test_b",
        "test.case.result.status": "fail",
        "rageval.evalset.name": "evals.jsonl",
        "rageval.evalset.digest": "ab" * 8,
        "rageval.fingerprint": result.attributes["rageval.fingerprint"],
        "rageval.question.id": "q1",
        "rageval.case": "A",
    }


def test_the_mean_of_a_score_is_an_event_of_another_name() -> None:
    """The mean has another event name, so that an average over question events does not include it."""
    baseline = {"mean": 0.75, "drop": 0.25, "p_value": 0.01, "worse": [], "better": []}
    (summary,) = generate_events(document(entry(baseline=baseline, where={"topic": "a", "kind": "b"})))
    assert summary.attributes == {
        "gen_ai.evaluation.name": "recall@3",
        "gen_ai.evaluation.score.value": 0.5,
        "gen_ai.evaluation.score.label": "pass",
        "gen_ai.evaluation.explanation": "0.500 is at least 0.4",
        "test.case.name": "test_a.py::test_b",
        "test.case.result.status": "fail",
        "rageval.where": "topic=a, kind=b",
        "rageval.evalset.name": "evals.jsonl",
        "rageval.evalset.digest": "ab" * 8,
        "rageval.fingerprint": summary.attributes["rageval.fingerprint"],
        "rageval.statistic": "mean",
        "rageval.ci95.low": 0.25,
        "rageval.ci95.high": 0.75,
        "rageval.scored": 2,
        "rageval.unscored": 1,
        "rageval.undefined": 0,
        "rageval.baseline.mean": 0.75,
        "rageval.baseline.drop": 0.25,
        "rageval.baseline.p_value": 0.01,
    }


def test_a_question_without_a_score_has_no_value_and_says_why() -> None:
    questions = (
        {"id": "q1", "unscored": "no verdict"},
        {"id": "q2", "undefined": "nothing to rank"},
        {"id": "q3", "early_stop": "not asked"},
        {"id": "q4", "score": 0.0},
    )
    _, *results = generate_events(document(entry(*questions)))
    shown = [
        (
            "gen_ai.evaluation.score.value" in event.attributes,
            event.attributes.get("error.type"),
            event.attributes.get("gen_ai.evaluation.score.label"),
            event.attributes.get("gen_ai.evaluation.explanation"),
        )
        for event in results
    ]
    assert shown == [
        (False, "unscored", None, "no verdict"),
        (False, None, "undefined", "nothing to rank"),
        (False, None, "not asked", None),
        (True, None, None, None),
    ]


def test_a_score_that_could_not_be_computed_is_an_error() -> None:
    (event,) = generate_events(document(entry(mean=None, ci95=None, verdict="error", reason="no retriever")))
    assert event.attributes["error.type"] == "not_computed"
    assert event.attributes["gen_ai.evaluation.explanation"] == "no retriever"
    assert "gen_ai.evaluation.score.value" not in event.attributes
    assert "rageval.ci95.low" not in event.attributes


def test_the_label_of_a_result_compares_it_with_the_baseline() -> None:
    baseline = {"mean": 0.5, "drop": 0.0, "worse": ["q1"], "better": ["q2"]}
    questions = (
        {"id": "q1", "score": 0.0, "before": 1.0},
        {"id": "q2", "score": 1.0, "before": 0.0},
        {"id": "q3", "score": 1.0, "before": 1.0},
        {"id": "q4", "score": 1.0},
        {"id": "q5", "unscored": "no verdict", "before": 1.0},
    )
    _, *results = generate_events(document(entry(*questions, baseline=baseline)))
    labels = [event.attributes.get("gen_ai.evaluation.score.label") for event in results]
    assert labels == ["worse", "better", "same", None, None]
    assert [event.attributes.get("rageval.before") for event in results] == [1.0, 0.0, 1.0, None, 1.0]


@pytest.mark.parametrize("first", [0, 1])
def test_two_thresholds_on_a_score_have_one_result_for_each_question(first: int) -> None:
    """With two events, an average over the events would count the question twice."""
    compared = entry(
        {"id": "q1", "score": 0.0, "before": 1.0}, baseline={"mean": 1.0, "worse": ["q1"], "better": []}
    )
    scores = [compared, entry({"id": "q1", "score": 0.0})]
    *summaries, result = generate_events(document(*(scores[::-1] if first else scores)))
    assert [event.name for event in summaries] == [SCORE_EVENT, SCORE_EVENT]
    assert result.attributes["gen_ai.evaluation.score.label"] == "worse"
    assert result.attributes["rageval.before"] == 1.0


@pytest.mark.parametrize(
    ("outcome", "status"), [("passed", "pass"), ("failed", "fail"), ("error", "fail"), ("skipped", None)]
)
def test_the_outcome_of_the_test_is_one_of_the_conventions(outcome: str, status: str | None) -> None:
    report = document(entry())
    report["tests"][0]["outcome"] = outcome
    (event,) = generate_events(report)
    assert event.attributes.get("test.case.result.status") == status


def test_the_fingerprint_is_that_of_the_score_else_of_the_test() -> None:
    first, second, third = generate_events(
        document(entry(fingerprint={"generator": "m1"}), entry(), entry(fingerprint={"generator": "m2"}))
    )
    assert first.attributes["rageval.fingerprint"] == second.attributes["rageval.fingerprint"]
    assert len(first.attributes["rageval.fingerprint"]) == 16
    assert third.attributes["rageval.fingerprint"] != first.attributes["rageval.fingerprint"]


def test_the_resource_is_the_run() -> None:
    assert resource_attributes(document()) == {
        "service.name": "pytest-rageval",
        "rageval.run.started": "2026-11-22T10:00:00+00:00",
        "rageval.run.stopped": False,
        "rageval.generator": "m1 at http://h",
        "rageval.judge": "m2",
    }
    run = {
        "commit": "c0ffee",
        "branch": "main",
        "dirty": True,
        "url": "https://ci/1",
        "baseline": {"path": "b.json", "commit": "bead"},
    }
    assert resource_attributes(document(run=run)).items() >= {
        ("vcs.ref.head.revision", "c0ffee"),
        ("vcs.ref.head.name", "main"),
        ("cicd.pipeline.run.url.full", "https://ci/1"),
        ("rageval.run.dirty", True),
        ("rageval.baseline.path", "b.json"),
        ("rageval.baseline.commit", "bead"),
    }
