"""`rageval view`: its requests, and the labels that it writes."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.cli import main
from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.calibration.human_labels import load_labels
from pytest_rageval.extensions.history.history import history_entry
from pytest_rageval.extensions.view import live_file
from pytest_rageval.extensions.view.server import VERDICTS, LabelFile, answers
from tests.foreign_plugins import WITHOUT
from tests.unit.reports.whole_document import whole_document
from tests.viewer import viewing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "report.json").write_text(json.dumps(whole_document()), encoding="utf-8")
    return tmp_path


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    with viewing(folder) as address:
        yield address


def _ask(
    address: str, path: str, data: object = None, headers: Mapping[str, str] = {}
) -> tuple[int, Any, Mapping[str, str]]:
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request(address + path, data=body, headers=dict(headers))  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
            return response.status, response.read().decode(), response.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def _state(address: str) -> Any:
    return json.loads(_ask(address, "state")[1])


def _own(address: str) -> dict[str, str]:
    return {"Origin": "/".join(address.split("/")[:3]), "Content-Type": "application/json"}


@pytest.mark.slow
def test_the_page_is_the_report_with_what_the_server_adds(address: str) -> None:
    """The page may run its own script alone, which may call its own server alone."""
    status, page, headers = _ask(address, "")
    assert (status, headers["X-Frame-Options"]) == (200, "DENY")
    assert "<h1>rageval: 1 of 2 thresholds failed, 1 passed</h1>" in page
    assert "connect-src &#39;self&#39;" in page
    assert page.count("<script>") == 1
    assert _ask(address, "history")[0] == 200


@pytest.mark.slow
def test_the_runs_of_the_history_are_in_the_state(folder: Path) -> None:
    document = whole_document(llm=dict.fromkeys(("live", "tokens_in", "tokens_out", "cost_usd"), 0))
    failed, passed = (
        history_entry(document | {"tests": [test | {"outcome": outcome} for test in document["tests"]]})
        for outcome in ("failed", "passed")
    )
    (folder / "h.jsonl").write_text(f"{json.dumps(failed)}\n{json.dumps(passed)}\n", encoding="utf-8")
    with viewing(folder, "--history", "h.jsonl") as address:
        state = _state(address)
        assert [run["failed"] for run in state["runs"]] == [0, len(document["tests"])]
        (test,) = passed["tests"].values()
        assert state["runs"][0]["scores"] == {
            name: score["mean"] for name, score in test["scores"].items() if score["mean"] is not None
        }
        assert state["all_runs"] == 2
        assert _ask(address, "history")[0] == 200


@pytest.mark.slow
def test_a_verdict_is_written_where_the_calibration_reads_it(address: str, folder: Path) -> None:
    found = _state(address)["answers"]
    keys = {each["answer"]: each["key"] for each in found}
    assert set(keys) == {"five days", "thirteen weeks"}
    for answer, verdict in (("five days", "wrong"), ("five days", "right"), ("thirteen weeks", "unclear")):
        status, text, _ = _ask(address, "labels", {"key": keys[answer], "verdict": verdict}, _own(address))
        assert (status, json.loads(text)["verdicts"][keys[answer]]) == (200, verdict)
    labels = load_labels(folder / "labels.jsonl")
    assert [(item.example.question, item.prediction, item.human) for item in labels.answers] == [
        ("How many days 0?", "five days", (1.0,))
    ]
    assert labels.unusable == ()
    assert len((folder / "labels.jsonl").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"Host": "rebound.example:80"}, "another host"),
        ({"Host": "127.0.0.1:1"}, "another host"),
        ({"Origin": "https://other.example"}, "another origin"),
        ({"Origin": "null"}, "another origin"),
        ({"Content-Type": "text/plain"}, "another content type"),
    ],
)
def test_other_pages_are_refused(address: str, folder: Path, headers: dict[str, str], says: str) -> None:
    """A rebound name, another origin, and a form of another page write nothing."""
    asked = {"key": "x", "verdict": "right"}
    status, text, _ = _ask(address, "labels", asked, {**_own(address), **headers})
    assert (status, says in text) == (403, True)
    assert not (folder / "labels.jsonl").exists()


@pytest.mark.slow
def test_who_does_not_know_the_address_sees_nothing(address: str) -> None:
    """Without the token, and with a name that was rebound, there is no page."""
    root = address.rsplit("/", 2)[0]
    for path in ("/", "/state", "/x/state", "/labels"):
        assert _ask(root, path)[0] == 404
    assert _ask(address, "state", headers={"Host": "rebound.example"})[0] == 403
    without_origin = {"Content-Type": "application/json"}
    assert _ask(address, "labels", {"key": "x", "verdict": "right"}, without_origin)[0] == 403


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"key": "x", "verdict": "right"}, "no such answer"),
        ([], "no such answer"),
        ({"verdict": "right"}, "no such answer"),
    ],
)
def test_a_verdict_that_cannot_be_written_is_an_error(address: str, asked: object, says: str) -> None:
    """The answer must be in the report."""
    status, text, _ = _ask(address, "labels", asked, _own(address))
    assert status == 400
    assert says in json.loads(text)["error"]
    key = _state(address)["answers"][0]["key"]
    status, text, _ = _ask(address, "labels", {"key": key, "verdict": "maybe"}, _own(address))
    assert "it is one of right, wrong, unclear" in json.loads(text)["error"]


@pytest.mark.slow
def test_a_run_that_goes_on_is_shown_until_its_report_is_written(address: str, folder: Path) -> None:
    """A run adds its tests to a file beside the report, which exists as long as the report is viewed."""
    live = live_file(folder / "report.json")
    first = _state(address)
    assert first["running"] == []
    with live.open("a", encoding="utf-8") as file:
        file.write('{"test": "test_a", "failed": "recall@3 0.5 < 0.8"}\n{"test": "half')
    assert _state(address)["running"] == [{"test": "test_a", "failed": "recall@3 0.5 < 0.8"}]
    (folder / "report.json").write_text(json.dumps(whole_document(duration_s=7.0)), encoding="utf-8")
    state = _state(address)
    assert state["running"] == []
    assert state["version"] != first["version"]
    (folder / "report.json").write_text("half wr", encoding="utf-8")
    assert _state(address)["version"] == state["version"]


@pytest.mark.slow
def test_a_run_tells_the_page_of_its_report(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def rageval_retriever():
            return lambda query, k: [{"id": "b", "text": "B."}]
        """
    )
    pytester.path.joinpath("e.jsonl").write_text(
        '{"id": "q1", "question": "A?", "gold": [{"id": "a"}]}\n', encoding="utf-8"
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.rageval_evalset("e.jsonl")
        @pytest.mark.rageval_threshold("recall@3", min=0.5)
        def test_it():
            pass
        """
    )
    pytester.runpytest_subprocess(*WITHOUT, "--rageval-report=report.json")
    assert not pytester.path.joinpath("report.json.live").exists()
    pytester.path.joinpath("report.json.live").touch()
    pytester.runpytest_subprocess(*WITHOUT, "--rageval-report=report.json")
    [line] = pytester.path.joinpath("report.json.live").read_text(encoding="utf-8").splitlines()
    entry = json.loads(line)
    assert entry["test"].endswith("::test_it")
    assert entry["failed"].startswith("recall@3: 0.000 is below the minimum 0.5")


def test_other_answers_to_a_question_have_labels_of_their_own(tmp_path: Path) -> None:
    """The labels of two answers to one question have different ids, and people's other lines stay."""
    path = tmp_path / "labels.jsonl"
    theirs = {"question": "Why?", "references": ["x"], "prediction": "y", "human": [True, None]}
    path.write_text(f"{json.dumps(theirs)}\n", encoding="utf-8")
    document = whole_document()
    document["tests"][0]["scores"][1]["examples"][1]["answer"] = "six weeks"
    found = {answer.record["prediction"]: answer for answer in answers(document)}
    for name in ("thirteen weeks", "six weeks"):
        LabelFile(path).write(found[name], "wrong")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines[0] == theirs
    assert [line["prediction"] for line in lines[1:]] == ["thirteen weeks", "six weeks"]
    assert len({line["id"] for line in lines[1:]}) == 2
    assert lines[1]["references"] == ["five and six"]
    assert LabelFile(path).verdicts == {found[name].key: "wrong" for name in ("thirteen weeks", "six weeks")}


def test_an_answer_without_a_reference_cannot_be_labelled() -> None:
    """A calibration compares the judge's verdict on an answer with its reference, so there must be one."""
    document = whole_document()
    for question in document["tests"][0]["questions"]:
        del question["references"]
    assert {answer.record["references"][0] for answer in answers(document)} == {"Five days, and six."}
    for question in document["tests"][0]["questions"]:
        del question["reference"]
    assert list(answers(document)) == []


def test_another_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "evals.jsonl"
    path.write_text('{"question": "Why?"}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"evals.jsonl line 1 is no labelled answer.*\n.*--labels FILE"):
        LabelFile(path)


def test_only_unclear_labels_are_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    [answer, *_] = answers(whole_document())
    LabelFile(path).write(answer, "unclear")
    assert set(VERDICTS) == {"right", "wrong", "unclear"}
    with pytest.raises(InputError, match="contains no labels"):
        load_labels(path)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "report.json cannot be read"),
        (("other.json",), "other.json cannot be read"),
        (("report.json", "--port", "99999"), "is not a port"),
    ],
)
def test_what_cannot_be_served_is_an_error(tmp_path, monkeypatch, capsys, arguments, says):
    monkeypatch.chdir(tmp_path)
    try:
        status: object = main(["view", *arguments])
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert says in capsys.readouterr().err
