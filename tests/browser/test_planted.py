"""Attack: markup in texts of users, models and files. It is shown as text, and the CSP blocks unescaped markup."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from pytest_rageval.reports.html.page import html_report
from tests.browser.conftest import VIOLATIONS, Visitor
from tests.browser.runs import planted_run
from tests.unit.reports.whole_document import planted, whole_document

pytestmark = pytest.mark.slow

EFFECT = "void(window.planted = 1)"
PLANTED = (
    f"<script>{EFFECT}</script>",
    f"</script><script>{EFFECT}</script>",
    f"</textarea></style></title></template></noscript><svg onload='{EFFECT}'></svg>",
    f'<img src=x onerror="{EFFECT}">',
    f'" autofocus onfocus="{EFFECT}" x="',
    f"' onmouseover='{EFFECT}' x='",
    f'<a class=planted href="javascript:{EFFECT}">x</a>',
    f"javascript:{EFFECT}",
    f'<iframe srcdoc="<script>parent.planted = 1</script>" src="javascript:{EFFECT}"></iframe>',
    '<style>* { display: none !important }</style><p style="display: none">',
    "<link rel=stylesheet href=https://planted.example/x.css><base href=https://planted.example/>",
    '<meta http-equiv=refresh content="0; url=https://planted.example/">',
    f'<form action=https://planted.example/><button autofocus formaction="javascript:{EFFECT}">x</button></form>',
    "<!-- <details open> ]]> {{ 7 * 7 }} ${planted} \\u003cscript\\u003e",
)

ELEMENTS = """() => {
  const count = {};
  for (const { localName } of document.querySelectorAll("*")) count[localName] = (count[localName] ?? 0) + 1;
  return count;
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted")


def _opened(page: Page) -> None:
    """Open, hover and show everything, so that prompts are filled."""
    page.evaluate("() => { for (const each of document.querySelectorAll('details')) each.open = true }")
    for button in page.locator(".asked").all():
        button.click()
    page.locator(".q > summary").first.hover()


def _written(folder: Path, text: str) -> Path:
    path = folder / "report.html"
    path.write_text(html_report(planted(whole_document(), text)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def harmless(chromium: Browser, folder: Path) -> dict[str, int]:
    visitor = Visitor(chromium)
    page = visitor(_written(folder, "harmless"))
    _opened(page)
    elements: dict[str, int] = page.evaluate(ELEMENTS)
    assert visitor.close() == []
    return elements


@pytest.mark.parametrize("text", PLANTED)
def test_a_planted_text_is_shown_and_does_nothing(
    visit: Visitor, folder: Path, harmless: dict[str, int], text: str
) -> None:
    """Attack: markup in every field of a report. The page has the same elements as with harmless texts."""
    path = _written(folder, text)
    page = visit(path)
    _opened(page)
    assert page.evaluate(ELEMENTS) == harmless
    page.get_by_label("Search").fill(text)
    expect(page.locator("#filters output")).to_have_text("3 of 3 questions")
    assert page.evaluate("() => window.planted") is None
    assert "rageval" in page.title()
    assert page.url == path.as_uri()
    assert page.locator("body").inner_text().count(text) > 60


@pytest.mark.long
def test_planted_texts_do_nothing_in_the_page_of_a_run(visit: Visitor, tmp_path: Path) -> None:
    """Attack: markup in eval set, passages, answers, verdicts, model names, branch and job URL.

    It is shown as text and has no effect.
    """
    text = " ".join(PLANTED)
    path = planted_run(tmp_path, text)
    page = visit(path)
    expect(page.locator(".q")).to_have_count(4)
    _opened(page)
    elements = page.evaluate(ELEMENTS)
    assert elements["script"] == elements["style"] == 1
    assert not elements.keys() & {"img", "iframe", "base", "link", "textarea", "template", "noscript"}
    links = page.evaluate("() => [...document.links].map((each) => each.protocol)")
    assert set(links) <= {"file:", "https:"}
    assert page.locator(".planted").count() == 0
    body_text = page.locator("body").text_content() or ""
    for begin in (
        "q1 ",
        "item-2? ",
        "c1x ",
        "User: Hello ",
        "lost ",
        "Because ",
        "branch ",
        "m ",
    ):
        assert f"{begin}{text[:60]}" in body_text, begin
    assert page.evaluate("() => window.planted") is None
    assert page.url == path.as_uri()


@pytest.mark.parametrize("holds", [True, False])
def test_the_policy_stops_what_an_unescaped_text_would_do(
    chromium: Browser, folder: Path, *, holds: bool
) -> None:
    """Attack: markup that was not escaped. The content security policy blocks it.

    If the browser ignores the policy, the markup has its effect, so that the test can fail.
    """
    written = html_report(planted(whole_document(), "PLANTED"))
    markup = "".join(
        each for each in PLANTED if each.startswith("<") and "refresh" not in each and "!--" not in each
    )
    path = folder / "unescaped.html"
    path.write_text(
        written.replace("PLANTED", markup, 1).replace("PLANTED</p>", f"{markup}</p>", 2), encoding="utf-8"
    )
    context = chromium.new_context(bypass_csp=not holds)
    outside: list[str] = []
    context.route(
        "https://planted.example/*", lambda route: (outside.append(route.request.url), route.abort())
    )
    context.add_init_script(VIOLATIONS)
    page = context.new_page()
    page.goto(path.as_uri())
    page.locator(".planted").first.evaluate("each => each.click()")
    page.wait_for_timeout(200)
    shown = page.locator("#main").evaluate("each => getComputedStyle(each).display")
    if holds:
        assert page.evaluate("() => window.planted") is None
        assert page.evaluate("() => window.violations.length") >= 4
        assert (outside, shown) == ([], "block")
    else:
        assert page.evaluate("() => window.planted") == 1
        assert outside
        assert shown == "none"
    context.close()
