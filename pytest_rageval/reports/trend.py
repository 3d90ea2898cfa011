"""Scores over runs as text: a sparkline for a terminal, and a Mermaid chart for a pull request."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import ceil, log10
from typing import Any, Final

from pytest_rageval.plural import counted
from pytest_rageval.reports.history import CHARTED, Point, Run, ScoreKey, badness
from pytest_rageval.reports.terminal import number_text

__all__ = ["BARS", "axis", "chart_lines", "span", "sparkline"]

BARS: Final = "▁▂▃▄▅▆▇█"
PLAIN_BARS: Final = "_.-=*#"
"""For terminals whose encoding lacks the bars."""

COLOURS: Final = {
    "🟦": "#2f81f7",
    "🟧": "#f0883e",
    "🟪": "#a371f7",
    "🟩": "#3fb950",
    "🟫": "#9a6b45",
}
"""The lines of a chart, which has no legend of its own: one is below it."""

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


def chart_lines(document: Mapping[str, Any]) -> list[str]:
    """The last runs as a chart for a pull request, in lines of Markdown; empty where the run has no history.

    It has scores of this run that have a value in the same runs, since a chart's lines cannot have gaps: those of a
    failed threshold where there is one, else as many as possible.
    """
    runs = [Run.of(plain) for plain in document.get("history", ())][-CHARTED:]
    groups: defaultdict[object, dict[ScoreKey, list[Run]]] = defaultdict(dict)
    for key in sorted(runs[-1].points, key=partial(_urgency, runs[-1])) if runs else ():
        with_mean = [run for run in runs if key in run.points and run.points[key].mean is not None]
        if with_mean[-1:] == runs[-1:] and len(with_mean) > 1:
            groups[tuple(map(id, with_mean)), _scale(key, with_mean)][key] = with_mean
    if not groups:
        return []
    lines = min(groups.values(), key=lambda each: (_urgency(runs[-1], next(iter(each)))[0], -len(each)))
    shown = list(lines)[: len(COLOURS)]
    left = sum(map(len, groups.values())) - len(shown)
    more = [f"{counted(left, 'more score')}: <code>rageval history</code>"] if left else []
    return [*_chart(lines[shown[0]], shown), "", " &nbsp; ".join([*_legend(lines[shown[0]], shown), *more])]


def _urgency(run: Run, key: ScoreKey) -> tuple[int, ScoreKey]:
    """Failed thresholds come first, scores without a threshold last."""
    return badness(run.points[key].verdict), key


def _scale(key: ScoreKey, runs: Sequence[Run]) -> tuple[int, bool]:
    """Return the key of the axis of a score: its power of ten, and whether it is a mean."""
    largest = max(map(abs, _means(key, runs)))
    return ceil(log10(largest)) if largest else 0, runs[-1].points[key].statistic is None


def _means(key: ScoreKey, runs: Sequence[Run]) -> list[float]:
    return [mean for run in runs if (mean := run.points[key].mean) is not None]


def _chart(runs: Sequence[Run], keys: Sequence[ScoreKey]) -> list[str]:
    low, high = axis([mean for key in keys for mean in _means(key, runs)])
    return [
        "```mermaid",
        CONFIG,
        "xychart-beta",
        f"  x-axis [{', '.join(map(_label, _unique(run.name for run in runs)))}]",
        f"  y-axis {_decimal(low)} --> {_decimal(high)}",
        *(
            f"  line {_label(name)} [{', '.join(map(_decimal, _means(key, runs)))}]"
            for key, name in zip(keys, _names(keys), strict=True)
        ),
        "```",
    ]


def _legend(runs: Sequence[Run], keys: Sequence[ScoreKey]) -> Iterator[str]:
    for square, key, name in zip(COLOURS, keys, _names(keys), strict=False):
        means = _means(key, runs)
        yield f"{square} {_code(name)} {number_text(means[-2])} → {number_text(means[-1])}"
    for before, after in pairwise(runs):
        if any(before.points[key].evalset != after.points[key].evalset for key in keys):
            yield f"the eval set changed in {_code(after.name)}"


def _names(keys: Sequence[ScoreKey]) -> list[str]:
    """The names of the scores, with their tests where several have one of this name."""
    tests = Counter(key.score for key in keys)
    return [
        f"{key.score} of {key.nodeid.rpartition('::')[2]}" if tests[key.score] > 1 else key.score
        for key in keys
    ]


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
