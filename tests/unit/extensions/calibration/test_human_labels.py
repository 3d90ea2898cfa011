"""Labels of people: which are read, and the errors for the rest."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_rageval.core.errors import InputError
from pytest_rageval.extensions.calibration.human_labels import load_labels

ANSWER: dict[str, Any] = {"question": "Where?", "references": ["Tulsa"], "prediction": "tulsa", "human": True}
PASSAGE: dict[str, Any] = {"question": "Where?", "passage": "Tulsa is a town.", "human": True}
PAIR: dict[str, Any] = {"question": "Why?", "first": "so", "second": "thus", "human": 1}
ROME = ANSWER | {"prediction": "Rome"}
AGAIN = "to the same question is already labelled in labels.jsonl line 1.\nTake one"


def written(folder: Path, *records: object) -> Path:
    path = folder / "labels.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("labels", "scale", "expected"),
    [
        ([True, False], "yes/no", [(1.0,), (0.0,)]),
        ([1, 0.0], "yes/no", [(1.0,), (0.0,)]),
        ([True, 0.25], "graded", [(1.0,), (0.25,)]),
        ([[True, None, False], [None, False, None]], "yes/no", [(1.0, None, 0.0), (None, 0.0, None)]),
    ],
)
def test_labels_of_answers(tmp_path: Path, labels: list[Any], scale: str, expected: list[Any]) -> None:
    records = (ANSWER | {"question": f"Where is {n}?", "human": label} for n, label in enumerate(labels))
    labelled = load_labels(written(tmp_path, *records))
    assert (labelled.scale, [item.human for item in labelled.items]) == (scale, expected)
    assert [item.example.id for item in labelled.answers] == ["line 1", "line 2"]
    assert labelled.answers[0].references == ("Tulsa",)
    assert len(labelled) == 2


def test_labels_of_pairs(tmp_path: Path) -> None:
    """Labels of pairs, 1 for the first answer, 2 for the second and 0 for neither, are read as 1, -1 and 0."""
    records = [
        PAIR | {"id": "p1", "human": [1, 2.0, 0]},
        PAIR | {"id": 2, "second": "hence", "human": [None, 0, 1]},
    ]
    labelled = load_labels(written(tmp_path, *records))
    assert (labelled.scale, labelled.answers) == ("pairwise", ())
    assert [(pair.example.id, pair.human) for pair in labelled.pairs] == [
        ("p1", (1.0, -1.0, 0.0)),
        ("2", (None, 0.0, 1.0)),
    ]


def test_labels_of_passages(tmp_path: Path) -> None:
    records = [PASSAGE | {"human": [True, 0]}, PASSAGE | {"passage": "It is far.", "human": [None, False]}]
    labelled = load_labels(written(tmp_path, *records))
    assert (labelled.scale, labelled.kind, labelled.answers, labelled.pairs) == ("yes/no", "passages", (), ())
    assert [(passage.passage, passage.human) for passage in labelled.passages] == [
        ("Tulsa is a town.", (1.0, 0.0)),
        ("It is far.", (None, 0.0)),
    ]


def test_answers_that_differ_in_anything_read_are_other_items(tmp_path: Path) -> None:
    others = ({"question": "Who?"}, {"prediction": "Rome"}, {"references": ["Rome"]})
    assert len(load_labels(written(tmp_path, ANSWER, *(ANSWER | other for other in others)))) == 4


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([[1]], "line 1: an example is an object"),
        ([{"references": ["a"]}], 'line 1: "question" is missing'),
        ([{"question": "Where?", "human": 1}], 'line 1: "references" is missing. Found: human'),
        ([{"question": "Why?", "second": "b", "human": 1}], 'line 1: "first" is missing'),
        ([ANSWER, ANSWER | {"references": "a"}], "line 2: \"references\" is the text 'a', expected a list"),
        ([ANSWER | {"references": []}], '"references" is an empty list'),
        ([ANSWER | {"references": ["Tulsa", ""]}], r'"references"\[1\] is an empty text, expected text'),
        ([ANSWER | {"prediction": None}], '"prediction" is null, expected text'),
        ([ANSWER | {"human": "yes"}], "\"human\" is 'yes'.\nWrite true or false, or a number from 0 to 1"),
        ([ANSWER | {"human": 2}], '"human" is 2'),
        ([ANSWER | {"human": [True, -1]}], r'"human"\[1\] is -1'),
        ([ANSWER | {"human": [None]}], '"human" holds no label'),
        ([PAIR | {"human": True}], '"human" is True.\nWrite 1 where the first'),
        ([PAIR | {"human": 3}], '"human" is 3'),
        ([PAIR | {"human": "much better"}], "(?s)is 'much better'.*: better, .* slightly worse or worse"),
        ([ANSWER, PAIR], "labelled answers and labelled pairs are mixed, as labels.jsonl line "),
        ([PAIR, PASSAGE, PAIR | {"second": "hm"}], "pairs and labelled passages are mixed, as .* line 2"),
        ([PASSAGE | {"human": 0.5}], '"human" is 0.5.\nA passage is relevant or not: write true or false'),
        ([PASSAGE | {"passage": " "}], '"passage" is an empty text'),
        ([PASSAGE, PASSAGE | {"passage": " Tulsa is a  town."}], "line 2: the same passage to the same "),
        ([ANSWER | {"id": "a"}, ANSWER | {"id": "a"}], 'line 2: the id "a" is already that of .* line 1'),
        ([ANSWER | {"id": "a"}, ROME, ANSWER | {"human": False}], f"line 3: the same answer {AGAIN}"),
        ([ANSWER, ANSWER | {"references": [" Tulsa"], "question": "Where? "}], "line 2: the same answer to"),
        ([PAIR, PAIR | {"first": "thus", "second": "so", "human": 2}], f"line 2: the same pair {AGAIN}"),
        (
            [ANSWER | {"human": [1, 0]}, ROME],
            "line 2: the number of labels is 1, and in .* line 1 it is 2.\nW",
        ),
        ([PAIR | {"second": " so"}], 'line 1: "first" and "second" are the same answer'),
        ([], "labels.jsonl contains no labels"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, records: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_labels(written(tmp_path, *records))


def many(count: int) -> list[dict[str, Any]]:
    return [PAIR | {"question": f"Why {n}?"} for n in range(count)]


def test_a_few_unusable_items_are_left_out_and_reported(tmp_path: Path) -> None:
    """11 unusable items of 280 are left out and reported: equal answers, repeated items and ids, invalid labels."""
    bad = [PAIR | {"question": f"Same {n}?", "second": "so"} for n in range(8)]
    bad += [PAIR | {"question": "Why 0?"}, PAIR | {"question": "Who?", "id": "line 1"}, PAIR | {"human": 7}]
    labelled = load_labels(written(tmp_path, *many(269), *bad))
    assert (len(labelled), len(labelled.unusable)) == (269, 11)
    assert labelled.unusable[0] == 'labels.jsonl line 270: "first" and "second" are the same answer.'
    assert labelled.unusable[8].startswith("labels.jsonl line 278: the same pair to the same question is")


@pytest.mark.parametrize(("bad", "refused"), [(1, False), (2, True)])
def test_more_than_a_tenth_is_refused(tmp_path: Path, bad: int, *, refused: bool) -> None:
    path = written(tmp_path, *many(10), *[PAIR | {"question": f"{n}?", "human": 7} for n in range(bad)])
    if not refused:
        assert len(load_labels(path).unusable) == bad
        return
    with pytest.raises(
        InputError, match=r"line 11: \"human\" is 7(.|\n)*\n2 of 12 items cannot be used, and"
    ):
        load_labels(path)


def test_a_folder_is_no_labels_file(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        load_labels(tmp_path)
    assert str(raised.value) == f"{tmp_path} cannot be read: Is a directory."
