"""How often the interval of a ranking measure over a judge's labels is right, corrected by human labels."""

import sys

import numpy as np
import numpy.typing as npt
import pytest

from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.extensions.calibration.calibration import Calibration
from pytest_rageval.extensions.calibration.corrections import prediction_powered_mean
from pytest_rageval.extensions.calibration.human_labels import HumanLabels, LabelledPassage
from pytest_rageval.scores.measures import LABEL_MEASURES, Labelled, usefulness

pytestmark = pytest.mark.slow

Labels = npt.NDArray[np.float64]

K, LABELLED, OTHERS, RUNS = 5, 100, 900, 500
MEASURES = ("p", "ndcg", "mrr", "map")


def passages(
    n: int, difficulty: tuple[float, float], judge: tuple[float, float], rng: np.random.Generator
) -> tuple[Labels, Labels]:
    """Return human labels of the passages of n questions, and labels of a judge with this sensitivity and specificity.

    Questions vary in difficulty, and lower ranks are less often relevant.
    """
    share = rng.beta(*difficulty, size=(n, 1)) * np.linspace(1.2, 0.6, K)
    people = (rng.random((n, K)) < share).astype(float)
    sensitivity, specificity = judge
    says = rng.random((n, K)) < np.where(people == 1, sensitivity, 1 - specificity)
    return people, says.astype(float)


def scores(measure: str, labels: Labels) -> Labels:
    rows, inverse = np.unique(labels, axis=0, return_inverse=True)
    values = [
        LABEL_MEASURES[measure](Labelled.of(row, sorted(row, reverse=True), K)) if any(row) else 0.0
        for row in rows.tolist()
    ]
    return np.array(values)[inverse]


@pytest.mark.parametrize(
    "judge",
    [
        pytest.param((0.9, 0.8), marks=pytest.mark.long),
        pytest.param((0.7, 0.7), marks=pytest.mark.long),
        pytest.param((0.95, 0.95), marks=pytest.mark.long),
    ],
    ids=str,
)
def test_the_interval_holds_the_truth_in_95_of_100_runs(judge: tuple[float, float]) -> None:
    """The coverage is 93% to 98% for each measure, and the interval is narrower than that of human labels alone."""
    rng = np.random.default_rng(0)
    held: dict[str, list[bool]] = {measure: [] for measure in MEASURES}
    narrower, off = [], []
    for difficulty in ((1.0, 2.0), (0.5, 2.0), (2.0, 1.0)):
        many, _ = passages(300_000, difficulty, judge, rng)
        truth = {measure: scores(measure, many).mean() for measure in MEASURES}
        for _ in range(RUNS):
            people, says = passages(LABELLED + OTHERS, difficulty, judge, rng)
            for measure in MEASURES:
                human, verdicts = scores(measure, people[:LABELLED]), scores(measure, says)
                estimate = prediction_powered_mean(
                    human.tolist(), verdicts[:LABELLED].tolist(), verdicts[LABELLED:].tolist()
                )
                assert estimate is not None
                held[measure].append(estimate.low <= truth[measure] <= estimate.high)
                narrower.append(
                    (estimate.high - estimate.low) / (2 * 1.984 * human.std(ddof=1) / LABELLED**0.5)
                )
                off.append(abs(verdicts.mean() - truth[measure]))
    coverage = {measure: float(np.mean(held_runs)) for measure, held_runs in held.items()}
    sys.stdout.write(f"{coverage}\n")
    assert all(0.93 <= share <= 0.98 for share in coverage.values())
    assert np.mean(narrower) < (1 if judge == (0.7, 0.7) else 0.85)
    assert judge == (0.95, 0.95) or np.mean(off) > 0.05


def test_a_score_is_corrected_as_its_values_are() -> None:
    rng = np.random.default_rng(1)
    people, says = passages(60, (1.0, 2.0), (0.9, 0.8), rng)
    labels = tuple(
        LabelledPassage(Example(f"{n}.{rank}", f"question {n}"), f"{rank} of {n}", (people[n, rank],))
        for n in range(20)
        for rank in range(K)
    )
    calibration = Calibration(HumanLabels("labels.jsonl", "yes/no", passages=labels), ())
    for measure in LABEL_MEASURES:
        by_judge, by_people = (
            [usefulness(measure, row.tolist(), K) for row in labels_by] for labels_by in (says, people)
        )
        outcomes = [
            Outcome(
                Example(str(n), f"question {n}"),
                float(value),
                evidence=Evidence(
                    Ranking(f"question {n}", tuple(Document(f"{rank} of {n}") for rank in range(K)))
                ),
            )
            for n, value in enumerate(by_judge)
        ]
        corrected = calibration.corrected(Score(f"relevance.{measure}@{K}", outcomes))
        expected = prediction_powered_mean(by_people[:20], by_judge[:20], by_judge[20:])
        assert corrected == (expected, 20, 0, "", None)
