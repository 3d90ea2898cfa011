"""Agreement of the canonical comparison with human judgements, on the two sets of `tests/judged_answers.py`."""

import sys
from collections.abc import Callable, Sequence

import pytest

from pytest_rageval.answers.canonical import matches_any
from pytest_rageval.stats.agreement import cohen_kappa
from tests.judged_answers import OPENQA, JudgedAnswer, bare, labelled_answers, openqa_eval

_TOLERANCE = 0.01


def _agreement(judged: Sequence[JudgedAnswer], verdicts: Sequence[bool]) -> float:
    kappa = cohen_kappa([item.accepted for item in judged], verdicts)
    assert kappa is not None
    return kappa.value


def _any(judged: Sequence[JudgedAnswer], accepts: Callable[[str, str], bool]) -> list[bool]:
    texts = [(bare(item.prediction), [bare(reference) for reference in item.references]) for item in judged]
    return [
        any(accepts(prediction, reference) for reference in references) for prediction, references in texts
    ]


@pytest.mark.parametrize(
    ("load", "kappa", "precision", "recall"),
    [
        pytest.param(
            openqa_eval,
            *(0.636, 0.947, 0.701),
            id="openqa_eval",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(
                    not OPENQA.is_dir(), reason="openqa_eval is not at hand (RAGEVAL_TEST_DATA)"
                ),
            ],
        ),
        pytest.param(labelled_answers, *(0.517, 0.773, 0.773), id="labelled_answers"),
    ],
)
def test_the_canonical_comparison_agrees_with_people_more_than_containment(
    load: Callable[[], list[JudgedAnswer]], kappa: float, precision: float, recall: float
) -> None:
    """Kappa, precision and recall against human judgements are at least the recorded values."""
    judged = load()
    verdicts = {
        "exact match": _any(judged, lambda prediction, reference: prediction == reference),
        "containment": _any(judged, lambda prediction, reference: reference in prediction),
        "canonical": [
            matches_any(item.prediction, item.references, question=item.question) for item in judged
        ],
    }
    table = {name: _agreement(judged, stated_verdicts) for name, stated_verdicts in verdicts.items()}
    for name, value in table.items():
        sys.stdout.write(f"{name:12} {value:.3f}\n")
    assert table["canonical"] >= kappa - _TOLERANCE
    assert table["canonical"] > max(table["containment"], table["exact match"])
    right = sum(item.accepted and stated for item, stated in zip(judged, verdicts["canonical"], strict=True))
    assert right / sum(verdicts["canonical"]) >= precision - _TOLERANCE
    assert right / sum(item.accepted for item in judged) >= recall - _TOLERANCE


def test_the_labelled_answers_are_both_right_and_wrong_in_most_kinds() -> None:
    """At least 200 answers, and most kinds have both labels, so that a constant comparator is detected."""
    judged = labelled_answers()
    assert len(judged) >= 200
    assert 0.4 < sum(item.accepted for item in judged) / len(judged) < 0.6
    labels: dict[str, set[bool]] = {}
    for item in judged:
        labels.setdefault(item.kind, set()).add(item.accepted)
    assert sum(len(label) == 2 for label in labels.values()) >= 15
