"""A threshold on each value of a tag: what became of the values that are not in the table."""

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_rageval.gate.ruling import Ruling
from pytest_rageval.reports.baseline import baseline_entry

__all__ = ["slice_warnings", "slices_entry", "slices_text"]


def slices_entry(ruling: Ruling) -> dict[str, Any]:
    """All values, worst first; nothing where the threshold is on no tag."""
    tag = ruling.threshold.by
    if tag is None:
        return {}
    return {"by": {"tag": tag, "slices": [_slice(each, tag) for each in ruling.slices]}}


def slices_text(entry: Mapping[str, Any]) -> str:
    """An entry in a line: "the worst of 3 by topic; then shipping 0.700 fail, account 0.900 pass"."""
    if "by" not in entry:
        return ""
    others = [
        f"{each['value']} {'-' if each['mean'] is None else format(each['mean'], '.3f')} {each['verdict']}"
        for each in entry["by"]["slices"][1:]
    ]
    told = f"the worst of {len(others) + 1} by {entry['by']['tag']}"
    return f"{told}; then {', '.join(others)}" if others else told


def slice_warnings(entry: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """What is to be known of the values behind the worst, whose warnings are the entry's: each with its slice."""
    for each in entry.get("by", {"slices": []})["slices"][1:]:
        for warning in each.get("warnings", ()):
            yield {**entry["where"], entry["by"]["tag"]: each["value"]}, warning


def _slice(ruling: Ruling, tag: str) -> dict[str, Any]:
    """One value of a tag, in short."""
    score = ruling.score
    interval = None if score is None else score.ci95
    warnings = {"warnings": list(ruling.verdict.warnings)} if ruling.verdict.warnings else {}
    return {
        "value": ruling.threshold.where[tag],
        "mean": None if score is None else float(score),
        "ci95": None if interval is None else list(interval),
        "n": 0 if score is None else score.n,
        "unscored": 0 if score is None else score.unscored,
        "undefined": 0 if score is None else score.undefined,
        "baseline": baseline_entry(ruling.drop),
        "verdict": ruling.verdict.status,
        "reason": ruling.verdict.reason,
        **warnings,
    }
