"""A score for the HTML report: its numbers, its charts, and its means over slices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from pytest_rageval.plural import counted
from pytest_rageval.reports.document import ScoreEntry
from pytest_rageval.reports.notes import gained
from pytest_rageval.reports.question_rows import QuestionRow
from pytest_rageval.reports.results import sliced_name
from pytest_rageval.reports.terminal import threshold_text

__all__ = ["HeatCell", "Histogram", "ScoreView", "mean_of"]

BINS: Final = 11  # of a histogram; odd, so that the one in the middle is around 0


class ScoreView:
    """A score for the templates: what the table of the overview and the charts are made of."""

    def __init__(self, entry: ScoreEntry) -> None:
        self.entry = entry
        self.name = sliced_name(entry)
        self.threshold = threshold_text(entry["threshold"] or {})

    @property
    def baseline(self) -> Mapping[str, Any] | None:
        """The comparison with the baseline, or else with the anchor."""
        return self.entry.get("baseline") or self.entry.get("anchor")

    @property
    def change(self) -> float | None:
        """The change of the mean from the baseline."""
        return None if self.baseline is None else -self.baseline["drop"]

    @property
    def change_interval(self) -> tuple[float, float] | None:
        """The interval of the change."""
        interval = (self.baseline or {}).get("interval")
        return None if interval is None else (-interval[1], -interval[0])

    @property
    def effect(self) -> str:
        """The kind of the change: "gain", "loss", or empty if it may be noise."""
        if gained(self.entry) is not None or self.entry["verdict"] == "better":
            return "gain"
        return "loss" if self.entry["verdict"] in {"fail", "worse"} and self.change else ""

    @property
    def p_value(self) -> float | None:
        """The p-value of the test of the drop."""
        return (self.baseline or {}).get("p_value")

    @property
    def bound(self) -> float | None:
        """The bound of the mean."""
        threshold = self.entry["threshold"] or {}
        least, most = threshold.get("min"), threshold.get("max")
        return least if least is not None else most

    @property
    def scale(self) -> tuple[float, float]:
        """The ends of the axis: those of the score's scale, or from 0 to beyond what is shown, as of a time."""
        interval = self.entry["ci95"] or ()
        shown = [
            self.entry["mean"] or 0.0,
            *interval,
            *filter(None, [self.bound, (self.baseline or {}).get("mean")]),
        ]
        if self._declared is not None:
            return min(self._declared[0], *shown), max(self._declared[1], *shown)
        return min(0.0, *shown), (
            1.0 if max(shown) <= 1 and not self.entry.get("statistic") else max(shown) * 1.1 or 1.0
        )

    @property
    def parts(self) -> list[tuple[str, int]]:
        """The questions that were compared: lost, the same, gained, and those without a score now or before."""
        if (compared := self.baseline) is None:
            return []
        lost, better = len(compared["worse"]), len(compared["better"])
        same = compared["n"] - lost - better
        return [("lost", lost), ("same", same), ("gained", better), ("unscored", compared["unscored"])]

    @property
    def parts_text(self) -> str:
        """The same in words."""
        return ", ".join(f"{count:,} {name}" for name, count in self.parts if count)

    @property
    def differences(self) -> "Histogram | None":
        """A histogram of the questions' changes; None if none changed or the baseline has no scores."""
        pairs = ((each.get("before"), each.get("score")) for each in self.entry["examples"])
        moved = [now - then for then, now in pairs if then is not None and now is not None and now != then]
        return Histogram.of_differences(moved) if moved else None

    @property
    def distribution(self) -> "Histogram | None":
        """A histogram of the questions' scores; None without scores."""
        scores = [each["score"] for each in self.entry["examples"] if each["score"] is not None]
        if not scores:
            return None
        return Histogram.of_scores(scores, scale=self._declared, is_time="statistic" in self.entry)

    @property
    def _declared(self) -> Sequence[float] | None:
        """The lowest and the highest value of a question, where these are not 0 and 1."""
        return self.entry.get("scale")


@dataclass(frozen=True)
class Histogram:
    """Bars, each a class and a count, from `low` to `high`."""

    bars: Sequence[tuple[str, int]]
    low: float
    high: float
    label: str

    @classmethod
    def of_differences(cls, values: Sequence[float]) -> "Histogram":
        """Losses on the left and gains on the right of an axis with 0 in its middle."""
        end = max(map(abs, values)) if max(map(abs, values)) > 1 else 1.0
        counts = [0] * BINS
        for value in values:
            counts[min(BINS - 1, int((value + end) / (2 * end) * BINS))] += 1
        middle = BINS // 2
        bars = [
            ("lost" if at < middle else "gained" if at > middle else "same", n) for at, n in enumerate(counts)
        ]
        less = sum(value < 0 for value in values)
        label = (
            f"differences of {counted(len(values), 'question')}: {less} lower, {len(values) - less} higher"
        )
        return cls(bars, -end, end, label)

    @classmethod
    def of_scores(
        cls, values: Sequence[float], *, scale: Sequence[float] | None = None, is_time: bool = False
    ) -> "Histogram":
        """Scores from end to end of their scale, 0 and 1 without one; times from 0 to the largest."""
        low, high = scale or (0.0, 1.0)
        end = (max(values) or 1.0) if is_time else max(high, *values)
        low = min(low, *values)
        counts = [0] * (BINS - 1)
        for value in values:
            counts[min(BINS - 2, int((value - low) / (end - low) * (BINS - 1)))] += 1
        label = f"scores of {counted(len(values), 'question')}, from {low:g} to {end:g}"
        return cls([("scores", n) for n in counts], low, end, label)


@dataclass(frozen=True)
class HeatCell:
    """The mean of a score over the questions of a slice, its change, and how far it is from the mean over all."""

    mean: float
    n: int
    change: float | None
    level: str

    @classmethod
    def of(cls, rows: Sequence[QuestionRow], name: str, overall: float | None) -> "HeatCell | None":
        """The cell of a score; None where no question of the slice has one."""
        mean = mean_of(rows, name)
        if mean is None or overall is None:
            return None
        examples = [cell.example for row in rows for cell in row.cells if cell.name == name]
        pairs = [
            (each["before"], each["score"])
            for each in examples
            if each.get("score") is not None and each.get("before") is not None
        ]
        change = fmean(now - before for before, now in pairs) if pairs else None
        # In steps of a tenth of the scale, or of the mean over all where that is above 1, as of a time.
        away = (mean - overall) / max(1.0, abs(overall)) * 10
        level = min(3, round(abs(away)))
        n = sum(each.get("score") is not None for each in examples)
        return cls(mean, n, change, f"{'below' if away < 0 else 'above'}-{level}" if level else "")


def mean_of(rows: Iterable[QuestionRow], name: str) -> float | None:
    """The mean of a score over these questions; None where none of them has it."""
    scores = [
        cell.example["score"]
        for row in rows
        for cell in row.cells
        if cell.name == name and cell.example.get("score") is not None
    ]
    return fmean(scores) if scores else None
