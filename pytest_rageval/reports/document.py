"""The entries of the JSON report, schema 1, as types; docs/reference describes the keys."""

from collections.abc import Mapping
from typing import Any, TypedDict

__all__ = [
    "ComparisonEntry",
    "EarlyStopEntry",
    "EvaluatedQuestion",
    "ExampleEntry",
    "QuestionEntry",
    "QuestionsEntry",
    "ReferenceEntry",
    "RetrievalEntry",
    "ScoreEntry",
]


class ComparisonEntry(TypedDict, total=False):
    """A score compared with its baseline, or with its anchor, which was pinned at a `commit`."""

    commit: str | None
    date: str
    updates: int
    mean: float
    drop: float
    n: int
    left_out: int
    unscored: int
    failed: list[str]
    interval: list[float]
    p_value: float
    alpha: float
    detectable_drop: float | None
    examples_needed: int | None
    clusters: int
    design_effect: float
    worse: list[str]
    better: list[str]


class EarlyStopEntry(TypedDict):
    """The counts of an early-stopped evaluation.

    `verdict` is None if all questions were evaluated. `drop` is an estimate.
    """

    asked: int
    changed: int
    unchanged: int
    not_asked: int
    drop: float | None
    verdict: str | None


class ExampleEntry(TypedDict, total=False):
    """One example of a score."""

    id: str
    score: float | None
    unscored: str | None
    undefined: str
    early_stop: str
    case: str | None
    lost_by: str | None
    explanation: str
    labels: list[float]
    counts: dict[str, int]
    judge_votes: dict[str, int]
    beside: dict[str, float]
    places: dict[str, float | None]
    k: int
    retrieved: list[str]
    answer: str
    expected: dict[str, Any]
    remark: str
    alone: list[str]
    before: float | None
    before_retrieved: list[str]
    before_answer: str


class EvaluatedQuestion(TypedDict, total=False):
    """A question of a test, with all that was retrieved for it; its scores are examples of the test's scores."""

    id: str
    question: str
    tags: dict[str, Any]
    history: list[str]
    filters: dict[str, Any]
    references: list[list[str]]
    reference: str
    gold: list[str]
    gold_texts: dict[str, str]
    gold_ranks: dict[str, int | None]
    retrieved: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    seconds: float
    context_tokens: int


class QuestionEntry(TypedDict, total=False):
    """A question that explains a verdict; `before` holds its score, ranking and answer in the baseline."""

    id: str
    question: str
    score: float | None
    history: list[str]
    filters: dict[str, Any]
    retrieved: list[str]
    steps: list[dict[str, Any]]
    answer: str
    gold: list[str]
    passages: list[dict[str, Any]]
    expected: dict[str, Any]
    judge: str
    remark: str
    unscored: str
    lost_by: str
    case: str
    before: dict[str, Any]


class QuestionsEntry(TypedDict, total=False):
    """The questions that explain a verdict, and why: "worse" than the baseline, "below" or "above" a `bound`.

    With `since` they are worse than the anchor.
    """

    why: str
    since: str
    bound: float
    of: int
    better: int
    lost_by: dict[str, int]
    listed: list[QuestionEntry]


class ReferenceEntry(TypedDict):
    """A time as a multiple of that of the reference retriever; the interval is None with too few examples."""

    value: float
    ratio: float
    interval: list[float] | None
    n: int


class RetrievalEntry(TypedDict, total=False):
    """The latency, size and cost of the retrievals of a test.

    Latencies are those of the `timed` questions; the means are over all questions.
    """

    k: int
    questions: int
    timed: int
    latency_p50: float | None
    latency_p95: float | None
    context_tokens: float | None
    calls: float
    cost: float | None


class ScoreEntry(TypedDict, total=False):
    """One score of a test, with its keys in the order of the report."""

    spec: str
    comparator: str
    label: str
    order: str
    temperature: float
    draws: int
    relevant: str
    ignored: dict[str, str]
    where: dict[str, Any]
    mean: float | None
    statistic: str
    ci95: list[float] | None
    scale: list[float]
    n: int
    unscored: int
    undefined: int
    spread: float
    runs: int
    partly_scored: int
    oddities: dict[str, int]
    counts: dict[str, int]
    judge_votes: dict[str, Any]
    beside: dict[str, float]
    pooled: dict[str, Any]
    common: dict[str, Any]
    arena: dict[str, Any]
    threshold: Mapping[str, Any] | None
    baseline: ComparisonEntry | None
    anchor: ComparisonEntry
    reference: ReferenceEntry
    early_stop: EarlyStopEntry
    verdict: str | None
    reason: str | None
    cases: dict[str, int]
    spearman: dict[str, float | None]
    warnings: list[str]
    examples: list[ExampleEntry]
    by: dict[str, Any]
    questions: QuestionsEntry
    corrected: dict[str, Any]
    strata: list[dict[str, Any]]
    canary: dict[str, Any]
    fingerprint: dict[str, Any]
    prompts: list[str]
