"""The types of those parts of a shard's report that only a merge reads.

Values of the type `Any` are serialized by `Serializer`; `Deserializer` checks the restored objects.
"""

from typing import Annotated, Any, NotRequired, Required, TypedDict

from pytest_rageval.core.document import EvalSetEntry, RevisionEntry, TestEntry
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


class DefinitionEntry(TypedDict):
    """The definition of a plugin's score."""

    name: str
    asks: list[str] | None
    scale: Any
    corrected_by: str | None
    pooled: bool


class ScorePart(TypedDict, total=False):
    """The outcomes of a score in a shard, or the error that prevented them."""

    request: Required[list[Any]]
    compared: Required[bool]
    definition: DefinitionEntry
    fingerprint: Any
    comparison: str | None
    prompts: dict[str, str]
    error: str
    runs: list[list[Any]]


class CalibrationPart(TypedDict, total=False):
    """The calibration of a judge in a shard, or the error that prevented it."""

    source: Required[str]
    comparator: Required[str | None]
    comparison: Required[str | None]
    error: str
    labels: Any
    outcomes: Any


class MarkerEntry(TypedDict):
    """The arguments of a marker."""

    args: Any
    kwargs: Any


class CallEntry(TypedDict):
    """The arguments of a call of `rageval.score`."""

    spec: str
    keywords: Any


class ExpectedFailure(TypedDict):
    """The mark of a test that is expected to fail."""

    reason: str
    strict: bool | None


class ShardTest(TypedDict):
    """The key `shard` of a test's entry: a `ShardRecord`."""

    file: str
    evalset: EvalSetEntry
    places: list[Count]
    examples: Any
    markers: dict[str, list[MarkerEntry]]
    shares_alpha: bool
    scores: list[ScorePart]
    calibrations: list[CalibrationPart]
    calls: list[CallEntry]
    served: dict[str, list[str]]
    own_k: NotRequired[int | None]
    received: NotRequired[list[str]]
    verdicts: NotRequired[list[list[Any]]]
    rankings: NotRequired[list[list[Any]]]
    table: list[Any]
    xfail: NotRequired[ExpectedFailure]


class ShardTestEntry(TestEntry):
    """A test of a shard; without the key `shard` if it has no outcomes."""

    shard: NotRequired[ShardTest]


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
