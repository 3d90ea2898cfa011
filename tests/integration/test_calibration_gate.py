"""`rageval_calibration`: bounds on the agreement of the judge with people, and scores corrected for its errors."""

import json
import re

import pytest

from pytest_rageval.extensions.calibration.corrections import prediction_powered_mean
from tests.integration.conftest import Project
from tests.integration.test_shards import document, merge, shards
from tests.llm_server import LLMServer, clerk

pytestmark = pytest.mark.slow

MARKER = "@pytest.mark.rageval_calibration('labels.jsonl', {bounds})\n"
TEST = f"{MARKER}def test_judge(): pass\n"
SCORED = (
    MARKER.format(bounds="min_kappa=0.2") + "@pytest.mark.rageval_threshold('answer.correct@1', min=0.5)\n"
    "@pytest.mark.rageval_threshold('answer.em@1', min=0.5)\n"
    "def test_gate(): pass\n"
)


def mild(prompt: str) -> str:
    if "Answer to check" in prompt:
        return "no" if "colour" in prompt else "yes"
    return clerk(prompt)


def labels(project: Project, *, sampled: bool = False) -> None:
    """Write 20 labelled answers of which 10 are right; the mild judge finds two wrong answers right as well."""
    lines = []
    for n in range(20):
        right = n < 10
        record = {
            "id": f"l{n}",
            "question": f"What {'size' if n < 12 else 'colour'} is thing {n}?",
            "references": ["small", "tiny"],
            "prediction": "tiny" if right else "large",
            "human": right,
        }
        if sampled:
            record["sample"] = {"seed": 0, "of": 100, "n": 20, "place": n + 1}
        lines.append(json.dumps(record))
    (project.path / "labels.jsonl").write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def judged(project: Project, llm: LLMServer) -> Project:
    llm.model = mild
    project.use(llm)
    labels(project)
    return project


def test_a_judge_that_agrees_passes(judged: Project) -> None:
    """Kappa is (0.9 - 0.5) / (1 - 0.5)."""
    judged.test(TEST.format(bounds="min_kappa=0.75, min_accuracy=0.9"))
    judged.run("--rageval-report=report.json", "--junit-xml=junit.xml", passed=1)
    entry = judged.read()["tests"][0]["calibration"][0]
    assert entry["agreement"]["kappa"]["value"] == pytest.approx(0.8)
    assert entry["threshold"] == {"min_kappa": 0.75, "min_accuracy": 0.9}
    described = (entry["labels"], entry["scale"], entry["verdict"], entry["people"])
    assert described == ("labels.jsonl", "yes/no", "pass", None)
    assert entry["disagreements"] == [
        {"id": "l10", "human": 0.0, "judge": 1.0},
        {"id": "l11", "human": 0.0, "judge": 1.0},
    ]
    assert 'name="rageval kappa labels.jsonl"' in (judged.path / "junit.xml").read_text()


def test_a_plan_counts_the_labels(judged: Project, llm: LLMServer) -> None:
    judged.test(TEST.format(bounds="min_kappa=0.5"))
    judged.run("--rageval-plan", shows=["in total", "* 20 *"])
    assert not llm.requests
    judged.run()
    judged.run()
    assert len(llm.requests) == 20
    judged.run("--rageval-replay", passed=1)


def test_what_cannot_be_done_is_an_error(judged: Project) -> None:
    judged.test(TEST.format(bounds="kappa=0.5"))
    judged.run(errors=1, shows="rageval_calibration has no keyword 'kappa'.*")


def test_a_judge_without_verdicts_is_an_error(judged: Project, llm: LLMServer) -> None:
    llm.model = lambda prompt: "perhaps" if "thing 1" in prompt else mild(prompt)
    judged.test(TEST.format(bounds="min_kappa=0.5"))
    judged.run(errors=1, shows="judge against labels.jsonl: 11 of 20 examples have no score, *")
    judged.run("--rageval=max_unscored=0.6", shows="*(labels.jsonl, n = 9, 11 unscored)*")


def test_a_score_is_corrected_beside_the_raw_one(judged: Project) -> None:
    """The judge finds all 20 answers right; of the 12 labelled ones that it finds right, people find 10 right."""
    labels(judged, sampled=True)
    judged.evalset(20)
    judged.test(SCORED)
    result = judged.run(
        "--rageval-report=report.json",
        passed=1,
        shows=(
            "    answer.correct@1: corrected for the judge's errors: 0.667 [[]0.*, *[]], by 20 labels drawn at "
            "random; Rogan-Gladen 1.000 [[]0.*, 1.000]"
        ),
    )
    result.stdout.no_fnmatch_line("*answer.em@1: corrected*")
    correct, em = judged.read()["tests"][0]["scores"]
    expected = prediction_powered_mean([1] * 10 + [0] * 10, [1] * 12 + [0] * 8, [1] * 20)
    assert correct["mean"] == 1
    # The judge finds 10 of 10 right answers and 8 of 10 wrong ones.
    assert correct["corrected"].pop("rogan_gladen")["mean"] == 1
    assert correct["corrected"] == {
        "mean": expected.value,
        "ci95": [expected.low, expected.high],
        "labels": 20,
        "sampled": True,
    }
    assert "corrected" not in em


def test_the_option_corrects_all_scores_of_verdicts(judged: Project, llm: LLMServer) -> None:
    judged.test(
        "def test_own(rageval):\n"
        "    rageval.score('answer.correct@1')\n"
        "    rageval.score('llm_reteval@1')\n"
        "    rageval.score('answer.correct@1', where={'topic': 'odd'})\n"
        "    rageval.score('recall@1')\n"
    )
    planned = judged.run("--rageval=calibration=labels.jsonl", "--rageval-plan", shows="in total")
    judged.run("--rageval=calibration=labels.jsonl", "--rageval-report=report.json", passed=1)
    test = judged.read()["tests"][0]
    assert [("corrected" in entry) for entry in test["scores"]] == [True, True, False, False]
    assert "calibration" not in test
    max_requests = int(re.findall(r"≤ (\d+)", "\n".join(planned.outlines[-8:]))[0])
    assert len(llm.requests) <= max_requests


def test_labels_judged_with_other_settings_correct_nothing(judged: Project) -> None:
    judged.test(SCORED.replace("min_kappa=0.2", "comparator='em'"))
    result = judged.run(passed=1, shows="*(labels.jsonl, n = 20, compared by em): kappa 1.000 *")
    result.stdout.no_fnmatch_line("*corrected*")


RELEVANT = "helps to answer"
"""Words that only the judge's prompt about the relevance of a passage contains."""


def passage_labels(project: Project, *, questions: int) -> None:
    texts = "What is the code of item-{}?", "Of all things, item-{0} has the code c{0}x."
    records = [
        {"question": texts[0].format(n), "passage": texts[1].format(n), "human": n % 2}
        for n in range(1, questions + 1)
    ]
    (project.path / "labels.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")


@pytest.mark.parametrize("way", ["marker", "option"])
def test_a_measure_of_relevance_is_corrected_by_labels_of_passages(judged, llm, way):
    llm.model = lambda prompt: "yes" if RELEVANT in prompt else mild(prompt)
    judged.evalset(20)
    passage_labels(judged, questions=10)
    judged.test(
        (MARKER.format(bounds="min_accuracy=0.5") if way == "marker" else "")
        + "@pytest.mark.rageval_threshold('relevance.p@1', min=0.5)\n"
        "@pytest.mark.rageval_threshold('answer.correct@1', min=0)\n"
        "def test_gate(): pass\n"
    )
    option = ["--rageval=calibration=labels.jsonl"] if way == "option" else []
    judged.run(
        "--rageval-report=report.json",
        *option,
        passed=1,
        shows="*relevance.p@1: corrected for the judge's errors: 0.500 [[]*[]], if the 10 labelled questions are a *",
    )
    test = judged.read()["tests"][0]
    relevance, correct = test["scores"]
    expected = prediction_powered_mean([n % 2 for n in range(1, 11)], [1] * 10, [1] * 10)
    assert relevance["mean"] == 1
    assert relevance["corrected"] == {
        "mean": expected.value,
        "ci95": [expected.low, expected.high],
        "labels": 10,
        "incomplete": 0,
    }
    assert "corrected" not in correct
    assert [entry["agreement"]["accuracy"]["value"] for entry in test.get("calibration", ())] == (
        [0.5] if way == "marker" else []
    )
    assert sum(RELEVANT in str(request) for request in llm.requests) == 20
    # Only the first shard reads the labels.
    requests_before = len(llm.requests)
    names = shards(judged, 2, *option)
    assert merge(judged, *names, "--report", "merged.json") == 0
    merged = [score.get("corrected") for score in document(judged, "merged.json")["tests"][0]["scores"]]
    assert merged == [relevance["corrected"], None]
    assert len(llm.requests) == requests_before
