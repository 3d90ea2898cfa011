"""Writes people's verdicts on answers to a file of labels, which `rageval_calibration` reads."""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_rageval.core.errors import InputError
from pytest_rageval.evalsets.files import json_records
from pytest_rageval.lib.files import write_atomically

VERDICTS: Final[Mapping[str, object]] = {"right": True, "wrong": False, "unclear": "unclear"}
"""The value of the key `human` for each verdict."""

KEYS: Final = ("question", "references", "prediction")
"""The keys that identify a labelled answer."""


class Answer(NamedTuple):
    """An answer of a report that can be labelled: the id of its question, and its line without a label."""

    question_id: str
    record: Mapping[str, Any]

    @property
    def key(self) -> str:
        return _key(self.record)


def answers(document: Mapping[str, Any]) -> Iterator[Answer]:
    """Yield the different answers of a report whose questions have a reference answer."""
    seen = set()
    for test in document["tests"]:
        questions = {question["id"]: question for question in test.get("questions", ())}
        for example in chain.from_iterable(score["examples"] for score in test["scores"]):
            question, answer = questions.get(example["id"]), example.get("answer")
            references = _references(question) if question else []
            if question is None or not answer or not references:
                continue
            record = {
                "id": question["id"],
                "question": question["question"],
                "references": references,
                "prediction": answer,
            }
            found = Answer(question["id"], record)
            if found.key not in seen:
                seen.add(found.key)
                yield found


def _references(question: Mapping[str, Any]) -> list[str]:
    # A labelled answer has only one list of references: each of them is right alone.
    lists = question.get("references", ())
    if len(lists) == 1:
        return [*lists[0]]
    return (
        [" and ".join(aliases[0] for aliases in lists)]
        if lists
        else list(filter(None, [question.get("reference")]))
    )


def _key(record: Mapping[str, Any]) -> str:
    texts = json.dumps([record.get(name) for name in KEYS], ensure_ascii=False)
    return sha256(texts.encode(errors="replace")).hexdigest()[:16]


class LabelFile:
    """A file of labelled answers, JSON lines. Lines of other answers stay as they are.

    Raises:
        InputError: the file exists, and has a line that is no labelled answer.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: dict[str, dict[str, Any]] = {}
        for place, record in json_records(path) if path.exists() else ():
            if not isinstance(record, dict) or not {"question", "prediction", "human"} <= record.keys():
                raise InputError(
                    f'{place} is no labelled answer: it needs "question", "prediction" and "human".\n'
                    "Name another file: rageval view --labels FILE."
                )
            self._records[_key(record)] = record

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each answer by its key; the labels of several people have none."""
        names = {json.dumps(value): name for name, value in VERDICTS.items()}
        pairs = ((key, names.get(json.dumps(record["human"]))) for key, record in self._records.items())
        return {key: name for key, name in pairs if name is not None}

    def write(self, answer: Answer, verdict: str) -> None:
        """Write the verdict on an answer in place of an earlier one."""
        key = answer.key
        record = self._records.get(key, dict(answer.record))
        others = {each.get("id") for other, each in self._records.items() if other != key}
        if record["id"] in others:
            # Another answer to the same question, as of another generator.
            record["id"] = f"{record['id']} {key[:6]}"
        self._records[key] = {**record, "human": VERDICTS[verdict]}
        lines = "".join(f"{json.dumps(each, ensure_ascii=False)}\n" for each in self._records.values())
        write_atomically(self.path, [lines.encode(errors="backslashreplace")])
