"""The types of the entries of the JSON report, schema 1. docs/reference/json-report.md describes their keys."""

from collections.abc import Mapping
from math import inf
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Required, TypedDict


class Between(NamedTuple):
    """Allows numbers from `low` to `high`, in an `Annotated` number."""

    low: float
    high: float = inf

    def problem(self, value: Any) -> str:
        """Return what is wrong with a value; empty if it is allowed."""
        if self.low <= value <= self.high:
            return ""
        return f"is not from {self.low:g} to {self.high:g}" if self.high < inf else f"is below {self.low:g}"


class Length(NamedTuple):
    """Allows lists of n items, in an `Annotated` list."""

    n: int

    def problem(self, value: Any) -> str:
        """Return what is wrong with a value; empty if it is allowed."""
        return "" if len(value) == self.n else f"has {len(value)} items, and must have {self.n}"


Count = Annotated[int, Between(0)]
Share = Annotated[float, Between(0, 1)]


Interval = Annotated[list[float], Length(2)]
OutcomeName = Literal["passed", "failed", "error", "skipped", "xfailed"]


class ComparisonEntry(TypedDict, total=False):
    """The comparison of a score with its baseline or its anchor.

    Only the entry of an anchor has `commit`, `date` and `updates`: where and when the anchor was pinned, and how often
    the baseline was updated since.
    """

    commit: str | None
    date: str
    updates: Count
    mean: float
    drop: float
    n: Count
    left_out: Count
    removed: Count
    new: Count
    edited: Count
    unscored: Count
    failed: list[str]
    interval: Interval
    p_value: Share
    alpha: Share
    detectable_drop: float | None
    examples_needed: Count | None
    clusters: Count
    design_effect: float
    worse: list[str]
    better: list[str]


ExpectedEntry = TypedDict("ExpectedEntry", {"as": str, "texts": list[str]})
"""The texts that an answer is compared with, and what they are, such as "reference"."""


class PlacesEntry(TypedDict):
    """The results of an answer in the arena, by its place in the judge's prompt; None if it was not judged there."""

    first: float | None
    second: float | None


class PassageEntry(TypedDict, total=False):
    """A retrieved passage; `gold` is True for a gold passage."""

    document: Required[str]
    text: str
    gold: bool


class LabelledPassageEntry(TypedDict, total=False):
    """A retrieved passage with its usefulness, and the generator's answer from it alone."""

    document: Required[str]
    label: Required[float]
    answer: str


class StepEntry(TypedDict):
    """A search of a retriever with several steps."""

    query: str
    retrieved: list[str]


class BeforeEntry(TypedDict, total=False):
    """A question in the baseline."""

    score: Required[float | None]
    retrieved: list[str]
    answer: str


class EarlyStopEntry(TypedDict):
    """The numbers of questions in an evaluation with `--rageval early_stop=true`.

    `verdict` is the early verdict, None if all questions were evaluated. `drop` is an estimate.
    """

    asked: Count
    changed: Count
    unchanged: Count
    not_asked: Count
    drop: float | None
    verdict: str | None


class ExampleEntry(TypedDict, total=False):
    """The outcome of one example in a score, and the outcome of the example in the baseline (keys `before…`)."""

    id: Required[str]
    score: Required[float | None]
    unscored: str | None
    undefined: str
    early_stop: str
    case: str | None
    lost_by: str | None
    explanation: str
    labels: list[Share]
    counts: dict[str, int]
    judge_votes: dict[str, int]
    beside: dict[str, float]
    places: PlacesEntry
    k: Count
    retrieved: list[str]
    answer: str
    expected: ExpectedEntry
    remark: str
    alone: list[str]
    before: float | None
    before_retrieved: list[str]
    before_answer: str


class EvaluatedQuestion(TypedDict, total=False):
    """An evaluated question of a test, with its gold passages and its ranking.

    The scores of the question are in the `examples` of the test's scores.
    """

    id: Required[str]
    question: Required[str]
    tags: dict[str, object]
    history: list[str]
    filters: dict[str, object]
    references: list[list[str]]
    reference: str
    gold: list[str]
    gold_texts: dict[str, str]
    gold_ranks: dict[str, int | None]
    retrieved: list[PassageEntry]
    steps: list[StepEntry]
    seconds: float
    context_tokens: Count


class QuestionEntry(TypedDict, total=False):
    """A question that explains a verdict. `before` has the question's score, ranking and answer in the baseline."""

    id: Required[str]
    question: str
    score: float | None
    history: list[str]
    filters: dict[str, object]
    retrieved: list[str]
    steps: list[StepEntry]
    answer: str
    gold: list[str]
    passages: list[LabelledPassageEntry]
    expected: ExpectedEntry
    judge: str
    remark: str
    unscored: str
    lost_by: str
    case: str
    before: BeforeEntry


class QuestionsEntry(TypedDict, total=False):
    """The questions that explain a verdict (`listed`), and how they do so (`why`).

    `why` is "worse" for questions that got worse than in the baseline, or than in the anchor if there is a key
    `since`. It is "below" or "above" for questions whose score is below or above `bound`. `of` is the number of
    questions that were compared.
    """

    why: str
    since: str
    bound: float
    of: Count
    better: Count
    lost_by: dict[str, int]
    listed: list[QuestionEntry]


class ReferenceEntry(TypedDict):
    """A latency divided by the latency of the reference retriever (`ratio`).

    `value` is the latency of the reference retriever in seconds. `interval` is None if there are too few examples.
    """

    value: float
    ratio: float
    interval: Interval | None
    n: Count


class RetrievalEntry(TypedDict, total=False):
    """The latency, size and cost of the retrievals of a test.

    The latencies, in seconds, are over the `timed` questions. The other numbers are means over all questions.
    `retriever` is the class of the retriever, and by what it was recognised; a function has none.
    """

    k: Count
    questions: Count
    timed: Count
    latency_p50: float | None
    latency_p95: float | None
    context_tokens: float | None
    calls: float
    cost: float | None
    retriever: str


class SliceEntry(TypedDict, total=False):
    """The result of a threshold for one value of a tag."""

    value: Required[Any]
    mean: Required[float | None]
    statistic: str
    ci95: Interval | None
    n: Count
    unscored: Count
    undefined: Count
    baseline: ComparisonEntry | None
    reference: ReferenceEntry
    anchor: ComparisonEntry
    verdict: Required[str | None]
    reason: str | None
    warnings: list[str]


class SlicesEntry(TypedDict):
    """The results of a threshold for each value of a tag, the worst first."""

    tag: str
    slices: list[SliceEntry]
    outside: NotRequired[Count]


class ScoreEntry(TypedDict, total=False):
    """One score of a test. The keys are declared in the order in which the report has them."""

    spec: Required[str]
    comparator: str
    label: str
    order: str
    temperature: float
    draws: int
    relevant: str
    ignored: dict[str, str]
    where: Required[dict[str, object]]
    mean: Required[float | None]
    statistic: str
    ci95: Interval | None
    scale: Interval
    n: Count
    unscored: Count
    undefined: Count
    spread: float
    runs: Count
    partly_scored: Count
    oddities: dict[str, int]
    counts: dict[str, int]
    judge_votes: dict[str, Any]
    beside: dict[str, float]
    pooled: dict[str, Any]
    common: dict[str, Any]
    arena: dict[str, Any]
    domains: dict[str, dict[str, int]]
    threshold: Mapping[str, Any] | None
    baseline: ComparisonEntry | None
    new: bool
    anchor: ComparisonEntry
    reference: ReferenceEntry
    early_stop: EarlyStopEntry
    verdict: str | None
    reason: str | None
    ceiling: dict[str, object]
    cases: dict[str, int]
    spearman: dict[str, float | None]
    warnings: list[str]
    examples: Required[list[ExampleEntry]]
    by: SlicesEntry
    questions: QuestionsEntry
    corrected: dict[str, Any]
    strata: list[dict[str, object]]
    canary: dict[str, Any]
    fingerprint: dict[str, object]
    prompts: list[str]


class EvalSetEntry(TypedDict, total=False):
    """An eval set, or the part of it that a run scored."""

    name: str
    size: Count
    of: Count
    sample: float
    shard: str
    digest: str
    warnings: list[str]


class AgreementRow(TypedDict):
    """How well the labels of an annotator agree with the answers; `tau` and `rho` are None if they are undefined."""

    annotator: str
    measure: str
    k: Count
    tau: float | None
    rho: float | None
    n: Count


class MissingAgreement(TypedDict):
    """An agreement that could not be computed."""

    annotator: str
    measure: str
    k: Count
    reason: str


class AgreementEntry(TypedDict):
    """The agreement of several annotators' labels with the answers of a test."""

    downstream: str
    label: str | None
    rows: list[AgreementRow]
    missing: list[MissingAgreement]


class TestEntry(TypedDict, total=False):
    """One test of a run. The key `shard` has what only a merge reads."""

    nodeid: Required[str]
    outcome: Required[OutcomeName]
    message: str
    evalset: EvalSetEntry | None
    scores: Required[list[ScoreEntry]]
    function: str
    system: dict[str, str]
    parameters: dict[str, str]
    own: list[Literal["generator", "judge"]]
    uses: list[Literal["generator", "judge", "comparator"]]
    retrieval: RetrievalEntry
    agreement: list[AgreementEntry]
    calibration: list[dict[str, Any]]
    accept: str
    cause: str
    served: dict[str, list[str]]
    fingerprint: dict[str, object]
    prompts: dict[str, str]
    warnings: list[str]
    notes: list[str]
    questions: list[EvaluatedQuestion]


class RevisionEntry(TypedDict, total=False):
    """The revision that was tested."""

    commit: str
    branch: str
    title: str
    url: str
    dirty: bool
    baseline: Mapping[str, object]  # the file, and the commit that last changed it


class UsageEntry(TypedDict, total=False):
    """The model usage of a run; `cost_usd` is None if a price is unknown."""

    requests: Count
    cached: Count
    live: Count
    failed: Count
    tokens_in: Count
    tokens_out: Count
    cost_usd: float | None
    unpriced: Count
    cut: Count
    remarks: dict[str, Count]


class MissingTestEntry(TypedDict):
    """A gated test that was not compared with the baseline."""

    nodeid: str
    reason: str
    allowed: bool


class GateEntry(TypedDict, total=False):
    """The gated tests of a run. `change` says how the branch changed the baseline."""

    tests: Required[Count]
    required: Required[bool]
    missing: Required[list[MissingTestEntry]]
    not_run: Required[Count]
    allowed_in_vain: list[str]
    left_out_by: str
    ref: str
    change: dict[str, object]


class SuiteEntry(TypedDict):
    """The verdict on all questions of the gated tests; `tests` has each test's part of the mean drop, by node id."""

    verdict: Literal["pass", "fail"]
    p_value: Share
    alpha: Share
    n: Count
    worse: Count
    better: Count
    gated: Count
    tests: dict[str, float]


class SettingsEntry(TypedDict, total=False):
    """The settings of a run that messages name; the others are those of the user."""

    generator: str | None
    judge: str | None
    comparator: str


class ReportDocument(TypedDict, total=False):
    """The document of a run, with the keys that commands read."""

    schema: Required[Literal[1]]
    package: str
    started: str
    duration_s: float
    stopped: bool
    run: RevisionEntry
    settings: SettingsEntry
    llm: UsageEntry
    gate: GateEntry
    suite: SuiteEntry
    tests: Required[list[TestEntry]]
