"""The page of a run in Chromium: filters, search, sorting, links, the keyboard, and without JavaScript."""

import json
import lzma
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from pytest_rageval.reports.html.page import html_report
from tests.browser.runs import QUESTIONS, wide_document
from tests.unit.reports.whole_document import whole_document

pytestmark = pytest.mark.slow

SHOWN = "#filters output"
GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "report.html"
    path.write_text(html_report(whole_document()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wide") / "report.html"
    path.write_text(html_report(wide_document(60)), encoding="utf-8")
    return path


def ids(page: Page) -> list[str]:
    return page.locator(".q > summary code").all_text_contents()


def test_chips_show_what_was_lost_and_gained(visit: Callable[..., Page], real: Path) -> None:
    """A chip shows its number of questions and filters them; a chip without questions is hidden."""
    page = visit(real)
    expect(page.locator(SHOWN)).to_have_text(f"{QUESTIONS} of {QUESTIONS} questions")
    page.get_by_text("Lost 3", exact=True).click()
    expect(page.locator(SHOWN)).to_have_text(f"3 of {QUESTIONS} questions")
    assert ids(page) == ["q20", "q30", "q299"]
    assert page.locator(".q.lost").count() == 3
    page.get_by_text("Gained 1", exact=True).click()
    assert ids(page) == ["q40"]
    expect(page.get_by_text("Unscored", exact=True)).to_be_hidden()
    page.get_by_role("button", name="Reset").click()
    expect(page.locator(SHOWN)).to_have_text(f"{QUESTIONS} of {QUESTIONS} questions")


def test_filters_work_together(visit: Callable[..., Page], real: Path) -> None:
    """A tag and a chip filter together, and the numbers on the chips are updated."""
    page = visit(real)
    page.locator("select[name=tag]").select_option("odd")
    expect(page.locator(SHOWN)).to_have_text(f"{QUESTIONS // 2} of {QUESTIONS} questions")
    page.get_by_text("Lost 1", exact=True).click()
    assert ids(page) == ["q299"]
    page.locator("select[name=tag]").select_option("even")
    assert ids(page) == ["q20", "q30"]


def test_cases_and_causes_are_filters(visit: Callable[..., Page], whole: Path) -> None:
    page = visit(whole)
    page.locator("select[name=case]").select_option("C")
    assert ids(page) == ["q1"]
    page.get_by_role("button", name="Reset").click()
    expect(page.locator(SHOWN)).to_have_text("3 of 3 questions")
    page.locator("select[name=by]").select_option("retriever")
    assert ids(page) == ["q1"]


def test_search_finds_words_of_questions_passages_and_answers(visit: Callable[..., Page], real: Path) -> None:
    """The search requires all words, ignores case, and finds questions beyond the first 250."""
    page = visit(real)
    search = page.get_by_label("Search")
    search.fill("ITEM-277? code")
    expect(page.locator(SHOWN)).to_have_text(f"1 of {QUESTIONS} questions")
    assert ids(page) == ["q277"]
    search.fill("c277x. see doc-277")
    expect(page.locator(SHOWN)).to_have_text(f"1 of {QUESTIONS} questions")
    search.fill("no such word")
    expect(page.locator(SHOWN)).to_have_text(f"0 of {QUESTIONS} questions")
    search.fill("")
    expect(page.locator(SHOWN)).to_have_text(f"{QUESTIONS} of {QUESTIONS} questions")


@pytest.mark.parametrize(
    ("order", "first"),
    [
        ("worst first", ["q20", "q30", "q2"]),
        ("gained first", ["q40"]),
        ("as in the eval set", ["q2", "q4", "q6"]),
        ("by id", ["q2", "q4", "q6"]),
        ("lowest score first", ["q20", "q30"]),
    ],
)
def test_questions_are_sorted(visit: Callable[..., Page], real: Path, order: str, first: list[str]) -> None:
    page = visit(real)
    page.locator("select[name=sort]").select_option(order)
    assert ids(page)[: len(first)] == first


def test_a_long_list_is_shown_in_portions(visit: Callable[..., Page], real: Path) -> None:
    """A topic shows 5 questions; its button shows the rest and moves the focus to the first new one."""
    page = visit(real)
    assert page.locator(".q").count() == 2 * 5
    half = QUESTIONS // 2
    page.get_by_role("button", name=f"Show {half - 5} more").first.click()
    assert page.locator(".q").count() == half + 5
    focused = page.evaluate(
        "() => [...document.querySelectorAll('.q')].indexOf(document.activeElement.parentElement)"
    )
    assert focused == 5
    assert page.locator(".more").all_text_contents() == ["", f"Show {half - 5} more"]


def test_the_matrix_has_a_sign_in_each_cell(visit: Callable[..., Page], real: Path) -> None:
    """A row has a cell for each score, whose colour and sign say whether it was lost or gained."""
    page = visit(real)
    columns = [text.split()[0] for text in page.locator(".names > i").all_inner_texts()]
    signs = """each => [...each.querySelectorAll("summary > i")].map((cell) =>
        [cell.className, getComputedStyle(cell, "::before").content[1], cell.lastChild.textContent])"""
    names = [name.replace("\u200b", "") for name in columns]
    lost = dict(zip(names, page.locator(".q.lost").first.evaluate(signs), strict=True))
    assert lost == {
        "answer.correct@2": ["lost", "▼", "1 → 0"],
        "recall@3": ["lost", "▼", "1 → 0"],
        "mrr@3": ["", "o", "0"],
    }
    heads = page.locator(".of h4").all_inner_texts()
    assert heads == ["even 150 questions, 2 lost, 1 gained", "odd 150 questions, 1 lost"]
    page.get_by_text("Gained 1", exact=True).click()
    assert page.locator(".q.gained").first.evaluate(signs)[0] == ["gained", "▲", "0 → 1"]


def test_the_plots_are_read_by_keyboard_and_screen_reader(visit: Callable[..., Page], real: Path) -> None:
    """A plot is one stop of the tab key; the arrow keys visit its marks, whose labels are shown."""
    page = visit(real)
    plots = page.locator(".plot svg")
    assert plots.count() == 3
    for plot in plots.all():
        assert plot.get_attribute("aria-label")
        marks = plot.get_by_role("img").all()
        labels = [mark.get_attribute("aria-label") for mark in marks]
        assert all(labels)
        assert [mark.get_attribute("tabindex") for mark in marks].count("0") == 1
        marks[0].focus()
        expect(plot.locator(".tip:visible")).to_have_text(re.compile(".+"))
        page.keyboard.press("ArrowRight")
        expect(marks[1]).to_be_focused()
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        expect(marks[-1]).to_be_focused()
        assert plot.locator(".tip:visible").count() == 1
    ranks = page.get_by_role("img", name=re.compile("rank 1 → not found"))
    assert ranks.get_attribute("aria-label") == "rank 1 → not found: 3 questions (q20, q30, q299)"
    ranks.hover(force=True)
    expect(ranks.locator(".tip")).to_be_visible()
    assert page.get_by_role("img", name="even: 2 lost, 1 gained of 150 questions").count() == 1


def test_the_page_of_the_example_is_read_without_scrolling_far(
    visit: Callable[..., Page], tmp_path: Path
) -> None:
    """With every test of the example red, the page is at most 4,000 pixels high before anything is opened."""
    document = json.loads(lzma.decompress((GOLDEN / "example" / "expected" / "2.json.xz").read_bytes()))
    path = tmp_path / "example.html"
    path.write_text(html_report(document), encoding="utf-8")
    page = visit(path)
    assert page.evaluate("() => document.documentElement.scrollHeight") <= 4_000
    expect(page.locator(SHOWN)).to_have_text("95 of 95 questions")
    assert not re.search(r"Show -|−\d+ more", page.content())


def anchor_of(page: Page, text: str) -> str:
    page.get_by_label("Search").fill(text)
    expect(page.locator(SHOWN)).to_have_text(re.compile("^1 of"))
    question = page.locator(".q").first
    question.locator("summary").click()
    return str(question.get_by_role("link", name="Link").get_attribute("href")).removeprefix("#")


def test_a_link_opens_its_question(visit: Callable[..., Page], real: Path) -> None:
    """A link opens its question, also beyond the first 250, scrolls to it, and moves the keyboard focus there."""
    anchor = anchor_of(visit(real), "item-298?")
    page = visit(real, anchor)
    question = page.locator(".q[open]")
    assert question.locator("summary code").inner_text() == "q298"
    expect(question.locator("summary")).to_be_in_viewport()
    page.keyboard.press("Tab")
    expect(question.get_by_role("link", name="Link to q298")).to_be_focused()
    expect(question.get_by_text("item-298 has the code c298x", exact=False).first).to_be_visible()


def test_a_link_that_is_followed_later_opens_what_a_filter_hides(
    visit: Callable[..., Page], real: Path
) -> None:
    page = visit(real)
    anchor = anchor_of(page, "item-298?")
    page.get_by_label("Search").fill("item-5?")
    expect(page.locator(".q > summary code").first).to_have_text("q5")
    page.evaluate("anchor => { location.hash = `#${anchor}` }", anchor)
    expect(page.locator(f".q:has(#{anchor}) > summary")).to_be_focused()
    assert page.get_by_label("Search").input_value() == ""


@pytest.mark.parametrize("anchor", ["q-000000000000", "%", "%E0%A4", "questions", "<script>"])
def test_another_anchor_harms_nothing(visit: Callable[..., Page], real: Path, anchor: str) -> None:
    page = visit(real, anchor)
    expect(page.locator(SHOWN)).to_have_text(f"{QUESTIONS} of {QUESTIONS} questions")
    assert page.locator(".q[open]").count() == 0


def test_the_keyboard_is_enough(visit: Callable[..., Page], real: Path) -> None:
    """With the keyboard alone, a user can skip to the content, choose a chip, open a question and show its prompts."""
    page = visit(real)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    expect(page.get_by_role("link", name="Skip to the content")).to_be_in_viewport()
    page.keyboard.press("Enter")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.name") == "text":
            break
    page.keyboard.type("item-20?")
    expect(page.locator(SHOWN)).to_have_text(re.compile("^1 of"))
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name=re.compile("^Lost"))).to_be_checked()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.tagName") == "SUMMARY":
            break
    page.keyboard.press("Enter")
    assert page.locator(".q[open] > summary code").inner_text() == "q20"
    for _ in range(4):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.className") == "asked":
            break
    page.keyboard.press("Enter")
    expect(page.locator(".q[open] .filled")).to_be_visible()


def test_a_prompt_is_filled_on_demand(visit: Callable[..., Page], real: Path) -> None:
    page = visit(real)
    page.get_by_label("Search").fill("item-5?")
    expect(page.locator(SHOWN)).to_have_text(re.compile("^1 of"))
    question = page.locator(".q").first
    question.locator("summary").click()
    assert page.locator(".filled").count() == 0
    question.get_by_role("button", name="Show the prompts").click()
    text = question.locator(".filled pre").first.inner_text()
    assert "What is the code of item-5?" in text
    assert "[1] Of all things, item-5 has the code c5x. See doc-5." in text
    assert "[2] Of all things, item-1 has the code c1x. See doc-1." in text
    assert "[3]" not in text
    assert text.count("<passages") == 1, text
    question.get_by_role("button").click()
    expect(question.locator(".filled")).to_be_hidden()
    expect(question.get_by_role("button")).to_have_attribute("aria-expanded", "false")


def test_everything_is_readable_without_script(visit: Callable[..., Page], real: Path) -> None:
    """Without JavaScript, all questions are listed and can be opened, and the filters are hidden."""
    page = visit(real, script=False)
    assert page.locator(".q").count() == QUESTIONS
    expect(page.locator("#filters")).to_be_hidden()
    question_texts = page.locator(".q > summary > span").all_text_contents()
    assert sorted(question_texts) == sorted(f"What is the code of item-{n}?" for n in range(1, QUESTIONS + 1))
    question = page.locator(".q").nth(3)
    expect(question.locator(".passages")).to_be_hidden()
    question.locator("summary").click()
    expect(question.locator(".passage").first).to_be_visible()


def _open_all(page: Page) -> None:
    page.evaluate("() => { for (const each of document.querySelectorAll('details')) each.open = true }")
    for button in page.locator(".asked").all():
        button.click()


def test_axe_finds_nothing_serious_where_all_is_open(check_look: Callable[..., None], whole: Path) -> None:
    check_look(whole, _open_all)


@pytest.mark.long
def test_axe_finds_nothing_serious_on_the_page_of_a_run(check_look: Callable[..., None], real: Path) -> None:
    check_look(real, lambda page: page.locator(".q.lost > summary").first.click())


def test_long_words_and_wide_tables_stay_in_the_window(check_look: Callable[..., None], wide: Path) -> None:
    check_look(wide, lambda page: [each.click() for each in page.locator(".q > summary").all()[:3]])
