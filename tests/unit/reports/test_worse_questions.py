"""Questions that got worse against the baseline, and reports of thresholds with slices."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_rageval.baseline import MAX_ANSWER_LENGTH
from pytest_rageval.baseline.entries import BaselineScore
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.gate.comparison import compare
from pytest_rageval.gate.verdict import BaselineLookup, ThresholdResult
from pytest_rageval.reports.failures import Room, failure_lines
from pytest_rageval.reports.questions import question_entry, single_question_lines
from pytest_rageval.reports.terminal import table_lines, warning_lines
from tests.unit.gate.scored import rule_on, threshold_of
from tests.unit.reports.entries import threshold_result_entry


def _outcome(name: str, value: float, *labels: str, answer: str | None = None, **fields: Any) -> Outcome:
    example = Example(name, f"Question {name}?", gold=(Gold("kb-1"),), **fields)
    ranking = Ranking(name, tuple(Document(f"text of {label}", label) for label in labels))
    return Outcome(example, value, evidence=Evidence(ranking, answer, ("yes",)), lost_by="retriever")


def _before(*outcomes: Outcome, scores: Sequence[float] = (), **kept: Any) -> BaselineScore:
    examples = [outcome.example for outcome in outcomes]
    scored = zip(examples, scores or [1.0] * len(examples), strict=True)
    return BaselineScore(
        {example.id: example.digest for example in examples},
        {},
        {example.id: {"score": score, **kept} for example, score in scored},
    )


def _worse(outcome: Outcome, **kept: Any) -> list[str]:
    comparison = compare(Score("answer.em@2", [outcome]), {}, _before(outcome, **kept))
    (pair,) = comparison.worse
    return [*single_question_lines(question_entry(pair.outcome, pair))][1:]


LONG = "so many words " * 40


@pytest.mark.parametrize(
    ("then", "lines"),
    [
        (
            {"ranking": ["kb-1", "kb-2"], "answer": "yes"},
            ["retrieved   kb-1, kb-2", "→           kb-2, kb-9", "answer      yes", "→           no"],
        ),
        ({"ranking": ["kb-2", "kb-9"], "answer": "no"}, ["retrieved   kb-2, kb-9", "answer      no"]),
        (
            {"ranking": [], "answer": "no"},
            ["retrieved   (nothing)", "→           kb-2, kb-9", "answer      no"],
        ),
        ({}, ["retrieved   kb-2, kb-9", "answer      no"]),
        # A ranking differs if its order or its number of documents differs.
        (
            {"ranking": ["kb-9", "kb-2"], "answer": "no"},
            ["retrieved   kb-9, kb-2", "→           kb-2, kb-9", "answer      no"],
        ),
        (
            {"ranking": ["kb-2"], "answer": "no"},
            ["retrieved   kb-2", "→           kb-2, kb-9", "answer      no"],
        ),
    ],
)
def test_differing_old_and_new_values_are_shown_below_each_other(then, lines):
    shown_lines = _worse(_outcome("q1", 0.5, "kb-2", "kb-9", answer="no"), **then)
    assert shown_lines == [
        "      gold        kb-1",
        *(f"      {line}" for line in lines),
        "      reference   yes",
        "      lost by     retriever",
    ]


def test_a_long_answer_is_compared_with_its_stored_beginning() -> None:
    outcome = _outcome("q1", 0.0, "kb-2", answer=LONG)
    stored = " ".join(LONG.split())[:MAX_ANSWER_LENGTH]
    assert sum("→" in line for line in _worse(outcome, answer=stored)) == 0
    other = _worse(outcome, answer=f"not {stored}"[:MAX_ANSWER_LENGTH])
    (now,) = (n for n, line in enumerate(other) if "→" in line)
    assert other[now - 1].endswith("…")
    assert not any("…" in line for line in _worse(outcome, answer="short"))


def test_a_lost_question_is_shown_once_with_all_its_scores() -> None:
    names = [f"q{n}" for n in range(12)]
    short = [_outcome(name, 0.0, "kb-2") for name in names]
    long = [_outcome(name, 0.25, "kb-2", "kb-3", answer="no") for name in names]
    results = [
        rule_on(
            Score(spec, outcomes), threshold_of(spec, max_drop=0.1), BaselineLookup({}, before), alpha=0.05
        )
        for spec, outcomes, before in (
            ("recall@1", short, _before(*short, ranking=["kb-1"])),
            ("answer.em@2", long, _before(*long, ranking=["kb-1", "kb-9"], answer="yes")),
        )
    ]
    lines = failure_lines(results, Room())
    assert [line[:6].strip() for line in lines if line.startswith("  q")] == names
    row = lines.index("       recall@1  answer.em@2")
    assert lines[row + 1 : row + 7] == [
        "  q0   1 → 0     1 → 0.25     Question q0?",
        "      gold      kb-1",
        "      before    kb-1, kb-9",
        "      now       kb-2, kb-3",
        "      answer    yes → no",
        "      reference yes",
    ]
    brief = failure_lines(results, Room(20), report="rag.html", after=["accept"])
    assert len(brief) <= 20
    assert brief[-2].startswith("11 more (-v shows all; report: rag.html): q1, q2, ")
    assert brief[-1] == "accept"


@pytest.mark.parametrize(("scale", "row"), [((0.0, 5.0), "5 → 0"), ((1.0, 5.0), "5 → 1")])
def test_a_question_that_counts_with_the_lowest_value_has_it_in_its_row(scale, row):
    failed = [Outcome(Example(f"q{n}", "Why?"), None, "no index", cause="retriever") for n in range(12)]
    before = _before(*failed, scores=[5.0] * 12)
    kept = Outcome(Example("kept", "Why?"), 5.0)
    score = Score("judged.correctness@5", [*failed, kept], scale=scale, max_unscored=1.0)
    result = rule_on(
        score, threshold_of("judged.correctness@5", max_drop=0.1), BaselineLookup({}, before), alpha=0.05
    )
    lines = failure_lines([result], Room())
    at = next(n for n, line in enumerate(lines) if line.startswith("  q0 "))
    assert f" {row} " in lines[at]
    assert lines[at + 1] == "      unscored  no index"


@pytest.mark.parametrize("bounds", [{}, {"min": 0.2}, {"max": 0.9}])
def test_where_nothing_got_worse_there_is_nothing_to_list(bounds: dict[str, float]) -> None:
    outcomes = [_outcome("q1", 1.0), _outcome("q2", 0.0)]
    before = _before(*outcomes, scores=[1.0, 0.0])
    threshold = threshold_of("em", max_drop=0.1, strict=True, **bounds)
    ruling = rule_on(Score("em", outcomes), threshold, BaselineLookup({}, before), alpha=0.05)
    lines = failure_lines([ruling], Room())
    assert ruling.verdict.status == "error"
    assert lines[-1] == "em = 0.500 (95% interval 0.095 to 0.905, n = 2)"


@pytest.mark.parametrize(
    ("values", "then", "bounds", "listed"),
    [
        # The baseline was above the minimum, so the questions that got worse explain the failure.
        ([0, 0, 1, 1], [0, 1, 1, 1], {"min": 0.6, "max_drop": 0.5}, ["q1"]),
        # The baseline was below the minimum with the same mean, so the changes do not explain the failure.
        ([1, 0, 0, 0], [0, 1, 0, 0], {"min": 0.6, "max_drop": 0.5}, ["q1", "q2", "q3"]),
        # The baseline was below the minimum, and the drop is larger than allowed.
        ([0, 0, 0, 0], [0, 1, 1, 0], {"min": 0.6, "max_drop": 0.1}, ["q1", "q2"]),
        # Questions that got worse do not explain why a score is too high.
        ([1, 1, 1, 0], [0, 0, 1, 1], {"max": 0.6, "max_drop": 0.5}, ["q0", "q1", "q2"]),
    ],
)
def test_the_questions_that_are_listed_are_why_a_bound_is_passed(values, then, bounds, listed):
    outcomes = [_outcome(f"q{n}", float(value)) for n, value in enumerate(values)]
    before = _before(*outcomes, scores=then)
    ruling = rule_on(
        Score("em", outcomes), threshold_of("em", **bounds), BaselineLookup({}, before), alpha=0.05
    )
    assert ruling.verdict.status == "fail"
    lines = failure_lines([ruling], Room())
    assert [line.split()[0] for line in lines if line.startswith("  q")] == listed


def _ruled(values: dict[str, list[float]], **words: Any) -> ThresholdResult:
    """Return the result of a threshold by topic: each topic has these values now, and 1 in the baseline."""
    outcomes = [
        _outcome(f"{topic}{n}", value, "kb-9", tags={"topic": topic})
        for topic, several in values.items()
        for n, value in enumerate(several)
    ]
    threshold = threshold_of("answer.em@1", by="topic", **words)
    return rule_on(
        Score("answer.em@1", outcomes), threshold, BaselineLookup({}, _before(*outcomes)), alpha=0.05
    )


def test_the_values_that_fail_are_named_between_the_reason_and_the_score() -> None:
    ruling = _ruled({"a": [0.0] * 8, "b": [1.0] * 8, "c": [0.0] * 7 + [1.0]}, max_drop=0.02)
    assert failure_lines([ruling], Room(6)) == [
        "answer.em@1 where topic='a' fell from 1.000 to 0.000 (allowed 0.02): 8 of 8",
        "  questions worse, 0 better. Chance alone: about 1 in 210 comparisons",
        "  2 of 3 values of topic fail: a, c",
        "Likely cause: 8 of 8 lost: their gold is not in the top 1 now; lost by retriever",
        "  8",
        "8 lost (-v shows all): a0, a1, a2, a3, a4, a5, a6, a7",
    ]


def test_the_entry_of_slices_is_that_of_the_worst_and_lists_all() -> None:
    """The slices are listed worst first; the table names the others in a line."""
    ruling = _ruled({"a": [0.0] * 8, "b": [1.0] * 8, "c": [0.0, 1.0]}, max_drop=0.02)
    entry = json.loads(json.dumps(threshold_result_entry(ruling)))
    assert (entry["where"], entry["verdict"], entry["mean"]) == ({"topic": "a"}, "fail", 0.0)
    assert entry["by"]["tag"] == "topic"
    slices = entry["by"]["slices"]
    assert [(part["value"], part["mean"], part["n"], part["verdict"]) for part in slices] == [
        ("a", 0.0, 8, "fail"),
        ("c", 0.5, 2, "inconclusive"),
        ("b", 1.0, 8, "pass"),
    ]
    assert all(
        part["baseline"]["mean"] == 1.0 and part["reason"] and len(part["ci95"]) == 2 for part in slices
    )
    lines = table_lines([{"nodeid": "test_a.py::test", "evalset": None, "scores": [entry]}])
    assert lines[3:] == [
        "    answer.em@1 [topic=a]: the worst of 3 by topic; then c 0.500 inconclusive, b 1.000 pass"
    ]


def test_an_inconclusive_slice_is_reported_even_if_another_is_worse() -> None:
    """Each inconclusive slice has a warning, worst first, because a passing run shows no failure text."""
    values = {"a": [1.0] * 8, "b": [0.0, 1.0, 1.0, 1.0], "c": [0.0, 1.0]}
    entry = json.loads(json.dumps(threshold_result_entry(_ruled(values, max_drop=0.02))))
    lines = warning_lines([{"nodeid": "test_a.py::test", "scores": [entry]}])
    starts = [
        "warning: test_a.py::test: answer.em@1 [topic=c]: UNSURE: fell from 1.000 to 0.500 (",
        "warning: test_a.py::test: answer.em@1 [topic=b]: UNSURE: fell from 1.000 to 0.750 (",
    ]
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts
    assert ["warnings" in part for part in entry["by"]["slices"]] == [True, True, False]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.0, 1.0], "baseline 1.000, no change"),
        ([1.0, 0.5], "baseline 1.000, drop 0.250 (90% interval -1.000 to 0.800, p = 0.31, 1 of 2 worse)"),
        ([1.0, 2.0], "baseline 1.000, gain 0.500 (90% interval -0.362 to 0.879; 1 better: q1)"),
        ([0.0, 2.5], "baseline 1.000, gain 0.250 (90% interval -1.128 to 1.500, 1 of 2 worse; 1 better: q1)"),
        ([2.0, 3.0], "baseline 1.000, gain 1.500 (90% interval -1.066 to 2.000; 2 better: q1, q0)"),
        (
            [2.0] * 9,
            (
                "baseline 1.000, gain 1.000 (90% interval 0.538 to 1.000; 9 better: q0, q1, q2, q3, q4, q5, q6, "
                "q7, …)"
            ),
        ),
    ],
)
def test_the_baseline_is_shown_below_the_score(values: list[float], text: str) -> None:
    outcomes = [_outcome(f"q{n}", value) for n, value in enumerate(values)]
    score = Score("answer.em@1", outcomes)
    memory = BaselineLookup({}, _before(*outcomes))
    entry = threshold_result_entry(
        rule_on(score, threshold_of("answer.em@1", max_drop=0.9), memory, alpha=0.05)
    )
    lines = table_lines([{"nodeid": "test_a.py::test", "evalset": None, "scores": [entry]}])
    assert lines[3:] == [f"    answer.em@1: {text}"]


def test_a_strict_threshold_is_marked_in_the_entry() -> None:
    """The entry of a strict threshold is marked, because p has the opposite meaning and there is no detectable drop."""
    outcome = _outcome("q1", 1.0)
    threshold = threshold_of("answer.em@5", max_drop=0.5, strict=True, alpha=0.1)
    score = Score("answer.em@5", [outcome])
    entry = threshold_result_entry(rule_on(score, threshold, BaselineLookup({}, _before(outcome)), alpha=0.1))
    assert entry["threshold"] == {"min": None, "max": None, "max_drop": 0.5, "alpha": 0.1, "strict": True}
    assert (entry["baseline"]["p_value"], entry["baseline"]["detectable_drop"]) == (0.5, None)
    assert entry["baseline"]["examples_needed"] == 4
