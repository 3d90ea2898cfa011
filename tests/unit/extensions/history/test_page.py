"""The HTML page of a history: its charts, and the escaping of its texts."""

import re
from itertools import pairwise
from typing import Any

import pytest

from pytest_rageval.extensions.history.page import trend_page
from tests.unit.extensions.history.runs import NODEID, line, run, score
from tests.unit.reports.html.test_page import Page


def page(*lines: dict[str, Any]) -> Page:
    return Page(trend_page([run(number, scores) for number, scores in enumerate(lines)]))


def figures(text: str) -> list[str]:
    return re.findall(r"<figure.*?</svg>", text, re.DOTALL)


def of_class(name: str, text: str) -> int:
    return len(re.findall(rf'class="[^"]*\b{name}"', text))


def test_a_point_is_a_run_with_its_title_and_its_verdict() -> None:
    """A point has the run's title, and its shape shows the verdict, so that colour is not needed."""
    verdicts = ["pass", "inconclusive", "fail", "error", None]
    text = trend_page(
        [run(n, {"recall@3": score(0.9 - n / 10, verdict)}) for n, verdict in enumerate(verdicts)]
    )
    [figure] = figures(text)
    titles = re.findall(r'<g class="run"><title>([^<]*)</title>\n<rect class="hit"', figure)
    signs = re.findall(r'<(\w+) class="point is-(\w+)"', figure)
    assert signs == [
        ("circle", "pass"),
        ("path", "inconclusive"),
        ("path", "fail"),
        ("path", "error"),
        ("circle", "none"),
    ]
    assert titles[0] == (
        "0000000 change 0 (main, 2026-11-01 09:00)\n0.900 [0.850, 0.950], n = 91, 4 unscored, pass"
    )


def test_values_go_up_and_runs_to_the_right() -> None:
    [figure] = figures(trend_page([run(n, {"s": score(mean)}) for n, mean in enumerate((0.2, 0.8, 0.5))]))
    [points] = re.findall(r'<polyline class="line" points="([^"]*)"', figure)
    line_points = [tuple(map(float, pair.split(","))) for pair in points.split()]
    xs, ys = zip(*line_points, strict=True)
    assert list(xs) == sorted(xs)
    assert ys[1] < ys[2] < ys[0]
    [band] = re.findall(r'<polygon class="band" points="([^"]*)"', figure)
    outline = [tuple(map(float, pair.split(","))) for pair in band.split()]
    for (x, y), upper, lower in zip(line_points, outline[:3], outline[:2:-1], strict=True):
        assert (upper[0], lower[0]) == (x, x)
        assert upper[1] < y < lower[1]


def test_a_line_ends_where_the_eval_set_changes_or_a_score_is_missing() -> None:
    changed = [run(n, {"s": score(0.5)}) for n in range(6)]
    lines = [line(n, {"s": score(None, "error") if n == 4 else score(0.5)}) for n in range(6)]
    for run_line in lines[2:]:
        run_line["tests"][NODEID]["evalset"] = "e2"
    [figure] = figures(trend_page([type(changed[0]).from_line(run_line) for run_line in lines]))
    assert of_class("line", figure) == 3
    assert of_class("break", figure) == 1
    assert of_class("point is-error", figure) == 1
    assert of_class("break", figures(trend_page(changed))[0]) == 0


def test_the_baseline_and_the_anchor_are_level_lines() -> None:
    runs = [run(n, {"s": score(0.5, baseline=0.4 if n < 2 else 0.6, anchor=0.7)}) for n in range(4)]
    [figure] = figures(trend_page([*runs, run(4, {"s": score(0.5)})]))
    [baseline] = re.findall(r'<path class="baseline" d="([^"]*)"', figure)
    [anchor] = re.findall(r'<path class="anchor" d="([^"]*)"', figure)
    heights = [[float(y) for y in re.findall(r"M\S+ (\S+?)H", path)] for path in (baseline, anchor)]
    assert [len(set(height)) for height in heights] == [2, 1]
    assert [len(height) for height in heights] == [4, 4]
    assert heights[0][0] > heights[0][-1] > heights[1][0]


def test_the_overview_links_to_each_chart() -> None:
    history_page = page(
        {"a": score(0.5), "b": score(0.5)}, {"a": score(0.25, "fail", baseline=0.5), "b": score(0.5)}
    )
    links = [
        attributes["href"] for attributes in history_page.attributes("a") if attributes.get("class") != "skip"
    ]
    assert links == [f"#{attributes['id']}" for attributes in history_page.attributes("figure")]
    assert len(set(links)) == 2
    assert "−0.250" in history_page.texts("span")
    assert "✕ fail" in history_page.texts("span")


def test_a_single_run_after_a_gap_is_seen_in_the_overview() -> None:
    """A single run after a gap is drawn as a short line, because a line through one point would be invisible."""
    history_page = page(*({"s": score(mean)} for mean in (0.9, None, 0.5)))
    overview = [attributes for attributes in history_page.attributes("polyline") if attributes["points"]][:2]
    for attributes in overview:
        places = [float(point.split(",")[0]) for point in str(attributes["points"]).split()]
        assert len(set(places)) == 2
        assert 0 <= min(places) < max(places) <= 160


def test_a_score_that_the_last_run_lacks_says_so() -> None:
    """A score without a value in the last run is marked, because its verdict is that of an earlier run."""
    text = trend_page([run(1, {"mrr": score(0.5), "recall@3": score(0.9)}), run(2)])
    assert re.findall(r'>([^<>]+)</a> <small class="muted">not in the last run<', text) == ["mrr"]


def test_each_chart_has_its_numbers_as_a_table_and_as_a_sentence() -> None:
    """Each chart has its numbers as a table and a sentence, for screen readers and use without a mouse."""
    history_page = page({"s": score(0.5, anchor=0.75)}, {"s": score(0.25)})
    cells = history_page.texts("td")
    assert {"0.500", "0.450 to 0.550", "0.750"} <= set(cells)
    assert "change 1" in " ".join(cells)
    labels = [
        attributes.get("aria-label")
        for attributes in history_page.attributes("svg")
        if attributes.get("role") == "img"
    ]
    assert set(labels) == {"s in 2 runs: 0.250 in the last, from 0.250 to 0.500"}


DEVIL = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}'


def test_no_text_is_markup() -> None:
    tests = {DEVIL: {"outcome": "passed", "scores": {DEVIL: score(0.5)}}}
    runs = [
        run(n, tests=tests, title=DEVIL, branch=DEVIL, commit=DEVIL, url=url)
        for n, url in enumerate(("javascript:alert(1)", "https://ci.example/1", "data:text/html,x"))
    ]
    history_page = Page(trend_page(runs))
    assert not history_page.attributes("script")
    assert not history_page.attributes("img")
    links = [attributes["href"] or "" for attributes in history_page.attributes("a")]
    assert [link for link in links if not link.startswith("#")] == ["https://ci.example/1"]
    assert "{{ 7 * 7 }}" in "".join(history_page.texts("code"))


@pytest.mark.parametrize("count", [0, 1, 500])
def test_any_number_of_runs_is_a_page(count: int) -> None:
    """With any number of runs there are at most eight commit names, which do not overlap."""
    text = trend_page([run(n) for n in range(count)])
    Page(text)
    for figure in figures(text):
        names = [float(x) for x in re.findall(r'<text x="(\S+)" y="\S+" text-anchor="middle"', figure)]
        assert 1 <= len(names) <= 8
        assert all(right - left > 60 for left, right in pairwise(names))


def test_stopped_runs_are_counted() -> None:
    assert "1 of these runs ended early" in trend_page([run(0), run(1, stopped=True)])
    assert "ended early" not in trend_page([run(0)])
