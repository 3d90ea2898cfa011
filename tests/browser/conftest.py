"""Fixtures for Chromium with Playwright. Pages are opened from disk; their requests, errors and logs fail the test."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from tests.browser.runs import real_run

SYSTEM_BROWSERS = ("chromium", "chromium-browser", "google-chrome")

VIOLATIONS = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => violations.push(`${event.violatedDirective}: ${event.sample}`));
"""

WIDER = "() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]"


def start(driver: Playwright) -> Browser | None:
    path = next(filter(None, map(shutil.which, SYSTEM_BROWSERS)), None) or driver.chromium.executable_path
    if not Path(path).exists():
        return None
    return driver.chromium.launch(executable_path=path, args=["--no-sandbox"])


# The scope is the module and not the session: while Playwright runs, asyncio has a running loop in this thread, and
# other tests start loops of their own.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = start(driver)
        if browser is None:
            pytest.skip(
                f"no Chromium: neither {', '.join(SYSTEM_BROWSERS)} nor `playwright install chromium`"
            )
        yield browser
        browser.close()


@dataclass
class Visitor:
    browser: Browser
    found: list[str] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)

    def __call__(
        self, path: Path, anchor: str = "", *, width: int = 1440, script: bool = True, scheme: Any = "light"
    ) -> Page:
        context = self.browser.new_context(
            viewport={"width": width, "height": 900}, java_script_enabled=script, color_scheme=scheme
        )
        context.set_default_timeout(30_000)
        context.add_init_script(VIOLATIONS)
        page = context.new_page()
        page.on("console", lambda message: self.found.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.found.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.found.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("requestfailed", lambda request: self.found.append(f"failed: {request.url[:200]}"))
        page.on("popup", lambda other: self.found.append(f"window: {other.url[:200]}"))
        page.on(
            "request",
            lambda request: (
                request.url.split("#")[0] == path.as_uri()
                or self.found.append(f"request: {request.url[:200]}")
            ),
        )
        page.goto(f"{path.as_uri()}{anchor and f'#{anchor}'}")
        if script:
            self.pages.append(page)
        return page

    def close(self) -> list[str]:
        for page in self.pages:
            self.found += page.evaluate("() => window.violations")
        for context in self.browser.contexts:
            context.close()
        return self.found


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visitor]:
    """Yield a function that opens a page from disk. At the end, the page must have caused no unexpected event."""
    visitor = Visitor(chromium)
    yield visitor
    assert visitor.close() == []


def serious(page: Page) -> list[str]:
    response = Axe().run(page).response
    assert response["passes"], "axe-core has looked at nothing"
    return [
        f"{violation['id']}: {node['html'][:150]} {node['any'][0]['message'] if node['any'] else ''}"
        for violation in response["violations"]
        if violation["impact"] in {"serious", "critical"}
        for node in violation["nodes"]
    ]


@pytest.fixture
def check_look(visit: Visitor) -> Callable[..., None]:
    """Return a function that checks a page by axe-core, in a wide light window and in a narrow dark window.

    The colours do not depend on the width, and the layout does not depend on the colours. `prepare` brings the page
    into the state that is checked.
    """

    def check(path: Path, prepare: Callable[[Page], object] = lambda _: None) -> None:
        for scheme, width in (("light", 1440), ("dark", 390)):
            page = visit(path, width=width, scheme=scheme)
            prepare(page)
            assert serious(page) == [], (scheme, width)
            wide, window = page.evaluate(WIDER)
            assert wide <= window, (scheme, width)

    return check


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real_run(tmp_path_factory.mktemp("real"))
