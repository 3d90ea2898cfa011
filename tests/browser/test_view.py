"""The page of `rageval view` in Chromium: the label buttons, earlier runs, and a run that goes on."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from pytest_rageval.extensions.calibration.human_labels import load_labels
from pytest_rageval.extensions.view import live_file
from tests.browser.conftest import VIOLATIONS, WIDER, serious
from tests.viewer import viewing

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(real: Path, tmp_path: Path) -> Path:
    shutil.copy(real.parent / "after.json", tmp_path / "report.json")
    shutil.copy(real.parent / "history.jsonl", tmp_path)
    return tmp_path


@pytest.fixture
def page(chromium: Browser, folder: Path) -> Iterator[Page]:
    found: list[str] = []
    with viewing(folder, "--history", "history.jsonl") as address:
        context = chromium.new_context(viewport={"width": 1440, "height": 900})
        context.add_init_script(VIOLATIONS)
        page = context.new_page()
        page.on("console", lambda message: found.append(message.text))
        page.on("pageerror", lambda error: found.append(str(error)))
        page.on("request", lambda request: request.url.startswith(address) or found.append(request.url))
        page.goto(address)
        yield page
        found += page.evaluate("() => window.violations")
        context.close()
    assert found == []


def test_an_answer_is_labelled_with_the_keyboard(page: Page, folder: Path) -> None:
    """The buttons say which verdict is chosen, and the file is one that a calibration reads."""
    expect(page.get_by_text("0 of 300 answers labelled")).to_be_visible()
    page.get_by_text("Lost 3", exact=True).click()
    question = page.locator(".q").first
    question.locator("summary").focus()
    page.keyboard.press("Enter")
    labels = question.get_by_role("group", name="Label of the answer to q20")
    wrong = labels.get_by_role("button", name="wrong")
    wrong.focus()
    page.keyboard.press("Enter")
    expect(wrong).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_text("1 of 300 answers labelled")).to_be_visible()
    labels.get_by_role("button", name="right").click()
    expect(labels.get_by_role("button", name="right")).to_have_attribute("aria-pressed", "true")
    expect(wrong).to_have_attribute("aria-pressed", "false")
    [item] = load_labels(folder / "labels.jsonl").answers
    assert (item.example.id, item.references, item.human) == ("q20", ("c20x",), (1.0,))
    page.reload()
    expect(page.get_by_text("1 of 300 answers labelled")).to_be_visible()
    assert serious(page) == []


def test_earlier_runs_are_beside_the_report(page: Page) -> None:
    page.get_by_text("Runs before: 2 in the history").click()
    table = page.get_by_role("region", name="Runs of the history")
    expect(table.locator("tbody tr")).to_have_count(2)
    assert table.locator("th").all_inner_texts()[:4] == ["Run", "Time", "Failed tests", "answer.correct@2"]
    assert table.locator("tbody td:nth-child(3)").all_inner_texts() == ["0", "0"]
    page.set_viewport_size({"width": 390, "height": 900})
    wide, window = page.evaluate(WIDER)
    assert wide <= window
    page.get_by_role("link", name="Charts of all 2 runs").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("rageval: history of 2 runs")


def test_a_run_that_goes_on_is_shown(page: Page, folder: Path) -> None:
    report = folder / "report.json"
    with live_file(report).open("a", encoding="utf-8") as file:
        file.write('{"test": "test_it.py::test_gate", "failed": "recall@3 fell"}\n')
    expect(page.get_by_role("status").first).to_have_text(
        "A run goes on: 1 test done, 1 failed. test_it.py::test_gate: recall@3 fell"
    )
    document = json.loads(report.read_text(encoding="utf-8"))
    document["tests"] = document["tests"][:1]
    report.write_text(json.dumps(document), encoding="utf-8")
    expect(page.locator(".test")).to_have_count(1)
    expect(page.get_by_text("A run goes on")).to_have_count(0)
