"""Calibration of a judge against people: agreement, human ceiling, disagreements, corrected means."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.extensions.calibration.calibration import Bounds, Calibration, check_bounds
from pytest_rageval.extensions.calibration.corrections import prediction_powered_mean, rogan_gladen
from pytest_rageval.extensions.calibration.gate import agreement_with_people, corrected_entry
from pytest_rageval.extensions.calibration.human_labels import (
    HumanLabels,
    LabelledAnswer,
    LabelledPair,
    LabelledPassage,
    Scale,
)
from pytest_rageval.reports.notes import calibration_lines
from pytest_rageval.stats.agreement import accuracy, cohen_kappa, pearson

YES, NO = 1.0, 0.0


def calibration(
    scale: Scale, human: Sequence[Any], judge: Sequence[float | None], **words: Any
) -> Calibration:
    examples = [Example(f"q{n}", f"question {n}") for n in range(len(human))]
    labels = [tuple(label) if isinstance(label, list) else (label,) for label in human]
    items = list(zip(examples, labels, strict=True))
    answers = tuple(LabelledAnswer(one, ("r",), f"answer to {one.id}", label) for one, label in items)
    pairs = tuple(LabelledPair(one, "a", "b", label) for one, label in items)
    named = {"pairs": pairs} if scale == "pairwise" else {"answers": answers}
    outcomes = [
        Outcome(one, verdict, "no verdict" if verdict is None else None)
        for one, verdict in zip(examples, judge, strict=True)
    ]
    return Calibration(HumanLabels("labels.jsonl", scale, **named), outcomes, **words)  # type: ignore[arg-type]


def test_yes_and_no() -> None:
    """Yes/no labels have kappa and accuracy, over the items with a label and a verdict, and no correlation."""
    result = calibration("yes/no", [YES, YES, NO, NO, NO], [YES, 0.5, YES, NO, None])
    assert result.agreement == {
        "kappa": cohen_kappa([1, 1, 0, 0], [1, 1, 1, 0]),
        "accuracy": accuracy([1, 1, 0, 0], [1, 1, 1, 0]),
    }
    assert (result.unscored, result.undecided) == (1, 0)
    assert [disagreement.item.example.id for disagreement in result.disagreements] == ["q2"]


def test_grades() -> None:
    result = calibration("graded", [[0.5, 1.0], 0.25, NO, YES], [0.75, 0.5, 0.5, NO])
    assert result.agreement == {"pearson": pearson([0.75, 0.25, 0, 1], [0.75, 0.5, 0.5, 0])}
    assert [disagreement.item.example.id for disagreement in result.disagreements] == ["q3", "q2"]


def test_pairs() -> None:
    """The human label of a pair is the majority, or a tie without one; all three measures use -1, 0 and 1."""
    human = [[1.0, 1.0, -1.0], [1.0, -1.0, 0.0], -1.0]
    result = calibration("pairwise", human, [1.0, -1.0, -1.0])
    people, verdicts = [1, 0, -1], [1, -1, -1]
    assert result.agreement == {
        "kappa": cohen_kappa(people, verdicts),
        "accuracy": accuracy(people, verdicts),
        "pearson": pearson(people, verdicts),
    }


def test_people_without_a_majority_are_left_out_and_counted() -> None:
    result = calibration("yes/no", [[YES, NO], [YES, YES], [NO, NO]], [YES, YES, NO])
    assert (len(result.labelled_verdicts), result.undecided, result.unscored) == (2, 1, 0)


def test_items_that_cannot_be_used_are_shown() -> None:
    whole = calibration("yes/no", [YES, NO], [YES, NO])
    left_out = replace(whole, labels=replace(whole.labels, unusable=("l line 3: bad.", "l line 4: bad.")))
    lines = calibration_lines(agreement_with_people(left_out))
    assert "(labels.jsonl, n = 2, 2 unusable)" in lines[0]
    assert lines[-1] == "left out: l line 3: bad; and 1 more"
    assert "unusable" not in agreement_with_people(whole)


def test_the_human_ceiling() -> None:
    first, second = [1, 1, 0, 0, 1], [1, 0, 0, 0, 1]
    third: list[float | None] = [None, 1, None, None, None]
    judge = [1, 1, 0, 1, 1]
    result = calibration("yes/no", [list(labels) for labels in zip(first, second, third, strict=True)], judge)
    people = result.people
    assert (people.annotators, people.n) == (2, 5)
    among = cohen_kappa(first, second)
    assert people.among == among.value
    kappas = [cohen_kappa(labels_of_one, judge) for labels_of_one in (first, second)]
    assert people.judge == pytest.approx(sum(kappa.value for kappa in kappas if kappa) / 2)


@pytest.mark.parametrize("human", [[YES, NO], [[YES, None], [NO, YES], [YES], [NO]], []])
def test_one_annotator_has_no_ceiling(human: list[Any]) -> None:
    assert calibration("yes/no", human, [YES] * len(human)).people is None


def scored(*values: float | None, answers: Sequence[str] = (), **words: Any) -> Score:
    outcomes = [
        Outcome(
            Example(f"e{n}", f"question {n}"),
            value,
            None if value is not None else "no",
            Evidence(answer=answer),
        )
        for n, (value, answer) in enumerate(zip_longest(values, answers, fillvalue="?"))
    ]
    return Score("answer.correct@5", outcomes, **words)


def test_a_mean_is_corrected_by_the_labels() -> None:
    """The mean is corrected with the judge's verdicts, graded ones included; unscored examples are left out."""
    human, judge = [YES, NO, NO, NO] * 5, [0.9, 0.6, NO, NO] * 5
    result = calibration("yes/no", human, judge)
    expected = prediction_powered_mean(human, judge, [1, 0.5, 1, 0])
    beside = rogan_gladen(human, judge, [1, 0.5, 1, 0])
    assert result.corrected(scored(1, 0.5, None, 1, 0)) == (expected, 20, None, "", beside)
    assert expected.value < 0.5


def test_an_answer_that_is_labelled_counts_once() -> None:
    result = calibration("yes/no", [YES, NO] * 5, [YES, NO] * 5)
    score = scored(1, 0, 1, answers=["answer to q0", "answer to q0"])
    corrected = result.corrected(score)
    assert corrected[:4] == (prediction_powered_mean([1, 0] * 5, [1, 0] * 5, [0, 1]), 10, None, "")
    assert corrected.rogan_gladen.raw == pytest.approx(2 / 3, abs=1e-12)  # of all scored answers


def test_neither_slices_nor_preferences_are_corrected() -> None:
    """The labels are a sample of the whole set, and a preference is no verdict on an answer."""
    result = calibration("yes/no", [YES, NO], [YES, NO])
    assert result.corrected(scored(1, 0, 1, slice={"topic": "billing"})) is None
    assert calibration("pairwise", [1.0, -1.0], [1.0, 1.0]).corrected(scored(1, 0)) is None


JUDGED = {"q0": (1, 1), "q1": (1, 0), "q2": (1, 1), "q3": (0, 1)}
JUDGED |= {"u0": (1, 1), "u1": (0, 1), "u2": (1, 1), "u3": (0, 0), "u4": (1, 0), "u5": (1, 1)}
"""The judge's labels of two passages per question."""


def labelled_passages(people: Mapping[str, Sequence[tuple[float | None, ...]]]) -> Calibration:
    passages = tuple(
        LabelledPassage(Example(f"{name}-{rank}", f"question {name}"), f"passage  {rank} of {name}", label)
        for name, labels in people.items()
        for rank, label in enumerate(labels)
    )
    return Calibration(HumanLabels("labels.jsonl", "yes/no", passages=passages), ())


def ranked(measure: str, value: Callable[[tuple[float, ...]], float]) -> Score:
    outcomes = []
    for name, labels in JUDGED.items():
        documents = tuple(Document(f"passage {rank} of {name}") for rank in range(2))
        evidence = Evidence(Ranking(f"question {name}", documents), labels=labels)
        outcomes.append(Outcome(Example(name, f"question {name}"), value(labels), evidence=evidence))
    return Score(measure, outcomes)


def test_a_ranking_measure_is_corrected_by_labels_of_passages() -> None:
    """By hand: people give .5, 0, 1, .5 and the judge 1, .5, 1, .5, and 4/6 on the others; the slope is 1, λ 6/10."""
    people = {"q0": [(1,), (0,)], "q1": [(0,), (0,)], "q2": [(1,), (1,)], "q3": [(0,), (1,)]}
    people["elsewhere"] = [(1,)]
    correction = labelled_passages(people).corrected(ranked("relevance.p@2", lambda labels: sum(labels) / 2))
    assert (correction.labels, correction.incomplete) == (4, 0)
    assert correction.estimate.value == pytest.approx(0.5 + 0.6 * (4 / 6 - 0.75), abs=1e-12)
    human, judge, rest = [0.5, 0, 1, 0.5], [1, 0.5, 1, 0.5], [1, 0.5, 1, 0, 0.5, 1]
    assert correction.estimate == prediction_powered_mean(human, judge, rest)


def test_a_question_without_a_label_of_each_passage_is_not_a_labelled_one() -> None:
    people = {"q0": [(1, 1, 0), (0, 0, 0)], "q1": [(0, 1, None), (0, 0, 0)]}
    people |= {"q2": [(1, 1, 1)], "q3": [(0, 0, 1)] * 2}
    correction = labelled_passages(people).corrected(
        ranked("relevance.mrr@2", lambda labels: labels[0] or labels[1] / 2)
    )
    assert (correction.labels, correction.incomplete) == (2, 2)
    assert correction.estimate == prediction_powered_mean([1, 0], [1, 0.5], [1, 1, 1, 0.5, 1, 0, 1, 1])


def test_no_question_with_a_label_of_each_passage() -> None:
    correction = labelled_passages({"q0": [(1,)]}).corrected(ranked("relevance.hit@2", max))
    assert correction == (None, 0, 1, "", None)
    assert corrected_entry(correction, sampled=False) == {
        "corrected": {"mean": None, "ci95": None, "labels": 0, "incomplete": 1}
    }


@pytest.mark.parametrize(
    ("bounds", "status", "reason"),
    [
        ({"min_kappa": 0.5}, "pass", "within bounds"),
        ({"min_kappa": 0.51}, "fail", "kappa 0.500 is below the minimum 0.51"),
        (
            {"min_kappa": 0.6, "min_accuracy": 0.8},
            "fail",
            "kappa 0.500 is below the minimum 0.6; accuracy 0.750 is below the minimum 0.8",
        ),
        ({}, None, "within bounds"),
    ],
)
def test_a_ruling(bounds: dict[str, float], status: str | None, reason: str) -> None:
    result = calibration("yes/no", [YES, YES, NO, NO], [YES, YES, YES, NO])
    ruling = check_bounds(result, Bounds("labels.jsonl", **bounds))
    assert (ruling.status, ruling.reason) == (status, reason)


def test_what_cannot_be_measured_is_an_error() -> None:
    all_yes = calibration("yes/no", [YES, YES], [YES, YES])
    ruling = check_bounds(all_yes, Bounds("labels.jsonl", min_kappa=0.6))
    assert ruling.status == "error"
    assert "kappa of judge and people is undefined over 2 items: " in ruling.reason
    with pytest.raises(
        InputError, match=r"yes/no labels, which have no pearson.\nGive min_kappa or min_accuracy"
    ):
        check_bounds(all_yes, Bounds("labels.jsonl", min_pearson=0.6))


@pytest.mark.parametrize(
    ("args", "words", "message"),
    [
        ((), {}, "needs the path of one labels file"),
        ((3,), {}, r"found \(3,\)"),
        (("l.jsonl",), {"min": 0.5}, "no keyword 'min'. Allowed: min_kappa, min_accuracy, min_pearson, c"),
        (("l.jsonl",), {"min_kappa": "high"}, "min_kappa='high' is not a number from -1 to 1"),
        (("l.jsonl",), {"min_kappa": True}, "min_kappa=True is not a number"),
        (("l.jsonl",), {"min_accuracy": 60}, "min_accuracy=60 is not a number"),
        (("l.jsonl",), {"comparator": 3}, "comparator=3 is not a text"),
    ],
)
def test_an_unusable_marker_is_an_error(args: tuple[Any, ...], words: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Bounds.parse(args, words)


def test_a_marker_is_read() -> None:
    """A keyword with the value None sets no bound, and a NumPy number is converted to a float."""
    bounds = Bounds.parse(("l.jsonl",), {"min_kappa": 0.6, "min_accuracy": None, "comparator": "em"})
    assert (bounds.given, bounds.comparator) == ({"kappa": 0.6}, "em")
    bounds = Bounds.parse(("l.jsonl",), {"min_kappa": np.float32(0.5)})
    assert (bounds.given, type(bounds.min_kappa)) == ({"kappa": 0.5}, float)
