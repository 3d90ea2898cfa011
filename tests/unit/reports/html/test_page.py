"""The HTML report: one page with every question, safe for all texts."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest

from pytest_rageval.baseline.entries import BaselineScore
from pytest_rageval.core.evalset import Example, Gold
from pytest_rageval.core.outcome import Evidence, Outcome, Score
from pytest_rageval.core.ranking import Document, Ranking
from pytest_rageval.gate.verdict import BaselineLookup
from pytest_rageval.reports.build import report_document
from pytest_rageval.reports.html import page as html
from pytest_rageval.reports.html import render
from pytest_rageval.reports.html.page import Histogram, ScoreView, html_report
from tests.unit.gate.scored import rule_on, threshold_of
from tests.unit.reports.entries import threshold_result_entry
from tests.unit.reports.whole_document import LLM, SETTINGS, planted, whole_document

VOID = {"meta", "input", "br"}
SHOWN = re.compile(r"\s+")


class Page(HTMLParser):
    """The parsed page: its elements with their texts; every element must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, list[str]]] = []
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.tags: list[tuple[str, list[str]]] = []
        self._attributes: list[dict[str, str | None]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, sorted(name for name, _ in attrs)))
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            assert name not in {"src", "style", "srcdoc", "action"}, (tag, name)
            assert name != "href" or (value or "").startswith(("#", "https://", "http://")), value
        if tag in VOID:
            self.found.append((tag, dict(attrs), ""))
        else:
            self.open.append((tag, []))
            self._attributes.append(dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        opened, texts = self.open.pop()
        assert opened == tag
        text = "".join(texts)
        self.found.append((tag, self._attributes.pop(), text))
        if self.open:
            self.open[-1][1].append(text if tag == "em" else f" {text} ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1][1].append(data)

    def texts(self, tag: str, class_: str | None = None) -> list[str]:
        return [
            SHOWN.sub(" ", text).strip()
            for found, attributes, text in self.found
            if found == tag and (class_ is None or class_ in (attributes.get("class") or "").split())
        ]

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for found, attributes, _ in self.found if found == tag]


def _questions(page: Page) -> list[str]:
    """Return the lines of the questions: the elements `summary` that have an id in code."""
    return [
        text
        for text in page.texts("summary")
        if re.match(r"((lost|gained|unscored|below|above) )?q\d+ ", text)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\"><svg onload='alert(1)'>",
        "'><a href=javascript:alert(1)>",
        "javascript:alert(1)",
        "</td></table></details></script></style>-->&amp; \"'",
        "{{ 7 * 7 }} {% raw %} {# x #}",
        "\x00\x1b[31m\ud83d",
        "ÄÖ 東京 🙂",
    ],
)
def test_a_text_stays_text_in_every_field(text: str) -> None:
    """Markup in any text of the report creates no element and no attribute: the page equals that of a harmless text."""
    written = html_report(planted(whole_document(), text))
    written.encode("utf-8")
    page, harmless = Page(written), Page(html_report(planted(whole_document(), "harmless")))
    assert page.tags == harmless.tags
    shown = text.translate({0: 0xFFFD, 0x1B: 0xFFFD, 0xD83D: 0xFFFD})
    body_text = "".join(text for tag, _, text in page.found if tag == "body")
    assert body_text.count(shown) > 60


def test_only_addresses_of_the_web_are_links() -> None:
    document = whole_document(run={"url": "javascript:alert(1)"})
    page = Page(html_report(document))
    assert "javascript:alert(1)" in page.texts("dd")
    assert {"href": "https://ci.example/1", "rel": "noreferrer"} in Page(
        html_report(whole_document())
    ).attributes("a")


def test_the_policy_allows_this_style_and_this_script_alone() -> None:
    """The page is one file, so that it can be stored as a build artefact."""
    written = html_report(whole_document())
    policy = next(
        attribute["content"] for attribute in Page(written).attributes("meta") if "http-equiv" in attribute
    )
    (style,) = re.findall(r"<style>(.*?)</style>", written, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", written, re.DOTALL)

    def hash_of(text: str) -> str:
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    assert policy == (
        f"default-src 'none'; style-src {hash_of(style)}; script-src {hash_of(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"url\(|@import", style)
    assert "script-src" not in render("base.html")


def test_each_question_has_one_row_with_all_its_scores() -> None:
    page = Page(html_report(whole_document()))
    assert _questions(page) == [
        "lost q1 How many days 1? answer.correct@2 1 → 0 recall@2 1",
        "unscored q2 How many days 2? answer.correct@2 unscored recall@2 1",
        "gained q0 How many days 0? answer.correct@2 0 → 1 recall@2 1",
    ]
    classes = [attribute.get("class") or "" for attribute in page.attributes("details")]
    assert [name for name in classes if name.startswith("q ")] == ["q lost", "q unscored", "q gained"]
    states = ["lost", "unscored", "gained"]
    assert [each["class"] for each in page.attributes("i") if each.get("class") in states] == states


def test_a_topic_has_its_means_and_its_number_of_lost_questions() -> None:
    page = Page(html_report(whole_document()))
    assert page.texts("div", "of") == [
        "returns 2 questions, 1 lost mean 0.000 mean 1.000",
        "plans 1 question, 1 gained mean 1.000 mean 1.000",
    ]


def test_a_column_has_its_score() -> None:
    page = Page(html_report(whole_document()))
    [head] = page.texts("div", "names")
    assert head.replace("\N{ZERO WIDTH SPACE}", "") == "answer.correct@2 0.500 recall@2 0.500"
    heads = [attribute for attribute in page.attributes("i") if "is-fail" in (attribute.get("class") or "")]
    assert len(heads) == 1


def test_a_question_without_a_score_has_an_empty_cell_for_it() -> None:
    """A question outside the slice of a score has an empty cell, so that later scores stay in their columns."""
    document = whole_document()
    first = document["tests"][0]["scores"][0]
    document["tests"][0]["scores"][0] = {**first, "examples": first["examples"][1:]}
    page = Page(html_report(document))
    assert _questions(page) == [
        "lost q1 How many days 1? answer.correct@2 1 → 0 recall@2 1",
        "unscored q2 How many days 2? answer.correct@2 unscored recall@2 1",
        "q0 How many days 0? recall@2 1",
    ]
    assert page.texts("i")[-2:] == ["", "recall@2 1"]


def test_a_question_shows_what_was_retrieved_and_answered_now_and_before() -> None:
    written = html_report(whole_document())
    page = Page(
        written[written.index('<details class="q lost"') : written.index('<details class="q unscored"')]
    )
    fields = dict(zip(page.texts("dt"), page.texts("dd"), strict=True))
    assert fields == {
        "after": "User: Hello",
        "filters": "year = 2026",
        "answer before": "five days",
        "answer": "thirteen weeks",
        "reference": "five days",
        "judge": "It says weeks.",
        "why": "cited nothing",
        "lost by": "retriever",
        "case": "C",
        "long reference": "Five days, and six.",
        "gold": "kb-1 rank 2 kb-9 not retrieved",
        "step 1": "days of returns → kb-1",
        "retrieved before": "kb-1 kb-3",
        "retrieved now": "kb-7 kb-1 kb-8",
    }
    assert page.texts("blockquote") == [
        *("It takes thirteen weeks.", "Returns take five days.", "It takes thirteen weeks too."),
        "Gold text nine.",
    ]
    assert page.texts("li", "gold") == [
        "kb-1 gold was 1 label 1 answer from it alone: five Returns take five days."
    ]
    # The third passage is beyond k, so no model got it.
    assert page.texts("em") == ["thirteen weeks"]
    assert page.texts("p", "about") == [
        "Link to q1 topic: returns lang: en lang: de",
        "0.250 s 77 tokens of context",
    ]


def test_links_to_questions_are_the_same_in_every_run() -> None:
    document = whole_document()
    ids = _anchors(document)
    changed = whole_document(started="2027-01-01T00:00:00+00:00")
    changed["tests"][0]["scores"] = changed["tests"][0]["scores"][:1]
    assert ids == _anchors(changed)
    assert len(set(ids)) == 3
    changed["tests"][0]["evalset"]["name"] = "t.jsonl"
    assert not set(ids) & set(_anchors(changed))


def _anchors(document: dict[str, Any]) -> list[str | None]:
    page = Page(html_report(document))
    return [attribute["id"] for attribute in page.attributes("div") if attribute.get("class") == "body"]


def test_a_test_has_each_score_with_its_interval_and_its_change() -> None:
    page = Page(html_report(whole_document()))
    row = "answer.correct@2 ✕ fail 0.500 answer.correct@2 0.500, 0.100 to 0.900 0.100 to 0.900 "
    assert (
        f"{row}±0 −0.100 to +0.100 1 lost, 1 gained, 1 unscored 1 lost, 1 gained, 1 unscored ≥ 0.6 ↓ 0.02"
        in (page.texts("tr"))
    )
    labels = [
        attribute["aria-label"] for attribute in page.attributes("svg") if attribute.get("role") == "img"
    ]
    assert "1 lost, 1 gained, 1 unscored" in labels
    assert not any("scores of" in str(label) for label in labels), "a histogram of 0 and 1 shows nothing new"


def test_scores_between_0_and_1_have_a_histogram() -> None:
    """A test shows how its scores are distributed, unless each is 0 or 1."""
    document = whole_document()
    document["tests"][0]["scores"][0]["examples"][0]["score"] = 0.5
    labels = [attribute.get("aria-label") for attribute in Page(html_report(document)).attributes("svg")]
    assert "scores of 2 questions, from 0 to 1" in labels


def test_the_page_says_which_run_it_is_of() -> None:
    page = Page(html_report(whole_document()))
    facts = dict(zip(page.texts("dt"), page.texts("dd"), strict=True))
    assert facts["Commit"] == "0123456789ab, with changes that are not committed"
    assert facts["Branch"] == "main"
    assert facts["Baseline"] == "baseline.json, fedcba987654, 2026-01-01"
    assert "Models" not in facts
    assert facts["generator"] == "m1"


def test_slices_are_a_table_of_tag_values_and_scores() -> None:
    """Slices are listed lowest first, with the change from the baseline, coloured by distance from the overall mean."""
    page = Page(html_report(whole_document()))
    rows = page.texts("tr")
    at = rows.index("topic Questions answer.correct@2 recall@2")
    assert rows[at + 1 : at + 3] == [
        "returns 2 0.000 −1.000 n = 1 1.000",
        "plans 1 1.000 +1.000 1.000",
    ]
    assert len(page.texts("td", "below-3")) == len(page.texts("td", "above-3")) == 1
    assert rows[at - 3 : at] == [
        "lang Questions answer.correct@2 recall@2",
        *(f"{lang} 3 0.500 n = 2 1.000" for lang in ("de", "en")),
    ]


def test_systems_ratings_and_disagreements_with_people_are_tables() -> None:
    page = Page(html_report(whole_document()))
    rows = page.texts("tr")
    assert "bm25 0.900 best, n = 3" in rows
    assert "dense 0.300 lower (p < 0.0001), n = 3, 2 compared (0.350, the best 0.850)" in rows
    assert "none -" in rows
    assert "bm25@5 1100 1050 to 1150 1050 to 1150 20" in rows
    assert {"bm25@5 - 0.70 0.50 to 0.80", "reference 0.30 0.20 to 0.50 -"} <= set(rows)
    assert {
        "1 pair of systems with 10 battles each",
        "2 × unscored: no rating",
        "no battles of bm25@5 and dense@5: no process had both",
    } <= set(page.texts("p"))
    assert "item-3 1.000 0.000" in rows
    assert any("judge against people (people.csv" in line for line in page.texts("li"))


def test_without_script_everything_is_there_but_the_filters() -> None:
    """Without JavaScript, everything but the filters is visible; prompt templates are stored once."""
    written = html_report(whole_document())
    assert '<form class="filters" id="filters" hidden>' in written
    page = Page(written)
    assert page.texts("pre") == ["as pytest said it", "Answer {question} from {passages}."]
    options = [(attributes.get("value"), text) for tag, attributes, text in page.found if tag == "option"]
    assert {text for _, text in options} >= {"C", "retriever", "returns", "plans", "en", "de"}
    tokens = {text: value for value, text in options}
    lost = next(attribute for attribute in page.attributes("details") if attribute.get("class") == "q lost")
    assert (lost["data-f"] or "").split() == [
        "lost",
        *(tokens[text] for text in ("C", "retriever", "returns", "en", "de")),
    ]


def test_text_that_does_not_fit_is_left_out_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    document = whole_document()
    whole = len(html_report(document))
    for entry in document["tests"][0]["questions"]:
        entry["retrieved"][0]["text"] = "weeks " * 500
    monkeypatch.setattr(html, "MAX_QUESTION_BYTES", 12_000)
    written = html_report(document)
    assert len(written) < whole + 12_000
    page = Page(written)
    assert page.texts("p", "warning")[-1] == (
        "The passages of 1 question are left out, and their answers are cut: the worst questions are shown in full. "
        "The JSON report has them."
    )
    gained = written[written.index('<details class="q gained"') :]
    assert "weeks weeks" not in gained
    assert "retrieved: kb-7, kb-1, kb-8" in gained
    monkeypatch.setattr(html, "MAX_QUESTION_BYTES", 900)
    page = Page(html_report(document))
    assert page.texts("p", "warning")[-1] == (
        "2 of 3 questions are left out: the worst are shown. The JSON report has them."
    )
    assert [
        attribute["class"]
        for attribute in page.attributes("details")
        if "q" in (attribute.get("class") or "").split()
    ] == ["q lost"]


def _outcome(name: str, value: float | None, text: str = "Why?", **evidence: Any) -> Outcome:
    ranking = Ranking("q", (Document("alpha", "kb-1"), Document("beta", "kb-9")))
    outcome_evidence = Evidence(ranking, text, ("five days", "a week"), **evidence)
    unscored = "the judge was silent" if value is None else None
    example = Example(name, text, gold=(Gold("kb-9"),))
    return Outcome(example, value, unscored, outcome_evidence, lost_by=None if value else "retriever")


def _page(outcomes: list[Outcome], message: str = "", **bounds: Any) -> str:
    examples = {
        outcome.example.id: {"score": 1.0, "ranking": [], "answer": "a month"} for outcome in outcomes
    }
    before = BaselineScore({outcome.example.id: outcome.example.digest for outcome in outcomes}, {}, examples)
    ruling = rule_on(
        Score("answer.em@2", outcomes),
        threshold_of("answer.em@2", **bounds),
        BaselineLookup({}, before),
        alpha=0.05,
    )
    entry = threshold_result_entry(ruling)
    known = {"id", "score", "unscored", "undefined", "case", "lost_by", "explanation", "labels"}
    entry["examples"] = [
        {name: example[name] for name in example if name in known} for example in entry["examples"]
    ]
    test = {
        "nodeid": "test_a.py::test_gate",
        "outcome": "failed" if message else "passed",
        "message": message,
        "evalset": {"name": "s.jsonl", "size": len(outcomes)},
        "scores": [entry],
    }
    document = report_document(
        [test], settings=SETTINGS, llm=LLM, package="0.1.0", started="2026-01-01", duration_s=1.0
    )
    return html_report(document)


def test_a_question_that_was_not_asked_has_its_row() -> None:
    """Every example of a score has a row, the lost ones first; without an entry of its own it has only its id."""
    outcomes = [_outcome(f"q{n}", 0.0) for n in range(30)] + [_outcome("q30", None), _outcome("q31", 1.0)]
    page = Page(_page(outcomes, "as pytest\nsaid it", max_drop=0.1))
    assert page.texts("h1") == ["rageval: 1 of 1 threshold failed"]
    questions = _questions(page)
    assert len(questions) == 32
    assert questions[0] == "lost q0 answer.em@2 1 → 0"
    assert questions[30:] == ["unscored q30 answer.em@2 unscored", "q31 answer.em@2 1"]
    assert page.texts("dd")[page.texts("dt").index("lost by")] == "retriever"
    assert page.texts("pre") == ["as pytest said it"]


@pytest.mark.parametrize(("value", "is_open"), [(1.0, False), (0.0, True)])
def test_a_green_test_is_folded(value: float, *, is_open: bool) -> None:
    """Only a test in which something failed or is unclear is unfolded."""
    page = Page(_page([_outcome(f"q{n}", value) for n in range(9)], max_drop=0.1))
    [test] = [attribute for attribute in page.attributes("details") if attribute.get("class") == "test"]
    assert ("open" in test) == is_open


def test_the_columns_of_tables_are_named_for_screen_readers() -> None:
    heads = Page(html_report(whole_document())).attributes("th")
    assert len(heads) > 20
    assert all(head["scope"] in {"col", "row", "rowgroup"} for head in heads)


@pytest.mark.parametrize(
    ("value", "shown"), [(1.0, "<details open><summary>As"), (0.0, "<details><summary>As")]
)
def test_why_a_test_failed_is_not_folded(value: float, shown: str) -> None:
    """The message of pytest is unfolded only if no score explains the failure."""
    assert shown in _page([_outcome(f"q{n}", value) for n in range(9)], "boom", max_drop=0.1)


@pytest.mark.slow
def test_ten_thousand_questions_with_ten_passages_are_a_page_of_15_mb() -> None:
    """Most are without their passages, which alone would be 50 MB."""
    text = "words of a passage " * 27
    example = {"score": 0.0, "unscored": None, "before": 1.0, "k": 5, "answer": text[:100]}
    retrieved = [{"document": f"document-{n:04}", "text": text[:500]} for n in range(10)]
    document = whole_document()
    test = document["tests"][0]
    ids = [f"question-{n:05}" for n in range(10_000)]
    test["questions"] = [
        {"id": id_, "question": text[:80], "gold": ["document-9999"], "retrieved": retrieved} for id_ in ids
    ]
    for score in test["scores"]:
        score["examples"] = [{"id": id_, **example} for id_ in ids]
    written = html_report(document)
    assert len(written.encode()) < 15_000_000
    assert written.count('<details class="q') == 10_000
    assert 500 < written.count('<ol class="passages"') < 9_500


def test_times_reach_over_their_histogram() -> None:
    """The histogram of latencies ends at the largest one, while that of shares goes from 0 to 1."""

    def histogram(*scores: float, **entry: Any) -> Histogram:
        examples = [{"score": score} for score in scores]
        score = {"spec": "s", "where": {}, "threshold": None, "examples": examples, **entry}
        return ScoreView(score).distribution

    times = histogram(0.004, 0.008, 0.04, statistic="p50")
    assert times.high == 0.04
    assert [count for count in times.counts if count] == [1, 1, 1]
    assert histogram(0.0, statistic="p50") is None
    assert histogram(0.04).high == 1


def test_a_scale_is_shown_from_end_to_end() -> None:
    """The histogram of grades covers their scale, 1 to 5."""
    entry = {"spec": "judged.correctness@5", "where": {}, "mean": 3.0, "ci95": [2.5, 3.5], "scale": [1, 5]}
    view = ScoreView({**entry, "threshold": None, "examples": [{"score": 3.0}, {"score": 5.0}]})
    assert view.scale == (1, 5)
    assert (view.distribution.low, view.distribution.high) == (1, 5)
    assert view.distribution.label == "scores of 2 questions, from 1 to 5"
    assert [at for at, count in enumerate(view.distribution.counts) if count] == [5, 9]
