"""How a score stands to its baseline, as data and in a line."""

from collections.abc import Mapping
from typing import Any, Final

from pytest_rageval.gate.baseline_update import Moved
from pytest_rageval.gate.comparison import DropTest

__all__ = ["baseline_entry", "baseline_text", "moved_text", "update_text"]

NAMED: Final = 8
"""How many of the questions that got better are named."""


def baseline_entry(drop: DropTest | None) -> dict[str, Any] | None:
    """The score then and now, over the examples that can be compared, and the test between them."""
    if drop is None:
        return None
    comparison = drop.comparison
    return {
        "mean": comparison.mean,
        "drop": comparison.drop,
        "n": len(comparison.changes),
        "left_out": comparison.left_out,
        "unscored": comparison.unscored,
        **({"failed": [outcome.example.id for outcome in comparison.failed]} if comparison.failed else {}),
        "p_value": drop.p_value,
        "alpha": drop.alpha,
        "detectable_drop": drop.detectable,
        "examples_needed": drop.needed,
        "worse": [change.outcome.example.id for change in comparison.worse],
        "better": [change.outcome.example.id for change in comparison.better],
    }


def baseline_text(entry: Mapping[str, Any]) -> str:
    """A score's entry in a line, such as "baseline 0.792, drop 0.029 (p = 0.21)"; empty without a baseline.

    Where these are not the examples of the score it says which were compared: "baseline 0.792 over 55 of 60, …".
    """
    baseline = entry.get("baseline")
    if baseline is None:
        return ""
    drop = baseline["drop"]
    moved = f"drop {drop:.3f}" if drop > 0 else f"gain {-drop:.3f}" if drop < 0 else "no change"
    failed = len(baseline.get("failed", ()))
    of = entry["n"] + failed
    over = f" over {baseline['n']} of {of}" if baseline["n"] != of else ""
    over += f", {failed} without a score counted as lost" if failed else ""
    over += f", {baseline['left_out']} not the same" if baseline["left_out"] else ""
    worse = f", {len(baseline['worse'])} of {baseline['n']} worse" if baseline["worse"] else ""
    return f"baseline {baseline['mean']:.3f}{over}, {moved} (p = {baseline['p_value']:.2g}{worse}{_better(baseline)})"


def _better(baseline: Mapping[str, Any]) -> str:
    """Which questions got better, by name: nothing else tells of these."""
    better: list[str] = baseline["better"]
    named = ", ".join(better[:NAMED]) + (", …" if len(better) > NAMED else "")
    return f"; {len(better)} better: {named}" if better else ""


def moved_text(entry: Mapping[str, Any]) -> str:
    """How far a score moved: "−0.029 (p = 0.21)", or "±0"; empty without a baseline."""
    baseline = entry.get("baseline")
    if baseline is None:
        return ""
    if not baseline["drop"]:
        return "±0"
    return (
        f"{'−' if baseline['drop'] > 0 else '+'}{abs(baseline['drop']):.3f} (p = {baseline['p_value']:.2g})"
    )


def update_text(moved: Moved) -> str:
    """What a new baseline changes: "test_a.py::test recall@3: 0.940 → 0.593, 32 of 91 worse, 0 better".

    Where questions lost their score: "…, 3 questions had a score and have none now".
    """
    means = f"{moved.before:.3f} → {moved.after:.3f}, {moved.worse} of {moved.n} worse, {moved.better} better"
    lost = f"{moved.lost} questions had a score and have none now" if moved.lost else ""
    return f"{moved.nodeid} {moved.name}: {', '.join([*([means] if moved.n else []), *([lost] if lost else [])])}"
