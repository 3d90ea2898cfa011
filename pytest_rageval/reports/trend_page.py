"""The history as a page: each score over the runs, with its interval and the means that it was compared with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby, pairwise
from math import ceil, floor, log10
from typing import Any, Final

from pytest_rageval.reports.history import Point, Run, ScoreKey, series
from pytest_rageval.reports.page import number, render
from pytest_rageval.reports.trend import axis, span

__all__ = ["trend_page"]

# Of a chart, in its own units: those of a page that is wide enough.
WIDTH: Final = 900
HEIGHT: Final = 220
LEFT: Final = 56
RIGHT: Final = 12
TOP: Final = 10
BOTTOM: Final = 28
RADIUS: Final = 4.0
LABELS: Final = 8  # commits that are named below a chart
TICKS: Final = 4

SMALL: Final = (160, 28)  # width and height of a chart in the overview
DASH: Final = 6  # the width of a single point in it

Placed = tuple[float, Run, Point]
"""A point of a score, and the place of its run from left to right."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """The scale of a chart: it maps a value, and the number of a run, to a position."""

    low: float
    high: float
    runs: int

    def x(self, place: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (place + 0.5) / self.runs

    def y(self, value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - value) / ((self.high - self.low) or 1)

    @property
    def radius(self) -> float:
        """The radius of a point, small enough that neighbours do not touch."""
        return max(1.0, min(RADIUS, (WIDTH - LEFT - RIGHT) / self.runs / 3))


def trend_page(runs: Sequence[Run]) -> str:
    """The page of these runs, the oldest first."""
    scores = series(runs)
    place = {id(run): at for at, run in enumerate(runs)}
    tests = []
    for nodeid, group in groupby(scores.items(), key=lambda item: item[0].nodeid):
        charts = [
            _chart(key, [(place[id(run)], run, point) for run, point in found], runs) for key, found in group
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
        small=SMALL,
    )


def _chart(key: ScoreKey, points: Sequence[Placed], runs: Sequence[Run]) -> dict[str, Any]:
    low, high = axis(span([point for _, _, point in points]))
    scale = _Scale(low, high, len(runs))
    means = [point.mean for _, _, point in points if point.mean is not None]
    *_, (_, _, last) = points
    parts = list(_parts(points))
    identity = sha256(repr(tuple(key)).encode(errors="replace")).hexdigest()
    range_text = f", from {number(min(means))} to {number(max(means))}" if means else ""
    return {
        "id": f"s-{identity[:10]}",
        "score": key.score,
        "label": f"{key.score} in {len(points)} runs: {number(last.mean)} in the last{range_text}",
        "last": last,
        "is_current": points[-1][1] is runs[-1],
        "change": means[-1] - means[-2] if last.mean is not None and len(means) > 1 else None,
        "ticks": [(scale.y(tick), tick_text) for tick, tick_text in _ticks(low, high)],
        "names": list(_names(runs, scale)),
        "bands": [band for part in parts if (band := _band(part, scale))],
        "lines": [_line([(scale.x(at), scale.y(mean)) for at, mean in _means(part)]) for part in parts],
        "baseline": _steps([(at, point.baseline) for at, _, point in points], scale),
        "anchor": _steps([(at, point.anchor) for at, _, point in points], scale),
        "breaks": [
            scale.x((before + after) / 2)
            for (before, _, one), (after, _, other) in pairwise(points)
            if one.evalset != other.evalset
        ],
        "points": [
            {
                "x": scale.x(at),
                # A score that could not be computed is below the others.
                "y": HEIGHT - BOTTOM if point.mean is None else scale.y(point.mean),
                "verdict": point.verdict or "none",
                "title": _title(run, point),
            }
            for at, run, point in points
        ],
        "radius": scale.radius,
        "small": [_small(part, scale) for part in parts],
        "rows": [
            {"run": run, "point": point, "url": run.url if _is_web(run.url) else None}
            for _, run, point in reversed(points)
        ],
    }


def _parts(points: Sequence[Placed]) -> Iterator[list[Placed]]:
    """The points that a line may connect: it ends where a mean is missing or the eval set changed."""
    part: list[Placed] = []
    for placed in points:
        point = placed[2]
        if part and (point.mean is None or point.evalset != part[-1][2].evalset):
            yield part
            part = []
        if point.mean is not None:
            part.append(placed)
    if part:
        yield part


def _means(part: Sequence[Placed]) -> Iterator[tuple[float, float]]:
    return ((at, point.mean) for at, _, point in part if point.mean is not None)


def _band(part: Sequence[Placed], scale: _Scale) -> str:
    """The outline of the intervals; a single one is as wide as a point."""
    ends = [(scale.x(at), point.interval) for at, _, point in part if point.interval is not None]
    if len(ends) == 1:
        [(x, interval)] = ends
        ends = [(x - scale.radius, interval), (x + scale.radius, interval)]
    upper = [(x, scale.y(high)) for x, (_, high) in ends]
    lower = [(x, scale.y(low)) for x, (low, _) in ends]
    return _line([*upper, *reversed(lower)])


def _line(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _steps(values: Sequence[tuple[float, float | None]], scale: _Scale) -> str:
    """A level line at each value, as a path: as wide as the place of its run."""
    return " ".join(
        f"M{scale.x(at - 0.5):.1f} {scale.y(value):.1f}H{scale.x(at + 0.5):.1f}"
        for at, value in values
        if value is not None
    )


def _small(part: Sequence[Placed], scale: _Scale) -> str:
    """The line of a part in the chart of the overview; that of a single point is short."""
    width, height = SMALL
    points = [
        (
            (scale.x(at) - LEFT) / (WIDTH - LEFT - RIGHT) * width,
            2 + (scale.y(mean) - TOP) / (HEIGHT - TOP - BOTTOM) * (height - 4),
        )
        for at, mean in _means(part)
    ]
    if len(points) == 1:
        [(x, y)] = points
        half = min(DASH, width / scale.runs) / 2
        points = [(x - half, y), (x + half, y)]
    return _line(points)


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Round values between the ends of an axis.

    >>> [text for _, text in _ticks(0.52, 0.97)]
    ['0.6', '0.7', '0.8', '0.9']
    """
    rough = ((high - low) or 1) / TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.8)
    return [(at * step, f"{at * step:.6g}") for at in range(ceil(low / step), floor(high / step) + 1)]


def _names(runs: Sequence[Run], scale: _Scale) -> Iterator[tuple[float, str]]:
    """Some of the runs, evenly, the last one among them."""
    apart = ceil(len(runs) / LABELS)
    for at in reversed(range(len(runs) - 1, -1, -apart)):
        yield scale.x(at), runs[at].name


def _title(run: Run, point: Point) -> str:
    about = ", ".join([*([run.branch] if run.branch else []), f"{run.time:%Y-%m-%d %H:%M}"])
    interval = "" if point.interval is None else " [{}, {}]".format(*map(number, point.interval))
    unscored = f", {point.unscored} unscored" if point.unscored else ""
    verdict = f", {point.verdict}" if point.verdict else ""
    return (
        f"{run.name} {run.title or ''} ({about})\n"
        f"{'no score' if point.mean is None else number(point.mean)}{interval}, n = {point.n}{unscored}{verdict}"
    )


def _is_web(url: str | None) -> bool:
    return url is not None and url.startswith(("https://", "http://"))
