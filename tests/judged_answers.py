"""Answers that people called right or wrong: two sets, on which comparators are measured.

`openqa_eval` (1,490 answers of systems to 301 questions of Natural Questions, two annotators and a third where they
differ) is not part of the project: RAGEVAL_TEST_DATA names its folder; without it a `shared/data` folder beside the
project is looked for. Its kinds of cases are not in the files: here they are how the words of an answer relate to those
of its references.

`labelled_answers` (tests/data) has 241 answers by one annotator to questions of general knowledge. They were written
for the set, each for a kind of case that comparisons get wrong, and labelled before any comparator was run. An answer
is right if somebody who knows the references would accept it for the question as asked: a coarser date or place is,
unless the question wants a finer one; a hedge is if it still names one answer; one of several is not if all are wanted.
"""

import csv
import os
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_rageval.evalsets.human_labels import load_labels

__all__ = ["OPENQA", "Judged", "bare", "labelled_answers", "openqa_eval"]

_DEFAULT = Path(__file__).parents[1].parent / "shared" / "data"
OPENQA = Path(os.environ.get("RAGEVAL_TEST_DATA", _DEFAULT)) / "openqa_eval"


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer that people accepted or refused."""

    question: str
    references: tuple[str, ...]
    prediction: str
    accepted: bool
    kind: str
    annotators: tuple[bool, ...] = ()
    """Whether the first two accepted it, if both said so."""


def labelled_answers() -> list[Judged]:
    """The set of the project."""
    labels = load_labels(Path(__file__).parent / "data" / "labelled_answers.jsonl")
    return [
        Judged(
            item.example.question,
            item.references,
            item.prediction,
            bool(item.human[0]),
            item.example.extra["kind"],
        )
        for item in labels.answers
    ]


def openqa_eval() -> list[Judged]:
    """The published set."""
    references = {
        row["Question"]: tuple(_repaired(row["Gold answers"]).split(" | ")) for row in _rows("NQ301_BEM.tsv")
    }
    return [
        Judged(
            row["Question"],
            references[row["Question"]],
            _repaired(row["Model answer"]),
            row["Acceptable?"] == "Yes",
            _relation(_repaired(row["Model answer"]), references[row["Question"]]),
            _both(row["annotator1"], row["annotator2"]),
        )
        for row in _rows("NQ301_human.tsv")
    ]


def bare(text: str) -> str:
    """Normalise as exact match usually does: case, punctuation, articles, space."""
    letters = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", letters).split())


def _both(*labels: str) -> tuple[bool, ...]:
    return tuple(label == "Yes" for label in labels) if all(labels) else ()


def _relation(answer: str, references: Sequence[str]) -> str:
    text, words = bare(answer), set(bare(answer).split())
    wanted = [bare(reference) for reference in references]
    if text in wanted:
        return "equal"
    if any(each in text for each in wanted):
        return "holds a reference"
    if any(text in each for each in wanted):
        return "part of a reference"
    shared = any(words & set(each.split()) for each in wanted)
    return "some words shared" if shared else "no word shared"


def _repaired(text: str) -> str:
    """Undo the wrong decoding that some cells of the files went through."""
    for encoding in ("latin-1", "cp1252"):
        try:
            return text.encode(encoding).decode()
        except UnicodeError:
            continue
    return text


def _rows(name: str) -> list[dict[str, str]]:
    with (OPENQA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))
