"""The baseline: what each example scored when the retriever was last found good, as a text file for git.

One JSON document with a line an example, all keys sorted: a changed question is a
changed line, and two branches that changed different ones merge.

    {"schema": 1,
     "tests": {
      "test_support.py::test_questions": {
       "questions": {
        "q17": "9f86d081884c", …},
       "scores": {
        "llm_reteval@5": {
         "fingerprint": {"generator": "gpt-5-mini at https://llm.example/v1", …},
         "examples": {
          "q17": {"answer": "30 days", "ranking": ["kb-112", "kb-7"], "score": 1.0, "under": "9a63c1f0"}, …}}}}}}

`under` is the mark of the fingerprint: git may merge a question of one branch below the fingerprint of another.
"""

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from pytest_rageval.errors import InputError
from pytest_rageval.gate.conditions import mark_of
from pytest_rageval.model import Example
from pytest_rageval.regular_file import refuse_special
from pytest_rageval.scores import Outcome, Score

__all__ = ["LONGEST", "Baseline", "baseline_entry", "completed"]

SCHEMA: Final = 1

LINES: Final = 5
"""How deep objects are spread over lines; deeper ones are an example's, or a fingerprint."""

LONGEST: Final = 200
"""Most characters of an answer that are kept: enough to recognise it in a report."""

MEND: Final = (
    "Take it from git again; or delete it, and write it anew with --rageval-update-baseline on the commit to "
    "compare with."
)


class Baseline:
    """The entries of a file, by test.

    Attributes:
        tests: by node id, entries as `baseline_entry` makes them.
    """

    def __init__(self, tests: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.tests = dict(tests or {})

    @classmethod
    def read(cls, path: Path) -> Self:
        """The file's; an empty one where there is no file.

        Raises:
            InputError: the file is no such baseline.
        """
        try:
            refuse_special(path)
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"The baseline {path} cannot be read: {error}.\n{MEND}") from None
        try:
            document = json.loads(text, object_pairs_hook=_each_once)
        except (ValueError, RecursionError) as error:
            conflict = "it holds the marks of a merge conflict" if "<<<<<<<" in text else str(error)
            raise InputError(f"The baseline {path} is not JSON: {conflict}.\n{MEND}") from None
        schema = document.get("schema") if isinstance(document, dict) else None
        if isinstance(schema, int) and schema > SCHEMA:
            message = f"The baseline {path} has schema {schema}; this version reads up to {SCHEMA}. Update the package."
            raise InputError(message)
        if schema != SCHEMA or not _well_formed(document.get("tests")):
            raise InputError(f"The baseline {path} is no baseline of this package.\n{MEND}")
        return cls(document["tests"])

    def write(self, path: Path) -> None:
        """Replace the file.

        Raises:
            InputError: it cannot be written.
        """
        text = "\n".join(_lines({"schema": SCHEMA, "tests": self.tests}, 0)) + "\n"
        # Beside it first: whoever reads meanwhile, or interrupts, finds the old one or the new one whole.
        # Where it is a link, the file that is linked is replaced, and not the link.
        there = path.resolve()
        beside = there.with_name(f".{there.name}.{os.getpid()}")
        try:
            there.parent.mkdir(parents=True, exist_ok=True)
            # What UTF-8 cannot say, half of a surrogate pair, becomes JSON's own escape for it.
            beside.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")
            beside.replace(there)
        except OSError as error:
            with suppress(OSError):
                beside.unlink()
            raise InputError(f"The baseline {path} cannot be written: {error.strerror or error}.") from None


def baseline_entry(
    examples: tuple[Example, ...], scores: Mapping[str, tuple[Score, Mapping[str, Any]]]
) -> dict[str, Any]:
    """What is kept of a test.

    Args:
        examples: of its eval set.
        scores: by name, each score, of the whole set, and the fingerprint of all beside the
            retriever that it depends on.
    """
    return {
        "questions": {example.id: example.digest for example in examples},
        "scores": {
            name: {
                "fingerprint": dict(fingerprint),
                "examples": {
                    outcome.example.id: _example(outcome) | {"under": mark_of(fingerprint)}
                    for outcome in score.outcomes
                },
            }
            for name, (score, fingerprint) in scores.items()
        },
    }


def completed(entry: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """An entry of a test that did not come to its end, with the scores from before that it did not get to.

    Of these, the examples that are another question now are left out: an entry has one question an example.
    """
    kept = {name for name, asked in entry["questions"].items() if before["questions"].get(name) == asked}
    missed = {
        name: {
            **score,
            "examples": {each: value for each, value in score["examples"].items() if each in kept},
        }
        for name, score in before["scores"].items()
    }
    return {**entry, "scores": {**missed, **entry["scores"]}}


def _example(outcome: Outcome) -> dict[str, Any]:
    """The score, and what a reader of a regression wants to see of the time before."""
    evidence = outcome.evidence
    kept: dict[str, Any] = {"score": outcome.value}
    if evidence.ranking is not None:
        kept["ranking"] = [document.label for document in evidence.ranking]
    if evidence.answer is not None:
        kept["answer"] = " ".join(evidence.answer.split())[:LONGEST]
    return kept


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of the file; of two scores of one question nobody could say which is right."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        message = f"{json.dumps(twice)} stands twice in one place, as where a merge kept both sides"
        raise ValueError(message)
    return found


def _well_formed(tests: Any) -> bool:
    """Whether the tests of a file have the form that `baseline_entry` gives them."""
    return isinstance(tests, dict) and all(
        isinstance(test, dict)
        and isinstance(test.get("questions"), dict)
        and isinstance(test.get("scores"), dict)
        and all(
            isinstance(score, dict)
            and isinstance(score.get("fingerprint"), dict)
            and isinstance(score.get("examples"), dict)
            and all(map(_is_example, score["examples"].values()))
            for score in test["scores"].values()
        )
        for test in tests.values()
    )


def _is_example(kept: Any) -> bool:
    if not isinstance(kept, dict):
        return False
    score, ranking = kept.get("score"), kept.get("ranking", [])
    return (
        (
            score is None
            or (isinstance(score, int | float) and not isinstance(score, bool) and math.isfinite(score))
        )
        and isinstance(ranking, list)
        and all(isinstance(label, str) for label in ranking)
        and all(isinstance(kept.get(name, ""), str) for name in ("answer", "under"))
    )


def _lines(value: Any, depth: int, *, name: str = "", end: str = "") -> Iterator[str]:
    """A JSON document, one line each for what lies deep enough."""
    head = " " * depth + (f"{json.dumps(name, ensure_ascii=False)}: " if name else "")
    if not isinstance(value, dict) or not value or depth > LINES or name == "fingerprint":
        yield head + json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False) + end
        return
    yield head + "{"
    names = sorted(value)
    for each in names:
        yield from _lines(value[each], depth + 1, name=each, end="" if each == names[-1] else ",")
    yield " " * depth + "}" + end
