"""The types of those parts of a shard's report that only a merge reads, besides the records of its tests."""

from typing import Annotated, Any, NotRequired, Required, TypedDict

from pytest_rageval.core.document import RevisionEntry, TestEntry
from pytest_rageval.core.shape import Between, Count, Share

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
    settings: dict[str, Any]
    tests: list[ShardTestEntry]
    shard: ShardEntry
