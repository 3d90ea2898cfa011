"""The history page and the comparison page in Chromium."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from pytest_rageval.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.long]


def _open_all(page: Page) -> None:
    page.evaluate("() => { for (const each of document.querySelectorAll('details')) each.open = true }")


@pytest.fixture
def trend(real: Path, tmp_path: Path) -> Path:
    lines = (real.parent / "history.jsonl").read_text(encoding="utf-8").splitlines()
    runs = [json.loads(lines[n % 2]) for n in range(40)]
    for n, run in enumerate(runs):
        run |= {"started": f"2026-03-{n // 2 + 1:02}T{n % 2:02}:00:00+00:00", "commit": f"{n:040x}"}
        run |= {
            "title": f"{'word ' * 20}{'x' * 100}",
            "branch": "feature/" + "y" * 100,
            "url": "https://ci.example/1",
        }
    path = tmp_path / "history.jsonl"
    path.write_text("".join(f"{json.dumps(run)}\n" for run in runs), encoding="utf-8")
    assert main(["history", str(path), "--html", str(tmp_path / "trend.html")]) == 0
    return tmp_path / "trend.html"


def test_the_history_is_drawn(visit: Callable[..., Page], trend: Path) -> None:
    page = visit(trend)
    expect(page.get_by_role("heading", level=1)).to_have_text("rageval: history of 40 runs")
    assert page.locator("figure .point:not(.legend *)").count() == 3 * 40
    assert page.locator("figure table").first.locator("tbody tr").count() == 40


def test_axe_finds_nothing_serious_in_the_history(check_look: Callable[..., None], trend: Path) -> None:
    check_look(trend, _open_all)


@pytest.fixture
def diff(real: Path, tmp_path: Path) -> Path:
    for name in ("before.json", "after.json"):
        shutil.copy(real.parent / name, tmp_path)
    path = tmp_path / "diff.html"
    assert (
        main(["diff", str(tmp_path / "before.json"), str(tmp_path / "after.json"), "--html", str(path)]) == 0
    )
    return path


def test_the_questions_of_a_comparison_are_filtered(visit: Callable[..., Page], diff: Path) -> None:
    page = visit(diff)
    page.get_by_label("Search").fill("item-20?")
    expect(page.locator(".q:visible")).to_have_count(1)
    page.locator(".q > summary").first.click()
    expect(page.locator(".q[open] .passage").first).to_be_visible()


def test_axe_finds_nothing_serious_in_a_comparison(check_look: Callable[..., None], diff: Path) -> None:
    check_look(diff, lambda page: [each.click() for each in page.locator(".q > summary").all()[:3]])
