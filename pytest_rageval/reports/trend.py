"""Scores over runs as text: a sparkline for a terminal, and a Mermaid chart for a pull request."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil, log10
from typing import Any, Final

from pytest_rageval.plural import counted, plural
from pytest_rageval.reports.history import Point, Run, ScoreKey
from pytest_rageval.reports.terminal import BROKEN, number_text

__all__ = ["BARS", "CHARTED", "axis", "span", "sparkline", "trend_blocks"]

Lines = dict[ScoreKey, dict[int, Point]]
"""The lines of a chart: by score its points, which have a mean, by the place of the run."""

CHARTED: Final = 20  # runs in the chart of a pull request
CHARTS: Final = 4  # charts in one comment

BARS: Final = "▁▂▃▄▅▆▇█"
PLAIN_BARS: Final = "_.-=*#"
"""For terminals whose encoding lacks the bars."""

COLOURS: Final = {
    "🟦": "#2f81f7",
    "🟧": "#f0883e",
    "🟪": "#a371f7",
    "🟩": "#3fb950",
    "🟥": "#f85149",
    "🟫": "#9a6b45",
}
"""The lines of a chart, which has no legend of its own: one stands below it."""

CONFIG: Final = (
    '%%{init: {"xyChart": {"width": 900, "height": 300, "xAxis": {"labelFontSize": 9}}, '
    '"themeVariables": {"xyChart": {"plotColorPalette": "PALETTE"}}}}%%'
).replace("PALETTE", ", ".join(COLOURS.values()))

LONGEST: Final = 80  # characters of a name in a chart
ENDING: Final = re.compile(r"[^\w .,:@=/()\[\]+-]")

SMALLEST: Final = 0.1  # of the largest value, what an axis covers at least: small noise is to look small


def span(points: Sequence[Point]) -> tuple[float, float]:
    """The lowest and the highest end of the intervals, or of the means without one; 0 and 0 without any."""
    ends = [
        end
        for point in points
        if point.mean is not None
        for end in (point.mean, *(point.interval or ()), *_lines(point))
    ]
    return min(ends, default=0.0), max(ends, default=0.0)


def _lines(point: Point) -> list[float]:
    return [mean for mean in (point.baseline, point.anchor) if mean is not None]


def sparkline(points: Sequence[Point | None], *, plain: bool = False) -> str:
    """A sign for each point; a space where there is none, or it has no mean.

    The signs go from the lower to the upper end of all intervals, so that noise looks flat.
    """
    bars = PLAIN_BARS if plain else BARS
    low, high = span([point for point in points if point is not None])
    return "".join(
        " "
        if point is None or point.mean is None
        else bars[min(len(bars) - 1, int((point.mean - low) / ((high - low) or 1) * len(bars)))]
        for point in points
    )


def trend_blocks(document: Mapping[str, Any]) -> Iterator[str]:
    """The last runs as charts for a pull request, folded; nothing where the run has no history.

    Each chart has scores of one test that have a value in the same runs: a chart's lines cannot have gaps.
    """
    runs = [Run.of(plain) for plain in document.get("history", ())][-CHARTED:]
    charts = _groups(runs)
    if charts:
        left = len(charts) - CHARTS
        more = (
            f"\n{left} more {plural(left, 'chart')}: <code>rageval history</code> shows all scores.\n"
            if left > 0
            else ""
        )
        drawn = "".join(_chart(runs, lines) for lines in charts[:CHARTS])
        yield f"\n<details><summary>The last {counted(len(runs), 'run')}</summary>\n{drawn}{more}\n</details>\n"


def _groups(runs: Sequence[Run]) -> list[Lines]:
    """The lines of each chart: scores that the last run has, those of failed thresholds first."""
    groups: defaultdict[object, Lines] = defaultdict(dict)
    for key, last in sorted(runs[-1].points.items()) if runs else ():
        points = {
            at: point
            for at, run in enumerate(runs)
            if (point := run.points.get(key)) is not None and point.mean is not None
        }
        if last.mean is not None and len(points) > 1:
            largest = max(map(abs, _means(points)))
            scale = max(0, ceil(log10(largest))) if largest else 0
            groups[key.nodeid, tuple(points), scale, last.statistic is None][key] = points
    charts = [
        dict(list(lines.items())[first : first + len(COLOURS)])
        for lines in groups.values()
        for first in range(0, len(lines), len(COLOURS))
    ]
    return sorted(charts, key=lambda lines: not any(runs[-1].points[key].verdict in BROKEN for key in lines))


def _means(points: Mapping[int, Point]) -> list[float]:
    return [point.mean for point in points.values() if point.mean is not None]


def _chart(runs: Sequence[Run], lines: Lines) -> str:
    nodeid, points = next((key.nodeid, points) for key, points in lines.items())
    means = {key.score: _means(each) for key, each in lines.items()}
    low, high = axis([mean for each in means.values() for mean in each])
    chart = [
        CONFIG,
        "xychart-beta",
        f"  title {_label(nodeid)}",
        f"  x-axis [{', '.join(map(_label, _unique(runs[at].name for at in points)))}]",
        f"  y-axis {_decimal(low)} --> {_decimal(high)}",
        *(f"  line {_label(name)} [{', '.join(map(_decimal, each))}]" for name, each in means.items()),
    ]
    legend = [
        f"{square} {_code(name)} {number_text(each[-2])} → {number_text(each[-1])}"
        for square, (name, each) in zip(COLOURS, means.items(), strict=False)
    ]
    legend += [
        f"the eval set changed in {_code(runs[at].name)}"
        for (_, before), (at, after) in pairwise(points.items())
        if before.evalset != after.evalset
    ]
    return "\n".join(["", "```mermaid", *chart, "```", "", " &nbsp; ".join(legend), ""])


def axis(values: Sequence[float]) -> tuple[float, float]:
    """The ends of an axis: with a margin, and between 0 and 1 where all values are."""
    low, high = min(values), max(values)
    least = SMALLEST * (max(abs(low), abs(high)) or 1)
    margin = max(high - low, least) / 10 + max(0, least - (high - low)) / 2
    bottom, top = low - margin, high + margin
    return (max(bottom, 0) if low >= 0 else bottom, min(top, 1) if high <= 1 else top)


def _unique(names: Iterator[str]) -> Iterator[str]:
    """Names with a number behind those that were there before: an axis draws equal ones at one place."""
    seen = Counter[str]()
    for name in names:
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})"


def _label(text: str) -> str:
    """A text of a chart, in quotes and cut; signs that could end it or have a meaning there become underscores.

    >>> _label('recall@3 [topic="a"] #35;')
    '"recall@3 [topic=_a_] _35_"'
    """
    line = ENDING.sub("_", " ".join(text.split()))
    return f'"{line if len(line) <= LONGEST else f"…{line[1 - LONGEST :]}"}"'


def _decimal(number: float) -> str:
    """A number without an exponent, which charts do not read.

    >>> _decimal(0.5), _decimal(1e-7), _decimal(3.0)
    ('0.5', '0.0000001', '3')
    """
    return f"{number:.10f}".rstrip("0").rstrip(".")


def _code(text: str) -> str:
    """Text as code in a line of Markdown, with the signs that have a meaning there as entities."""
    line = re.sub(r"[^0-9A-Za-z ]", lambda sign: f"&#{ord(sign[0])};", " ".join(text.split()))
    return f"<code>{line}</code>"
