"""The entries of the baseline file, as `baseline.file` reads and writes them, and a score in it."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, NamedTuple, NotRequired, Required, Self, TypedDict

from pytest_rageval.lib.digests import digest
from pytest_rageval.lib.text import counted

IGNORED_KEYS: Final = frozenset({"package", "retriever"})
"""Keys of a fingerprint that are not compared: another retriever is what is tested.

If a release of the package changes scores, the fingerprint has another key for it.
"""

UPDATE_OPTION: Final = "--rageval-update-baseline"

COMMIT_DIGITS: Final = 7  # number of hex digits of a commit in messages
FINGERPRINT_DIGITS: Final = 8  # number of hex digits that distinguish the few fingerprints of one score


class BaselineExample(TypedDict, total=False):
    """An example of a score in the baseline.

    `score` is None if the example had no score; `ranking` has the labels of the retrieved documents, as in reports;
    `answer` is the beginning of the generator's answer; `under` is the digest of the fingerprint under which the
    example was scored (`fingerprint_digest`); `runs` is the number of runs that the score is a mean of, if models take
    part in it.
    """

    score: Required[float | None]
    ranking: list[str]
    answer: str
    under: str
    runs: int


class ScoreEntry(TypedDict):
    """A score of a test.

    `examples` are by id. `repeats` is the number of repeats of each run over which an example's score is a mean, if it
    is not 1. `raised` and `lowered` count the updates that changed the mean of a score in which models take part.
    """

    fingerprint: dict[str, Any]
    examples: Mapping[str, BaselineExample]
    repeats: NotRequired[int]
    raised: NotRequired[int]
    lowered: NotRequired[int]


class BaselineEntry(TypedDict):
    """A test.

    `questions` has the digest of each question by example id, and `tags` those of its tags by which a threshold with a
    bound on a drop selects slices. `shares_alpha` is False if no marker of the test has a `max_drop` whose burden is a
    drop. `served` has, by model, the names that servers reported for it. Extensions add keys of their own.
    """

    questions: dict[str, str]
    scores: dict[str, ScoreEntry]
    tags: NotRequired[dict[str, dict[str, object]]]
    shares_alpha: NotRequired[bool]
    served: NotRequired[dict[str, list[str]]]


class AnchorEntry(BaselineEntry):
    """A test as it was when the anchor was pinned, without rankings and answers.

    `commit` is the git commit, `date` is in ISO 8601, and `updates` is the number of updates since then that changed a
    score of the test.
    """

    commit: NotRequired[str]
    date: str
    updates: int


class AnchorPin(NamedTuple):
    """When an anchor was pinned.

    `commit` is None if it is unknown, `date` is in ISO 8601. `updates` is the number of updates of the baseline since
    then that changed a score of the test.
    """

    commit: str | None
    date: str
    updates: int = 0

    @classmethod
    def today(cls, commit: str | None) -> Self:
        return cls(commit, datetime.now(UTC).date().isoformat())

    def __str__(self) -> str:
        """A text such as "pinned at 1a2b3c4, 7 updates ago"."""
        place = f"on {self.date}" if self.commit is None else f"at {self.commit[:COMMIT_DIGITS]}"
        ago = f", {counted(self.updates, 'update')} ago" if self.updates else ""
        return f"pinned {place}{ago}"


@dataclass(frozen=True)
class BaselineScore:
    """A score in the baseline, or in its anchor.

    Attributes:
        questions: by example id, the digest of the question and its right answers.
        fingerprint: what the score depends on apart from the retriever, by name.
        examples: the examples of the score, by id.
        runs: number of repeats (`--rageval-repeat`) over which each example's score is a mean, in each run.
        pin: when the anchor was pinned; None for the baseline.
        context: the parts of an example's context that the score depends on, and that belong to the question.
        tags: by example id, the tags that slices are selected by; without those that have none.
    """

    questions: Mapping[str, str]
    fingerprint: Mapping[str, object]
    examples: Mapping[str, BaselineExample]
    runs: int = 1
    pin: AnchorPin | None = None
    context: AbstractSet[str] = frozenset()
    tags: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return "baseline" if self.pin is None else "anchor"

    @property
    def options(self) -> str:
        return UPDATE_OPTION if self.pin is None else f"{UPDATE_OPTION} --rageval-pin-baseline"

    @property
    def fewest_runs(self) -> int:
        """The smallest number of scores of an example that its score is a mean of."""
        return self.runs * min((example.get("runs", 1) for example in self.examples.values()), default=1)

    @cached_property
    def fingerprint_digest(self) -> str:
        return fingerprint_digest(self.fingerprint)


def fingerprint_digest(fingerprint: Mapping[str, object]) -> str:
    """A short digest of a fingerprint, which is stored with each example that was scored under it."""
    compared = {name: value for name, value in fingerprint.items() if name not in IGNORED_KEYS}
    return digest(compared)[:FINGERPRINT_DIGITS]
