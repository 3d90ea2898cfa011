"""The verdict texts in docs/explanation/gate.md. `RAGEVAL_DOCS=update` writes them."""

import os
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_rageval.baseline.entries import AnchorPin
from pytest_rageval.core.outcome import Score
from pytest_rageval.core.policy import policies_of
from pytest_rageval.gate.judge import evaluate_thresholds
from pytest_rageval.gate.threshold import Threshold
from pytest_rageval.gate.verdict import BaselineLookup, ThresholdInput, ThresholdResult
from pytest_rageval.reports.suite import contribution, suite_entry, suite_lines
from tests.unit.gate.scored import Values, before_of, numbered, score_of

UPDATE = os.environ.get("RAGEVAL_DOCS") == "update"
PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "gate.md"
START, END = "<!-- verdict texts -->\n", "<!-- end of verdict texts -->\n"
WIDTH, MAX_LINES = 80, 4

POLICIES = policies_of({"total": {"max_total_drop": 0.05}, "interval": {"bounds": "interval"}})


def _judged(  # noqa: PLR0913 - what a verdict depends on
    now: Values,
    before: Values | None = None,
    *,
    tests: int = 1,
    deterministic: bool = False,
    lookup: BaselineLookup | None = None,
    score: Score | None = None,
    **keywords: object,
) -> str:
    threshold = Threshold.parse(("recall@3",), keywords, policies=POLICIES)
    lookup = lookup or BaselineLookup({}, None if before is None else before_of(before))
    lookup = replace(lookup, deterministic=deterministic)
    [result] = evaluate_thresholds(
        [ThresholdInput(score or score_of(now), threshold, lookup)], family_size=tests
    )
    assert isinstance(result, ThresholdResult)
    assert result.stopped_early is False
    verdict = result.verdict
    status = "green, with a warning" if verdict.status == "inconclusive" else verdict.status
    return f"{status}: {verdict.reason.removeprefix('recall@3: ')}"


def _suite() -> str:
    contributions = {}
    for n in range(50):
        values = {f"t{n}-{name}": value for name, value in numbered(30, 0).items()}
        lost = dict.fromkeys([*values][:2], 0.0)
        [result] = evaluate_thresholds(
            [
                ThresholdInput(
                    score_of(values | lost),
                    Threshold("recall@3", max_drop=0.02),
                    BaselineLookup({}, before_of(values)),
                )
            ],
            family_size=50,
        )
        assert isinstance(result, ThresholdResult)
        part = contribution([result], gated=50)
        assert part is not None
        contributions[f"test_topics.py::test_{n}"] = part
    line, _remedy = suite_lines(suite_entry(contributions, seed=0))
    return line


def _repeated() -> str:
    names = numbered(60, 0)
    runs = [score_of(names | {"q17": 0.0}).outcomes] * 5
    score = Score("recall@3", runs[0], repeats=runs[1:])
    lookup = BaselineLookup({}, replace(before_of(names), runs=5))
    return _judged({}, score=score, lookup=lookup, max_drop=0.02)


def _flipping() -> str:
    first, second = score_of(numbered(26, 4)), score_of(numbered(25, 5))
    score = Score("recall@3", first.outcomes, repeats=[second.outcomes])
    [result] = evaluate_thresholds(
        [ThresholdInput(score, Threshold("recall@3", min=0.84), BaselineLookup({}, None))]
    )
    assert isinstance(result, ThresholdResult)
    [warning] = result.verdict.warnings
    return f"pass, with a warning: {warning}"


GRADED = {f"q{n}": 0.8 for n in range(40)}
TOTAL = BaselineLookup(
    {},
    before_of(numbered(88, 12)),
    anchor=replace(before_of(numbered(100, 0)), pin=AnchorPin("1a2b3c4", "", 7)),
)
NAMED = {f"account-{n:02}": 1.0 for n in range(30)}

TEXTS: dict[str, Callable[[], str]] = {
    "As before": lambda: _judged(numbered(86, 5), numbered(86, 5), max_drop=0.02),
    "A few got worse": lambda: _judged(numbered(85, 6), numbered(86, 5), max_drop=0.02),
    "Better": lambda: _judged(numbered(89, 2), numbered(86, 5), max_drop=0.02),
    "Worse, and below the minimum": lambda: _judged(
        numbered(54, 37), numbered(86, 5), max_drop=0.02, min=0.85
    ),
    "Worse, graded": lambda: _judged(GRADED | {f"q{n}": 0.4 for n in range(12)}, GRADED, max_drop=0.02),
    "Unsure": lambda: _judged(NAMED | dict.fromkeys(["account-03", "account-17"], 0.0), NAMED, max_drop=0.02),
    "Unsure, graded": lambda: _judged(GRADED | {"q3": 0.0, "q4": 0.2}, GRADED, max_drop=0.02),
    "Unsure, in one of fifty tests": lambda: _judged(
        numbered(24, 6), numbered(30, 0), max_drop=0.02, tests=50
    ),
    "Fifty tests, each a little worse": _suite,
    "A small set, and no model in the score": lambda: _judged(
        numbered(27, 3), numbered(30, 0), max_drop=0.02, tests=2, deterministic=True
    ),
    "A snapshot": lambda: _judged(numbered(29, 1), numbered(30, 0), policy="snapshot"),
    "A single question, over repeats": _repeated,
    "A release": lambda: _judged(numbered(200, 0), numbered(200, 0), max_drop=0.02, policy="release"),
    "A release that is not shown": lambda: _judged(
        numbered(198, 2), numbered(200, 0), max_drop=0.02, policy="release"
    ),
    "A release with too few questions": lambda: _judged(
        numbered(30, 0), numbered(30, 0), max_drop=0.02, policy="release"
    ),
    "Many updates, each a little worse": lambda: _judged(
        numbered(88, 12), lookup=TOTAL, max_drop=0.02, policy="total"
    ),
    "A minimum": lambda: _judged(numbered(25, 5), min=0.85),
    "A minimum that chance decides": _flipping,
    "A minimum, against the interval": lambda: _judged(numbered(25, 5), min=0.85, policy="interval"),
    "No baseline": lambda: _judged(numbered(86, 5), max_drop=0.02),
    "Too few questions, for a score with a model": lambda: _judged(
        numbered(3, 0),
        numbered(3, 0),
        score=Score("answer.em@5", score_of(numbered(3, 0)).outcomes),
        max_drop=0.02,
    ),
}


def _lines(text: str) -> list[str]:
    return [line for part in text.splitlines() for line in textwrap.wrap(part, WIDTH)]


@pytest.mark.parametrize("name", TEXTS)
def test_a_verdict_has_few_lines(name: str) -> None:
    assert len(_lines(TEXTS[name]())) <= MAX_LINES, TEXTS[name]()


def test_the_page_shows_these_texts() -> None:
    shown = "\n".join(
        f"{name}:\n\n```text\n{chr(10).join(_lines(text()))}\n```\n" for name, text in TEXTS.items()
    )
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    if UPDATE:
        PAGE.write_text(f"{before}{START}\n{shown}\n{END}{after}", encoding="utf-8")
    else:
        assert page == f"{before}{START}\n{shown}\n{END}{after}"
