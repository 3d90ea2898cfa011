"""The baseline file: one line per question, so that git merges it and shows what changed."""

import json
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Any, Final, NotRequired, Self, TypedDict, cast

from pytest_rageval.datatypes import Example
from pytest_rageval.errors import InputError, did_you_mean
from pytest_rageval.files import refuse_special, write_whole
from pytest_rageval.gate.comparison import (
    BaselineExample,
    BaselineScore,
    KeptExample,
    KeptExamples,
    Pin,
    mark_of,
)
from pytest_rageval.scores import Outcome, Score
from pytest_rageval.spool import Spool

__all__ = ["LONGEST", "WRITE", "AnchorEntry", "Baseline", "BaselineEntry", "baseline_entry", "pinned"]

SCHEMA: Final = 1

DEPTH: Final = 5
"""Objects down to this depth are spread over lines; deeper ones are an example's, in one line."""

LONGEST: Final = 200  # number of characters of an answer that are kept: enough to recognise it in a report

WRITE: Final = "pytest --rageval-update-baseline"

SIMILAR: Final = 0.8  # similarity of two node ids from which on one may be the other, renamed
CANDIDATES: Final = 3  # number of tests that an error names as the missing one, renamed
DIGITS: Final = 300  # an integer with more digits is read as infinite
ROUNDING: Final = 1e-9  # rounding may take a score this far beyond its scale
PART: Final = 1 << 23  # number of characters that are read at once: the text may be copied for each
NUMBERS: Final = frozenset({int, float})
LARGEST: Final = 1e100  # sums and squares of larger scores overflow

REMEDY: Final = (
    "Restore it from git; or delete it, and write it again with --rageval-update-baseline on the commit to "
    "compare with."
)


Scale = (
    tuple[float, float] | None
)  # the lowest and the highest value of a score; None where it is not declared


class ScoreEntry(TypedDict):
    """A score in the file: examples by id, and `repeats`, the runs over which each is a mean, where it is not one."""

    fingerprint: dict[str, Any]
    examples: Mapping[str, BaselineExample]
    repeats: NotRequired[int]


class BaselineEntry(TypedDict):
    """A test in the file.

    `questions` has the digest of each question by example id. `shares_alpha` is False if no marker of the test has a
    `max_drop` without `strict`. `served` has by model the names that servers reported for it, where they differ from
    its own.
    """

    questions: dict[str, str]
    scores: dict[str, ScoreEntry]
    shares_alpha: NotRequired[bool]
    served: NotRequired[dict[str, list[str]]]


class AnchorEntry(BaselineEntry):
    """A test in the file as it was when it was pinned, without rankings and answers.

    `commit` is of git, `date` in ISO 8601; `updates` counts the updates since then that changed a score of the test.
    """

    commit: NotRequired[str]
    date: str
    updates: int


class Baseline:
    """The tests and anchors of a file by node id, and its path; None where there is no file."""

    def __init__(
        self,
        tests: Mapping[str, BaselineEntry] | None = None,
        path: Path | None = None,
        anchors: Mapping[str, AnchorEntry] | None = None,
    ) -> None:
        self.tests = dict(tests or {})
        self.path = path
        self.anchors = dict(anchors or {})

    @classmethod
    def to_compare_with(cls, path: Path, *, named: bool) -> Self:
        """Read the file; one that was named, or that a link points to, must exist.

        Raises:
            InputError: it does not exist, or is not a baseline.
        """
        baseline = cls.read(path)
        if baseline.path is None and (named or path.is_symlink()):
            missing = "there is no such file"
            if path.is_symlink():
                missing = f"it is a link to {path.readlink()}, which is missing"
            raise InputError(
                f"The baseline {path} cannot be read: {missing}.\n"
                f"Check rageval_baseline and --rageval-baseline; or write it on the commit to compare with: {WRITE}"
            )
        return baseline

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file; without a file the baseline is empty.

        Raises:
            InputError: the file is not a baseline.
        """
        try:
            refuse_special(path)
            text = _text(path)
        except FileNotFoundError:
            return cls()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"The baseline {path} cannot be read: {error}.\n{REMEDY}") from None
        try:
            document = json.loads(text, object_pairs_hook=_Reader().object, parse_int=_integer)
        except (ValueError, RecursionError) as error:
            reason = "it nests too deeply" if isinstance(error, RecursionError) else str(error)
            reason = "it contains the marks of a merge conflict" if "<<<<<<<" in text else reason
            raise InputError(f"The baseline {path} is not JSON: {reason}.\n{REMEDY}") from None
        schema = document.get("schema") if isinstance(document, dict) else None
        if isinstance(schema, int) and schema > SCHEMA:
            raise InputError(
                f"The baseline {path} has schema {schema}; this version reads up to {SCHEMA}. Update the package."
            )
        if schema != SCHEMA or isinstance(schema, bool):
            raise InputError(f"The baseline {path} is not a baseline of this package.\n{REMEDY}")
        anchors = document.get("anchors", {})
        try:
            _check(_object(document.get("tests"), "it has no object of tests"))
            _check_anchors(_object(anchors, "its anchors are not an object"))
        except ValueError as error:
            raise InputError(
                f"The baseline {path} is not a baseline of this package: {error}.\n{REMEDY}"
            ) from None
        return cls(document["tests"], path, anchors)

    def before(self, nodeid: str, name: str, scale: Scale) -> BaselineScore | None:
        """A test's score in the baseline; None where it is missing.

        Raises:
            InputError: a question's score is not on the scale.
        """
        return self._score(self.tests.get(nodeid), None, nodeid, name, scale)

    def anchor(self, nodeid: str, name: str, scale: Scale) -> BaselineScore | None:
        """A test's score in its anchor, as `before`."""
        test = self.anchors.get(nodeid)
        pin = None if test is None else Pin(test.get("commit"), test["date"], test["updates"])
        return self._score(test, pin, nodeid, name, scale)

    def _score(
        self, test: BaselineEntry | None, pin: Pin | None, nodeid: str, name: str, scale: Scale
    ) -> BaselineScore | None:
        if test is None or name not in test["scores"]:
            return None
        score = test["scores"][name]
        low, high = scale or (-inf, inf)
        examples = score["examples"]
        values = examples.scores if isinstance(examples, KeptExamples) else _scores_of(examples)
        for example, value in zip(examples, values, strict=True):
            if value is not None and not low - ROUNDING <= value <= high + ROUNDING:
                raise InputError(
                    f"The baseline {self.path} cannot be compared with: question {example} in {name} of {nodeid} has "
                    f"the score {value:g}, and the score goes from {low:g} to {high:g}.\n{REMEDY}"
                )
        return BaselineScore(
            test["questions"], score["fingerprint"], score["examples"], score.get("repeats", 1), pin
        )

    @property
    def sharing(self) -> set[str]:
        """The tests whose thresholds share the error rate of a run."""
        return {nodeid for nodeid, test in self.tests.items() if test.get("shares_alpha", True)}

    def missing(self, nodeid: str, name: str, present: Collection[str]) -> str:
        """Why a score is missing, with the remedy; empty if there is no file.

        No test in `present`, the node ids of the run, can be this one's old name.
        """
        if self.path is None:
            return ""
        remedy = f"Run {WRITE} {shlex.quote(nodeid)} on the commit to compare with, and commit the file."
        if nodeid in self.tests:
            scores = self.tests[nodeid]["scores"]
            listed = f"it has {', '.join(scores)}" if scores else "it has none"
            return f"{self.path} has no {name} of {nodeid}; {listed}.{did_you_mean(name, scores)}\n{remedy}"
        text = f"{self.path} has no entry for {nodeid}"
        candidates = _candidates(nodeid, self.tests.keys() - set(present))
        if not candidates:
            return f"{text}.\n{remedy}"
        return (
            f"{text}; renamed from {' or '.join(candidates)}?\n"
            "Then rename it in the file too; or run pytest with the root directory of before. If it is another test: "
            f"{remedy[0].lower()}{remedy[1:]}"
        )

    def write(self, path: Path) -> None:
        """Replace the file.

        Raises:
            InputError: it cannot be written.
        """
        try:
            anchors = {"anchors": self.anchors} if self.anchors else {}
            lines = _lines({"schema": SCHEMA, "tests": self.tests, **anchors}, 0)
            path.resolve().parent.mkdir(parents=True, exist_ok=True)
            # UTF-8 has no half of a surrogate pair; JSON has an escape for it.
            write_whole(path, (f"{line}\n".encode(errors="backslashreplace") for line in lines))
        except OSError as error:
            raise InputError(f"The baseline {path} cannot be written: {error.strerror or error}.") from None
        except RecursionError:
            # Keys of later versions are kept, however deep.
            raise InputError(
                f"The baseline {path} cannot be written: it nests too deeply.\n{REMEDY}"
            ) from None


def baseline_entry(
    examples: tuple[Example, ...],
    scores: Mapping[str, tuple[Score, Mapping[str, Any]]],
    *,
    context: AbstractSet[str] = frozenset(),
    spool: Spool,
) -> BaselineEntry:
    """A test's entry, of scores of the whole set, each with what it depends on besides the retriever.

    Any of them may depend on the parts of the `context`. Rankings and answers are stored in the spool.
    """
    return {
        "questions": {example.id: example.digest_in(context) for example in examples},
        "scores": {name: _score(score, fingerprint, spool) for name, (score, fingerprint) in scores.items()},
    }


def pinned(entry: BaselineEntry, pin: Pin) -> AnchorEntry:
    """An anchor of a test's entry."""
    anchor: AnchorEntry = {
        "questions": entry["questions"],
        "scores": {
            name: {
                **score,
                "examples": {each: _without_evidence(kept) for each, kept in score["examples"].items()},
            }
            for name, score in entry["scores"].items()
        },
        "date": pin.date,
        "updates": pin.updates,
    }
    if pin.commit is not None:
        anchor["commit"] = pin.commit
    return anchor


def _without_evidence(kept: BaselineExample) -> BaselineExample:
    example: BaselineExample = {"score": kept["score"]}
    if "under" in kept:
        example["under"] = kept["under"]
    return example


def _score(score: Score, fingerprint: Mapping[str, Any], spool: Spool) -> ScoreEntry:
    mark = mark_of(fingerprint)
    entry: ScoreEntry = {
        "fingerprint": dict(fingerprint),
        "examples": _examples(score.outcomes, mark, spool),
    }
    if score.repeats:
        entry["repeats"] = len(score.repeats) + 1
    return entry


def _examples(outcomes: Iterable[Outcome], mark: str, spool: Spool) -> Mapping[str, BaselineExample]:
    kept = {each.example.id: KeptExample.put(spool, dict(_example(each, mark))) for each in outcomes}
    return cast("Mapping[str, BaselineExample]", KeptExamples(spool, kept) if kept else kept)


def _example(outcome: Outcome, mark: str) -> BaselineExample:
    evidence = outcome.evidence
    example: BaselineExample = {"score": outcome.value, "under": mark}
    if evidence.ranking is not None:
        example["ranking"] = [document.label for document in evidence.ranking]
    if evidence.answer is not None:
        example["answer"] = " ".join(evidence.answer.split())[:LONGEST]
    return example


def _scores_of(examples: Mapping[str, BaselineExample]) -> Iterator[float | None]:
    return (kept.get("score") for kept in examples.values())


def _candidates(nodeid: str, others: Collection[str]) -> list[str]:
    """The tests that may be this one under an old name: of the same function name, else with a similar node id."""
    same = [each for each in sorted(others) if _function(each) == _function(nodeid)]
    exact = [each for each in same if each.partition("[")[2] == nodeid.partition("[")[2]]
    return (exact or same or get_close_matches(nodeid, sorted(others), n=1, cutoff=SIMILAR))[:CANDIDATES]


def _function(nodeid: str) -> str:
    """The name of a test's function.

    >>> _function("test_a.py::TestAll::test_b[x::y]")
    'test_b'
    """
    return nodeid.partition("[")[0].rpartition("::")[2]


def _text(path: Path) -> str:
    """The text of a file, read in parts: its bytes and its text at once would take the most memory of a large run."""
    text = ""
    with path.open(encoding="utf-8") as file:
        while part := file.read(PART):
            text += part
    return text


class _Reader:
    """Keeps the examples of a file as they are read, with their evidence in one spool."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._last: KeptExamples | None = None

    def object(self, pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
        """An object of the file; the examples of a score as `KeptExamples`."""
        found = _unique_keys(pairs)
        if "score" in found and not _problem(found):
            return KeptExample.put(self._spool, found)
        if isinstance(fingerprint := found.get("fingerprint"), KeptExample):
            # It has an item "score".
            found["fingerprint"] = dict(fingerprint)
        examples = found.get("examples")
        # Those of a score, not an example of this name.
        if isinstance(examples, dict) and {KeptExample} == {*map(type, examples.values())}:
            found["examples"] = self._last = KeptExamples(self._spool, examples, self._last)
        return found


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of the file; of two scores of one question it is unknown which is right."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(
            f"{json.dumps(twice)} occurs twice in one object, as after a merge that kept both sides"
        )
    return found


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= DIGITS else inf


def _check_anchors(anchors: Mapping[str, Any]) -> None:
    named = {f"the anchor of {nodeid}": anchor for nodeid, anchor in anchors.items()}
    _check(named)
    for where, anchor in named.items():
        _check_count(anchor, "updates", where, 0)
        texts = (anchor.get("date"), anchor.get("commit", ""))
        if "updates" not in anchor or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{where} does not say when it was pinned, by date, commit and updates")


def _check(tests: Mapping[str, Any]) -> None:
    """Raise ValueError, with the place, for anything that `baseline_entry` would not write."""
    for nodeid, test in tests.items():
        questions, scores = (_part(test, part, nodeid) for part in ("questions", "scores"))
        if not all(isinstance(asked, str) for asked in questions.values()):
            raise ValueError(f"{nodeid} has a question without a digest")
        for name, score in scores.items():
            where = f"{name} of {nodeid}"
            for key, value in _part(score, "fingerprint", where).items():
                if isinstance(value, dict | list):
                    raise ValueError(  # noqa: TRY004 - the file is at fault
                        f"{where} has in its fingerprint {key} = {value!r:.40}, which is neither text nor number"
                    )
            _check_count(score, "repeats", where, 1)
            examples = _part(score, "examples", where)
            for example, kept in () if isinstance(examples, KeptExamples) else examples.items():
                if problem := _problem(kept):
                    raise ValueError(f"question {example} in {where} {problem}")


def _check_count(value: dict[str, Any], part: str, where: str, least: int) -> None:
    number = value.get(part, least)
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ValueError(
            f"{where} has {part} = {number!r:.40}, which is not a whole number of at least {least}"
        )


def _part(value: Any, part: str, where: str) -> Mapping[str, Any]:
    problem = f"{where} has no object of {part}"
    return _object(_object(value, problem).get(part), problem)


def _object(value: Any, problem: str) -> Mapping[str, Any]:
    if not isinstance(value, dict | KeptExamples):
        raise ValueError(problem)  # noqa: TRY004 - likewise
    return value


def _problem(kept: Any) -> str:
    """What is wrong with an example's entry; empty if it is valid."""
    if not isinstance(kept, dict):
        if isinstance(kept, KeptExample):
            return ""
        return f"is {kept!r:.40}, which is not an object"
    score, ranking = kept.get("score"), kept.get("ranking", [])
    # By its type, as a boolean is an `int`.
    if score is not None and not (type(score) in NUMBERS and abs(score) <= LARGEST):
        return f"has the score {score!r:.40}; that is a number, or null where there is none"
    if not isinstance(ranking, list) or not {str}.issuperset(map(type, ranking)):
        return f"has the ranking {ranking!r:.40}, which is not a list of texts"
    for part in ("answer", "under"):
        if not isinstance(kept.get(part, ""), str):
            return f"has as {part} {kept[part]!r:.40}, which is not a text"
    return ""


def _lines(value: Any, depth: int, *, name: str = "", end: str = "") -> Iterator[str]:
    """A JSON document, with fingerprints and deep objects in one line each."""
    head = " " * depth + (f"{json.dumps(name, ensure_ascii=False)}: " if name else "")
    spread = isinstance(value, dict | KeptExamples) and value
    if not spread or depth > DEPTH or name == "fingerprint":
        yield head + _ENCODER.encode(value) + end
        return
    yield head + "{"
    names = sorted(value)
    for each in names:
        yield from _lines(value[each], depth + 1, name=each, end="" if each == names[-1] else ",")
    yield " " * depth + "}" + end


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, allow_nan=False, default=dict)
"""Examples are read from a spool."""
