"""Agreement of the canonical comparison with human judgements, on the three sets of `tests/judged_answers.py`."""

import sys
from collections.abc import Callable, Sequence

import pytest

from pytest_rageval.answers.canonical import matches_any
from pytest_rageval.answers.comparators import CANONICAL_RULES
from pytest_rageval.lib.digests import digest
from pytest_rageval.stats.agreement import cohen_kappa
from tests.judged_answers import (
    OPENQA,
    JudgedAnswer,
    bare,
    is_held_out,
    labelled_answers,
    openqa_eval,
    sentence_answers,
)

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
            *(0.637, 0.946, 0.703),
            id="openqa_eval",
            marks=[
                pytest.mark.slow,
                pytest.mark.skipif(
                    not OPENQA.is_dir(), reason="openqa_eval is not at hand (RAGEVAL_TEST_DATA)"
                ),
            ],
        ),
        pytest.param(labelled_answers, *(0.669, 0.886, 0.789), id="labelled_answers"),
        pytest.param(sentence_answers, *(0.859, 0.934, 0.895), id="sentence_answers"),
    ],
)
def test_the_canonical_comparison_agrees_with_people_more_than_containment(load, kappa, precision, recall):
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


@pytest.mark.parametrize("held_out", [False, True], ids=["first half", "held-out half"])
def test_answers_to_sentences_are_told_apart(*, held_out: bool) -> None:
    judged = [item for item in sentence_answers() if is_held_out(item) == held_out]
    verdicts = [matches_any(item.prediction, item.references, question=item.question) for item in judged]

    def accepted(*, right: bool, kind: str = "") -> float:
        of_kind = [
            verdict
            for item, verdict in zip(judged, verdicts, strict=True)
            if item.accepted is right and kind in {"", item.kind}
        ]
        return sum(of_kind) / len(of_kind)

    assert accepted(right=True) >= 0.8
    assert accepted(right=False, kind="swapped word") < 0.15
    assert accepted(right=False, kind="reversed roles") < 0.1
    assert accepted(right=False, kind="hedge") == accepted(right=False, kind="only mentioned") == 0


def test_the_sentence_answers_are_right_and_wrong_in_both_halves() -> None:
    """At least 300 answers to sentences of at least five words, both labels in both halves."""
    judged = sentence_answers()
    assert len(judged) >= 300
    assert min(len(reference.split()) for item in judged for reference in item.references) >= 5
    for held_out in (False, True):
        labels = [item.accepted for item in judged if is_held_out(item) == held_out]
        assert 0.3 < sum(labels) / len(labels) < 0.7


_VERDICTS = {"2": "b5f70c24376d87cb"}
"""For each version of the rules, the first 16 digits of the SHA-256 of the verdicts on the two sets of this project."""


def test_other_verdicts_are_another_version_of_the_rules() -> None:
    judged = labelled_answers() + sentence_answers()
    verdicts = [matches_any(item.prediction, item.references, question=item.question) for item in judged]
    assert digest(verdicts)[:16] == _VERDICTS[CANONICAL_RULES], (
        "raise CANONICAL_RULES, and record the new digest"
    )
