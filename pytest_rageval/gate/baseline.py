"""The baseline file: one line a question, made for git, and its updates."""

import json
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from math import fsum, inf, nan
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.files import refuse_special, write_whole
from pytest_rageval.gate.comparison import BaselineScore, mark_of
from pytest_rageval.model import Example
from pytest_rageval.scores import Outcome, Score
from pytest_rageval.stats.paired import NO_CHANGE

__all__ = [
    "LONGEST",
    "WRITE",
    "Baseline",
    "Moved",
    "baseline_entry",
    "completed",
    "held_back",
    "moved_scores",
]

SCHEMA: Final = 1

LINES: Final = 5
"""How deep objects are spread over lines; deeper ones are an example's, or a fingerprint."""

LONGEST: Final = 200
"""Most characters of an answer that are kept: enough to recognise it in a report."""

WRITE: Final = "pytest --rageval-update-baseline"

NEAR: Final = 0.8
"""How alike two node ids are that may be of one test."""

DIGITS: Final = 300
OFF: Final = 1e-9
"""How far rounding may take a score beyond its scale."""

LARGEST: Final = 1e100
"""Beyond, sums and squares of scores are no numbers any more."""

LIKE: Final = 3
"""How many tests are named that may be the one that is missing."""

MEND: Final = (
    "Take it from git again; or delete it, and write it anew with --rageval-update-baseline on the commit to "
    "compare with."
)


class Baseline:
    """The entries of a file, by test.

    Attributes:
        tests: by node id, entries as `baseline_entry` makes them.
        path: of the file; None where there is none.
    """

    def __init__(
        self, tests: Mapping[str, Mapping[str, Any]] | None = None, path: Path | None = None
    ) -> None:
        self.tests = dict(tests or {})
        self.path = path

    @classmethod
    def to_compare_with(cls, path: Path, *, named: bool) -> Self:
        """The file's, as `read`, but one that was named, or that a link leads to, has to be there.

        Raises:
            InputError: it is not, or is no such baseline.
        """
        baseline = cls.read(path)
        if baseline.path is None and (named or path.is_symlink()):
            why = (
                f"it is a link to {path.readlink()}, which is missing"
                if path.is_symlink()
                else "there is no such file"
            )
            message = (
                f"The baseline {path} cannot be read: {why}.\n"
                f"Check rageval_baseline and --rageval-baseline; or write it on the commit to compare with: {WRITE}"
            )
            raise InputError(message)
        return baseline

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
            document = json.loads(text, object_pairs_hook=_each_once, parse_int=_whole)
        except (ValueError, RecursionError) as error:
            why = "it nests too deeply" if isinstance(error, RecursionError) else str(error)
            why = "it holds the marks of a merge conflict" if "<<<<<<<" in text else why
            raise InputError(f"The baseline {path} is not JSON: {why}.\n{MEND}") from None
        schema = document.get("schema") if isinstance(document, dict) else None
        if isinstance(schema, int) and schema > SCHEMA:
            message = f"The baseline {path} has schema {schema}; this version reads up to {SCHEMA}. Update the package."
            raise InputError(message)
        if schema != SCHEMA or isinstance(schema, bool):
            raise InputError(f"The baseline {path} is no baseline of this package.\n{MEND}")
        try:
            _check(document.get("tests"))
        except ValueError as error:
            raise InputError(
                f"The baseline {path} is no baseline of this package: {error}.\n{MEND}"
            ) from None
        return cls(document["tests"], path)

    def before(self, nodeid: str, name: str, scale: tuple[float, float] | None) -> BaselineScore | None:
        """A score of a test; None where it is not here.

        Args:
            nodeid: of the test.
            name: of the score.
            scale: its lowest and highest value; None where nobody says.

        Raises:
            InputError: a question has a score that is not on the scale.
        """
        test = self.tests.get(nodeid)
        score = None if test is None else test["scores"].get(name)
        if test is None or score is None:
            return None
        low, high = scale or (-inf, inf)
        for example, kept in score["examples"].items():
            value = kept.get("score")
            if value is not None and not low - OFF <= value <= high + OFF:
                message = (
                    f"The baseline {self.path} cannot be compared with: question {example} in {name} of {nodeid} has "
                    f"the score {value:g}, and the score goes from {low:g} to {high:g}.\n{MEND}"
                )
                raise InputError(message)
        return BaselineScore(test["questions"], score["fingerprint"], score["examples"])

    def missing(self, nodeid: str, name: str, present: Collection[str]) -> str:
        """Why there is nothing to compare a score of a test with, and what to do; empty where there is no file yet.

        Args:
            nodeid: of the test.
            name: of the score, which is not among those of the test here.
            present: node ids of the tests that there are now: none of these was renamed to this one.
        """
        if self.path is None:
            return ""
        remedy = f"Run {WRITE} {shlex.quote(nodeid)} on the commit to compare with, and commit the file."
        if nodeid in self.tests:
            scores = self.tests[nodeid]["scores"]
            listed = f"it has {', '.join(scores)}" if scores else "it has none"
            return f"{self.path} has no {name} of {nodeid}; {listed}.{did_you_mean(name, scores)}\n{remedy}"
        text = f"{self.path} has nothing of {nodeid}"
        like = _like(nodeid, self.tests.keys() - set(present))
        if not like:
            return f"{text}.\n{remedy}"
        return (
            f"{text}; renamed from {' or '.join(like)}?\n"
            "Then rename it in the file too; or run pytest with the root directory of before. If it is another test: "
            f"{remedy[0].lower()}{remedy[1:]}"
        )

    def write(self, path: Path) -> None:
        """Replace the file.

        Raises:
            InputError: it cannot be written.
        """
        try:
            text = "\n".join(_lines({"schema": SCHEMA, "tests": self.tests}, 0)) + "\n"
            path.resolve().parent.mkdir(parents=True, exist_ok=True)
            # What UTF-8 cannot say, half of a surrogate pair, becomes JSON's own escape for it.
            write_whole(path, [text.encode(errors="backslashreplace")])
        except OSError as error:
            raise InputError(f"The baseline {path} cannot be written: {error.strerror or error}.") from None
        except RecursionError:
            # What this version does not know, and keeps.
            raise InputError(f"The baseline {path} cannot be written: it nests too deeply.\n{MEND}") from None


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


def _like(nodeid: str, others: Collection[str]) -> list[str]:
    """The tests that may be this one under another name: of the same function name, else those nearly named so."""
    same = [each for each in sorted(others) if _function(each) == _function(nodeid)]
    exact = [each for each in same if each.partition("[")[2] == nodeid.partition("[")[2]]
    return (exact or same or get_close_matches(nodeid, sorted(others), n=1, cutoff=NEAR))[:LIKE]


def _function(nodeid: str) -> str:
    """The name of a test's function.

    >>> _function("test_a.py::TestAll::test_b[x::y]")
    'test_b'
    """
    return nodeid.partition("[")[0].rpartition("::")[2]


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of the file; of two scores of one question nobody could say which is right."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        message = f"{json.dumps(twice)} stands twice in one place, as where a merge kept both sides"
        raise ValueError(message)
    return found


def _whole(digits: str) -> int | float:
    """A whole number; one of more digits than any score has is as good as infinite."""
    return int(digits) if len(digits) <= DIGITS else inf


def _check(tests: Any) -> None:
    """Raise ValueError, with the place, for what is not of the form that `baseline_entry` gives it."""
    for nodeid, test in _object(tests, "it has no object of tests").items():
        questions, scores = (_part(test, part, nodeid) for part in ("questions", "scores"))
        if not all(isinstance(asked, str) for asked in questions.values()):
            message = f"{nodeid} has a question without a digest"
            raise ValueError(message)
        for name, score in scores.items():
            where = f"{name} of {nodeid}"
            for key, value in _part(score, "fingerprint", where).items():
                if isinstance(value, dict | list):
                    message = (
                        f"{where} has in its fingerprint {key} = {value!r:.40}, which is no text or number"
                    )
                    raise ValueError(message)  # noqa: TRY004 - the file is at fault
            for example, kept in _part(score, "examples", where).items():
                if problem := _wrong(kept):
                    message = f"question {example} in {where} {problem}"
                    raise ValueError(message)


def _part(value: Any, part: str, where: str) -> dict[str, Any]:
    lacking = f"{where} has no object of {part}"
    return _object(_object(value, lacking).get(part), lacking)


def _object(value: Any, lacking: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(lacking)  # noqa: TRY004 - likewise
    return value


def _wrong(kept: Any) -> str:
    """What is wrong with what is kept of an example; empty where nothing is."""
    if not isinstance(kept, dict):
        return f"is {kept!r:.40}, which is no object"
    score, ranking = kept.get("score"), kept.get("ranking", [])
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if score is not None and not (is_number and abs(score) <= LARGEST):
        return f"has the score {score!r:.40}; that is a number, or null where there is none"
    if not isinstance(ranking, list) or not all(isinstance(label, str) for label in ranking):
        return f"has the ranking {ranking!r:.40}, which is no list of texts"
    other = next((part for part in ("answer", "under") if not isinstance(kept.get(part, ""), str)), None)
    return "" if other is None else f"has as {other} {kept[other]!r:.40}, which is no text"


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


Entry = Mapping[str, Any]


class Moved(NamedTuple):
    """A score whose baseline is another now, over the questions that are the same and scored in both.

    Attributes:
        nodeid: of its test.
        name: of the score, as thresholds ask for it.
        before: the mean that was; NaN where no question is scored in both.
        after: the mean that is written, likewise.
        n: how many questions these are of.
        worse: how many of them scored more before.
        better: how many scored less.
        lost: how many of the same questions had a score before, and have none now.
    """

    nodeid: str
    name: str
    before: float
    after: float
    n: int
    worse: int
    better: int
    lost: int = 0

    @property
    def lowered(self) -> bool:
        """Whether the new baseline asks for less than that of before."""
        return self.after < self.before or self.lost > 0


def moved_scores(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> list[Moved]:
    """Those of which a question scores otherwise, or no more; the largest drop first.

    Args:
        before: the tests of the file that is replaced, by node id.
        after: those that are written.
    """
    both = ((nodeid, before[nodeid], entry) for nodeid, entry in after.items() if nodeid in before)
    found = [moved for nodeid, then, now in both for moved in _of_test(nodeid, then, now)]
    return sorted(found, key=lambda moved: (_rise(moved), moved.nodeid, moved.name))


def held_back(entry: Entry, before: Entry, failed: Collection[str]) -> tuple[dict[str, Any], list[str]]:
    """A test's new entry, in which no score that fails a bound is lower than before, and the names of those kept back.

    They keep what the baseline has of them, but for examples whose question is another now.

    Args:
        entry: that is to be written.
        before: of the same test, in the file that is replaced.
        failed: names of scores that are out of a bound other than `max_drop`.
    """
    lowered = sorted(
        moved.name for moved in _of_test("", before, entry) if moved.lowered and moved.name in failed
    )
    kept = completed({**entry, "scores": {}}, before)["scores"]
    return {**entry, "scores": {**entry["scores"], **{name: kept[name] for name in lowered}}}, lowered


def _of_test(nodeid: str, then: Entry, now: Entry) -> Iterator[Moved]:
    same = {name for name, asked in now["questions"].items() if then["questions"].get(name) == asked}
    for name in now["scores"].keys() & then["scores"].keys():
        old, new = then["scores"][name]["examples"], now["scores"][name]["examples"]
        pairs, lost = [], 0
        for each in same & old.keys() & new.keys():
            was, is_now = old[each].get("score"), new[each].get("score")
            if was is not None and is_now is not None:
                pairs.append((was, is_now))
            lost += was is not None and is_now is None
        drops = [was - is_now for was, is_now in pairs]
        worse, better = (sum(sign * drop > NO_CHANGE for drop in drops) for sign in (1, -1))
        if worse or better or lost:
            was, is_now = (
                (fsum(column) / len(pairs) for column in zip(*pairs, strict=True)) if pairs else (nan, nan)
            )
            yield Moved(nodeid, name, was, is_now, len(pairs), worse, better, lost)


def _rise(moved: Moved) -> float:
    return moved.after - moved.before if moved.n else -inf
