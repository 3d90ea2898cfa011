"""Outputs of a run for other tools: JUnit XML, GitHub annotations and OpenTelemetry events."""

import json
import re
import socket
from pathlib import Path

import pytest
from lxml import etree

from pytest_rageval.lib.digests import digest
from tests.otlp_server import Collector

pytestmark = pytest.mark.slow

SCHEMA = Path(__file__).with_name("junit.xsd")

GATE = """
@pytest.mark.rageval_threshold("recall@2", min=0.9)
@pytest.mark.rageval_threshold("recall@2", min=0.5, where={"topic": "odd"})
@pytest.mark.rageval_threshold("answer.correct@2", min=0.0, comparator="em")
def test_gate():
    pass

@pytest.mark.rageval_threshold("recall@2", max_drop=0.1)
def test_warns():
    pass

def test_own(rageval):
    assert rageval.score("mrr@2") > 1
"""


def properties(path):
    """Validate the file, and return the properties of each test case."""
    tree = etree.parse(path)
    etree.XMLSchema(etree.parse(SCHEMA)).assertValid(tree)
    return {
        case.get("name"): {
            element.get("name"): float(element.get("value")) for element in case.iter("property")
        }
        for case in tree.iter("testcase")
    }


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_junit_xml_has_each_mean(project, llm, workers):
    """Each score with a mean is a property, from markers and from the test body; its name has slice and comparator."""
    project.use(llm)
    project.lose(3)
    project.test(
        GATE + '@pytest.mark.rageval_threshold("recall@2", min=0.1, where={"topic": "none"})\n'
        "def test_error(): pass\n"
    )
    run = project.run_process if workers else project.run
    result = run("--junitxml=junit.xml", *workers)
    result.assert_outcomes(passed=1, failed=2, errors=1)
    assert properties(project.path / "junit.xml") == {
        "test_gate": {
            "rageval recall@2": 0.75,
            "rageval recall@2 topic=odd": 0.5,
            "rageval answer.correct@2 by em": 0.75,
        },
        "test_warns": {"rageval recall@2": 0.75},
        "test_own": {"rageval mrr@2": 0.75},
        "test_error": {},
    }


def test_junit_xml_has_the_agreement_of_a_judge_with_people(project, llm):
    project.use(llm)
    labels = [
        {"question": f"q{n}", "references": ["a"], "prediction": "a" if n % 2 else "b", "human": bool(n % 2)}
        for n in range(6)
    ]
    (project.path / "labels.jsonl").write_text("".join(f"{json.dumps(label)}\n" for label in labels))
    project.test(
        '@pytest.mark.rageval_calibration("labels.jsonl", min_accuracy=0.9, comparator="em")\n'
        "def test_judge(): pass\n"
    )
    project.run("--junitxml=junit.xml", passed=1)
    measures = properties(project.path / "junit.xml")["test_judge"]
    assert measures["rageval accuracy labels.jsonl"] == 1.0
    assert set(measures) == {f"rageval {measure} labels.jsonl" for measure in ("accuracy", "kappa")}


def test_a_tag_of_any_text_leaves_the_xml_valid(project):
    tag = '\x1b<&"\ufffe\ud800 é'
    project.evalset(4, tags={"topic": tag})
    project.test(
        f'@pytest.mark.rageval_threshold("recall@2", min=0.9, where={{"topic": {tag!r}}})\n'
        "def test_gate(): pass\n"
    )
    project.run("--junitxml=junit.xml", passed=1)
    ((name, value),) = properties(project.path / "junit.xml")["test_gate"].items()
    assert name == r'rageval recall@2 topic=\u001b<&"\ufffe\ud800 é'
    assert value == 1.0


@pytest.mark.parametrize(
    "fault",
    [
        ('value="0.75"', 'value="much"'),
        ('name="rageval recall@2"', 'name="recall@2"'),
        ("<properties>", '<properties><property name="rageval recall@2" value="1"/>'),
        ("</testcase>", "<verdict/></testcase>"),
    ],
)
def test_the_schema_finds_faults(project, fault):
    """The schema rejects each fault, so the tests above can fail."""
    project.lose(3)
    project.gate("recall@2 min=0.5")
    project.run("--junitxml=junit.xml")
    path = project.path / "junit.xml"
    text = path.read_text(encoding="utf-8")
    properties(path)
    path.write_text(text.replace(*fault, 1), encoding="utf-8")
    with pytest.raises(etree.DocumentInvalid):
        properties(path)


@pytest.fixture
def github(project, llm, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(project.path.parent))
    project.use(llm)
    project.lose(3)
    project.test(GATE + '\n@pytest.mark.rageval_threshold("recal@2", min=0.1)\ndef test_typo():\n    pass\n')
    return project


def commands(result):
    return [
        line for line in f"{result.stdout}\n{result.stderr}".splitlines() if re.match(r"\s*(::|##\[)", line)
    ]


@pytest.mark.parametrize("options", [(), ("-q", "--tb=no"), ("-n2", "--dist=loadgroup")], ids=" ".join)
def test_github_shows_failures_and_warnings_at_their_lines(github, options):
    result = (github.run_process if "-n2" in options else github.run)(*options)
    source = (github.path / "test_it.py").read_text(encoding="utf-8").splitlines()
    folder = github.path.name
    annotations = {}
    for line in commands(result):
        kind, file, number, title, text = re.fullmatch(
            r"::(\w+) file=([^,:]*),line=(\d+),title=test_it\.py%3A%3A([^,:]*)::(.*)", line
        ).groups()
        assert title not in annotations
        annotations[title] = kind, file, source[int(number) - 1].strip(), text
    assert annotations.keys() == {"test_gate", "test_warns", "test_own", "test_typo"}
    assert {kind for kind, *_ in annotations.values()} == {"error", "warning"}
    assert {file for _, file, *_ in annotations.values()} == {f"{folder}/test_it.py"}
    assert annotations["test_warns"][0] == "warning"
    assert "has no baseline yet" in annotations["test_warns"][3]
    assert annotations["test_gate"][3].startswith("recall@2: 0.750 is below the minimum 0.9")
    assert "%0A" in annotations["test_gate"][3]
    assert annotations["test_own"][2] == 'assert rageval.score("mrr@2") > 1'
    assert "There is no score 'recal'. Did you mean recall?" in annotations["test_typo"][3]


def test_annotations_can_be_turned_off(github):
    assert commands(github.run("--rageval=annotations=false")) == []
    assert commands(github.run("-pno:terminal")) == []
    github.ini(rageval_model="m1", rageval_annotations="false")
    assert commands(github.run()) == []


def test_annotations_are_for_github_alone(github, monkeypatch):
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert commands(github.run()) == []
    assert len(commands(github.run("--rageval=annotations=true"))) == 4


OTHER = """
import sys
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    if report.when == "call" and report.failed:
        print(f"::error file=test_it.py,title={report.nodeid.rpartition(':')[2]}::other", file=sys.stderr)
"""


def test_with_another_annotating_plugin_no_failure_is_annotated_twice(github):
    """If another plugin annotates failures of the call phase, only setup errors and warnings are annotated."""
    (github.path / "pytest_github_actions_annotate_failures.py").write_text(OTHER, encoding="utf-8")
    github.pytester.syspathinsert()
    result = github.run("-p", "pytest_github_actions_annotate_failures")
    titles = [re.search(r"title=[^,:]*?(test_(?!it)\w+)::", line)[1] for line in commands(result)]
    assert sorted(titles) == ["test_gate", "test_own", "test_typo", "test_warns"]


def test_a_module_that_cannot_be_imported_is_annotated(github):
    """An import error is annotated at the file, without a line, since pytest does not report the line."""
    (github.path / "test_broken.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    (line,) = commands(github.run())
    assert line.startswith(f"::error file={github.path.name}/test_broken.py,title=test_broken.py::")
    assert "nothing_of_this_name" in line


@pytest.fixture
def collector():
    with Collector() as server:
        yield server


@pytest.mark.parametrize("workers", [(), ("-n2",)], ids=["alone", "workers"])
def test_a_collector_gets_each_question_and_each_score(project, llm, collector, monkeypatch, workers):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    project.use(llm)
    project.lose(3)
    project.test(GATE)
    run = project.run_process if workers else project.run
    result = run("--rageval-report=otlp:", "--rageval-report=r.json", *workers)
    report = project.read("r.json")
    entries = [(test["nodeid"], entry) for test in report["tests"] for entry in test["scores"]]
    sent = [
        (
            *(
                attributes["test.case.name"],
                attributes["gen_ai.evaluation.name"],
                attributes.get("rageval.where", ""),
            ),
            *(attributes["rageval.question.id"], attributes["gen_ai.evaluation.score.value"]),
        )
        for name, attributes in collector.events
        if name == "gen_ai.evaluation.result"
    ]
    assert sent == [
        (
            *(nodeid, entry["spec"] + (" by em" if "comparator" in entry else "")),
            *("topic=odd" if entry["where"] else "", example["id"], example["score"]),
        )
        for nodeid, entry in entries
        for example in entry["examples"]
    ]
    summaries = [attributes for name, attributes in collector.events if name == "rageval.score"]
    assert [summary["gen_ai.evaluation.score.value"] for summary in summaries] == [
        entry["mean"] for _, entry in entries
    ]
    assert summaries[0]["gen_ai.evaluation.score.label"] == "fail"
    assert {summary["rageval.evalset.name"] for summary in summaries} == {"evals.jsonl"}
    assert collector.resource["rageval.generator"].startswith("m1")
    result.stdout.fnmatch_lines(
        ["report: *r.json", f"report: {len(collector.events)} events sent to {collector.url}/v1/logs"]
    )


def test_events_say_what_the_baseline_says_and_under_which_fingerprint(project, collector):
    project.gate("recall@2 max_drop=0.1", "contains.hit@2 max_drop=0.1")
    project.run("--rageval-update-baseline", passed=1)
    project.lose(3)
    project.run(f"--rageval-report=otlp:{collector.url}")
    recall_events = [
        attributes
        for name, attributes in collector.events
        if name == "gen_ai.evaluation.result" and attributes["gen_ai.evaluation.name"] == "recall@2"
    ]
    assert [
        (attributes["gen_ai.evaluation.score.label"], attributes["rageval.before"])
        for attributes in recall_events
    ] == [*[("same", 1.0)] * 2, ("worse", 1.0), ("same", 1.0)]
    baseline = project.read("rageval_baseline.json")
    fingerprint = baseline["tests"]["test_it.py::test_gate"]["scores"]["recall@2"]["fingerprint"]
    assert {attributes["rageval.fingerprint"] for attributes in recall_events} == {digest(fingerprint)[:16]}
    assert collector.resource["rageval.baseline.path"] == "rageval_baseline.json"
    (summary, _) = [attributes for name, attributes in collector.events if name == "rageval.score"]
    assert summary["rageval.baseline.drop"] == 0.25


def test_a_collector_that_cannot_be_reached_is_only_a_message(project, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=planted-secret")
    project.gate("recall@2 max_drop=0.1")
    for quiet in ((), ("-q",)):
        result = project.run(
            f"--rageval-report=otlp:{url}", "--rageval-report=r.json", "--rageval-update-baseline", *quiet
        )
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(
            [f"The report otlp:{url} was not sent: {url}/v1/logs: *refused*; 0 of 5 events were taken."]
        )
        result.stdout.no_fnmatch_line("*planted-secret*")
        for name in ("r.json", "rageval_baseline.json"):
            (project.path / name).unlink()


def test_an_address_that_is_not_a_url_is_an_error(project):
    project.test("def test_own(rageval): assert rageval.score('mrr@2') > 0\n")
    result = project.run("--rageval-report=otlp:localhost:4318")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        ["The report otlp:localhost:4318 was not sent: the address of the collector: expected a URL*"]
    )
