"""`Baseline`: the scores of a commit to compare with, and the entries that an update writes.

- `entries`: the entries of tests, scores and questions. `file`: the text of the file.
- `update`: the changes that an update makes to it.
"""

import shlex
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Final, Self, cast

from pytest_rageval.baseline.entries import (
    AnchorEntry,
    AnchorPin,
    BaselineEntry,
    BaselineExample,
    BaselineScore,
    ScoreEntry,
    fingerprint_digest,
)
from pytest_rageval.baseline.file import (
    SCHEMA,
    decode,
    document_lines,
    score_getter,
    spooled_examples,
    take_entries,
)
from pytest_rageval.core.errors import InputError, did_you_mean
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.lib.files import refuse_special, write_atomically
from pytest_rageval.lib.git import GitError, commit_of, file_at
from pytest_rageval.lib.spool import Spool
from pytest_rageval.lib.text import parse_failure

MAX_ANSWER_LENGTH: Final = 200  # number of stored characters of an answer: enough to recognise it in a report

UPDATE_COMMAND: Final = "pytest --rageval-update-baseline"

MIN_SIMILARITY: Final = 0.8  # similarity of two node ids above which a test may have been renamed
MAX_CANDIDATES: Final = 3  # number of tests that an error suggests as the old name of a missing test
SCALE_TOLERANCE: Final = 1e-9  # floating-point rounding may move a score this far beyond its scale

CHUNK_SIZE: Final = 1 << 23  # number of characters that are read at a time; each chunk may copy the text

REMEDY: Final = (
    "Restore it from git; or delete it, and write it again with --rageval-update-baseline on the commit to "
    "compare with."
)
CONFLICT_REMEDY: Final = (
    f"Take one side, such as with git checkout --theirs; then run {UPDATE_COMMAND}, and commit the file."
)


Scale = tuple[float, float] | None  # the lowest and the highest value; None if it is not declared


class Baseline:
    """The contents of a baseline file: entries by node id. `path` is None if there is no file."""

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
        """Parse the text of the file at `path`, which messages name.

        Raises:
            InputError: the text is not a baseline.
        """
        try:
            document = decode(text)
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
        if type(schema) is not int or schema < 1:
            raise InputError(f"The baseline {path} is not a baseline of this package.\n{REMEDY}")
        try:
            take_entries(document)
        except ValueError as error:
            raise InputError(
                f"The baseline {path} is not a baseline of this package: {error}.\n{REMEDY}"
            ) from None
        return cls(document["tests"], path, document["anchors"])

    @classmethod
    def read_at(cls, path: Path, ref: str) -> Self:
        """Read the file as it is at a commit, such as "origin/main"; InputError if it cannot be read there."""
        try:
            commit = commit_of(path.parent, ref)
            content = file_at(commit, path)
        except GitError as error:
            raise InputError(f"The baseline {path.name} of {ref} cannot be read: {error}.") from None
        if content is None:
            raise InputError(
                f"{ref} ({commit[:7]}) has no {path.name}, which --rageval baseline_ref=REF compares with.\n"
                "Write it there first, with --rageval-update-baseline."
            )
        return cls.parse_at(content, path, ref)

    @classmethod
    def parse_at(cls, content: bytes, path: Path, ref: str) -> Self:
        path = Path(f"{path} of {ref}")
        try:
            return cls.parse(content.decode(), path)
        except UnicodeDecodeError as error:
            raise InputError(f"The baseline {path} cannot be read: {error}.") from None

    def score(self, nodeid: str, name: str, scale: Scale) -> BaselineScore | None:
        """Return a test's score in the baseline; None if it is missing.

        Raises:
            InputError: an example's score is not on the scale.
        """
        return self._score(self.tests.get(nodeid), None, nodeid, name, scale)

    def anchor_score(self, nodeid: str, name: str, scale: Scale) -> BaselineScore | None:
        """Return a test's score in its anchor, as `score` does."""
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
        score_of = score_getter(examples)
        for example in examples:
            value = score_of(example)
            if value is not None and not low - SCALE_TOLERANCE <= value <= high + SCALE_TOLERANCE:
                raise InputError(
                    f"The baseline {self.path} cannot be compared with: question {example} in {name} of {nodeid} has "
                    f"the score {value:g}, and the score goes from {low:g} to {high:g}.\n{REMEDY}"
                )
        return BaselineScore(
            test["questions"],
            score["fingerprint"],
            score["examples"],
            score.get("repeats", 1),
            pin,
            tags=test.get("tags", {}),
        )

    @property
    def alpha_sharing_tests(self) -> set[str]:
        """The node ids of the tests whose thresholds share the error rate of a run."""
        return {nodeid for nodeid, test in self.tests.items() if test.get("shares_alpha", True)}

    def missing_reason(
        self, nodeid: str, name: str, present: Collection[str], *, repeated: bool = False
    ) -> tuple[str, bool]:
        """Return why a test's score is missing, with the remedy, and whether it is new; empty if there is no file.

        A score of a renamed test is not new, nor is that of a repetition, where pytest-repeat has added a number to the
        node id: its test has a baseline under another name. No test that is `present` in this run is the old name of
        another.
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
            lines = document_lines(self.tests, self.anchors)
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
    scores: Mapping[str, tuple[Score, Mapping[str, object]]],
    *,
    context: AbstractSet[str] = frozenset(),
    averaged: Collection[str] = (),
    spool: Spool,
) -> BaselineEntry:
    """Return the entry of a test, from its scores of the whole eval set with their fingerprints, by name.

    `context` has the parts of an example's context that any of the scores may depend on. `averaged` are the names of
    the scores in which models take part, which updates average over runs.
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
                # Without the evidence.
                "examples": {
                    example_id: cast(
                        "BaselineExample", {key: each.get(key) for key in ("score", "under") if key in each}
                    )
                    for example_id, each in score["examples"].items()
                },
            }
            for name, score in entry["scores"].items()
        },
        "date": pin.date,
        "updates": pin.updates,
    }
    if "tags" in entry:
        anchor["tags"] = entry["tags"]
    if pin.commit is not None:
        anchor["commit"] = pin.commit
    return anchor


def _score_entry(
    score: Score, fingerprint: Mapping[str, object], spool: Spool, *, averaged: bool
) -> ScoreEntry:
    under = fingerprint_digest(fingerprint)
    examples = (
        (outcome.example.id, _example(outcome, under, averaged=averaged)) for outcome in score.outcomes
    )
    entry: ScoreEntry = {"fingerprint": dict(fingerprint), "examples": spooled_examples(examples, spool)}
    if score.repeats:
        entry["repeats"] = len(score.repeats) + 1
    return entry


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
