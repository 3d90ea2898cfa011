"""Three sets of answers that people labelled as right or wrong, to measure comparators.

`openqa_eval` has 1,490 answers of systems to 301 questions of Natural Questions. Two annotators labelled them, and a
third one where these disagreed. The data is not part of the project: it is read from the folder that the environment
variable RAGEVAL_TEST_DATA names, by default `shared/data` next to the project. The files have no kinds of cases. Here
the kind is the relation between the words of an answer and those of its references.

`labelled_answers` (tests/data) has 241 answers to questions of general knowledge, labelled by one annotator. They were
written for this set, each for a kind of case that comparators get wrong, and labelled before any comparator was run. An
answer is right if a person who knows the references would accept it for this question. A less precise date or place is
right, unless the question requires a more precise one. A hedged answer is right if it still names one answer. One of
several answers is wrong if all of them are required.

`sentence_answers` (tests/data) has 358 answers to 69 questions whose reference is a sentence. Its README describes it.

`is_held_out` splits each set in two halves by question. Rules are written with the first half in view; of the held-out
half only the counts are looked at. This does not hold for `labelled_answers`, which was read whole.
"""

import csv
import hashlib
import os
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_rageval.extensions.calibration.human_labels import load_labels

_DEFAULT = Path(__file__).parents[1].parent / "shared" / "data"
OPENQA = Path(os.environ.get("RAGEVAL_TEST_DATA", _DEFAULT)) / "openqa_eval"


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    question: str
    references: tuple[str, ...]
    prediction: str
    accepted: bool
    kind: str
    annotators: tuple[bool, ...] = ()


def labelled_answers() -> list[JudgedAnswer]:
    return _load("labelled_answers.jsonl")


def sentence_answers() -> list[JudgedAnswer]:
    return _load("sentence_answers.jsonl")


def is_held_out(item: JudgedAnswer) -> bool:
    """Return True if an answer is in the held-out half: the SHA-256 of its question is odd."""
    return hashlib.sha256(item.question.encode()).digest()[-1] % 2 == 1


def _load(name: str) -> list[JudgedAnswer]:
    labels = load_labels(Path(__file__).parent / "data" / name)
    return [
        JudgedAnswer(
            item.example.question,
            item.references,
            item.prediction,
            bool(item.human[0]),
            item.example.extra["kind"],
        )
        for item in labels.answers
    ]


def openqa_eval() -> list[JudgedAnswer]:
    references = {
        row["Question"]: tuple(_repair_encoding(row["Gold answers"]).split(" | "))
        for row in _rows("NQ301_BEM.tsv")
    }
    return [
        JudgedAnswer(
            row["Question"],
            references[row["Question"]],
            _repair_encoding(row["Model answer"]),
            row["Acceptable?"] == "Yes",
            _relation(_repair_encoding(row["Model answer"]), references[row["Question"]]),
            _both(row["annotator1"], row["annotator2"]),
        )
        for row in _rows("NQ301_human.tsv")
    ]


def model_verdicts() -> list[tuple[bool, bool]]:
    """Return the verdicts of two models on the answers of `openqa_eval`: text-davinci-003 and GPT-4."""
    # The header of the first file has a column more than its rows, so the verdict is under another name.
    files = ("NQ301_text-davinci-003.tsv", "Acceptable?"), ("NQ301_gpt-4.tsv", "gpt-4")
    cheap, strong = ([row[column].lower().startswith("yes") for row in _rows(name)] for name, column in files)
    return list(zip(cheap, strong, strict=True))


def bare(text: str) -> str:
    """Return a text without case, punctuation, articles and repeated spaces, as exact match usually normalises it."""
    letters = "".join(character for character in text.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(?:a|an|the)\b", " ", letters).split())


def _both(*labels: str) -> tuple[bool, ...]:
    return tuple(label == "Yes" for label in labels) if all(labels) else ()


def _relation(answer: str, references: Sequence[str]) -> str:
    text, words = bare(answer), set(bare(answer).split())
    bare_references = [bare(reference) for reference in references]
    if text in bare_references:
        return "equal"
    if any(reference in text for reference in bare_references):
        return "holds a reference"
    if any(text in reference for reference in bare_references):
        return "part of a reference"
    shared = any(words & set(reference.split()) for reference in bare_references)
    return "some words shared" if shared else "no word shared"


def _repair_encoding(text: str) -> str:
    """Return the text of a cell, decoded as UTF-8 if it had been decoded with a wrong encoding."""
    for encoding in ("latin-1", "cp1252"):
        try:
            return text.encode(encoding).decode()
        except UnicodeError:
            continue
    return text


def _rows(name: str) -> list[dict[str, str]]:
    with (OPENQA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))
