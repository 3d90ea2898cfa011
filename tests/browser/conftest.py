"""Chromium, driven by Playwright over pipes: pages are opened from disk, and what they ask for or complain of fails."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from tests.browser.runs import real_run

SYSTEM = ("chromium", "chromium-browser", "google-chrome")

VIOLATIONS = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => violations.push(`${event.violatedDirective}: ${event.sample}`));
"""

WIDER = "() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]"


def start(driver: Playwright) -> Browser | None:
    """The system's browser, or the one that `playwright install chromium` has brought; None where there is none."""
    path = next(filter(None, map(shutil.which, SYSTEM)), None) or driver.chromium.executable_path
    if not Path(path).exists():
        return None
    return driver.chromium.launch(executable_path=path, args=["--no-sandbox"])


# Of a module, not of the session: while it is there, asyncio has a running loop, and other tests start their own.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as driver:
        browser = start(driver)
        if browser is None:
            pytest.skip(f"no Chromium: neither {', '.join(SYSTEM)} nor `playwright install chromium`")
        yield browser
        browser.close()


@dataclass
class Visitor:
    """Opens files in windows, and keeps what should not have happened there."""

    browser: Browser
    found: list[str] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)

    def __call__(
        self, path: Path, anchor: str = "", *, width: int = 1440, script: bool = True, scheme: Any = "light"
    ) -> Page:
        """Open a file, at an anchor, in a window of its own."""
        context = self.browser.new_context(
            viewport={"width": width, "height": 900}, java_script_enabled=script, color_scheme=scheme
        )
        context.set_default_timeout(30_000)
        context.add_init_script(VIOLATIONS)
        page = context.new_page()
        page.on("console", lambda said: self.found.append(f"console {said.type}: {said.text}"))
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
        """Close all windows: what was found in them."""
        for page in self.pages:
            self.found += page.evaluate("() => window.violations")
        for context in self.browser.contexts:
            context.close()
        return self.found


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visitor]:
    """Open a page from disk. It may ask for nothing, print nothing and open nothing; that is seen at the end."""
    visitor = Visitor(chromium)
    yield visitor
    assert visitor.close() == []


def serious(page: Page) -> list[str]:
    """What axe-core finds on a page that is serious or critical: the rule, and where."""
    found = Axe().run(page).response
    assert found["passes"], "axe-core has looked at nothing"
    return [
        f"{violation['id']}: {node['html'][:150]} {node['any'][0]['message'] if node['any'] else ''}"
        for violation in found["violations"]
        if violation["impact"] in {"serious", "critical"}
        for node in violation["nodes"]
    ]


@pytest.fixture
def check_look(visit: Visitor) -> Callable[..., None]:
    """Look at a page in a wide light and a narrow dark window, by the rules of axe-core.

    Colours do not depend on the width, nor the layout on the colours. `prepare` brings the page into the state
    that is looked at.
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
    """The page of a real run."""
    return real_run(tmp_path_factory.mktemp("real"))
