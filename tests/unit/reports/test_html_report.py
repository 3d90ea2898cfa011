"""The report for a browser: one page, whatever the texts hold."""

from html.parser import HTMLParser
from typing import Any

import pytest

from pytest_rageval.gate.comparison import BaselineScore
from pytest_rageval.gate.ruling import BaselineLookup
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.model import Document, Example, Gold, Ranking
from pytest_rageval.reports.html import html_report
from pytest_rageval.reports.results import report_document
from pytest_rageval.scores import Evidence, Outcome, Score
from tests.unit.gate.scored import rule_on
from tests.unit.reports.entries import ruling_entry

SETTINGS = {"generator": None, "judge": "canonical", "comparator": "judge"}
LLM = {"requests": 0, "cached": 0, "live": 0, "failed": 0, "cut": 0, "remarks": {}}
VOID = {"meta"}


class Page(HTMLParser):
    """What a browser makes of it: elements with their text, which must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        assert not any(name.startswith("on") or name in {"src", "href"} for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text of the innermost."""
        self.found.append((self.open[-1] if self.open else "", data))

    def texts(self, tag: str) -> list[str]:
        """What stands directly in elements of a kind."""
        return [text for element, text in self.found if element == tag]


def _outcome(name: str, value: float | None, text: str = "Why?", **evidence: Any) -> Outcome:
    ranking = Ranking("q", (Document("alpha", "kb-1"), Document("beta", "kb-9")))
    told = Evidence(ranking, text, ("five days", "a week"), **evidence)
    unscored = "the judge was silent" if value is None else None
    example = Example(name, text, gold=(Gold("kb-9"),))
    return Outcome(example, value, unscored, told, lost_by=None if value else "retriever")


def _page(outcomes: list[Outcome], message: str = "", **bounds: Any) -> str:
    examples = {each.example.id: {"score": 1.0, "ranking": [], "answer": "a month"} for each in outcomes}
    before = BaselineScore({each.example.id: each.example.digest for each in outcomes}, {}, examples)
    ruling = rule_on(
        Score("answer.em@2", outcomes),
        Threshold("answer.em@2", **bounds),
        BaselineLookup({}, before),
        alpha=0.05,
    )
    test = {
        "nodeid": "test_a.py::test_gate",
        "outcome": "failed" if message else "passed",
        "message": message,
        "evalset": {"name": "s.jsonl", "size": len(outcomes)},
        "scores": [ruling_entry(ruling)],
    }
    document = report_document(
        [test], settings=SETTINGS, llm=LLM, package="0.1.0", started="2026-01-01", duration_s=1.0
    )
    return html_report(document)


def test_each_question_that_got_worse_has_its_then_and_now() -> None:
    """All of them, with what was retrieved, the gold passages marked, and what was said."""
    outcomes = [_outcome(f"q{n}", 0.0) for n in range(30)] + [_outcome("q30", None)]
    page = Page(_page(outcomes, "as pytest\nsaid it", max_drop=0.1))
    assert page.open == []
    assert page.texts("h1") == ["rageval: 1 of 1 threshold failed"]
    assert page.texts("h2") == ["test_a.py::test_gate  (s.jsonl, 31)"]
    assert page.texts("h3") == [" 1.00 → 0.00"] * 30
    assert page.texts("dt")[:8] == [
        *("gold", "retrieved before", "retrieved now", "answer before", "answer now"),
        *("reference", "lost by", "gold"),
    ]
    assert page.texts("mark")[:3] == ["kb-9", "kb-9", "kb-9"]
    assert page.texts("dd")[:6] == ["(nothing)", " ", "a month", "Why?", "five days | a week", "retriever"]
    assert page.texts("pre") == ["as pytest\nsaid it"]
    assert "unscored: the judge was silent" in page.texts("td")
    assert "❌ answer.em@2: 30 of 30 questions got worse, 0 better; lost by: retriever 30" in page.texts(
        "summary"
    )


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "</td></table>&amp; \"'",
        "--></style>",
        "\x00\x1b[31m\ud83d",
        "ÄÖ 東京 🙂",
    ],
)
def test_a_text_stays_text(text: str) -> None:
    """Whatever it holds, it opens no element; characters that HTML does not have are replaced."""
    written = _page([_outcome(text, 0.0, text, explanation=text)], text, max_drop=0.1)
    written.encode("utf-8")
    page = Page(written)
    assert page.open == []
    shown = text.translate({0: 0xFFFD, 0x1B: 0xFFFD, 0xD83D: 0xFFFD})
    for tag in ("p", "dd", "pre", "code"):
        assert shown in page.texts(tag), tag


def test_it_asks_for_nothing_and_runs_nothing() -> None:
    """One file, as an artefact of a build is kept."""
    written = _page([_outcome("q", 0.0)], max_drop=0.1)
    assert "default-src 'none'" in written
    assert "<script" not in written
    assert "http://" not in written.replace("http-equiv", "")


def test_where_all_is_well_there_is_the_table_and_the_examples() -> None:
    """No question is to be told of."""
    page = Page(_page([_outcome("q0", 1.0)], max_drop=0.1))
    assert page.texts("h1") == ["rageval: 1 of 1 threshold passed"]
    assert page.texts("h3") == []
    assert page.texts("summary") == ["answer.em@2: all examples (1)"]


def test_the_columns_of_tables_are_named_for_screen_readers() -> None:
    """Each head says that it heads a column; cases have one only where there are cases."""
    written = _page([_outcome("q0", 1.0)], max_drop=0.1)
    assert written.count("<th ") == written.count('scope="col"') == 10
    assert written.count("<thead>") == written.count("<tbody>") == 2
    assert "case" not in Page(written).texts("th")


@pytest.mark.parametrize(
    ("value", "shown"), [(1.0, '<details open=""><summary>as'), (0.0, "<details><summary>as")]
)
def test_why_a_test_failed_is_not_folded(value: float, shown: str) -> None:
    """Where no score says it, pytest's words do."""
    assert shown in _page([_outcome(f"q{n}", value) for n in range(9)], "boom", max_drop=0.1)
