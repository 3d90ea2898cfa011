"""The page of `rageval diff --html`: the HTML report, with the first report instead of the baseline."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_rageval.cli.report_diff import Difference, Report, signed
from pytest_rageval.plural import counted
from pytest_rageval.reports.html import Fact, html_page
from pytest_rageval.reports.question_rows import to_evaluated_question
from pytest_rageval.reports.results import CHANGING

__all__ = ["diff_page"]

ALPHA: Final = 0.05  # from this p-value down a score is called worse or better

WORDS: Final = ("worse", "unclear", "better", "same")
"""The possible changes of a score, the most urgent first."""

NOT_ASKED: Final = {"requests": 0, "cached": 0, "live": 0, "failed": 0, "cut": 0, "remarks": {}}

OF_BEFORE: Final = ("before", "before_answer", "before_retrieved")
"""Keys of an example that compare it with the baseline of its own run."""


def diff_page(before: Report, after: Report, compared: Sequence[Difference], notes: Sequence[str]) -> str:
    """All scores and questions of both reports, with filters and search as in a report of a run."""
    nodeids = dict.fromkeys(each.key.nodeid for each in compared)
    tests = [
        _test([each for each in compared if each.key.nodeid == nodeid], before, after) for nodeid in nodeids
    ]
    tests.sort(key=lambda test: WORDS.index(test["outcome"]))
    words = [_word(each) for each in compared]
    counts = [f"{words.count(word)} {word}" for word in WORDS if word in words]
    title = (
        f"rageval diff: {', '.join(counts)} of {counted(len(words), 'score')}" if words else "rageval diff"
    )
    return html_page(
        {"tests": tests, "llm": NOT_ASKED, "matrix": [], "ratings": []},
        title=title,
        overall=next((word for word in WORDS if word in words), "same"),
        facts=[_fact("Baseline", before), _fact("Compared with it", after)],
        warnings=notes,
    )


def _word(each: Difference) -> str:
    """The change of a score: "worse" or "better" if the difference is significant.

    It is "unclear" also where no question has two scores, as after an error.
    """
    difference, _, p_value = each.tested
    if difference is None or p_value is None:
        return "unclear"
    if not each.gained and not each.lost:
        return "same"
    if p_value > ALPHA:
        return "unclear"
    return "worse" if (difference > 0) == each.is_cost else "better"


def _fact(name: str, report: Report) -> Fact:
    """Describe a report by its file, branch and commit, start time and models."""
    document, run = report.document, report.document.get("run", {})
    settings = document.get("settings", {})
    parts = [
        report.name,
        " at ".join(filter(None, (run.get("branch"), (run.get("commit") or "")[:12]))),
        str(document.get("started", "")).replace("T", " "),
        *(f"{part} {settings[part]}" for part in ("generator", "judge") if settings.get(part)),
    ]
    return Fact(name, ", ".join(filter(None, parts)))


def _test(compared: Sequence[Difference], before: Report, after: Report) -> dict[str, Any]:
    """A test as a report has it: of the second report, with what both differ in."""
    first, second = compared[0].before.test, compared[0].after.test
    questions: dict[str, Mapping[str, Any]] = {}
    for test in (second, first):
        for known in test.get("questions", ()):
            questions.setdefault(str(known["id"]), known)
    for each in compared:
        for side in (each.after, each.before):
            for one, seen in side.seen.items():
                questions.setdefault(one, to_evaluated_question({"id": one, "question": "", **seen}))
    evalset = second.get("evalset") or {}
    words = [_word(each) for each in compared]
    return {
        "nodeid": compared[0].key.nodeid,
        "outcome": next(word for word in WORDS if word in words),
        "evalset": evalset if {"name", "size"} <= evalset.keys() else None,
        "scores": [_score(each, before, after) for each in compared],
        "questions": list(questions.values()),
    }


def _score(each: Difference, before: Report, after: Report) -> dict[str, Any]:
    entry, (difference, interval, p_value) = each.after.entry, each.tested
    words = {name: entry[name] for name in CHANGING if entry.get(name) is not None}
    numbers = {name: entry.get(name, 0) for name in ("n", "unscored", "undefined")}
    comparison = None
    if difference is not None and interval is not None:
        comparison = {
            "mean": each.before.mean or 0.0,
            "drop": -difference,
            "n": len(each.differences),
            # The reason names what is left out.
            "left_out": 0,
            "unscored": 0,
            "interval": [-interval[1], -interval[0]],
            "p_value": p_value,
            "worse": each.lost,
            "better": each.gained,
        }
    return {
        "spec": each.key.spec,
        **words,
        "where": entry["where"],
        "mean": each.after.mean,
        "ci95": entry.get("ci95"),
        **numbers,
        "oddities": {},
        "threshold": None,
        "baseline": comparison,
        "verdict": _word(each),
        "reason": _reason(each, before, after),
        "examples": [*_examples(each), *_gone(each, after)],
    }


def _reason(each: Difference, before: Report, after: Report) -> str:
    """The test, and what is not compared."""
    difference, interval, p_value = each.tested
    parts = [
        f"not computed in {report.name}: {error}"
        for report, error in zip((before, after), each.errors, strict=True)
        if error is not None
    ]
    parts += [
        f"{counted(len(ids), 'question')} {text}"
        for ids, text in (
            (each.only_before, f"only in {before.name}"),
            (each.only_after, f"only in {after.name}"),
            (each.unscored, "unscored in one of them or in both"),
        )
        if ids
    ]
    if difference is None or interval is None:
        return "; ".join(["no question has two scores", *parts])
    low, high = map(signed, interval)
    test = f"difference {signed(difference)}, 95% interval {low} to {high}, p = {p_value:.2g}"
    changes = f"{len(each.gained)} gained, {len(each.lost)} lost, {each.same} same"
    return "; ".join([test, changes, *parts])


def _examples(each: Difference) -> Iterator[dict[str, Any]]:
    for example in each.after.entry["examples"]:
        one = str(example["id"])
        now, then = each.after.seen[one], each.before.seen.get(one, {})
        kept = {name: value for name, value in example.items() if name not in OF_BEFORE}
        said = {name: now[name] for name in ("answer", "expected", "remark") if name in now}
        changed = {
            f"before_{name}": then[name]
            for name in ("answer", "retrieved")
            if name in then and then[name] != now.get(name)
        }
        value = each.before.values.get(one)
        yield {**said, **kept, "id": one, **changed, **({} if value is None else {"before": value})}


def _gone(each: Difference, after: Report) -> Iterator[dict[str, Any]]:
    """The questions that only the first report has, without a score."""
    for one in each.only_before:
        value = each.before.values[one]
        gone = {"id": one, "score": None, "unscored": f"not in {after.name}"}
        yield gone if value is None else {**gone, "before": value}
