"""`rageval judge sample`: people label a random sample, and the file says so."""

import json
from pathlib import Path

import pytest

from pytest_rageval.cli import main
from pytest_rageval.extensions.calibration.human_labels import load_labels
from tests.integration.conftest import Project
from tests.llm_server import LLMServer

pytestmark = pytest.mark.slow

SCORED = '@pytest.mark.rageval_threshold("answer.correct@1", min=0.1)\ndef test_it(): pass\n'
N = 20


@pytest.fixture
def report(project: Project, llm: LLMServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    def model(prompt: str) -> str:
        if "Answer to check" in prompt:
            return "no" if any(f"item-{n}?" in prompt for n in range(1, 6)) else "yes"
        return "It says so."

    llm.model = model
    project.use(llm)
    project.evalset(N)
    project.test(SCORED)
    project.run("--rageval-report=report.json", passed=1)
    monkeypatch.chdir(project.path)
    return project.path / "report.json"


def _label(path: Path, labels: dict[int, bool | None]) -> None:
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for place, label in labels.items():
        records[place]["human"] = label
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def test_a_sample_is_drawn_by_its_seed(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        words = ["report.json", "-n", "12", "--seed", seed, "-o", f"{name}.jsonl"]
        assert main(["judge", "sample", *words]) == 0
    assert "a.jsonl: 12 of 20 answers of answer.correct@1, drawn with seed 1" in capsys.readouterr().out
    a, b, c = ((report.parent / f"{name}.jsonl").read_text(encoding="utf-8") for name in "abc")
    assert a == b
    one, other = ([json.loads(line)["id"] for line in drawn.splitlines()] for drawn in (a, c))
    assert one != other
    first = json.loads(a.splitlines()[0])
    assert first["prediction"] == "It says so."
    assert first["human"] is None
    assert first["sample"] == {"seed": 1, "of": 20, "n": 12, "place": 1}


@pytest.mark.parametrize(
    ("labelled", "sampled", "n"), [(range(12), True, 12), (range(5), True, 5), ([0, 1, 3, 4], False, 4)]
)
def test_labels_without_a_gap_are_a_random_sample(report, labelled, n, sampled):
    """Lines that nobody has labelled yet are left out; a gap among the others may be a choice."""
    assert main(["judge", "sample", "report.json", "-n", "12"]) == 0
    path = report.parent / "labels.jsonl"
    _label(path, dict.fromkeys(labelled, True))
    labels = load_labels(path)
    assert (labels.sampled, len(labels)) == (sampled, n)


def test_labels_of_a_sample_correct_a_score_without_a_warning(report: Path, project: Project) -> None:
    assert main(["judge", "sample", "report.json", "-n", "12"]) == 0
    _label(report.parent / "labels.jsonl", dict.fromkeys(range(12), True))
    line = "*corrected for the judge's errors: * by 12 labels drawn at random; no Rogan-Gladen: 12 labelled *"
    result = project.run("--rageval=calibration=labels.jsonl", shows=line)
    result.stdout.no_fnmatch_line("*does not say how its labels were chosen*")


def test_labels_without_a_record_warn_or_are_refused(report: Path, project: Project) -> None:
    assert main(["judge", "sample", "report.json", "-n", "20"]) == 0
    path = report.parent / "labels.jsonl"
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    failures = {f"q{n}" for n in range(1, 6)}
    for chosen, text in (
        (
            [r for r in records if r["id"] in failures],
            "not corrected for the judge's errors: the judge's mean is 0.000 ",
        ),
        (records[:8], "if the 8 labels are a random sample of such answers"),
    ):
        lines = [json.dumps({**record, "human": False, "sample": None}) + "\n" for record in chosen]
        path.write_text("".join(lines), encoding="utf-8")
        result = project.run("--rageval=calibration=labels.jsonl")
        output = " ".join(result.stdout.str().split())
        assert text in output
        assert "labels.jsonl does not say how its labels were chosen" in output, output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--score", "recall@3"], "report.json has no recall@3; found answer.correct@1."),
        (["--test", "test_other"], "report.json has no score of answers; found no score."),
        (["-o", "report.json"], "report.json exists already."),
    ],
)
def test_what_cannot_be_drawn_is_an_error(report, arguments, message, capsys):
    assert report.exists()
    assert main(["judge", "sample", "report.json", *arguments]) == 2
    assert message in capsys.readouterr().err
