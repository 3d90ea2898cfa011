"""Coverage of the mean that labels correct, for a biased judge: `python tests/benchmarks/judge_correction.py [RUNS]`.

Of 1,000 answers and some labelled answers, 60% or 90% are right. In seven of eight errors the judge calls a wrong
answer right. Each row has a number of labels, a share of right answers and an accuracy of the judge. The script prints,
over all runs, how often the 95% interval of the corrected mean contains the true mean, and its mean width; and the same
for the labels alone (Wilson interval) and for all verdicts of the judge alone (Wilson interval).
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from pytest_rageval.extensions.calibration.corrections import prediction_powered_mean
from pytest_rageval.stats.intervals import wilson_interval

UNLABELLED = 1000


def intervals(
    labels: int, right: float, accuracy: float, rng: np.random.Generator
) -> list[tuple[float, float]]:
    truth = rng.random(labels + UNLABELLED) < right
    errs = (1 - accuracy) * np.where(truth, 1 / 8 / right, 7 / 8 / (1 - right))
    judge = truth ^ (rng.random(len(truth)) < errs)
    corrected = prediction_powered_mean(
        truth[:labels].tolist(), judge[:labels].tolist(), judge[labels:].tolist()
    )
    assert corrected is not None
    return [
        (corrected.low, corrected.high),
        wilson_interval(int(truth[:labels].sum()), labels),
        wilson_interval(int(judge.sum()), len(judge)),
    ]


def main(runs: int) -> None:
    rng = np.random.default_rng(0)
    print("labels right judge   corrected      labels alone   judge alone   (coverage, width)")  # noqa: T201
    for right in (0.6, 0.9):
        for labels in (20, 50, 100, 200):
            for accuracy in (0.6, 0.7, 0.8, 0.9, 0.95):
                if (1 - accuracy) * 7 / 8 > 1 - right:
                    continue  # more errors than wrong answers
                bounds = np.array([intervals(labels, right, accuracy, rng) for _ in range(runs)])
                coverage = ((bounds[..., 0] <= right) & (right <= bounds[..., 1])).mean(axis=0)
                width = (bounds[..., 1] - bounds[..., 0]).mean(axis=0)
                row = "  ".join(
                    f"{share:6.1%} {mean:.3f}" for share, mean in zip(coverage, width, strict=True)
                )
                print(f"{labels:5}  {right:.1f}  {accuracy:.2f}   {row}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
