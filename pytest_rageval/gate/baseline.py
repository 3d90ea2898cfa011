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

from pytest_rageval.core.data import Example
from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.gate.comparison import (
    AnchorPin,
    BaselineExample,
    BaselineScore,
    SpooledExample,
    SpooledExamples,
    fingerprint_digest,
)
from pytest_rageval.lib.files import refuse_special, write_atomically
from pytest_rageval.lib.spool import Spool
from pytest_rageval.lib.text import parse_failure

SCHEMA: Final = 1

MAX_SPREAD_DEPTH: Final = 5
"""Objects down to this depth have a line per key. Deeper objects are those of examples, each in a single line."""

MAX_ANSWER_LENGTH: Final = 200  # number of stored characters of an answer: enough to recognise it in a report

UPDATE_COMMAND: Final = "pytest --rageval-update-baseline"

MIN_SIMILARITY: Final = 0.8  # similarity of two node ids above which a test may have been renamed
MAX_CANDIDATES: Final = 3  # number of tests that an error suggests as the old name of a missing test
MAX_INTEGER_DIGITS: Final = 300  # an integer with more digits is read as infinite
SCALE_TOLERANCE: Final = 1e-9  # floating-point rounding may move a score this far beyond its scale
CHUNK_SIZE: Final = 1 << 23  # number of characters that are read at a time; each chunk may copy the text
NUMBER_TYPES: Final = frozenset({int, float})
MAX_SCORE: Final = 1e100  # sums and squares of larger scores overflow

REMEDY: Final = (
    "Restore it from git; or delete it, and write it again with --rageval-update-baseline on the commit to "
    "compare with."
)
CONFLICT_REMEDY: Final = (
    f"Take one side, such as with git checkout --theirs; then run {UPDATE_COMMAND}, and commit the file."
)


Scale = tuple[float, float] | None
"""The lowest and the highest value of a score; None if its scale is not declared."""


class ScoreEntry(TypedDict):
    """A score in the file.

    `examples` are by id. `repeats` is the number of repeats of each run over which an example's score is a mean, if it
    is not 1. `raised` and `lowered` count the updates that changed the mean of a score in which models take part.
    """

    fingerprint: dict[str, Any]
    examples: Mapping[str, BaselineExample]
    repeats: NotRequired[int]
    raised: NotRequired[int]
    lowered: NotRequired[int]


class BaselineEntry(TypedDict):
    """A test in the file.

    `questions` has the digest of each question by example id. `shares_alpha` is False if no marker of the test has a
    `max_drop` whose burden is a drop. `served` has, by model, the names that servers reported for it, if they differ
    from the name of the model. `own_k` is the number of documents that the retriever was configured to return, if any.
    """

    questions: dict[str, str]
    scores: dict[str, ScoreEntry]
    shares_alpha: NotRequired[bool]
    served: NotRequired[dict[str, list[str]]]
    own_k: NotRequired[int]


class AnchorEntry(BaselineEntry):
    """A test in the file as it was when the anchor was pinned, without rankings and answers.

    `commit` is the git commit, `date` is in ISO 8601, and `updates` is the number of updates since then that changed a
    score of the test.
    """

    commit: NotRequired[str]
    date: str
    updates: int


class Baseline:
    """The contents of a baseline file.

    Attributes:
        tests: the entries of tests, by node id.
        path: the path of the file; None if there is no file.
        anchors: the entries of anchors, by node id.
    """

    def __init__(
        self,
        tests: Mapping[str, BaselineEntry] | None = None,
        path: Path | None = None,
        anchors: Mapping[str, AnchorEntry] | None = None,
    ) -> None:
        self.tests: dict[str, BaselineEntry] = dict(tests or {})
        self.path = path
        self.anchors: dict[str, AnchorEntry] = dict(anchors or {})

    @classmethod
    def read_for_comparison(cls, path: Path, *, required: bool) -> Self:
        """Read the file. If it is `required`, or `path` is a symbolic link, it must exist.

        Raises:
            InputError: the file does not exist, or is not a baseline.
        """
        baseline = cls.read(path)
        if baseline.path is None and (required or path.is_symlink()):
            missing = "there is no such file"
            if path.is_symlink():
                missing = f"it is a link to {path.readlink()}, which is missing"
            raise InputError(
                f"The baseline {path} cannot be read: {missing}.\n"
                "Check rageval_baseline and --rageval-baseline; or write it on the commit to compare with: "
                f"{UPDATE_COMMAND}"
            )
        return baseline

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the file; if there is no file, the baseline is empty.

        Raises:
            InputError: the file is not a baseline.
        """
        try:
            refuse_special(path)
            text = _read_text(path)
        except FileNotFoundError:
            return cls()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"The baseline {path} cannot be read: {error}.\n{REMEDY}") from None
        return cls.parse(text, path)

    @classmethod
    def parse(cls, text: str, path: Path) -> Self:
        """Parse the text of a file.

        Args:
            text: the text.
            path: the path of the file, for messages.

        Raises:
            InputError: the text is not a baseline.
        """
        try:
            document = json.loads(text, object_pairs_hook=_ExampleSpooler().decode, parse_int=_parse_integer)
        except (ValueError, RecursionError) as error:
            reason = parse_failure(error)
            in_conflict = "<<<<<<<" in text
            reason = "it contains the marks of a merge conflict" if in_conflict else reason
            remedy = CONFLICT_REMEDY if in_conflict else REMEDY
            raise InputError(f"The baseline {path} is not JSON: {reason}.\n{remedy}") from None
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

    def score(self, nodeid: str, name: str, scale: Scale) -> BaselineScore | None:
        """Return a test's score in the baseline; None if it is missing.

        Raises:
            InputError: an example's score is not on the scale.
        """
        return self._score(self.tests.get(nodeid), None, nodeid, name, scale)

    def anchor_score(self, nodeid: str, name: str, scale: Scale) -> BaselineScore | None:
        """Return a test's score in its anchor; None if it is missing.

        Raises:
            InputError: an example's score is not on the scale.
        """
        test = self.anchors.get(nodeid)
        pin = None if test is None else AnchorPin(test.get("commit"), test["date"], test["updates"])
        return self._score(test, pin, nodeid, name, scale)

    def _score(
        self, test: BaselineEntry | None, pin: AnchorPin | None, nodeid: str, name: str, scale: Scale
    ) -> BaselineScore | None:
        if test is None or name not in test["scores"]:
            return None
        score = test["scores"][name]
        low, high = scale or (-inf, inf)
        examples = score["examples"]
        values = examples.scores if isinstance(examples, SpooledExamples) else _scores_of(examples)
        for example, value in zip(examples, values, strict=True):
            if value is not None and not low - SCALE_TOLERANCE <= value <= high + SCALE_TOLERANCE:
                raise InputError(
                    f"The baseline {self.path} cannot be compared with: question {example} in {name} of {nodeid} has "
                    f"the score {value:g}, and the score goes from {low:g} to {high:g}.\n{REMEDY}"
                )
        return BaselineScore(
            test["questions"], score["fingerprint"], score["examples"], score.get("repeats", 1), pin
        )

    @property
    def alpha_sharing_tests(self) -> set[str]:
        """The node ids of the tests whose thresholds share the error rate of a run."""
        return {nodeid for nodeid, test in self.tests.items() if test.get("shares_alpha", True)}

    def missing_reason(
        self, nodeid: str, name: str, present: Collection[str], *, repeated: bool = False
    ) -> tuple[str, bool]:
        """Return why a test's score is missing, with the remedy, and whether it is new; empty if there is no file.

        A score of a renamed test is not new, nor is that of a repetition: its test has a baseline under another name.

        Args:
            nodeid: the node id of the test.
            name: the name of the score.
            present: the node ids of the tests of this run, which cannot be old names of the test.
            repeated: whether pytest-repeat has added the number of the repetition to the node id.
        """
        if self.path is None:
            return "", False
        remedy = (
            f"Run {UPDATE_COMMAND} {shlex.quote(nodeid)} on the commit to compare with, and commit the file."
        )
        if nodeid in self.tests:
            scores = self.tests[nodeid]["scores"]
            existing = f"it has {', '.join(scores)}" if scores else "it has none"
            return (
                f"{self.path} has no {name} of {nodeid}; {existing}.{did_you_mean(name, scores)}\n{remedy}",
                True,
            )
        text = f"{self.path} has no entry for {nodeid}"
        if repeated:
            return (
                f"{text}: pytest-repeat runs a test again under other names, and with the same cached replies.\n"
                "Run without --count and the marker repeat; --rageval-repeat N scores each question N times."
            ), False
        candidates = _old_names(nodeid, self.tests.keys() - set(present))
        if not candidates:
            return f"{text}.\n{remedy}", True
        renamed = (
            f"{text}; renamed from {' or '.join(candidates)}?\n"
            "If so, rename it in the baseline too, or restore pytest's root directory if that changed. If it is "
            "another test: "
            f"{remedy[0].lower()}{remedy[1:]}"
        )
        return renamed, False

    def write(self, path: Path) -> None:
        """Write the file, in place of an existing one.

        Raises:
            InputError: the file cannot be written.
        """
        try:
            anchors = {"anchors": self.anchors} if self.anchors else {}
            lines = _json_lines({"schema": SCHEMA, "tests": self.tests, **anchors}, 0)
            path.resolve().parent.mkdir(parents=True, exist_ok=True)
            # UTF-8 cannot encode half of a surrogate pair, for which JSON has an escape.
            write_atomically(path, (f"{line}\n".encode(errors="backslashreplace") for line in lines))
        except OSError as error:
            raise InputError(f"The baseline {path} cannot be written: {error.strerror or error}.") from None
        except RecursionError:
            # Unknown keys of later versions are written too, however deep their values are.
            raise InputError(
                f"The baseline {path} cannot be written: it nests too deeply.\n{REMEDY}"
            ) from None


def baseline_entry(
    examples: tuple[Example, ...],
    scores: Mapping[str, tuple[Score, Mapping[str, Any]]],
    *,
    context: AbstractSet[str] = frozenset(),
    averaged: Collection[str] = (),
    spool: Spool,
) -> BaselineEntry:
    """Return the entry of a test.

    Args:
        examples: the examples of the test's eval set.
        scores: for each name of a score of the whole eval set, the score and its fingerprint.
        context: the parts of an example's context that any of the scores may depend on.
        averaged: the names of the scores in which models take part; updates average them over runs.
        spool: stores the rankings and answers.
    """
    return {
        "questions": {example.id: example.digest_with_context(context) for example in examples},
        "scores": {
            name: _score_entry(score, fingerprint, spool, averaged=name in averaged)
            for name, (score, fingerprint) in scores.items()
        },
    }


def anchor_entry(entry: BaselineEntry, pin: AnchorPin) -> AnchorEntry:
    """Return an anchor with the scores of a test's entry and the given pin."""
    anchor: AnchorEntry = {
        "questions": entry["questions"],
        "scores": {
            name: {
                **score,
                "examples": {
                    example_id: _without_evidence(example)
                    for example_id, example in score["examples"].items()
                },
            }
            for name, score in entry["scores"].items()
        },
        "date": pin.date,
        "updates": pin.updates,
    }
    if pin.commit is not None:
        anchor["commit"] = pin.commit
    return anchor


def _without_evidence(example: BaselineExample) -> BaselineExample:
    reduced: BaselineExample = {"score": example["score"]}
    if "under" in example:
        reduced["under"] = example["under"]
    return reduced


def _score_entry(score: Score, fingerprint: Mapping[str, Any], spool: Spool, *, averaged: bool) -> ScoreEntry:
    under = fingerprint_digest(fingerprint)
    examples = (
        (outcome.example.id, _example(outcome, under, averaged=averaged)) for outcome in score.outcomes
    )
    entry: ScoreEntry = {"fingerprint": dict(fingerprint), "examples": spooled_examples(examples, spool)}
    if score.repeats:
        entry["repeats"] = len(score.repeats) + 1
    return entry


def spooled_examples(
    examples: Iterable[tuple[str, BaselineExample]], spool: Spool
) -> Mapping[str, BaselineExample]:
    """Return these examples, by id, with their rankings and answers in the spool."""
    stored = {name: SpooledExample.store(spool, dict(example)) for name, example in examples}
    return cast("Mapping[str, BaselineExample]", SpooledExamples(spool, stored) if stored else stored)


def _example(outcome: Outcome, under: str, *, averaged: bool) -> BaselineExample:
    evidence = outcome.evidence
    example: BaselineExample = {"score": outcome.value, "under": under}
    if averaged:
        example["runs"] = 1
    if evidence.ranking is not None:
        example["ranking"] = evidence.ranking.labels
    if evidence.answer is not None:
        example["answer"] = " ".join(evidence.answer.split())[:MAX_ANSWER_LENGTH]
    return example


def _scores_of(examples: Mapping[str, BaselineExample]) -> Iterator[float | None]:
    return (example.get("score") for example in examples.values())


def _old_names(nodeid: str, others: Collection[str]) -> list[str]:
    """Return the tests that may be this test before it was renamed.

    These are the tests with the same function name, if possible with the same parameters; else the test with a similar
    node id.
    """
    same = [other for other in sorted(others) if _function_name(other) == _function_name(nodeid)]
    exact = [other for other in same if other.partition("[")[2] == nodeid.partition("[")[2]]
    similar = exact or same or get_close_matches(nodeid, sorted(others), n=1, cutoff=MIN_SIMILARITY)
    return similar[:MAX_CANDIDATES]


def _function_name(nodeid: str) -> str:
    """The name of a test's function.

    >>> _function_name("test_a.py::TestAll::test_b[x::y]")
    'test_b'
    """
    return nodeid.partition("[")[0].rpartition("::")[2]


def _read_text(path: Path) -> str:
    """Read a file in chunks: its bytes and its text at once would take the most memory of a large run."""
    text = ""
    with path.open(encoding="utf-8-sig") as file:
        while chunk := file.read(CHUNK_SIZE):
            text += chunk
    return text


class _ExampleSpooler:
    """Stores the examples of a file in a spool while the JSON is decoded."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._last: SpooledExamples | None = None

    def decode(self, pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
        """Return an object of the file: an example as `SpooledExample`, the examples of a score as `SpooledExamples`.

        It is the `object_pairs_hook` of the decoder.
        """
        decoded = _unique_keys(pairs)
        if "score" in decoded and not _problem(decoded):
            return SpooledExample.store(self._spool, decoded)
        if isinstance(fingerprint := decoded.get("fingerprint"), SpooledExample):
            # A fingerprint with a key "score" looked like an example.
            decoded["fingerprint"] = dict(fingerprint)
        examples = decoded.get("examples")
        # The types tell the examples of a score from an example whose id is "examples".
        if isinstance(examples, dict) and {SpooledExample} == {*map(type, examples.values())}:
            decoded["examples"] = self._last = SpooledExamples(self._spool, examples, self._last)
        return decoded


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of the file as a dict.

    Raises:
        ValueError: a key occurs twice. Of two scores of the same question it is unknown which one is right.
    """
    decoded = dict(pairs)
    if len(decoded) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(
            f"{json.dumps(twice)} occurs twice in one object, as after a merge that kept both sides"
        )
    return decoded


def _parse_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_INTEGER_DIGITS else inf


def _check_anchors(anchors: Mapping[str, Any]) -> None:
    by_place = {f"the anchor of {nodeid}": anchor for nodeid, anchor in anchors.items()}
    _check(by_place)
    for where, anchor in by_place.items():
        _check_count(anchor, "updates", where, 0)
        texts = (anchor.get("date"), anchor.get("commit", ""))
        if "updates" not in anchor or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{where} does not say when it was pinned, by date, commit and updates")


def _check(tests: Mapping[str, Any]) -> None:
    """Raise ValueError, with the place in the file, for content that `baseline_entry` would not write."""
    for nodeid, test in tests.items():
        questions, scores = (_object_at(test, key, nodeid) for key in ("questions", "scores"))
        if not all(isinstance(question_digest, str) for question_digest in questions.values()):
            raise ValueError(f"{nodeid} has a question without a digest")
        for name, score in scores.items():
            where = f"{name} of {nodeid}"
            for key, value in _object_at(score, "fingerprint", where).items():
                if isinstance(value, dict | list):
                    raise ValueError(  # noqa: TRY004 - the file is at fault
                        f"{where} has in its fingerprint {key} = {value!r:.40}, which is neither text nor number"
                    )
            _check_count(score, "repeats", where, 1)
            for key in ("raised", "lowered"):
                _check_count(score, key, where, 0)
            examples = _object_at(score, "examples", where)
            # Spooled examples were checked when they were decoded.
            for example_id, example in () if isinstance(examples, SpooledExamples) else examples.items():
                if problem := _problem(example):
                    raise ValueError(f"question {example_id} in {where} {problem}")


def _check_count(value: dict[str, Any], key: str, where: str, least: int) -> None:
    number = value.get(key, least)
    if not isinstance(number, int) or isinstance(number, bool) or number < least:
        raise ValueError(
            f"{where} has {key} = {number!r:.40}, which is not a whole number of at least {least}"
        )


def _object_at(value: Any, key: str, where: str) -> Mapping[str, Any]:
    """Return the object at a key of an object; raise ValueError if either is no object."""
    problem = f"{where} has no object of {key}"
    return _object(_object(value, problem).get(key), problem)


def _object(value: Any, problem: str) -> Mapping[str, Any]:
    if not isinstance(value, dict | SpooledExamples):
        raise ValueError(problem)  # noqa: TRY004 - the file is at fault
    return value


def _problem(example: Any) -> str:
    """Return what is wrong with an example's entry; empty if it is valid."""
    if not isinstance(example, dict):
        if isinstance(example, SpooledExample):
            return ""
        return f"is {example!r:.40}, which is not an object"
    score, ranking = example.get("score"), example.get("ranking", [])
    # The exact type is compared, since a boolean is an instance of `int`.
    if score is not None and not (type(score) in NUMBER_TYPES and abs(score) <= MAX_SCORE):
        return f"has the score {score!r:.40}; that is a number, or null where there is none"
    if not isinstance(ranking, list) or not {str}.issuperset(map(type, ranking)):
        return f"has the ranking {ranking!r:.40}, which is not a list of texts"
    for key in ("answer", "under"):
        if not isinstance(example.get(key, ""), str):
            return f"has as {key} {example[key]!r:.40}, which is not a text"
    runs = example.get("runs", 1)
    is_count = type(runs) is int and runs >= 1
    return "" if is_count else f"has runs = {runs!r:.40}, which is not a whole number of at least 1"


def _json_lines(value: Any, depth: int, *, name: str = "", end: str = "") -> Iterator[str]:
    """Yield the lines of a JSON document, in which fingerprints and deep objects take a single line each.

    Args:
        value: the value to encode.
        depth: its depth in the document, which is also its indentation.
        name: its key in the surrounding object; empty for the document itself.
        end: what follows the value: a comma, or nothing.
    """
    head = " " * depth + (f"{json.dumps(name, ensure_ascii=False)}: " if name else "")
    is_spread = isinstance(value, dict | SpooledExamples) and value
    if not is_spread or depth > MAX_SPREAD_DEPTH or name == "fingerprint":
        yield head + _ENCODER.encode(value) + end
        return
    yield head + "{"
    keys = sorted(value)
    for key in keys:
        yield from _json_lines(value[key], depth + 1, name=key, end="" if key == keys[-1] else ",")
    yield " " * depth + "}" + end


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, allow_nan=False, default=dict)
"""`default` converts a `SpooledExample` to a dict."""
