"""Writes the history as an HTML page: each score over the runs, with its interval, its baseline and its anchor."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby, pairwise
from math import ceil, floor, log10
from typing import Final

from pytest_rageval.extensions.history.history import Point, Run, ScoreKey, axis_range, series, value_range
from pytest_rageval.reports.html import number, render

# The size and the margins of a chart, in units of its SVG view box. They are pixels if the page is wide enough.
WIDTH: Final = 900
HEIGHT: Final = 220
LEFT: Final = 56
RIGHT: Final = 12
TOP: Final = 10
BOTTOM: Final = 28
MAX_RADIUS: Final = 4.0
MAX_RUN_LABELS: Final = 8  # maximum number of runs that are named below a chart
TICKS: Final = 4  # approximate number of ticks of the vertical axis

WEB_ADDRESS: Final = re.compile(r"https?://")

SMALL_SIZE: Final = (160, 28)  # width and height of a chart in the overview
SINGLE_POINT_WIDTH: Final = 6  # width of the line for a single point in a chart of the overview

IndexedPoint = tuple[float, Run, Point]  # the index of a run, the run, and the point of a score in it


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps indices of runs and values of a score to positions in a chart."""

    low: float
    high: float
    runs: int

    def x(self, index: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (index + 0.5) / self.runs

    def y(self, value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - value) / ((self.high - self.low) or 1)

    @property
    def radius(self) -> float:
        return max(1.0, min(MAX_RADIUS, (WIDTH - LEFT - RIGHT) / self.runs / 3))


def trend_page(runs: Sequence[Run]) -> str:
    scores = series(runs)
    index_by_run = {id(run): index for index, run in enumerate(runs)}
    tests = []
    for nodeid, group in groupby(scores.items(), key=lambda item: item[0].nodeid):
        charts = [
            _chart(key, [(index_by_run[id(run)], run, point) for run, point in points], runs)
            for key, points in group
        ]
        tests.append({"nodeid": nodeid, "charts": charts})
    return render(
        "trend.html",
        styles=("trend.css",),
        tests=tests,
        scores=len(scores),
        runs=runs,
        stopped=sum(run.stopped for run in runs),
        branches=sorted({run.branch for run in runs if run.branch}),
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=WIDTH - RIGHT,
        small=SMALL_SIZE,
    )


def _chart(key: ScoreKey, points: Sequence[IndexedPoint], runs: Sequence[Run]) -> dict[str, object]:
    low, high = axis_range(value_range([point for _, _, point in points]))
    scale = _Scale(low, high, len(runs))
    means = [point.mean for _, _, point in points if point.mean is not None]
    *_, (_, _, last) = points
    segments = list(_split_segments(points))
    digest = sha256(repr(tuple(key)).encode(errors="replace")).hexdigest()
    range_text = f", from {number(min(means))} to {number(max(means))}" if means else ""
    return {
        "id": f"s-{digest[:10]}",
        "score": key.score,
        "label": f"{key.score} in {len(points)} runs: {number(last.mean)} in the last{range_text}",
        "last": last,
        "is_current": points[-1][1] is runs[-1],
        "change": means[-1] - means[-2] if last.mean is not None and len(means) > 1 else None,
        "ticks": [(scale.y(tick), tick_text) for tick, tick_text in _ticks(low, high)],
        "names": list(_run_labels(runs, scale)),
        "bands": [band for segment in segments if (band := _interval_band(segment, scale))],
        "lines": [
            _svg_points([(scale.x(index), scale.y(mean)) for index, mean in _indexed_means(segment)])
            for segment in segments
        ],
        "baseline": _level_path([(index, point.baseline) for index, _, point in points], scale),
        "anchor": _level_path([(index, point.anchor) for index, _, point in points], scale),
        "breaks": [
            scale.x((before + after) / 2)
            for (before, _, one), (after, _, other) in pairwise(points)
            if one.evalset != other.evalset
        ],
        "points": [
            {
                "x": scale.x(index),
                # The point of a score that could not be computed is at the bottom of the chart.
                "y": HEIGHT - BOTTOM if point.mean is None else scale.y(point.mean),
                "verdict": point.verdict or "none",
                "title": _point_title(run, point),
                "left": scale.x(index - 0.5),
            }
            for index, run, point in points
        ],
        "radius": scale.radius,
        "step": scale.x(1) - scale.x(0),
        "small": [_small_line(segment, scale) for segment in segments],
        "rows": [
            {"run": run, "point": point, "url": run.url if WEB_ADDRESS.match(run.url or "") else None}
            for _, run, point in reversed(points)
        ],
    }


def _split_segments(points: Sequence[IndexedPoint]) -> Iterator[list[IndexedPoint]]:
    """Yield the points that a line may connect: with means, and of the same eval set."""
    segment: list[IndexedPoint] = []
    for indexed_point in points:
        point = indexed_point[2]
        if segment and (point.mean is None or point.evalset != segment[-1][2].evalset):
            yield segment
            segment = []
        if point.mean is not None:
            segment.append(indexed_point)
    if segment:
        yield segment


def _indexed_means(segment: Sequence[IndexedPoint]) -> Iterator[tuple[float, float]]:
    return ((index, point.mean) for index, _, point in segment if point.mean is not None)


def _interval_band(segment: Sequence[IndexedPoint], scale: _Scale) -> str:
    """Return the outline of the intervals of a segment; the outline of a single interval is as wide as a point."""
    # An interval that is much wider than the others ends at the edge of the chart.
    ends = [
        (scale.x(index), [min(max(end, scale.low), scale.high) for end in point.interval])
        for index, _, point in segment
        if point.interval is not None
    ]
    if len(ends) == 1:
        [(x, interval)] = ends
        ends = [(x - scale.radius, interval), (x + scale.radius, interval)]
    upper = [(x, scale.y(high)) for x, (_, high) in ends]
    lower = [(x, scale.y(low)) for x, (low, _) in ends]
    return _svg_points([*upper, *reversed(lower)])


def _svg_points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _level_path(values: Sequence[tuple[float, float | None]], scale: _Scale) -> str:
    """Return an SVG path with a horizontal line for each run with a value, as wide as the space of the run."""
    return " ".join(
        f"M{scale.x(index - 0.5):.1f} {scale.y(value):.1f}H{scale.x(index + 0.5):.1f}"
        for index, value in values
        if value is not None
    )


def _small_line(segment: Sequence[IndexedPoint], scale: _Scale) -> str:
    """Return the line of a segment in the chart of the overview; a short horizontal line for a single point."""
    width, height = SMALL_SIZE
    points = [
        (
            (scale.x(index) - LEFT) / (WIDTH - LEFT - RIGHT) * width,
            2 + (scale.y(mean) - TOP) / (HEIGHT - TOP - BOTTOM) * (height - 4),
        )
        for index, mean in _indexed_means(segment)
    ]
    if len(points) == 1:
        [(x, y)] = points
        half = min(SINGLE_POINT_WIDTH, width / scale.runs) / 2
        points = [(x - half, y), (x + half, y)]
    return _svg_points(points)


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return round values between the ends of an axis, each with its text.

    >>> [text for _, text in _ticks(0.52, 0.97)]
    ['0.6', '0.7', '0.8', '0.9']
    """
    rough_step = ((high - low) or 1) / TICKS
    power = 10.0 ** floor(log10(rough_step))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough_step * 0.8)
    return [
        (index * step, f"{index * step:.6g}") for index in range(ceil(low / step), floor(high / step) + 1)
    ]


def _run_labels(runs: Sequence[Run], scale: _Scale) -> Iterator[tuple[float, str]]:
    """Yield the position and the name of some runs at equal distances, including the last run."""
    step = ceil(len(runs) / MAX_RUN_LABELS)
    for index in reversed(range(len(runs) - 1, -1, -step)):
        yield scale.x(index), runs[index].name


def _point_title(run: Run, point: Point) -> str:
    about = ", ".join([*([run.branch] if run.branch else []), f"{run.time:%Y-%m-%d %H:%M}"])
    interval = "" if point.interval is None else " [{}, {}]".format(*map(number, point.interval))
    unscored = f", {point.unscored} unscored" if point.unscored else ""
    verdict = f", {point.verdict}" if point.verdict else ""
    return (
        f"{run.name} {run.title or ''} ({about})\n"
        f"{'no score' if point.mean is None else number(point.mean)}{interval}, n = {point.n}{unscored}{verdict}"
    )
