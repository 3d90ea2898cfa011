"""What LLM-retEval tells beside its mean: the cases, who lost the questions, and how far recall agrees."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pytest_rageval.reports.correlation import short
from pytest_rageval.scores import Outcome, Score
from pytest_rageval.stats.association import spearman_rho

__all__ = ["case_entry", "is_triaged", "losses", "triage_entry", "triage_text"]

RECALL_ERRED: Final = {"A", "B", "C"}
"""The cases that "refined" leaves out (Alinejad et al. 2024, section 4.3)."""


def is_triaged(spec: str) -> bool:
    """Whether a score has cases."""
    return spec.partition("@")[0] == "llm_reteval"


def triage_entry(score: Score) -> dict[str, Any]:
    """The counts of the cases, and Spearman's rho of the verdicts with Recall@k; of other scores nothing.

    "refined" leaves out the questions where recall erred: those of case A, B and C.
    """
    if not is_triaged(score.spec):
        return {}
    cases = Counter(outcome.case for outcome in score.outcomes if outcome.case is not None)
    refined = [outcome for outcome in score.outcomes if outcome.case not in RECALL_ERRED]
    return {
        "cases": dict(sorted(cases.items())),
        "spearman": {"all": _spearman(score.outcomes), "refined": _spearman(refined)},
    }


def case_entry(spec: str, outcome: Outcome) -> dict[str, str | None]:
    """The case of one example, and who lost it; of other scores nothing."""
    return {"case": outcome.case, "lost_by": outcome.lost_by} if is_triaged(spec) else {}


def triage_text(entry: Mapping[str, Any]) -> str:
    """A score's entry in a line: "cases A 2, C 5; Spearman with recall .58, refined .87"; what there is of it."""
    cases = ", ".join(f"{case} {count}" for case, count in entry.get("cases", {}).items())
    spearman = entry.get("spearman", {})
    both = [
        f"{name} {short(spearman[key])}"
        for key, name in (("all", "with recall"), ("refined", "refined"))
        if spearman.get(key) is not None
    ]
    parts = [f"cases {cases}" if cases else "", f"Spearman {', '.join(both)}" if both else ""]
    return "; ".join(part for part in parts if part)


def losses(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Who lost how many of these questions, most first; empty where nobody is known to have."""
    by = Counter(outcome.lost_by for outcome in outcomes if outcome.lost_by is not None)
    return dict(by.most_common())


def _spearman(outcomes: Sequence[Outcome]) -> float | None:
    pairs = [
        (outcome.value, outcome.evidence.recall)
        for outcome in outcomes
        if outcome.value is not None and outcome.evidence.recall is not None
    ]
    return spearman_rho([value for value, _ in pairs], [recall for _, recall in pairs])
