"""Scores over runs as text: sparklines for a terminal, and Mermaid charts."""

import re
from typing import Any

import pytest

from pytest_rageval.extensions.history.history import Point, value_range
from pytest_rageval.extensions.history.trend import MAX_CHART_RUNS, chart_lines, sparkline
from pytest_rageval.run.registry import Registry
from tests.unit.extensions.history.runs import NODEID, line, score
from tests.unit.reports.rendered import rendered


def point(mean: float | None, interval: tuple[float, float] | None = None) -> Point:
    return Point(mean, interval, 10, 0, None, None, None, None, None)


# The grammar of xychart, as far as charts use it: https://mermaid.js.org/syntax/xyChart.html
NUMBER = r"[+-]?\d+(?:\.\d+)?"
TEXT = r'"[^"\n]*"'
GRAMMAR = re.compile(
    rf"""```mermaid\n
    %%\{{init:[ ][^\n]*\}}%%\n
    xychart-beta\n
    [ ]+x-axis[ ]\[(?P<names>{TEXT}(?:,[ ]{TEXT})*)\]\n
    [ ]+y-axis[ ](?P<low>{NUMBER})[ ]-->[ ](?P<high>{NUMBER})\n
    (?P<lines>(?:[ ]+line[ ]{TEXT}[ ]\[{NUMBER}(?:,[ ]{NUMBER})*\]\n)+)
    ```\n\n(?P<legend>[^\n]*)""",
    re.VERBOSE,
)


class Chart:
    def __init__(self, *runs: dict[str, Any]) -> None:
        text = chart_lines({"history": runs})
        assert len(text) <= 14
        parts = GRAMMAR.fullmatch("\n".join(text))
        assert parts, text
        self.legend = parts["legend"]
        self.names = re.findall(r'"([^"]*)"', parts["names"])
        self.lines = {
            name: [float(number) for number in numbers.split(", ")]
            for name, numbers in re.findall(r'line "([^"]*)" \[([^\]]*)\]', parts["lines"])
        }
        values = [value for numbers in self.lines.values() for value in numbers]
        low, high = float(parts["low"]), float(parts["high"])
        assert low <= min(values)
        assert max(values) <= high
        assert low < high
        assert (
            {len(numbers) for numbers in self.lines.values()} == {len(self.names)} == {len(set(self.names))}
        )


@pytest.mark.parametrize(
    ("means", "bars"),
    [([0.0, 0.5, 1.0], "▁▅█"), ([0.5], "▁"), ([0.5, None, 0.7], "▁ █"), ([None], " "), ([], "")],
)
def test_bars_go_from_the_lowest_to_the_highest(means: list[float | None], bars: str) -> None:
    assert sparkline([None if mean is None else point(mean) for mean in means]) == bars
    assert len(sparkline([point(mean) for mean in means], ascii_only=True).encode("ascii")) == len(bars)


def test_noise_within_the_interval_looks_flat() -> None:
    """The bars are scaled to the intervals, so that noise within them looks flat."""
    noisy = [point(mean, (mean - 0.12, mean + 0.08)) for mean in (0.51, 0.515, 0.505)]
    assert len(set(sparkline(noisy))) == 1


def test_one_wide_interval_does_not_rule_the_axis() -> None:
    """The axis is that of the other runs; a run of few questions has an interval beyond its ends."""
    points = [
        point(0.8, (0.75, 0.85)),
        point(0.82, (0.77, 0.87)),
        point(0.8, (0.1, 1.0)),
        point(0.7, (0.65, 0.75)),
    ]
    low, high = value_range(points)
    assert (low, high) == pytest.approx((0.65, 0.9))
    assert len(set(sparkline(points))) > 2


def test_lines_share_a_chart_with_a_legend() -> None:
    """The legend has the last two means of each line, and runs of the same commit have different names."""
    scores = [{"recall@3": score(mean), "ndcg@3": score(mean / 2)} for mean in (0.9, 0.8, 0.7)]
    chart = Chart(*(line(1, run_scores) for run_scores in scores))
    assert chart.names == ["1000000", "1000000 (2)", "1000000 (3)"]
    assert chart.lines == {"ndcg@3": [0.45, 0.4, 0.35], "recall@3": [0.9, 0.8, 0.7]}
    assert chart.legend == (
        "🟦 <code>ndcg&#64;3</code> 0.400 → 0.350 &nbsp; 🟧 <code>recall&#64;3</code> 0.800 → 0.700"
    )


def test_a_run_that_lacks_a_score_has_no_place_in_its_line() -> None:
    """Lines cannot have gaps, so scores with other runs are not in the chart but counted below it."""
    lines = [
        line(1, {"a": score(0.1), "b": score(0.2)}),
        line(2, {"a": score(0.1), "b": score(None, "error")}),
        line(3, {"a": score(0.1), "b": score(0.3, "fail")}),
    ]
    chart = Chart(*lines)
    assert chart.lines == {"b": [0.2, 0.3]}
    assert chart.names == ["1000000", "3000000"]
    assert chart.legend.endswith("1 more score: <code>rageval history</code>")


@pytest.mark.parametrize("other", [score(4.5), score(3e3), score(0.002), score(0.2, statistic="p50")])
def test_other_scales_and_times_are_not_in_the_same_chart(other: dict[str, Any]) -> None:
    """Small values would look like 0. The larger group of scores is charted."""
    scores = {"a": other, "mrr": score(0.5), "ndcg": score(0.5)}
    assert list(Chart(line(1, scores), line(2, scores)).lines) == ["mrr", "ndcg"]


@pytest.mark.parametrize("mean", [1e-7, 1e15, -0.25, 0.0])
def test_small_and_large_numbers_have_no_exponent(mean: float) -> None:
    assert Chart(*(line(n, {"s": score(mean)}) for n in range(2))).lines == {"s": [mean, mean]}


def test_failed_scores_come_first_and_others_are_counted() -> None:
    tests = {f"a.py::t{n}": {"outcome": "passed", "scores": {"s": score(0.5)}} for n in range(7)}
    tests["a.py::t6"]["scores"] = {"s": score(0.5, "fail")}
    tests["a.py::t0"]["scores"] = {"s": score(0.5, None)}
    chart = Chart(line(1, tests=tests), line(2, tests=tests))
    assert list(chart.lines) == ["s of t6", "s of t1", "s of t2", "s of t3", "s of t4"]
    assert chart.legend.endswith("2 more scores: <code>rageval history</code>")


def test_a_verdict_that_is_not_known_is_like_none() -> None:
    """A verdict of a later version is treated as none, so that the report can still be written."""
    scores = {"a": score(0.5, "amazing"), "b": score(0.25, "fail")}
    assert list(Chart(line(1, scores), line(2, scores)).lines) == ["b", "a"]


def test_a_change_of_the_eval_set_is_reported() -> None:
    changed = line(2)
    changed["tests"][NODEID]["evalset"] = "e2"
    assert Chart(line(1), changed).legend.endswith("the eval set changed in <code>2000000</code>")
    assert "eval set" not in Chart(line(1), line(2)).legend


def test_the_last_runs_alone_are_charted() -> None:
    chart = Chart(*map(line, range(MAX_CHART_RUNS + 5)))
    assert len(chart.names) == MAX_CHART_RUNS
    assert chart.names[-1] == f"{MAX_CHART_RUNS + 4:040x}"[::-1][:7]


@pytest.mark.parametrize(
    "lines",
    [[], [line(1)], [line(1), line(2, {"other": score(0.5)})], [line(1), line(2, {"recall@3": score(None)})]],
)
def test_without_two_values_of_a_score_there_is_no_chart(lines: list[dict[str, Any]]) -> None:
    assert chart_lines({"history": lines}) == []
    assert chart_lines({}) == []


DEVIL = 'a"b`c` %%{init: {}}%% #quot; ]; line [1] <img src=x> @team </details>\n```\n| ' + "x" * 200


def test_no_name_ends_its_text_or_is_markup() -> None:
    """Markup in a name neither ends a string of the chart nor creates an element in the legend."""
    tests = {DEVIL: {"outcome": "passed", "scores": {DEVIL: score(0.5)}}}
    chart = Chart(line(1, tests=tests, commit=DEVIL), line(2, tests=tests, commit=DEVIL))
    for name in (*chart.names, *chart.lines):
        assert not set('"`%#;<>{}|\n') & set(name)
        assert len(name) <= 84
    assert not set("@<>|`[]") & set(re.sub("</?code>", "", chart.legend))


def test_the_comment_has_the_chart_folded() -> None:
    settings = {"generator": "m1", "judge": "m2", "comparator": "judge"}
    llm = {"requests": 0, "cached": 0, "live": 0, "failed": 0, "cut": 0, "remarks": {}}
    tests = {"t": {"outcome": "passed", "scores": {DEVIL: score(0.5)}}}
    document = {"tests": [], "matrix": [], "ratings": [], "settings": settings, "llm": llm}
    runs = [line(number, tests=tests) for number in range(2)]
    page = rendered(Registry().writers[".md"]({**document, "history": runs}))
    assert ("class", "language-mermaid") in page.attributes
    assert {"details", "summary", "pre"} <= set(page.tags)
    assert "img" not in page.tags
    assert not page.unclosed
    assert "@team" not in page.text
    assert " ".join(DEVIL.split()) in page.code
    assert "details" not in rendered(Registry().writers[".md"](document)).tags
