"""The questions that explain a verdict, with passages and answers, now and in the baseline."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from pytest_rageval.conversation import conversation_text
from pytest_rageval.datatypes import Example, Ranking
from pytest_rageval.gate.baseline import MAX_ANSWER_LENGTH
from pytest_rageval.gate.comparison import Comparison, ExamplePair
from pytest_rageval.gate.threshold_results import ThresholdResult
from pytest_rageval.plural import counted
from pytest_rageval.reports.document import QuestionEntry, QuestionsEntry
from pytest_rageval.reports.layout import field_lines, width, wrapped
from pytest_rageval.reports.notes import anomalies_entry, losses, why_all_zero
from pytest_rageval.scores import Evidence, Outcome, Score
from pytest_rageval.spool import Spool, spooled_map

__all__ = [
    "answer_before",
    "context_entry",
    "expected_entry",
    "expected_text",
    "explain",
    "failure_lines",
    "lost_by_text",
    "lost_entry",
    "question_lines",
    "questions_entry",
    "questions_text",
    "ranking_lines",
    "score_line",
    "score_text",
    "single_question_lines",
    "steps_entry",
    "worse_entry",
]

NAMED: Final = 8  # how many of the questions that are not shown are at least named
NOTHING: Final = "(nothing)"
MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def questions_entry(ruling: ThresholdResult, *, spool: Spool | None = None) -> dict[str, QuestionsEntry]:
    """The questions that explain a verdict: those that got worse than in the baseline, else those beyond a bound.

    Those beyond the bound also where the ones that got worse do not explain it: the baseline was below `min`
    too, and the drop is allowed; or the score is above `max`. Empty where no question explains it, so that
    it can be joined to a threshold's entry. With a spool the questions are in there.
    """
    comparison, beyond = _explaining(ruling), _beyond(ruling, spool)
    if comparison is not None and comparison.worse and (beyond is None or _explains(comparison, ruling)):
        entry = worse_entry(comparison, spool=spool)
        if ruling.early is not None and ruling.stopped_early:
            # The unchanged ones are no part of what was seen.
            entry["of"] = ruling.early.asked
        return {"questions": entry}
    return {} if beyond is None else {"questions": beyond}


def _explaining(ruling: ThresholdResult) -> Comparison | None:
    """The comparison that explains the verdict: with the anchor where the total drop alone is too large."""
    threshold, comparison, anchor = ruling.threshold, ruling.comparison, ruling.anchor
    if anchor is None or anchor.comparison.drop <= (threshold.max_total_drop or 0.0):
        return comparison
    allowed = threshold.max_drop
    dropped = comparison is not None and allowed is not None and comparison.drop > allowed
    return comparison if dropped else anchor.comparison


def _beyond(ruling: ThresholdResult, spool: Spool | None) -> QuestionsEntry | None:
    """The questions beyond the bound that the score has passed; None where it has passed none."""
    score, threshold = ruling.score, ruling.threshold
    if score is None or ruling.verdict.status != "fail":
        return None
    if threshold.min is not None and score < threshold.min:
        return lost_entry(score, threshold.min, below=True, spool=spool)
    if threshold.max is not None and score > threshold.max:
        return lost_entry(score, threshold.max, below=False, spool=spool)
    return None


def _explains(comparison: Comparison, ruling: ThresholdResult) -> bool:
    """Return True if the questions that got worse explain why a bound was exceeded."""
    least, allowed = ruling.threshold.min, ruling.threshold.max_drop
    if least is None or not ruling.threshold.uses_baseline or ruling.score is None or ruling.score >= least:
        return False
    return comparison.mean >= least or allowed is None or comparison.drop > allowed


def worse_entry(comparison: Comparison, *, spool: Spool | None = None) -> QuestionsEntry:
    """The examples that got worse than in the baseline, worst first, of `of` that can be compared."""
    worse = comparison.worse
    return {
        "why": "worse",
        **({} if comparison.before.pin is None else {"since": comparison.before.kind}),
        "of": comparison.n,
        "better": len(comparison.better),
        "lost_by": losses(change.outcome for change in worse),
        "listed": spooled_map(lambda change: _question(change.outcome, _before(change)), worse, spool),
    }


def lost_entry(score: Score, bound: float, *, below: bool, spool: Spool | None = None) -> QuestionsEntry:
    """The examples on the wrong side of a bound of the mean, worst first.

    An example is on the wrong side where its own score is: too low with `below`, else too high.
    """
    wrong = [
        outcome
        for outcome in score.outcomes
        if outcome.value is not None and (outcome.value < bound if below else outcome.value > bound)
    ]
    wrong.sort(key=lambda outcome: outcome.value or 0.0, reverse=not below)
    return {
        "why": "below" if below else "above",
        "bound": bound,
        "of": score.n,
        "lost_by": losses(wrong),
        "listed": spooled_map(lambda outcome: _question(outcome, {}), wrong, spool),
    }


def _question(outcome: Outcome, before: dict[str, Any]) -> QuestionEntry:
    """One question; keys without a value are left out, such as the answer of a ranking measure."""
    example, evidence = outcome.example, outcome.evidence
    ranking = evidence.ranking
    optional = {
        **context_entry(example),
        "steps": steps_entry(ranking),
        "gold": [gold.label for gold in example.relevant],
        "passages": _passages(outcome),
        "expected": expected_entry(evidence),
        "judge": evidence.explanation,
        "remark": evidence.remark if outcome.value is None or outcome.value < 1 else "",
        "unscored": outcome.unscored,
        "lost_by": outcome.lost_by,
        "case": outcome.case,
        "before": before,
    }
    question = {
        "id": example.id,
        "question": example.question,
        "score": outcome.value,
        **({} if ranking is None else {"retrieved": ranking.labels}),
        **({} if evidence.answer is None else {"answer": evidence.answer}),
        **{name: value for name, value in optional.items() if value},
    }
    return cast("QuestionEntry", question)


def context_entry(example: Example) -> dict[str, Any]:
    """The conversation before a question, a message a text, and its filters."""
    return {
        "history": conversation_text(example.history).splitlines(),
        "filters": dict(example.filters),
    }


def steps_entry(ranking: Ranking | None) -> list[dict[str, Any]]:
    """The searches behind a ranking; empty where the retriever names none."""
    steps = () if ranking is None else ranking.steps or ()
    return [{"query": step.query, "retrieved": step.labels} for step in steps]


def expected_entry(evidence: Evidence) -> dict[str, Any]:
    """Return the texts that an answer was compared with; empty if there are none."""
    return {"as": evidence.expected_as, "texts": list(evidence.expected)} if evidence.expected else {}


def _passages(outcome: Outcome) -> list[dict[str, Any]]:
    """The labelled passages: the label of each, and the answer from it alone."""
    evidence = outcome.evidence
    alone: Sequence[str] = evidence.answers_alone or [""] * len(evidence.labels)
    return [
        {"document": document.label, "label": label, **({"answer": answer} if answer else {})}
        # Not strict: most rankings have no labels.
        for label, document, answer in zip(evidence.labels, evidence.ranking or (), alone, strict=False)
    ]


def _before(change: ExamplePair) -> dict[str, Any]:
    now, kept = change.outcome, answer_before(change.old_answer, change.outcome.evidence.answer)
    return {
        "score": (now.value or 0.0) + change.drop,
        **({} if change.old_ranking is None else {"retrieved": list(change.old_ranking)}),
        **({} if kept is None else {"answer": kept}),
    }


def answer_before(kept: str | None, now: str | None) -> str | None:
    """The answer in the baseline, which keeps its beginning; the answer now where that is the same."""
    if now is not None and kept == " ".join(now.split())[:MAX_ANSWER_LENGTH]:
        return now
    return f"{kept}…" if kept is not None and len(kept) == MAX_ANSWER_LENGTH else kept


def questions_text(entry: QuestionsEntry) -> str:
    """Return the count: "32 of 91 questions got worse, 0 better", or "38 of 91 questions are below 0.85"."""
    some = f"{len(entry['listed'])} of {counted(entry['of'], 'question')}"
    if entry["why"] == "worse":
        since = f" since the {entry['since']}" if "since" in entry else ""
        return f"{some} got worse{since}, {entry['better']} better"
    verb = "is" if len(entry["listed"]) == 1 else "are"
    return f"{some} {verb} {entry['why']} {entry['bound']:g}"


def lost_by_text(entry: QuestionsEntry) -> str:
    """Return the number of lost questions by cause: "retriever 16, distraction 3"."""
    return ", ".join(f"{cause} {count}" for cause, count in entry["lost_by"].items())


def expected_text(expected: Mapping[str, Any]) -> str:
    """Join the texts that an answer was compared with: "five days | a week"; "Tulsa + Dallas" if all are wanted."""
    return (" + " if expected["as"] == "wanted" else " | ").join(expected["texts"])


def failure_lines(ruling: ThresholdResult, *, limit: int | None) -> list[str]:
    """The failure of a threshold: the reason, the score, the questions behind it, and why examples are unscored.

    At most `limit` questions are shown; None for all.
    """
    score = ruling.score
    if score is None:
        return [ruling.verdict.reason]
    lines = wrapped(f"{score.name}: {ruling.verdict.reason}", 2)
    tag = ruling.threshold.by
    if tag is not None and ruling.slices:
        failed = [str(each.threshold.where[tag]) for each in ruling.slices if each.verdict.status == "fail"]
        some = f"{len(failed)} of {len(ruling.slices)} values of {tag} fail"
        lines += wrapped(f"  {some}: {', '.join(failed)}", 4)
    if not ruling.stopped_early:
        lines += [*wrapped(score_line(score), 2), *zero_lines(score)]
    questions = questions_entry(ruling, spool=Spool()).get("questions")
    if questions is None:
        return lines + _reason_lines(score)
    # Compared with a baseline, the reason already tells of the examples without a score.
    reasons = [] if questions["why"] == "worse" else _reason_lines(score)
    return [*lines, *question_lines(questions, limit=limit), *reasons]


def explain(op: str, left: object, right: object, *, limit: int | None) -> list[str] | None:
    """Lines for the failed assertion `left op right`, the first as a summary; None where it holds no score."""
    if isinstance(left, Score) and isinstance(right, int | float) and op in {*MIRRORED, "=="}:
        return _assertion_lines(left, op, float(right), limit)
    if isinstance(right, Score) and isinstance(left, int | float) and op in MIRRORED:
        return _assertion_lines(right, MIRRORED[op], float(left), limit)
    if isinstance(right, Ranking) and op in {"in", "not in"}:
        return [f"{left!r} {op} the documents", *ranking_lines(right)]
    return None


def _assertion_lines(score: Score, op: str, bound: float, limit: int | None) -> list[str]:
    questions = lost_entry(score, bound, below=op in {">", ">=", "=="}, spool=Spool())
    return [
        f"{score.spec} {op} {bound:g}",
        score_line(score),
        *zero_lines(score),
        *question_lines(questions, limit=limit),
        *_reason_lines(score),
    ]


def zero_lines(score: Score) -> list[str]:
    """Why every question scores 0, where that can be told."""
    why = why_all_zero(anomalies_entry(score.outcomes)) if float(score) == 0 else ""
    return wrapped(why, 2) if why else []


def score_line(score: Score) -> str:
    """The score with what qualifies it: slice, interval, number of examples."""
    interval = score.ci95
    spread = "" if interval is None else f"95% interval {interval[0]:.3f} to {interval[1]:.3f}, "
    if score.spread is not None:
        spread += f"run-to-run spread {score.spread:.3f} over {len(score.repeats) + 1} runs, "
    unscored = f", {score.unscored} unscored" if score.unscored else ""
    undefined = f", {score.undefined} undefined" if score.undefined else ""
    return f"{score.name} = {score:.3f} ({spread}n = {score.n}{unscored}{undefined})"


def _reason_lines(score: Score) -> list[str]:
    """Why examples have no score, or none by its definition, with counts."""
    lines = []
    for kind, reasons in (("unscored", score.reasons), ("undefined", score.undefined_reasons)):
        if reasons:
            lines.append(f"{reasons.total()} {kind}:")
        for reason, count in reasons.most_common():
            lines.extend(wrapped(f"  {count} × {reason}", 4))
    return lines


def ranking_lines(ranking: Ranking) -> list[str]:
    """A ranking, one document per line: rank, id, the beginning of the text."""
    if not ranking.documents:
        return [f"nothing was retrieved for {ranking.query!r}"]
    lines, most = [f"retrieved for {ranking.query!r}:"], width.get()
    for rank, document in enumerate(ranking, 1):
        name = f"{document.id}: " if document.id is not None else ""
        line = f"  {rank}. {name}{' '.join(document.text.split())}"
        lines.append(line if len(line) <= most else f"{line[: most - 1]}…")
    return lines


def question_lines(
    questions: QuestionsEntry, *, limit: int | None = 10, more: str = "-vv shows them"
) -> list[str]:
    """The questions that explain a verdict, with gold, retrieved and answers, now and in the baseline.

    At most `limit` are shown, None for all; `more` says where a reader finds the others.
    """
    every = questions["listed"]
    shown = every if limit is None else every[:limit]
    lines = [f"{questions_text(questions)}:"]
    if questions["lost_by"]:
        lines.extend(wrapped(f"  lost by: {lost_by_text(questions)}", 4))
    for question in shown:
        lines.extend(single_question_lines(question))
    if rest := len(every) - len(shown):
        named = ", ".join(question["id"] for question in every[len(shown) : len(shown) + NAMED])
        lines.extend(wrapped(f"  and {rest} more ({more}): {named}{', …' if rest > NAMED else ''}", 4))
    return lines


def score_text(value: float) -> str:
    """The score of a question: in two decimals, or in two digits below 0.1, as of a time or a cost."""
    return f"{value:.2f}" if abs(value) >= 0.1 or not value else f"{value:.2g}"  # noqa: PLR2004 - two decimals suffice


def single_question_lines(question: QuestionEntry) -> Iterator[str]:
    """A question with its gold, what was retrieved and answered, now and before."""
    before = question.get("before", {})
    moved = f"{score_text(before['score'])} → " if before else ""
    yield from wrapped(
        f"  {question['id']}  {moved}{score_text(cast('float', question['score']))}  {question['question']}",
        6,
    )
    yield from _context_lines(question)
    if "gold" in question:
        yield from field_lines("gold", question["gold"])
    # Passages with labels show what was retrieved now, but not what was retrieved in the baseline.
    if "retrieved" in question and (before or "passages" not in question):
        then = ", ".join(before["retrieved"]) or NOTHING if "retrieved" in before else None
        yield from _then_and_now("retrieved", then, ", ".join(question["retrieved"]) or NOTHING)
    for number, step in enumerate(question.get("steps", ()), 1):
        yield from field_lines(
            f"step {number}", [f"{step['query']}: {', '.join(step['retrieved']) or NOTHING}"]
        )
    yield from _text_fields(question, unscored="unscored")
    if "answer" in question:
        yield from _then_and_now("answer", before.get("answer"), question["answer"])
    for rank, passage in enumerate(question.get("passages", ())):
        answer = f": {passage['answer']}" if "answer" in passage else ""
        label = "" if rank else "labels"
        yield from field_lines(label, [f"{passage['label']:.2g} {passage['document']}{answer}"])
    if "expected" in question:
        yield from field_lines(question["expected"]["as"], [expected_text(question["expected"])])
    yield from _text_fields(question, judge="judge", why="remark")
    lost_by, case = question.get("lost_by"), question.get("case")
    if lost_by is not None:
        yield from field_lines("lost by", [f"{lost_by} (case {case})" if case else lost_by])
    elif case is not None:
        yield from field_lines("case", [case])


def _context_lines(question: QuestionEntry) -> Iterator[str]:
    if "history" in question:
        yield from field_lines("after", question["history"], " / ")
    if "filters" in question:
        yield from field_lines("filters", [json.dumps(question["filters"], ensure_ascii=False)])


def _text_fields(question: QuestionEntry, **keys: str) -> Iterator[str]:
    """Those of the texts that the question has, by their labels."""
    texts = {label: question.get(key) for label, key in keys.items()}
    for label, text in texts.items():
        if text is not None:
            yield from field_lines(label, [str(text)])


def _then_and_now(label: str, then: str | None, now: str) -> Iterator[str]:
    """Both where they differ; a line each, since each may be long."""
    if then is not None and then != now:
        yield from field_lines(label, [then])
        label = "→"
    yield from field_lines(label, [now])
