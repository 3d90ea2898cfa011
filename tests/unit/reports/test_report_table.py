"""The table of scores at the end of a run."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.models.usage import Usage, usage_entry, usage_lines
from pytest_rageval.reports.terminal import Row, note_lines, table_lines
from tests.unit.reports.entries import error_entry

USAGE = Usage(requests=4, cached=4, tokens_in=90, tokens_out=2, cost_usd=0.00126)


def _entry(**changes: Any) -> dict[str, Any]:
    return {
        "spec": "recall@5",
        "where": {},
        "mean": 0.7634,
        "ci95": [0.708, 0.813],
        "n": 238,
        "unscored": 2,
        "undefined": 0,
        "oddities": {},
        "threshold": {"min": 0.75, "max": None},
        "verdict": "pass",
    } | changes


def test_the_cases_of_llm_reteval_have_a_table() -> None:
    """Its rows are those of the paper, with the cases in words; its columns are all cut-offs of the test."""
    by_cutoff = {
        1: ({"A": 2, "C": 5}, (0.58, 0.87)),
        5: ({"B": 1, "D": 2, "F": 1}, (0.996, None)),
        10: ({}, (None, None)),
    }
    entries = [
        _entry(
            spec=f"llm_reteval@{k}", cases=cases, spearman=dict(zip(("all", "refined"), rhos, strict=True))
        )
        for k, (cases, rhos) in by_cutoff.items()
    ]
    lines = table_lines([{"nodeid": "test_a.py::test_support", "evalset": None, "scores": entries}])
    assert lines[5:] == [
        "    llm_reteval                              @1    @5  @10",
        "      recall failures                         7     1    0",
        "        A: another passage has the answer     2     0    0",
        "        B: a near-duplicate of gold has it    0     1    0",
        "        C: gold retrieved, wrong answer       5     0    0",
        "      LLM-retEval failures                    0     3    0",
        "        D: answers with gold are wrong        0     2    0",
        "        F: the comparison of answers          0     1    0",
        "      Spearman with recall                  .58  1.00    -",
        "      Spearman, refined                     .87     -    -",
    ]


def test_the_table_of_cases_has_what_is_known() -> None:
    entry = _entry(spec="llm_reteval@3", cases={"F": 1}, spearman={"all": None, "refined": None})
    head, *lines = note_lines({"evalset": None, "scores": [entry]})
    assert head.split() == ["llm_reteval", "@3"]
    assert [line.rsplit(maxsplit=1)[0].strip() for line in lines] == [
        "recall failures",
        "LLM-retEval failures",
        "F: the comparison of answers",
    ]


@pytest.mark.parametrize(
    ("rhos", "lines"),
    [
        ((1.0, -0.204), ["llm_reteval@3: Spearman with recall 1.00, refined -.20"]),
        ((0.996, None), ["llm_reteval@3: Spearman with recall 1.00"]),
        ((None, None), []),
    ],
)
def test_correlations_without_a_failure_take_one_line(rhos, lines) -> None:
    entry = _entry(spec="llm_reteval@3", cases={}, spearman=dict(zip(("all", "refined"), rhos, strict=True)))
    assert [*note_lines({"evalset": None, "scores": [entry]})] == lines


def test_the_whole_table() -> None:
    tests = [
        {
            "nodeid": "test_a.py::test_support",
            "evalset": {"name": "support.jsonl", "size": 240},
            "scores": [
                _entry(oddities={"duplicates": 3, "short": 1}),
                _entry(spec="mrr@5", where={"topic": "billing"}, n=9, threshold={"min": 0.5, "max": 0.6}),
            ],
        },
        {
            "nodeid": "test_a.py::test_other",
            "evalset": None,
            "scores": [
                _entry(threshold=None, verdict=None, ci95=None),
                error_entry("hit@1", Threshold("hit@1", max=1.0), "no gold"),
            ],
        },
    ]
    assert table_lines(tests) == [
        "  verdict  score                  value  bound                 n  95% interval",
        "test_a.py::test_support  (support.jsonl, 240)",
        "  pass     recall@5               0.763  ≥ 0.75       238 of 240  0.708 to 0.813",
        "  pass     mrr@5 [topic=billing]  0.763  ≥ 0.5 ≤ 0.6     9 of 11  0.708 to 0.813",
        "    recall@5: 3 duplicated documents counted once, 1 ranking of fewer than k documents",
        "test_a.py::test_other",
        "  -        recall@5               0.763  -            238 of 240  -",
        "  error    hit@1                  -      ≤ 1                   -  -",
    ]


@pytest.mark.parametrize("columns", range(40, 201, 8))
def test_the_table_fits_the_terminal(columns: int) -> None:
    """Columns after the bound are left out, and then a row has two lines. Nothing that matters is lost."""
    baseline = {"mean": 0.8, "drop": 0.037, "n": 240, "worse": [], "better": []}
    entries = [
        _entry(baseline=baseline, threshold={"min": 0.75, "max_drop": 0.02}, verdict="inconclusive"),
        _entry(spec="mrr@5", where={"topic": "billing"}, threshold=None, verdict=None),
    ]
    test = {"nodeid": "test_a.py::test", "evalset": {"name": "support.jsonl", "size": 240}, "scores": entries}
    lines = table_lines([test], columns)
    rows = [line for line in lines if isinstance(line, Row) or line.startswith("  verdict")]
    assert max(map(len, rows)) <= columns
    text = " ".join(" ".join(lines).split())
    for part in ("inconclusive", "recall@5", "0.763 (−0.037)", "≥ 0.75 ↓ 0.02", "mrr@5 [topic=billing]"):
        assert part in text
    assert ("0.708 to 0.813" in text) == (columns >= 96)


def test_what_is_said_of_a_set_is_said_once() -> None:
    """Notes on rankings and missing scores are not repeated below the next test; in a page they are, for each test."""
    examples = [{"id": "q", "unscored": "no gold passages"}]
    tests: list[dict[str, Any]] = [
        {"nodeid": name, "evalset": {"name": "a.jsonl", "size": 1}, "scores": [_entry(examples=examples)]}
        for name in "ab"
    ]
    (note,) = [line for line in table_lines(tests) if "no gold" in line]
    assert note == "    recall@5: 1 unscored: 1 × no gold passages"
    assert [*note_lines(tests[0])] == [*note_lines(tests[1])] == [note.strip()]


def test_oddities_are_reported_once_for_the_scores_that_share_them() -> None:
    entries = [
        _entry(spec=spec, oddities=oddities)
        for spec, oddities in [
            ("recall@5", {"cut": 2}),
            ("mrr@5", {"cut": 2}),
            ("mrr@3", {"cut": 4, "failed": 1}),
            ("mrr@5", {"cut": 2}),
            ("hit@9", {}),
        ]
    ]
    lines = table_lines([{"nodeid": "test_a.py::test", "evalset": None, "scores": entries}])
    assert lines[7:] == [
        "    recall@5, mrr@5: 2 rankings of more than k documents, cut",
        "    mrr@3: 4 rankings of more than k documents, cut, 1 question at which the retriever failed",
    ]


def test_counts_that_belong_to_a_score_are_below_it() -> None:
    counts = {"parametric_answers": 3, "hallucinated_citations": 0}
    entries = [
        _entry(spec="rel.answer@5", counts=counts, order="random"),
        _entry(spec="rel.citation@5", counts={"hallucinated_citations": 0}),
    ]
    lines = table_lines([{"nodeid": "test_a.py::test", "evalset": None, "scores": entries}])
    assert [line.split(maxsplit=1)[1].partition("  ")[0] for line in lines[2:4]] == [
        "rel.answer@5 in random order",
        "rel.citation@5",
    ]
    assert lines[4:] == ["    rel.answer@5 in random order: 3 parametric answers, 0 hallucinated citations"]


@pytest.mark.parametrize("what", ["unscored", "undefined"])
@pytest.mark.parametrize(
    ("reasons", "reason_text"),
    [
        (["a", "b", None, "b"], "2 × b, 1 × a"),
        (["raised\nE: red"], "1 × raised E: red"),
        (list("abcdefg"), "1 × a, 1 × b, 1 × c, 1 × d, 1 × e, 2 more reasons"),
        ([None], None),
    ],
)
def test_the_reasons_for_unscored_examples_are_below_the_score(what, reasons, reason_text):
    count = sum(reason is not None for reason in reasons)
    examples = [{"id": "q", what: reason} for reason in reasons]
    entry = _entry(spec="rel.x@5", examples=examples, **{what: count})
    lines = table_lines([{"nodeid": "test_a.py::test_support", "evalset": None, "scores": [entry]}])
    assert lines[3:] == ([f"    rel.x@5: {count} {what}: {reason_text}"] if reason_text else [])


def test_the_flip_rate_of_votes_is_below_a_score() -> None:
    tally = {"verdicts": 4, "split": 1, "votes": 11, "minority": 1, "unread": 1}
    voted = _entry(judge_votes=tally | {"flip_rate": 0.25, "minority_rate": 1 / 11})
    agreed = _entry(judge_votes={**tally, "split": 0, "minority": 0, "unread": 0})
    lines = table_lines([{"nodeid": "test_a.py::test", "evalset": None, "scores": [voted, agreed, _entry()]}])
    assert lines[5:] == [
        "    recall@5: flip rate 25.0% (1 of 4 verdicts), minority 9.1% (1 of 11 votes), 1 vote not read",
        "    recall@5: flip rate 0.0% (0 of 4 verdicts), minority 0.0% (0 of 11 votes)",
    ]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "4 replies: 4 cached, 0 live"),
        ({"live": 1}, "4 replies: 4 cached, 1 live, 90 tokens in, 2 out, 0.0013 USD"),
        ({"failed": 2}, "4 replies: 4 cached, 0 live, 2 failed"),
        ({"live": 1, "failed": 2}, "4 replies: 4 cached, 1 live, 2 failed, 90 tokens in, 2 out, 0.0013 USD"),
        ({"live": 2, "unpriced": 1}, "4 replies: 4 cached, 2 live, 90 tokens in, 2 out, price not known"),
    ],
)
def test_what_was_asked_of_models(changes: dict[str, int], line: str) -> None:
    """Tokens and cost are those of live replies; failed requests are shown if there are any."""
    assert usage_lines(usage_entry(replace(USAGE, **changes))) == [line]


@pytest.mark.parametrize(
    ("unpriced", "line", "cost"),
    [
        (0, "3 replies came in 1 batch, 30 tokens in, 6 out, 0.0020 USD", 0.002),
        (1, "3 replies came in 1 batch, 30 tokens in, 6 out, price not known", None),
    ],
)
def test_what_came_in_batches_has_its_own_line(unpriced: int, line: str, cost: float | None) -> None:
    """Replies of a batch count as cached, because the run itself did not pay for them, and have their own line."""
    numbers = {"batches": 1, "replies": 3, "tokens_in": 30, "tokens_out": 6, "cost_usd": 0.002}
    entry = usage_entry(replace(USAGE, batches=Counter(numbers | {"unpriced": unpriced})))
    assert usage_lines(entry) == ["4 replies: 4 cached, 0 live", line]
    assert entry["batches"] == numbers | {"cost_usd": cost}


def test_each_note_has_a_line() -> None:
    remarks = {"n refuses seed: sent without it": 1, "m refuses seed: sent without it": 1, "other": 2}
    usage = replace(USAGE, cut=3, remarks=Counter(remarks))
    assert usage_lines(usage_entry(usage)) == [
        "4 replies: 4 cached, 0 live",
        "3 replies were cut by the token limit",
        "2 × other",
        "1 × m refuses seed: sent without it",
        "1 × n refuses seed: sent without it",
    ]
    assert list(usage.to_dict()["remarks"]) == ["other", *sorted(remarks)[:2]]


@pytest.mark.parametrize(
    ("n", "counts", "comparison"),
    [
        (55, (0, 0, 0), "baseline 0.792, drop 0.029 (p = 0.21, 2 of 55 worse)"),
        (60, (0, 0, 0), "baseline 0.792 over 55 of 60, drop 0.029 (p = 0.21, 2 of 55 worse)"),
        (
            60,
            (4, 2, 1),
            "baseline 0.792 over 55 of 60, 4 removed, 2 new, 1 edited, drop 0.029 (p = 0.21, 2 of 55 worse)",
        ),
        (55, (3, 0, 0), "baseline 0.792, 3 removed, drop 0.029 (p = 0.21, 2 of 55 worse)"),
    ],
)
def test_a_comparison_says_how_much_it_compares(n, counts, comparison):
    """The line has the number of compared questions if it is not all, also if the test passes."""
    changes = dict(zip(("removed", "new", "edited"), counts, strict=True))
    baseline = {"mean": 0.792, "drop": 0.029, "n": 55, "left_out": sum(counts), **changes, "better": []}
    entry = _entry(n=n, baseline={**baseline, "p_value": 0.21, "worse": ["q1", "q2"]})
    lines = table_lines([{"nodeid": "test_a.py::test_support", "evalset": None, "scores": [entry]}])
    assert " ".join(" ".join(lines[3:]).split()) == f"recall@5: {comparison}"
