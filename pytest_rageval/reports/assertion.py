"""What pytest prints where an assertion on a score or a ranking failed."""

from typing import Final

from pytest_rageval.model import Ranking
from pytest_rageval.reports.failure import question_lines, ranking_lines, reason_lines, score_line
from pytest_rageval.reports.questions import lost_entry
from pytest_rageval.scores import Score

__all__ = ["explain"]

MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def explain(op: str, left: object, right: object, *, limit: int | None) -> list[str] | None:
    """Lines for `left op right`, the first as a summary; None where it is no matter of ours."""
    if isinstance(left, Score) and isinstance(right, int | float) and op in {*MIRRORED, "=="}:
        return _score(left, op, float(right), limit)
    if isinstance(right, Score) and isinstance(left, int | float) and op in MIRRORED:
        return _score(right, MIRRORED[op], float(left), limit)
    if isinstance(right, Ranking) and op in {"in", "not in"}:
        return [f"{left!r} {op} the documents", *ranking_lines(right)]
    return None


def _score(score: Score, op: str, bound: float, limit: int | None) -> list[str]:
    below = op in {">", ">=", "=="}
    lines = [f"{score.spec} {op} {bound:g}", score_line(score)]
    lost = question_lines(lost_entry(score, bound, below=below), limit=limit)
    return [*lines, *lost, *reason_lines(score)]
