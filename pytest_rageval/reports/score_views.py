"""Views of a score for the HTML report: its numbers, its charts, and its means over slices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

from pytest_rageval.plural import counted
from pytest_rageval.reports.document import ScoreEntry
from pytest_rageval.reports.notes import significant_gain
from pytest_rageval.reports.question_rows import QuestionRow
from pytest_rageval.reports.results import sliced_name
from pytest_rageval.reports.terminal import threshold_text

__all__ = ["HeatCell", "Histogram", "ScoreView", "mean_of"]

BINS: Final = 11  # number of bars in a histogram of differences; odd, so that the middle bar is around 0


class ScoreView:
    """A score for the templates: the values that the overview table and the charts show."""

    def __init__(self, entry: ScoreEntry) -> None:
        self.entry = entry
        self.name = sliced_name(entry)
        self.threshold = threshold_text(entry["threshold"] or {})

    @property
    def baseline(self) -> Mapping[str, Any] | None:
        """The comparison with the baseline, else with the anchor; None if there is no comparison."""
        return self.entry.get("baseline") or self.entry.get("anchor")

    @property
    def change(self) -> float | None:
        """The change of the mean from the baseline; None without a baseline."""
        return None if self.baseline is None else -self.baseline["drop"]

    @property
    def change_interval(self) -> tuple[float, float] | None:
        """The interval of the change; None if the change was not tested."""
        interval = (self.baseline or {}).get("interval")
        return None if interval is None else (-interval[1], -interval[0])

    @property
    def effect(self) -> str:
        """The kind of the change: "gain", "loss", or empty if it may be noise."""
        if significant_gain(self.entry) is not None or self.entry["verdict"] == "better":
            return "gain"
        return "loss" if self.entry["verdict"] in {"fail", "worse"} and self.change else ""

    @property
    def p_value(self) -> float | None:
        """The p-value of the test of the drop; None if the drop was not tested."""
        return (self.baseline or {}).get("p_value")

    @property
    def bound(self) -> float | None:
        """The threshold's `min`, else its `max`; None without either."""
        threshold = self.entry["threshold"] or {}
        minimum, maximum = threshold.get("min"), threshold.get("max")
        return minimum if minimum is not None else maximum

    @property
    def scale(self) -> tuple[float, float]:
        """The ends of the axis: the ends of the score's scale, else 0 and 1.

        The axis of a time, or of another score above 1 without a scale, ends after the largest value that is shown. An
        axis is extended if a value is beyond its ends.
        """
        interval = self.entry["ci95"] or ()
        shown = [
            self.entry["mean"] or 0.0,
            *interval,
            *filter(None, [self.bound, (self.baseline or {}).get("mean")]),
        ]
        if self._entry_scale is not None:
            return min(self._entry_scale[0], *shown), max(self._entry_scale[1], *shown)
        return min(0.0, *shown), (
            1.0 if max(shown) <= 1 and not self.entry.get("statistic") else max(shown) * 1.1 or 1.0
        )

    @property
    def parts(self) -> list[tuple[str, int]]:
        """The number of questions by their change since the baseline; empty without a baseline.

        "unscored" counts the questions without a score, now or in the baseline.
        """
        if (comparison := self.baseline) is None:
            return []
        lost, better = len(comparison["worse"]), len(comparison["better"])
        same = comparison["n"] - lost - better
        return [("lost", lost), ("same", same), ("gained", better), ("unscored", comparison["unscored"])]

    @property
    def parts_text(self) -> str:
        """The numbers of `parts` as text, such as "32 lost, 59 same"."""
        return ", ".join(f"{count:,} {name}" for name, count in self.parts if count)

    @property
    def differences(self) -> "Histogram | None":
        """A histogram of the differences of questions to the baseline; None if no score is different."""
        pairs = ((example.get("before"), example.get("score")) for example in self.entry["examples"])
        changes = [now - then for then, now in pairs if then is not None and now is not None and now != then]
        return Histogram.from_differences(changes) if changes else None

    @property
    def distribution(self) -> "Histogram | None":
        """A histogram of the scores of the questions; None without scores."""
        scores = [example["score"] for example in self.entry["examples"] if example["score"] is not None]
        if not scores:
            return None
        return Histogram.from_scores(scores, scale=self._entry_scale, is_time="statistic" in self.entry)

    @property
    def _entry_scale(self) -> Sequence[float] | None:
        """The lowest and the highest possible score of a question; None if they are 0 and 1, or not finite."""
        return self.entry.get("scale")


@dataclass(frozen=True)
class Histogram:
    """A histogram for the template.

    Attributes:
        bars: the CSS class and the count of each bar.
        low: the lower end of the axis.
        high: the upper end of the axis.
        label: the text for screen readers.
    """

    bars: Sequence[tuple[str, int]]
    low: float
    high: float
    label: str

    @classmethod
    def from_differences(cls, values: Sequence[float]) -> "Histogram":
        """Create a histogram of differences other than 0: losses on the left, gains on the right, 0 in the middle."""
        end = max(map(abs, values)) if max(map(abs, values)) > 1 else 1.0
        counts = [0] * BINS
        for value in values:
            counts[min(BINS - 1, int((value + end) / (2 * end) * BINS))] += 1
        middle = BINS // 2
        bars = [
            ("lost" if index < middle else "gained" if index > middle else "same", count)
            for index, count in enumerate(counts)
        ]
        lower = sum(value < 0 for value in values)
        label = (
            f"differences of {counted(len(values), 'question')}: {lower} lower, {len(values) - lower} higher"
        )
        return cls(bars, -end, end, label)

    @classmethod
    def from_scores(
        cls, values: Sequence[float], *, scale: Sequence[float] | None = None, is_time: bool = False
    ) -> "Histogram":
        """Create a histogram of scores.

        Args:
            values: the scores of the questions.
            scale: the ends of the axis, 0 and 1 by default.
            is_time: True for times; their axis ends at the largest time.
        """
        low, high = scale or (0.0, 1.0)
        end = (max(values) or 1.0) if is_time else max(high, *values)
        low = min(low, *values)
        counts = [0] * (BINS - 1)
        for value in values:
            counts[min(BINS - 2, int((value - low) / (end - low) * (BINS - 1)))] += 1
        label = f"scores of {counted(len(values), 'question')}, from {low:g} to {end:g}"
        return cls([("scores", count) for count in counts], low, end, label)


@dataclass(frozen=True)
class HeatCell:
    """A score over the questions of a slice.

    Attributes:
        mean: mean over the scored questions of the slice.
        n: number of scored questions of the slice.
        change: mean difference to the baseline, over the questions with both scores; None if there are none.
        level: CSS class for the distance from the mean over all questions, such as "below-2"; empty if it is small.
    """

    mean: float
    n: int
    change: float | None
    level: str

    @classmethod
    def from_rows(cls, rows: Sequence[QuestionRow], name: str, overall: float | None) -> "HeatCell | None":
        """Create the cell of the score with this name from the questions of a slice.

        `overall` is the mean over all questions. None is returned if no question of the slice has the score.
        """
        mean = mean_of(rows, name)
        if mean is None or overall is None:
            return None
        examples = [cell.example for row in rows for cell in row.cells if cell.name == name]
        pairs = [
            (example["before"], example["score"])
            for example in examples
            if example.get("score") is not None and example.get("before") is not None
        ]
        change = fmean(now - before for before, now in pairs) if pairs else None
        # A level is 0.1, or a tenth of the overall mean if the mean is above 1, as for times.
        distance = (mean - overall) / max(1.0, abs(overall)) * 10
        level = min(3, round(abs(distance)))
        n = sum(example.get("score") is not None for example in examples)
        return cls(mean, n, change, f"{'below' if distance < 0 else 'above'}-{level}" if level else "")


def mean_of(rows: Iterable[QuestionRow], name: str) -> float | None:
    """Return the mean of the score with this name over the questions; None if no question has the score."""
    scores = [
        cell.example["score"]
        for row in rows
        for cell in row.cells
        if cell.name == name and cell.example.get("score") is not None
    ]
    return fmean(scores) if scores else None
