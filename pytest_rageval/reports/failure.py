"""Why a score is out of its bounds: which questions were lost, and what came back instead."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_rageval.gate.ruling import Ruling
from pytest_rageval.model import Ranking
from pytest_rageval.reports.layout import WIDTH, field_lines, wrapped
from pytest_rageval.reports.questions import expected_text, lost_by_text, questions_entry, questions_text
from pytest_rageval.scores import Score

__all__ = ["failure_lines", "question_lines", "ranking_lines", "reason_lines", "score_line"]

NAMED: Final = 8
"""How many of the questions that are not shown are at least named."""
NOTHING: Final = "(nothing)"


def score_line(score: Score) -> str:
    """The score with what qualifies it: slice, interval, number of examples."""
    interval = score.ci95
    spread = "" if interval is None else f"95% interval {interval[0]:.3f} to {interval[1]:.3f}, "
    if score.spread is not None:
        spread += f"run-to-run spread {score.spread:.3f} over {len(score.repeats) + 1} runs, "
    unscored = f", {score.unscored} unscored" if score.unscored else ""
    undefined = f", {score.undefined} undefined" if score.undefined else ""
    return f"{score.name} = {score:.3f} ({spread}n = {score.n}{unscored}{undefined})"


def failure_lines(ruling: Ruling, *, limit: int | None) -> list[str]:
    """Everything about a score that is out of its bounds, in the order a reader wants it."""
    score = ruling.score
    if score is None:
        return [ruling.verdict.reason]
    lines = [
        *wrapped(f"{score.name}: {ruling.verdict.reason}", 2),
        *_slices(ruling),
        *wrapped(score_line(score), 2),
    ]
    questions = questions_entry(ruling).get("questions")
    if questions is None:
        return [*lines, *reason_lines(score)]
    # Against a baseline, what has no score is told with the reason.
    reasons = [] if questions["why"] == "worse" else reason_lines(score)
    return [*lines, *question_lines(questions, limit=limit), *reasons]


def _slices(ruling: Ruling) -> list[str]:
    """Which values of a tag fail, the worst first, which is told in full; nothing where the threshold is on none."""
    tag = ruling.threshold.by
    if tag is None or not ruling.slices:
        return []
    failed = [each for each in ruling.slices if each.verdict.status == "fail"]
    named = ", ".join(str(each.threshold.where[tag]) for each in failed)
    return wrapped(f"  {len(failed)} of {len(ruling.slices)} values of {tag} fail: {named}", 4)


def question_lines(
    questions: Mapping[str, Any], *, limit: int | None = 10, more: str = "-vv shows them"
) -> list[str]:
    """The questions that explain a verdict, with gold, retrieved and answers, then and now.

    Args:
        questions: as the report has them: `lost_entry` or `worse_entry`.
        limit: show at most this many of them; None for all.
        more: where a reader finds the others.

    Returns:
        Lines of at most 80 characters where words allow.
    """
    listed = questions["listed"]
    shown = listed if limit is None else listed[:limit]
    lines = [f"{questions_text(questions)}:"]
    if questions["lost_by"]:
        lines.extend(wrapped(f"  lost by: {lost_by_text(questions)}", 4))
    for question in shown:
        lines.extend(_question(question))
    return lines + _rest([question["id"] for question in listed[len(shown) :]], more)


def reason_lines(score: Score) -> list[str]:
    """Why examples have no score, or none by its definition, with counts."""
    lines = []
    for what, reasons in (("unscored", score.reasons), ("undefined", score.undefined_reasons)):
        if reasons:
            lines.append(f"{reasons.total()} {what}:")
        for reason, count in reasons.most_common():
            lines.extend(wrapped(f"  {count} × {reason}", 4))
    return lines


def ranking_lines(ranking: Ranking) -> list[str]:
    """A ranking, one document a line: rank, id, the beginning of the text."""
    if not ranking.documents:
        return [f"nothing was retrieved for {ranking.query!r}"]
    lines = [f"retrieved for {ranking.query!r}:"]
    for rank, document in enumerate(ranking, 1):
        name = f"{document.id}: " if document.id is not None else ""
        line = f"  {rank}. {name}{' '.join(document.text.split())}"
        lines.append(line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…")
    return lines


def _rest(names: Sequence[str], more: str) -> list[str]:
    """The questions that are not shown, by name."""
    if not names:
        return []
    named = ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")
    return wrapped(f"  and {len(names)} more ({more}): {named}", 4)


def _question(question: Mapping[str, Any]) -> Iterator[str]:
    before = question.get("before", {})
    moved = f"{before['score']:.2f} → " if before else ""
    yield from wrapped(f"  {question['id']}  {moved}{question['score']:.2f}  {question['question']}", 6)
    if "gold" in question:
        yield from field_lines("gold", question["gold"])
    # Where passages have labels, these tell what was retrieved; not so what was before.
    if "retrieved" in question and (before or "passages" not in question):
        then = ", ".join(before["retrieved"]) or NOTHING if "retrieved" in before else None
        yield from _then_and_now("retrieved", then, ", ".join(question["retrieved"]) or NOTHING)
    if "unscored" in question:
        yield from field_lines("unscored", [question["unscored"]])
    if "answer" in question:
        yield from _then_and_now("answer", before.get("answer"), question["answer"])
    yield from _judged(question)


def _then_and_now(label: str, then: str | None, now: str) -> Iterator[str]:
    """Both where they differ; a line each, since each may be long."""
    if then is None or then == now:
        yield from field_lines(label, [now])
    else:
        yield from field_lines(label, [then])
        yield from field_lines("→", [now])


def _judged(question: Mapping[str, Any]) -> Iterator[str]:
    """What the answer was compared with, what the judge says to it, and who lost the question."""
    for rank, passage in enumerate(question.get("passages", ())):
        said = f": {passage['answer']}" if "answer" in passage else ""
        label = "" if rank else "labels"
        yield from field_lines(label, [f"{passage['label']:.2g} {passage['document']}{said}"])
    if "expected" in question:
        yield from field_lines(question["expected"]["as"], [expected_text(question["expected"])])
    if "judge" in question:
        yield from field_lines("judge", [question["judge"]])
    lost_by, case = question.get("lost_by"), question.get("case")
    if lost_by is not None:
        yield from field_lines("lost by", [f"{lost_by} (case {case})" if case else lost_by])
    elif case is not None:
        yield from field_lines("case", [case])
