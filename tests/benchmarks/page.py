"""The HTML report of many questions in Chromium: `python tests/benchmarks/page.py [QUESTIONS ...]`.

The report has two scores and ten passages of 500 characters per question; by default 100, 1,000 and 10,000 questions.
The script prints these columns, as medians of three visits:

- written, size: the time to write the page, and its size;
- load, first paint: the time until the page is loaded, and until its first paint;
- usable: the time until a word in the search field has filtered the questions, from the start of the navigation;
- search: the time of this search alone;
- of CPU: the processor time of the page's thread so far;
- next search: the time of another search;
- heap: the memory of the page's script.
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2]))

from playwright.sync_api import Browser, sync_playwright

from pytest_rageval.lib.files import write_atomically
from pytest_rageval.reports.html.page import html_report
from tests.benchmarks.large_report import large_document
from tests.browser.conftest import start

VISITS = 3

TIMES = """() => {
  const [of] = performance.getEntriesByType("navigation");
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return [of.loadEventEnd / 1000, paint.startTime / 1000];
}"""

# Returns the seconds from the input event to the frame in which the filtered list was drawn.
SEARCH = """(word) => new Promise((done) => {
  const form = document.getElementById("filters");
  const began = performance.now();
  new MutationObserver(() => requestAnimationFrame(() => setTimeout(() => done((performance.now() - began) / 1000))))
    .observe(form.querySelector("output"), { childList: true, characterData: true, subtree: true });
  form.elements.text.value = word;
  form.elements.text.dispatchEvent(new Event("input", { bubbles: true }));
})"""


def visit(browser: Browser, path: Path, questions: int) -> list[float]:
    """Load the page and search twice; return the times in seconds, and the size of the script's heap in MB."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    began = time.perf_counter()
    page.goto(path.as_uri())
    searched = page.evaluate(SEARCH, f"{questions - 1}?")
    usable = time.perf_counter() - began
    metrics = {
        metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]
    }
    again = page.evaluate(SEARCH, "question 1")
    loaded, painted = page.evaluate(TIMES)
    session.send("HeapProfiler.collectGarbage")
    heap = session.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    context.close()
    return [loaded, painted, usable, searched, metrics["TaskDuration"], again, heap]


def main(sizes: list[int]) -> None:
    heads = (
        "questions",
        "written",
        "size",
        "load",
        "first paint",
        "usable",
        "search",
        "of CPU",
        "next search",
        "heap",
    )
    print(" ".join(f"{head:>11}" for head in heads))  # noqa: T201
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = start(driver)
        if browser is None:
            sys.exit("no Chromium")
        for questions in sizes:
            document = large_document(questions)
            path = Path(folder) / f"{questions}.html"
            began = time.perf_counter()
            written = html_report(document)
            write_atomically(path, [written.encode()])
            seconds = time.perf_counter() - began
            visits = [visit(browser, path, questions) for _ in range(VISITS)]
            *times, heap = (median(values) for values in zip(*visits, strict=True))
            cells = [f"{questions:,}", f"{seconds:.2f} s", f"{path.stat().st_size / 1e6:.1f} MB"]
            cells += [*(f"{seconds:.2f} s" for seconds in times), f"{heap:.0f} MB"]
            print(" ".join(f"{cell:>11}" for cell in cells))  # noqa: T201
        browser.close()


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [100, 1_000, 10_000])
