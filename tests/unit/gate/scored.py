"""Helpers that create scores, baselines, comparisons and verdicts from the values of examples."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from pytest_rageval.baseline import baseline_entry
from pytest_rageval.baseline.entries import BaselineScore
from pytest_rageval.core.errors import Cause, RagevalError
from pytest_rageval.core.evalset import Example
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.policy import Policy
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.gate import judge as decided
from pytest_rageval.gate.comparison import Comparison, compare
from pytest_rageval.gate.drop_tests import DropTestInput, DropTestResult, run_drop_tests
from pytest_rageval.gate.judge import evaluate_thresholds
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import BaselineLookup, Measured, ThresholdInput, ThresholdResult, Verdict
from pytest_rageval.lib.spool import Spool

Values = Mapping[str, float | None]


def example(name: str, **fields: Any) -> Example:
    return Example(name, fields.pop("question", name), **fields)


def score_of(
    values: Values,
    *,
    tags: Mapping[str, Mapping[str, Any]] | None = None,
    cause: Cause = "example",
    **words: Any,
) -> Score:
    outcomes = [
        Outcome(
            example(name, tags=(tags or {}).get(name, {})),
            value,
            None if value is not None else "no gold" if cause == "example" else f"the {cause} failed",
            cause=cause,
        )
        for name, value in values.items()
    ]
    return Score("recall@5", outcomes, **words)


def before_of(values: Values, *, fingerprint: Mapping[str, Any] | None = None) -> BaselineScore:
    score = score_of(values)
    entry = baseline_entry(
        tuple(outcome.example for outcome in score.outcomes),
        {"recall@5": (score, fingerprint or {})},
        spool=Spool(),
    )
    stored = entry["scores"]["recall@5"]
    return BaselineScore(entry["questions"], stored["fingerprint"], stored["examples"])


def plain(entry: Any) -> Any:
    return {key: plain(value) for key, value in entry.items()} if isinstance(entry, Mapping) else entry


def comparison_of(before: Values, now: Values) -> Comparison:
    return compare(score_of(now), {}, before_of(before))


def numbered(ones: int, zeros: int) -> dict[str, float | None]:
    return {f"q{n}": float(n < ones) for n in range(ones + zeros)}


def ranked(name: str, value: float, labels: list[str], answer: str | None = None) -> Outcome:
    ranking = Ranking(name, tuple(Document(f"text of {label}", label) for label in labels))
    return Outcome(example(name), value, evidence=Evidence(ranking, answer))


POLICY_KEYS = {field.name for field in fields(Policy)} - {"name", "max_lost"}


def threshold_of(spec: str, *args: Any, **words: Any) -> Threshold:
    values = {key: words.pop(key) for key in [*words] if key in POLICY_KEYS}
    if words.pop("strict", False):
        values["burden"] = "exclude"
    policy = replace(Policy(), **{key: value for key, value in values.items() if value is not None})
    return Threshold(spec, *args, policy=words.pop("policy", policy), **words)


def drop_test(
    comparison: Comparison, *, max_drop: float, scale: tuple[float, float] = (0.0, 1.0), **words: Any
) -> DropTestResult:
    threshold = threshold_of("recall@5", max_drop=max_drop, **words)
    return run_drop_tests([DropTestInput(threshold, comparison, scale)])[0]


def verdict_on(score: Score, threshold: Threshold, *args: Any, **words: Any) -> Verdict:
    return decided.verdict_on(Measured(score, *args, **words), threshold)


def drop_verdict(score: Score, threshold: Threshold, drop: DropTestResult | None) -> Verdict:
    return verdict_on(score, threshold, None if drop is None else drop.comparison, drop)


def rule_on(
    score: Score, threshold: Threshold, baseline: BaselineLookup, *, alpha: float = 0.05
) -> ThresholdResult:
    [result] = evaluate_thresholds(
        [ThresholdInput(score, replace(threshold, policy=replace(threshold.policy, alpha=alpha)), baseline)]
    )
    if isinstance(result, RagevalError):
        raise result
    return result
