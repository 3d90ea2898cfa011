"""The types of the entries of the JSON report, schema 1. docs/reference/json-report.md describes their keys."""

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
    """The comparison of a score with its baseline or its anchor.

    Only the entry of an anchor has `commit`, `date` and `updates`: where and when the anchor was pinned, and how often
    the baseline was updated since.
    """

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
    """The numbers of questions in an evaluation with `--rageval-early-stop`.

    `verdict` is the early verdict, None if all questions were evaluated. `drop` is an estimate.
    """

    asked: int
    changed: int
    unchanged: int
    not_asked: int
    drop: float | None
    verdict: str | None


class ExampleEntry(TypedDict, total=False):
    """The outcome of one example in a score, and the outcome of the example in the baseline (keys `before…`)."""

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
    """An evaluated question of a test, with its gold passages and its ranking.

    The scores of the question are in the `examples` of the test's scores.
    """

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
    """A question that explains a verdict. `before` has the question's score, ranking and answer in the baseline."""

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
    """The questions that explain a verdict (`listed`), and how they do so (`why`).

    `why` is "worse" for questions that got worse than in the baseline, or than in the anchor if there is a key
    `since`. It is "below" or "above" for questions whose score is below or above `bound`. `of` is the number of
    questions that were compared.
    """

    why: str
    since: str
    bound: float
    of: int
    better: int
    lost_by: dict[str, int]
    listed: list[QuestionEntry]


class ReferenceEntry(TypedDict):
    """A latency divided by the latency of the reference retriever (`ratio`).

    `value` is the latency of the reference retriever in seconds. `interval` is None if there are too few examples.
    """

    value: float
    ratio: float
    interval: list[float] | None
    n: int


class RetrievalEntry(TypedDict, total=False):
    """The latency, size and cost of the retrievals of a test.

    The latencies, in seconds, are over the `timed` questions. The other numbers are means over all questions.
    `retriever` is the class of the retriever, and by what it was recognised; a function has none.
    """

    k: int
    questions: int
    timed: int
    latency_p50: float | None
    latency_p95: float | None
    context_tokens: float | None
    calls: float
    cost: float | None
    retriever: str


class ScoreEntry(TypedDict, total=False):
    """One score of a test. The keys are declared in the order in which the report has them."""

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
