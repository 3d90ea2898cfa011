"""Scores over runs as text: bars for a terminal, and charts in the language of Mermaid."""

import re

import pytest

from pytest_rageval.reports.history import Point
from pytest_rageval.reports.markdown import markdown_report
from pytest_rageval.reports.trend import CHARTED, CHARTS, sparkline, trend_blocks
from tests.unit.reports.runs import NODEID, line, score


def point(mean: float | None, interval: tuple[float, float] | None = None) -> Point:
    """A point without a verdict."""
    return Point(mean, interval, 10, 0, None, None, None, None, None)


# The grammar of xychart, as far as charts use it: https://mermaid.js.org/syntax/xyChart.html
NUMBER = r"[+-]?\d+(?:\.\d+)?"
TEXT = r'"[^"\n]*"'
GRAMMAR = re.compile(
    rf"""%%\{{init:[ ][^\n]*\}}%%\n
    xychart-beta\n
    [ ]+title[ ](?P<title>{TEXT})\n
    [ ]+x-axis[ ]\[(?P<names>{TEXT}(?:,[ ]{TEXT})*)\]\n
    [ ]+y-axis[ ](?P<low>{NUMBER})[ ]-->[ ](?P<high>{NUMBER})\n
    (?P<lines>(?:[ ]+line[ ]{TEXT}[ ]\[{NUMBER}(?:,[ ]{NUMBER})*\]\n)+)""",
    re.VERBOSE,
)


def charts(text: str) -> list[dict[str, object]]:
    """Each chart of a comment: title, names of runs, and numbers by line."""
    found = []
    for block in re.findall(r"```mermaid\n(.*?)```\n", text, re.DOTALL):
        parts = GRAMMAR.fullmatch(block)
        assert parts, block
        lines = {
            name: [float(each) for each in numbers.split(", ")]
            for name, numbers in re.findall(r'line "([^"]*)" \[([^\]]*)\]', parts["lines"])
        }
        names = re.findall(r'"([^"]*)"', parts["names"])
        assert all(len(each) == len(names) for each in lines.values())
        assert len(set(names)) == len(names)
        values = [value for each in lines.values() for value in each]
        low, high = float(parts["low"]), float(parts["high"])
        assert low <= min(values)
        assert max(values) <= high
        assert low < high
        found.append({"title": parts["title"][1:-1], "names": names, "lines": lines})
    return found


@pytest.mark.parametrize(
    ("means", "bars"),
    [
        ([0.0, 0.5, 1.0], "▁▅█"),
        ([0.5], "▁"),
        ([0.5, None, 0.7], "▁ █"),
        ([None], " "),
        ([], ""),
    ],
)
def test_bars_go_from_the_lowest_to_the_highest(means: list[float | None], bars: str) -> None:
    """A run without the score leaves a space."""
    assert sparkline([None if mean is None else point(mean) for mean in means]) == bars
    assert len(sparkline([point(mean) for mean in means], plain=True).encode("ascii")) == len(bars)


def test_noise_within_the_interval_looks_flat() -> None:
    """The bars cover the intervals."""
    noisy = [point(mean, (mean - 0.12, mean + 0.08)) for mean in (0.51, 0.515, 0.505)]
    assert len(set(sparkline(noisy))) == 1


def block(*lines: dict[str, object]) -> str:
    """What a comment has of these runs."""
    return "".join(trend_blocks({"history": lines}))


def test_lines_of_a_test_share_a_chart_with_a_legend() -> None:
    """The legend has the last two means; runs of one commit have different names."""
    scores = [{"recall@3": score(mean), "ndcg@3": score(mean / 2)} for mean in (0.9, 0.8, 0.7)]
    text = block(*(line(1, each) for each in scores))
    [chart] = charts(text)
    assert chart == {
        "title": NODEID,
        "names": ["1000000", "1000000 (2)", "1000000 (3)"],
        "lines": {"ndcg@3": [0.45, 0.4, 0.35], "recall@3": [0.9, 0.8, 0.7]},
    }
    assert text.startswith("\n<details><summary>The last 3 runs</summary>\n\n```mermaid\n")
    assert "🟦 <code>ndcg&#64;3</code> 0.400 → 0.350 &nbsp; 🟧 <code>recall&#64;3</code> 0.800 → 0.700" in text
    assert text.endswith("\n</details>\n")


def test_a_gap_makes_a_chart_of_its_own() -> None:
    """Lines of a chart have no gaps: a run that lacks the score is left out for the scores that it lacks."""
    text = block(
        line(1, {"a": score(0.1), "b": score(0.2)}),
        line(2, {"a": score(0.1), "b": score(None, "error")}),
        line(3, {"a": score(0.1), "b": score(0.3)}),
    )
    assert [chart["lines"] for chart in charts(text)] == [{"a": [0.1, 0.1, 0.1]}, {"b": [0.2, 0.3]}]


def test_other_scales_and_times_have_charts_of_their_own() -> None:
    """Else the smaller values would be a line at the bottom."""
    scores = {"mrr": score(0.5), "grade": score(4.5), "latency.p50": score(0.2, statistic="p50"), "tokens": score(3e3)}
    assert len(charts(block(line(1, scores), line(2, scores)))) == 4


def test_small_and_large_numbers_have_no_exponent() -> None:
    """Which the language lacks."""
    for mean in (1e-7, 1e15, -0.25, 0.0):
        [chart] = charts(block(*(line(number, {"s": score(mean)}) for number in range(2))))
        assert chart["lines"] == {"s": [mean, mean]}


def test_charts_of_failed_scores_come_first_and_others_are_counted() -> None:
    """A comment has room for some."""

    def tests(number: int) -> dict[str, object]:
        found = {f"t{n}": {"outcome": "passed", "scores": {"s": score(0.5)}} for n in range(6)}
        found["t5"]["scores"] = {"s": score(0.5, "fail")}
        return line(number, tests=found)

    text = block(tests(1), tests(2))
    assert [chart["title"] for chart in charts(text)] == ["t5", "t0", "t1", "t2"][:CHARTS]
    assert "2 more charts: <code>rageval history</code>" in text


def test_a_change_of_the_eval_set_is_said() -> None:
    """The line goes on, and compares other questions."""
    changed = line(2)
    changed["tests"][NODEID]["evalset"] = "e2"
    assert block(line(1), changed).count("the eval set changed in <code>2000000</code>") == 1
    assert "eval set" not in block(line(1), line(2))


def test_the_last_runs_alone_are_charted() -> None:
    """Whatever else the document holds."""
    [chart] = charts(block(*map(line, range(CHARTED + 5))))
    assert len(chart["names"]) == CHARTED
    assert chart["names"][-1] == f"{CHARTED + 4:040x}"[::-1][:7]


@pytest.mark.parametrize("lines", [[], [line(1)], [line(1), line(2, {"other": score(0.5)})]])
def test_without_two_values_of_a_score_there_is_no_chart(lines: list[dict[str, object]]) -> None:
    """A first run has no history."""
    assert block(*lines) == ""


DEVIL = 'a"b`c` %%{init: {}}%% #quot; ]; line [1] <img src=x> @team </details>\n```\n| ' + "x" * 200


def test_no_name_ends_its_text_or_is_markup() -> None:
    """In the chart, and in the legend below it."""
    tests = {DEVIL: {"outcome": "passed", "scores": {DEVIL: score(0.5)}}}
    text = block(line(1, tests=tests, commit=DEVIL), line(2, tests=tests, commit=DEVIL))
    [chart] = charts(text)
    for name in (chart["title"], *chart["names"], *chart["lines"]):
        assert not set('"`%#;<>{}|\n') & set(name)
        assert len(name) <= 84
    outside = re.sub(r"```mermaid\n.*?```", "", text, flags=re.DOTALL)
    assert "@" not in outside
    assert "<img" not in outside
    assert outside.count("</details>") == 1


def test_the_comment_has_the_chart() -> None:
    """Below everything else that is folded."""
    settings = {"generator": "m1", "judge": "m2", "comparator": "judge"}
    llm = {"requests": 0, "cached": 0, "live": 0, "failed": 0, "cut": 0, "remarks": {}}
    document = {"tests": [], "matrix": [], "ratings": [], "settings": settings, "llm": llm}
    assert "mermaid" not in markdown_report(document)
    assert len(charts(markdown_report({**document, "history": [line(1), line(2)]}))) == 1
