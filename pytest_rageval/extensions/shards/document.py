"""`Shard`: the report of a shard, and the types of those parts that only a merge reads, besides the records."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, NotRequired, Required, TypedDict, cast

from pytest_rageval.core.document import Between, Count, RevisionEntry, SettingsEntry, Share, TestEntry
from pytest_rageval.core.errors import InputError
from pytest_rageval.lib.shape import check_shape

FORMAT: Final = 2
"""The version of those parts of a shard's report that only a merge reads."""

AtLeastOne = Annotated[int, Between(1)]


class UsageEntry(TypedDict, total=False):
    """The fields of `Usage`."""

    requests: Count
    cached: Count
    live: Count
    failed: Count
    tokens_in: Count
    tokens_out: Count
    cost_usd: float
    unpriced: Count
    dependent: Count
    unbounded: Count
    cost_at: Required[dict[str, float]]
    unpriced_at: Required[dict[str, float]]
    batches: Required[dict[str, float]]
    cut: Count
    remarks: Required[dict[str, Count]]
    servers: Required["dict[str, UsageEntry]"]


class ShardSettings(TypedDict, total=False):
    """The settings that verdicts depend on; a setting that is missing has its default."""

    comparator: str
    match_share: Share
    judge_votes: Count
    both_orders: bool
    max_unscored: Share
    require_baseline: bool
    allow_missing: list[str]
    baseline_ref: str | None
    max_removed: Share
    policy: dict[str, dict[str, Any]] | None
    repeat: AtLeastOne
    sample: Share
    seed: int
    cutoffs: list[AtLeastOne]
    draws: AtLeastOne
    llm_reteval_draws: AtLeastOne


class ShardEntry(TypedDict):
    """The key `shard` of a shard's report."""

    index: AtLeastOne
    of: AtLeastOne
    package: str
    baseline: str
    collected: list[str]
    claims: list[str]
    ran: list[str]
    left_out: list[str]
    settings: ShardSettings
    usage: UsageEntry
    recorded: dict[str, str]
    calibration: str | None


class ExpectedFailure(TypedDict):
    """The mark of a test that is expected to fail."""

    reason: str
    strict: bool | None


class StoredTest(TypedDict):
    """The key `shard` of a test's entry: a `ShardTest` as `core.plain` writes it."""

    value: dict[str, Any]
    tables: dict[str, list[Any]]
    xfail: NotRequired[ExpectedFailure]


class ShardTestEntry(TestEntry):
    """A test of a shard; without the key `shard` if it has no outcomes."""

    shard: NotRequired[StoredTest]


class ShardDocument(TypedDict):
    """The report of a shard."""

    package: str
    started: str
    duration_s: float
    stopped: NotRequired[bool]
    run: NotRequired[RevisionEntry]
    settings: SettingsEntry
    tests: list[ShardTestEntry]
    shard: ShardEntry


@dataclass(frozen=True)
class Shard:
    """The report of a shard.

    Attributes:
        path: path of the report's file, for messages.
        document: the JSON report (`ShardDocument`).
    """

    path: str
    document: Mapping[str, Any]

    def __post_init__(self) -> None:
        """Check the whole report.

        Raises:
            InputError: the file is not the report of a shard, is incomplete, or has another format.
        """
        entry = self.document.get("shard")
        if not isinstance(entry, Mapping):
            raise InputError(
                f"{self.path} is not the report of a shard.\nWrite one with: pytest --rageval-shard I/N "
                "--rageval-report FILE.json; for a job with all questions of its tests, --rageval-shard 1/1."
            )
        format_ = entry.get("format")
        if format_ != FORMAT:
            raise InputError(
                f"{self.path} has the format {format_!r} of shards, and this version reads {FORMAT}. Merge "
                "with the version of the package that wrote it."
            )
        try:
            check_shape(self.document, ShardDocument)
        except ValueError as error:
            raise InputError(
                f"{self.path} is not a complete report of a shard: {error}.\nWrite it again, and change nothing in it."
            ) from None
        if self.index > self.count:
            raise InputError(
                f"{self.path} is not a complete report of a shard: its index is {self.index}, of {self.count} shards."
            )

    @property
    def entry(self) -> Mapping[str, Any]:
        """The key `shard` of the report, which describes the shard."""
        return cast("Mapping[str, Any]", self.document["shard"])

    @property
    def index(self) -> int:
        """The number of the shard, from 1 to `count`."""
        return cast("int", self.entry["index"])

    @property
    def count(self) -> int:
        """The number of shards that the questions were split into."""
        return cast("int", self.entry["of"])

    @property
    def name(self) -> str:
        """The name of the shard in messages, such as "shard 2/8 (b.json)"."""
        return f"shard {self.index}/{self.count} ({self.path})"

    @cached_property
    def tests(self) -> dict[str, Mapping[str, Any]]:
        """The entries of the shard's tests by node id."""
        return {test["nodeid"]: test for test in self.document["tests"]}
