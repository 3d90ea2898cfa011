"""The Markdown report for a pull request: its contents, its size, and the escaping of all texts."""

import copy
import re
import shlex
from typing import Any

import pytest

from pytest_rageval.baseline.entries import BaselineScore
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.gate.verdict import BaselineLookup
from pytest_rageval.reports.build import report_document
from pytest_rageval.reports.markdown import MAX_CHARS, MAX_LINES, markdown_report
from tests.unit.gate.scored import rule_on, threshold_of
from tests.unit.reports.entries import score_entry, threshold_result_entry
from tests.unit.reports.rendered import Rendered, rendered

SETTINGS = {"generator": "m_1", "judge": "m2", "comparator": "judge or em"}
LLM = {"requests": 4, "cached": 4, "live": 0, "failed": 0, "cut": 0, "remarks": {"2 | 3 @team": 2}}
ERROR = {"verdict": "error", "reason": "no score:\nno server"}
DEVIL = (
    "| @team #12 GH-7 `@code <b>` ``` </details> <!-- <img src=x onerror=alert(1)> "
    "<script>x</script> &amp; **bold** \\ "
    "_it_ ~~no~~ [a](javascript:x) "
    "www.evil.example https://evil.example :+1: </code> |\n```\n# head\n| a |\n| - |\n</table>"
)


def _ruled(values: list[float], then: float | None, text: str = "Why?", **bounds: Any) -> dict[str, Any]:
    ranking = Ranking("q", (Document("alpha", "kb-1"),))
    outcomes = [
        Outcome(Example(f"q{n}", text, gold=(Gold("kb-9"),)), value, evidence=Evidence(ranking, text))
        for n, value in enumerate(values)
    ]
    before = None
    if then is not None:
        examples = {outcome.example.id: {"score": then, "ranking": ["kb-9"]} for outcome in outcomes}
        before = BaselineScore(
            {outcome.example.id: outcome.example.digest for outcome in outcomes}, {}, examples
        )
    score = Score("answer.em@1", outcomes)
    return threshold_result_entry(
        rule_on(score, threshold_of("answer.em@1", **bounds), BaselineLookup({}, before), alpha=0.05)
    )


def _document(*tests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return report_document(
        tests, settings=SETTINGS, llm=LLM, package="0.1.0", started="2026-01-01", duration_s=1.0, **more
    )


def _report(*tests: dict[str, Any], **more: Any) -> str:
    return markdown_report(_document(*tests, **more))


def _test(name: str, *scores: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "nodeid": f"test_a.py::{name}",
        "outcome": "passed",
        "evalset": None,
        "scores": list(scores),
    } | more


def _question(name: str = "q1", **more: Any) -> dict[str, Any]:
    question: dict[str, Any] = {
        "id": name,
        "question": "Why?",
        "score": 0.0,
        "gold": ["kb-1"],
        "retrieved": ["kb-7", "kb-8", "kb-9"],
        "before": {"score": 1.0, "retrieved": ["kb-1", "kb-7", "kb-8"]},
    }
    return question | more


def _lost(*questions: dict[str, Any], **more: Any) -> dict[str, Any]:
    listed = {"why": "worse", "of": 9, "better": 0, "lost_by": {}, "listed": list(questions)}
    return _ruled([0.0] * 12, 1.0, max_drop=0.02) | {"questions": listed} | more


def _failing(*questions: dict[str, Any], **more: Any) -> str:
    return _report(_test("test_bad", _lost(*questions), outcome="failed", message="-", **more))


def _rows(page: Rendered, table: int = 0) -> list[list[str]]:
    plain = str.maketrans({"\N{NO-BREAK SPACE}": " ", "\N{NON-BREAKING HYPHEN}": "-"})
    return [[cell.translate(plain) for cell in row] for row in page.tables[table][1:]]


def test_failed_tests_are_first_and_named_once() -> None:
    fail = _ruled([0.0] * 8, 1.0, max_drop=0.02)
    unbounded = score_entry(Score("recall@5", [Outcome(Example("q", "?"), 1.0)]), None, None)
    text = _report(
        _test("test_fine", _ruled([1.0] * 5, 1.0, max_drop=0.1)),
        _test("test_bad", fail, unbounded, outcome="failed", message="it is\nworse"),
    )
    assert text.startswith("### rageval: 1 of 2 thresholds failed, 1 passed\n")
    page = rendered(text)
    assert page.tables[0][0] == ["verdict", "test", "score", "mean", "n", "vs baseline", "threshold"]
    assert _rows(page) == [
        [
            *("❌ fail", "test_a.py::test_bad", "answer.em@1", "0.000 (0.000 to 0.324)", "8"),
            *("−1.000 (p = 0.0039)", "↓ 0.02"),
        ],
        ["-", "", "recall@5", "1.000 (0.207 to 1.000)", "1", "-", "-"],
        ["✅ pass", "test_a.py::test_fine", "answer.em@1", "1.000 (0.566 to 1.000)", "5", "±0", "↓ 0.1"],
    ]


def test_a_test_that_failed_otherwise_has_a_row_of_its_own() -> None:
    passed = _ruled([1.0] * 5, 1.0, max_drop=0.1)
    unbounded = score_entry(Score("recall@5", [Outcome(Example("q", "?"), 1.0)]), None, None)
    page = rendered(
        _report(
            _test("test_own", passed, outcome="failed", message="assert 1"),
            _test("test_asked", unbounded, outcome="failed", message="assert 2"),
            _test("test_lost", outcome="error", message="no index"),
            _test("test_known", _ruled([0.0], None, min=0.5), outcome="xfailed", message="slow"),
        )
    )
    assert [row[:3] for row in _rows(page)] == [
        ["❌ failed", "test_a.py::test_own", "-"],
        ["✅ pass", "", "answer.em@1"],
        ["❌ failed", "test_a.py::test_asked", "recall@5"],
        ["❗ error", "test_a.py::test_lost", "-"],
        ["✖️ xfailed", "test_a.py::test_known", "answer.em@1"],
    ]
    assert not any(text in page.outside for text in ("assert 1", "assert 2", "no index"))
    assert {"assert 1", "assert 2", "no index"} <= set(page.code)


def test_unscored_questions_are_shown_with_n() -> None:
    outcomes = [Outcome(Example("a", "?"), 1.0), Outcome(Example("b", "?"), None, "no answer")]
    text = _report(_test("test_a", score_entry(Score("recall@5", outcomes), None, None)))
    assert [row[4] for row in _rows(rendered(text))] == ["1, 1 unscored"]


def test_the_worst_questions_show_what_they_lost() -> None:
    answered = _question(
        answer="ten days",
        expected={"as": "reference", "texts": ["five days", "a week"]},
        lost_by="retriever",
        before={"score": 1.0, "retrieved": ["kb-7", "kb-1"], "answer": "five days"},
    )
    text = _failing(answered, *(_question(f"q{n}") for n in range(2, 7)))
    lines = text.partition("**3 of the 6 questions that got worse**\n")[2].partition("<details>")[0]
    assert lines.splitlines()[:5] == [
        "- `q1` `answer.em@1` **1.00 → 0.00**: `Why?`",
        "  - gold `kb-1` rank 2 → out of the first 3",
        "  - answer `five days` → `ten days`; reference `five days | a week`; lost by the retriever",
        "- `q2` `answer.em@1` **1.00 → 0.00**: `Why?`",
        "  - gold `kb-1` rank 1 → out of the first 3",
    ]
    assert "`q4`" not in lines
    page = rendered(text)
    assert "q1" in page.outside
    assert "q4" not in page.outside
    assert "q4" in page.code


@pytest.mark.parametrize(
    ("question", "detail"),
    [
        (_question(retrieved=["kb-7", "kb-1"]), "gold `kb-1` rank 1 → 2"),
        (_question(retrieved=[]), "gold `kb-1` rank 1 → (nothing)"),
        (
            _question(gold=["Text of it …"]),
            "gold `Text of it …`; retrieved `kb-1`, `kb-7`, `kb-8` → `kb-7`, `kb-8`, `kb-9`",
        ),
        (
            _question(gold=[], retrieved=["a", "b", "c", "d"], before={"score": 1.0}),
            "retrieved `a`, `b`, `c`, 1 more",
        ),
        (_question(gold=["kb-1", "kb-8"]), "gold `kb-1` rank 1 → out of the first 3, `kb-8` rank 3 → 2"),
        (_question("known"), "gold `kb-1` rank 1 → 17"),
    ],
)
def test_a_gold_passage_is_followed_as_far_as_it_is_known(question: dict[str, Any], detail: str) -> None:
    """A gold passage's rank beyond the cut-off is shown if another score retrieved more documents."""
    details = [{"id": "known", "gold_ranks": {"kb-1": 17}}]
    assert f"\n  - {detail}\n" in _failing(question, questions=details)


def test_a_question_without_a_score_says_why() -> None:
    lost = _question(score=None, unscored="no answer: timeout")
    text = _failing(lost)
    assert "- `q1` `answer.em@1` **1.00 → unscored**: `Why?`" in text
    assert "\n  - `no answer: timeout`\n" in text


def test_a_question_that_is_worse_in_several_scores_is_listed_first_and_once() -> None:
    first = _test("test_a", _lost(_question("one"), _question("both")), outcome="failed", message="-")
    second = _test("test_b", _lost(_question("both"), _question("two")), outcome="failed", message="-")
    lines = [line for line in _report(first, second).splitlines() if "1.00 → 0.00" in line]
    assert [re.findall("`(.*?)`", line)[:3:2] for line in lines] == [
        ["both", "test_a"],
        ["one", "test_a"],
        ["two", "test_b"],
    ]


def test_questions_that_got_worse_are_folded_where_the_test_passes() -> None:
    allowed = _report(_test("test_a", _ruled([0.0, 1.0, 1.0, 1.0, 1.0], 1.0, max_drop=0.6)))
    doubtful = _report(_test("test_a", _ruled([0.0, 1.0, 1.0, 1.0, 1.0], 1.0, max_drop=0.1)))
    assert "**The question" not in allowed
    assert "**The question that got worse**\n- `q0` `answer.em@1` **1.00 → 0.00**: `Why?`" in doubtful
    for text in (allowed, doubtful):
        assert "1 of 5 questions got worse, 0 better: `q0`" in text


def test_questions_below_a_bound_are_shown_where_nothing_is_compared() -> None:
    below = _test("test_a", _ruled([0.0, 1.0], None, min=0.9), outcome="failed", message="-")
    text = _report(below)
    assert (
        "**The question beyond a bound**\n- `q0` `answer.em@1` **0.00**: `Why?`\n"
        "  - gold `kb-9`; retrieved `kb-1`\n  - answer `Why?`\n"
    ) in text
    worse = _test("test_b", _lost(_question("worse")), outcome="failed", message="-")
    assert "\n- `q0` " not in _report(below, worse)


def test_a_drop_comes_with_the_command_that_accepts_it() -> None:
    dropped = {"outcome": "failed", "message": "-"}
    text = _report(
        _test("test_a[a b]", _lost(_question()), accept="update", **dropped),
        _test("test_b", _lost(_question()), accept="update", **dropped),
        _test("test_c", _lost(_question()), accept="bounds", **dropped),
        _test("test_d", _lost(_question()), **dropped),
        _test("test_e", _lost(_question()), accept="update", outcome="xfailed"),
    )
    update, bounds = [line for line in text.splitlines() if "--rageval-update-baseline" in line]
    assert update.startswith("- Accept the drop with `pytest ")
    assert shlex.split(update.split("`")[1])[2:] == ["test_a.py::test_a[a b]", "test_a.py::test_b"]
    assert bounds == (
        "- To accept the drop, change `min` or `max` in the test, then run "
        "`pytest --rageval-update-baseline test_a.py::test_c`"
    )


def test_a_gain_is_reported_with_the_command_that_updates_the_baseline() -> None:
    gained = _ruled([1.0] * 9, 0.5, max_drop=0.1)
    assert (
        "- `answer.em@1 gained 0.500, which is significant`: lock it in with "
        "`pytest --rageval-update-baseline test_a.py::test_a`\n"
    ) in _report(_test("test_a", gained))
    assert "lock it in" not in _report(_test("test_a", _ruled([1.0] * 5, 1.0, max_drop=0.1)))


def test_a_command_for_many_tests_stays_readable() -> None:
    tests = [
        _test(f"test_{'long_' * 20}{n}", _lost(_question()), outcome="failed", message="-", accept="update")
        for n in range(40)
    ]
    (line,) = [line for line in _report(*tests).splitlines() if "--rageval-update-baseline" in line]
    named = shlex.split(line.split("`")[1])[2:]
    assert named == [test["nodeid"] for test in tests[: len(named)]]
    assert 1 < len(named) < 10
    assert line.endswith(f", and the same for {40 - len(named)} more tests")


def test_a_long_message_has_its_first_and_its_last_words() -> None:
    """The middle of a long message is left out: assertions have the reason first, tracebacks last."""
    message = "first\n" + "word\n" * 400 + "last"
    text = _report(_test("test_own", outcome="failed", message=message))
    (line,) = [line for line in text.splitlines() if line.startswith("- ❌")]
    assert re.search(r"<br>`first word .* … .* word last`$", line)
    assert len(line) < 700


def test_a_reason_has_the_mark_of_its_score() -> None:
    failed, passed = _ruled([0.0], None, min=0.9), _ruled([0.0, 0.0, 1.0, 1.0, 1.0], 1.0, max_drop=0.6)
    text = _report(_test("test_a", failed, passed, failed | ERROR, outcome="error", message="-"))
    marks = [line.split()[1] for line in text.splitlines() if line.startswith("- ") and "test_a" in line]
    assert marks == ["❌", "✅", "❗"]


def test_the_reason_of_a_failure_is_printed_by_the_scores_or_by_pytest() -> None:
    text = _report(
        _test("test_bad", _ruled([0.0] * 14, 1.0, max_drop=0.02), outcome="failed", message="as with -q"),
        _test("test_own", outcome="failed", message="it is\nworse"),
        _test(
            "test_lost", _ruled([1.0] * 5, 1.0, max_drop=0.1) | ERROR, outcome="error", message="as with -q"
        ),
    )
    reasons = [line for line in text.splitlines() if line.startswith(("- ❌", "- ❗"))]
    assert len(reasons) == 3
    head, reason, worse = reasons[0].split("<br>")
    assert head == "- ❌ `test_a.py::test_bad` `answer.em@1`"
    assert reason.startswith("`fell from 1.000 to 0.000 (allowed 0.02): 14 of 14 questions worse")
    assert worse.startswith("14 of 14 questions got worse, 0 better: `q0`, `q1`, ")
    assert worse.endswith("`q11`, 2 more")
    assert reasons[1:] == [
        "- ❗ `test_a.py::test_lost` `answer.em@1`<br>`no score: no server`",
        "- ❌ `test_a.py::test_own`<br>`it is worse`",
    ]
    assert "as with -q" not in text
    assert "drop 1.000 (" not in rendered(text).outside


@pytest.mark.parametrize(
    ("tests", "headline"),
    [
        ([], "nothing was scored"),
        ([_test("test_a", outcome="failed", message=""), _test("test_b")], "1 test failed, 1 test passed"),
        ([_test("test_a", _ruled([1.0], None, min=0.5))], "1 of 1 threshold passed"),
        (
            [
                _test("test_a", _ruled([0.0], None, min=0.5), outcome="failed", message=""),
                _test(
                    "test_b",
                    _ruled([0.0, 0.0, 1.0, 1.0, 1.0], 1.0, max_drop=0.1),
                    outcome="error",
                    message="",
                ),
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
def test_the_headline_counts_thresholds_and_other_failures(tests, headline):
    assert _report(*tests).splitlines()[0] == f"### rageval: {headline}"


def test_thresholds_that_failed_are_first() -> None:
    text = _report(
        _test("test_a", outcome="skipped", message="no key"),
        _test("test_b", _ruled([1.0], None, min=0.5)),
        _test("test_c", _ruled([0.0, 0.0, 1.0, 1.0, 1.0], 1.0, max_drop=0.1)),
        _test("test_d", outcome="error", message="boom"),
        _test("test_e", _ruled([0.0], None, min=0.5), outcome="failed", message="lost"),
    )
    assert [row[0] + row[1][-6:] for row in _rows(rendered(text))] == [
        *("❌ failtest_e", "❗ errortest_d", "⚠️ inconclusivetest_c", "✅ passtest_b", "⏭️ skippedtest_a")
    ]


def _devil() -> dict[str, Any]:
    question = _question(
        DEVIL,
        question=DEVIL,
        gold=[DEVIL],
        retrieved=["kb-7", DEVIL],
        answer=DEVIL,
        expected={"as": "reference", "texts": [DEVIL]},
        judge=DEVIL,
        before={"score": 1.0, "retrieved": [DEVIL], "answer": f"then {DEVIL}"},
    )
    evalset = {"name": DEVIL, "size": 3, "digest": "d", "warnings": [DEVIL]}
    planted_texts = {"reason": DEVIL, "where": {DEVIL: DEVIL}, "warnings": [DEVIL]}
    gained = _ruled([1.0] * 9, 0.5, max_drop=0.1) | {"where": {DEVIL: DEVIL}}
    tests = [
        _test(
            DEVIL,
            _lost(question, **planted_texts),
            outcome="failed",
            message=DEVIL,
            evalset=evalset,
            accept="update",
        ),
        _test(f"{DEVIL} 2", outcome="error", message=DEVIL, warnings=[DEVIL]),
        _test(f"{DEVIL} 3", gained, evalset=evalset),
        *(_test(f"{DEVIL} {n}", _ruled([1.0], 1.0, min=0.1), evalset=evalset) for n in range(20)),
    ]
    best = {"mean": 1.0, "n": 3, "shared": 3, "p_value": 1.0, "best": True}
    matrix = {
        "test": DEVIL, "parameters": {DEVIL: DEVIL}, "evalset": evalset, "scores": [DEVIL],
        "rows": [{"system": {DEVIL: DEVIL}, "cells": [best]}] * 2,
    }  # fmt: skip
    document = _document(*tests, matrix=[matrix])
    document["settings"] = {"generator": DEVIL, "judge": DEVIL, "comparator": DEVIL}
    document["llm"] = LLM | {"remarks": {DEVIL: 1}}
    document["run"] = {"branch": DEVIL, "commit": "1" * 40, "baseline": {"commit": DEVIL, "date": DEVIL}}
    return document


def test_nothing_that_others_wrote_is_markup() -> None:
    """Texts of a user, passage or model are shown as code: they create no element, link, mention or cell."""
    text = markdown_report(_devil())
    assert len(text.splitlines()) <= MAX_LINES
    page = rendered(text)
    ours = {
        "h3",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "details",
        "summary",
        "p",
        "ul",
        "li",
        "strong",
    }
    assert set(page.tags) <= ours | {"code", "pre", "br", "wbr", "sub", "blockquote"}
    assert not page.unclosed
    # Only a code block has an attribute, its language.
    assert {name for name, _ in page.attributes} <= {"class"}
    assert not re.search(r"[@#<>`\\|~]|\*\*|GH-|bold|_it_|evil|javascript|amp", page.text)
    assert page.tags.count("strong") == page.text.count("→ 0.00") + page.text.count("that got worse")
    assert page.tags.count("h3") == 1
    assert {len(row) for table in page.tables for row in table} == {7}
    # The planted text is shown in these places.
    line = " ".join(DEVIL.split())
    assert any(line[:100] in code for code in page.code)
    assert {cell[:40] for row in _rows(page) for cell in row if cell.startswith("test_")} == {
        f"test_a.py::{line}"[:40]
    }


def _many(failing: int, passing: int, scores: int = 1) -> list[dict[str, Any]]:
    lost = _lost(
        *(_question(f"q{n}", answer="word " * 400, before={"score": 1.0, "answer": "x"}) for n in range(30))
    )
    passed = _ruled([1.0] * 5, 1.0, max_drop=0.5) | {"warnings": ["a warning"]}
    long = "of_a_topic_" * 8
    evalset = {"name": "s.jsonl", "size": 30, "digest": "d", "warnings": []}
    return [
        *(_test(f"test_good_{long}{n}", *[passed] * scores, evalset=evalset) for n in range(passing)),
        *(
            _test(f"test_bad_{long}{n}", *[lost] * scores, evalset=evalset)
            | {"outcome": "failed", "message": "a line\n" * 900, "accept": "update"}
            for n in range(failing)
        ),
    ]


@pytest.mark.parametrize(
    ("failing", "passing", "scores"),
    [
        (0, 0, 1),
        (0, 3, 3),
        (1, 6, 2),
        (3, 37, 1),
        (0, 40, 1),
        (40, 0, 1),
        (40, 40, 5),
        (1, 1, 60),
        (12, 1, 1),
    ],
)
def test_it_has_sixty_lines_however_much_there_is(failing: int, passing: int, scores: int) -> None:
    """The verdict, the table, the command and three questions are always included."""
    text = _report(*_many(failing, passing, scores))
    lines = text.splitlines()
    assert len(lines) <= MAX_LINES
    assert len(text) < MAX_CHARS
    page = rendered(text)
    assert not page.unclosed
    rows = [row for number in range(len(page.tables)) for row in _rows(page, number)]
    left_out = re.search(r"Left out here: .*?(\d+) scores?", text)
    assert len(rows) + int(left_out[1] if left_out else 0) == (failing + passing) * scores
    if failing:
        assert len(page.tables[0]) > min(failing * scores, 8)
        assert all(row[0] == "❌ fail" for row in _rows(page)[: min(failing * scores, 8)])
        assert "- Accept the drop with `pytest" in text
        assert text.count("**1.00 → 0.00**") == 3
        assert "The HTML and the JSON report have all.\n" in text


def test_of_many_tests_those_that_passed_are_folded() -> None:
    text = _report(*_many(3, 37))
    page = rendered(text)
    assert [row[0] for row in _rows(page)] == ["❌ fail"] * 3
    assert "<summary>37 more scores: 37 ✅\N{NO-BREAK SPACE}pass</summary>" in text
    assert {row[0] for row in _rows(page, 1)} == {"✅ pass"}


def test_texts_are_cut_to_the_size_of_a_comment() -> None:
    signs = "|`&<" * 5_000
    tests = [
        _test(
            f"{signs}{n}",
            _lost(_question(f"{n}{signs}", question=signs, answer=signs)),
            outcome="failed",
            message=signs,
        )
        for n in range(30)
    ]
    text = _report(*tests)
    assert len(text) <= MAX_CHARS
    assert not rendered(text).unclosed
    assert text.count("**1.00 → 0.00**") == 3


def test_systems_and_notes_are_folded_blocks_of_code() -> None:
    best = {"mean": 0.5, "n": 3, "shared": 3, "p_value": 1.0, "best": True}
    rows = [{"system": {"rageval_retriever": name}, "cells": [best]} for name in ("bm25", "ours")]
    matrix = {"test": "test_a.py::t", "parameters": {}, "evalset": None, "scores": ["recall@3"], "rows": rows}
    text = _report(_test("test_a", _ruled([1.0] * 5, 1.0, max_drop=0.1)), matrix=[matrix])
    assert (
        "<details><summary>Systems</summary>\n\n```text\ntest_a.py::t\n  retriever  recall@3 \n  bm25          0.500*"
    ) in text.replace("recall@3\n", "recall@3 \n")
    fenced = _report(matrix=[matrix | {"test": "```"}])
    assert "\n````text\n```\n" in fenced
    assert "\nbm25" not in rendered(fenced).text
    page = rendered(text)
    assert page.tags.count("details") == 2
    assert "0.500*" not in page.outside
    assert any("answer.em@1: baseline 1.000, no change" in code for code in page.code)


def test_where_nothing_was_scored_there_is_no_table() -> None:
    assert not rendered(_report()).tables


def test_run_models_and_replies_are_shown_below() -> None:
    """The last line has the run, the models and the replies, in small type; unknown facts of the run are left out."""
    assert _report(_test("test_a", uses=["generator", "comparator"])).splitlines()[-1] == (
        "<sub>`generator m_1, answers compared by judge or em (judge: m2)` · `4 replies: 4 cached, 0 live` · "
        "`2 × 2 | 3 @team`</sub>"
    )
    document = copy.deepcopy(_document(_test("test_a", uses=["generator", "comparator"])))
    document["run"] = {
        "branch": "main",
        "commit": "0123456789",
        "dirty": True,
        "baseline": {"path": "b.json", "commit": "abcdef0123", "date": "2026-11-01T10:00:00Z"},
    }
    text = "<sub>`main at 0123456 with uncommitted changes` · `baseline of abcdef0, 2026-11-01` · `generator"
    assert text in markdown_report(document)
    document["run"] = {"baseline": {"path": "b.json"}}
    assert "<sub>`generator m_1" in markdown_report(document)


def test_a_test_with_a_generator_of_its_own_is_not_of_the_one_in_force() -> None:
    text = _report(
        _test("test_a", own=["generator", "judge"], uses=["comparator"]),
        _test("test_b", own=["generator"]),
        _test("test_c"),
    )
    models_line = (
        "compared by judge or em (judge: m2); own generator in 2 of 3 tests; own judge in 1 of 3 tests` · "
    )
    assert models_line in text
