"""Agreement of the canonical comparison with people.

The data is not part of the project. RAGEVAL_TEST_DATA names its folder;
without it a `shared/data` folder beside the project is looked for.
"""

import csv
import os
import re
import string
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_rageval.answers.canonical import states_any
from pytest_rageval.stats.agreement import cohen_kappa

_DEFAULT = Path(__file__).parents[2].parent / "shared" / "data"
_FOLDER = Path(os.environ.get("RAGEVAL_TEST_DATA", _DEFAULT)) / "openqa_eval"
_MEASURED = 0.636
_PRECISION, _RECALL = 0.947, 0.701
_TOLERANCE = 0.01

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not _FOLDER.is_dir(), reason="openqa_eval is not at hand (RAGEVAL_TEST_DATA)"),
]


@dataclass(frozen=True, slots=True)
class _Judged:
    """An answer that people accepted or refused."""

    question: str
    references: tuple[str, ...]
    prediction: str
    accepted: bool
    annotators: tuple[str, str]
    """The first two; a third was asked where they disagree."""


def _repaired(text: str) -> str:
    """Undo the wrong decoding that some cells of the files went through."""
    for encoding in ("latin-1", "cp1252"):
        try:
            return text.encode(encoding).decode()
        except UnicodeError:
            continue
    return text


def _rows(name: str) -> list[dict[str, str]]:
    with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def _judged() -> list[_Judged]:
    references = {
        row["Question"]: tuple(_repaired(row["Gold answers"]).split(" | ")) for row in _rows("NQ301_BEM.tsv")
    }
    return [
        _Judged(
            row["Question"],
            references[row["Question"]],
            _repaired(row["Model answer"]),
            row["Acceptable?"] == "Yes",
            (row["annotator1"], row["annotator2"]),
        )
        for row in _rows("NQ301_human.tsv")
    ]


def _bare(text: str) -> str:
    """Normalise as exact match usually does: case, punctuation, articles, space."""
    letters = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", letters).split())


def _agreement(judged: Sequence[_Judged], verdicts: Sequence[bool]) -> float:
    kappa = cohen_kappa([item.accepted for item in judged], verdicts)
    assert kappa is not None
    return kappa.value


def _any(judged: Sequence[_Judged], accepts: Callable[[str, str], bool]) -> list[bool]:
    bare = [(_bare(item.prediction), [_bare(each) for each in item.references]) for item in judged]
    return [any(accepts(prediction, each) for each in references) for prediction, references in bare]


def test_the_canonical_comparison_agrees_with_people_more_than_containment() -> None:
    """Kappa, precision and recall with 1,490 human judgements stay where they were measured."""
    judged = _judged()
    verdicts = {
        "exact match": _any(judged, lambda prediction, reference: prediction == reference),
        "containment": _any(judged, lambda prediction, reference: reference in prediction),
        "canonical": [
            states_any(item.prediction, item.references, question=item.question) for item in judged
        ],
    }
    table = {name: _agreement(judged, each) for name, each in verdicts.items()}
    for name, kappa in table.items():
        sys.stdout.write(f"{name:12} {kappa:.3f}\n")
    assert table["canonical"] >= _MEASURED - _TOLERANCE
    assert table["canonical"] > table["containment"] > table["exact match"]
    right = sum(item.accepted and stated for item, stated in zip(judged, verdicts["canonical"], strict=True))
    assert right / sum(verdicts["canonical"]) >= _PRECISION - _TOLERANCE
    assert right / sum(item.accepted for item in judged) >= _RECALL - _TOLERANCE
