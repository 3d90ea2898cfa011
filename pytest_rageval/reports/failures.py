"""Writes why a test failed: what fell, the likely cause, and each lost question once with all its scores."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pytest_rageval.core.outcome import Outcome, Score
from pytest_rageval.core.ranking import Ranking
from pytest_rageval.core.spec import score_name
from pytest_rageval.gate.comparison import ExamplePair
from pytest_rageval.gate.verdict import ThresholdResult
from pytest_rageval.lib.lazy import Lazy
from pytest_rageval.reports.anomalies import all_zero_hint
from pytest_rageval.reports.causes import cause_text
from pytest_rageval.reports.document import QuestionEntry
from pytest_rageval.reports.layout import cut_line, width, wrap_text
from pytest_rageval.reports.questions import (
    NOTHING,
    Explanation,
    beyond_bound,
    change_of_score_text,
    detail_lines,
    expected_text,
    explain,
    question_entry,
)

ceiling_notes: Final = Lazy("scores.llm_reteval", "ceiling_notes")
ceiling_text: Final = Lazy("scores.llm_reteval", "ceiling_text")

MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The operator that gives the same comparison when the operands are swapped."""

MAX_ID_WIDTH: Final = 24
MIN_QUESTION_WIDTH: Final = 16  # columns that a question gets, whatever the number of scores

MAX_LINES: Final = {-1: 9, 0: 22}
"""Number of lines of a test's failure, by verbosity. pytest adds its title, its place and an empty line."""

MIN_LINES: Final = 8  # of a test's failure after many others; each of them takes `STEP` lines away
STEP: Final = 4

ASSERTION_INDENT: Final = len("E     ")  # before each line of the explanation, by pytest


class Room(NamedTuple):
    lines: int | None = None  # None for all questions
    full: bool = False  # whether a question has all that is known of it, uncut

    @classmethod
    def of(cls, verbosity: int, failures: int) -> "Room":
        """Return how much a failure shows; less after several failures, so that the run fits a screen or two."""
        if verbosity > 0:
            return cls(None, full=verbosity > 1)
        lines = MAX_LINES[max(verbosity, -1)]
        return cls(max(min(MIN_LINES, lines), lines - STEP * failures))


@dataclass(slots=True)
class LostQuestion:
    losses: list[tuple[Outcome, ExamplePair | None]] = field(default_factory=list)
    scores: dict[str, tuple[float | None, float | None]] = field(default_factory=dict)

    @property
    def drop(self) -> float:
        return sum(then - (now or 0.0) for then, now in self.scores.values() if then is not None)

    @property
    def entry(self) -> QuestionEntry:
        """What is known of the question from all its scores; of several rankings the longest, and each remark."""
        entries = [question_entry(*loss) for loss in self.losses]
        entries.sort(key=lambda entry: len(entry.get("retrieved", ())))
        merged: dict[str, Any] = {}
        for entry in entries:
            merged |= {**entry, "before": {**merged.get("before", {}), **entry.get("before", {})}}
        if remarks := dict.fromkeys(entry["remark"] for entry in entries if "remark" in entry):
            merged["remark"] = "; ".join(remarks)
        return merged  # type: ignore[return-value]


def failure_lines(
    results: Sequence[ThresholdResult], room: Room, *, report: str = "", after: Sequence[str] = ()
) -> list[str]:
    explained = [(result.score, explain(result)) for result in results if result.score is not None]
    sentences = [_sentence_lines(result) for result in results]
    kept = sentences
    if room.lines is not None:
        # At least one question of four lines follows.
        kept = [
            lines for n, lines in enumerate(sentences) if sum(map(len, sentences[: n + 1])) <= room.lines // 2
        ]
        kept = kept or [_sentence_lines(results[0], ceiling=False)]
    head = [line for lines in kept for line in lines]
    if others := [
        result.threshold.name if result.score is None else result.score.name
        for result in results[len(kept) :]
    ]:
        head.append(cut_line(f"{len(others)} more failed: {', '.join(others)}"))
    if cause := cause_text(explained):
        head += wrap_text(f"Likely cause: {cause}", 2)
    if room.lines is None:
        head += [
            line
            for score, _ in explained
            for line in (*wrap_text(score_line(score), 2), *_reason_lines(score))
        ]
    return [*head, *_question_block(explained, room, len(head) + len(after), report), *after]


def _sentence_lines(result: ThresholdResult, *, ceiling: bool = True) -> list[str]:
    """Return why a threshold failed; the ceiling of its score, which explains no failure, only where there is room."""
    score, threshold = result.score, result.threshold
    if score is None:
        return result.verdict.reason.splitlines()
    reason = result.verdict.reason
    text = f"{score.name}{' ' if reason.startswith(('fell ', 'rose ')) else ': '}{reason}"
    explanation = explain(result)
    # The sentence on a drop has the number of lost questions, except where the evaluation stopped early.
    if explanation is not None and (explanation.comparison is None or result.stopped_early):
        text += f": {explanation}"
    lines = wrap_text(text, 2)
    if threshold.by is not None and result.slices:
        failed = [
            str(part.threshold.where[threshold.by]) for part in result.slices if part.verdict.status == "fail"
        ]
        some = f"{len(failed)} of {len(result.slices)} values of {threshold.by} fail"
        lines += wrap_text(f"  {some}: {', '.join(failed)}", 4)
    if ceiling and (notes := ceiling_notes(score)):
        lines += wrap_text(f"  {ceiling_text(notes)}", 4)
    return [*lines, *zero_lines(score)]


def lost_questions(explained: Sequence[tuple[Score, Explanation | None]]) -> dict[str, LostQuestion]:
    """Return the questions that explain failures, by id, the largest losses first."""
    lost: dict[str, LostQuestion] = {}
    for _, explanation in explained:
        for loss in explanation.losses if explanation else ():
            lost.setdefault(loss[0].example.id, LostQuestion()).losses.append(loss)
    for score, explanation in explained:
        comparison = explanation and explanation.comparison
        column = score_name(score.spec, score.keywords)
        # Where the retriever failed, the pair has the value that counts.
        for pair in comparison.pairs if comparison else ():
            if question := lost.get(pair.outcome.example.id):
                now = pair.outcome.value or 0.0
                question.scores[column] = now + pair.drop, now
        # A slice has the same scores as the whole set, and perhaps no comparison.
        for outcome in score.outcomes:
            if question := lost.get(outcome.example.id):
                question.scores.setdefault(column, (None, outcome.value))
    return dict(sorted(lost.items(), key=lambda item: (-item[1].drop, -len(item[1].losses))))


def _question_block(
    explained: Sequence[tuple[Score, Explanation | None]], room: Room, used: int, report: str
) -> list[str]:
    lost = lost_questions(explained)
    if not lost:
        return []
    columns = list(dict.fromkeys(column for question in lost.values() for column in question.scores))
    rows, names = _Rows(columns, lost), list(lost)
    lines, shown = [rows.head], 0
    for question in lost.values():
        block = [
            rows.line(question),
            *(detail_lines(question.entry) if room.full else _brief_lines(question)),
        ]
        # The last line says how many are left.
        if room.lines is not None and used + len(lines) + len(block) + 1 > room.lines:
            break
        lines += block
        shown += 1
    lines = lines if shown else []
    where = f"report: {report}" if report else ""
    if rest := names[shown:]:
        hint = "; ".join(filter(None, ["-v shows all", where]))
        lines.append(cut_line(f"{len(rest)} {'more' if shown else 'lost'} ({hint}): {', '.join(rest)}"))
    elif where:
        lines.append(where)
    return lines


class _Rows:
    def __init__(self, columns: Sequence[str], lost: Mapping[str, LostQuestion]) -> None:
        self._id_width = min(MAX_ID_WIDTH, max(map(len, lost)))
        left = width.get() - self._id_width - MIN_QUESTION_WIDTH - 4
        self._widths: dict[str, int] = {}
        for column in columns:
            texts = (_cell(question.scores.get(column)) for question in lost.values())
            self._widths[column] = max(len(column), *map(len, texts))
            left -= self._widths[column] + 2
            if left < 0 and len(self._widths) > 1:
                del self._widths[column]
                break
        more = len(columns) - len(self._widths)
        names = "  ".join(name.ljust(size) for name, size in self._widths.items())
        self.head = cut_line(
            f"  {'':<{self._id_width}}  {names}{f'  {more} more scores' if more else ''}".rstrip()
        )

    def line(self, question: LostQuestion) -> str:
        example = question.losses[0][0].example
        cells = (_cell(question.scores.get(name)).ljust(size) for name, size in self._widths.items())
        text = " ".join(example.question.split())
        return cut_line(f"  {example.id:<{self._id_width}}  {'  '.join(cells)}  {text}")


def _cell(scores: tuple[float | None, float | None] | None) -> str:
    return "-" if scores is None else change_of_score_text(*scores)


def _brief_lines(question: LostQuestion) -> Iterator[str]:
    """Yield a line for the gold passages, the rankings and the answers of a question, cut to the width."""
    entry = question.entry
    before = entry.get("before", {})
    texts = {"gold": ", ".join(entry.get("gold", ()))}
    for label, ranking in (("before", before.get("retrieved")), ("now", entry.get("retrieved"))):
        texts[label] = "" if ranking is None else ", ".join(ranking) or NOTHING
    if texts["before"] == texts["now"]:
        del texts["before"]
    if "answer" in entry:
        then = before.get("answer")
        texts["answer"] = (
            f"{then} → {entry['answer']}" if then not in {None, entry["answer"]} else entry["answer"]
        )
    else:
        texts["why"] = entry.get("remark", "")
    if "expected" in entry:
        texts[entry["expected"]["as"]] = expected_text(entry["expected"])
    texts["unscored"] = entry.get("unscored") or ""
    for label, text in texts.items():
        if text:
            yield cut_line(f"      {label:<9} {' '.join(text.split())}")


def explain_assertion(op: str, left: object, right: object, room: Room) -> list[str] | None:
    token = width.set(width.get() - ASSERTION_INDENT)
    try:
        if isinstance(left, Score) and isinstance(right, int | float) and op in {*MIRRORED, "=="}:
            return _assertion_lines(left, op, float(right), room)
        if isinstance(right, Score) and isinstance(left, int | float) and op in MIRRORED:
            return _assertion_lines(right, MIRRORED[op], float(left), room)
        if isinstance(right, Ranking) and op in {"in", "not in"}:
            return [f"{left!r} {op} the documents", *ranking_lines(right)]
        return None
    finally:
        width.reset(token)


def _assertion_lines(score: Score, op: str, bound: float, room: Room) -> list[str]:
    explanation = beyond_bound(score, bound, below=op in {">", ">=", "=="})
    comparison, text = f"{score.spec} {op} {bound:g}", f"{score.name} is {score:.3f}: {explanation}"
    if room.lines is None:
        head = [*wrap_text(text, 2), *zero_lines(score), *wrap_text(score_line(score), 2)]
        questions = _question_block([(score, explanation)], room, 0, "")
        return [comparison, *head, *_reason_lines(score), *questions]
    names = [outcome.example.id for outcome, _ in explanation.losses]
    return [comparison, cut_line(f"{text} (-v shows all): {', '.join(names)}"), *zero_lines(score)]


def zero_lines(score: Score) -> list[str]:
    """Return the reason why every question scores 0 in lines; empty if the mean is not 0 or the reason is unknown."""
    reason = all_zero_hint(score) if float(score) == 0 else ""
    return wrap_text(reason, 2) if reason else []


def score_line(score: Score) -> str:
    """Return the score with its interval and its numbers of examples: "recall@3 = 0.593 (95% interval …, n = 91)"."""
    interval = score.ci95
    spread = "" if interval is None else f"95% interval {interval[0]:.3f} to {interval[1]:.3f}, "
    if score.spread is not None:
        spread += f"run-to-run spread {score.spread:.3f} over {len(score.repeats) + 1} runs, "
    unscored = f", {score.unscored} unscored" if score.unscored else ""
    undefined = f", {score.undefined} undefined" if score.undefined else ""
    return f"{score.name} = {score:.3f} ({spread}n = {score.n}{unscored}{undefined})"


def _reason_lines(score: Score) -> list[str]:
    lines = []
    for kind, reasons in (("unscored", score.reasons), ("undefined", score.undefined_reasons)):
        if reasons:
            lines.append(f"{reasons.total()} {kind}:")
        for reason, count in reasons.most_common():
            lines.extend(wrap_text(f"  {count} × {reason}", 4))
    return lines


def ranking_lines(ranking: Ranking) -> list[str]:
    if not ranking.documents:
        return [f"nothing was retrieved for {ranking.query!r}"]
    lines, max_length = [f"retrieved for {ranking.query!r}:"], width.get()
    for rank, document in enumerate(ranking, 1):
        name = f"{document.id}: " if document.id is not None else ""
        line = f"  {rank}. {name}{' '.join(document.text.split())}"
        lines.append(line if len(line) <= max_length else f"{line[: max_length - 1]}…")
    return lines
