"""The page of `rageval diff --html`: an HTML report of the second report, with the first report as its baseline."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_rageval.extensions.report_diff.diff import Report, ScoreComparison, format_change
from pytest_rageval.lib.text import counted
from pytest_rageval.reports.build import SCORE_KEYWORDS
from pytest_rageval.reports.html.page import Fact, html_page
from pytest_rageval.reports.html.question_rows import to_evaluated_question

ALPHA: Final = 0.05  # a score with a p-value up to this is called worse or better

CHANGES: Final = ("worse", "unclear", "better", "same")
"""The possible changes of a score, the most urgent first."""

NO_REQUESTS: Final[dict[str, Any]] = {
    "requests": 0,
    "cached": 0,
    "live": 0,
    "failed": 0,
    "cut": 0,
    "remarks": {},
}

BASELINE_KEYS: Final = ("before", "before_answer", "before_retrieved")
"""Keys of an example that compare it with the baseline of its own run."""


def diff_page(
    before: Report, after: Report, comparisons: Sequence[ScoreComparison], notes: Sequence[str]
) -> str:
    """Return an HTML page with all scores and questions of both reports, laid out as the HTML report of a run."""
    nodeids = dict.fromkeys(comparison.key.nodeid for comparison in comparisons)
    tests = [
        _test_entry(
            [comparison for comparison in comparisons if comparison.key.nodeid == nodeid], before, after
        )
        for nodeid in nodeids
    ]
    tests.sort(key=lambda test: CHANGES.index(test["outcome"]))
    changes = [_change(comparison) for comparison in comparisons]
    counts = [f"{changes.count(change)} {change}" for change in CHANGES if change in changes]
    title = (
        f"rageval diff: {', '.join(counts)} of {counted(len(changes), 'score')}"
        if changes
        else "rageval diff"
    )
    return html_page(
        {"tests": tests, "llm": NO_REQUESTS, "matrix": [], "ratings": []},
        title=title,
        overall=next((change for change in CHANGES if change in changes), "same"),
        facts=[_fact("Baseline", before), _fact("Compared with it", after)],
        warnings=notes,
    )


def _change(comparison: ScoreComparison) -> str:
    """Return the change of a score, one of `CHANGES`.

    It is "worse" or "better" only if the difference is significant. It is "unclear" if the difference is not
    significant, or if no question is scored in both reports, as after an error.
    """
    difference, _, p_value = comparison.test_result
    if difference is None or p_value is None:
        return "unclear"
    if not comparison.gained and not comparison.lost:
        return "same"
    if p_value > ALPHA:
        return "unclear"
    return "worse" if (difference > 0) == comparison.is_cost else "better"


def _fact(name: str, report: Report) -> Fact:
    document, run = report.document, report.document.get("run", {})
    settings = document.get("settings", {})
    parts = [
        report.name,
        " at ".join(filter(None, (run.get("branch"), (run.get("commit") or "")[:12]))),
        str(document.get("started", "")).replace("T", " "),
        *(
            f"{role} {settings[role]}"
            for role in ("generator", "judge")
            if settings.get(role) not in {None, "canonical"}
        ),
    ]
    return Fact(name, ", ".join(filter(None, parts)))


def _test_entry(comparisons: Sequence[ScoreComparison], before: Report, after: Report) -> dict[str, Any]:
    """Return the entry of a test for the page: that of the second report, compared with the first."""
    first, second = comparisons[0].before.test, comparisons[0].after.test
    questions: dict[str, Mapping[str, Any]] = {}
    for test in (second, first):
        for question in test.get("questions", ()):
            questions.setdefault(str(question["id"]), question)
    for comparison in comparisons:
        for score in (comparison.after, comparison.before):
            for identifier, data in score.questions.items():
                questions.setdefault(
                    identifier, to_evaluated_question({"id": identifier, "question": "", **data})
                )
    evalset = second.get("evalset") or {}
    changes = [_change(comparison) for comparison in comparisons]
    return {
        "nodeid": comparisons[0].key.nodeid,
        "outcome": next(change for change in CHANGES if change in changes),
        "evalset": evalset if {"name", "size"} <= evalset.keys() else None,
        "scores": [_score_entry(comparison, before, after) for comparison in comparisons],
        "questions": list(questions.values()),
    }


def _score_entry(comparison: ScoreComparison, before: Report, after: Report) -> dict[str, Any]:
    entry, (difference, interval, p_value) = comparison.after.entry, comparison.test_result
    keywords = {name: entry[name] for name in SCORE_KEYWORDS if entry.get(name) is not None}
    numbers = {name: entry.get(name, 0) for name in ("n", "unscored", "undefined")}
    baseline = None
    if difference is not None and interval is not None:
        baseline = {
            "mean": comparison.before.mean or 0.0,
            "drop": -difference,
            "n": len(comparison.differences),
            # `reason` below says what is left out.
            "left_out": 0,
            "unscored": 0,
            "interval": [-interval[1], -interval[0]],
            "p_value": p_value,
            # The interval is two-sided, and `alpha` is the error probability of each bound.
            "alpha": ALPHA / 2,
            "worse": comparison.lost,
            "better": comparison.gained,
        }
    return {
        "spec": comparison.key.spec,
        **keywords,
        "where": entry["where"],
        "mean": comparison.after.mean,
        "ci95": entry.get("ci95"),
        **numbers,
        "oddities": {},
        "threshold": None,
        "baseline": baseline,
        "verdict": _change(comparison),
        "reason": _reason(comparison, before, after),
        "examples": [*_examples(comparison), *_removed_examples(comparison, after)],
    }


def _reason(comparison: ScoreComparison, before: Report, after: Report) -> str:
    """Describe the result of the test, and the questions that are not compared."""
    difference, interval, p_value = comparison.test_result
    parts = [
        f"not computed in {report.name}: {error}"
        for report, error in zip((before, after), comparison.errors, strict=True)
        if error is not None
    ]
    parts += [
        f"{counted(len(ids), 'question')} {text}"
        for ids, text in (
            (comparison.only_before, f"only in {before.name}"),
            (comparison.only_after, f"only in {after.name}"),
            (comparison.unscored, "unscored in one of them or in both"),
        )
        if ids
    ]
    if difference is None or interval is None:
        return "; ".join(["no question has two scores", *parts])
    low, high = map(format_change, interval)
    test = f"difference {format_change(difference)}, 95% interval {low} to {high}, p = {p_value:.2g}"
    changes = f"{len(comparison.gained)} gained, {len(comparison.lost)} lost, {comparison.same} same"
    return "; ".join([test, changes, *parts])


def _examples(comparison: ScoreComparison) -> Iterator[dict[str, Any]]:
    """Yield the entry of each question in the second report, with its score, answer and passages in the first."""
    for example in comparison.after.entry["examples"]:
        identifier = str(example["id"])
        now = comparison.after.questions[identifier]
        then = comparison.before.questions.get(identifier, {})
        own = {name: value for name, value in example.items() if name not in BASELINE_KEYS}
        outcome = {name: now[name] for name in ("answer", "expected", "remark") if name in now}
        changed = {
            f"before_{name}": then[name]
            for name in ("answer", "retrieved")
            if name in then and then[name] != now.get(name)
        }
        value = comparison.before.values.get(identifier)
        yield {
            **outcome,
            **own,
            "id": identifier,
            **changed,
            **({} if value is None else {"before": value}),
        }


def _removed_examples(comparison: ScoreComparison, after: Report) -> Iterator[dict[str, Any]]:
    """Yield the entry of each question that only the first report has; it has no score."""
    for identifier in comparison.only_before:
        value = comparison.before.values[identifier]
        entry = {"id": identifier, "score": None, "unscored": f"not in {after.name}"}
        yield entry if value is None else {**entry, "before": value}
