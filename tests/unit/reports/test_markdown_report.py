"""The report for a pull request: what it shows, and that nothing in it is markup, link or mention."""

import re
from typing import Any

import pytest

from pytest_rageval.gate.comparison import BaselineScore
from pytest_rageval.gate.ruling import BaselineLookup
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.model import Document, Example, Gold, Ranking
from pytest_rageval.reports.markdown import LONGEST, markdown_report
from pytest_rageval.reports.results import report_document
from pytest_rageval.scores import Evidence, Outcome, Score
from tests.unit.gate.scored import rule_on
from tests.unit.reports.entries import ruling_entry, score_entry

SETTINGS = {"generator": "m_1", "judge": "m2", "comparator": "judge or em"}
LLM = {"requests": 4, "cached": 4, "live": 0, "failed": 0, "cut": 0, "remarks": {"2 | 3 @team": 2}}
ERROR = {"verdict": "error", "reason": "no score:\nno server"}
DEVIL = "| @team #12 `code` </details> <img src=x> **bold** \\ _it_\n```\n# head"


def _ruled(values: list[float], then: float | None, text: str = "Why?", **bounds: Any) -> dict[str, Any]:
    """The entry of a score that was the same everywhere before."""
    ranking = Ranking("q", (Document("alpha", "kb-1"),))
    outcomes = [
        Outcome(Example(f"q{n}", text, gold=(Gold("kb-9"),)), value, evidence=Evidence(ranking, text))
        for n, value in enumerate(values)
    ]
    before = None
    if then is not None:
        examples = {each.example.id: {"score": then, "ranking": ["kb-9"]} for each in outcomes}
        before = BaselineScore({each.example.id: each.example.digest for each in outcomes}, {}, examples)
    score = Score("answer.em@1", outcomes)
    return ruling_entry(
        rule_on(score, Threshold("answer.em@1", **bounds), BaselineLookup({}, before), alpha=0.05)
    )


def _report(*tests: dict[str, Any]) -> str:
    document = report_document(
        tests, settings=SETTINGS, llm=LLM, package="0.1.0", started="2026-01-01", duration_s=1.0
    )
    return markdown_report(document)


def _test(name: str, *scores: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "nodeid": f"test_a.py::{name}",
        "outcome": "passed",
        "evalset": None,
        "scores": list(scores),
    } | more


def _rows(text: str) -> list[list[str]]:
    """The cells of the table, head and rule left out."""
    rows = [line for line in text.partition("<details>")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


def test_what_failed_comes_first_and_a_tests_name_stands_once() -> None:
    """A row a score: mark and name of the test, then the table's columns with the change from the baseline."""
    fail = _ruled([0.0] * 8, 1.0, max_drop=0.02)
    asked = score_entry(Score("recall@5", [Outcome(Example("q", "?"), 1.0)]), None, None)
    text = _report(
        _test("test_fine", _ruled([1.0, 1.0], 1.0, max_drop=0.1)),
        _test("test_bad", fail, asked, outcome="failed", message="it is\nworse"),
    )
    assert text.startswith("### rageval: 1 of 2 thresholds failed, 1 passed\n")
    assert "| unscored | vs baseline | threshold |" in text
    assert _rows(text) == [
        [
            *("❌", "`test_a.py::test_bad`", "`answer.em@1`", "0.000", "0.000 to 0.324", "8", "0"),
            *("−1.000 (p = 0.002)", "↓ 0.02", "❌ fail"),
        ],
        ["", "", "`recall@5`", "1.000", "0.207 to 1.000", "1", "0", "-", "-", "-"],
        [
            *("✅", "`test_a.py::test_fine`", "`answer.em@1`", "1.000", "0.342 to 1.000", "2", "0"),
            *("±0", "↓ 0.1", "✅ pass"),
        ],
    ]


def test_why_a_test_failed_is_told_by_its_scores_or_by_pytest() -> None:
    """By the scores whatever pytest was asked to show; pytest tells what no score does."""
    text = _report(
        _test("test_bad", _ruled([0.0] * 12, 1.0, max_drop=0.02), outcome="failed", message="as with -q"),
        _test("test_own", outcome="failed", message="it is\nworse"),
        _test("test_lost", _ruled([1.0], 1.0, max_drop=0.1) | ERROR, outcome="error", message="as with -q"),
    )
    lost = "<br><code>answer.em@1</code>: 12 of 12 questions got worse, 0 better"
    head = "answer.em@1: 0.000: drop 1.000 [0.632, 1.000] from the baseline's 1.000, allowed"
    assert f"<summary>❌ <code>test_a.py::test_bad</code> {lost}</summary>\n\n```text\n{head}\n" in text
    assert text.count("1.00 → 0.00") == 10
    assert "and 2 more (the HTML report shows them): q10, q11" in text
    assert "<summary>❌ <code>test_a.py::test_own</code></summary>\n\n```text\nit is\nworse\n```" in text
    assert (
        "<summary>❗ <code>test_a.py::test_lost</code> <br><code>answer.em@1</code></summary>\n\n"
        "```text\nanswer.em@1: no score:\nno server\n```"
    ) in text
    assert "as with -q" not in text


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        ([], "nothing was scored"),
        ([_test("test_a", outcome="failed", message=""), _test("test_b")], "1 test failed, 1 test passed"),
        ([_test("test_a", _ruled([1.0], None, min=0.5))], "1 of 1 threshold passed"),
        (
            [
                _test("test_a", _ruled([0.0], None, min=0.5), outcome="failed", message=""),
                _test("test_b", _ruled([0.0, 1.0], 1.0, max_drop=0.1), outcome="error", message=""),
                _test("test_c", outcome="error", message=""),
            ],
            "1 of 2 thresholds failed, 1 inconclusive, 2 other tests failed",
        ),
        (
            [
                _test("test_a", _ruled([0.0], None, min=0.5), outcome="xfailed", message="slow"),
                _test("test_b", _ruled([1.0], None, min=0.5)),
                _test("test_c", outcome="skipped", message="no key"),
            ],
            "1 of 2 thresholds failed as expected, 1 passed, 1 other test skipped",
        ),
    ],
)
def test_the_headline_counts_thresholds_and_what_failed_beside_them(
    tests: list[dict[str, Any]], said: str
) -> None:
    """A test may fail by an assertion of its own, or before there was a score; it may be expected to, or not run."""
    assert _report(*tests).splitlines()[0] == f"### rageval: {said}"


def test_a_run_that_was_stopped_says_so_at_once() -> None:
    """Who reads "1 of 1 passed" must know that there was more to come."""
    document = report_document(
        [], settings=SETTINGS, llm=LLM, package="0.1.0", started="2026-01-01", duration_s=1.0, stopped=True
    )
    assert markdown_report(document).startswith(
        "### rageval: nothing was scored; the run was stopped early\n"
    )


def test_what_is_urgent_comes_first() -> None:
    """Thresholds that failed, other failures, inconclusive, passed, skipped."""
    text = _report(
        _test("test_a", outcome="skipped", message="no key"),
        _test("test_b", _ruled([1.0], None, min=0.5)),
        _test("test_c", _ruled([0.0, 1.0], 1.0, max_drop=0.1)),
        _test("test_d", outcome="error", message="boom"),
        _test("test_e", _ruled([0.0], None, min=0.5), outcome="failed", message="lost"),
    )
    assert [(mark, name[-7:-1]) for mark, name, *_ in _rows(text)] == [
        *(("❌", "test_e"), ("❗", "test_d"), ("✅", "test_c"), ("✅", "test_b"), ("⏭️", "test_a")),
    ]


def test_questions_that_got_worse_are_told_though_the_test_passes() -> None:
    """Where the drop may be noise, and where it is allowed: folded, as a failure tells them."""
    text = _report(_test("test_a", _ruled([0.0, 1.0], 1.0, max_drop=0.1)))
    (block,) = re.findall(
        r"<summary>⚠️ <code>test_a.py::test_a</code> <br><code>answer.em@1</code>: "
        r"1 of 2 questions got worse, 0 better</summary>(.*?)</details>",
        text,
        re.DOTALL,
    )
    assert "1 of 2 questions got worse, 0 better:" in block
    assert "q0  1.00 → 0.00  Why?" in block
    assert "gold        kb-9" in block
    # Nobody scrolls a comment to the right.
    assert max(map(len, block.splitlines())) <= 80


def test_nothing_that_others_wrote_is_markup() -> None:
    """Every text of a user, passage or model stands in code; code fences are longer than those inside."""
    text = _report(
        _test(DEVIL, _ruled([0.0, 1.0], 1.0, DEVIL, max_drop=0.1), outcome="failed", message=DEVIL)
    )
    # As Markdown is read: blocks of code, then code in lines; what is left is markup.
    left = re.sub(r"^(`{3,})text\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    left = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", left)
    left = re.sub(r"<summary>.*?</summary>", "", left, flags=re.DOTALL)
    # In a table code with a bar is HTML, in which Markdown would be read: of its signs none is there.
    left = re.sub(r"<code>(?:[\w ]|&#\d+;)*</code>", "", left)
    assert not re.search(r"@team|#12|<img|bold|_it_", left)
    assert left.count("<details>") == left.count("</details>") == 3
    # In summaries HTML is read, and GitHub looks for mentions in what is no code.
    summaries = re.findall(r"<summary>(.*?)</summary>", text, re.DOTALL)
    assert sum("@team" in found for found in summaries) == 2
    read = [re.sub(r"<code>[^<\n]*</code>|<br>", "", found) for found in summaries]
    assert not any(re.search(r"[<\n]|@team|#12", found) for found in read)
    assert {len(row) for row in _rows(text)} == {10}


def test_it_goes_into_a_comment_however_much_there_is() -> None:
    """Blocks that do not are counted; one that is long is cut."""
    failing = [
        _test(f"test_{n}", outcome="failed", message="\n".join(["a line of words"] * 900)) for n in range(40)
    ]
    text = _report(*failing)
    assert LONGEST - 20_000 < len(text) < 65_536
    told = text.count("<details>")
    assert f"{40 - told} more sections do not go into a comment" in text
    assert text.count("\n…\n") == told
    assert len(_rows(text)) == 40


def test_a_table_that_does_not_fit_ends_with_how_many_are_left_out() -> None:
    """What went wrong comes first, and leaves room for what was lost."""
    name = f"test_questions[{'of-a-topic-' * 8}]"
    lost = _ruled([0.0, 1.0], 1.0, max_drop=0.1)
    tests = [_test(f"{name}[{n}]", lost, lost) for n in range(250)]
    text = _report(*tests, _test("test_last", outcome="failed", message="boom"))
    assert len(text) < 65_536
    told = len(_rows(text))
    assert f"\n\n{501 - told} more scores do not go into a comment" in text
    assert _rows(text)[0][1] == "`test_a.py::test_last`"
    assert "more warnings do not go into a comment" in text
    assert text.count("<details>") > 10


def test_where_nothing_was_scored_there_is_no_table() -> None:
    """A head without rows says nothing."""
    assert "|" not in _report().partition("<sub>")[0]


def test_models_and_replies_stand_below() -> None:
    """Small."""
    assert _report().splitlines()[-3:] == [
        "<sub>`generator m_1, judge m2, compared by judge or em`</sub>  ",
        "<sub>`4 replies: 4 cached, 0 live`</sub>  ",
        "<sub>`2 × 2 | 3 @team`</sub>  ",
    ]


def test_a_test_with_a_generator_of_its_own_is_not_of_the_one_in_force() -> None:
    """What the options say generated nothing there."""
    text = _report(
        _test("test_a", own=["generator", "judge"]), _test("test_b", own=["generator"]), _test("test_c")
    )
    told = "compared by judge or em; own generator in 2 of 3 tests; own judge in 1 of 3 tests`</sub>"
    assert told in text
